//! Opens a session: starts the transport and the actor, and performs the `initialize` handshake. Control requests are
//! already handled during the handshake.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::actor::{Actor, SessionMonitor, ShutdownPolicy};
use super::incoming::IncomingRequests;
use super::messages::SessionHandle;
use super::mirror::Mirror;
use super::run_end::RunEndDetector;
use super::servers::SessionServers;
use super::store_resume;
use super::turns::Sink;
use super::{Error, Host, InitializeResponse};
use crate::InvocationTarget;
use crate::frame::lenient::from_raw;

/// Starts the CLI and waits until it is ready for a prompt.
pub(super) async fn open(host: &Host, sink: Sink) -> Result<(SessionHandle, InitializeResponse), Error> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::spawn("no tokio runtime"));
    }
    let private = tempfile::TempDir::with_prefix("yb-claude-").map_err(Error::spawn)?;
    let target = InvocationTarget::new(private.path().join("files"));
    let options = match &host.store {
        Some(store) => store_resume::prepare(host, &**store, private.path()).await?,
        None => host.options.clone(),
    };
    let (invocation, fields) = options.session_invocation(&target, host.handlers.can_use_tool.is_some())?;
    for warning in &invocation.warnings {
        tracing::warn!(%warning, "an option has a different effect than requested");
    }
    invocation.write_files().map_err(Error::spawn)?;
    host.transport.prepare(private.path())?;
    let connection = host.transport.open(&invocation).await?;
    let (commands, receiver) = mpsc::unbounded_channel();
    let servers = SessionServers::new(host.handlers.servers.clone());
    let incoming = IncomingRequests::new(Arc::new(host.handlers.clone()), servers.clone());
    let mirror = host.store.as_ref().map(|store| Mirror::start(Arc::clone(store), host.store_flush));
    let span = tracing::info_span!(
        "claude_session",
        model = host.options.model.as_deref(),
        session_id = tracing::field::Empty,
        subtype = tracing::field::Empty,
        cost_usd = tracing::field::Empty,
    );
    let shutdown = ShutdownPolicy { end: RunEndDetector::new(host.background_wait()), linger: host.linger() };
    let exit = Arc::default();
    let monitor = SessionMonitor { span: span.clone(), exit: Arc::clone(&exit) };
    let actor = Actor::new(connection, receiver, incoming, sink, shutdown, monitor, mirror);
    let session = async move {
        actor.run().await;
        // The CLI may read its files until it exits.
        drop(private);
    };
    tokio::spawn(session.instrument(span));
    let handle = SessionHandle { commands, exit, servers };
    let response = handle.request(body(host, fields), host.control_timeout).await;
    let response = response.map_err(|error| match error {
        Error::Control { message, .. } => Error::Handshake { reason: message },
        other => other,
    })?;
    let response: InitializeResponse = from_raw(&response).unwrap_or_default();
    check(host, &response)?;
    Ok((handle, response))
}

/// Returns the body of the `initialize` request.
fn body(host: &Host, mut fields: Map<String, Value>) -> Value {
    fields.extend(host.initialize.clone());
    fields.insert("subtype".to_owned(), json!("initialize"));
    fields.insert("hooks".to_owned(), host.hooks.to_json());
    if !host.handlers.servers.is_empty() {
        let names: Vec<&String> = host.handlers.servers.keys().collect();
        fields.insert("sdkMcpServers".to_owned(), json!(names));
    }
    Value::Object(fields)
}

/// Rejects a CLI that can't guarantee [`OnFailure::Block`](super::OnFailure::Block).
fn check(host: &Host, response: &InitializeResponse) -> Result<(), Error> {
    if !host.hooks.must_block() {
        return Ok(());
    }
    let reason = if !response.hook_on_failure_supported {
        "the CLI does not support blocking on hook failure, which a hook requires"
    } else if response.hooks_applied == Some(false) {
        "hooks are not active, but a hook requires blocking on failure"
    } else {
        return Ok(());
    };
    Err(Error::Handshake { reason: reason.to_owned() })
}
