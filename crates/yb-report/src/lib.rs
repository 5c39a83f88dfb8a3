//! Turn recorded runs into documents.
//!
//! ```text
//! run directory or results.json ──source──▶ Report (runs, trials) ──▶ markdown, json, csv, junit, github: one text
//!                                                                └──▶ html: one file, or an index and a page per trial
//! ```
//!
//! The crate neither prints nor writes files: it returns texts, or writes them to what it is given. The same recorded run always gives the same bytes.

mod comparison;
mod csv;
mod escape;
mod evaluation;
mod github;
mod html;
mod json;
mod junit;
mod markdown;
mod model;
mod skill_benchmark;
mod source;
mod text;
mod value;
pub mod view;

pub use csv::csv;
pub use escape::csv_field;
pub use github::{GITHUB_LIMIT, github};
pub use html::{Html, Page, SINGLE_FILE, html};
pub use json::{JSON_VERSION, json, write_json};
pub use junit::junit;
pub use markdown::markdown;
pub use model::{Attempt, Money, OutcomeClass, Report, Run, Trial, TrialOutcome};
pub use skill_benchmark::skill_benchmark;
pub use source::{ReadError, read_bundle, read_run};
