//! The prompts for an agent that suggests a case.

use std::fmt::Write as _;

use super::{FILE, SCHEMA_FILE};
use yb_case::EvaluatorSpecs;
use yb_yaml::diagnostic::Diagnostic;

/// The built-in instructions.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Facts about the output directory.
pub(super) struct OutputFacts {
    /// The directory, as a quoted path for the case.
    pub(super) directory: String,
    /// The last commit, if the directory is a repository that has one.
    pub(super) commit: Option<String>,
}

/// Returns the first prompt.
pub(super) fn first(instructions: Option<&str>, facts: &OutputFacts, evaluators: &EvaluatorSpecs) -> String {
    let mut text = instructions.map_or(INSTRUCTIONS, without_front_matter).trim().to_owned();
    let start = match &facts.commit {
        Some(commit) => format!(
            "If `committed` is the state before the work, start there: `repo: {}` and `commit: {commit}`. Otherwise write \
             `directory: {}`, with a comment that this has to become the state before the work.",
            facts.directory, facts.directory
        ),
        None => format!(
            "The state before the work is not known. Write `directory: {}`, with a comment that this has to become the state \
             before the work.",
            facts.directory
        ),
    };
    let evaluators: Vec<String> =
        evaluators.iter().map(|spec| format!("- `{}`: {}", spec.name, spec.summary)).collect();
    let _ = write!(
        text,
        "\n\n## The case\n\n\
         A case is a YAML file like this one; `{SCHEMA_FILE}` in your working directory is its whole JSON Schema.\n\n\
         ```yaml\n\
         youbencha: 1\n\
         name: short-name\n\
         description: One sentence about what is asked for.\n\
         directory: path/of/the/start        # or `repo:` with `commit:`\n\
         agent:\n  type: claude-code\n  config:\n    prompt: |\n      What the agent is to do.\n\
         evaluators:\n  - name: git-diff\n    config:\n      assertions:\n        max_files_changed: 3\n        max_lines_added: 60\n\
         ```\n\n\
         {start}\n\nEvaluators that can be used:\n\n{}\n\n\
         ## Your answer\n\n\
         Write the case to the file `{FILE}` in your working directory and change nothing else. If you can't write files, end \
         your last message with the whole case in one block that is fenced as `yaml`.\n",
        evaluators.join("\n")
    );
    text
}

/// Returns the second and last prompt, with the errors of the first answer.
pub(super) fn second(first: &str, answer: Option<&str>, found: &[Diagnostic]) -> String {
    let mut text = format!("{first}\n## What was wrong with your first answer\n\n");
    match answer {
        None => {
            let _ =
                writeln!(text, "There was no case: neither the file `{FILE}` nor a block fenced as `yaml`.");
        }
        Some(answer) => {
            let _ =
                write!(text, "This was it:\n\n```yaml\n{}\n```\n\nIt is not valid:\n\n", answer.trim_end());
            for found in found.iter().filter(|found| found.is_error()) {
                let _ = write!(text, "- line {}: `{}`: {}", found.line, found.key, found.message);
                if let Some(expected) = &found.expected {
                    let _ = write!(text, "; expected {expected}");
                }
                if let Some(hint) = &found.hint {
                    let _ = write!(text, " ({hint})");
                }
                text.push('\n');
            }
            text.push_str("\nFix it. This is the last attempt.\n");
        }
    }
    text
}

/// Returns a text without its front matter between two `---` lines.
fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n") else { return text };
    rest.split_once("\n---\n").map_or(text, |(_, body)| body)
}

/// Returns the last fenced block that is marked as YAML or has no mark.
pub(super) fn fenced(answer: &str) -> Option<String> {
    let mut last = None;
    let mut open: Option<(bool, Vec<&str>)> = None;
    for line in answer.lines() {
        let fence = line.trim_start().strip_prefix("```");
        open = match (open.take(), fence) {
            (None, Some(word)) => Some((matches!(word.trim(), "yaml" | "yml" | ""), Vec::new())),
            (Some((wanted, lines)), Some(word)) if word.trim().is_empty() => {
                if wanted {
                    last = Some(lines.join("\n") + "\n");
                }
                None
            }
            (Some((wanted, mut lines)), _) => {
                lines.push(line);
                Some((wanted, lines))
            }
            (None, None) => None,
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{fenced, without_front_matter};

    #[test]
    fn last_yaml_block_is_used() {
        assert_eq!(fenced("no block"), None);
        assert_eq!(fenced("```yaml\na: 1\n```\nor\n```yml\nb: 2\n```\nend"), Some("b: 2\n".into()));
        assert_eq!(fenced("```\na: 1\n```\n```json\n{}\n```\n"), Some("a: 1\n".into()));
        assert_eq!(fenced("```yaml\nnever closed"), None);
    }

    #[test]
    fn front_matter_is_removed() {
        assert_eq!(without_front_matter("---\nname: x\n---\nBody"), "Body");
        assert_eq!(without_front_matter("Body\n---\nmore"), "Body\n---\nmore");
    }
}
