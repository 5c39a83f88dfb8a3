//! What reports are made of: recorded runs in one shape, whoever recorded them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::Spend;

/// The runs that a report is about, in the order in which they were named.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The runs.
    pub runs: Vec<Run>,
}

impl Report {
    /// A report about these.
    #[must_use]
    pub fn of(runs: Vec<Run>) -> Self {
        Self { runs }
    }

    /// Every trial with its run.
    pub(crate) fn trials(&self) -> impl Iterator<Item = (&Run, &Trial)> {
        self.runs.iter().flat_map(|run| run.trials.iter().map(move |trial| (run, trial)))
    }

    /// Whether it has to be said of which run something is.
    pub(crate) fn has_several_runs(&self) -> bool {
        self.runs.len() > 1
    }
}

/// A recorded run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// Its id, or the path of a lone bundle.
    pub id: String,
    /// The suite's or the case's name.
    pub name: String,
    /// What it is doing: `finished`, `running`, `stopped (budget)`.
    pub condition: String,
    /// When it began, ISO 8601.
    pub started_at: Option<String>,
    /// When the last thing happened, ISO 8601.
    pub last_at: Option<String>,
    /// The file that it was made from.
    pub config: Option<String>,
    /// Who recorded it: our version.
    pub youbencha: Option<String>,
    /// Its directory, or that of the bundle.
    pub directory: PathBuf,
    /// What else its `results.json` says, such as gates; shown as it is.
    pub extra: Map<String, Value>,
    /// Its trials, in the order of the plan.
    pub trials: Vec<Trial>,
}

/// One trial.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Trial {
    /// `<case>--<variant>--<repeat>`, or the case's name for a lone bundle.
    pub name: String,
    /// The same trial in another run has the same.
    pub id: Option<String>,
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// Counts from 1.
    pub repeat: u32,
    /// Which agent.
    pub agent: String,
    /// The model, if anything names it.
    pub model: Option<String>,
    /// The commit that it began with.
    pub commit: Option<String>,
    /// What it came to.
    pub verdict: Verdict,
    /// When the attempt that counts began, ISO 8601.
    pub started_at: Option<String>,
    /// How long that took.
    pub duration_ms: Option<u64>,
    /// What all attempts cost.
    pub money: Money,
    /// Tokens of the attempt that counts; absent if nobody told.
    pub tokens: Option<u64>,
    /// Its turns, as the agent counts them.
    pub turns: Option<u64>,
    /// What stood between the agent and the machine.
    pub isolation: Option<String>,
    /// Why there is no more than this.
    pub error: Option<String>,
    /// What went otherwise than asked.
    pub warnings: Vec<String>,
    /// What each evaluator said, by name, as the journal has it.
    pub graded: Vec<(String, String)>,
    /// The attempts that ended, in order.
    pub attempts: Vec<Attempt>,
    /// Where the artifacts of the attempt that counts are.
    pub artifacts: Option<PathBuf>,
}

/// An attempt at a trial.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// Counts from 1.
    pub number: u32,
    /// What it came to.
    pub verdict: Verdict,
    /// How long it took.
    pub duration_ms: u64,
    /// Why there is no more than this.
    pub error: Option<String>,
}

/// Money, by who spent it; what nobody told is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Money {
    /// The agent, without its subagents.
    pub agent: Option<f64>,
    /// Its subagents.
    pub subagents: Option<f64>,
    /// The judge.
    pub judge: Option<f64>,
}

impl Money {
    pub(crate) fn of(spend: Spend) -> Self {
        Self { agent: spend.agent_usd, subagents: spend.subagents_usd, judge: spend.judge_usd }
    }

    /// All that is known.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        let known = [self.agent, self.subagents, self.judge];
        known.iter().any(Option::is_some).then(|| known.into_iter().flatten().sum())
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let add = |one: Option<f64>, two: Option<f64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
        Self {
            agent: add(self.agent, other.agent),
            subagents: add(self.subagents, other.subagents),
            judge: add(self.judge, other.judge),
        }
    }
}

/// What a trial came to, and what that is in a pass rate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// In one word, such as `agent_error`.
    pub word: String,
    /// What it counts as.
    pub standing: Standing,
}

/// What a verdict is in a pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Standing {
    /// A pass.
    Passed,
    /// No pass.
    Failed,
    /// Nobody knows.
    Unsure,
    /// It says nothing about the agent.
    LeftOut,
    /// It was not done yet.
    Pending,
}

impl Standing {
    /// The class of its colour.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed => "fail",
            Self::Unsure => "unsure",
            Self::LeftOut => "lost",
            Self::Pending => "todo",
        }
    }

    /// A mark that can be told without colour.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Failed => "✗",
            Self::Unsure => "?",
            Self::LeftOut => "–",
            Self::Pending => "…",
        }
    }
}

impl Default for Verdict {
    fn default() -> Self {
        Self::pending("not done")
    }
}

impl Verdict {
    pub(crate) fn of(outcome: Outcome) -> Self {
        let standing = match outcome.pass_credit() {
            PassCredit::One => Standing::Passed,
            PassCredit::Zero => Standing::Failed,
            PassCredit::Excluded => Standing::LeftOut,
            _ => Standing::Unsure,
        };
        Self { word: outcome.as_str().to_owned(), standing }
    }

    /// What a bundle says, ours or the original's `passed`, `failed` or `partial`.
    pub(crate) fn read(word: &str) -> Self {
        match Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word) {
            Some(outcome) => Self::of(outcome),
            None => Self { word: word.to_owned(), standing: Standing::Unsure },
        }
    }

    pub(crate) fn pending(word: &str) -> Self {
        Self { word: word.to_owned(), standing: Standing::Pending }
    }
}

/// One case with one variant, over its repeats.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) passed: usize,
    pub(crate) counted: usize,
    pub(crate) left_out: usize,
    pub(crate) pending: usize,
    pub(crate) money: Money,
    pub(crate) times: Vec<u64>,
}

impl Cell {
    pub(crate) fn add(&mut self, trial: &Trial) {
        match trial.verdict.standing {
            Standing::Passed => (self.passed, self.counted) = (self.passed + 1, self.counted + 1),
            Standing::Failed => self.counted += 1,
            Standing::Pending => self.pending += 1,
            _ => self.left_out += 1,
        }
        self.money = self.money.plus(trial.money);
        self.times.extend(trial.duration_ms.filter(|_| trial.verdict.standing != Standing::Pending));
    }

    /// From 0 to 1; nothing if nothing counts.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.passed as f64 / self.counted as f64)
    }

    pub(crate) fn median_ms(&self) -> Option<u64> {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }
}

/// Case × variant, both in the order of the plan.
#[derive(Debug, Default)]
pub(crate) struct Matrix<'a> {
    pub(crate) cases: Vec<&'a str>,
    pub(crate) variants: Vec<&'a str>,
    cells: BTreeMap<(&'a str, &'a str), Cell>,
}

impl<'a> Matrix<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        let mut matrix = Self::default();
        for trial in &run.trials {
            let key = (trial.case.as_str(), trial.variant.as_str());
            if !matrix.cells.contains_key(&key) {
                for (known, name) in [(&mut matrix.cases, key.0), (&mut matrix.variants, key.1)] {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            matrix.cells.entry(key).or_default().add(trial);
        }
        matrix
    }

    pub(crate) fn cell(&self, case: &'a str, variant: &'a str) -> Option<&Cell> {
        self.cells.get(&(case, variant))
    }

    /// The cells that there are, case by case.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&'a str, &'a str, &Cell)> {
        self.cases.iter().flat_map(move |case| {
            self.variants.iter().filter_map(move |variant| Some((*case, *variant, self.cell(case, variant)?)))
        })
    }
}

impl Run {
    /// All trials together.
    pub(crate) fn whole(&self) -> Cell {
        self.of_variant(None)
    }

    /// All trials of a variant together.
    pub(crate) fn of_variant(&self, variant: Option<&str>) -> Cell {
        let mut cell = Cell::default();
        for trial in self.trials.iter().filter(|trial| variant.is_none_or(|name| trial.variant == name)) {
            cell.add(trial);
        }
        cell
    }

    /// How many trials came to what: first by standing, then by word.
    pub(crate) fn verdicts(&self) -> Vec<(&Verdict, usize)> {
        let mut counts: BTreeMap<(Standing, &str), (&Verdict, usize)> = BTreeMap::new();
        for trial in &self.trials {
            let key = (trial.verdict.standing, trial.verdict.word.as_str());
            counts.entry(key).or_insert((&trial.verdict, 0)).1 += 1;
        }
        counts.into_values().collect()
    }

    /// Whether a variant has to be said.
    pub(crate) fn has_variants(&self) -> bool {
        self.trials.iter().any(|trial| trial.variant != "default")
    }

    /// Whether a repeat has to be said.
    pub(crate) fn has_repeats(&self) -> bool {
        self.trials.iter().any(|trial| trial.repeat > 1)
    }

    /// What people call a trial of this run.
    pub(crate) fn label(&self, trial: &Trial) -> String {
        let mut label = trial.case.clone();
        if self.has_variants() {
            label.push_str(" / ");
            label.push_str(&trial.variant);
        }
        if self.has_repeats() {
            label.push_str(&format!(" #{}", trial.repeat));
        }
        label
    }
}
