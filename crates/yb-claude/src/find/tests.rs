//! Searches in temporary directories.

use std::fs;

use super::*;

/// An empty file system with its own installation directories and platform.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn program(&self, path: &str) -> PathBuf {
        self.program_with(path, "\x7fELF native")
    }

    fn program_with(&self, path: &str, content: &str) -> PathBuf {
        let path = self.file(path, content);
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Creates the wrapper package as left by `npm ci --ignore-scripts`.
    fn npm_wrapper(&self, node_modules: &str) -> PathBuf {
        let stub = format!("{node_modules}/@anthropic-ai/claude-code/bin/claude.exe");
        self.program_with(&stub, "echo \"Error: claude native binary not installed.\" >&2\n")
    }

    fn search(&self, env: &[(&str, OsString)]) -> CliSearch {
        let mut search = CliSearch::from_env(&|name| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        });
        search.install_dirs = vec![self.path("usr/local/bin")];
        search.platform = Platform::new("linux", "x86_64", self.root.path());
        search
    }
}

const NATIVE: &str = "@anthropic-ai/claude-code-linux-x64/claude";

fn found(path: PathBuf, source: CliSource) -> Result<FoundCli, FindError> {
    Ok(FoundCli { path, source })
}

#[test]
fn search_order_is_explicit_variable_prefix_path_install_dirs() {
    let machine = Machine::new();
    let usual = machine.program("usr/local/bin/claude");
    let at_home = machine.program("home/.local/bin/claude");
    let in_path = machine.program("path/claude");
    let in_prefix = machine.program(&format!("agents/node_modules/{NATIVE}"));
    let variable = machine.program("variable");
    let explicit = machine.program("explicit");

    assert_eq!(machine.search(&[]).find(), found(usual, CliSource::InstallDir));
    let home = (env_vars::HOME, machine.path("home").into());
    assert_eq!(machine.search(std::slice::from_ref(&home)).find(), found(at_home, CliSource::InstallDir));
    let path = (env_vars::PATH, std::env::join_paths([machine.path("none"), machine.path("path")]).unwrap());
    let env = [home, path, (env_vars::YB_CLAUDE, variable.clone().into())];
    let search = machine.search(&env[..2]);
    assert_eq!(search.find(), found(in_path, CliSource::Path));
    assert_eq!(search.with_npm_prefix(machine.path("agents")).find(), found(in_prefix, CliSource::NpmPrefix));
    let search = machine.search(&env).with_npm_prefix(machine.path("agents"));
    assert_eq!(search.find(), found(variable, CliSource::Variable));
    assert_eq!(search.with_explicit(&explicit).find(), found(explicit, CliSource::Explicit));
}

#[test]
fn search_covers_every_home_install_dir() {
    for place in HOME_DIRS {
        let machine = Machine::new();
        let program = machine.program(&format!("home/{place}/claude"));
        let search = machine.search(&[(env_vars::HOME, machine.path("home").into())]);
        assert_eq!(search.find(), found(program, CliSource::InstallDir));
    }
}

#[test]
fn unusable_explicit_path_is_an_error() {
    let machine = Machine::new();
    machine.program("usr/local/bin/claude");
    let plain = machine.file("plain", "");
    for (path, problem) in [
        (machine.path("missing"), PathProblem::Missing),
        (machine.path("usr"), PathProblem::NoPackage),
        #[cfg(unix)]
        (plain, PathProblem::NotExecutable),
    ] {
        let searched = SearchedPath { path: path.clone(), source: CliSource::Explicit, problem };
        assert_eq!(machine.search(&[]).with_explicit(&path).find(), Err(FindError::NotUsable(searched)));
        let searched = SearchedPath { path: path.clone(), source: CliSource::Variable, problem };
        let search = machine.search(&[(env_vars::YB_CLAUDE, path.into())]);
        assert_eq!(search.find(), Err(FindError::NotUsable(searched)));
    }
}

#[test]
fn empty_variable_is_ignored() {
    let machine = Machine::new();
    let usual = machine.program("usr/local/bin/claude");
    let search = machine.search(&[(env_vars::YB_CLAUDE, OsString::new())]);
    assert_eq!(search.find(), found(usual, CliSource::InstallDir));
}

#[test]
fn explicit_dir_may_be_local_global_or_nested_npm_prefix() {
    for node_modules in
        ["node_modules", "lib/node_modules", "node_modules/@anthropic-ai/claude-code/node_modules"]
    {
        let machine = Machine::new();
        let native = machine.program(&format!("prefix/{node_modules}/{NATIVE}"));
        let search = machine.search(&[]).with_explicit(machine.path("prefix"));
        assert_eq!(search.find(), found(native, CliSource::Explicit));
    }
}

#[test]
fn musl_machine_uses_musl_package() {
    let machine = Machine::new();
    machine.program(&format!("prefix/node_modules/{NATIVE}"));
    let musl = machine.program("prefix/node_modules/@anthropic-ai/claude-code-linux-x64-musl/claude");
    machine.file("lib/ld-musl-x86_64.so.1", "");
    let search = machine.search(&[]).with_explicit(machine.path("prefix"));
    assert_eq!(search.find(), found(musl, CliSource::Explicit));
}

#[cfg(unix)]
#[test]
fn link_to_wrapper_resolves_to_native_program() {
    let machine = Machine::new();
    machine.npm_wrapper("lib/node_modules");
    let native = machine.program(&format!("lib/node_modules/{NATIVE}"));
    fs::create_dir(machine.path("bin")).unwrap();
    let link = "../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe";
    std::os::unix::fs::symlink(link, machine.path("bin/claude")).unwrap();
    let search = machine.search(&[(env_vars::PATH, machine.path("bin").into())]);
    let native = native.canonicalize().unwrap();
    assert_eq!(search.find(), found(native.clone(), CliSource::Path));
    assert_eq!(
        machine.search(&[]).with_explicit(machine.path("bin/claude")).find(),
        found(native, CliSource::Explicit)
    );
}

#[test]
fn placeholder_is_skipped_and_native_program_accepted() {
    let machine = Machine::new();
    let stub = machine.npm_wrapper("node_modules");
    let searched =
        SearchedPath { path: stub.clone(), source: CliSource::Explicit, problem: PathProblem::Stub };
    assert_eq!(machine.search(&[]).with_explicit(&stub).find(), Err(FindError::NotUsable(searched)));
    machine.program("node_modules/@anthropic-ai/claude-code/bin/claude.exe");
    assert_eq!(machine.search(&[]).with_explicit(&stub).find(), found(stub, CliSource::Explicit));
}

#[test]
fn windows_search_accepts_only_exe() {
    let machine = Machine::new();
    machine.program("path/claude");
    machine.program("path/claude.cmd");
    let mut search = machine.search(&[(env_vars::PATH, machine.path("path").into())]);
    search.platform = Platform::new("windows", "x86_64", machine.root.path());
    assert!(matches!(search.find(), Err(FindError::NotFound { .. })));
    let exe = machine.program("path/claude.exe");
    assert_eq!(search.find(), found(exe, CliSource::Path));
}

#[test]
fn relative_path_entries_are_not_searched() {
    let machine = Machine::new();
    let search = machine.search(&[(env_vars::PATH, OsString::from(".:bin:"))]);
    let Err(FindError::NotFound { searched }) = search.find() else { panic!("found one") };
    assert_eq!(
        searched.iter().map(|entry| &entry.path).collect::<Vec<_>>(),
        [&machine.path("usr/local/bin/claude")]
    );
}

#[cfg(unix)]
#[test]
fn not_found_error_lists_searched_paths_and_hints() {
    let machine = Machine::new();
    let path = std::env::join_paths([machine.path("a"), machine.path("b"), machine.path("a")]).unwrap();
    fs::create_dir_all(machine.path("a/claude")).unwrap();
    machine.file("b/claude", "");
    machine.file("file", "");
    let search = machine.search(&[(env_vars::PATH, path), (env_vars::HOME, machine.path("file").into())]);
    let error = search.find().unwrap_err();
    let root = machine.root.path().display().to_string();
    assert_eq!(
        error.to_string().replace(&root, ""),
        "`claude` was not found; searched: /a/claude (not a regular file), /b/claude (not executable), \
         /file/.local/bin/claude, /file/.claude/local/claude, /file/.npm-global/bin/claude, \
         /file/node_modules/.bin/claude, /file/.yarn/bin/claude, /usr/local/bin/claude"
    );
    let hints = ["install it: `npm install -g @anthropic-ai/claude-code`", "or set `YB_CLAUDE` to its path"];
    assert_eq!(error.hints(), hints);

    let error = machine.search(&[]).with_explicit(machine.path("nowhere")).find().unwrap_err();
    let text = error.to_string().replace(&root, "");
    assert_eq!(text, "unusable `claude` from the explicit path (no such file): /nowhere");
}

#[test]
fn find_cli_takes_explicit_path() {
    let machine = Machine::new();
    let program = machine.program("my-claude");
    assert_eq!(find_cli(Some(&program), &|_| None), found(program, CliSource::Explicit));
}
