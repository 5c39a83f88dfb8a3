//! Searches in machines that are temporary directories.

use std::fs;

use super::*;

/// A machine with nothing on it; `usual` and the platform are its own, too.
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

    /// What `npm ci --ignore-scripts` leaves behind.
    fn npm_wrapper(&self, node_modules: &str) -> PathBuf {
        let stub = format!("{node_modules}/@anthropic-ai/claude-code/bin/claude.exe");
        self.program_with(&stub, "echo \"Error: claude native binary not installed.\" >&2\n")
    }

    fn search(&self, env: &[(&str, OsString)]) -> Search {
        let mut search = Search::from_env(&|name| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        });
        search.usual = vec![self.path("usr/local/bin")];
        search.platform = Platform::new("linux", "x86_64", self.root.path());
        search
    }
}

const NATIVE: &str = "@anthropic-ai/claude-code-linux-x64/claude";

fn found(path: PathBuf, source: Source) -> Result<Found, FindError> {
    Ok(Found { path, source })
}

#[test]
fn the_order_is_explicit_variable_prefix_path_usual_places() {
    let machine = Machine::new();
    let usual = machine.program("usr/local/bin/claude");
    let at_home = machine.program("home/.local/bin/claude");
    let in_path = machine.program("path/claude");
    let in_prefix = machine.program(&format!("agents/node_modules/{NATIVE}"));
    let variable = machine.program("variable");
    let explicit = machine.program("explicit");

    assert_eq!(machine.search(&[]).find(), found(usual, Source::UsualPlace));
    let home = (env_vars::HOME, machine.path("home").into());
    assert_eq!(machine.search(std::slice::from_ref(&home)).find(), found(at_home, Source::UsualPlace));
    let path = (env_vars::PATH, std::env::join_paths([machine.path("none"), machine.path("path")]).unwrap());
    let env = [home, path, (env_vars::YB_CLAUDE, variable.clone().into())];
    let search = machine.search(&env[..2]);
    assert_eq!(search.find(), found(in_path, Source::Path));
    assert_eq!(search.npm_prefix(machine.path("agents")).find(), found(in_prefix, Source::NpmPrefix));
    let search = machine.search(&env).npm_prefix(machine.path("agents"));
    assert_eq!(search.find(), found(variable, Source::Variable));
    assert_eq!(search.explicit(&explicit).find(), found(explicit, Source::Explicit));
}

#[test]
fn every_usual_place_is_looked_at() {
    for place in PLACES_AT_HOME {
        let machine = Machine::new();
        let program = machine.program(&format!("home/{place}/claude"));
        let search = machine.search(&[(env_vars::HOME, machine.path("home").into())]);
        assert_eq!(search.find(), found(program, Source::UsualPlace));
    }
}

#[test]
fn what_was_named_is_never_replaced() {
    let machine = Machine::new();
    machine.program("usr/local/bin/claude");
    let plain = machine.file("plain", "");
    for (path, problem) in [
        (machine.path("missing"), Problem::Missing),
        (machine.path("usr"), Problem::NothingInFolder),
        #[cfg(unix)]
        (plain, Problem::NotExecutable),
    ] {
        let looked = Looked { path: path.clone(), source: Source::Explicit, problem };
        assert_eq!(machine.search(&[]).explicit(&path).find(), Err(FindError::NotUsable(looked)));
        let looked = Looked { path: path.clone(), source: Source::Variable, problem };
        let search = machine.search(&[(env_vars::YB_CLAUDE, path.into())]);
        assert_eq!(search.find(), Err(FindError::NotUsable(looked)));
    }
}

#[test]
fn an_empty_variable_is_no_variable() {
    let machine = Machine::new();
    let usual = machine.program("usr/local/bin/claude");
    let search = machine.search(&[(env_vars::YB_CLAUDE, OsString::new())]);
    assert_eq!(search.find(), found(usual, Source::UsualPlace));
}

#[test]
fn a_named_folder_is_an_npm_prefix_local_global_or_nested() {
    for node_modules in
        ["node_modules", "lib/node_modules", "node_modules/@anthropic-ai/claude-code/node_modules"]
    {
        let machine = Machine::new();
        let native = machine.program(&format!("prefix/{node_modules}/{NATIVE}"));
        let search = machine.search(&[]).explicit(machine.path("prefix"));
        assert_eq!(search.find(), found(native, Source::Explicit));
    }
}

#[test]
fn a_musl_machine_takes_the_musl_package() {
    let machine = Machine::new();
    machine.program(&format!("prefix/node_modules/{NATIVE}"));
    let musl = machine.program("prefix/node_modules/@anthropic-ai/claude-code-linux-x64-musl/claude");
    machine.file("lib/ld-musl-x86_64.so.1", "");
    let search = machine.search(&[]).explicit(machine.path("prefix"));
    assert_eq!(search.find(), found(musl, Source::Explicit));
}

#[cfg(unix)]
#[test]
fn a_link_to_the_wrapper_leads_to_the_native_program() {
    let machine = Machine::new();
    machine.npm_wrapper("lib/node_modules");
    let native = machine.program(&format!("lib/node_modules/{NATIVE}"));
    fs::create_dir(machine.path("bin")).unwrap();
    let link = "../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe";
    std::os::unix::fs::symlink(link, machine.path("bin/claude")).unwrap();
    let search = machine.search(&[(env_vars::PATH, machine.path("bin").into())]);
    let native = native.canonicalize().unwrap();
    assert_eq!(search.find(), found(native.clone(), Source::Path));
    assert_eq!(
        machine.search(&[]).explicit(machine.path("bin/claude")).find(),
        found(native, Source::Explicit)
    );
}

#[test]
fn a_placeholder_alone_is_passed_over_and_a_completed_one_is_taken() {
    let machine = Machine::new();
    let stub = machine.npm_wrapper("node_modules");
    let looked = Looked { path: stub.clone(), source: Source::Explicit, problem: Problem::Stub };
    assert_eq!(machine.search(&[]).explicit(&stub).find(), Err(FindError::NotUsable(looked)));
    machine.program("node_modules/@anthropic-ai/claude-code/bin/claude.exe");
    assert_eq!(machine.search(&[]).explicit(&stub).find(), found(stub, Source::Explicit));
}

#[test]
fn windows_looks_for_the_exe_only() {
    let machine = Machine::new();
    machine.program("path/claude");
    machine.program("path/claude.cmd");
    let mut search = machine.search(&[(env_vars::PATH, machine.path("path").into())]);
    search.platform = Platform::new("windows", "x86_64", machine.root.path());
    assert!(matches!(search.find(), Err(FindError::NotFound { .. })));
    let exe = machine.program("path/claude.exe");
    assert_eq!(search.find(), found(exe, Source::Path));
}

#[test]
fn relative_entries_of_path_are_not_searched() {
    let machine = Machine::new();
    let search = machine.search(&[(env_vars::PATH, OsString::from(".:bin:"))]);
    let Err(FindError::NotFound { searched }) = search.find() else { panic!("found one") };
    assert_eq!(
        searched.iter().map(|looked| &looked.path).collect::<Vec<_>>(),
        [&machine.path("usr/local/bin/claude")]
    );
}

#[cfg(unix)]
#[test]
fn the_error_lists_every_place_and_a_way_out() {
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

    let error = machine.search(&[]).explicit(machine.path("nowhere")).find().unwrap_err();
    let text = error.to_string().replace(&root, "");
    assert_eq!(text, "can't use `claude` from the given path, no such file: /nowhere");
}

#[test]
fn the_function_takes_an_explicit_path() {
    let machine = Machine::new();
    let program = machine.program("my-claude");
    assert_eq!(find(Some(&program), &|_| None), found(program, Source::Explicit));
}
