//! A run: many trials from one plan, each recorded before anything relies on it, so that whatever dies, nothing that
//! was finished is lost or repeated.
//!
//! ```text
//! Suite ──Setup::prepare──▶ Ready ──Ready::begin──▶ OpenRun ──OpenRun::execute──▶ RunState
//! runs/<id> ──Setup::resume─────────────────────────▲
//! ```

mod budget;
mod dir;
mod dispatch;
mod error;
mod event;
mod find;
mod governor;
mod journal;
mod lock;
mod open;
mod plan;
mod prepare;
mod regrade;
mod results;
mod state;
mod unit;

pub use dir::{CACHE, RUNS, RunDir};
pub use dispatch::{Control, Limits, Over};
pub(crate) use error::is_full;
pub use error::{Problem, RunError};
pub use event::{
    AttemptRecord, Entry, Graded, JOURNAL_VERSION, Progress, RunEvent, Spend, StopReason, Then, Told, Trees,
};
pub use find::{RunInfo, all_runs, find_run, find_trial, newest_unfinished};
pub(crate) use journal::sync_folder;
pub use journal::{Found, Journal, JournalError, read as read_journal};
pub use lock::{Locked, RunLock};
pub(crate) use open::replace;
pub use open::{OpenRun, Rerun};
pub use plan::{Filter, PLAN_VERSION, Plan, PlanOptions, PlannedTrial, Selection};
pub use prepare::{Ready, Setup};
pub use regrade::{Graders, Grading, Regrade, Regraded};
pub use results::{RunResults, TrialResults};
pub use state::{InFlight, RunState, Tally, TrialState};
