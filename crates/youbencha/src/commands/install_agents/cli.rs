//! `yb install-agents --cli NAME@VERSION`: installs agent CLIs into a directory shared by all projects.

use yb_engine::Extensions;
use yb_engine::programs::{Installer, PinnedProgram, ProgramError, ProgramStore};
use yb_supervise::CancellationToken;

use crate::agents;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(super) fn run(
    names: &[String],
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    // Validate all names before downloading.
    let known = extensions.adapters.specs();
    let programs = names.iter().map(|name| PinnedProgram::parse(name, &known));
    let programs: Vec<PinnedProgram> = programs.collect::<Result<_, ProgramError>>()?;
    let env = agents::environment();
    let store = ProgramStore::from_env(&|name| env.get(name).cloned()).ok_or(ProgramError::NoDirectory)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        for program in programs {
            let stop = CancellationToken::new();
            let installer = Installer::new(env.clone()).cancel_on(stop.clone());
            let there = store.find(program.agent, &program.version);
            if there.is_err() && installer.has_npm() {
                printer.note(format_args!(
                    "installing {program} with npm into {} (about {} MB)",
                    store.root().display(),
                    program.npm.megabytes
                ));
            }
            let already = there.is_ok();
            let installing = installer.install(&store, &program);
            tokio::pin!(installing);
            let installed = tokio::select! {
                installed = &mut installing => installed,
                () = signals.stop() => {
                    // Kills npm and removes partial files.
                    stop.cancel();
                    let _ = installing.await;
                    return Ok(ExitCode::Interrupted);
                }
            };
            let word = if already { "present" } else { "installed" };
            printer.line(format_args!("{word:12} {program}  {}", installed?.prefix.display()));
        }
        Ok(ExitCode::Passed)
    })
}

impl From<ProgramError> for CliError {
    fn from(error: ProgramError) -> Self {
        let kind = match &error {
            ProgramError::UnknownProgram { .. }
            | ProgramError::NotExact { .. }
            | ProgramError::NoDirectory => ErrorKind::Usage,
            ProgramError::NotInstalled { .. } | ProgramError::NoNpm { .. } => ErrorKind::Agent,
            _ => ErrorKind::Infrastructure,
        };
        error.hints().into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}
