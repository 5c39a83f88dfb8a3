//! The only ways out of a sandbox that has no other network.
#![cfg_attr(windows, expect(dead_code, reason = "there is no sandbox on Windows to lead out of"))]

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The only ways out of a sandbox: addresses of this machine that are passed on as they are, and hosts that can be
/// asked for through a proxy of ours. The proxy is in the child's HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; what it refuses
/// is in the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Exits {
    pub(crate) forwards: Vec<SocketAddr>,
    pub(crate) hosts: Vec<HostRule>,
}

impl Exits {
    /// None yet; but what goes to the proxy is listed.
    pub fn new() -> Self {
        Self::default()
    }

    /// An address of this machine, which the child reaches as the same address.
    pub fn forward(mut self, address: SocketAddr) -> Self {
        if !self.forwards.contains(&address) {
            self.forwards.push(address);
        }
        self
    }

    /// A host, or several.
    pub fn host(mut self, rule: HostRule) -> Self {
        self.hosts.push(rule);
        self
    }

    pub(crate) fn allows(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|rule| rule.allows(host, port))
    }
}

/// Hosts that may be connected to: `example.org` (ports 80 and 443), `example.org:8443`, or `*.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    name: String,
    port: Option<u16>,
}

/// Not a host that can be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a host: `{0}`")]
pub struct BadHost(String);

impl HostRule {
    /// One host and one port.
    pub fn new(name: &str, port: u16) -> Self {
        Self { name: plain(name), port: Some(port) }
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        let host = plain(host);
        let named = match self.name.strip_prefix("*.") {
            Some(domain) => host.strip_suffix(domain).is_some_and(|start| start.ends_with('.')),
            None => host == self.name,
        };
        named && self.port.map_or(matches!(port, 80 | 443), |own| own == port)
    }
}

impl FromStr for HostRule {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let bad = || BadHost(text.to_owned());
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !name.ends_with(':') && (!name.contains(':') || name.ends_with(']')) => {
                (name, Some(port.parse().map_err(|_| bad())?))
            }
            _ => (text, None),
        };
        let name = plain(name);
        let rest = name.strip_prefix("*.").unwrap_or(&name);
        let address = rest.parse::<std::net::IpAddr>().is_ok();
        let letters = rest.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter));
        // `*.org` would be half the world; `*` all of it.
        let wide = name.starts_with("*.") && !rest.contains('.');
        if rest.is_empty() || wide || port == Some(0) || !(address || letters && !rest.starts_with('.')) {
            return Err(bad());
        }
        Ok(Self { name, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(formatter, "{}:{port}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

/// Without brackets, case, and the dot that ends a full name.
fn plain(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase()
}

/// A connection that the proxy refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The host, as it was asked for, and the port; without secrets.
    pub target: String,
    /// How often.
    pub times: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_meant_with_its_ports_and_a_star_with_what_is_below() {
        let rule = |text: &str| text.parse::<HostRule>().unwrap();
        for (text, host, port, fine) in [
            ("registry.npmjs.org", "registry.npmjs.org", 443, true),
            ("registry.npmjs.org", "Registry.NPMJS.org.", 80, true),
            ("registry.npmjs.org", "registry.npmjs.org", 22, false),
            ("registry.npmjs.org", "evil-registry.npmjs.org", 443, false),
            ("host:8443", "host", 8443, true),
            ("host:8443", "host", 443, false),
            ("*.example.org", "a.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", "badexample.org", 443, false),
            ("[::1]:80", "::1", 80, true),
            ("::1", "[::1]", 443, true),
        ] {
            assert_eq!(rule(text).allows(host, port), fine, "{text} {host} {port}");
        }
        for bad in ["", "*", "*.org", "http://x", "x/y", "a b", "x:0", "x:99999", ".x", ":80"] {
            assert!(bad.parse::<HostRule>().is_err(), "{bad}");
        }
    }
}
