//! Redaction of secrets in kept files.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::World;

/// Prints the key, searches for it, and writes it to a file, a file name and a commit.
#[test]
fn api_key_is_in_no_kept_file() {
    let world = World::new();
    let key = "sk-very-secret-value-0123456789";
    let command = "env; cat /proc/*/environ 2> /dev/null | tr '\\0' '\\n'; echo $DEPLOY_KEY > file; touch \"name-$DEPLOY_KEY\"
        git add -A; git commit -qm \"with $DEPLOY_KEY\"; echo $DEPLOY_KEY >&2; exit 3";
    for level in super::LEVELS {
        let outcome = world.run_with(command, level, &json!({ "env": { "DEPLOY_KEY": key } }));
        let [stdout, stderr] = [&outcome.stdout, &outcome.stderr];
        assert!(!stdout.contains(key) && !stderr.contains(key), "{level}: {stdout}{stderr}");
        let run = world.newest();
        let log =
            std::fs::read_dir(run.join("artifacts/command-logs")).unwrap().next().unwrap().unwrap().path();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("DEPLOY_KEY=[REDACTED:DEPLOY_KEY]"), "{level}: it was printed: {log}");
        // All files of a run, except the workspace and the captured trees.
        let own = [run.join("trials/escape--default--1/attempt-1/src-modified"), run.join("objects.git")];
        let kept = files(&run).into_iter().filter(|path| own.iter().all(|own| !path.starts_with(own)));
        let mut seen = 0;
        for path in kept {
            let bytes = std::fs::read(&path).unwrap();
            let leaks = bytes.windows(key.len()).any(|part| part == key.as_bytes());
            assert!(!leaks && !path.to_string_lossy().contains(key), "{level}: {}", path.display());
            seen += 1;
        }
        assert!(seen >= 8, "{level}: {seen} files");
        for name in ["journal.jsonl", "plan.json", "results.json", "artifacts/git-diff.patch"] {
            assert!(run.join(name).exists(), "{level}: {name}");
        }
        let shown = world.context.command(crate::YB).args(["show", "latest", "--json"]).run();
        let diff = world.context.command(crate::YB).args(["show", "latest", "--diff"]).run();
        for text in [shown.stdout, diff.stdout] {
            assert!(text.len() > 100 && !text.contains(key), "{level}: {text}");
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
