//! The engine: runs the trials of a suite, grades them, and records the results.

pub mod baseline;
pub mod check;
pub mod compare;
mod extensions;
pub mod gates;
pub mod index;
pub mod processes;
pub mod run;
pub mod suggest;
pub mod trial;

pub use extensions::Extensions;
pub use yb_agents as adapter;
pub use yb_agents::{programs, tape, trace};
pub use yb_case as case;
pub use yb_case::{config, suite};
pub use yb_evaluate as evaluate;
pub use yb_model::{atomic_file, edit, frames, log, nonce, outcome, results, safe_name, wiring};
pub use yb_repo as repo;
pub use yb_repo::diff;
pub use yb_stats as stats;
pub use yb_yaml::diagnostic;
