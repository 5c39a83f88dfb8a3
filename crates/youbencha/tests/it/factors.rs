//! Factors of a suite: their effects at the end of a run and in reports.

use serde_json::{Value, json};

use crate::YB;
use crate::suites::World;

/// A suite in which `rules` decides whether the case passes, and `verbose` changes nothing.
fn world(repeats: u32) -> World {
    let world = World::new();
    world.context.write("md/names.md", "by name\n");
    let agent = "if grep -qs 'by name' RULES.md; then echo more >> a.txt; else touch b c; fi";
    let case = json!({ "name": "one", "description": "One file changes.", "directory": "tree", "isolation": "none",
        "agent": { "type": "command", "config": { "prompt": "Change one file.", "command": { "argv": ["sh", "-c", agent] } } },
        "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } }] });
    let factors = json!({ "rules": { "none": {}, "strict": { "files": { "RULES.md": "md/names.md" } } },
        "verbose": { "calm": {}, "loud": { "env": { "LOUD": "1" } } } });
    let suite = json!({ "youbencha": 1, "name": "ablation", "cases": [case], "factors": factors, "repeats": repeats });
    world.context.write("suite.yaml", suite.to_string());
    world
}

#[test]
fn run_of_factors_reports_the_effect_of_each() {
    let world = world(5);
    let outcome = world.suite(&["--quiet"]).run();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let line = |start: &str| {
        lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{lines:#?}"))
    };
    assert!(line("strict_calm").contains("5/5") && line("none_loud").contains("0/5"), "{lines:#?}");
    assert_eq!(*line("design:"), "design: all 4 combinations of 2 factors");
    assert!(
        line("rules: better").contains("`strict` passes more often than `none`: 0.0% → 100.0%, +100.0 pp")
    );
    assert!(line("verbose: ").starts_with("verbose: cannot tell whether `loud` is better than `calm`"));
    assert!(lines.iter().any(|line| line.starts_with("rules ")
        && line.contains("none → strict")
        && line.contains("+100.0 pp")));

    let results: Value =
        serde_json::from_slice(&std::fs::read(world.only_run().join("results.json")).unwrap()).unwrap();
    assert_eq!(results["design"]["variants"]["strict_loud"], json!(["strict", "loud"]));
    let effects = results["variants"]["effects"].as_array().unwrap();
    assert_eq!((&effects[0]["factor"], &effects[0]["answer"]), (&json!("rules"), &json!("better")));
    assert_eq!(effects[0]["estimate"], 1.0);
    assert!(effects.iter().any(|effect| effect["metric"] == "duration_ms"));

    let report = |format: &str| {
        let file = format!("report-{format}");
        world.context.run(YB, ["report", "--format", format, "--output", &file]);
        let path = world.path(&file);
        let path = if path.is_dir() { path.join("index.html") } else { path };
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let markdown = report("markdown");
    assert!(
        markdown.contains("## Effects")
            && markdown.contains("| rules | none → strict | pass rate | \\+100.0 pp |"),
        "{markdown}"
    );
    assert!(report("html").contains("passes more often than"));
    let document: Value = serde_json::from_str(&report("json")).unwrap();
    assert_eq!(document["runs"][0]["variants"]["effects"][0]["answer"], "better");
    let schema: Value =
        serde_json::from_str(&world.context.run(YB, ["schema", "run-results"]).stdout).unwrap();
    assert!(jsonschema::is_valid(&schema, &results));
}

#[test]
fn part_of_a_design_has_no_effects() {
    let world = world(1);
    let outcome = world.suite(&["--quiet", "--filter", "variant=strict*"]).run();
    let expected = "effects need all 4 combinations of the design; this run has 2";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
}
