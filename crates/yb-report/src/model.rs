//! The model behind every format: recorded runs and trials, independent of what recorded them.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde_json::{Map, Value};
use yb_engine::check::Proof;
use yb_engine::compare::{Comparison, VariantSummary};
use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::Spend;
use yb_engine::stats::Interval;

/// The input of every format: one or more runs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The runs, in the order of the command line.
    pub runs: Vec<Run>,
    /// The comparison of the last run with another one.
    pub comparison: Option<Comparison>,
}

impl Report {
    /// Creates a report about some runs.
    #[must_use]
    pub fn of(runs: Vec<Run>) -> Self {
        Self { runs, comparison: None }
    }

    /// Adds the comparison of the last run with another one.
    #[must_use]
    pub fn compared(mut self, comparison: Comparison) -> Self {
        self.comparison = Some(comparison);
        self
    }

    /// Iterates over every trial with its run.
    pub(crate) fn trials(&self) -> impl Iterator<Item = (&Run, &Trial)> {
        self.runs.iter().flat_map(|run| run.trials.iter().map(move |trial| (run, trial)))
    }

    /// Returns whether the report covers more than one run.
    pub(crate) fn has_several_runs(&self) -> bool {
        self.runs.len() > 1
    }
}

/// A recorded run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// The run id, or the path of a single results bundle.
    pub id: String,
    /// The name of the suite or the case.
    pub name: String,
    /// The state of the run: `finished`, `running`, `stopped (budget)`.
    pub condition: String,
    /// Start time, ISO 8601.
    pub started_at: Option<String>,
    /// Time of the last event, ISO 8601.
    pub last_at: Option<String>,
    /// The case or suite file of the run.
    pub config: Option<String>,
    /// The version of youBencha that recorded it.
    pub youbencha: Option<String>,
    /// The directory of the run or of the bundle.
    pub directory: PathBuf,
    /// Totals and comparison of the variants; absent with a single variant.
    pub variants: Option<VariantSummary>,
    /// The mean pass rate of the cases with its 95% interval.
    pub pass_rate: Option<(f64, Interval)>,
    /// Further fields of `results.json`, such as gates; shown generically.
    pub extra: Map<String, Value>,
    /// The trials, in plan order.
    pub trials: Vec<Trial>,
}

/// One trial.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Trial {
    /// `<case>--<variant>--<repeat>`, or the case's name for a lone bundle.
    pub name: String,
    /// The trial id, equal for the same trial in another run.
    pub id: Option<String>,
    /// The case name.
    pub case: String,
    /// The variant name.
    pub variant: String,
    /// The repeat, from 1.
    pub repeat: u32,
    /// The agent type.
    pub agent: String,
    /// The model, if known.
    pub model: Option<String>,
    /// The commit of the start tree.
    pub commit: Option<String>,
    /// What the check of the case had shown when the run started; absent if an older version recorded it.
    pub proof: Option<Proof>,
    /// How the trial ended.
    pub outcome: TrialOutcome,
    /// Start time of the deciding attempt, ISO 8601.
    pub started_at: Option<String>,
    /// Duration of the deciding attempt.
    pub duration_ms: Option<u64>,
    /// The cost of all attempts.
    pub money: Money,
    /// Tokens of the deciding attempt; absent if unreported.
    pub tokens: Option<u64>,
    /// Turns, as counted by the agent.
    pub turns: Option<u64>,
    /// The isolation level that was used.
    pub isolation: Option<String>,
    /// The error that ended the trial.
    pub error: Option<String>,
    /// Warnings recorded during the trial.
    pub warnings: Vec<String>,
    /// Name and status of each evaluator, from the journal.
    pub graded: Vec<(String, String)>,
    /// The finished attempts, in order.
    pub attempts: Vec<Attempt>,
    /// The artifacts directory of the deciding attempt.
    pub artifacts: Option<PathBuf>,
}

/// One attempt of a trial.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The attempt number, from 1.
    pub number: u32,
    /// How the attempt ended.
    pub outcome: TrialOutcome,
    /// Its duration.
    pub duration_ms: u64,
    /// The error that ended it.
    pub error: Option<String>,
}

/// Cost in US dollars by spender; unreported costs are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Money {
    /// Spent by the agent, without its subagents.
    pub agent: Option<f64>,
    /// Spent by subagents.
    pub subagents: Option<f64>,
    /// Spent by judges.
    pub judge: Option<f64>,
}

impl Money {
    pub(crate) fn of(spend: Spend) -> Self {
        Self { agent: spend.agent_usd, subagents: spend.subagents_usd, judge: spend.judge_usd }
    }

    /// Returns the sum of the known costs; `None` if none is known.
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

/// How a trial ended, and how it enters the pass rate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrialOutcome {
    /// The name of the outcome, such as `agent_error`.
    pub name: String,
    /// How it enters the pass rate.
    pub class: OutcomeClass,
}

/// How an outcome enters the pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OutcomeClass {
    /// Counted as a pass.
    Passed,
    /// Counted as a failure.
    Failed,
    /// Inconclusive: neither a pass nor a failure.
    Inconclusive,
    /// Excluded: an infrastructure failure says nothing about the agent.
    Excluded,
    /// Not run yet.
    Pending,
}

impl OutcomeClass {
    /// Returns the key of the class in CSS and in the JSON field `counts_as`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed => "fail",
            Self::Inconclusive => "unsure",
            Self::Excluded => "lost",
            Self::Pending => "todo",
        }
    }

    /// Returns a mark that is readable without color.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Failed => "✗",
            Self::Inconclusive => "?",
            Self::Excluded => "–",
            Self::Pending => "…",
        }
    }
}

impl Default for TrialOutcome {
    fn default() -> Self {
        Self::pending("not run")
    }
}

impl TrialOutcome {
    /// Returns how an outcome enters the pass rate.
    #[must_use]
    pub fn of(outcome: Outcome) -> Self {
        let class = match outcome.pass_credit() {
            PassCredit::One => OutcomeClass::Passed,
            PassCredit::Zero => OutcomeClass::Failed,
            PassCredit::Excluded => OutcomeClass::Excluded,
            _ => OutcomeClass::Inconclusive,
        };
        Self { name: outcome.as_str().to_owned(), class }
    }

    /// Parses the outcome of a results bundle: an outcome name, or `passed`, `failed` or `partial` of the original youBencha.
    pub(crate) fn parse(word: &str) -> Self {
        match Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word) {
            Some(outcome) => Self::of(outcome),
            None => Self { name: word.to_owned(), class: OutcomeClass::Inconclusive },
        }
    }

    pub(crate) fn pending(word: &str) -> Self {
        Self { name: word.to_owned(), class: OutcomeClass::Pending }
    }
}

/// Totals of one case with one variant over its repeats.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) passed: usize,
    pub(crate) counted: usize,
    pub(crate) excluded: usize,
    pub(crate) pending: usize,
    pub(crate) money: Money,
    pub(crate) times: Vec<u64>,
}

impl Cell {
    pub(crate) fn add(&mut self, trial: &Trial) {
        match trial.outcome.class {
            OutcomeClass::Passed => (self.passed, self.counted) = (self.passed + 1, self.counted + 1),
            OutcomeClass::Failed => self.counted += 1,
            OutcomeClass::Pending => self.pending += 1,
            _ => self.excluded += 1,
        }
        self.money = self.money.plus(trial.money);
        self.times.extend(trial.duration_ms.filter(|_| trial.outcome.class != OutcomeClass::Pending));
    }

    /// Returns the pass rate from 0 to 1; `None` if no trial counts.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.passed as f64 / self.counted as f64)
    }

    pub(crate) fn median_ms(&self) -> Option<u64> {
        yb_figures::median_ms(self.times.iter().copied())
    }
}

/// Cases × variants, both in plan order.
#[derive(Debug, Default)]
pub(crate) struct Matrix<'a> {
    pub(crate) cases: Vec<&'a str>,
    pub(crate) variants: Vec<&'a str>,
    cells: BTreeMap<(&'a str, &'a str), Cell>,
}

impl<'a> Matrix<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        let mut matrix = Self::default();
        let (mut cases, mut variants) = (HashSet::new(), HashSet::new());
        for trial in &run.trials {
            let key = (trial.case.as_str(), trial.variant.as_str());
            if cases.insert(key.0) {
                matrix.cases.push(key.0);
            }
            if variants.insert(key.1) {
                matrix.variants.push(key.1);
            }
            matrix.cells.entry(key).or_default().add(trial);
        }
        matrix
    }

    pub(crate) fn cell(&self, case: &'a str, variant: &'a str) -> Option<&Cell> {
        self.cells.get(&(case, variant))
    }

    /// Returns the cases, in plan order; if there are more than this many, those with the lowest pass rates.
    pub(crate) fn shown_cases(&self, max: usize) -> Vec<&'a str> {
        let rate = |case: &str| {
            let cells = self.variants.iter().filter_map(|variant| self.cells.get(&(case, *variant)));
            let (passed, counted) =
                cells.fold((0, 0), |sum, cell| (sum.0 + cell.passed, sum.1 + cell.counted));
            if counted == 0 { 2.0 } else { passed as f64 / counted as f64 }
        };
        if self.cases.len() <= max {
            return self.cases.clone();
        }
        let mut rated: Vec<(f64, &'a str)> = self.cases.iter().map(|case| (rate(case), *case)).collect();
        rated.sort_by(|one, two| one.0.total_cmp(&two.0));
        rated.into_iter().take(max).map(|(_, case)| case).collect()
    }

    /// Iterates over the existing cells, case by case.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&'a str, &'a str, &Cell)> {
        self.cases.iter().flat_map(move |case| {
            self.variants.iter().filter_map(move |variant| Some((*case, *variant, self.cell(case, variant)?)))
        })
    }
}

/// The parts of a trial's label that its run needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelParts {
    variant: bool,
    repeat: bool,
}

impl LabelParts {
    pub(crate) fn label(self, trial: &Trial) -> String {
        let mut label = trial.case.clone();
        if self.variant {
            label.push_str(" / ");
            label.push_str(&trial.variant);
        }
        if self.repeat {
            label.push_str(&format!(" #{}", trial.repeat));
        }
        label
    }
}

impl Run {
    /// Describes how many cases were proven when the run started, and which were not.
    pub(crate) fn proven_cases(&self) -> Option<String> {
        let trials = self.trials.iter().map(|trial| (trial.case.as_str(), trial.proof));
        yb_engine::check::proven_cases(trials).filter(|_| !self.trials.is_empty())
    }

    /// Returns the totals of all trials.
    pub(crate) fn totals(&self) -> Cell {
        self.variant_totals(None)
    }

    /// Returns the totals of one variant, or of all.
    pub(crate) fn variant_totals(&self, variant: Option<&str>) -> Cell {
        let mut cell = Cell::default();
        for trial in self.trials.iter().filter(|trial| variant.is_none_or(|name| trial.variant == name)) {
            cell.add(trial);
        }
        cell
    }

    /// Counts the trials by outcome, ordered by class and name.
    pub(crate) fn outcomes(&self) -> Vec<(&TrialOutcome, usize)> {
        let mut counts: BTreeMap<(OutcomeClass, &str), (&TrialOutcome, usize)> = BTreeMap::new();
        for trial in &self.trials {
            let key = (trial.outcome.class, trial.outcome.name.as_str());
            counts.entry(key).or_insert((&trial.outcome, 0)).1 += 1;
        }
        counts.into_values().collect()
    }

    /// Returns whether labels need the variant.
    pub(crate) fn has_variants(&self) -> bool {
        self.trials.iter().any(|trial| trial.variant != "default")
    }

    /// Returns whether labels need the repeat.
    pub(crate) fn has_repeats(&self) -> bool {
        self.trials.iter().any(|trial| trial.repeat > 1)
    }

    /// Returns the label of a trial: `case / variant #repeat`, without the parts that all trials share.
    pub(crate) fn label(&self, trial: &Trial) -> String {
        self.label_parts().label(trial)
    }

    /// Returns what labels need. Computed once for the labels of many trials.
    pub(crate) fn label_parts(&self) -> LabelParts {
        LabelParts { variant: self.has_variants(), repeat: self.has_repeats() }
    }
}
