//! Translates a `Sandbox` into a map of paths to mounts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::ops::Bound;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::system::{BIN_SIBLINGS, DIRECTORIES, ETC, MUTABLE_ETC};
use super::{Network, OverlayMount, PathMapping, RootMount, Sandbox};
use crate::error::SpawnError;
use crate::shim::MAX_FILE_SIZE;
use crate::wire::FileContent;

/// A tmpfs that is not accounted to any process.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// The names that every root knows.
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Maximum number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mount {
    /// A file or directory of the host, and its real path.
    Bind { source: PathBuf, real: PathBuf, access: Access },
    /// A file with its own content. Cheaper than a bind, for which `bwrap` re-reads the mount table each
    /// time.
    File(FileContent),
    /// Another root directory, mounted here, with its whole content.
    Root(PathBuf),
    /// A symbolic link.
    Link(PathBuf),
    /// An empty directory or file.
    Empty { directory: bool },
    /// The `/proc` of the sandbox's PID namespace.
    Proc,
    /// A minimal `/dev`.
    Dev,
}

/// Access to a bound path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
    /// Read; it is not an error if the path no longer exists.
    ReadIfExists,
}

/// The filesystem that a child sees, by path. Parents sort first, so that the most specific path wins.
#[derive(Debug, Default, Clone)]
pub(super) struct FilesystemView(BTreeMap<PathBuf, Mount>);

/// Rejects files without a known format: `bwrap` would run them through a shell.
pub(super) fn check_format(program: &Path) -> Result<(), SpawnError> {
    let mut start = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read(&mut start));
    match read {
        Ok(length) if !start[..length].starts_with(b"#!") && start != *b"\x7fELF" => {
            Err(SpawnError::BadFormat { path: program.to_owned() })
        }
        // An executable file may be unreadable; then exec decides.
        _ => Ok(()),
    }
}

impl FilesystemView {
    /// Iterates over paths and mounts, parents first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Mount)> {
        self.0.iter()
    }

    pub(super) fn build(
        sandbox: &Sandbox,
        program: &Path,
        search: Option<&OsStr>,
    ) -> Result<Self, SpawnError> {
        let mut view = match &sandbox.root {
            Some(root) => Self::of_root(root, sandbox.network),
            None => Self::clone(&Self::base(search)),
        };
        let hidden = HiddenPath::existing(&sandbox.hidden, sandbox.overlay.as_ref());
        // Hidden paths win over the base view, and lose to explicitly listed paths.
        view.hide(&hidden);
        for (list, access) in [(&sandbox.read_only, Access::Read), (&sandbox.writable, Access::Write)] {
            for mapping in list {
                view.map_path(mapping, access)?;
            }
        }
        for (path, content) in &sandbox.files {
            let unusable = |kind: std::io::ErrorKind| {
                Err(SpawnError::SandboxPath { path: path.clone(), source: kind.into() })
            };
            if !path.is_absolute() {
                return unusable(std::io::ErrorKind::InvalidInput);
            }
            if content.len() as u64 > MAX_FILE_SIZE {
                return unusable(std::io::ErrorKind::FileTooLarge);
            }
            view.0.insert(path.clone(), Mount::File(FileContent::Bytes(content.clone())));
        }
        if sandbox.root.is_none() || sandbox.host_program {
            view.add_program(program);
        }
        // Again, because a listed path may contain a hidden one.
        view.hide(&hidden);
        if let Some(root) = &sandbox.root {
            view.check_mount_points(root)?;
        }
        Ok(view)
    }

    /// Returns the base view of another root.
    fn of_root(root: &RootMount, network: Network) -> Self {
        let mut view = Self::default();
        view.0.insert("/".into(), Mount::Root(root.overlay.target.clone()));
        view.0.insert("/proc".into(), Mount::Proc);
        view.0.insert("/dev".into(), Mount::Dev);
        let is_link = |path: &str| {
            let found = root.layer_path(Path::new(path));
            found.and_then(|path| path.symlink_metadata().ok()).is_some_and(|found| found.is_symlink())
        };
        if network == Network::Shared && !is_link("/etc/resolv.conf") {
            view.bind_if_exists("/etc/resolv.conf".into(), Access::ReadIfExists);
        }
        if !is_link("/etc/hosts") {
            view.0.insert("/etc/hosts".into(), Mount::File(FileContent::Bytes(HOSTS.into())));
        }
        view
    }

    /// Rejects mount points below links of another root: `bwrap` would follow them, out of the root.
    fn check_mount_points(&self, root: &RootMount) -> Result<(), SpawnError> {
        for at in self.0.keys() {
            let link = at.ancestors().find(|above| {
                let found = root.layer_path(above).and_then(|path| path.symlink_metadata().ok());
                found.is_some_and(|found| found.is_symlink())
            });
            if link.is_some() {
                let source = std::io::Error::other("the root has a symbolic link there");
                return Err(SpawnError::SandboxPath { path: at.clone(), source });
            }
        }
        Ok(())
    }

    /// Returns whether the system is replaced by another root.
    pub(super) fn has_root(&self) -> bool {
        self.0.values().any(|mount| matches!(mount, Mount::Root(_)))
    }

    /// Returns the base view: the system, and the directories of this PATH. Cached, because building it takes
    /// longer than the rest of the view.
    fn base(search: Option<&OsStr>) -> Arc<Self> {
        static LAST: Mutex<Option<(OsString, Arc<FilesystemView>)>> = Mutex::new(None);
        let path = search.unwrap_or_default();
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, view)) = last.as_ref().filter(|(of, _)| of == path) {
            return view.clone();
        }
        let mut view = Self::default();
        view.add_system();
        view.add_tools(path);
        let view = Arc::new(view);
        *last = Some((path.to_owned(), view.clone()));
        view
    }

    fn add_system(&mut self) {
        for directory in DIRECTORIES.map(PathBuf::from) {
            match directory.symlink_metadata() {
                Ok(found) if found.is_symlink() => {
                    if let Ok(target) = directory.read_link() {
                        self.0.insert(directory, Mount::Link(target));
                    }
                }
                Ok(_) => self.bind_if_exists(directory, Access::ReadIfExists),
                Err(_) => {}
            }
        }
        for name in ETC {
            let path = Path::new("/etc").join(name);
            // Follows links: `resolv.conf` may link to a path that is not visible.
            let is_copied = |found: std::fs::Metadata| found.is_file() && found.len() <= MAX_FILE_SIZE;
            if path.metadata().is_ok_and(is_copied) && !MUTABLE_ETC.contains(&name) {
                self.0.insert(path.clone(), Mount::File(FileContent::HostFile(path)));
            } else {
                self.bind_if_exists(path, Access::ReadIfExists);
            }
        }
        self.0.insert("/proc".into(), Mount::Proc);
        self.0.insert("/dev".into(), Mount::Dev);
        self.0.insert("/tmp".into(), Mount::Empty { directory: true });
        self.0.insert("/var/tmp".into(), Mount::Link("/tmp".into()));
    }

    /// Adds the directories of PATH that are not part of the system.
    fn add_tools(&mut self, search: &OsStr) {
        let home = std::env::home_dir();
        let holds_home = |directory: &Path| home.as_ref().is_some_and(|home| home.starts_with(directory));
        for directory in std::env::split_paths(search) {
            if !directory.is_absolute() || !directory.is_dir() || holds_home(&directory) {
                continue;
            }
            if directory.file_name() == Some(OsStr::new("bin"))
                && let Some(parent) = directory.parent()
            {
                let siblings = BIN_SIBLINGS.map(|name| parent.join(name));
                for directory in siblings.into_iter().filter(|path| path.is_dir()) {
                    self.add_tool_directory(directory);
                }
            }
            self.add_tool_directory(directory);
        }
    }

    fn add_tool_directory(&mut self, directory: PathBuf) {
        if !self.is_visible(&directory) {
            self.bind_if_exists(directory, Access::ReadIfExists);
        }
    }

    fn map_path(&mut self, mapping: &PathMapping, access: Access) -> Result<(), SpawnError> {
        let unusable = |source| SpawnError::SandboxPath { path: mapping.source.clone(), source };
        let real = real(&mapping.source).map_err(unusable)?;
        if !mapping.path.is_absolute() {
            return Err(unusable(std::io::ErrorKind::InvalidInput.into()));
        }
        let is_covered = matches!(self.0.get(&mapping.path), Some(Mount::Empty { .. }));
        if access == Access::Read
            && mapping.source == mapping.path
            && !is_covered
            && self.is_visible(&mapping.path)
        {
            // A mount can't be placed on a link of the system; making its target visible is enough.
            if !self.is_visible(&real) {
                self.0.insert(real.clone(), Mount::Bind { source: real.clone(), real, access });
            }
            return Ok(());
        }
        self.0.insert(mapping.path.clone(), Mount::Bind { source: mapping.source.clone(), real, access });
        Ok(())
    }

    /// Adds the program under every link that leads to it, even inside a hidden directory.
    fn add_program(&mut self, program: &Path) {
        let mut path = program.to_owned();
        for _ in 0..MAX_LINKS {
            if self.0.contains_key(&path) || self.is_visible(&path) {
                return;
            }
            let Ok(target) = path.read_link() else {
                self.bind_if_exists(path, Access::Read);
                return;
            };
            let next = path.parent().unwrap_or(Path::new("/")).join(&target);
            self.0.insert(path, Mount::Link(target));
            path = normalize(&next);
        }
    }

    /// Binds a path to itself, if it exists.
    fn bind_if_exists(&mut self, path: PathBuf, access: Access) {
        if let Ok(real) = real(&path) {
            self.0.insert(path.clone(), Mount::Bind { source: path, real, access });
        }
    }

    /// Covers hidden paths wherever a bind would make them visible, under any name.
    fn hide(&mut self, hidden: &[HiddenPath<'_>]) {
        let mut covers = Vec::new();
        for HiddenPath { path, real, directory } in hidden {
            // Also protects the parents of visible paths inside it, even below a writable `/tmp`.
            if path.is_absolute() && self.has_descendant(path) {
                covers.push((path.to_path_buf(), Mount::Empty { directory: true }));
            }
            for (at, mount) in &self.0 {
                if let Mount::Bind { real: source, .. } = mount
                    // Both are real paths; comparing bytes first avoids most of the component-wise
                    // comparisons.
                    && real.as_os_str().as_bytes().starts_with(source.as_os_str().as_bytes())
                    && let Ok(below) = real.strip_prefix(source)
                    && !below.as_os_str().is_empty()
                {
                    covers.push((at.join(below), Mount::Empty { directory: *directory }));
                }
            }
        }
        for (at, mount) in covers {
            self.0.entry(at).or_insert(mount);
        }
    }

    /// Returns whether a mount exists below the path; it would sort next.
    fn has_descendant(&self, path: &Path) -> bool {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        self.0.range::<Path, _>(after).next().is_some_and(|(at, _)| at.starts_with(path))
    }

    /// Returns whether the child can open the path.
    pub(super) fn is_visible(&self, path: &Path) -> bool {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let nearest = path.ancestors().find_map(|above| self.0.get(above).map(|mount| (above, mount)));
            match nearest {
                Some((_, Mount::Root(_))) => return false,
                Some((above, Mount::Empty { .. })) => return above == path,
                // The sandbox has its own `/dev/shm`.
                Some((_, Mount::Dev)) => return !path.starts_with(SHARED_MEMORY),
                Some((above, Mount::Link(target))) => {
                    let below = path.strip_prefix(above).unwrap_or(Path::new(""));
                    let from = above.parent().unwrap_or(Path::new("/"));
                    path = normalize(&from.join(target).join(below));
                }
                Some(_) => return true,
                None => return false,
            }
        }
        false
    }
}

/// A hidden path that exists.
struct HiddenPath<'a> {
    path: &'a Path,
    real: PathBuf,
    directory: bool,
}

impl<'a> HiddenPath<'a> {
    fn existing(paths: &'a [PathBuf], overlay: Option<&OverlayMount>) -> Vec<Self> {
        let existing_paths = paths.iter().filter_map(|path| {
            // Outside of the sandbox, the target of an overlay is empty.
            if let Some(overlay) = overlay.filter(|overlay| path.starts_with(&overlay.target)) {
                let directory = overlay.resolve(path)?.is_dir();
                let below = path.strip_prefix(&overlay.target).ok()?;
                return Some(Self { path, real: real(&overlay.target).ok()?.join(below), directory });
            }
            let real = real(path).ok()?;
            Some(Self { path, directory: real.is_dir(), real })
        });
        existing_paths.collect()
    }
}

/// Returns the real path, from `/proc` if available.
fn real(path: &Path) -> std::io::Result<PathBuf> {
    use rustix::fs::{Mode, OFlags, open, readlink};
    let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match readlink(format!("/proc/self/fd/{}", opened.as_raw_fd()), Vec::new()) {
        Ok(real) => Ok(OsString::from_vec(real.into_bytes()).into()),
        Err(_) => path.canonicalize(),
    }
}

/// Removes `.` and `..` components; preceding links have already been followed.
fn normalize(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(clean.pop()),
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sandbox: &Sandbox, search: &str) -> FilesystemView {
        FilesystemView::build(sandbox, Path::new("/bin/sh"), Some(OsStr::new(search))).unwrap()
    }

    #[test]
    fn most_specific_path_wins() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (all, secret, work, tools) = (at("all"), at("all/secret"), at("all/secret/work"), at("all/bin"));
        let sandbox = Sandbox::new().read_only(&all).hidden(&secret).writable(&work);
        let view = view(&sandbox, tools.to_str().unwrap());
        for (path, visible) in
            [(&all, true), (&all.join("x"), true), (&secret.join("x"), false), (&work, true)]
        {
            assert_eq!(view.is_visible(path), visible, "{}", path.display());
        }
        assert!(!view.is_visible(dir.path()) && !view.is_visible(Path::new("/etc/shadow")));
        let mut argv = Vec::new();
        super::super::bubblewrap::mounts(&view, &mut argv, None);
        let position = |path: &Path| argv.iter().position(|arg| arg == path.as_os_str()).unwrap();
        assert!(position(&all) < position(&secret) && position(&secret) < position(&work));
        assert_eq!(argv[position(&work) - 1], "--bind");
        assert_eq!(argv[position(&secret) - 1], "--tmpfs");
    }

    #[test]
    fn hidden_path_is_hidden_under_every_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("real/secret")).unwrap();
        std::fs::write(dir.path().join("real/key"), "k").unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("alias")).unwrap();
        let alias = dir.path().join("alias");
        let hidden = [dir.path().join("real/secret"), dir.path().join("real/key")];
        let sandbox = hidden.iter().fold(Sandbox::new().read_only(&alias), Sandbox::hidden);
        let view = view(&sandbox, "");
        assert!(view.is_visible(&alias));
        assert!(!view.is_visible(&alias.join("secret/x")));
        assert_eq!(view.0[&alias.join("key")], Mount::Empty { directory: false });
    }

    #[test]
    fn program_is_visible_under_every_link_without_its_siblings() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("lib/program");
        std::fs::create_dir_all(real.parent().unwrap()).unwrap();
        std::fs::write(&real, "#!/bin/sh\n").unwrap();
        let link = dir.path().join("program");
        std::os::unix::fs::symlink("./lib/../lib/program", &link).unwrap();
        let view = FilesystemView::build(&Sandbox::new().hidden(dir.path()), &link, None).unwrap();
        assert!(view.is_visible(&link) && view.is_visible(&real));
        assert!(!view.is_visible(&dir.path().join("lib/other")));
        assert_eq!(view.0[&link], Mount::Link("./lib/../lib/program".into()));
    }

    /// For example `/usr/lib/ssl/cert.pem`, which cargo sets as `SSL_CERT_FILE`: `bwrap` can't mount over a
    /// link.
    #[test]
    fn visible_link_is_not_mounted_over() {
        let dir = tempfile::tempdir().unwrap();
        let (mapping, other) = (dir.path().join("mapping"), dir.path().join("other"));
        std::fs::create_dir_all(&mapping).unwrap();
        std::fs::write(&other, "").unwrap();
        let link = mapping.join("link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let view = view(&Sandbox::new().read_only(&mapping).read_only(&link), "");
        let other = other.canonicalize().unwrap();
        assert!(!view.0.contains_key(&link) && view.0.contains_key(&other), "{view:?}");
    }

    #[test]
    fn devices_are_visible_and_shared_memory_must_be_listed() {
        let dir = tempfile::tempdir_in(SHARED_MEMORY).unwrap();
        assert!(!view(&Sandbox::new(), "").is_visible(dir.path()));
        let view = view(&Sandbox::new().read_only(dir.path()).read_only("/dev/null"), "");
        assert!(view.0.contains_key(dir.path()) && !view.0.contains_key(Path::new("/dev/null")), "{view:?}");
    }

    #[test]
    fn path_entry_that_contains_home_is_not_visible() {
        let home = std::env::home_dir().unwrap();
        let search = format!("{}:/", home.display());
        assert!(!view(&Sandbox::new(), &search).is_visible(&home));
    }

    #[test]
    fn file_without_known_format_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for (content, accepted) in
            [("echo x\n", false), ("", false), ("#!/bin/sh\n", true), ("\x7fELF\0", true)]
        {
            let path = dir.path().join("program");
            std::fs::write(&path, content).unwrap();
            assert_eq!(check_format(&path).is_ok(), accepted, "{content:?}");
        }
    }
}
