//! Selects the agent of the demo: Claude Code, installed if necessary, or the built-in agent.

use std::path::PathBuf;

use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_engine::programs::{Installer, PinnedProgram, ProgramError, ProgramStore};
use yb_supervise::CancellationToken;

use crate::agents;
use crate::args::DemoArgs;
use crate::error::CliError;
use crate::printer::Printer;
use crate::signals::Signals;

/// The pinned version.
pub(super) const VERSION: &str = "2.1.325";

/// The agent of the demo.
pub(super) enum DemoAgent {
    /// A program named by the user.
    At(PathBuf),
    /// The pinned version, from the tools directory.
    Pinned,
    /// The built-in scripted agent.
    BuiltIn(FallbackReason),
}

/// Why Claude Code is not used.
pub(super) enum FallbackReason {
    NoDownload,
    NoNpm,
    Failed,
}

impl DemoAgent {
    /// Describes the agent.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::At(path) => format!("Claude Code: {}", path.display()),
            Self::Pinned => format!("Claude Code {VERSION}, pinned"),
            Self::BuiltIn(why) => {
                let why = match why {
                    FallbackReason::NoDownload => "Claude Code is not installed and `--no-download` is set",
                    FallbackReason::NoNpm => "Claude Code is not installed and npm was not found",
                    FallbackReason::Failed => "Claude Code could not be installed",
                };
                format!("built-in scripted agent: {why}")
            }
        }
    }
}

/// Finds or installs Claude Code; `None` if interrupted.
pub(super) fn choose(args: &DemoArgs, printer: &mut Printer) -> Result<Option<DemoAgent>, CliError> {
    if let Some(dir) = &args.agents_dir {
        let found = yb_claude::find_cli(Some(dir), &|name| std::env::var_os(name))?;
        return Ok(Some(DemoAgent::At(found.path)));
    }
    let env = agents::environment();
    let Some(store) = ProgramStore::from_env(&|name| env.get(name).cloned()) else {
        return Ok(Some(DemoAgent::BuiltIn(FallbackReason::NoNpm)));
    };
    let program = PinnedProgram::new(ClaudeCode.spec(), VERSION)?;
    if store.find(program.agent, &program.version).is_ok() {
        return Ok(Some(DemoAgent::Pinned));
    }
    let stop = CancellationToken::new();
    let installer = Installer::new(env).cancel_on(stop.clone());
    if args.no_download {
        return Ok(Some(DemoAgent::BuiltIn(FallbackReason::NoDownload)));
    }
    if !installer.has_npm() {
        return Ok(Some(DemoAgent::BuiltIn(FallbackReason::NoNpm)));
    }
    printer.note(format_args!(
        "installing {program} with npm into {} (about {} MB, once; skip with `--no-download`)",
        store.root().display(),
        program.npm.megabytes
    ));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    let installed = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let installing = installer.install(&store, &program);
        tokio::pin!(installing);
        tokio::select! {
            installed = &mut installing => Ok::<_, CliError>(Some(installed)),
            () = signals.stop() => {
                stop.cancel();
                let _ = installing.await;
                Ok(None)
            }
        }
    })?;
    match installed {
        None => Ok(None),
        Some(Ok(_)) => Ok(Some(DemoAgent::Pinned)),
        // Without a network, the built-in agent is used.
        Some(Err(error @ ProgramError::Npm { .. })) => {
            printer.note(format_args!("warning: {error}"));
            Ok(Some(DemoAgent::BuiltIn(FallbackReason::Failed)))
        }
        Some(Err(error)) => Err(error.into()),
    }
}
