//! Name resolution, and the policy on which hosts may be reached.
//!
//! Resolve a host once with [`resolve_host`] and connect to the addresses it returns. A second lookup of the same name
//! may return other addresses (DNS rebinding), which would bypass the check.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use async_trait::async_trait;

/// Whether hosts with private addresses may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPolicy {
    /// Only hosts with no private address.
    #[default]
    PublicOnly,
    /// Any host.
    AllowPrivate,
}

/// A host that can't be resolved, or that the policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The lookup failed or returned no address.
    #[error("host can't be resolved: `{host}`: {reason}")]
    Unresolved {
        /// The host.
        host: String,
        /// The resolver's error.
        reason: String,
    },
    /// The host is, or resolves to, a private address.
    #[error("host is private: `{host}` is {address}")]
    Private {
        /// The host.
        host: String,
        /// Its private address.
        address: IpAddr,
    },
}

/// Resolves host names. Tests replace it.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a host.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver. It also accepts legacy spellings of an address, such as `0x7f.1` and `2130706433`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    /// Uses a plain thread: a runtime waits for its blocking tasks when it shuts down, and a lookup can't be cancelled.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let host = host.to_owned();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // The caller may have been cancelled.
            drop(sender.send(addresses));
        })?;
        receiver.await.unwrap_or_else(|_| Err(io::Error::other("resolver thread ended without a result")))
    }
}

/// Resolves a host once and checks every address against the policy. Addresses are returned in the resolver's order,
/// without duplicates.
///
/// # Errors
/// Fails if the host can't be resolved, or if the policy forbids one of its addresses.
pub async fn resolve_host(
    host: &str,
    port: u16,
    policy: HostPolicy,
    resolver: &dyn Resolver,
) -> Result<Vec<SocketAddr>, HostError> {
    let unresolved = |reason: String| HostError::Unresolved { host: host.to_owned(), reason };
    let resolved = resolver.resolve(host, port).await.map_err(|error| unresolved(error.to_string()))?;
    let mut addresses: Vec<SocketAddr> = Vec::with_capacity(resolved.len());
    for address in resolved {
        if policy == HostPolicy::PublicOnly && is_private_address(address.ip()) {
            return Err(HostError::Private { host: host.to_owned(), address: address.ip() });
        }
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(unresolved("no address".to_owned())) } else { Ok(addresses) }
}

/// Returns whether an address is not part of the public internet: loopback, private, link-local, multicast, reserved
/// and documentation ranges, also when embedded in an IPv6 address.
#[must_use]
pub fn is_private_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, protocol assignments, 6to4 relays, benchmarking.
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, ..] = segments;
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Unspecified, loopback, IPv4-compatible and IPv4-mapped addresses.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => first == 0 && (v4(high, low) || segments[5] == 0),
        // NAT64, and its private variant.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        // 6to4 embeds an IPv4 address; Teredo obfuscates one.
        [0x2002, high, low, ..] => v4(high, low),
        [0x2001, 0, ..] => true,
        _ => {
            address.is_multicast()
                // Unique local, link-local, deprecated site-local.
                || (first & 0xfe00) == 0xfc00
                || (first & 0xffc0) == 0xfe80
                || (first & 0xffc0) == 0xfec0
                // Discard-only and documentation.
                || first == 0x0100
                || (first == 0x2001 && second == 0x0db8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_public_addresses_are_distinguished() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.17.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001:db8::1",
        ] {
            assert!(text.parse().is_ok_and(is_private_address), "{text}");
        }
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2606:4700::1111",
            "2a00:1450::1",
            "2002:808:808::",
        ] {
            assert!(text.parse().is_ok_and(|address| !is_private_address(address)), "{text}");
        }
    }

    struct FixedResolver(&'static [&'static str]);

    #[async_trait]
    impl Resolver for FixedResolver {
        async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            Ok(self.0.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect())
        }
    }

    #[tokio::test]
    async fn host_with_one_private_address_is_refused() {
        let check = |policy| async move {
            resolve_host("h.example", 80, policy, &FixedResolver(&["8.8.8.8", "::ffff:10.0.0.1", "8.8.8.8"]))
                .await
        };
        let refused = check(HostPolicy::PublicOnly).await.unwrap_err();
        assert_eq!(refused.to_string(), "host is private: `h.example` is ::ffff:10.0.0.1");
        assert_eq!(check(HostPolicy::AllowPrivate).await.unwrap().len(), 2, "without duplicates");
        let none =
            resolve_host("h.example", 80, HostPolicy::PublicOnly, &FixedResolver(&[])).await.unwrap_err();
        assert_eq!(none.to_string(), "host can't be resolved: `h.example`: no address");
    }

    #[tokio::test]
    async fn invalid_host_name_is_unresolved() {
        let error =
            resolve_host("no such host", 80, HostPolicy::PublicOnly, &SystemResolver).await.unwrap_err();
        assert!(matches!(error, HostError::Unresolved { .. }), "{error}");
    }
}
