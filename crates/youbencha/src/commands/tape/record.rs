//! `yb tape record -- COMMAND`: any program at the user's own terminal, with a recorder between it and its model.

use std::path::Path;

use yb_engine::tape::{ModelApi, model_apis};
use yb_tape::{RecordingOptions, RecordingProxy, Upstream};

use crate::agents;
use crate::args::{Api, RecordArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::signals::Signals;

pub(super) fn run(args: &RecordArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CliError::new(ErrorKind::Usage, "no command to record"));
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
    let secrets = super::look::secrets(&args.secrets, yb_engine::tape::secrets(&env), &env)?;
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
        // An interrupt at the terminal reaches the program too, and what it makes of it is its own matter.
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let recorder = RecordingProxy::start(options)?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).env(api.variable, format!("{}{suffix}", recorder.base_url()));
        printer.note(format_args!("recording {upstream} into {}", args.output.display()));
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's own program at the user's own terminal, as if they had started it without us"
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
            "recorded {}, {} tokens in, {} out: {}",
            plural(recorded.observed.exchanges, "exchange"),
            total.input,
            total.output,
            recorded.tape.display()
        ));
        if recorded.observed.exchanges == 0 {
            printer.note(format_args!("no requests recorded: does the program read `{}`?", api.variable));
        }
        Ok(if status.success() { ExitCode::Passed } else { ExitCode::Failed })
    })
}

fn api(asked: Option<Api>, program: &Path) -> &'static ModelApi {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let api = asked.unwrap_or(match name.as_str() {
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
