//! Arguments of `yb compare`, `gate`, `baseline` and `index`.

use std::path::PathBuf;

use clap::Subcommand;
use yb_engine::gates::GateOverride;
use yb_engine::stats::Estimand;

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Reference: a baseline, a run or a `results.json`
    #[arg(value_name = "BEFORE")]
    pub(crate) a: String,

    /// Baseline, run or `results.json` to compare with the reference [default: latest]
    #[arg(value_name = "NOW")]
    pub(crate) b: Option<String>,

    /// Compare only this variant (`NAME`), or two variants (`BEFORE=NOW`); repeatable, each variant once
    #[arg(long = "variant", value_name = "NAME", value_parser = variant)]
    pub(crate) variants: Vec<(String, String)>,

    /// Population of the decision: these cases (`suite`) or similar ones (`new-cases`)
    #[arg(long, value_name = "WHAT", default_value = "suite", value_parser = estimand)]
    pub(crate) estimand: Estimand,

    /// Tolerated drop of the pass rate; 0.05 is 5 percentage points
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share)]
    pub(crate) tolerance: f64,

    /// Error probability of the decision
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = alpha)]
    pub(crate) alpha: f64,

    /// Maximum share of excluded trials; above, the results are inconclusive
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share)]
    pub(crate) max_lost: f64,

    /// Print a JSON object (schema: `yb schema comparison`)
    #[arg(long)]
    pub(crate) json: bool,
}

impl CompareArgs {
    /// Returns the names of both runs. `latest` alone is compared with the run before it, unless two of its variants are
    /// to be compared.
    pub(crate) fn names(&self) -> (&str, &str) {
        let within = self.variants.iter().any(|(before, now)| before != now);
        match (self.a.as_str(), self.b.as_deref()) {
            ("latest", None) if !within => ("latest~1", "latest"),
            (a, b) => (a, b.unwrap_or("latest")),
        }
    }
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
    /// Run
    #[arg(default_value = "latest")]
    pub(crate) run: String,

    /// Use the gates of this suite file instead of those of the run
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Add or override a gate, such as `min_pass_rate=0.9` (see `yb help gates`); repeatable
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = GateOverride::parse)]
    pub(crate) gates: Vec<GateOverride>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BaselineCommand {
    /// Save the results of a run as a baseline
    #[command(after_long_help = super::examples::BASELINE_SET)]
    Set {
        /// Name of the baseline
        name: String,
        /// Run
        #[arg(default_value = "latest")]
        run: String,
    },
    /// List baselines
    #[command(after_long_help = super::examples::BASELINE_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a baseline; the run is kept
    #[command(after_long_help = super::examples::BASELINE_REMOVE)]
    Remove {
        /// Name of the baseline
        name: String,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum IndexCommand {
    /// Rebuild the index from the runs
    #[command(after_long_help = super::examples::INDEX_REBUILD)]
    Rebuild,
    /// Query the index with SQL
    ///
    /// See `yb help runs` for the tables.
    #[command(after_long_help = super::examples::INDEX_QUERY)]
    Query {
        /// SQL query
        #[arg(value_name = "SQL")]
        question: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
