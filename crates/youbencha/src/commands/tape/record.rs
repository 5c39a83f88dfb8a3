//! `yb tape record -- COMMAND`: runs a program with a recording proxy in front of its model API.

use std::path::Path;

use yb_engine::Extensions;
use yb_engine::case::{AgentSpecs, ModelApi};
use yb_engine::tape::ModelEndpoint;
use yb_figures::{count, plural};
use yb_tape::{RecordingOptions, RecordingProxy, Upstream};

use crate::agents;
use crate::args::{Api, RecordArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

/// Programs without an adapter that speak the OpenAI API.
const OPENAI_PROGRAMS: [&str; 2] = ["aider", "qwen"];

pub(super) fn run(
    args: &RecordArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CliError::new(ErrorKind::Usage, "no command given"));
    };
    let api = model_api(args.api, Path::new(program), &extensions.adapters.specs());
    let env = agents::environment();
    let named =
        args.upstream.clone().or_else(|| env.get(api.variable).cloned().filter(|url| !url.is_empty()));
    let endpoint = ModelEndpoint::new(&api, named);
    let upstream = endpoint.upstream.as_str();
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
        command.args(arguments).env(endpoint.variable, endpoint.base_url(&recorder.base_url()));
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

/// The API of a program: the requested one, or the first API of the agent that the program belongs to.
fn model_api(requested: Option<Api>, program: &Path, agents: &AgentSpecs) -> ModelApi {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    match requested {
        Some(Api::Anthropic) => ModelApi::ANTHROPIC,
        Some(Api::Openai) => ModelApi::OPENAI,
        Some(Api::Gemini) => ModelApi::GEMINI,
        None => match agents.with_program(&name).and_then(|agent| agent.apis.first()) {
            Some(api) => *api,
            None if OPENAI_PROGRAMS.contains(&name.as_str()) => ModelApi::OPENAI,
            None => ModelApi::ANTHROPIC,
        },
    }
}
