//! `yb show --command`: a script that repeats by hand what was executed. Quoting is for showing only: nothing of ours
//! goes through a shell.

use std::fmt::Write as _;

use yb_claude::{InvocationTarget, Options, Prompt};
use yb_engine::log::{Role, StdinContent, YouBenchaLog};

use crate::report::trial::Look;
use crate::workspace::harmless;

/// Where the starting tree is put.
const FOLDER: &str = "again";

/// The empty tree: no attribute of the repository changes what is written.
const NO_ATTRIBUTES: &str = "--attr-source=4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Comments say what the commands can't.
pub(super) fn script(look: &Look<'_>, log: &YouBenchaLog) -> String {
    let (mut out, execution) = (String::new(), &log.execution);
    let _ = writeln!(
        out,
        "# {} was executed like this, in {}",
        look.trial.folder, log.environment.working_directory
    );
    if execution.argv.is_empty() {
        let _ = writeln!(out, "# nothing is known: it was not started, or by an older version");
        return out;
    }
    if !execution.env.is_empty() {
        let _ =
            writeln!(out, "# with these variables, whose values are not kept: {}", execution.env.join(" "));
    }
    if execution.argv.iter().any(|argument| argument.contains("[REDACTED:")) {
        let _ = writeln!(out, "# fill in what is [REDACTED:NAME]");
    }
    let private = look.record.map(|record| {
        look.info.run.attempt(&look.trial.folder, record.attempt).join("private").display().to_string()
    });
    if private.is_some_and(|private| execution.argv.iter().any(|argument| argument.contains(&private))) {
        let _ = writeln!(out, "# files in its `private` folder were removed");
    }
    if let Some(trees) = look.record.and_then(|record| record.trees.as_ref()) {
        let objects = quoted(&look.info.run.objects().display().to_string());
        let _ = writeln!(out, "mkdir {FOLDER} && GIT_INDEX_FILE=$PWD/{FOLDER}.index git {NO_ATTRIBUTES} \\");
        let tree = &trees.start;
        let _ = writeln!(out, "  --git-dir={objects} --work-tree={FOLDER} read-tree --reset -u {tree} &&");
        let _ = writeln!(out, "  cd {FOLDER} || exit");
    }
    let words: Vec<String> = execution.argv.iter().map(|argument| quoted(argument)).collect();
    let _ = writeln!(out, "{}{}", words.join(" "), input(execution.stdin, log));
    out
}

/// What it could read, as a here-document.
fn input(stdin: Option<StdinContent>, log: &YouBenchaLog) -> String {
    let prompt = log.messages.iter().find(|message| message.role == Role::User);
    let Some(prompt) = prompt.map(|message| harmless(&message.content)) else {
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

/// The prompt in the line that Claude Code reads.
fn frame(prompt: &str) -> String {
    let invocation = Options::default().invocation(&Prompt::text(prompt), &InvocationTarget::new("/nowhere"));
    let line = invocation.map(|invocation| invocation.stdin).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// As a POSIX shell takes it for one word.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_stay_words() {
        for (word, expected) in [
            ("--model=opus", "--model=opus"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("{\"a\":1}", "'{\"a\":1}'"),
            ("~", "'~'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
