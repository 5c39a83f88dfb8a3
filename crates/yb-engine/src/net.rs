//! The ways to other machines: which hosts may be reached, TLS, and one HTTP request at a time.
//!
//! It knows nothing else of the engine, so that it can become a room of its own when a second one needs it.

mod http;
mod tls;

pub(crate) use http::{Answer, SendError, Target, exchange};
pub(crate) use tls::{Roots, Tls};
pub(crate) use yb_net::policy::{HostError, HostPolicy, Resolve, SystemResolver, checked};
