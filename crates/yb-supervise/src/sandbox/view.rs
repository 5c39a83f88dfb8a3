//! From a `Sandbox` to what is at which path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::ops::Bound;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::system::{BESIDE_BIN, CHANGING, DIRECTORIES, ETC};
use super::{Sandbox, Shown};
use crate::error::SpawnError;
use crate::shim::LARGEST_FILE;
use crate::wire::Content;

/// What is written there is memory that no process has.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// How many links in a row are followed, as the kernel does.
const LINKS: usize = 40;

/// What is at one path of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mount {
    /// A file or directory of the host, and where that really is.
    Bind { source: PathBuf, real: PathBuf, access: Access },
    /// A file of its own. `bwrap` reads the list of all mounts for each that it makes, and for a file it makes none.
    File(Content),
    /// A link.
    Link(PathBuf),
    /// An empty directory, or an empty file.
    Nothing { directory: bool },
    /// Its own processes.
    Proc,
    /// The devices that are none.
    Dev,
}

/// What may be done with what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
    /// Read, and that it is gone by now is no error.
    ReadIfThere,
}

/// Everything that a child sees, by path: parents come first, so that the nearest name wins.
#[derive(Debug, Default, Clone)]
pub(super) struct View(BTreeMap<PathBuf, Mount>);

/// `bwrap` would try a shell on what has no format; we start none that nobody asked for.
pub(super) fn check_format(program: &Path) -> Result<(), SpawnError> {
    let mut start = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read(&mut start));
    match read {
        Ok(length) if !start[..length].starts_with(b"#!") && start != *b"\x7fELF" => {
            Err(SpawnError::BadFormat { path: program.to_owned() })
        }
        // What may be executed may still not be read; then the system decides.
        _ => Ok(()),
    }
}

impl View {
    /// What is at which path, parents first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Mount)> {
        self.0.iter()
    }

    pub(super) fn of(sandbox: &Sandbox, program: &Path, search: Option<&OsStr>) -> Result<Self, SpawnError> {
        let mut view = Self::clone(&Self::unasked(search));
        let hidden = Hidden::all(&sandbox.hidden);
        // What is hidden wins over what nobody named, and loses against what somebody did.
        view.hide(&hidden);
        for (list, access) in [(&sandbox.read_only, Access::Read), (&sandbox.writable, Access::Write)] {
            for shown in list {
                view.declare(shown, access)?;
            }
        }
        for (path, content) in &sandbox.files {
            let unusable = |kind: std::io::ErrorKind| {
                Err(SpawnError::SandboxPath { path: path.clone(), source: kind.into() })
            };
            if !path.is_absolute() {
                return unusable(std::io::ErrorKind::InvalidInput);
            }
            if content.len() as u64 > LARGEST_FILE {
                return unusable(std::io::ErrorKind::FileTooLarge);
            }
            view.0.insert(path.clone(), Mount::File(Content::Given(content.clone())));
        }
        view.program(program);
        // Once more: what was declared may contain what is to be hidden.
        view.hide(&hidden);
        Ok(view)
    }

    /// What is shown without being named: the system, and what this PATH leads to. It is looked up once in the life of
    /// the process, because that takes longer than all the rest of a view.
    fn unasked(search: Option<&OsStr>) -> Arc<Self> {
        static LAST: Mutex<Option<(OsString, Arc<View>)>> = Mutex::new(None);
        let path = search.unwrap_or_default();
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, view)) = last.as_ref().filter(|(of, _)| of == path) {
            return view.clone();
        }
        let mut view = Self::default();
        view.system();
        view.tools(path);
        let view = Arc::new(view);
        *last = Some((path.to_owned(), view.clone()));
        view
    }

    fn system(&mut self) {
        for directory in DIRECTORIES.map(PathBuf::from) {
            match directory.symlink_metadata() {
                Ok(found) if found.is_symlink() => {
                    if let Ok(target) = directory.read_link() {
                        self.0.insert(directory, Mount::Link(target));
                    }
                }
                Ok(_) => self.bind_if_there(directory, Access::ReadIfThere),
                Err(_) => {}
            }
        }
        for name in ETC {
            let path = Path::new("/etc").join(name);
            // Followed: the resolver's file is a link to where nothing is shown.
            let is_copied = |found: std::fs::Metadata| found.is_file() && found.len() <= LARGEST_FILE;
            if path.metadata().is_ok_and(is_copied) && !CHANGING.contains(&name) {
                self.0.insert(path.clone(), Mount::File(Content::Of(path)));
            } else {
                self.bind_if_there(path, Access::ReadIfThere);
            }
        }
        self.0.insert("/proc".into(), Mount::Proc);
        self.0.insert("/dev".into(), Mount::Dev);
        self.0.insert("/tmp".into(), Mount::Nothing { directory: true });
        self.0.insert("/var/tmp".into(), Mount::Link("/tmp".into()));
    }

    /// What PATH names and is not the system's.
    fn tools(&mut self, search: &OsStr) {
        let home = std::env::home_dir();
        let holds_home = |directory: &Path| home.as_ref().is_some_and(|home| home.starts_with(directory));
        for directory in std::env::split_paths(search) {
            if !directory.is_absolute() || !directory.is_dir() || holds_home(&directory) {
                continue;
            }
            if directory.file_name() == Some(OsStr::new("bin"))
                && let Some(parent) = directory.parent()
            {
                let beside = BESIDE_BIN.map(|name| parent.join(name));
                for directory in beside.into_iter().filter(|path| path.is_dir()) {
                    self.show_tool(directory);
                }
            }
            self.show_tool(directory);
        }
    }

    fn show_tool(&mut self, directory: PathBuf) {
        if !self.shows(&directory) {
            self.bind_if_there(directory, Access::ReadIfThere);
        }
    }

    fn declare(&mut self, shown: &Shown, access: Access) -> Result<(), SpawnError> {
        let unusable = |source| SpawnError::SandboxPath { path: shown.source.clone(), source };
        let real = real(&shown.source).map_err(unusable)?;
        if !shown.path.is_absolute() {
            return Err(unusable(std::io::ErrorKind::InvalidInput.into()));
        }
        let is_covered = matches!(self.0.get(&shown.path), Some(Mount::Nothing { .. }));
        if access == Access::Read && shown.source == shown.path && !is_covered && self.shows(&shown.path) {
            // Nothing can be put where the system has a link; it is enough that what it leads to is there.
            if !self.shows(&real) {
                self.0.insert(real.clone(), Mount::Bind { source: real.clone(), real, access });
            }
            return Ok(());
        }
        self.0.insert(shown.path.clone(), Mount::Bind { source: shown.source.clone(), real, access });
        Ok(())
    }

    /// The program under every name that leads to it, whatever hides the directory that it is in.
    fn program(&mut self, program: &Path) {
        let mut path = program.to_owned();
        for _ in 0..LINKS {
            if self.0.contains_key(&path) || self.shows(&path) {
                return;
            }
            let Ok(target) = path.read_link() else {
                self.bind_if_there(path, Access::Read);
                return;
            };
            let next = path.parent().unwrap_or(Path::new("/")).join(&target);
            self.0.insert(path, Mount::Link(target));
            path = without_dots(&next);
        }
    }

    /// Shows what is there under its own name.
    fn bind_if_there(&mut self, path: PathBuf, access: Access) {
        if let Ok(real) = real(&path) {
            self.0.insert(path.clone(), Mount::Bind { source: path, real, access });
        }
    }

    /// Covers what is to be hidden wherever a bind would show it, under whatever name.
    fn hide(&mut self, hidden: &[Hidden<'_>]) {
        let mut covers = Vec::new();
        for Hidden { path, real, directory } in hidden {
            // The way to what is shown within can't be changed either, even where `/tmp` can.
            if path.is_absolute() && self.has_below(path) {
                covers.push((path.to_path_buf(), Mount::Nothing { directory: true }));
            }
            for (at, mount) in &self.0 {
                if let Mount::Bind { real: source, .. } = mount
                    // Both are as the kernel spells them: this sorts most of them out without taking paths apart.
                    && real.as_os_str().as_bytes().starts_with(source.as_os_str().as_bytes())
                    && let Ok(below) = real.strip_prefix(source)
                    && !below.as_os_str().is_empty()
                {
                    covers.push((at.join(below), Mount::Nothing { directory: *directory }));
                }
            }
        }
        for (at, mount) in covers {
            self.0.entry(at).or_insert(mount);
        }
    }

    /// Whether anything is at a path below this one: it would come next.
    fn has_below(&self, path: &Path) -> bool {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        self.0.range::<Path, _>(after).next().is_some_and(|(at, _)| at.starts_with(path))
    }

    /// Whether the path is one that the child can open.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let nearest = path.ancestors().find_map(|above| self.0.get(above).map(|mount| (above, mount)));
            match nearest {
                Some((above, Mount::Nothing { .. })) => return above == path,
                // Its shared memory is its own.
                Some((_, Mount::Dev)) => return !path.starts_with(SHARED_MEMORY),
                Some((above, Mount::Link(target))) => {
                    let below = path.strip_prefix(above).unwrap_or(Path::new(""));
                    let from = above.parent().unwrap_or(Path::new("/"));
                    path = without_dots(&from.join(target).join(below));
                }
                Some(_) => return true,
                None => return false,
            }
        }
        false
    }
}

/// What is to be hidden, and is there.
struct Hidden<'a> {
    path: &'a Path,
    real: PathBuf,
    directory: bool,
}

impl<'a> Hidden<'a> {
    fn all(paths: &'a [PathBuf]) -> Vec<Self> {
        let there = paths.iter().filter_map(|path| {
            let real = real(path).ok()?;
            Some(Self { path, directory: real.is_dir(), real })
        });
        there.collect()
    }
}

/// Where a path leads. The kernel knows that of what it has opened; without `/proc`, each part is looked at.
fn real(path: &Path) -> std::io::Result<PathBuf> {
    use rustix::fs::{Mode, OFlags, open, readlink};
    let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match readlink(format!("/proc/self/fd/{}", opened.as_raw_fd()), Vec::new()) {
        Ok(real) => Ok(OsString::from_vec(real.into_bytes()).into()),
        Err(_) => path.canonicalize(),
    }
}

/// The path without `.` and `..`; the links before them were followed already.
fn without_dots(path: &Path) -> PathBuf {
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

    fn view(sandbox: &Sandbox, search: &str) -> View {
        View::of(sandbox, Path::new("/bin/sh"), Some(OsStr::new(search))).unwrap()
    }

    #[test]
    fn the_nearest_name_wins() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (all, secret, work, tools) = (at("all"), at("all/secret"), at("all/secret/work"), at("all/bin"));
        let sandbox = Sandbox::new().read_only(&all).hidden(&secret).writable(&work);
        let view = view(&sandbox, tools.to_str().unwrap());
        for (path, seen) in [(&all, true), (&all.join("x"), true), (&secret.join("x"), false), (&work, true)]
        {
            assert_eq!(view.shows(path), seen, "{}", path.display());
        }
        assert!(!view.shows(dir.path()) && !view.shows(Path::new("/etc/shadow")));
        let mut argv = Vec::new();
        super::super::bubblewrap::mounts(&view, &mut argv, None);
        let position = |path: &Path| argv.iter().position(|arg| arg == path.as_os_str()).unwrap();
        assert!(position(&all) < position(&secret) && position(&secret) < position(&work));
        assert_eq!(argv[position(&work) - 1], "--bind");
        assert_eq!(argv[position(&secret) - 1], "--tmpfs");
    }

    #[test]
    fn what_is_hidden_is_hidden_under_every_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("real/secret")).unwrap();
        std::fs::write(dir.path().join("real/key"), "k").unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("alias")).unwrap();
        let alias = dir.path().join("alias");
        let hidden = [dir.path().join("real/secret"), dir.path().join("real/key")];
        let sandbox = hidden.iter().fold(Sandbox::new().read_only(&alias), Sandbox::hidden);
        let view = view(&sandbox, "");
        assert!(view.shows(&alias));
        assert!(!view.shows(&alias.join("secret/x")));
        assert_eq!(view.0[&alias.join("key")], Mount::Nothing { directory: false });
    }

    #[test]
    fn a_program_is_seen_under_every_name_and_its_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("lib/program");
        std::fs::create_dir_all(real.parent().unwrap()).unwrap();
        std::fs::write(&real, "#!/bin/sh\n").unwrap();
        let link = dir.path().join("program");
        std::os::unix::fs::symlink("./lib/../lib/program", &link).unwrap();
        let view = View::of(&Sandbox::new().hidden(dir.path()), &link, None).unwrap();
        assert!(view.shows(&link) && view.shows(&real));
        assert!(!view.shows(&dir.path().join("lib/other")));
        assert_eq!(view.0[&link], Mount::Link("./lib/../lib/program".into()));
    }

    /// Such as `/usr/lib/ssl/cert.pem`, which cargo names in `SSL_CERT_FILE`: `bwrap` can't put a file where there is a link.
    #[test]
    fn what_is_seen_already_is_not_put_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let (shown, other) = (dir.path().join("shown"), dir.path().join("other"));
        std::fs::create_dir_all(&shown).unwrap();
        std::fs::write(&other, "").unwrap();
        let link = shown.join("link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let view = view(&Sandbox::new().read_only(&shown).read_only(&link), "");
        let other = other.canonicalize().unwrap();
        assert!(!view.0.contains_key(&link) && view.0.contains_key(&other), "{view:?}");
    }

    #[test]
    fn devices_are_there_and_shared_memory_is_shown_only_if_named() {
        let dir = tempfile::tempdir_in(SHARED_MEMORY).unwrap();
        assert!(!view(&Sandbox::new(), "").shows(dir.path()));
        let view = view(&Sandbox::new().read_only(dir.path()).read_only("/dev/null"), "");
        assert!(view.0.contains_key(dir.path()) && !view.0.contains_key(Path::new("/dev/null")), "{view:?}");
    }

    #[test]
    fn a_path_that_holds_a_home_shows_no_home() {
        let home = std::env::home_dir().unwrap();
        let search = format!("{}:/", home.display());
        assert!(!view(&Sandbox::new(), &search).shows(&home));
    }

    #[test]
    fn what_has_no_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (content, fine) in [("echo x\n", false), ("", false), ("#!/bin/sh\n", true), ("\x7fELF\0", true)]
        {
            let path = dir.path().join("program");
            std::fs::write(&path, content).unwrap();
            assert_eq!(check_format(&path).is_ok(), fine, "{content:?}");
        }
    }
}
