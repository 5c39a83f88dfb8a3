//! One installation: npm works in a sibling of the folder, and a finished one gets its name.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_supervise::{CancellationToken, Command, End, Launch};

use super::{CliSpec, MANIFEST, Manifest, Tool, ToolError, Tools};

/// How long npm may take; a slow network needs minutes for hundreds of megabytes.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
const POLL: Duration = Duration::from_millis(200);
/// How much of npm's words goes into an error.
const WORDS: usize = 1000;

/// What npm needs of the user's environment to find its registry, its cache and its way out.
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
    /// An installer with this environment, of which npm gets what it needs.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self { env, shim: None, cancellation: CancellationToken::new(), patience: DEADLINE }
    }

    /// The program that contains npm; by default the running one.
    pub fn shim(mut self, program: impl Into<PathBuf>) -> Self {
        self.shim = Some(program.into());
        self
    }

    /// Ends npm when this is cancelled.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// How long to wait for another process that installs the same.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether there is an npm to install with.
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

    /// The program, installed now unless it is there already.
    ///
    /// # Errors
    /// When it is not there afterwards; nothing half made is left under its name.
    pub async fn install(&self, tools: &Tools, spec: &CliSpec) -> Result<Tool, ToolError> {
        if let Ok(tool) = tools.find(spec.cli.name, &spec.version) {
            return Ok(tool);
        }
        let npm = self.npm().ok_or_else(|| ToolError::NoNpm { spec: spec.clone() })?;
        let prefix = tools.prefix(spec);
        let family = tools.root.join(spec.cli.name);
        std::fs::create_dir_all(&family).map_err(ToolError::io("make the directory", &family))?;
        let _lock = self.lock(&family, spec).await?;
        // Whoever had the lock may have done it.
        if let Ok(tool) = tools.find(spec.cli.name, &spec.version) {
            return Ok(tool);
        }
        let half = family.join(format!(".{}.part", spec.version));
        remove(&half)?;
        let made = self.fill(&npm, &half, spec).await;
        let placed = made.and_then(|()| {
            remove(&prefix)?;
            std::fs::rename(&half, &prefix).map_err(ToolError::io("name", &prefix))
        });
        if placed.is_err() {
            let _ = std::fs::remove_dir_all(&half);
        }
        placed?;
        tools.find(spec.cli.name, &spec.version)
    }

    /// Only one process installs a version. Its end, also a violent one, lets go.
    async fn lock(&self, family: &Path, spec: &CliSpec) -> Result<File, ToolError> {
        let path = family.join(format!(".{}.lock", spec.version));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(ToolError::io("open", &path))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < self.patience => {
                    tokio::time::sleep(POLL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(ToolError::Busy {
                        spec: spec.clone(),
                        minutes: self.patience.as_secs() / 60,
                    });
                }
                Err(TryLockError::Error(error)) => return Err(ToolError::io("lock", path)(error)),
            }
        }
    }

    async fn fill(&self, npm: &Path, half: &Path, spec: &CliSpec) -> Result<(), ToolError> {
        std::fs::create_dir(half).map_err(ToolError::io("make the directory", half))?;
        // Without it npm would look for a project further up.
        let project = half.join("package.json");
        std::fs::write(&project, "{ \"private\": true }\n").map_err(ToolError::io("write", &project))?;
        self.npm_install(npm, half, spec).await?;
        let package = half.join("node_modules").join(spec.cli.package).join("package.json");
        let said = std::fs::read_to_string(&package).ok();
        let said: Option<Value> = said.and_then(|text| serde_json::from_str(&text).ok());
        let version = said.as_ref().and_then(|said| said["version"].as_str());
        if version != Some(&spec.version) {
            let reason = format!("it installed version {} instead", version.unwrap_or("unknown"));
            return Err(ToolError::Npm { spec: spec.clone(), reason });
        }
        let manifest = Manifest {
            name: spec.cli.name.to_owned(),
            version: spec.version.clone(),
            package: spec.cli.package.to_owned(),
        };
        let text = serde_json::to_string(&manifest).unwrap_or_default();
        let path = half.join(MANIFEST);
        std::fs::write(&path, text).map_err(ToolError::io("write", path))
    }

    async fn npm_install(&self, npm: &Path, half: &Path, spec: &CliSpec) -> Result<(), ToolError> {
        let own = |name: &str| PASSED.contains(&name) || name.to_ascii_lowercase().starts_with("npm_config_");
        let scripts = if spec.cli.scripts { "--ignore-scripts=false" } else { "--ignore-scripts" };
        let mut command = Command::new(npm)
            .args(["install", scripts, "--no-audit", "--no-fund", "--loglevel=error", "--save-exact"])
            .arg(format!("{}@{}", spec.cli.package, spec.version))
            .current_dir(half)
            .envs(self.env.iter().filter(|(name, _)| own(name)))
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
        let words =
            report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
        let words = words.trim();
        let kept = &words[words.ceil_char_boundary(words.len().saturating_sub(WORDS))..];
        let reason =
            if kept.is_empty() { report.end.to_string() } else { format!("it {}: {kept}", report.end) };
        Err(ToolError::Npm { spec: spec.clone(), reason })
    }
}

fn remove(path: &Path) -> Result<(), ToolError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ToolError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
