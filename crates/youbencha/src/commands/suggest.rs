//! `yb suggest-testcase`: an agent looks at what an agent left, and proposes a case.

use std::path::Path;

use yb_engine::adapter::{self, CommandSpec};
use yb_engine::config::Settings;
use yb_engine::suggest::{SuggestRequest, Suggestion};
use yb_engine::trial::Runner;

use crate::agents;
use crate::args::SuggestArgs;
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::{Printer, plural};
use crate::signals::Signals;

pub(super) fn run(args: &SuggestArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let request = request(args)?;
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
        let runner = Runner::new(settings, agents::environment());
        let cancel = runner.stop.token().clone();
        let mut tell = |what: String| printer.note(what);
        let asked = runner.suggest(&request, &mut tell);
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

/// Everything that can be wrong with the arguments, before anything is started.
fn request(args: &SuggestArgs) -> Result<SuggestRequest, CliError> {
    let usage = |message: String| CliError::new(ErrorKind::Usage, message);
    if adapter::adapter(&args.agent).is_none() {
        let names: Vec<String> = adapter::adapter_names().map(|name| format!("`{name}`")).collect();
        return Err(
            usage(format!("unknown agent: `{}`", args.agent)).hint(format!("use {}", names.join(" or ")))
        );
    }
    let is_command = args.agent == "command";
    if is_command == args.command.is_empty() {
        return Err(if is_command {
            usage("no program for the agent `command`".to_owned())
                .hint("name it behind `--`: `… --agent command -- ./my-agent {prompt_file}`")
        } else {
            usage(format!("a program behind `--` is only for `--agent command`, not for `{}`", args.agent))
        });
    }
    if !args.output_dir.is_dir() {
        return Err(usage(format!("no such directory: `{}`", args.output_dir.display())));
    }
    if files::exists(&args.save) {
        return Err(usage(format!("already there: `{}`", args.save.display()))
            .hint("choose another name with `--save`, or remove it"));
    }
    // Before an agent has worked for nothing.
    if !directory_of(&args.save).is_dir() {
        return Err(usage(format!("no such directory: `{}`", directory_of(&args.save).display()))
            .hint(format!("make it: `mkdir -p {}`", directory_of(&args.save).display())));
    }
    let mut request = SuggestRequest::new(&args.agent, &args.output_dir, &args.save);
    if is_command {
        request.command = Some(CommandSpec::new(&args.command));
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
        printer.line(format_args!("\nRead it, then run it:\n  yb run -c {}", save.display()));
        return Ok(ExitCode::Passed);
    }
    if let Some((outcome, why)) = &suggestion.failed {
        printer.line(format_args!("no case: {why}"));
        printer.line(format_args!("what the agent said: {kept}"));
        let code = outcome.exit_code();
        return Ok(ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed));
    }
    let what =
        if suggestion.diagnostics.is_empty() { "there is none in the answer" } else { "it is not valid" };
    printer.line(format_args!("no case: {what}, after {}", plural(suggestion.rounds as u64, "attempt")));
    printer.line(format_args!("what the agent said: {kept}"));
    Ok(ExitCode::Failed)
}
