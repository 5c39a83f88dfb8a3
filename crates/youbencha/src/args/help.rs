//! The root help with grouped commands, and parsing with suggestions for mistyped commands.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::styling::Style;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};
use yb_figures::pad_end;

use super::Args;
use crate::exit_code::ExitCode;

/// The visible commands by group, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["run", "eval", "prompt", "ask", "demo"]),
    ("Inspect", &["show", "view", "open", "list", "report", "export", "index", "verify"]),
    ("Compare", &["compare", "diff", "trend", "gate", "baseline"]),
    ("Replay", &["tape"]),
    (
        "Set up",
        &[
            "init",
            "import",
            "validate",
            "check",
            "schema",
            "suggest-testcase",
            "config",
            "doctor",
            "self",
            "install-agents",
            "completions",
            "clean",
            "help",
        ],
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct HelpArgs {
    /// Command or topic [default: the help of `yb`]
    #[arg(value_name = "COMMAND|TOPIC")]
    pub(crate) names: Vec<String>,
}

/// Returns the command definition with grouped help.
pub(crate) fn command() -> clap::Command {
    let command = Args::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}Options:{}\n{{options}}{{after-help}}",
        groups(&command),
        header(&command).render(),
        header(&command).render_reset()
    );
    let topics = crate::commands::topics_help();
    let after = format!("{topics}\n\n{}", ExitCode::table());
    command
        .mut_subcommand("help", |help| help.after_help(topics.clone()))
        .help_template(template)
        .after_long_help(after)
        .after_help(topics)
}

fn header(command: &clap::Command) -> Style {
    *command.get_styles().get_header()
}

/// Renders the groups with the summary of each command.
fn groups(command: &clap::Command) -> String {
    let literal = *command.get_styles().get_literal();
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let header = header(command);
        let _ = writeln!(text, "{}{heading}:{}", header.render(), header.render_reset());
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let name = pad_end(name, width);
            let _ = writeln!(text, "  {}{name}{}  {about}", literal.render(), literal.render_reset());
        }
        text.push('\n');
    }
    text
}

/// Parses the arguments of the process.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    parse_from(std::env::args_os())
}

/// Parses arguments, the first of which is the program name.
pub(crate) fn parse_from<T: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = T>,
) -> Result<Args, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let mut plain = Args::command();
    let matches = match plain.try_get_matches_from_mut(&arguments) {
        Ok(matches) => matches,
        // Grouped help is built only when it is shown: it would take a tenth of the time of `yb --version`.
        Err(error) if is_help(error.kind()) => command().try_get_matches_from(&arguments)?,
        Err(error) => return Err(with_suggestion(error, &plain)),
    };
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut plain))
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Suggests a command for transposed or missing letters, which clap does not recognize in short names.
fn with_suggestion(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let typed = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => typed.clone(),
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let names = command.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    let nearest = names.map(|name| (strsim::osa_distance(&typed, name), name)).min();
    if let Some((1, name)) = nearest {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name.to_owned()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let command = command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut visible: Vec<&str> = command
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        grouped.sort_unstable();
        visible.sort_unstable();
        assert_eq!(grouped, visible);
    }

    /// Arguments of a command are added when it is used, after its description.
    #[test]
    fn arguments_keep_the_description_of_their_command() {
        fn check(deferred: &clap::Command, built: &clap::Command) {
            for command in deferred.get_subcommands() {
                let found = built.find_subcommand(command.get_name()).unwrap();
                let texts = |command: &clap::Command| {
                    [command.get_about(), command.get_long_about()].map(|text| text.map(ToString::to_string))
                };
                assert_eq!(texts(found), texts(command), "`{}`", command.get_name());
                check(command, found);
            }
        }
        let mut built = Args::command();
        built.build();
        check(&Args::command(), &built);
    }

    #[test]
    fn transposed_letters_get_a_suggestion() {
        for (typed, expected) in [("rnu", "run"), ("lst", "list"), ("shwo", "show")] {
            let error = parse_from(["yb", typed]).unwrap_err().to_string();
            assert!(error.contains(&format!("'{expected}'")), "{error}");
        }
    }

    /// Visits the help of every command, hidden ones included.
    fn visit(command: &mut clap::Command, check: &dyn Fn(&str, &str)) {
        let name = command.get_name().to_owned();
        check(&name, &command.render_long_help().to_string());
        for below in command.get_subcommands_mut() {
            visit(below, check);
        }
    }

    #[test]
    fn help_never_points_at_repository_files() {
        let mut command = command();
        command.build();
        visit(&mut command, &|name, text| assert!(!text.contains("docs/"), "`{name}`: {text}"));
    }
}
