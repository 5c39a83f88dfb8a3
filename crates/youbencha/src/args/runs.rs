//! Arguments of `yb run`, `show` and `clean`.

use std::path::PathBuf;
use std::time::Duration;

use yb_engine::case::{Isolation, NetworkMode, TapeSpeed, TrialLimits};

#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct RunArgs {
    /// Case or suite file
    #[arg(value_name = "FILE", group = "what")]
    file: Option<PathBuf>,

    /// Same as FILE
    #[arg(short, long, value_name = "FILE", group = "what")]
    config: Option<PathBuf>,

    /// Resume a stopped or killed run [default: the newest unfinished run]
    ///
    /// Finished trials are not repeated, and leftover processes are killed first. Case files must be unchanged.
    #[arg(long, value_name = "RUN", num_args = 0..=1, group = "what", conflicts_with_all = ["filter", "repeat"])]
    pub(crate) resume: Option<Option<String>>,

    /// Rerun trials of an earlier run: `failed` in a new run, `infra` (excluded) in the same run
    ///
    /// `failed` also reruns all trials of a case whose files, prompt or graders were edited since, and says so.
    #[arg(long, num_args = 2, value_names = ["WHICH", "RUN"], group = "what", conflicts_with_all = ["filter", "repeat"])]
    pub(crate) rerun: Option<Vec<String>>,

    /// After the run, watch the files that it read, and rerun what an edit affects, until Ctrl-C
    ///
    /// Watches cases, suites, prompts, laid and hidden files, scripts that cases name, the configuration, and local repositories and
    /// directories. Each rerun is a new run of the new and edited trials. The exit code is that of the last run.
    #[arg(short, long, conflicts_with_all = ["resume", "rerun", "dry_run", "record"])]
    pub(crate) watch: bool,

    /// Number of repeats of each case and variant
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,

    /// Number of trials at once [default: by memory and cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Run only matching trials: `GLOB`, `case=GLOB`, `variant=GLOB` or `tag=GLOB`; repeatable
    #[arg(short, long, value_name = "FILTER", value_parser = yb_engine::run::Filter::parse)]
    pub(crate) filter: Vec<yb_engine::run::Filter>,

    /// Print the plan and the estimated cost without running anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Stop the run when its cost reaches this amount; trials that it cuts stay pending
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Retry a trial after an infrastructure or API failure [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// Override the isolation of the cases: `auto`, `bubblewrap`, `landlock`, `none` or `external`
    ///
    /// `external` declares the machine itself a sandbox. See `yb help isolation`.
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub(crate) isolation: Option<Isolation>,

    /// Add or override a gate, such as `min_pass_rate=0.9` (see `yb help gates`); repeatable
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = yb_engine::gates::GateOverride::parse)]
    pub(crate) gates: Vec<yb_engine::gates::GateOverride>,

    /// Override the network access of the cases: `open`, `model-only` or `none`
    #[arg(long, value_name = "MODE", value_parser = network)]
    pub(crate) network: Option<NetworkMode>,

    /// Override a limit per trial: `memory_mb=N`, `processes=N`, `cpu_seconds=N` or `disk_mb=N`; 0 means no limit; repeatable
    #[arg(long, value_name = "NAME=N", value_parser = limit)]
    pub(crate) limit: Vec<(String, u64)>,

    /// Record model API traffic: one tape per trial in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Record system prompts and tool descriptions in full instead of hashes
    #[arg(long, requires = "record")]
    pub(crate) full_requests: bool,

    /// Replay tapes instead of calling models: a directory written by `--record`, or one tape for all trials
    ///
    /// Makes no API calls, and agents reach nothing else. A request that is not on the tape ends the trial as `diverged`. See
    /// `yb help replay`.
    #[arg(long, value_name = "DIR")]
    pub(crate) replay: Option<PathBuf>,

    /// Tolerate differing tool results and count them
    #[arg(long)]
    pub(crate) lenient: bool,

    /// Refuse requests that equal the recorded ones only after times, durations, ids and the like are normalized
    #[arg(long, conflicts_with = "lenient")]
    pub(crate) exact: bool,

    /// Replay speed: `fast`, or `real` as recorded
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    pub(crate) speed: Option<TapeSpeed>,

    /// Inject a fault at a replay step: `3:429`, `3:429=2s`, `2:529`, `subagent-1/1:cut` or `1:slow=2s`; repeatable
    #[arg(long = "fault", value_name = "STEP:KIND", value_parser = fault)]
    pub(crate) faults: Vec<String>,

    /// Replay up to this step, then continue with a live model
    #[arg(long, value_name = "STEP", requires = "replay")]
    pub(crate) fork: Option<usize>,

    /// Model after the fork [default: as requested by the agent]
    #[arg(long, value_name = "MODEL", requires = "fork")]
    pub(crate) model: Option<String>,

    /// Do not check beside the run whether an agent that does nothing would pass
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Serve pages about the run while it lasts, as `yb view` does, and open them in the browser
    ///
    /// In a terminal the pages stay until Ctrl-C after the run.
    #[arg(long)]
    pub(crate) view: bool,

    /// Record the workspace after each step of the agent, so that `yb view` can show it
    #[arg(long)]
    pub(crate) steps: bool,

    /// Print events as lines of JSON (see `yb help events`)
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print only the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Delete workspaces after the run
    #[arg(long)]
    pub(crate) delete_workspace: bool,

    /// Allow repositories and webhooks on private networks
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,

    /// Allow local repositories and directories below DIR; those of the case's project and of the working directory need no permission
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_path: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) otel: super::OtelArgs,

    /// Variables beside those of this process, for commands that run a suite themselves
    #[arg(skip)]
    pub(crate) env: std::collections::BTreeMap<String, String>,
}

impl RunArgs {
    /// Returns the arguments that rerun the lost trials of a run.
    pub(crate) fn rerunning_lost(&self, run: &str) -> Self {
        let rerun = Some(vec!["infra".to_owned(), run.to_owned()]);
        Self { file: None, config: None, resume: None, rerun, ..self.clone() }
    }

    /// Returns the case or suite file, given as an argument or with `--config`.
    pub(crate) fn config(&self) -> Option<&PathBuf> {
        self.file.as_ref().or(self.config.as_ref())
    }
}

pub(super) fn isolation(text: &str) -> Result<Isolation, String> {
    let known =
        [Isolation::Auto, Isolation::Bubblewrap, Isolation::Landlock, Isolation::None, Isolation::External];
    let found = known.into_iter().find(|level| level.as_str() == text);
    found.ok_or_else(|| {
        let known = known.map(|level| format!("`{}`", level.as_str()));
        format!("expected one of {}", known.join(", "))
    })
}

fn network(text: &str) -> Result<NetworkMode, String> {
    NetworkMode::parse(text).ok_or_else(|| {
        let known = NetworkMode::ALL.map(|mode| format!("`{mode}`"));
        format!("expected one of {}", known.join(", "))
    })
}

fn speed(text: &str) -> Result<TapeSpeed, String> {
    match text {
        "fast" => Ok(TapeSpeed::Fast),
        "real" => Ok(TapeSpeed::Real),
        _ => Err("expected `fast` or `real`".to_owned()),
    }
}

fn fault(text: &str) -> Result<String, String> {
    text.parse::<yb_tape::ReplayFault>().map(|fault| fault.to_string()).map_err(|error| error.to_string())
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let parsed = text.split_once('=').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    let known = parsed.filter(|(name, _)| TrialLimits::names().any(|known| known == *name));
    known.map(|(name, number)| (name.to_owned(), number)).ok_or_else(|| {
        let known: Vec<String> = TrialLimits::names().map(|name| format!("`{name}=N`")).collect();
        format!("expected one of {}", known.join(", "))
    })
}

pub(super) fn dollars(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(usd) if usd > 0.0 && usd.is_finite() => Ok(usd),
        _ => Err("expected an amount above zero, such as `2.50`".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Run, or an ATIF trajectory [default: latest]
    pub(crate) run: Option<String>,

    /// Trial [default: the only trial of the run]
    pub(crate) trial: Option<String>,

    /// Attempt [default: the last]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    /// Show a grading: its number, id prefix or `latest`
    #[arg(long, value_name = "GRADING")]
    pub(crate) grading: Option<String>,

    /// Print the conversation
    #[arg(long)]
    pub(crate) transcript: bool,

    /// Print the changes as a patch
    #[arg(long)]
    pub(crate) diff: bool,

    /// With `--diff`, write the bytes of the patch without making control characters visible, for `git apply`
    #[arg(long, requires = "diff", conflicts_with_all = ["transcript", "command", "json"])]
    pub(crate) raw: bool,

    /// Print a shell script that repeats the execution
    #[arg(long)]
    pub(crate) command: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    /// Runs to remove, by prefix [default: all finished runs]
    #[arg(value_name = "RUN", conflicts_with_all = ["keep", "older_than", "all"])]
    pub(crate) runs: Vec<String>,

    /// Keep the newest N runs
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Only runs without activity for this time: `90s`, `30m`, `12h`, `7d` or `2w`
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(crate) older_than: Option<Duration>,

    /// Include unfinished runs
    #[arg(long)]
    pub(crate) all: bool,

    /// Include cached repositories; alone, only these
    #[arg(long)]
    pub(crate) cache: bool,

    /// Remove the listed items
    #[arg(long)]
    pub(crate) yes: bool,

    /// List without removing (default)
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number and a unit, such as `12h`, `7d` or `2w`".to_owned();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn age_requires_a_unit() {
        assert_eq!(age("2w").map(|age| age.as_secs()), Ok(14 * 86_400));
        assert_eq!(age("90s").map(|age| age.as_secs()), Ok(90));
        for bad in ["", "7", "d", "7 d", "-1d", "7y", "99999999999999999999d", "9999999999999999999w"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
