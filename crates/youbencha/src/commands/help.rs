//! `yb help`: the help of a command, or a topic.

use std::fmt::Write as _;

use yb_engine::Extensions;
use yb_figures::pad_end;

use crate::args::{self, HelpArgs};
use crate::env_vars;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// A help topic.
struct Topic {
    name: &'static str,
    about: &'static str,
    text: fn(&Extensions) -> String,
}

const TOPICS: [Topic; 12] = [
    Topic { name: "cases", about: "Case files", text: |_| include_str!("../../help/cases.txt").to_owned() },
    Topic {
        name: "suites",
        about: "Suite files",
        text: |_| include_str!("../../help/suites.txt").to_owned(),
    },
    Topic { name: "evaluators", about: "Evaluators", text: evaluators },
    Topic {
        name: "gates",
        about: "Conditions on results",
        text: |_| include_str!("../../help/gates.txt").to_owned(),
    },
    Topic {
        name: "statistics",
        about: "How comparisons are decided",
        text: |_| include_str!("../../help/statistics.txt").to_owned(),
    },
    Topic {
        name: "replay",
        about: "Recording and replaying model API traffic",
        text: |_| include_str!("../../help/replay.txt").to_owned(),
    },
    Topic {
        name: "isolation",
        about: "Isolation, network access and limits",
        text: |_| include_str!("../../help/isolation.txt").to_owned(),
    },
    Topic {
        name: "runs",
        about: "Files of a run and the index",
        text: |_| include_str!("../../help/runs.txt").to_owned(),
    },
    Topic {
        name: "events",
        about: "Events of `--json`",
        text: |_| include_str!("../../help/events.txt").to_owned(),
    },
    Topic {
        name: "prompts",
        about: "Prompt files",
        text: |_| include_str!("../../help/prompts.txt").to_owned(),
    },
    Topic { name: "environment", about: "Environment variables", text: environment },
    Topic { name: "exit-codes", about: "Exit codes", text: |_| ExitCode::table() + "\n" },
];

pub(super) fn run(
    args: &HelpArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let mut command = args::command();
    command.build();
    if let [name] = args.names.as_slice()
        && let Some(topic) = TOPICS.iter().find(|topic| topic.name == name)
    {
        printer.text(&(topic.text)(extensions));
        return Ok(ExitCode::Passed);
    }
    let mut found = &mut command;
    for name in &args.names {
        found = found.find_subcommand_mut(name).ok_or_else(|| {
            CliError::new(ErrorKind::Usage, format!("no such command or topic: `{name}`"))
                .hint("list commands and topics: `yb help`")
        })?;
    }
    printer.help(&found.render_long_help());
    Ok(ExitCode::Passed)
}

/// Returns the list of topics for help texts.
pub(crate) fn topics_help() -> String {
    let width = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or(0);
    TOPICS.iter().fold("Topics (`yb help TOPIC`):".to_owned(), |mut text, topic| {
        let _ = write!(text, "\n  {}  {}", pad_end(topic.name, width), topic.about);
        text
    })
}

fn evaluators(extensions: &Extensions) -> String {
    let known: Vec<_> = extensions.evaluators.iter().collect();
    let width = known.iter().map(|known| known.name.len()).max().unwrap_or(0);
    let mut text =
        "Evaluators\n\nA case lists its evaluators by name; a trial passes if all of them pass.\n\n"
            .to_owned();
    for known in known {
        let _ = writeln!(text, "  {}  {}", pad_end(known.name, width), known.summary);
    }
    text.push_str("\nRe-grade a recorded run with other evaluators: `yb eval --from RUN FILE`. Keys: `yb schema case`.\n");
    text
}

fn environment(_: &Extensions) -> String {
    let table = env_vars::table();
    let width = table.iter().map(|variable| variable.name.len()).max().unwrap_or(0);
    let mut text = "Environment variables\n\n".to_owned();
    for variable in table {
        let _ = writeln!(text, "  {}  {}", pad_end(&variable.name, width), variable.description);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_self_contained_and_no_commands() {
        let command = args::command();
        for topic in &TOPICS {
            let text = (topic.text)(&Extensions::builtin());
            assert!(!text.contains("docs/"), "`{}` points at a file of the repository", topic.name);
            assert!(
                text.ends_with('\n') && text.lines().all(|line| line.chars().count() <= 150),
                "{}",
                topic.name
            );
            assert!(command.find_subcommand(topic.name).is_none(), "`{}` is also a command", topic.name);
        }
    }
}
