//! `yb install-agents --cli`, and cases that pin the version of their agent.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;

/// A fake npm without a registry: records its arguments and installs a program that prints its version.
const NPM: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/npm.calls"
for last; do :; done
package=${last%@*} version=${last##*@}
if [ "$version" = 9.9.9 ]; then echo "npm error 404 no such version" >&2; exit 1; fi
sleep 0.3
mkdir -p "node_modules/$package" node_modules/.bin
echo "{\"version\": \"$version\"}" > "node_modules/$package/package.json"
printf '#!/bin/sh\necho "%s %s"\n' "$package" "$version" > node_modules/.bin/codex
chmod +x node_modules/.bin/codex
"#;

fn program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_npm() -> (TestContext, String) {
    let context = TestContext::new();
    let bin = context.root().join("bin");
    program(&bin.join("npm"), NPM);
    (context, format!("{}:/usr/bin:/bin", bin.display()))
}

fn calls(context: &TestContext) -> usize {
    std::fs::read_to_string(context.home().join("npm.calls")).map_or(0, |text| text.lines().count())
}

#[test]
fn version_is_installed_once_next_to_others() {
    let (context, path) = with_npm();
    let install = |specs: &[&str]| {
        let specs = specs.iter().flat_map(|spec| ["--cli", spec]);
        context.command(YB).arg("install-agents").args(specs).env("PATH", &path).run()
    };
    assert_snapshot!(install(&["codex@0.166.0", "codex@0.165.1"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    installed    codex@0.166.0  [TEMP]/home/.local/share/youbencha/tools/codex/0.166.0
    installed    codex@0.165.1  [TEMP]/home/.local/share/youbencha/tools/codex/0.165.1
    ----- stderr -----
    installing codex@0.166.0 with npm into [TEMP]/home/.local/share/youbencha/tools (about 440 MB)
    installing codex@0.165.1 with npm into [TEMP]/home/.local/share/youbencha/tools (about 440 MB)
    ");
    let again = install(&["codex@0.166.0"]);
    assert!(again.stdout.starts_with("present      codex@0.166.0"), "{}", again.stdout);
    let said = std::fs::read_to_string(context.home().join("npm.calls")).unwrap();
    assert_eq!(
        said.lines().next().unwrap(),
        "install --ignore-scripts --no-audit --no-fund --loglevel=error --save-exact @openai/codex@0.166.0"
    );
    assert_eq!(said.lines().count(), 2);
    let tools = context.home().join(".local/share/youbencha/tools/codex");
    let program = tools.join("0.165.1/node_modules/.bin/codex");
    assert_eq!(context.run(program, [""; 0]).stdout, "@openai/codex 0.165.1\n");
    // The judge definition is not written.
    assert_eq!(std::fs::read_dir(context.dir()).unwrap().count(), 0);
}

#[test]
fn name_without_a_version_installs_the_newest_tested_one() {
    let (context, path) = with_npm();
    let outcome =
        context.command(YB).args(["install-agents", "--cli", "claude-code"]).env("PATH", &path).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let pinned = format!("claude-code@{}", yb_testkit::RealClaude::pinned_version());
    assert!(outcome.stdout.contains(&pinned), "{}", outcome.stdout);
}

/// The versions that tests run are those that `yb` knows.
#[test]
fn tested_versions_are_those_of_the_pinned_agents() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/package.json");
    let pinned: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for spec in yb_engine::adapter::Adapters::builtin().specs().iter() {
        let Some(npm) = spec.npm() else { continue };
        // The package of opencode is a wrapper of one for each platform.
        let package = if npm.package == "opencode-ai" { "opencode-linux-x64" } else { npm.package };
        let found = ["dependencies", "devDependencies"].map(|kind| &pinned[kind][package]);
        assert!(found.iter().any(|version| **version == npm.tested), "{}: {found:?}", npm.package);
    }
}

#[test]
fn concurrent_installs_install_once() {
    let (context, path) = with_npm();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let outcome = context
                    .command(YB)
                    .args(["install-agents", "--cli", "codex@0.166.0"])
                    .env("PATH", &path)
                    .run();
                assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
            });
        }
    });
    assert_eq!(calls(&context), 1);
}

#[test]
fn failed_install_leaves_nothing_and_reports_the_reason() {
    let (context, path) = with_npm();
    let install = |path: &str, spec: &str| {
        context.command(YB).args(["install-agents", "--cli", spec]).env("PATH", path).run()
    };
    assert_snapshot!(install(&path, "codex@9.9.9").snapshot(), @r"
    exit code: 4
    ----- stdout -----
    ----- stderr -----
    installing codex@9.9.9 with npm into [TEMP]/home/.local/share/youbencha/tools (about 440 MB)
    error: npm could not install `codex@9.9.9`: it exited with code 1: npm error 404 no such version
    hint: try it by hand: `npm view @openai/codex@9.9.9`
    ");
    let left: Vec<PathBuf> = std::fs::read_dir(context.home().join(".local/share/youbencha/tools/codex"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let before = calls(&context);
    assert_snapshot!(install(&path, "codex@latest").snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: not an exact version: `latest`
    hint: write all of it, such as `codex@1.2.3`
    ");
    assert_snapshot!(install(&path, "claude@2.1.325").snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no program of this name can be installed: `claude`
    hint: did you mean `claude-code`?
    hint: known are `claude-code`, `codex`, `copilot-cli`, `gemini`, `opencode`
    ");
    assert_snapshot!(install("/nowhere", "codex@0.166.0").snapshot(), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: `npm` was not found, and `codex@0.166.0` is installed with it
    hint: install Node.js, which brings npm: https://nodejs.org
    ");
    assert_eq!(calls(&context), before);
}

/// A fake Claude Code of a given version that does nothing.
fn claude(version: &str) -> String {
    format!(
        r#"#!/bin/sh
if [ "$1" = --version ]; then echo "{version} (Claude Code)"; exit; fi
cat > /dev/null
echo '{{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-5-5","tools":[],"cwd":"/","claude_code_version":"{version}"}}'
echo '{{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1,"duration_ms":5,"total_cost_usd":0,"usage":{{"input_tokens":1,"output_tokens":1}}}}'
"#
    )
}

const SUITE: &str = "
youbencha: 1
name: two versions
cases:
  - name: nothing
    description: Nothing is to be done.
    repo: repo
    isolation: none
    agent: { type: claude-code, version: 2.1.120, config: { prompt: Do nothing., permission_mode: default } }
    evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 0 } } }]
variants:
  - name: old
  - { name: new, version: 2.1.325 }
";

#[test]
fn suite_runs_two_versions_of_an_agent() {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("a", "1\n").commit("start");
    let tools = context.root().join("tools");
    let package =
        if cfg!(target_arch = "aarch64") { "claude-code-linux-arm64" } else { "claude-code-linux-x64" };
    let place = |version: &str| {
        let prefix = tools.join("claude-code").join(version);
        program(&prefix.join("node_modules/@anthropic-ai").join(package).join("claude"), &claude(version));
        let manifest = format!(
            r#"{{"name":"claude-code","version":"{version}","package":"@anthropic-ai/claude-code"}}"#
        );
        std::fs::write(prefix.join("tool.json"), manifest).unwrap();
    };
    // The version on the PATH is not used.
    program(&context.root().join("bin/claude"), &claude("2.0.76"));
    let path = format!("{}:{}", context.root().join("bin").display(), std::env::var("PATH").unwrap());
    let run = |more: &[&str]| {
        let command = context.command(YB).args(["run", "-c", "suite.yaml", "--quiet"]).args(more);
        command.env("YB_TOOLS_DIR", &tools).env("ANTHROPIC_API_KEY", "x").env("PATH", &path).run()
    };
    context.write("suite.yaml", SUITE);
    place("2.1.120");
    assert_snapshot!(run(&[]).snapshot(), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: wrong version of `claude-code`: expected 2.1.325, found 2.0.76
    hint: install it: `yb install-agents --cli claude-code@2.1.325`
    hint: or change `version` in the case or suite
    ");
    place("2.1.325");
    let outcome = run(&[]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    let version = |trial: &str| {
        let printed = context.run(YB, ["show", "latest", trial, "--json"]);
        let printed: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
        printed.to_string()
    };
    assert!(
        version("nothing--old--1").contains(r#""agent_version":"2.1.120""#),
        "{}",
        version("nothing--old--1")
    );
    assert!(
        version("nothing--new--1").contains(r#""agent_version":"2.1.325""#),
        "{}",
        version("nothing--new--1")
    );
    let dry = run(&["--dry-run"]);
    assert!(dry.stdout.contains("2.1.120, 2.1.325"), "{}", dry.stdout);
}

#[test]
fn version_of_a_command_agent_is_rejected() {
    let context = TestContext::new();
    std::fs::create_dir(context.dir().join("repo")).unwrap();
    let suite =
        SUITE.replace("type: claude-code", "type: command").replace("version: 2.1.325", "version: latest");
    context.write("suite.yaml", suite);
    let outcome = context.run(YB, ["validate", "suite.yaml"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("`command` has no version that could be pinned: `2.1.120`"), "{said}");
    assert!(said.contains("an exact version, such as `2.1.325`"), "{said}");
}
