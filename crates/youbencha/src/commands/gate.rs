//! `yb gate`: re-evaluates the gates of a recorded run.

use serde_json::json;
use yb_engine::Extensions;
use yb_engine::config::Settings;
use yb_engine::run::{self, RunContext, RunInfo, RunResults};

use super::run::{gates, load};
use crate::agents;
use crate::args::GateArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::{self, JSON_VERSION};
use crate::workspace;

pub(super) fn run(
    args: &GateArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let info = RunInfo::read(run::find_run(&root, &args.run)?)?;
    let from = match &args.config {
        None => info.plan.options.gates.clone(),
        Some(config) => {
            let project =
                std::env::current_dir().map_err(CliError::failed_to("find the working directory"))?;
            let (settings, _) = Settings::load(std::env::home_dir().as_deref(), &project);
            let setup = RunContext::new(settings, agents::environment(), extensions.clone());
            let options = &info.plan.options;
            let allowed = (options.allow_private_hosts, options.allow_paths.as_slice());
            match load::suite(config, allowed, &setup, false, printer) {
                Some(suite) => suite.gates,
                None => return Ok(ExitCode::Usage),
            }
        }
    };
    let gates = gates(from, &args.gates)?;
    let results = RunResults::of(&info.plan, &info.state);
    let Some(report) = yb_engine::gates::evaluate(&gates, &results, info.run.root()) else {
        return Err(CliError::new(ErrorKind::Usage, format!("run `{}` has no gates", info.run.id()))
            .hint("pass one, such as `--gate min_pass_rate=0.9`, or a suite with `gates`: `-c FILE`"));
    };
    let code = report::gates::exit_code(report.status);
    if args.json {
        printer.pretty_json(&json!({
            "v": JSON_VERSION,
            "run": info.run.id(),
            "answer": report.status,
            "gates": report.gates,
            "exit_code": code.code(),
        }));
    } else {
        report::gates::show(&report, printer);
    }
    Ok(code)
}
