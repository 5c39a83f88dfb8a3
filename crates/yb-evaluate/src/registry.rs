//! The built-in evaluators: one line each.

use yb_case::EvaluatorSpecs;

use super::{
    activation, agentic_judge, answer, budget, command, expected_diff, files, git_diff, probe, reward_file,
    trajectory, weighted_score,
};

/// Returns the evaluators that are built in, in the order in which `yb list evaluators` shows them.
#[must_use]
pub fn builtin_evaluators() -> EvaluatorSpecs {
    EvaluatorSpecs::new()
        .with(&git_diff::SPEC)
        .with(&expected_diff::SPEC)
        .with(&command::SPEC)
        .with(&probe::SPEC)
        .with(&reward_file::SPEC)
        .with(&files::SPEC)
        .with(&trajectory::SPEC)
        .with(&activation::SPEC)
        .with(&budget::SPEC)
        .with(&answer::SPEC)
        .with(&agentic_judge::SPEC)
        .with(&weighted_score::SPEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_have_a_summary_and_distinct_names() {
        let specs = builtin_evaluators();
        assert_eq!(specs.iter().count(), 12);
        for spec in specs.iter() {
            assert!(!spec.summary.is_empty(), "{}", spec.name);
            assert_eq!(specs.get(spec.name).map(|found| found.name), Some(spec.name));
        }
    }

    /// The file of an evaluator: the only one that may have its name as a literal.
    fn own_file(name: &str) -> String {
        format!("yb-evaluate/src/{}.rs", name.replace('-', "_"))
    }

    /// Names that are common words: keys of formats, agents and metrics have them too. For these only comparisons and match
    /// arms are looked for.
    const COMMON_WORDS: [&str; 5] = ["command", "probe", "files", "budget", "answer"];

    /// Places where the literal is not the name of an evaluator, or where a case is written.
    const ALLOWED: [(&str, &str); 5] = [
        // The agent of this name.
        ("command", "yb-engine/src/trial/agent.rs"),
        ("command", "yb-agents/src/tape/wire.rs"),
        ("command", "youbencha/src/commands/suggest.rs"),
        // The evaluator of imported suites.
        ("weighted-score", "yb-import/src/output.rs"),
        // A field of the results.
        ("answer", "yb-report/src/value.rs"),
    ];

    fn sources(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                sources(&entry, found);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(entry);
            }
        }
    }

    #[test]
    fn names_occur_only_in_the_file_of_the_evaluator() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()) {
            // The testkit has recorded runs.
            if !entry.ends_with("yb-testkit") && entry.join("src").is_dir() {
                sources(&entry.join("src"), &mut files);
            }
        }
        let mut violations = Vec::new();
        for path in &files {
            let relative = path.strip_prefix(&crates).unwrap().to_string_lossy().replace('\\', "/");
            let text = std::fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for name in builtin_evaluators().names() {
                let literal = format!("\"{name}\"");
                let used = if COMMON_WORDS.contains(&name) {
                    [format!("== {literal}"), format!("{literal} =>"), format!("{literal} |")]
                        .iter()
                        .any(|comparison| code.contains(comparison))
                } else {
                    code.contains(&literal)
                };
                let allowed = relative == own_file(name)
                    || relative.ends_with("tests.rs")
                    || ALLOWED.contains(&(name, relative.as_str()));
                if used && !allowed {
                    violations.push(format!("{relative}: {literal}"));
                }
            }
        }
        assert!(violations.is_empty(), "look the evaluator up in its spec instead: {violations:#?}");
    }
}
