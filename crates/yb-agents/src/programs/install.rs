//! Installs one program: npm works in a sibling folder, which is renamed when it is complete.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_supervise::{CancellationToken, Command, End, Launch};

use super::{InstalledProgram, MANIFEST, Manifest, PinnedProgram, ProgramError, ProgramStore};

/// Deadline of npm: hundreds of megabytes take minutes on a slow network.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
const POLL: Duration = Duration::from_millis(200);
/// The most bytes of npm's output in an error.
const MAX_OUTPUT: usize = 1000;

/// Variables of the user that npm needs to find its registry, its cache and its proxy.
const PASSED: [&str; 13] = [
    "PATH",
    "HOME",
    "USERPROFILE",
    "APPDATA",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "XDG_CACHE_HOME",
];

/// Installs programs with npm.
#[derive(Clone)]
#[must_use]
pub struct Installer {
    env: BTreeMap<String, String>,
    shim: Option<PathBuf>,
    cancellation: CancellationToken,
    patience: Duration,
}

impl Installer {
    /// An installer with this environment; npm gets the part that it needs.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self { env, shim: None, cancellation: CancellationToken::new(), patience: DEADLINE }
    }

    /// Sets the shim program; the default is the running program.
    pub fn shim(mut self, program: impl Into<PathBuf>) -> Self {
        self.shim = Some(program.into());
        self
    }

    /// Stops npm when the token is cancelled.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets how long to wait for another process that installs the same version.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether npm is on `PATH`.
    #[must_use]
    pub fn has_npm(&self) -> bool {
        self.npm().is_some()
    }

    fn npm(&self) -> Option<PathBuf> {
        let name = if cfg!(windows) { "npm.cmd" } else { "npm" };
        let path = self.env.get("PATH")?;
        std::env::split_paths(path)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(name))
            .find(|npm| npm.is_file())
    }

    /// Installs a program unless it is installed already.
    ///
    /// # Errors
    /// If the installation fails; no incomplete folder is left under the version's name.
    pub async fn install(
        &self,
        store: &ProgramStore,
        program: &PinnedProgram,
    ) -> Result<InstalledProgram, ProgramError> {
        if let Ok(installed) = store.find(program.agent, &program.version) {
            return Ok(installed);
        }
        let npm = self.npm().ok_or_else(|| ProgramError::NoNpm { program: program.clone() })?;
        let prefix = store.prefix(program);
        let family = store.root.join(program.agent.name);
        std::fs::create_dir_all(&family).map_err(ProgramError::io("make the directory", &family))?;
        let _lock = self.lock(&family, program).await?;
        // The previous holder of the lock may have installed it.
        if let Ok(installed) = store.find(program.agent, &program.version) {
            return Ok(installed);
        }
        let partial = family.join(format!(".{}.part", program.version));
        remove(&partial)?;
        let filled = self.fill(&npm, &partial, program).await;
        let renamed = filled.and_then(|()| {
            remove(&prefix)?;
            std::fs::rename(&partial, &prefix).map_err(ProgramError::io("name", &prefix))
        });
        if renamed.is_err() {
            let _ = std::fs::remove_dir_all(&partial);
        }
        renamed?;
        store.find(program.agent, &program.version)
    }

    /// Locks a version. The lock ends with the process, however it ends.
    async fn lock(&self, family: &Path, program: &PinnedProgram) -> Result<File, ProgramError> {
        let path = family.join(format!(".{}.lock", program.version));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(ProgramError::io("open", &path))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < self.patience => {
                    tokio::time::sleep(POLL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(ProgramError::Busy {
                        program: program.clone(),
                        minutes: self.patience.as_secs() / 60,
                    });
                }
                Err(TryLockError::Error(error)) => return Err(ProgramError::io("lock", path)(error)),
            }
        }
    }

    async fn fill(&self, npm: &Path, partial: &Path, program: &PinnedProgram) -> Result<(), ProgramError> {
        std::fs::create_dir(partial).map_err(ProgramError::io("make the directory", partial))?;
        // Without a `package.json`, npm would use a project in a parent directory.
        let project = partial.join("package.json");
        std::fs::write(&project, "{ \"private\": true }\n").map_err(ProgramError::io("write", &project))?;
        self.npm_install(npm, partial, program).await?;
        let package = partial.join("node_modules").join(program.npm.package).join("package.json");
        let manifest = std::fs::read_to_string(&package).ok();
        let manifest: Option<Value> = manifest.and_then(|text| serde_json::from_str(&text).ok());
        let version = manifest.as_ref().and_then(|manifest| manifest["version"].as_str());
        if version != Some(program.version.as_str()) {
            let reason = format!("it installed version {} instead", version.unwrap_or("unknown"));
            return Err(ProgramError::Npm { program: program.clone(), reason });
        }
        let manifest = Manifest {
            name: program.agent.name.to_owned(),
            version: program.version.clone(),
            package: program.npm.package.to_owned(),
        };
        let text = serde_json::to_string(&manifest).unwrap_or_default();
        let path = partial.join(MANIFEST);
        std::fs::write(&path, text).map_err(ProgramError::io("write", path))
    }

    async fn npm_install(
        &self,
        npm: &Path,
        partial: &Path,
        program: &PinnedProgram,
    ) -> Result<(), ProgramError> {
        let passed =
            |name: &str| PASSED.contains(&name) || name.to_ascii_lowercase().starts_with("npm_config_");
        let scripts = if program.npm.install_scripts { "--ignore-scripts=false" } else { "--ignore-scripts" };
        let mut command = Command::new(npm)
            .args(["install", scripts, "--no-audit", "--no-fund", "--loglevel=error", "--save-exact"])
            .arg(format!("{}@{}", program.npm.package, program.version))
            .current_dir(partial)
            .envs(self.env.iter().filter(|(name, _)| passed(name)))
            .launch(Launch::Contained)
            .cancel_on(self.cancellation.clone())
            .deadline(DEADLINE);
        if let Some(shim) = &self.shim {
            command = command.shim(shim);
        }
        let report = command.run().await;
        if matches!(report.end, End::Exited { code: 0 }) {
            return Ok(());
        }
        let output =
            report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
        let output = output.trim();
        let kept = &output[output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT))..];
        let reason =
            if kept.is_empty() { report.end.to_string() } else { format!("it {}: {kept}", report.end) };
        Err(ProgramError::Npm { program: program.clone(), reason })
    }
}

fn remove(path: &Path) -> Result<(), ProgramError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ProgramError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
