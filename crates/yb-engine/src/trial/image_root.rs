//! The root directory of a case with an `environment`: what it is, who runs in it, and the layers of a trial above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::attempt_dirs::AttemptDirs;
use super::{Runner, StartPoint, TrialError};
use yb_agents::OtherRoot;
use yb_case::{Case, RootSource, Start, with_environment};
use yb_evaluate::GraderRoot;
use yb_repo::Workspace;
use yb_supervise::{OverlayMount, RootMount};

/// The PATH of a root that sets none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The directory of images in the cache.
const IMAGES: &str = "images";
/// The settings of apt in a root.
const APT: &str = "etc/apt/apt.conf.d";
/// Directories that exist in every root.
const LOG_DIRS: [&str; 3] = ["logs/agent", "logs/verifier", "logs/artifacts"];

/// A root that is ready to be used.
#[derive(Debug, Clone)]
pub(crate) struct RootSpec {
    /// The directory, which nothing changes.
    rootfs: PathBuf,
    env: BTreeMap<String, String>,
    workdir: PathBuf,
    uid: u32,
    gid: u32,
    /// Whether the workspace is the working directory of the root.
    has_workspace: bool,
}

impl Runner {
    /// Finds, pulls or builds the root of a case.
    pub(super) async fn root_spec(&self, case: &Case, cache: &Path) -> Result<Option<RootSpec>, TrialError> {
        let Some(environment) = &case.environment else { return Ok(None) };
        let image = match &environment.root {
            RootSource::Rootfs(path) => yb_image::Image::of_directory(path),
            RootSource::Image(name) => {
                let store = yb_image::ImageStore::new(&cache.join(IMAGES), self.hosts);
                store.image(name).await.map_err(|error| TrialError::root(&error))?
            }
            RootSource::Dockerfile(path) => {
                let store = yb_image::ImageStore::new(&cache.join(IMAGES), self.hosts);
                let mut options = yb_image::BuildOptions::default();
                options.shim.clone_from(&self.shim);
                options.cancel = self.stop.token().clone();
                store.build(path, &options).await.map_err(|error| TrialError::root(&error))?
            }
        };
        let mut env: BTreeMap<String, String> = image.config.env.iter().cloned().collect();
        env.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
        for variable in &environment.env {
            let unset = |name: String| TrialError::NoVariable { name };
            let given = |name: &str| self.env.get(name).cloned();
            let value = match &variable.value {
                Some(value) => with_environment(value, given).map_err(unset)?,
                None => given(&variable.name).ok_or_else(|| unset(variable.name.clone()))?,
            };
            env.insert(variable.name.clone(), value);
        }
        let user = environment.user.as_deref().unwrap_or(&image.config.user);
        let user = yb_image::find_user(&image.rootfs, user).map_err(|error| TrialError::root(&error))?;
        env.entry("HOME".to_owned()).or_insert(user.home);
        let workdir = environment.workdir.clone().unwrap_or_else(|| image.config.workdir.clone());
        Ok(Some(RootSpec {
            rootfs: image.rootfs,
            env,
            workdir: if workdir.is_empty() { "/".into() } else { workdir.into() },
            uid: user.uid,
            gid: user.gid,
            has_workspace: case.start == Start::Image,
        }))
    }
}

impl RootSpec {
    /// Returns what identifies the root: the path of an image in the cache has its digest.
    pub(super) fn key(&self) -> String {
        let Self { rootfs, env, workdir, uid, gid, .. } = self;
        format!("{} {env:?} {} {uid}:{gid}", rootfs.display(), workdir.display())
    }

    /// Creates the layers of a trial.
    pub(super) fn create(&self, dirs: &AttemptDirs) -> Result<OtherRoot, TrialError> {
        let layer = &dirs.root_layer;
        let overlay = OverlayMount::new(
            &self.rootfs,
            layer.join(yb_repo::UPPER_DIR),
            layer.join(yb_repo::WORK_DIR),
            layer.join("root"),
        );
        for directory in [&overlay.upper, &overlay.work, &overlay.target] {
            fs::create_dir_all(directory).map_err(TrialError::io(directory))?;
        }
        copy_mode(&self.rootfs, &overlay.upper)?;
        for directory in LOG_DIRS {
            self.create_dir(&overlay.upper, Path::new(directory))?;
        }
        if self.rootfs.join(APT).is_dir() {
            self.create_dir(&overlay.upper, Path::new(APT))?;
            let settings = overlay.upper.join(APT).join("00youbencha");
            fs::write(&settings, yb_image::APT_SETTINGS).map_err(TrialError::io(&settings))?;
        }
        if self.has_workspace {
            self.create_dir(&overlay.upper, self.relative_workdir())?;
        }
        Ok(OtherRoot {
            mount: RootMount::new(overlay).user(self.uid, self.gid),
            env: self.env.clone(),
            workdir: self.has_workspace.then(|| self.workdir.clone()),
        })
    }

    /// Creates a directory in the upper layer, with the modes of those below it.
    fn create_dir(&self, upper: &Path, directory: &Path) -> Result<(), TrialError> {
        let mut at = PathBuf::new();
        for part in directory.components() {
            at.push(part);
            let (below, above) = (self.rootfs.join(&at), upper.join(&at));
            let found = fs::symlink_metadata(&below).ok();
            if found.as_ref().is_some_and(|found| !found.is_dir()) {
                let reason = format!("not a directory in the root: `/{}`", at.display());
                return Err(TrialError::root_with_hint(reason, "set `environment.workdir` to the real path"));
            }
            if !above.is_dir() {
                fs::create_dir(&above).map_err(TrialError::io(&above))?;
                if found.is_some() {
                    copy_mode(&below, &above)?;
                }
            }
        }
        Ok(())
    }

    fn relative_workdir(&self) -> &Path {
        self.workdir.strip_prefix("/").unwrap_or(&self.workdir)
    }

    /// Returns the workspace in the root: the working directory, of which the upper layer has the changes.
    pub(super) fn workspace(
        &self,
        root: &OtherRoot,
        start: &StartPoint,
        dirs: &AttemptDirs,
    ) -> Result<Workspace, TrialError> {
        let relative = self.relative_workdir();
        let mut lower = self.rootfs.join(relative);
        // The whole root is not the start tree of a task, and is too large for one: only what the agent changes counts.
        if relative.as_os_str().is_empty() || !lower.is_dir() {
            lower = dirs.root_layer.join("empty");
            fs::create_dir_all(&lower).map_err(TrialError::io(&lower))?;
        }
        let overlay = &root.mount.overlay;
        let overlay = OverlayMount::new(
            lower,
            overlay.upper.join(relative),
            overlay.work.clone(),
            self.workdir.clone(),
        );
        Ok(start.cut.workspace_in_root(overlay))
    }

    /// Returns the root for grading, with what a trial changed in it.
    pub(super) fn for_grading(&self, dirs: Option<&AttemptDirs>) -> GraderRoot {
        let upper = dirs.map(|dirs| dirs.root_layer.join(yb_repo::UPPER_DIR)).filter(|upper| upper.is_dir());
        GraderRoot {
            rootfs: self.rootfs.clone(),
            upper,
            env: self.env.clone(),
            workdir: self.workdir.clone(),
            has_workspace: self.has_workspace,
            uid: self.uid,
            gid: self.gid,
        }
    }
}

fn copy_mode(from: &Path, to: &Path) -> Result<(), TrialError> {
    let mode = fs::metadata(from).map_err(TrialError::io(from))?.permissions();
    fs::set_permissions(to, mode).map_err(TrialError::io(to))
}
