//! The proxy that observes the model API, with the real CLIs other than Claude Code (`cheats::leave` has that one): a failure on
//! the wire counts, one that only the output of the CLI claims does not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{RealAgent, TestContext};

use crate::YB;

/// Writes frames to the output of the CLI, which is a pipe that other processes in the sandbox have too, and ends all of them.
/// A file, because CLIs refuse command lines with substitutions.
const FORGE: &str = r#"
[ $(ls -d /proc/[0-9]* | wc -l) -lt 50 ] || exit
known=" $(readlink /proc/$$/fd/1) "
for d in /proc/[0-9]*; do
  out=$(readlink $d/fd/1)
  case "$out:$known" in
    *" $out "*) ;;
    pipe:*) known="$known$out "; cat frames.txt > $d/fd/1; cat errors.txt > $d/fd/2 ;;
  esac
done
sleep 1
for d in /proc/[0-9]*; do
  p=${d#/proc/}
  [ $p -le 1 ] || [ $p = $$ ] || kill -KILL $p
done
"#;

struct Trial {
    outcome: String,
    log: Value,
    artifacts: PathBuf,
    _context: TestContext,
}

impl Trial {
    fn read(&self, name: &str) -> String {
        let found = std::fs::read_dir(&self.artifacts).unwrap().flatten().map(|entry| entry.path());
        let named = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(name);
        found.filter(named).map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    fn errors(&self) -> String {
        self.log["errors"].to_string()
    }
}

/// Runs a CLI with a scripted model.
#[track_caller]
fn run(agent: RealAgent, replies: &Value, files: &[(&str, &str)]) -> Trial {
    let context = TestContext::new();
    let repo = Repo::init(context.dir().join("repo"));
    for (path, content) in [("greet.sh", "echo Hello\n")].iter().chain(files) {
        repo.write(path, content);
    }
    repo.commit("start");
    let script = json!({ "tape": 1, "lanes": { "main": replies } }).to_string();
    let script = Script::parse(&script, &Vars::new()).unwrap();
    let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
    let case = json!({ "youbencha": 1, "name": "task", "description": "A task.", "repo": "repo",
        "agent": { "type": agent.name, "model": agent.model,
            "config": { "prompt": "Look around.", "permission_mode": "bypassPermissions" } },
        "timeout": "150s", "isolation": "bubblewrap",
        "evaluators": [{ "name": "files", "config": { "assertions": { "exists": ["answer.txt"] } } }] });
    context.write("case.yaml", case.to_string());
    let mut command = context.command(YB).args(["run", "-c", "case.yaml", "--quiet", "--retries", "0"]);
    for (name, value) in agent.env(&server.base_url()) {
        command = command.env(name, value);
    }
    let outcome = command.timeout(std::time::Duration::from_secs(170)).run();
    let artifacts = newest_artifacts(&context.dir());
    let json = |name: &str| -> Value {
        let bytes = std::fs::read(artifacts.join(name));
        let bytes = bytes.unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr));
        serde_json::from_slice(&bytes).unwrap()
    };
    let (results, log) = (json("results.json"), json("youbencha-log.json"));
    assert_eq!(log["execution"]["api_observation"], "observed", "{}", agent.name);
    yb_testkit::assert_no_process_in(&context.dir());
    Trial { outcome: results["outcome"].as_str().unwrap().to_owned(), log, artifacts, _context: context }
}

fn newest_artifacts(dir: &Path) -> PathBuf {
    let runs = dir.join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    run.join("artifacts")
}

/// Lets the API fail, and then forges the same output while the API answers.
fn assert_only_the_wire_counts(name: &str, status: u16, expected: &str) {
    let agent = RealAgent::named(name);
    let failed = run(agent, &json!([{ "fault": { "status": status }, "say": "never" }]), &[]);
    assert_eq!(failed.outcome, expected, "{}", failed.errors());
    let (frames, errors) = (failed.read("frames.jsonl"), failed.read("terminal-output"));
    let replies = json!([{ "tools": [{ "run": { "command": "sh forge.sh" } }] }, { "say": "Done." }]);
    let files = [("forge.sh", FORGE), ("frames.txt", &frames), ("errors.txt", &errors)];
    let forged = run(agent, &replies, &files);
    let is_own = matches!(forged.outcome.as_str(), "failed" | "agent_error");
    assert!(is_own, "{}: {}", forged.outcome, forged.errors());
    let last = frames.lines().last().unwrap_or_default();
    assert!(forged.read("frames.jsonl").contains(last), "the frames did not arrive: {}", forged.errors());
}

/// One module for each CLI: a retrying CLI takes up to a minute.
macro_rules! agents {
    ($($module:ident: $name:literal,)*) => {$(
        mod $module {
            #[test]
            fn rejected_credentials_count_only_on_the_wire() {
                super::assert_only_the_wire_counts($name, 401, "unauthenticated");
            }

            #[test]
            fn rate_limit_counts_only_on_the_wire() {
                super::assert_only_the_wire_counts($name, 429, "rate_limited");
            }

            #[test]
            fn server_error_counts_only_on_the_wire() {
                super::assert_only_the_wire_counts($name, 500, "infra");
            }
        }
    )*};
}

agents! {
    real_codex: "codex",
    real_copilot: "copilot-cli",
    real_gemini: "gemini",
    real_opencode: "opencode",
}
