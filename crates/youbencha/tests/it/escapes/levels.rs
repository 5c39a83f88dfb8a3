//! Selection and reporting of isolation levels.

use serde_json::json;

use super::World;
use crate::YB;

/// The journal is intact and records the level.
#[test]
fn isolation_level_is_in_log_journal_and_results() {
    let world = World::new();
    for (asked, used) in [
        ("auto", "bubblewrap"),
        ("bubblewrap", "bubblewrap"),
        ("landlock", "landlock"),
        ("none", "none"),
        ("external", "external"),
    ] {
        assert_eq!(world.run("true", asked).code, Some(0));
        let run = world.newest();
        assert_eq!(world.artifact("youbencha-log.json")["execution"]["isolation"], used);
        assert_eq!(world.artifact("results.json")["execution"]["isolation"], used);
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
        assert!(journal.contains(&format!("\"isolation\":\"{used}\"")), "{journal}");
        let filtered = ["bubblewrap", "landlock"].contains(&used);
        assert_eq!(journal.contains("\"syscall_filter\":true"), filtered, "{journal}");
        let expected = if filtered { json!(true) } else { json!(null) };
        assert_eq!(world.artifact("youbencha-log.json")["execution"]["syscall_filter"], expected);
        assert_eq!(world.artifact("results.json")["execution"]["syscall_filter"], expected);
    }
}

#[test]
fn unavailable_isolation_level_is_rejected_before_the_run_starts() {
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
        demanded
            .stderr
            .contains("`isolation: bubblewrap` is not available: `bwrap` failed: bwrap: No permissions"),
        "{}",
        demanded.stderr
    );
    assert!(demanded.stderr.contains("hint: allow user namespaces"), "{}", demanded.stderr);
    assert_eq!(run("auto", &["--isolation", "bubblewrap"]).code, Some(4));
    assert_eq!(runs(), before);

    let auto = run("auto", &[]);
    assert_eq!(auto.code, Some(0), "{}", auto.stderr);
    assert!(auto.stdout.contains("isolation: landlock"), "{}", auto.stdout);
    assert!(
        auto.stderr.contains("warning: the agent ran under landlock, which does not hide processes: `bwrap`"),
        "{}",
        auto.stderr
    );
    // Each trial of a suite would have to be shown to see its own warning.
    let several = run("auto", &["--repeat", "2"]);
    assert_eq!(
        several
            .stderr
            .matches("warning: the agent ran under landlock, which does not hide processes")
            .count(),
        1,
        "{}",
        several.stderr
    );
    let printed = run("bubblewrap", &["--isolation", "none"]);
    assert!(
        printed.stderr.contains("the case requests `isolation: bubblewrap`, overridden with `none`"),
        "{}",
        printed.stderr
    );
    let printed = run("landlock", &["--isolation", "none"]);
    assert!(
        printed.stderr.contains("the case requests `isolation: landlock`, overridden with `none`"),
        "{}",
        printed.stderr
    );
    let stronger = run("none", &["--isolation", "landlock"]);
    assert!(
        stronger.stdout.contains("isolation: landlock") && !stronger.stderr.contains("the case asks"),
        "{}",
        stronger.stderr
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
