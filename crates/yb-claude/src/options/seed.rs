//! The command in the literal form of the first specification, for those who depend on it.

use super::argv::Argv;
use super::{
    Finding, INLINE_LIMIT, Invocation, Options, OptionsError, OutputFormat, Prompt, Session, Target,
};

/// Turns, when nothing is said.
const MAX_TURNS: u32 = 10;

impl Options {
    /// The command as `-p PROMPT --output-format json --max-turns N [--session-id ID] --allowedTools T …`, each tool
    /// with its own flag, in this order; options that this form does not know follow.
    ///
    /// The CLI interprets such a prompt: a leading `/` runs a command, and `@file` is expanded. A prompt that is too
    /// large for an argument, or that begins with a dash and would be taken for a flag, goes to stdin instead.
    ///
    /// # Errors
    /// As [`invocation`](Self::invocation).
    pub fn seed_invocation(&self, prompt: &Prompt, target: &Target) -> Result<Invocation, OptionsError> {
        let json = Self { output: OutputFormat::Json, ..self.clone() };
        let warnings: Vec<Finding> = json.checked(prompt, target)?;
        let text = prompt.as_text().unwrap_or_default();
        let in_argv = text.len() <= INLINE_LIMIT && !text.starts_with('-');
        let mut argv = Argv::new(&target.private_dir);
        argv.words(&["-p"]);
        if in_argv {
            argv.words(&[text]);
        }
        argv.words(&["--output-format", "json"]);
        argv.words(&["--max-turns", &self.max_turns.unwrap_or(MAX_TURNS).to_string()]);
        match &self.session {
            // A UUID, so it is no flag.
            Session::WithId(id) if self.resume_at.is_none() => argv.words(&["--session-id", id]),
            _ => self.push_session(&mut argv),
        }
        // The grammar of rules lets none begin with a dash.
        for tool in self.allowed().iter().flatten() {
            argv.words(&["--allowedTools", tool]);
        }
        self.push_rest(&mut argv);
        let stdin = if in_argv { Vec::new() } else { text.as_bytes().to_vec() };
        json.finish(argv, stdin, warnings)
    }
}
