//! `yb show --command`: a shell script that repeats the execution of the agent.

use std::fmt::Write as _;

use yb_claude::{InvocationTarget, Options, Prompt};
use yb_engine::log::{Role, StdinContent, YouBenchaLog};
use yb_figures::shell_word;

use crate::report::trial::TrialView;

/// The directory for the start tree.
const FOLDER: &str = "again";

/// The empty tree, so that attributes of the repository have no effect.
const NO_ATTRIBUTES: &str = "--attr-source=4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Renders the script, with comments on what it can't reproduce.
pub(super) fn script(view: &TrialView<'_>, log: &YouBenchaLog) -> String {
    let (mut out, execution) = (String::new(), &log.execution);
    let _ = writeln!(out, "# execution of {} in {}", view.trial.folder, log.environment.working_directory);
    if execution.argv.is_empty() {
        let _ = writeln!(out, "# unknown: the agent did not start, or an older version recorded the run");
        return out;
    }
    if !execution.env.is_empty() {
        let _ = writeln!(out, "# environment variables, values not recorded: {}", execution.env.join(" "));
    }
    if execution.argv.iter().any(|argument| argument.contains("[REDACTED:")) {
        let _ = writeln!(out, "# replace [REDACTED:NAME]");
    }
    let private = view.record.map(|record| {
        view.info.run.attempt(&view.trial.folder, record.attempt).join("private").display().to_string()
    });
    if private.is_some_and(|private| execution.argv.iter().any(|argument| argument.contains(&private))) {
        let _ = writeln!(out, "# files in the `private` directory were removed");
    }
    if let Some(trees) = view.record.and_then(|record| record.trees.as_ref()) {
        let objects = shell_word(&view.info.run.objects().display().to_string());
        let _ = writeln!(out, "mkdir {FOLDER} && GIT_INDEX_FILE=$PWD/{FOLDER}.index git {NO_ATTRIBUTES} \\");
        let tree = &trees.start;
        let _ = writeln!(out, "  --git-dir={objects} --work-tree={FOLDER} read-tree --reset -u {tree} &&");
        let _ = writeln!(out, "  cd {FOLDER} || exit");
    }
    let words: Vec<String> = execution.argv.iter().map(|argument| shell_word(argument)).collect();
    let _ = writeln!(out, "{}{}", words.join(" "), input(execution.stdin, log));
    out
}

/// Returns stdin as a here-document.
fn input(stdin: Option<StdinContent>, log: &YouBenchaLog) -> String {
    let prompt = log.messages.iter().find(|message| message.role == Role::User);
    let Some(prompt) = prompt.map(|message| message.content.clone()) else {
        return " </dev/null".to_owned();
    };
    let text = match stdin {
        Some(StdinContent::Prompt) => prompt,
        Some(StdinContent::Frame) => frame(&prompt),
        _ => return " </dev/null".to_owned(),
    };
    let mut end = "PROMPT".to_owned();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    format!(" <<'{end}'\n{text}\n{end}")
}

/// Encodes the prompt as an input frame of Claude Code.
fn frame(prompt: &str) -> String {
    let invocation = Options::default().invocation(&Prompt::text(prompt), &InvocationTarget::new("/nowhere"));
    let line = invocation.map(|invocation| invocation.stdin).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use yb_figures::shell_word;

    #[test]
    fn quoted_protects_special_characters() {
        for (word, expected) in [
            ("--model=opus", "--model=opus"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("{\"a\":1}", "'{\"a\":1}'"),
            ("~", "'~'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }
}
