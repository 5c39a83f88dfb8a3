//! Restricts git to allowed hosts, and to the addresses that were checked.

use std::net::IpAddr;

use super::source::{RemoteUrl, Scheme, SourceError};
use yb_net::policy::{HostError, HostPolicy, SystemResolver, resolve_host};

/// Settings that make git connect only to the addresses that were checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PinnedHost {
    pub(crate) settings: Vec<String>,
}

/// Rejects a private host, and pins http connections to the addresses that were checked: the name may resolve differently the next
/// time, and a redirect may lead to any host.
pub(crate) async fn check_host(url: &RemoteUrl, policy: HostPolicy) -> Result<PinnedHost, SourceError> {
    if policy == HostPolicy::AllowPrivate {
        return Ok(PinnedHost::default());
    }
    let addresses =
        resolve_host(&url.host, url.port, policy, &SystemResolver).await.map_err(|error| match error {
            HostError::Unresolved { host, reason } => SourceError::Unresolved { host, reason },
            HostError::Private { host, address } => SourceError::PrivateHost { host, address },
        })?;
    if url.scheme == Scheme::Ssh {
        return Ok(PinnedHost::default());
    }
    let mut settings = vec!["http.followRedirects=false".to_owned()];
    if url.host.parse::<IpAddr>().is_err() {
        let texts: Vec<String> = addresses.iter().map(|address| curl_address(address.ip())).collect();
        settings.push(format!("http.curloptResolve={}:{}:{}", url.host, url.port, texts.join(",")));
    }
    Ok(PinnedHost { settings })
}

/// An address in the syntax of curl's `CURLOPT_RESOLVE`.
fn curl_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn check_host_rejects_all_spellings_of_loopback() {
        for host in ["localhost", "127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "[::1]", "0"] {
            let url = RemoteUrl::parse(&format!("https://{host}/x")).expect(host);
            match check_host(&url, HostPolicy::PublicOnly).await {
                Err(SourceError::PrivateHost { .. }) => {}
                other => panic!("{host}: {other:?}"),
            }
            assert_eq!(check_host(&url, HostPolicy::AllowPrivate).await, Ok(PinnedHost::default()));
        }
    }

    #[tokio::test]
    async fn check_host_disables_redirects_for_a_public_address() {
        let url = RemoteUrl::parse("https://1.1.1.1/x").expect("url");
        let pinned = check_host(&url, HostPolicy::PublicOnly).await.expect("public");
        assert_eq!(pinned.settings, ["http.followRedirects=false"]);
    }
}
