//! How a session begins: the process, the task that owns it, and the handshake, during which requests are served already.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::actor::{Actor, Known, Limits};
use super::messages::Handle;
use super::run_end::RunEnd;
use super::turns::Sink;
use super::{Error, Host, Initialized};
use crate::Target;
use crate::frame::lax::from_raw;

/// Starts the CLI for a host and waits until it is ready for a prompt.
pub(super) async fn open(host: &Host, sink: Sink) -> Result<(Handle, Initialized), Error> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Error::spawn("there is no tokio runtime here"));
    }
    let private = tempfile::TempDir::with_prefix("yb-claude-").map_err(Error::spawn)?;
    let target = Target::new(private.path().join("files"));
    let (invocation, fields) =
        host.options.session_invocation(&target, host.handlers.can_use_tool.is_some())?;
    for warning in &invocation.warnings {
        tracing::warn!(%warning, "an option goes otherwise than asked");
    }
    invocation.write_files().map_err(Error::spawn)?;
    let connection = host.transport.open(&invocation).await?;
    let (commands, received) = mpsc::unbounded_channel();
    let handlers = Arc::new(host.handlers.clone());
    let span = tracing::info_span!(
        "claude_session",
        model = host.options.model.as_deref(),
        session_id = tracing::field::Empty,
        subtype = tracing::field::Empty,
        cost_usd = tracing::field::Empty,
    );
    let limits = Limits { end: RunEnd::new(host.ceiling()), linger: host.linger() };
    let exit = Arc::default();
    let known = Known { span: span.clone(), exit: Arc::clone(&exit) };
    let actor = Actor::new(connection, received, handlers, sink, limits, known);
    let session = async move {
        actor.run().await;
        // The CLI may look at its files until its end.
        drop(private);
    };
    tokio::spawn(session.instrument(span));
    let handle = Handle { commands, exit };
    let initialized = handle.call(body(host, fields), host.patience).await;
    let initialized = initialized.map_err(|error| match error {
        Error::Control { message, .. } => Error::Handshake { reason: message },
        other => other,
    })?;
    let initialized: Initialized = from_raw(&initialized).unwrap_or_default();
    check(host, &initialized)?;
    Ok((handle, initialized))
}

/// The question that begins a session.
fn body(host: &Host, mut fields: Map<String, Value>) -> Value {
    fields.insert("subtype".to_owned(), json!("initialize"));
    fields.insert("hooks".to_owned(), host.hooks.to_json());
    if !host.handlers.servers.is_empty() {
        let names: Vec<&String> = host.handlers.servers.keys().collect();
        fields.insert("sdkMcpServers".to_owned(), json!(names));
    }
    Value::Object(fields)
}

/// A hook that has to stop things is worth nothing when the CLI goes on without it.
fn check(host: &Host, initialized: &Initialized) -> Result<(), Error> {
    if !host.hooks.must_block() {
        return Ok(());
    }
    let reason = if !initialized.hook_on_failure_supported {
        "it can't block when a hook fails, which a hook of this session demands"
    } else if initialized.hooks_applied == Some(false) {
        "its hooks are not in force, and one of this session must be able to block"
    } else {
        return Ok(());
    };
    Err(Error::Handshake { reason: reason.to_owned() })
}
