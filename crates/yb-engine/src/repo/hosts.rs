//! Which hosts a case may fetch from: never, unless the user says so, one inside their own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use super::source::{RemoteUrl, Scheme, SourceError};

/// Whether hosts with private addresses may be fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPolicy {
    /// Only hosts all of whose addresses are public.
    #[default]
    PublicOnly,
    /// Any host.
    AllowPrivate,
}

/// What git must be told so that it goes where was looked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) settings: Vec<String>,
}

/// Refuses a private host, and pins http to the addresses that were checked: a name may resolve to another one
/// the next time, and a redirect may lead anywhere.
pub(crate) async fn check(url: &RemoteUrl, policy: HostPolicy) -> Result<Pinned, SourceError> {
    if policy == HostPolicy::AllowPrivate {
        return Ok(Pinned::default());
    }
    let (host, port) = (url.host.clone(), url.port);
    let unresolved = |reason: String| SourceError::Unresolved { host: url.host.clone(), reason };
    // The system's own resolver also knows the odd spellings of an address, as `0x7f.1` and `2130706433`.
    let looked_up = tokio::task::spawn_blocking(move || (host.as_str(), port).to_socket_addrs());
    let addresses: Vec<IpAddr> = match looked_up.await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(error)) => return Err(unresolved(error.to_string())),
        Err(error) => return Err(unresolved(error.to_string())),
    };
    if addresses.is_empty() {
        return Err(unresolved("no address".to_owned()));
    }
    if let Some(address) = addresses.iter().copied().find(|address| is_private(*address)) {
        return Err(SourceError::PrivateHost { host: url.host.clone(), address });
    }
    if url.scheme == Scheme::Ssh {
        return Ok(Pinned::default());
    }
    let mut settings = vec!["http.followRedirects=false".to_owned()];
    if url.host.parse::<IpAddr>().is_err() {
        let mut seen = Vec::new();
        for address in addresses {
            let text = match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            };
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        settings.push(format!("http.curloptResolve={}:{}:{}", url.host, url.port, seen.join(",")));
    }
    Ok(Pinned { settings })
}

/// Whether an address is not one of the public internet.
pub(crate) fn is_private(address: IpAddr) -> bool {
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
        // Unspecified, loopback, and IPv4 in its old and in its mapped form.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => first == 0 && (v4(high, low) || segments[5] == 0),
        // NAT64, and its private variant.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        // 6to4 carries an IPv4 address; Teredo hides one.
        [0x2002, high, low, ..] => v4(high, low),
        [0x2001, 0, ..] => true,
        _ => {
            address.is_multicast()
                // Unique local, link-local, the old site-local.
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
    fn private_ranges() {
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
            assert!(text.parse().is_ok_and(is_private), "{text}");
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
            assert!(text.parse().is_ok_and(|address| !is_private(address)), "{text}");
        }
    }

    #[tokio::test]
    async fn every_spelling_of_loopback_is_refused() {
        for host in ["localhost", "127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "[::1]", "0"] {
            let url = RemoteUrl::parse(&format!("https://{host}/x")).expect(host);
            match check(&url, HostPolicy::PublicOnly).await {
                Err(SourceError::PrivateHost { .. }) => {}
                other => panic!("{host}: {other:?}"),
            }
            assert_eq!(check(&url, HostPolicy::AllowPrivate).await, Ok(Pinned::default()));
        }
    }

    #[tokio::test]
    async fn a_public_address_is_pinned() {
        let url = RemoteUrl::parse("https://1.1.1.1/x").expect("url");
        let pinned = check(&url, HostPolicy::PublicOnly).await.expect("public");
        assert_eq!(pinned.settings, ["http.followRedirects=false"]);
    }
}
