//! `yb view`: serves pages about all runs until Ctrl-C; `yb run --view` serves them beside a run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use yb_engine::run::{self, RunDir, all_runs};
use yb_view::{ViewError, ViewOptions, ViewServer};

use super::open::opener;
use crate::args::ViewArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::workspace::{self, display_path};

/// How long pages may still read the end of a run that was started without a terminal.
const LAST_UPDATE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &ViewArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let first = args.run.as_deref().map(|name| run::find_run(&root, name)).transpose()?;
    let mut options = ViewOptions::new(root.clone());
    options.listen = SocketAddr::new(args.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), args.port);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        // Before the address is printed, so that no signal is missed.
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let server = ViewServer::start(&options)?;
        let url = server.url(first.as_ref().map(RunDir::id).as_deref());
        printer.line(format_args!("view: {url}"));
        if !server.address().ip().is_loopback() {
            printer.note(
                "warning: listening beyond this machine without encryption: whoever has the URL sees all runs",
            );
        }
        if all_runs(&root)?.is_empty() {
            let here = display_path(&root);
            printer.note(format_args!("no runs in `{here}` yet; hint: create one with: yb run FILE"));
        }
        printer.note("Press Ctrl-C to stop.");
        if !args.no_open {
            open(&url);
        }
        signals.stop().await;
        drop(server);
        Ok(ExitCode::Interrupted)
    })
}

/// A server beside a run.
pub(super) struct BesideRun {
    server: ViewServer,
    url: String,
}

/// Starts a server that shows a run, if wanted.
pub(super) fn beside(
    wanted: bool,
    run: &RunDir,
    printer: &mut Printer,
) -> Result<Option<BesideRun>, CliError> {
    if !wanted {
        return Ok(None);
    }
    let server = ViewServer::start(&ViewOptions::new(run.root().to_owned()))?;
    let url = server.url(Some(&run.id()));
    printer.note(format_args!("view: {url}"));
    open(&url);
    Ok(Some(BesideRun { server, url }))
}

impl BesideRun {
    /// Keeps the pages until Ctrl-C if somebody can press it; otherwise only until they show the end of the run.
    pub(super) async fn finish(self, signals: &mut Signals, printer: &mut Printer) {
        if printer.can_redraw() {
            printer.note(format_args!("still serving {}; press Ctrl-C to stop", self.url));
            signals.stop().await;
        } else {
            tokio::time::sleep(LAST_UPDATE).await;
        }
        drop(self.server);
    }
}

/// Opens a URL with the program of the desktop, if there is one. The URL was printed, so a failure is none of ours.
fn open(url: &str) {
    let Some(program) = opener() else { return };
    let mut command = std::process::Command::new(program);
    command.arg(url);
    for stream in [std::process::Command::stdin, std::process::Command::stdout, std::process::Command::stderr]
    {
        stream(&mut command, std::process::Stdio::null());
    }
    // Some of these programs are the browser itself and end with it.
    std::thread::spawn(move || {
        #[expect(clippy::disallowed_methods, reason = "the program of the desktop outlives this command")]
        let _ = command.status();
    });
}

impl From<ViewError> for CliError {
    fn from(error: ViewError) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let edge = Self::new(ErrorKind::Infrastructure, error.to_string());
        let edge = match source {
            Some(source) => edge.caused_by(source),
            None => edge,
        };
        match error {
            ViewError::Bind { .. } => edge.hint("omit `--port` to take any free one"),
            _ => edge,
        }
    }
}
