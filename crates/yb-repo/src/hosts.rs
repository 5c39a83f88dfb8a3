//! Holds git to the hosts that may be reached, and to the addresses that were checked.

use std::net::IpAddr;

use super::source::{RemoteUrl, Scheme, SourceError};
use yb_net::policy::{HostError, HostPolicy, SystemResolver, resolve_host};

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
    let addresses =
        resolve_host(&url.host, url.port, policy, &SystemResolver).await.map_err(|error| match error {
            HostError::Unresolved { host, reason } => SourceError::Unresolved { host, reason },
            HostError::Private { host, address } => SourceError::PrivateHost { host, address },
        })?;
    if url.scheme == Scheme::Ssh {
        return Ok(Pinned::default());
    }
    let mut settings = vec!["http.followRedirects=false".to_owned()];
    if url.host.parse::<IpAddr>().is_err() {
        let texts: Vec<String> = addresses.iter().map(|address| text(address.ip())).collect();
        settings.push(format!("http.curloptResolve={}:{}:{}", url.host, url.port, texts.join(",")));
    }
    Ok(Pinned { settings })
}

fn text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
