//! MCP server configurations for `--mcp-config`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// The configuration of an MCP server.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum McpServer {
    /// A program that uses stdin and stdout.
    Stdio {
        /// The program.
        command: String,
        /// The arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
    },
    /// A server with the streamable HTTP transport.
    Http {
        /// The URL.
        url: String,
        /// The headers of each request.
        headers: BTreeMap<String, String>,
    },
    /// A server with the older SSE transport.
    Sse {
        /// The URL.
        url: String,
        /// The headers of each request.
        headers: BTreeMap<String, String>,
    },
    /// Any other configuration, passed on unchanged.
    Other(Map<String, Value>),
}

impl McpServer {
    /// Creates the configuration of a stdio server.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: BTreeMap::new() }
    }

    /// Creates the configuration of an HTTP server.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), headers: BTreeMap::new() }
    }

    /// Adds an environment variable (stdio) or a header (HTTP and SSE).
    #[must_use]
    pub fn with_env_or_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match &mut self {
            Self::Stdio { env: pairs, .. }
            | Self::Http { headers: pairs, .. }
            | Self::Sse { headers: pairs, .. } => {
                pairs.insert(name.into(), value.into());
            }
            Self::Other(map) => {
                map.insert(name.into(), Value::String(value.into()));
            }
        }
        self
    }

    /// Whether the configuration may hold a secret, which must not appear in a process list.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Self::Stdio { env: pairs, .. }
            | Self::Http { headers: pairs, .. }
            | Self::Sse { headers: pairs, .. } => !pairs.is_empty(),
            Self::Other(_) => true,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Stdio { command, args, env } => {
                json!({"type": "stdio", "command": command, "args": args, "env": env})
            }
            Self::Http { url, headers } => json!({"type": "http", "url": url, "headers": headers}),
            Self::Sse { url, headers } => json!({"type": "sse", "url": url, "headers": headers}),
            Self::Other(map) => Value::Object(map.clone()),
        }
    }
}

/// Shows only the names of variables and headers, whose values may be secrets.
impl fmt::Debug for McpServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys())
                .finish(),
            Self::Http { headers, .. } => {
                formatter.debug_struct("Http").field("headers", &headers.keys()).finish_non_exhaustive()
            }
            Self::Sse { headers, .. } => {
                formatter.debug_struct("Sse").field("headers", &headers.keys()).finish_non_exhaustive()
            }
            Self::Other(map) => formatter.debug_set().entries(map.keys()).finish(),
        }
    }
}

pub(crate) fn config(servers: &BTreeMap<String, McpServer>) -> Value {
    let servers: Map<String, Value> =
        servers.iter().map(|(name, server)| (name.clone(), server.to_json())).collect();
    json!({ "mcpServers": servers })
}
