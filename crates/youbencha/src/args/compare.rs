//! Arguments of the commands that compare runs and judge them.

use std::path::PathBuf;

use clap::Subcommand;
use yb_engine::gates::Setting;
use yb_engine::stats::Estimand;

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// What is compared with: a baseline, a run, or a `results.json`
    #[arg(value_name = "BEFORE")]
    pub(crate) a: String,

    /// What is looked at
    #[arg(value_name = "NOW", default_value = "latest")]
    pub(crate) b: String,

    /// Only this variant, or this one before with that one now: `NAME` or `BEFORE=NOW`; may be repeated
    #[arg(long = "variant", value_name = "NAME", value_parser = variant)]
    pub(crate) variants: Vec<(String, String)>,

    /// What the answer is about: exactly these cases (`suite`), or others like them (`new-cases`)
    #[arg(long, value_name = "WHAT", default_value = "suite", value_parser = estimand)]
    pub(crate) estimand: Estimand,

    /// A loss of pass rate up to this is no regression; 0.05 are five points
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share)]
    pub(crate) tolerance: f64,

    /// How often the answer may be wrong
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = alpha)]
    pub(crate) alpha: f64,

    /// If a larger share of trials was lost to the machine or the API, nobody can tell
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share)]
    pub(crate) max_lost: f64,

    /// Print one JSON object; `yb schema comparison` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

fn variant(text: &str) -> Result<(String, String), String> {
    let (before, now) = text.split_once('=').unwrap_or((text, text));
    if before.is_empty() || now.is_empty() {
        return Err("expected `NAME` or `BEFORE=NOW`".to_owned());
    }
    Ok((before.to_owned(), now.to_owned()))
}

fn estimand(text: &str) -> Result<Estimand, String> {
    Estimand::parse(text).ok_or_else(|| "expected `suite` or `new-cases`".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1, such as `0.05`".to_owned()),
    }
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if (0.0001..=0.5).contains(&alpha) => Ok(alpha),
        _ => Err("expected a number from 0.0001 to 0.5, such as `0.05`".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct GateArgs {
    /// The run
    #[arg(default_value = "latest")]
    pub(crate) run: String,

    /// The gates of this suite file, instead of those that the run began with
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A gate, instead of the file's or beside it: `min_pass_rate=0.9`; docs/gates.md has all keys; may be repeated
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub(crate) gates: Vec<Setting>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Give a run's results a name; they are copied, so the run may go
    #[command(after_long_help = super::examples::BASELINE_SET)]
    Set {
        /// The baseline's name
        name: String,
        /// The run
        #[arg(default_value = "latest")]
        run: String,
    },
    /// List the baselines
    #[command(after_long_help = super::examples::BASELINE_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a baseline; the run stays
    #[command(after_long_help = super::examples::BASELINE_REMOVE)]
    Remove {
        /// The baseline's name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Make the index again from the runs that are there
    #[command(after_long_help = super::examples::INDEX_REBUILD)]
    Rebuild,
    /// Ask the index in SQL; docs/commands.md has its tables
    #[command(after_long_help = super::examples::INDEX_QUERY)]
    Query {
        /// The question
        #[arg(value_name = "SQL")]
        question: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
