//! The in-process MCP servers of a session, which a client can replace while the session runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::handlers::CallContext;
use super::tools::ToolServer;
use crate::McpServer;

/// A complete MCP server in this process, for what a [`ToolServer`] does not support, such as another MCP library.
#[async_trait]
pub trait McpService: Send + Sync {
    /// Handles one JSON-RPC message of the CLI and returns the response; `None` for a notification.
    ///
    /// Requests are handled concurrently. A cancelled request is dropped one second after
    /// [`CallContext::cancelled`] resolves.
    async fn handle(&self, message: Value, context: CallContext) -> Option<Value>;
}

/// An MCP server for [`Client::set_mcp_servers`](super::Client::set_mcp_servers).
#[derive(Clone)]
#[non_exhaustive]
pub enum SessionMcpServer {
    /// A server that the CLI starts or connects to.
    External(McpServer),
    /// Tools, resources and prompts of this process.
    Tools(ToolServer),
    /// Any other server in this process.
    Service(Arc<dyn McpService>),
}

impl SessionMcpServer {
    /// Creates an in-process server.
    pub fn service(service: impl McpService + 'static) -> Self {
        Self::Service(Arc::new(service))
    }

    /// Returns the configuration for the CLI.
    pub(super) fn to_json(&self, name: &str) -> Value {
        match self {
            Self::External(server) => server.to_json(),
            Self::Tools(_) | Self::Service(_) => json!({"type": "sdk", "name": name}),
        }
    }
}

impl From<McpServer> for SessionMcpServer {
    fn from(server: McpServer) -> Self {
        Self::External(server)
    }
}

impl From<ToolServer> for SessionMcpServer {
    fn from(server: ToolServer) -> Self {
        Self::Tools(server)
    }
}

/// Shows the kind only; a configuration may hold secrets.
impl fmt::Debug for SessionMcpServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::External(_) => "External(…)",
            Self::Tools(_) => "Tools(…)",
            Self::Service(_) => "Service(…)",
        })
    }
}

/// Servers by name; external ones are ignored.
pub(super) type ServerMap = BTreeMap<String, SessionMcpServer>;

/// The in-process servers of one session.
#[derive(Clone, Default)]
pub(super) struct SessionServers(Arc<Mutex<ServerMap>>);

impl SessionServers {
    pub(super) fn new(servers: ServerMap) -> Self {
        Self(Arc::new(Mutex::new(servers)))
    }

    pub(super) fn get(&self, name: &str) -> Option<SessionMcpServer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Replaces the servers and returns the previous ones.
    pub(super) fn replace(&self, servers: ServerMap) -> ServerMap {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), servers)
    }

    /// Adds servers and returns the previous ones. The CLI connects to them while it handles a request.
    pub(super) fn extend(&self, servers: ServerMap) -> ServerMap {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = all.clone();
        all.extend(servers);
        previous
    }
}
