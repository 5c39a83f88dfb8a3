//! What an agent sees of the machine under bubblewrap: its own places, what it is made of, what the case gave it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use yb_claude::env_vars as vars;
use yb_supervise::Sandbox;

use super::{Environment, ExecutionContext};

/// Variables that name a place without a wish to show it: the user's own, or ours.
const NOT_SHOWN: [&str; 6] = [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::PATH, vars::TMPDIR, "PWD", "OLDPWD"];

/// Where HOME and TMPDIR are, below the private directory.
pub(super) const HOME: &str = "home";
pub(super) const TMP: &str = "tmp";

/// Places that a trial has and that are not to be seen from within.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Writable.
    pub workspace: &'a Path,
    /// Writable, with HOME and TMPDIR in it.
    pub private: &'a Path,
    /// Not to be seen, whatever contains it.
    pub hidden: &'a [PathBuf],
}

/// The workspace, a private HOME and TMPDIR, what the given variables name, and the system.
pub fn base(places: Places<'_>, env: &Environment) -> io::Result<Sandbox> {
    let tmp = places.private.join(TMP);
    let home = places.private.join(HOME);
    fs::create_dir_all(places.private)?;
    for directory in [&tmp, &home] {
        own_directory(directory)?;
    }
    let mut sandbox =
        Sandbox::new().writable(places.workspace).writable(places.private).writable_as(&tmp, "/tmp");
    for (path, text) in users(&home) {
        sandbox = sandbox.file(path, text);
    }
    for path in places.hidden {
        sandbox = sandbox.hidden(path);
    }
    let named = env.iter().filter(|(name, _)| NOT_SHOWN.iter().all(|not| name.as_os_str() != *not));
    Ok(named.fold(sandbox, |sandbox, (_, value)| show(sandbox, Path::new(value))))
}

/// Makes sure of a directory where an earlier child may have left anything, a link to others' files among it.
fn own_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir(path)
}

/// The view of an execution, before its adapter adds to it.
pub(super) fn of(context: &ExecutionContext) -> io::Result<Sandbox> {
    let places =
        Places { workspace: &context.workspace, private: &context.private_dir, hidden: &context.hidden };
    let sandbox = base(places, &context.host.env)?;
    let config = &context.config;
    let sandbox = config.add_dirs.iter().fold(sandbox, |sandbox, path| show(sandbox, path));
    Ok(config.mcp_servers.values().fold(sandbox, server))
}

/// The programs and files that an MCP server is started with.
fn server(sandbox: Sandbox, server: &Map<String, Value>) -> Sandbox {
    let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
    let words = server.get("command").into_iter().chain(arguments).filter_map(Value::as_str);
    words.fold(sandbox, |sandbox, word| show_file(sandbox, Path::new(word)))
}

/// Shows what is named by a full path, if it is there.
pub(super) fn show(sandbox: Sandbox, path: &Path) -> Sandbox {
    if path.is_absolute() && path.parent().is_some() && path.exists() {
        sandbox.read_only(path)
    } else {
        sandbox
    }
}

/// The same, for a file and not for a directory.
pub(super) fn show_file(sandbox: Sandbox, path: &Path) -> Sandbox {
    if path.is_file() { show(sandbox, path) } else { sandbox }
}

/// What a program of npm's needs beside itself.
pub(super) fn show_packages(sandbox: Sandbox, program: &Path) -> Sandbox {
    let Ok(real) = program.canonicalize() else { return sandbox };
    let packages = real.ancestors().filter(|path| path.ends_with("node_modules")).last();
    packages.map_or(sandbox.clone(), |packages| sandbox.read_only(packages))
}

/// Programs ask who they are; inside there are three.
fn users(home: &Path) -> [(&'static str, String); 2] {
    let (user, group) = ids();
    let home = home.display();
    let passwd = format!(
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\nagent:x:{user}:{group}:agent:{home}:/bin/sh\n"
    );
    [("/etc/passwd", passwd), ("/etc/group", format!("root:x:0:\nnogroup:x:65534:\nagent:x:{group}:\n"))]
}

/// Root is somebody else inside.
fn ids() -> (u32, u32) {
    #[cfg(unix)]
    {
        let user = rustix::process::geteuid();
        if !user.is_root() {
            return (user.as_raw(), rustix::process::getegid().as_raw());
        }
    }
    (1000, 1000)
}
