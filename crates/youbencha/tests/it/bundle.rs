//! `results.json` of a trial: the required fields and types of the original, and additions.

use serde_json::{Value, json};
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;

/// Only the documented fields of the original are required.
const SCHEMA: &str = include_str!("../../../../schemas/results.schema.json");

fn run(evaluators: &Value, agent: &str) -> Value {
    let context = TestContext::new();
    std::fs::create_dir(context.dir().join("repo")).unwrap();
    Repo::init(context.dir().join("repo")).write("a.txt", "one\n").commit("start");
    let case = json!({ "youbencha": 1, "name": "bundle", "description": "Change a file.", "repo": "repo",
        "agent": { "type": "command", "config": { "prompt": "Change it.", "command": { "argv": ["sh", "-c", agent] } } },
        "evaluators": evaluators });
    context.write("case.yaml", case.to_string());
    let outcome = context.command(YB).args(["run", "-c", "case.yaml"]).run();
    let runs = yb_engine::run::all_runs(&context.dir().join(".youbencha-workspace")).unwrap();
    let run = runs.last().unwrap_or_else(|| panic!("{}", outcome.stderr));
    let path = run.path().join("artifacts/results.json");
    let text = std::fs::read(path).unwrap_or_else(|_| panic!("{}{}", outcome.stdout, outcome.stderr));
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn bundle_has_the_fields_and_types_of_the_original() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let evaluators = json!([
        { "name": "git-diff", "config": { "assertions": { "max_files_changed": 0 } } },
        { "name": "files", "config": { "assertions": { "exists": ["a.txt"] } } },
        { "name": "budget", "config": { "assertions": { "max_turns": 3 } } },
        { "name": "command", "config": { "argv": ["/etc/passwd"] } },
    ]);
    let changed = run(&evaluators, "echo two > a.txt");
    assert_eq!(changed["summary"]["total_evaluators"], 4);
    let statuses: Vec<&str> =
        changed["evaluators"].as_array().unwrap().iter().filter_map(|one| one["status"].as_str()).collect();
    assert_eq!(statuses, ["failed", "passed", "failed", "skipped"]);
    for bundle in [changed, run(&evaluators, "exit 3")] {
        let wrong: Vec<String> = validator
            .iter_errors(&bundle)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(wrong, [""; 0]);
        for part in ["test_case", "execution", "agent", "evaluators", "summary", "artifacts"] {
            let mut less = bundle.clone();
            less.as_object_mut().unwrap().remove(part);
            assert!(!validator.is_valid(&less), "{part} is not missed");
        }
    }
}
