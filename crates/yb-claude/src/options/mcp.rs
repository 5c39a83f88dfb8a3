//! MCP servers that a run brings along, as the JSON that `--mcp-config` takes.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// One MCP server.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum McpServer {
    /// A program that speaks over its pipes.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables, on top of those it inherits.
        env: BTreeMap<String, String>,
    },
    /// A server that speaks HTTP.
    Http {
        /// Where it is.
        url: String,
        /// What each request carries.
        headers: BTreeMap<String, String>,
    },
    /// A server that speaks the older protocol over server-sent events.
    Sse {
        /// Where it is.
        url: String,
        /// What each request carries.
        headers: BTreeMap<String, String>,
    },
    /// Any other configuration, as it is.
    Other(Map<String, Value>),
}

impl McpServer {
    /// A program that speaks over its pipes.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: BTreeMap::new() }
    }

    /// A server that speaks HTTP.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), headers: BTreeMap::new() }
    }

    /// The same with a variable, for a program, or a header, for a server.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
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

    /// Whether it may hold a secret, which must not be seen in a list of processes.
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

/// Variables and headers may be secrets; only their names are shown.
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
