//! Network access and resource limits of an agent's command.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use yb_supervise::{Command, EgressRules, HostRule, Network as Connects, ResourceLimits, Sandbox};

use super::{AdapterError, Host};
use yb_case::{Network, NetworkMode, TrialLimits};

const MB: u64 = 1_000_000;

/// Variables with a proxy of the user, which a sandbox can't reach.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// The location of a model API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Model {
    /// A base URL such as `https://api.example.org/v1`.
    At(String),
    /// A host name.
    On(&'static str),
}

/// The connections to the model and to the hosts that the case names; `None` if the network is not restricted to them.
pub(super) fn exits(
    network: &Network,
    host: &Host,
    model: &[Model],
) -> Result<Option<EgressRules>, AdapterError> {
    if network.mode != NetworkMode::ModelOnly {
        return Ok(None);
    }
    if let Some(name) = PROXIES.iter().find(|name| host.variable(name).is_some()) {
        let message = format!("`network: model-only` can't lead through the proxy in `{name}`");
        return Err(AdapterError::config(
            message,
            format!("unset it: `unset {name}`, or say `network: open`"),
        ));
    }
    let mut exits = network.rules().fold(EgressRules::new(), EgressRules::host);
    for model in model {
        exits = match model {
            Model::On(name) => exits.host(HostRule::new(name, 443)),
            Model::At(url) => {
                let (name, port) = authority(url).ok_or_else(|| {
                    let message = format!("not the address of a model's API: `{url}`");
                    AdapterError::config(message, "write it as `https://host` or `http://host:port`")
                })?;
                match loopback(&name) {
                    Some(address) => exits.forward(SocketAddr::new(address, port)),
                    None => exits.host(HostRule::new(&name, port)),
                }
            }
        };
    }
    Ok(Some(exits))
}

/// Adds the network to a sandbox.
pub fn connect(view: Sandbox, network: &Network, exits: Option<EgressRules>) -> Sandbox {
    match (network.mode, exits) {
        (NetworkMode::Open, _) => view,
        (NetworkMode::ModelOnly, Some(exits)) => view.egress(exits),
        (NetworkMode::ModelOnly, None) => {
            view.egress(network.rules().fold(EgressRules::new(), EgressRules::host))
        }
        (NetworkMode::None, _) => view.network(Connects::None),
    }
}

/// Adds the limits to a command. The disk limit counts the growth of the directories, whose size before may be known.
pub fn limit(
    command: Command,
    limits: &TrialLimits,
    directories: [&Path; 2],
    before: Option<u64>,
) -> Command {
    let mut all = ResourceLimits::new();
    if let Some(mb) = limits.memory_mb {
        all = all.memory(mb * MB);
    }
    if let Some(number) = limits.processes {
        all = all.processes(number);
    }
    if let Some(seconds) = limits.cpu_seconds {
        all = all.cpu(Duration::from_secs(seconds));
    }
    let Some(mb) = limits.disk_mb else { return command.limits(all) };
    // Slightly more, so that the limit of the directories is reached first.
    command.limits(all.file_size((mb + 1) * MB)).growth_quota(directories, before, mb * MB)
}

/// The loopback address, if the name means this machine.
fn loopback(name: &str) -> Option<IpAddr> {
    if name == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    name.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)
}

/// Host and port of a URL.
fn authority(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let port = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, own)) if !own.contains(']') => (host, own.parse().ok()?),
        _ => (authority, port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_only(allow: &[&str]) -> Network {
        let mut network = Network::new(NetworkMode::ModelOnly);
        network.allow = allow.iter().map(ToString::to_string).collect();
        network
    }

    #[test]
    fn model_on_this_machine_is_passed_on_and_another_is_a_host() {
        let ask = |url: &str| exits(&model_only(&[]), &Host::default(), &[Model::At(url.to_owned())]);
        let forward = |address: &str| EgressRules::new().forward(address.parse().unwrap());
        let host = |name: &str, port| EgressRules::new().host(HostRule::new(name, port));
        for (url, expected) in [
            ("http://127.0.0.1:4000", forward("127.0.0.1:4000")),
            ("http://localhost:4000/v1", forward("127.0.0.1:4000")),
            ("http://[::1]:4000/", forward("[::1]:4000")),
            ("https://user:word@Gateway.example.org/x?y", host("gateway.example.org", 443)),
            ("http://10.0.0.1:8080", host("10.0.0.1", 8080)),
        ] {
            assert_eq!(ask(url).unwrap(), Some(expected), "{url}");
        }
        for wrong in ["", "api.example.org", "ftp://x", "https://", "http://x:port"] {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_model_only_network_needs_egress_rules() {
        let none = |mode| exits(&Network::new(mode), &Host::default(), &[Model::On("a.b")]).unwrap();
        assert_eq!((none(NetworkMode::Open), none(NetworkMode::None)), (None, None));
        let named = exits(&model_only(&["c.d"]), &Host::default(), &[Model::On("a.b")]).unwrap();
        assert_eq!(
            named,
            Some(EgressRules::new().host("c.d".parse().unwrap()).host(HostRule::new("a.b", 443)))
        );
        let proxied = exits(&model_only(&[]), &Host::new([("HTTPS_PROXY", "http://p:1")]), &[]);
        assert!(proxied.unwrap_err().to_string().contains("proxy in `HTTPS_PROXY`"));
    }
}
