//! Arguments of the commands that make runs, show them and remove them.

use std::path::PathBuf;
use std::time::Duration;

use yb_engine::case::{Isolation, Limits, NetworkMode, TapeSpeed};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct RunArgs {
    /// The case or suite file
    #[arg(short, long, value_name = "FILE", group = "what")]
    pub(crate) config: Option<PathBuf>,

    /// Go on with a run that was stopped or died [default: the newest unfinished one]
    ///
    /// Finished trials are never repeated. What a dead run left behind is ended first. Case files must be as they
    /// were.
    #[arg(long, value_name = "RUN", num_args = 0..=1, group = "what", conflicts_with_all = ["filter", "repeat"])]
    pub(crate) resume: Option<Option<String>>,

    /// Do trials of an earlier run again: those that `failed`, in a run of their own, or those lost to `infra`, in
    /// the same
    #[arg(long, num_args = 2, value_names = ["WHICH", "RUN"], group = "what", conflicts_with_all = ["filter", "repeat"])]
    pub(crate) rerun: Option<Vec<String>>,

    /// Run every combination of case and variant so many times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,

    /// How many trials at once [default: as many as memory and cores allow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Only some trials: `GLOB` or `case=GLOB`, `variant=GLOB`, `tag=GLOB`; may be repeated
    #[arg(short, long, value_name = "FILTER", value_parser = yb_engine::run::Filter::parse)]
    pub(crate) filter: Vec<yb_engine::run::Filter>,

    /// Show what would be run and what it may cost; start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Stop the whole run when it has cost this much
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Try a trial that the machine or the API failed so many times more [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// What stands between agents and the machine, instead of what the cases say: `auto`, `bubblewrap`, `landlock`,
    /// `none`, or `external`, which says that the machine itself is a sandbox
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub(crate) isolation: Option<Isolation>,

    /// What the results have to hold, beside or instead of the suite's gates: `min_pass_rate=0.9`; docs/gates.md has all
    /// keys; may be repeated
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = yb_engine::gates::Setting::parse)]
    pub(crate) gates: Vec<yb_engine::gates::Setting>,

    /// What agents can connect to, instead of what the cases say: `open`, `model-only` or `none`
    #[arg(long, value_name = "MODE", value_parser = network)]
    pub(crate) network: Option<NetworkMode>,

    /// A limit of each trial, instead of what the cases say: `memory_mb=N`, `processes=N`, `cpu_seconds=N` or
    /// `disk_mb=N`; 0 is none; may be repeated
    #[arg(long, value_name = "NAME=N", value_parser = limit)]
    pub(crate) limit: Vec<(String, u64)>,

    /// Record what each trial's model says: a tape for each in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Keep the agents' own prompts and tool descriptions on the tapes too, not only their hashes
    #[arg(long, requires = "record")]
    pub(crate) full_requests: bool,

    /// Let tapes answer instead of models: a directory that `--record` filled, or one tape for all trials
    ///
    /// Nothing is asked, nothing is paid, and agents reach nothing else. A request that is not on its tape ends its trial as `diverged`.
    #[arg(long, value_name = "DIR")]
    pub(crate) replay: Option<PathBuf>,

    /// Let what tools say differ from the tape; how often it did is told
    #[arg(long)]
    pub(crate) lenient: bool,

    /// How fast tapes answer: `fast`, or `real`, as it was recorded
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    pub(crate) speed: Option<TapeSpeed>,

    /// Let something go wrong once at a step of a replay: `3:429`, `3:429=2s`, `2:529`, `subagent-1/1:cut`, `1:slow=2s`; may be repeated
    #[arg(long = "fault", value_name = "STEP:KIND", value_parser = fault)]
    pub(crate) faults: Vec<String>,

    /// Replay up to this step, then go on with a live model
    #[arg(long, value_name = "STEP", requires = "replay")]
    pub(crate) fork: Option<usize>,

    /// The model after the fork, instead of the one that the agent asks for
    #[arg(long, value_name = "MODEL", requires = "fork")]
    pub(crate) model: Option<String>,

    /// Print every event as a line of JSON on stdout; docs/run-events.md has them all
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print nothing but the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Make warnings about the files errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Remove the agents' workspaces afterwards
    #[arg(long)]
    pub(crate) delete_workspace: bool,

    /// Fetch from, and send webhooks to, hosts inside a private network too
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,

    #[command(flatten)]
    pub(crate) otel: super::OtelArgs,
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
    text.parse::<yb_tape::ReplayFault>().map(|fault| fault.to_string())
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let parsed = text.split_once('=').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    let known = parsed.filter(|(name, _)| Limits::names().any(|known| known == *name));
    known.map(|(name, number)| (name.to_owned(), number)).ok_or_else(|| {
        let known: Vec<String> = Limits::names().map(|name| format!("`{name}=N`")).collect();
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
    /// The run [default: the newest]
    pub(crate) run: Option<String>,

    /// The trial; a run that has only one shows that
    pub(crate) trial: Option<String>,

    /// Another attempt than the last
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    /// As one of its gradings has it: its number, the beginning of its id, or `latest`
    #[arg(long, value_name = "GRADING")]
    pub(crate) grading: Option<String>,

    /// What was said and done
    #[arg(long)]
    pub(crate) transcript: bool,

    /// What was changed, as a patch
    #[arg(long)]
    pub(crate) diff: bool,

    /// What was executed, as a script that repeats it
    #[arg(long)]
    pub(crate) command: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    /// These runs, by the beginnings of their names [default: all that are finished]
    #[arg(value_name = "RUN", conflicts_with_all = ["keep", "older_than", "all"])]
    pub(crate) runs: Vec<String>,

    /// Keep the newest N
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Only those to which nothing happened for so long: `90s`, `30m`, `12h`, `7d`, `2w`
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(crate) older_than: Option<Duration>,

    /// Unfinished runs too
    #[arg(long)]
    pub(crate) all: bool,

    /// The fetched repositories; alone, only these
    #[arg(long)]
    pub(crate) cache: bool,

    /// Remove what is shown
    #[arg(long)]
    pub(crate) yes: bool,

    /// Only show what would be removed, which is the default
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
    fn an_age_has_a_unit() {
        assert_eq!(age("2w").map(|age| age.as_secs()), Ok(14 * 86_400));
        assert_eq!(age("90s").map(|age| age.as_secs()), Ok(90));
        for bad in ["", "7", "d", "7 d", "-1d", "7y", "99999999999999999999d", "9999999999999999999w"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
