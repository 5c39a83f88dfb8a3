//! `yb tape record -- COMMAND`: any program at the user's own terminal, with a recorder between it and its model.

use std::path::Path;

use yb_engine::Extensions;
use yb_engine::case::{AgentSpecs, ModelApi};
use yb_engine::tape::ModelEndpoint;
use yb_tape::{Recorder, RecorderOptions, Upstream};

use crate::agents;
use crate::args::{Api, RecordArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::signals::Signals;

/// Programs without an adapter that speak the OpenAI API.
const OPENAI_PROGRAMS: [&str; 2] = ["aider", "qwen"];

pub(super) fn run(
    args: &RecordArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CliError::new(ErrorKind::Usage, "no command to record"));
    };
    let api = model_api(args.api, Path::new(program), &extensions.adapters.specs());
    let env = agents::environment();
    let named =
        args.upstream.clone().or_else(|| env.get(api.variable).cloned().filter(|url| !url.is_empty()));
    let endpoint = ModelEndpoint::new(&api, named);
    let upstream = endpoint.upstream.as_str();
    let secrets = super::look::secrets(&args.secrets, yb_engine::tape::secrets(&env), &env)?;
    let mut options = RecorderOptions::new(Upstream::new(upstream)?, &args.output)
        .secrets(secrets)
        .full_requests(args.full_requests);
    if let Ok(here) = std::env::current_dir() {
        options = options.place("workspace", here);
    }
    if let Some(home) = env.get("HOME") {
        options = options.place("home", home);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        // An interrupt at the terminal reaches the program too, and what it makes of it is its own matter.
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let recorder = Recorder::start(options)?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).env(endpoint.variable, endpoint.base_url(&recorder.base_url()));
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
            printer.note(format_args!("nothing passed by: does the program read `{}`?", api.variable));
        }
        Ok(if status.success() { ExitCode::Passed } else { ExitCode::Failed })
    })
}

/// The API of a program: the one that was asked for, or the first one of the agent that the program belongs to.
fn model_api(asked: Option<Api>, program: &Path, agents: &AgentSpecs) -> ModelApi {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    match asked {
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
