//! `yb install-agents --cli NAME@VERSION`: installs agent CLIs into a directory shared by all projects.

use yb_engine::tools::{CliSpec, Installer, ToolError, Tools};
use yb_supervise::CancellationToken;

use crate::agents;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(super) fn run(names: &[String], printer: &mut Printer) -> Result<ExitCode, CliError> {
    // Validate all names before downloading.
    let specs: Vec<CliSpec> = names.iter().map(|name| name.parse()).collect::<Result<_, ToolError>>()?;
    let env = agents::environment();
    let tools = Tools::of_environment(&|name| env.get(name).cloned()).ok_or(ToolError::NoDirectory)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        for spec in specs {
            let stop = CancellationToken::new();
            let installer = Installer::new(env.clone()).cancel_on(stop.clone());
            let there = tools.find(spec.cli.name, &spec.version);
            if there.is_err() && installer.has_npm() {
                printer.note(format_args!(
                    "installing {spec} with npm into {} (about {} MB)",
                    tools.root().display(),
                    spec.cli.megabytes
                ));
            }
            let already = there.is_ok();
            let installing = installer.install(&tools, &spec);
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
            printer.line(format_args!("{word:12} {spec}  {}", installed?.prefix.display()));
        }
        Ok(ExitCode::Passed)
    })
}

impl From<ToolError> for CliError {
    fn from(error: ToolError) -> Self {
        let kind = match &error {
            ToolError::UnknownCli { .. } | ToolError::NotExact { .. } | ToolError::NoDirectory => {
                ErrorKind::Usage
            }
            ToolError::NotInstalled { .. } | ToolError::NoNpm { .. } => ErrorKind::Agent,
            _ => ErrorKind::Infrastructure,
        };
        error.hints().into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}
