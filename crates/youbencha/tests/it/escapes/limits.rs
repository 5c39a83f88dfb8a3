//! Limits of memory, processes, disk and CPU time.

use serde_json::json;

use super::{LEVELS, World};

/// Each limit at each level ends as `over_quota` with a message that names limit and usage.
#[test]
fn exceeding_a_limit_is_over_quota() {
    let world = World::new();
    let memory = "exec python3 -c 'import time; x = bytearray(90_000_000); time.sleep(60)'";
    // Without a limit, it would exit by itself.
    let bomb =
        "bomb() { [ $1 -lt 9 ] || exec sleep 60; bomb $(($1 + 1)) & bomb $(($1 + 1)) & wait; }; bomb 0";
    let disk = "for n in $(seq 500); do head -c 1000000 /dev/zero > $HOME/f$n; sleep 0.01; done; sleep 60";
    let cpu = "while :; do :; done";
    for level in LEVELS {
        for (name, limit, command, words) in [
            ("memory_mb", 50, memory, "memory limit exceeded: "),
            ("processes", 60, bomb, "process limit exceeded: "),
            ("disk_mb", 5, disk, "disk quota exceeded: "),
            ("cpu_seconds", 1, cpu, "CPU time limit exceeded: 1."),
        ] {
            let outcome = world.run_with(command, level, &json!({ "limits": { name: limit } }));
            assert_eq!(outcome.code, Some(1), "{level} {name}: {}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.stdout.contains("escape: over_quota"), "{level} {name}: {}", outcome.stdout);
            let set = format!("; `limits.{name}` sets it");
            assert!(outcome.stdout.contains(words) && outcome.stdout.contains(&set), "{}", outcome.stdout);
        }
    }
    yb_testkit::assert_no_process_in(&world.context.dir());
}

/// Memory that belongs to no process is limited.
#[test]
fn shared_memory_is_limited_or_missing() {
    let world = World::new();
    let fill = "head -c 100000000 /dev/zero > /dev/shm/yb-fill 2> /dev/null && echo filled > found; rm -f /dev/shm/yb-fill; true";
    for level in ["bubblewrap", "landlock"] {
        assert_eq!(world.run(fill, level).code, Some(0));
        assert_eq!(world.found(), [""; 0], "{level}");
    }
}

#[test]
fn limits_are_read_from_arguments_environment_and_settings() {
    let world = World::new();
    let memory = "exec python3 -c 'import time; x = bytearray(90_000_000); time.sleep(1)'";
    let agent = json!({ "type": "command", "config": { "prompt": "Try it.",
        "command": { "argv": ["sh", "-c", memory] } } });
    world.context.write("case.yaml", world.case(&agent, "none", &json!({})));
    let run = || world.context.command(crate::YB).args(["run", "-c", "case.yaml"]);
    assert_eq!(run().run().code, Some(0));
    assert_eq!(run().args(["--limit", "memory_mb=50"]).run().code, Some(1));
    assert_eq!(run().env("YB_LIMITS_MEMORY_MB", "50").run().code, Some(1));
    world.context.write(".youbencharc", "limits: { memory_mb: 50 }\n");
    assert_eq!(run().run().code, Some(1));
    assert_eq!(run().args(["--limit", "memory_mb=0"]).run().code, Some(0));
    let wrong = run().args(["--limit", "memory=50"]).run();
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("expected one of `memory_mb=N`, `processes=N`"), "{}", wrong.stderr);
}
