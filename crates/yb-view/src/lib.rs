//! Pages over all runs of a project, rendered on the server and live while a run is written.
//!
//! ```text
//! runs/<id>/journal.jsonl ──RunFollower──▶ Project (cache) ──pages──▶ Markup ──▶ hyper ──▶ browser
//!                                             └────live────▶ server-sent events ──▲
//! ```
//!
//! The server never writes to a run, except for the labels of its reviewers in `reviews.jsonl`. Every request must have the token
//! that only the terminal shows (`guard.rs`); all text goes through [`Markup`](yb_report::view::Markup), which takes markup from
//! literals only.

mod address;
mod body;
mod controls;
mod guard;
mod live;
mod page;
mod pages;
mod project;
mod reviews;
mod routes;
mod server;

pub use controls::{Activity, Controls, RunAction};
pub use server::{ViewError, ViewOptions, ViewServer};
