//! Isolation of files.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::World;

/// Writes a line to `found` for each readable file or directory.
fn reading(paths: &[PathBuf]) -> String {
    let tries = paths.iter().map(|path| {
        let path = path.display();
        format!("if ls -A {path}/ 2> /dev/null | grep -q . || cat {path} > /dev/null 2>&1; then echo {path} >> found; fi")
    });
    tries.collect::<Vec<_>>().join("\n")
}

#[test]
fn caches_runs_the_case_and_the_home_can_t_be_read() {
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
    let [bubblewrap, landlock, none] = world.each(&reading(&paths));
    assert_eq!((bubblewrap, landlock), (vec![], vec![]));
    let all = paths.iter().map(|path| path.display().to_string()).filter(|path| Path::new(path).exists());
    assert_eq!(none, all.collect::<Vec<_>>(), "without isolation all of it is there to be read");
    assert!(none.len() > 8, "{none:?}");
}

/// Under landlock, paths can be queried but not opened.
#[test]
fn only_bubblewrap_hides_names_and_sizes() {
    let world = World::new();
    let ask = format!("stat -c %s {} >> found 2> /dev/null; true", world.at("hidden-test.sh").display());
    let [bubblewrap, landlock, none] = world.each(&ask);
    assert_eq!(bubblewrap, [""; 0]);
    assert_eq!((landlock, none), (vec!["11".to_owned()], vec!["11".to_owned()]));
}

#[test]
fn system_secrets_can_t_be_read_and_programs_can() {
    let world = World::new();
    let paths = ["/etc/shadow", "/etc/ssh", "/run", "/sys", "/var/log", "/root/.ssh", "/home", "/dev/shm"];
    let there = paths.map(PathBuf::from).to_vec();
    let tests = format!(
        "{}\ngit --version > /dev/null && cat /etc/passwd > /dev/null && echo works >> found",
        reading(&there)
    );
    let [bubblewrap, landlock, none] = world.each(&tests);
    assert_eq!((bubblewrap, landlock), (vec!["works".to_owned()], vec!["works".to_owned()]));
    assert!(none.contains(&"/run".to_owned()) && none.contains(&"/sys".to_owned()), "{none:?}");
}

#[test]
fn only_the_workspace_is_writable() {
    let world = World::new();
    // Writes outside are only tried where they are harmless.
    let tries = "d=$PWD; cd ../../../..
        for file in journal.jsonl plan.json results.json trials/escape--default--1/attempt-1/artifacts/frames.jsonl; do
            (echo forged >> $file) 2> /dev/null && echo $file >> $d/found
            truncate -s 0 $file.x 2> /dev/null && echo cut >> $d/found
        done
        true";
    let [bubblewrap, landlock, none] = world.each(tries);
    assert_eq!((bubblewrap, landlock), (vec![], vec![]));
    assert!(none.contains(&"plan.json".to_owned()) && none.contains(&"cut".to_owned()), "{none:?}");
    let system = "for path in /etc/yb-escape /usr/yb-escape /usr/bin/yb-escape /yb-escape /opt/yb-escape /var/yb-escape; do
            (: >> $path) 2> /dev/null && echo $path >> found
        done
        echo mine > $HOME/mine && echo mine > $TMPDIR/mine && echo private >> found
        (echo mine > /tmp/yb-mine) 2> /dev/null && echo /tmp >> found; true";
    for (level, found) in [("bubblewrap", &["private", "/tmp"][..]), ("landlock", &["private"])] {
        assert_eq!(world.run(system, level).code, Some(0));
        assert_eq!(world.found(), found, "{level}");
        assert!(!Path::new("/tmp/yb-mine").exists(), "{level}: /tmp is its own, or nobody's");
        for directory in ["/etc", "/usr", "/usr/bin", "/", "/opt", "/var"] {
            assert!(!Path::new(directory).join("yb-escape").exists(), "{level}: {directory}");
        }
    }
}

/// Pre-execution hooks run code of the repository and are isolated like the agent.
#[test]
fn pre_execution_hooks_are_isolated() {
    let world = World::new();
    let look = format!(
        "cat {} > /dev/null 2>&1 && echo reads >> found; (echo mine > $YB_CASE_DIR/mine) 2> /dev/null && echo writes >> found
        echo mine > $HOME/x; echo log > $ARTIFACTS_DIR/hook.log; echo ran >> found",
        world.context.home().join(".ssh/id_ed25519").display()
    );
    let hook = json!({ "pre_execution": [{ "name": "script", "config": { "command": look } }] });
    for level in ["bubblewrap", "landlock"] {
        let outcome = world.run_with("true", level, &hook);
        assert_eq!(outcome.code, Some(0), "{level}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(world.found(), ["ran"], "{level}");
        assert_eq!(std::fs::read(world.newest().join("artifacts/pre-execution/hook.log")).unwrap(), b"log\n");
    }
    assert_eq!(world.run_with("true", "none", &hook).code, Some(0));
    assert_eq!(world.found(), ["reads", "writes", "ran"]);
}

/// Processes may leave links in the private directory, which `yb` uses afterwards.
#[test]
fn links_of_a_hook_do_not_escape() {
    let world = World::new();
    let (ssh, key) = (world.context.home().join(".ssh"), world.context.home().join(".ssh/id_ed25519"));
    let (ssh_path, key_path) = (ssh.display(), key.display());
    let plant = format!(
        "cd $HOME/..; mv home h; mv tmp t; ln -s {ssh_path} home; ln -s {ssh_path} tmp
        for file in passwd group prompt; do ln -sf {key_path} $file; done; echo planted >> $WORKSPACE_DIR/found"
    );
    let look = "for place in $HOME $TMPDIR /tmp; do
            cat $place/id_ed25519 > /dev/null 2>&1 && echo reads $place >> found
            (echo mine > $place/mine) 2> /dev/null || echo no $place >> found
        done; true";
    let script = |command: &str| json!({ "name": "script", "config": { "command": command } });
    let hooks = json!({ "pre_execution": [script(&plant), script(look)] });
    for (level, found) in [("bubblewrap", &["planted"][..]), ("landlock", &["planted", "no /tmp", "no /tmp"])]
    {
        let outcome = world.run_with(look, level, &hooks);
        assert_eq!(outcome.code, Some(0), "{level}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(world.found(), found, "{level}");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "PRIVATE KEY\n", "{level}");
        assert!(!ssh.join("mine").exists(), "{level}");
    }
}

/// An agent can't choose the grading directory or its content.
#[test]
fn links_of_an_agent_do_not_escape_during_grading() {
    let world = World::new();
    let outside = world.context.home().join("outside");
    std::fs::create_dir_all(outside.join("1-command/tree")).unwrap();
    std::fs::write(outside.join("1-command/tree/mine"), "kept").unwrap();
    let link = format!("ln -s {} $HOME/../grading", outside.display());
    let fill =
        "mkdir -p $HOME/../grading/1-command/tree && echo forged > $HOME/../grading/1-command/tree/mine";
    let check = json!({ "evaluators": [{ "name": "command", "config": { "shell": "test ! -e mine" } }] });
    for level in ["bubblewrap", "landlock"] {
        for plant in [&link, fill] {
            let outcome = world.run_with(plant, level, &check);
            assert_eq!(outcome.code, Some(0), "{level}: {}{}", outcome.stdout, outcome.stderr);
            assert_eq!(std::fs::read_to_string(outside.join("1-command/tree/mine")).unwrap(), "kept");
            assert_eq!(std::fs::read_dir(outside.join("1-command/tree")).unwrap().count(), 1, "{level}");
        }
    }
}
