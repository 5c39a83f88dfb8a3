//! The engine: case → plan → trial → capture → grade → record.

pub mod adapter;
pub mod baseline;
pub mod case;
pub mod compare;
pub mod config;
pub mod diagnostic;
pub mod diff;
pub mod evaluate;
pub mod gates;
pub mod index;
pub mod log;
mod nonce;
pub mod outcome;
pub mod repo;
pub mod results;
pub mod run;
pub mod stats;
pub mod suggest;
pub mod suite;
pub mod tape;
pub mod tools;
pub mod trace;
pub mod trial;
mod yaml;
