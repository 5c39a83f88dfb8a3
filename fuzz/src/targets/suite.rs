//! Suite files, with a valid case beside them.

use super::{Probe, Target, diagnostics, require};
use crate::corpus::Seeds;
use yb_case::suite;

/// The case that suites refer to.
const CASE: &str = "youbencha: 1\nname: one\ndescription: x\nrepo: https://github.com/a/b\ntags: [fast]\n\
                    agent: { type: claude-code, config: { prompt: Do what is asked. } }\n\
                    evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]\n";

pub(super) const TARGET: Target = Target {
    name: "suite",
    about: "suite files: merged with a case, or rejected with an error whose position lies in the file",
    seeds: || {
        Seeds::new()
            .text("youbencha: 1\nname: s\ncases: [case.yaml, ./*.yaml]\nvariants: { a: { model: sonnet }, b: {} }\n")
            .text(
                "youbencha: 1\ncases:\n  - file: case.yaml\n    tags: [slow]\nvariants:\n  a:\n    agent:\n      \
                 config: { model: opus }\nrepeats: 3\nretries: 0\nmax_cost_usd: 1.5\nconcurrency: { claude-code: 2 }\n\
                 gates: { min_pass_rate: 0.5, no_regression: { against: latest } }\n",
            )
            .files("examples", "suite.yaml")?
            .blocks(&["yaml"], |block| block.contains("cases:") || block.contains("variants:"))?
            .schema("suite.schema.json")
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let options = super::case::options();
    probe.write("case.yaml", CASE.as_bytes())?;
    let path = probe.write("suite.yaml", input)?;
    let loaded = suite::load(&path, options);
    let is_error = loaded.diagnostics.iter().any(yb_yaml::diagnostic::Diagnostic::is_error);
    require(
        loaded.suite.is_none() == is_error,
        "a suite has no errors, and a rejected one has some",
        || format!("{:?}", loaded.diagnostics),
    )?;
    diagnostics::check(probe, &path, input, &loaded.diagnostics)?;
    if let Some(suite) = loaded.suite {
        probe.saw(&(suite.combinations.len(), suite.repeats.min(4), suite.gates.is_empty()));
        let _ = suite.trials();
        for combination in &suite.combinations {
            let digests = || (combination.task_digest("0"), combination.grade_digest());
            let (digest, again) = (digests(), digests());
            require(digest == again, "digests are stable", || format!("{digest:?} {again:?}"))?;
        }
    }
    Ok(())
}
