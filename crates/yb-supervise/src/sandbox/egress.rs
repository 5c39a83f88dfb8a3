//! Egress rules of a sandbox.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The connections that a sandboxed child may open: loopback addresses that are forwarded, and hosts that are
/// reachable through a proxy. The child gets the proxy in `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`.
/// Refused connections are listed in [`Report::refused`](crate::Report::refused).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct EgressRules {
    pub(crate) forwards: Vec<SocketAddr>,
    pub(crate) hosts: Vec<HostRule>,
}

impl EgressRules {
    /// Creates rules that allow nothing. Refused connections are still recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forwards a loopback address of the host, which the child reaches at the same address.
    pub fn forward(mut self, address: SocketAddr) -> Self {
        if !self.forwards.contains(&address) {
            self.forwards.push(address);
        }
        self
    }

    /// Allows the hosts that a rule matches.
    pub fn host(mut self, rule: HostRule) -> Self {
        self.hosts.push(rule);
        self
    }

    pub(crate) fn allows(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|rule| rule.allows(host, port))
    }
}

/// A rule for allowed hosts: `example.org` (ports 80 and 443), `example.org:8443`, or `*.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    name: String,
    port: Option<u16>,
}

/// The error of parsing a [`HostRule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid host: `{0}`")]
pub struct InvalidHost(String);

impl HostRule {
    /// Creates a rule for one host and port.
    pub fn new(name: &str, port: u16) -> Self {
        Self { name: normalize_host(name), port: Some(port) }
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        let host = normalize_host(host);
        let name_matches = match self.name.strip_prefix("*.") {
            Some(domain) => host.strip_suffix(domain).is_some_and(|start| start.ends_with('.')),
            None => host == self.name,
        };
        name_matches && self.port.map_or(matches!(port, 80 | 443), |own| own == port)
    }
}

impl FromStr for HostRule {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let bad = || InvalidHost(text.to_owned());
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !name.ends_with(':') && (!name.contains(':') || name.ends_with(']')) => {
                (name, Some(port.parse().map_err(|_| bad())?))
            }
            _ => (text, None),
        };
        let name = normalize_host(name);
        let rest = name.strip_prefix("*.").unwrap_or(&name);
        let address = rest.parse::<std::net::IpAddr>().is_ok();
        let letters = rest.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter));
        // Reject wildcards over a whole top-level domain.
        let too_broad = name.starts_with("*.") && !rest.contains('.');
        if rest.is_empty() || too_broad || port == Some(0) || !(address || letters && !rest.starts_with('.'))
        {
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

/// Strips brackets and the trailing dot, and lowercases.
fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase()
}

/// A target that the proxy refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedConnection {
    /// Host and port as requested, redacted.
    pub target: String,
    /// Number of attempts.
    pub times: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_rule_matches_ports_and_wildcards() {
        let rule = |text: &str| text.parse::<HostRule>().unwrap();
        for (text, host, port, allowed) in [
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
            assert_eq!(rule(text).allows(host, port), allowed, "{text} {host} {port}");
        }
        for bad in ["", "*", "*.org", "http://x", "x/y", "a b", "x:0", "x:99999", ".x", ":80"] {
            assert!(bad.parse::<HostRule>().is_err(), "{bad}");
        }
    }
}
