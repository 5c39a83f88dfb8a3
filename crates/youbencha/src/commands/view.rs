//! `yb view`: serves pages about all runs until Ctrl-C; `yb run --view` serves them beside a run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use yb_engine::run::{self, Progress, RunDir, RunnerEvent, all_runs};
use yb_view::{Activity, Controls, RunAction, ViewError, ViewOptions, ViewServer};

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
        options.controls = Some(Arc::new(StarterControls));
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let server = ViewServer::start(&options)?;
        let url = server.url(first.as_ref().map(RunDir::id).as_deref());
        printer.line(format_args!("view: {url}"));
        if !server.address().ip().is_loopback() {
            printer.note(
                "warning: listening beyond this machine without encryption: anyone with the URL can see all runs",
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

/// Controls of pages that no run belongs to.
struct StarterControls;

impl Controls for StarterControls {
    fn executes(&self, _run: &str) -> bool {
        false
    }

    fn request(&self, _run: &str, _action: RunAction) -> Result<(), String> {
        Err("another process executes this run".to_owned())
    }

    fn start(&self, arguments: &[String]) -> Result<(), String> {
        start(arguments)
    }
}

/// Controls of the pages beside a run: requests are handled where signals are.
pub(super) struct RunControls {
    /// The current run; `None` between the runs of `--watch`.
    run: Mutex<Option<String>>,
    requests: UnboundedSender<RunAction>,
    activity: Mutex<Activity>,
}

impl Controls for RunControls {
    fn executes(&self, run: &str) -> bool {
        self.current().as_deref() == Some(run) && !self.requests.is_closed()
    }

    fn request(&self, _run: &str, action: RunAction) -> Result<(), String> {
        self.requests.send(action).map_err(|_| "the run has ended".to_owned())
    }

    fn activity(&self, _run: &str) -> Activity {
        self.doing().clone()
    }

    fn start(&self, arguments: &[String]) -> Result<(), String> {
        start(arguments)
    }
}

impl RunControls {
    fn doing(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a running trial does.
    pub(super) fn observe(&self, event: &RunnerEvent<'_>) {
        let RunnerEvent::Progress(Progress::Live { trial, live }) = event else { return };
        let mut parts = vec![format!("turn {}", live.turns)];
        parts.extend(live.last_tool.clone());
        parts.extend(live.usd().map(yb_figures::money));
        parts.extend(live.api_retry.as_ref().map(|_| "waits for its API".to_owned()));
        let mut doing = self.doing();
        doing.version += 1;
        doing.trials.insert(trial.clone(), parts.join(" · "));
    }

    fn current(&self) -> MutexGuard<'_, Option<String>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `yb` as a process of its own: its run is recorded, so that its output is not needed.
fn start(arguments: &[String]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).arg("--quiet");
    for stream in [std::process::Command::stdin, std::process::Command::stdout, std::process::Command::stderr]
    {
        stream(&mut command, std::process::Stdio::null());
    }
    #[expect(clippy::disallowed_methods, reason = "it supervises its own processes and outlives the pages")]
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// A server beside a run.
pub(super) struct BesideRun {
    server: ViewServer,
    url: String,
    controls: Arc<RunControls>,
    requests: UnboundedReceiver<RunAction>,
    /// Lost trials are rerun when the run has ended.
    pub(super) rerun_lost: bool,
}

/// Starts a server that shows a run, if wanted. The server of an earlier run of `--watch` is kept, so that open pages stay.
pub(super) fn beside(
    wanted: bool,
    run: &RunDir,
    earlier: Option<BesideRun>,
    printer: &mut Printer,
) -> Result<Option<BesideRun>, CliError> {
    if !wanted {
        return Ok(None);
    }
    if let Some(mut earlier) = earlier {
        *earlier.controls.current() = Some(run.id());
        *earlier.controls.doing() = Activity::default();
        earlier.url = earlier.server.url(Some(&run.id()));
        printer.note(format_args!("view: {}", earlier.url));
        return Ok(Some(earlier));
    }
    let (sender, requests) = unbounded_channel();
    let mut options = ViewOptions::new(run.root().to_owned());
    let controls = Arc::new(RunControls {
        run: Mutex::new(Some(run.id())),
        requests: sender,
        activity: Mutex::default(),
    });
    options.controls = Some(controls.clone());
    let server = ViewServer::start(&options)?;
    let url = server.url(Some(&run.id()));
    printer.note(format_args!("view: {url}"));
    open(&url);
    Ok(Some(BesideRun { server, url, controls, requests, rerun_lost: false }))
}

impl BesideRun {
    /// Returns where to note what trials do.
    pub(super) fn controls(&self) -> Arc<RunControls> {
        Arc::clone(&self.controls)
    }

    /// Waits for a request of a page about the running run.
    pub(super) async fn next_request(&mut self) -> RunAction {
        match self.requests.recv().await {
            Some(request) => request,
            // The server keeps the sender, so that this does not happen before it stops.
            None => std::future::pending().await,
        }
    }

    /// Keeps the pages until Ctrl-C if somebody can press it; otherwise only until they show the end of the run. With `--watch` they stay anyway. Returns whether
    /// its lost trials are to be rerun.
    pub(super) async fn finish(
        &mut self,
        watches: bool,
        signals: &mut Signals,
        printer: &mut Printer,
    ) -> bool {
        if watches || self.rerun_lost {
            return std::mem::take(&mut self.rerun_lost);
        }
        let stopped = async {
            if printer.can_redraw() {
                printer.note(format_args!("still serving {}; press Ctrl-C to stop", self.url));
                signals.stop().await;
            } else {
                tokio::time::sleep(LAST_UPDATE).await;
            }
        };
        let rerun = async {
            // A run that has ended can be neither stopped nor drained.
            while self.requests.recv().await != Some(RunAction::RerunLost) {}
        };
        tokio::select! {
            () = stopped => false,
            () = rerun => true,
        }
    }

    /// Keeps the pages between two runs of `--watch`.
    pub(super) fn idle(self) -> Self {
        *self.controls.current() = None;
        self
    }

    /// Closes all pages.
    pub(super) fn close(self) {
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
