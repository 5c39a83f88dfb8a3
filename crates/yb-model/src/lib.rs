//! The types that every crate of the engine shares: how a trial ended, what an execution logs, and how it was isolated.

pub mod atomic_file;
pub mod isolation;
pub mod log;
mod nonce;
pub mod outcome;
pub mod results;
mod safe_name;
pub mod secrets;
pub mod verdict;

pub use isolation::{Isolation, NetworkMode};
pub use nonce::nonce;
pub use outcome::Outcome;
pub use safe_name::safe_name;
