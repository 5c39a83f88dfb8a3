//! Turn recorded runs into documents.
//!
//! ```text
//! run directory or results.json ──source──▶ Report (runs, trials) ──▶ markdown, json, csv, junit, github: one text
//!                                                                └──▶ html: one file, or an index and a page per trial
//! ```
//!
//! Nothing here prints, and nothing is written: whoever asks gets texts and decides where they go. The same recorded
//! run gives the same bytes at any time.

mod csv;
mod escape;
mod evaluation;
mod figures;
mod github;
mod html;
mod json;
mod junit;
mod markdown;
mod model;
mod source;
mod value;

pub use csv::csv;
pub use github::{GITHUB_LIMIT, github};
pub use html::{Html, Page, SINGLE_FILE, html};
pub use json::{JSON_VERSION, json};
pub use junit::junit;
pub use markdown::markdown;
pub use model::{Attempt, Money, Report, Run, Standing, Trial, Verdict};
pub use source::{ReadError, read_bundle, read_run};
