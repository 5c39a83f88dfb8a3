//! The legacy command line, with the prompt as an argument and JSON output.

use super::argv::Argv;
use super::{
    INLINE_LIMIT, Invocation, InvocationTarget, OptionIssue, Options, OptionsError, OutputFormat, Prompt,
    Session,
};

/// The default turn limit.
const MAX_TURNS: u32 = 10;

impl Options {
    /// Creates an invocation of the form `-p PROMPT --output-format json --max-turns N [--session-id ID] --allowedTools T …`,
    /// with one `--allowedTools` per tool, in this order. Other options follow.
    ///
    /// The CLI interprets such a prompt: a leading `/` runs a command, and `@file` is expanded. A prompt that is too
    /// large for an argument, or that starts with a dash, is passed on stdin.
    ///
    /// # Errors
    /// As [`invocation`](Self::invocation).
    pub fn legacy_invocation(
        &self,
        prompt: &Prompt,
        target: &InvocationTarget,
    ) -> Result<Invocation, OptionsError> {
        let json = Self { output: OutputFormat::Json, ..self.clone() };
        let warnings: Vec<OptionIssue> = json.validate_with_prompt(prompt, target)?;
        let text = prompt.as_text().unwrap_or_default();
        let in_argv = text.len() <= INLINE_LIMIT && !text.starts_with('-');
        let mut argv = Argv::new(&target.private_dir);
        argv.literals(&["-p"]);
        if in_argv {
            argv.literals(&[text]);
        }
        argv.literals(&["--output-format", "json"]);
        argv.literals(&["--max-turns", &self.max_turns.unwrap_or(MAX_TURNS).to_string()]);
        match &self.session {
            // A UUID can't be mistaken for a flag.
            Session::WithId(id) if self.resume_at.is_none() => argv.literals(&["--session-id", id]),
            _ => self.push_session(&mut argv),
        }
        // Validation guarantees that no rule starts with a dash.
        for tool in self.allowed().iter().flatten() {
            argv.literals(&["--allowedTools", tool]);
        }
        self.push_rest(&mut argv);
        let stdin = if in_argv { Vec::new() } else { text.as_bytes().to_vec() };
        json.finish(argv, stdin, warnings)
    }
}
