//! `yb suggest-testcase`: lets an agent propose a case from the output of an agent.

use std::path::Path;

use yb_engine::Extensions;
use yb_engine::adapter::{Adapter as _, Command, CommandConfig};
use yb_engine::config::Settings;
use yb_engine::suggest::{SuggestRequest, Suggestion};
use yb_engine::trial::Runner;
use yb_figures::plural;

use crate::agents;
use crate::args::SuggestArgs;
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;
use crate::signals::Signals;

pub(super) fn run(
    args: &SuggestArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let request = request(args, extensions)?;
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (settings, found) = Settings::load(std::env::home_dir().as_deref(), &project);
    for finding in &found {
        printer.note(render(finding, finding.severity));
    }
    if found.iter().any(yb_engine::diagnostic::Diagnostic::is_error) {
        return Ok(ExitCode::Usage);
    }
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    let asked = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let runner = Runner::new(settings, agents::environment(), extensions.clone());
        let cancel = runner.stop.token().clone();
        let mut on_progress = |text: String| printer.note(text);
        let asked = runner.suggest(&request, &mut on_progress);
        tokio::pin!(asked);
        let asked = tokio::select! {
            asked = &mut asked => asked,
            () = signals.stop() => {
                cancel.cancel();
                asked.await
            }
        };
        match asked {
            _ if cancel.is_cancelled() => Ok(None),
            Ok(suggestion) => Ok(Some(suggestion)),
            Err(error) => Err(CliError::from(&error)),
        }
    })?;
    match asked {
        None => Ok(ExitCode::Interrupted),
        Some(suggestion) => report(&suggestion, &args.save, printer),
    }
}

/// Validates the arguments before anything is started.
fn request(args: &SuggestArgs, extensions: &Extensions) -> Result<SuggestRequest, CliError> {
    let usage = |message: String| CliError::new(ErrorKind::Usage, message);
    if extensions.adapters.get(&args.agent).is_none() {
        let names: Vec<String> = extensions.adapters.names().map(|name| format!("`{name}`")).collect();
        return Err(usage(format!("unknown agent: `{}`", args.agent))
            .hint(format!("expected one of {}", names.join(", "))));
    }
    let is_command = args.agent == Command.spec().name;
    if is_command == args.command.is_empty() {
        return Err(if is_command {
            usage("no program given for the agent `command`".to_owned())
                .hint("pass it after `--`: `… --agent command -- ./my-agent {prompt_file}`")
        } else {
            usage(format!("a program after `--` requires `--agent command`, not `{}`", args.agent))
        });
    }
    if !args.output_dir.is_dir() {
        return Err(usage(format!("no such directory: `{}`", args.output_dir.display())));
    }
    if files::exists(&args.save) {
        return Err(usage(format!("file exists: `{}`", args.save.display()))
            .hint("choose another file with `--save`, or remove it"));
    }
    // Checked before the agent runs.
    if !directory_of(&args.save).is_dir() {
        return Err(usage(format!("no such directory: `{}`", directory_of(&args.save).display()))
            .hint(format!("create it: `mkdir -p {}`", directory_of(&args.save).display())));
    }
    let mut request = SuggestRequest::new(&args.agent, &args.output_dir, &args.save);
    if is_command {
        request.command = Some(CommandConfig::new(&args.command));
    }
    if let Some(file) = &args.agent_file {
        let text = std::fs::read_to_string(file).map_err(|error| {
            usage(format!("failed to read the instructions: `{}`", file.display())).caused_by(error)
        })?;
        request.instructions = Some(text);
    }
    Ok(request)
}

fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn report(suggestion: &Suggestion, save: &Path, printer: &mut Printer) -> Result<ExitCode, CliError> {
    for finding in &suggestion.diagnostics {
        printer.note(render(finding, finding.severity));
        printer.note("");
    }
    let kept = suggestion.kept.display();
    if let Some(case) = &suggestion.case {
        files::write(directory_of(save), Path::new(save.file_name().unwrap_or_default()), case)?;
        printer.line(format_args!("saved {}", save.display()));
        printer.line("\nReview it, then run it:");
        printer.line(format_args!("  yb run {}", save.display()));
        return Ok(ExitCode::Passed);
    }
    if let Some((outcome, why)) = &suggestion.failed {
        printer.line(format_args!("no case: {why}"));
        printer.line(format_args!("agent output: {kept}"));
        let code = outcome.exit_code();
        return Ok(ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed));
    }
    let what = if suggestion.diagnostics.is_empty() { "none in the answer" } else { "invalid" };
    printer.line(format_args!("no case: {what}, after {}", plural(suggestion.rounds, "attempt")));
    printer.line(format_args!("agent output: {kept}"));
    Ok(ExitCode::Failed)
}
