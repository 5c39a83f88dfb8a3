//! Commands that repeat a trial or show more about it.

use yb_figures::shell_word;

use super::markup::Markup;
use crate::model::{Run, Trial};

/// Writes the commands of a trial of a recorded run.
pub(super) fn write(body: &mut Markup, run: &Run, trial: &Trial) {
    // A single bundle is no run that a command can name.
    let (Some(config), true) = (&run.config, trial.id.is_some()) else { return };
    let mut repeat = format!("yb run {}", shell_word(config));
    if run.trials.len() > 1 || trial.variant != "default" {
        repeat.push_str(&format!(" --filter {}", shell_word(&format!("case={}", glob(&trial.case)))));
        if trial.variant != "default" {
            repeat
                .push_str(&format!(" --filter {}", shell_word(&format!("variant={}", glob(&trial.variant)))));
        }
    }
    let named = format!("yb show {} {}", shell_word(&run.id), shell_word(&trial.name));
    body.raw("<section class=\"card\"><h2>Reproduce</h2><dl class=\"commands\">");
    for (what, command) in [
        ("run the case again", repeat),
        ("print the agent’s command line and input", format!("{named} --command")),
        ("print the conversation", format!("{named} --transcript")),
    ] {
        body.raw("<div><dt>").raw(what).raw("</dt><dd><code>").text(&command).raw("</code></dd></div>");
    }
    body.raw("</dl></section>");
}

/// Escapes the special characters of a pattern.
pub(crate) fn glob(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if "*?[]{}\\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_globs_and_shells() {
        assert_eq!(shell_word(&format!("case={}", glob("a b*"))), r"'case=a b\*'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("case=fix-1"), "case=fix-1");
    }
}
