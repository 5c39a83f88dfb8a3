//! Agents that try to leave their sandbox: what bubblewrap stops, and that the same would work without it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_tape::{Script, Server, ServerOptions, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;

/// A world with a repository that has a future, a case, a home with a key, and a run that is over.
struct World {
    context: TestContext,
}

impl World {
    fn new() -> Self {
        let context = TestContext::new();
        let repo = context.dir().join("repo");
        std::fs::create_dir(&repo).unwrap();
        Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
        context.write("hidden-test.sh", "the answer\n");
        let ssh = context.home().join(".ssh");
        std::fs::create_dir_all(&ssh).unwrap();
        std::fs::write(ssh.join("id_ed25519"), "PRIVATE KEY\n").unwrap();
        std::fs::write(context.home().join(".git-credentials"), "https://me:word@host\n").unwrap();
        let world = Self { context };
        let before = world.run("echo 1 > earlier", "none");
        assert_eq!(before.code, Some(0), "{}", before.stderr);
        world
    }

    fn case(&self, agent: &Value, isolation: &str, rest: &Value) -> String {
        let mut case = json!({ "youbencha": 1, "name": "escape", "description": "It tries.", "repo": "repo",
            "isolation": isolation, "agent": agent,
            "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 9 } } }] });
        for (key, value) in rest.as_object().unwrap() {
            case[key] = value.clone();
        }
        case.to_string()
    }

    /// Runs a shell agent at a level.
    fn run(&self, command: &str, isolation: &str) -> Outcome {
        self.run_with(command, isolation, &json!({}))
    }

    fn run_with(&self, command: &str, isolation: &str, rest: &Value) -> Outcome {
        let agent = json!({ "type": "command", "config": { "prompt": "Try.",
            "command": { "argv": ["sh", "-c", command] } } });
        self.context.write("case.yaml", self.case(&agent, isolation, rest));
        self.context.command(YB).args(["run", "-c", "case.yaml"]).run()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.context.dir().join(path)
    }

    fn newest(&self) -> PathBuf {
        let runs = yb_engine::run::all_runs(&self.at(".youbencha-workspace")).unwrap();
        runs.last().unwrap().path().to_owned()
    }

    /// What the agent of the newest run found out, from the file `found` in its workspace.
    fn found(&self) -> Vec<String> {
        let path = self.newest().join("trials/escape--default--1/attempt-1/src-modified/found");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs the agent under both levels and returns what it found under each.
    fn both(&self, command: &str) -> [Vec<String>; 2] {
        ["bubblewrap", "none"].map(|level| {
            let outcome = self.run(command, level);
            assert_eq!(outcome.code, Some(0), "{level}: {}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.stdout.contains(&format!("isolation: {level}")), "{}", outcome.stdout);
            self.found()
        })
    }
}

/// A line in `found` for each path that can be read.
fn reading(paths: &[PathBuf]) -> String {
    let tries = paths.iter().map(|path| {
        let path = path.display();
        format!("if ls -A {path} 2> /dev/null | grep -q . && cat {path}/* {path} > /dev/null 2>&1 || test -r {path}; then echo {path} >> found; fi")
    });
    tries.collect::<Vec<_>>().join("\n")
}

#[test]
fn caches_runs_the_case_and_the_home_are_not_visible() {
    let world = World::new();
    let workspace = world.at(".youbencha-workspace");
    let earlier = world.newest();
    let paths = [
        workspace.join("cache/mirrors"),
        workspace.join("cache/cut"),
        earlier.join("journal.jsonl"),
        earlier.join("objects.git/HEAD"),
        earlier.join("trials/escape--default--1/attempt-1/artifacts/results.json"),
        earlier.join("trials/escape--default--1/attempt-1/src-modified/earlier"),
        world.at("case.yaml"),
        world.at("hidden-test.sh"),
        world.at("repo/.git/HEAD"),
        world.context.home().join(".ssh/id_ed25519"),
        world.context.home().join(".git-credentials"),
    ];
    let [inside, outside] = world.both(&reading(&paths));
    assert_eq!(inside, [""; 0]);
    let all = paths.iter().map(|path| path.display().to_string()).filter(|path| Path::new(path).exists());
    assert_eq!(outside, all.collect::<Vec<_>>(), "without isolation all of it is there to be read");
    assert!(outside.len() > 8, "{outside:?}");
}

#[test]
fn secrets_of_the_system_are_not_visible_and_programs_are() {
    let world = World::new();
    let tests = "for path in /etc/shadow /etc/ssh /run /sys /var/log /root/.ssh /home; do
            test -e $path && echo $path >> found
        done
        git --version > /dev/null && cat /etc/passwd > /dev/null && echo works >> found";
    let [inside, outside] = world.both(tests);
    assert_eq!(inside, ["works"]);
    assert!(outside.contains(&"/run".to_owned()), "{outside:?}");
}

#[test]
fn nothing_but_the_workspace_can_be_changed() {
    let world = World::new();
    // What a write outside does is only shown where it harms nobody.
    let tries = "d=$PWD; cd ../../../..
        for file in journal.jsonl plan.json results.json trials/escape--default--1/attempt-1/artifacts/frames.jsonl; do
            echo forged 2> /dev/null >> $file && echo $file >> $d/found
        done
        true";
    let [inside, outside] = world.both(tries);
    assert_eq!(inside, [""; 0]);
    assert!(outside.contains(&"plan.json".to_owned()), "{outside:?}");
    let system = "for path in /etc/yb-escape /usr/yb-escape /usr/bin/yb-escape /yb-escape /opt/yb-escape; do
            touch $path 2> /dev/null && echo $path >> found
        done
        echo mine > $HOME/mine && echo mine > $TMPDIR/mine && echo mine > /tmp/yb-mine && echo private >> found";
    assert_eq!(world.run(system, "bubblewrap").code, Some(0));
    assert_eq!(world.found(), ["private"]);
    assert!(!Path::new("/tmp/yb-mine").exists(), "/tmp is its own");
    for directory in ["/etc", "/usr", "/usr/bin", "/", "/opt"] {
        assert!(!Path::new(directory).join("yb-escape").exists(), "{directory}");
    }
}

/// The journal that the agent could not write is whole, and says the level.
#[test]
fn the_level_is_in_the_log_the_journal_and_the_results() {
    let world = World::new();
    for (asked, used) in
        [("auto", "bubblewrap"), ("bubblewrap", "bubblewrap"), ("none", "none"), ("external", "external")]
    {
        assert_eq!(world.run("true", asked).code, Some(0));
        let run = world.newest();
        let read = |file: &str| -> Value {
            serde_json::from_slice(&std::fs::read(run.join("artifacts").join(file)).unwrap()).unwrap()
        };
        assert_eq!(read("youbencha-log.json")["execution"]["isolation"], used);
        assert_eq!(read("results.json")["execution"]["isolation"], used);
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
        assert!(journal.contains(&format!("\"isolation\":\"{used}\"")), "{journal}");
    }
}

#[test]
fn our_processes_can_t_be_seen_signalled_or_written_to() {
    let world = World::new();
    let tries = "for process in /proc/[0-9]*; do
            tr '\\0' ' ' < $process/cmdline 2> /dev/null | grep -q 'yb ru[n]' && echo sees >> found
            for fd in $process/fd/*; do
                case $(readlink $fd) in */journal.jsonl) echo holds >> found;; esac
            done
        done
        parent=$(ps -o ppid= -p $PPID 2> /dev/null | tr -d ' ')
        test -n \"$parent\" && test \"$parent\" -gt 1 && kill -0 $parent 2> /dev/null && echo signals >> found
        sort -u found -o found 2> /dev/null; true";
    let [inside, outside] = world.both(tries);
    assert_eq!(inside, [""; 0]);
    assert_eq!(outside, ["holds", "sees", "signals"]);
}

#[test]
fn nothing_of_ours_can_be_traced() {
    let world = World::new();
    let pid = std::process::id();
    let script = format!(
        "python3 - <<'EOF'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
attach = libc.ptrace(0x4206, {pid}, 0, 0)
open('found', 'w').write('traced' if attach == 0 else 'refused')
EOF"
    );
    assert_eq!(world.run(&script, "bubblewrap").code, Some(0));
    assert_eq!(world.found(), ["refused"]);
}

#[test]
fn no_daemon_outlives_the_agent() {
    let world = World::new();
    let daemon = "env -i setsid sh -c 'exec sleep 7654321' > /dev/null 2>&1 < /dev/null &
        while ! pgrep -f 'sleep 765432[1]' > /dev/null; do sleep 0.05; done; echo left >> found";
    assert_eq!(world.run(daemon, "bubblewrap").code, Some(0));
    assert_eq!(world.found(), ["left"]);
    let mut alive = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x007654321\0")
    });
    assert!(alive.next().is_none());
}

/// Hooks before the agent run what the repository brings: they see what the agent will.
#[test]
fn hooks_before_the_agent_are_held_as_well() {
    let world = World::new();
    let look = format!(
        "test -e {} && echo sees >> found; echo mine > $HOME/x; echo log > $ARTIFACTS_DIR/hook.log; echo ran >> found",
        world.at("hidden-test.sh").display()
    );
    let hook = json!({ "pre_execution": [{ "name": "script", "config": { "command": look } }] });
    let outcome = world.run_with("true", "bubblewrap", &hook);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(world.found(), ["ran"]);
    assert_eq!(std::fs::read(world.newest().join("artifacts/pre-execution/hook.log")).unwrap(), b"log\n");
    assert_eq!(world.run_with("true", "none", &hook).code, Some(0));
    assert_eq!(world.found(), ["sees", "ran"]);
}

#[test]
fn a_level_that_does_not_work_is_refused_before_anything_starts() {
    let world = World::new();
    let runs = || yb_engine::run::all_runs(&world.at(".youbencha-workspace")).unwrap().len();
    let before = runs();
    let bin = world.at("bin");
    std::fs::create_dir(&bin).unwrap();
    let bwrap = world
        .context
        .write("bin/bwrap", "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n");
    std::fs::set_permissions(bwrap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let agent = json!({ "type": "command", "config": { "prompt": "x", "command": { "argv": ["true"] } } });
    let run = |isolation: &str, more: &[&str]| {
        world.context.write("case.yaml", world.case(&agent, isolation, &json!({})));
        world.context.command(YB).args(["run", "-c", "case.yaml"]).args(more).env("PATH", &path).run()
    };
    let demanded = run("bubblewrap", &[]);
    assert_eq!(demanded.code, Some(4), "{}", demanded.stderr);
    assert!(
        demanded.stderr.contains(
            "`isolation: bubblewrap` does not work here: `bwrap` does not work here: bwrap: No permissions"
        ),
        "{}",
        demanded.stderr
    );
    assert!(demanded.stderr.contains("hint: allow user namespaces"), "{}", demanded.stderr);
    let landlock = run("landlock", &[]);
    assert_eq!(landlock.code, Some(2), "{}", landlock.stderr);
    assert!(landlock.stderr.contains("not supported yet: `isolation: landlock`"), "{}", landlock.stderr);
    assert_eq!(run("auto", &["--isolation", "bubblewrap"]).code, Some(4));
    assert_eq!(runs(), before);

    let auto = run("auto", &[]);
    assert_eq!(auto.code, Some(0), "{}", auto.stderr);
    assert!(auto.stdout.contains("isolation: none"), "{}", auto.stdout);
    assert!(
        auto.stderr.contains("warning: nothing stood between the agent and the machine: `bwrap`"),
        "{}",
        auto.stderr
    );
    let told = run("bubblewrap", &["--isolation", "none"]);
    assert!(
        told.stderr.contains("the case asks for `isolation: bubblewrap`, and got `none` as told"),
        "{}",
        told.stderr
    );
    let doctor = world.context.command(YB).arg("doctor").env("PATH", &path).run();
    assert!(
        doctor.stdout.contains("No permissions") && doctor.stdout.contains("fix: allow user namespaces"),
        "{}",
        doctor.stdout
    );
    let usage = run("auto", &["--isolation", "docker"]);
    assert_eq!(usage.code, Some(2), "{}", usage.stderr);
}

/// What an agent does with its key: prints it, looks for it, and writes it into a file, a name and a commit.
#[test]
fn a_key_is_in_nothing_that_is_kept() {
    let world = World::new();
    let key = "sk-very-secret-value-0123456789";
    let command = "env; cat /proc/*/environ 2> /dev/null | tr '\\0' '\\n'; echo $DEPLOY_KEY > file; touch \"name-$DEPLOY_KEY\"
        git add -A; git commit -qm \"with $DEPLOY_KEY\"; echo $DEPLOY_KEY >&2; exit 3";
    for level in ["bubblewrap", "none"] {
        let outcome = world.run_with(command, level, &json!({ "env": { "DEPLOY_KEY": key } }));
        let [stdout, stderr] = [&outcome.stdout, &outcome.stderr];
        assert!(!stdout.contains(key) && !stderr.contains(key), "{level}: {stdout}{stderr}");
        let run = world.newest();
        let log =
            std::fs::read_dir(run.join("artifacts/command-logs")).unwrap().next().unwrap().unwrap().path();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("DEPLOY_KEY=[REDACTED:DEPLOY_KEY]"), "{level}: it was printed: {log}");
        let mut kept: Vec<PathBuf> = files(&run.join("trials/escape--default--1/attempt-1/artifacts"));
        kept.extend(["journal.jsonl", "plan.json", "results.json"].map(|name| run.join(name)));
        for path in kept.iter().filter(|path| path.exists()) {
            let bytes = std::fs::read(path).unwrap();
            let leaks = bytes.windows(key.len()).any(|part| part == key.as_bytes());
            assert!(!leaks && !path.to_string_lossy().contains(key), "{level}: {}", path.display());
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The real CLI, as whoever runs the tests, with everything allowed: edits, a shell, and an MCP server.
#[test]
fn real_claude_works_in_a_sandbox_and_sees_nothing_else() {
    let world = World::new();
    let server_file = world.context.root().join("server.py");
    std::fs::write(&server_file, MCP_SERVER).unwrap();
    let secret = world.at("hidden-test.sh");
    let script = format!(
        "
tape: 1
lanes:
  main:
    - tools: [{{ Write: {{ file_path: '{{{{workspace}}}}/new.txt', content: written }} }}]
    - tools: [{{ Bash: {{ command: 'id -u > who; test -e {} && echo sees >> who; git add -A; git commit -qm done', description: Look }} }}]
    - tools: [{{ mcp__words__word: {{}} }}]
    - say: Done.
",
        secret.display()
    );
    // The workspace is not known before the run; the CLI takes paths from where it works.
    let script = script.replace("{{workspace}}/", "");
    let server =
        Server::start(Script::parse(&script, &Vars::new()).unwrap(), &ServerOptions::default()).unwrap();
    let agent = json!({ "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Work.",
        "mcp_servers": { "words": { "command": "python3", "args": [server_file] } } } });
    world.context.write("case.yaml", world.case(&agent, "auto", &json!({})));
    let outcome = world
        .context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    let run = world.newest();
    let frames = std::fs::read_to_string(run.join("artifacts/frames.jsonl")).unwrap_or_default();
    assert_eq!(outcome.code, Some(0), "{}{}{frames}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("isolation: bubblewrap"), "{}", outcome.stdout);
    assert!(server.unscripted().is_empty(), "{frames}");
    let workspace = run.join("trials/escape--default--1/attempt-1/src-modified");
    assert_eq!(std::fs::read_to_string(workspace.join("new.txt")).unwrap(), "written", "{frames}");
    let who = std::fs::read_to_string(workspace.join("who")).unwrap();
    assert!(who.trim() != "0" && !who.contains("sees"), "{who}");
    assert!(frames.contains("the word is sandbox"), "the server answered: {frames}");
    yb_testkit::assert_no_process_in(&world.context.dir());
}

/// The smallest server that has a tool.
const MCP_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "words", "version": "1"}},
        "tools/list": {"tools": [{"name": "word", "description": "A word", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "the word is sandbox"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;
