//! Which agent the demo runs: Claude Code that is there, Claude Code that is fetched, or the one that is built in.

use std::path::PathBuf;

use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_engine::programs::{Installer, PinnedProgram, ProgramError, ProgramStore};
use yb_supervise::CancellationToken;

use crate::agents;
use crate::args::DemoArgs;
use crate::error::CliError;
use crate::printer::Printer;
use crate::signals::Signals;

/// The version that this demo was tried with.
pub(super) const VERSION: &str = "2.1.325";

/// What runs.
pub(super) enum Agent {
    /// A program that the user named.
    At(PathBuf),
    /// The pinned one, from our own directory.
    Pinned,
    /// None of anybody's: ours.
    BuiltIn(Why),
}

/// Why there is no Claude Code.
pub(super) enum Why {
    NoDownload,
    NoNpm,
    Failed,
}

impl Agent {
    /// In words.
    pub(super) fn told(&self) -> String {
        match self {
            Self::At(path) => format!("Claude Code: {}", path.display()),
            Self::Pinned => format!("Claude Code {VERSION}, pinned"),
            Self::BuiltIn(why) => {
                let why = match why {
                    Why::NoDownload => {
                        "Claude Code is not installed, and `--no-download` says that it shall not be"
                    }
                    Why::NoNpm => "Claude Code is not installed, and there is no npm to install it with",
                    Why::Failed => "Claude Code could not be installed",
                };
                format!("the scripted one that is built in: {why}")
            }
        }
    }
}

/// Finds or installs one; none when somebody interrupted that.
pub(super) fn choose(args: &DemoArgs, printer: &mut Printer) -> Result<Option<Agent>, CliError> {
    if let Some(dir) = &args.agents_dir {
        let found = yb_claude::find(Some(dir), &|name| std::env::var_os(name))?;
        return Ok(Some(Agent::At(found.path)));
    }
    let env = agents::environment();
    let Some(store) = ProgramStore::from_env(&|name| env.get(name).cloned()) else {
        return Ok(Some(Agent::BuiltIn(Why::NoNpm)));
    };
    let program = PinnedProgram::new(ClaudeCode.spec(), VERSION)?;
    if store.find(program.agent, &program.version).is_ok() {
        return Ok(Some(Agent::Pinned));
    }
    let stop = CancellationToken::new();
    let installer = Installer::new(env).cancel_on(stop.clone());
    if args.no_download {
        return Ok(Some(Agent::BuiltIn(Why::NoDownload)));
    }
    if !installer.has_npm() {
        return Ok(Some(Agent::BuiltIn(Why::NoNpm)));
    }
    printer.note(format_args!(
        "installing {program} with npm into {}, once: about {} MB (`--no-download` does without)",
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
        Some(Ok(_)) => Ok(Some(Agent::Pinned)),
        // Without a network there is still something to see.
        Some(Err(error @ ProgramError::Npm { .. })) => {
            printer.note(format_args!("warning: {error}"));
            Ok(Some(Agent::BuiltIn(Why::Failed)))
        }
        Some(Err(error)) => Err(error.into()),
    }
}
