//! `yb tape record -- COMMAND`: runs a program with a recording proxy in front of its model API.

use std::path::Path;

use yb_engine::tape::{ModelApi, model_apis};
use yb_figures::{count, plural};
use yb_tape::{RecordingOptions, RecordingProxy, Upstream};

use crate::agents;
use crate::args::{Api, RecordArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(super) fn run(args: &RecordArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CliError::new(ErrorKind::Usage, "no command given"));
    };
    let api = api(args.api, Path::new(program));
    let env = agents::environment();
    let named =
        args.upstream.clone().or_else(|| env.get(api.variable).cloned().filter(|url| !url.is_empty()));
    let url = named.unwrap_or_else(|| format!("{}{}", api.address, api.suffix));
    let url = url.trim_end_matches('/');
    let (upstream, suffix) = match url.strip_suffix(api.suffix) {
        Some(root) => (root, api.suffix),
        None => (url, ""),
    };
    let secrets = super::inspect::secrets(&args.secrets, yb_engine::tape::secrets(&env), &env)?;
    let mut options = RecordingOptions::new(Upstream::new(upstream)?, &args.output)
        .secrets(secrets)
        .full_requests(args.full_requests);
    if let Ok(here) = std::env::current_dir() {
        options = options.directory("workspace", here);
    }
    if let Some(home) = env.get("HOME") {
        options = options.directory("home", home);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        // The program also receives the interrupt and decides when to end.
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let recorder = RecordingProxy::start(options)?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).env(api.variable, format!("{}{suffix}", recorder.base_url()));
        printer.note(format_args!("recording {upstream} into {}", args.output.display()));
        #[expect(
            clippy::disallowed_methods,
            reason = "the program runs in the foreground of the terminal, as if started directly"
        )]
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| {
            let _ = std::fs::remove_file(&args.output);
            let what = format!("failed to start `{}`", program.to_string_lossy());
            CliError::new(ErrorKind::Usage, what).caused_by(error)
        })?;
        let waiting = tokio::task::spawn_blocking(move || child.wait());
        tokio::pin!(waiting);
        let ended = loop {
            tokio::select! {
                ended = &mut waiting => break ended,
                () = signals.stop() => {}
            }
        };
        let status = ended.map_err(std::io::Error::from).and_then(|status| status);
        let status = status.map_err(CliError::failed_to("wait for the program"))?;
        let recorded = recorder.finish()?;
        let total = recorded.observed.total();
        printer.note(format_args!(
            "recorded {}, {} input tokens, {} output tokens: {}",
            plural(recorded.observed.exchanges, "exchange"),
            count(total.input),
            count(total.output),
            recorded.tape.display()
        ));
        if recorded.observed.exchanges == 0 {
            printer.note(format_args!(
                "warning: no requests recorded; hint: check that the program reads `{}`",
                api.variable
            ));
        }
        Ok(if status.success() { ExitCode::Passed } else { ExitCode::Failed })
    })
}

fn api(requested: Option<Api>, program: &Path) -> &'static ModelApi {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let api = requested.unwrap_or(match name.as_str() {
        "gemini" => Api::Gemini,
        "codex" | "opencode" | "aider" | "qwen" => Api::Openai,
        _ => Api::Anthropic,
    });
    let variable = match api {
        Api::Anthropic => "ANTHROPIC_BASE_URL",
        Api::Openai => "OPENAI_BASE_URL",
        Api::Gemini => "GOOGLE_GEMINI_BASE_URL",
    };
    let known = model_apis();
    known.iter().find(|api| api.variable == variable).unwrap_or(&known[0])
}
