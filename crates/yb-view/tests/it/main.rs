//! Tests of the served pages over HTTP, and in a browser.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails its test")]

#[cfg(target_os = "linux")]
mod bounds;
mod browser;
mod client;
mod controls;
mod live;
mod pages;
mod safety;

use yb_view::{ViewOptions, ViewServer};

/// Starts a server for a workspace directory.
fn serve(root: &std::path::Path) -> ViewServer {
    ViewServer::start(&ViewOptions::new(root.to_owned())).unwrap()
}
