//! Types that the crates of the engine share: outcomes, execution logs, verdicts, results and isolation.

pub mod atomic_file;
pub mod edit;
pub mod frames;
pub mod isolation;
pub mod log;
mod nonce;
pub mod outcome;
pub mod results;
mod safe_name;
pub mod secrets;
pub mod verdict;
pub mod wiring;

pub use isolation::{Isolation, NetworkMode};
pub use nonce::nonce;
pub use outcome::Outcome;
pub use safe_name::safe_name;
pub use wiring::{AddOnKind, AddOnRecord, WiringStatus};
