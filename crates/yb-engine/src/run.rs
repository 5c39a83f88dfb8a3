//! Runs: the trials of one plan, each recorded in a journal before its result is used, so that a crash neither loses
//! nor repeats a finished trial.
//!
//! ```text
//! Suite ──RunContext::prepare──▶ PreparedRun ──start──▶ ActiveRun ──execute──▶ RunOutcome
//! runs/<id> ──RunContext::resume──────────────────────▲
//! ```

mod budget;
mod dir;
mod dispatcher;
mod error;
mod event;
mod follow;
mod governor;
mod journal;
mod lock;
mod lookup;
mod plan;
mod prepare;
mod record;
mod regrade;
mod results;
mod resume;
mod state;
mod tree_diff;
mod unit;
mod untouched;
mod verify;
mod watch;

pub(crate) use dir::create_ignored;
pub use dir::{CACHE, RUNS, RunDir};
pub use dispatcher::{Control, ExecutionLimits, RunOutcome};
pub(crate) use error::is_disk_full;
pub use error::{PreflightProblem, RunError};
pub use event::{
    AttemptRecord, AttemptTrees, EvaluatorVerdict, JOURNAL_VERSION, JournalEntry, Progress, RetryDecision,
    RunEvent, RunnerEvent, Spend, StopReason,
};
pub use follow::RunFollower;
pub(crate) use journal::sync_folder;
pub use journal::{Journal, JournalContents, JournalError, read as read_journal};
pub use lock::{LockAttempt, RunLock};
pub(crate) use lookup::runs_before_latest;
pub use lookup::{RunInfo, all_runs, find_run, find_trial, newest_unfinished};
pub(crate) use plan::select;
pub use plan::{Filter, PLAN_VERSION, Plan, PlanOptions, PlannedTrial, Selection};
pub use prepare::{PreparedRun, RunContext};
pub use record::RecordStatement;
pub(crate) use record::{json_digest, value_digest};
pub use regrade::{GraderSource, Grading, RegradeOptions, RegradedTrial};
pub use results::{RunResults, TrialResults};
pub use resume::ActiveRun;
pub(crate) use resume::replace;
pub use state::{InFlightAttempt, RunState, RunTally, TrialState};
pub use tree_diff::{TreeDiff, TreeSnapshot, diff_trees, export_tree, read_tree};
pub use verify::{Verification, VerificationProblem, verify};
pub use watch::{FileChanges, KnownTrials, WatchedFiles};
