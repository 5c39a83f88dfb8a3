//! The ways to other machines: which hosts may be reached, TLS, and one HTTP request at a time.
//!
//! It knows nothing else of the engine, so that it can become a room of its own when a second one needs it.

mod hosts;
mod http;
mod tls;

pub use hosts::HostPolicy;
pub(crate) use hosts::{HostError, Resolve, SystemResolver, checked, is_private as is_private_address};
pub(crate) use http::{Answer, SendError, Target, exchange};
pub(crate) use tls::{Roots, Tls};
