//! The view of an agent in a sandbox: its directories, its program, and the paths that the case names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use yb_claude::env_vars as vars;
use yb_supervise::{RootMount, Sandbox};

use super::{Environment, ExecutionContext};

/// Variables with paths that are not shown because of them.
const NOT_SHOWN: [&str; 6] = [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::PATH, vars::TMPDIR, "PWD", "OLDPWD"];

/// The folders of HOME and TMPDIR in the private directory.
pub(super) const HOME: &str = "home";
pub(super) const TMP: &str = "tmp";

/// The directories of a sandboxed process.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Writable.
    pub workspace: &'a Path,
    /// Writable, with HOME and TMPDIR in it.
    pub private: &'a Path,
    /// Hidden, even below visible directories.
    pub hidden: &'a [PathBuf],
    /// The root that replaces the host's, if one does.
    pub root: Option<&'a RootMount>,
}

/// The base view: the workspace, a private HOME and TMPDIR, paths in the given variables, and the system.
pub fn base(places: Places<'_>, env: &Environment) -> io::Result<Sandbox> {
    let tmp = places.private.join(TMP);
    let home = places.private.join(HOME);
    fs::create_dir_all(places.private)?;
    for directory in [&tmp, &home] {
        own_directory(directory)?;
    }
    if let Some(root) = places.root {
        // Users, temporary files and paths in variables are those of the root.
        let sandbox = Sandbox::new().root(root.clone()).writable(places.private);
        return Ok(places.hidden.iter().fold(sandbox, Sandbox::hidden));
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

/// Creates a directory where an earlier child may have left anything, such as a symlink.
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
    let root = context.root.as_ref().map(|root| &root.mount);
    let places = Places {
        workspace: &context.workspace,
        private: &context.private_dir,
        hidden: &context.hidden,
        root,
    };
    let mut sandbox = base(places, &context.host.env)?;
    if root.is_some() && !context.is_in_root() {
        sandbox = sandbox.writable(&context.workspace);
    }
    let config = &context.config;
    let add_ons = config.plugins.iter().chain(&config.skills).map(|add_on| &add_on.path);
    let sandbox = config.add_dirs.iter().chain(add_ons).fold(sandbox, |sandbox, path| show(sandbox, path));
    Ok(config.mcp_servers.values().fold(sandbox, server))
}

/// The programs and files that an MCP server is started with.
fn server(sandbox: Sandbox, server: &Map<String, Value>) -> Sandbox {
    let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
    let words = server.get("command").into_iter().chain(arguments).filter_map(Value::as_str);
    words.fold(sandbox, |sandbox, word| show_file(sandbox, Path::new(word)))
}

/// Shows an absolute path, if it exists.
pub(super) fn show(sandbox: Sandbox, path: &Path) -> Sandbox {
    if path.is_absolute() && path.parent().is_some() && path.exists() {
        sandbox.read_only(path)
    } else {
        sandbox
    }
}

/// Shows an absolute path of a file, if it exists.
pub(super) fn show_file(sandbox: Sandbox, path: &Path) -> Sandbox {
    if path.is_file() { show(sandbox, path) } else { sandbox }
}

/// Shows the packages of an npm program.
pub(super) fn show_packages(sandbox: Sandbox, program: &Path) -> Sandbox {
    let Ok(real) = program.canonicalize() else { return sandbox };
    let packages = real.ancestors().filter(|path| path.ends_with("node_modules")).last();
    packages.map_or(sandbox.clone(), |packages| sandbox.read_only(packages))
}

/// Writes the user database of the sandbox, which has three users.
fn users(home: &Path) -> [(&'static str, String); 2] {
    let (user, group) = ids();
    let home = home.display();
    let passwd = format!(
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\nagent:x:{user}:{group}:agent:{home}:/bin/sh\n"
    );
    [("/etc/passwd", passwd), ("/etc/group", format!("root:x:0:\nnogroup:x:65534:\nagent:x:{group}:\n"))]
}

/// The id of the user in the sandbox.
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
