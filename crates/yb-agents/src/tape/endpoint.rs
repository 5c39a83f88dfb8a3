//! Model endpoints of agents, and how a tape gets between an agent and its model.

use std::ffi::OsStr;

use yb_case::{AgentSpec, AgentSpecs, ModelApi, PROXY_VARIABLES};
use yb_claude::hermetic::DUMMY_KEY;

use crate::Host;

/// A model API at the address where an agent finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The variable with the base URL.
    pub variable: &'static str,
    /// The address that requests are forwarded to, without the suffix.
    pub upstream: String,
    /// The path between the address of a proxy and the paths of the agent.
    suffix: &'static str,
    /// Whether the base URL was set, rather than the default.
    is_configured: bool,
    /// The variable with the API key.
    key: &'static str,
}

/// Variables that select the API of a cloud, which has no base URL to redirect.
const CLOUDS: [&str; 3] = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
/// Variables with certificates that only the agent uses.
const CERTIFICATES: [&str; 5] = [
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CLAUDE_CODE_CLIENT_CERT",
];
/// Lets Claude Code treat the base URL as the API of Anthropic itself: with any other one it leaves out some features.
const ASSUME_FIRST_PARTY: &str = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL";

impl ModelEndpoint {
    /// An API at its configured base URL, or at its default address.
    #[must_use]
    pub fn new(api: &ModelApi, base_url: Option<String>) -> Self {
        let is_configured = base_url.is_some();
        let url = base_url.unwrap_or_else(|| format!("{}{}", api.address, api.suffix));
        let url = url.trim_end_matches('/');
        let (upstream, suffix) = match url.strip_suffix(api.suffix) {
            Some(root) => (root, api.suffix),
            None => (url, ""),
        };
        Self { variable: api.variable, upstream: upstream.to_owned(), suffix, is_configured, key: api.key }
    }

    /// The endpoints of an agent, those with a configured base URL first. Empty if no proxy can get between.
    #[must_use]
    pub fn of_agent(agent: &AgentSpec, host: &Host) -> Vec<Self> {
        let configured =
            |api: &ModelApi| host.variable(api.variable).map(|url| url.to_string_lossy().into_owned());
        let mut all: Vec<Self> = agent.apis.iter().map(|api| Self::new(api, configured(api))).collect();
        all.sort_by_key(|endpoint| !endpoint.is_configured);
        all
    }

    /// The endpoint whose traffic a proxy can observe without changing how the agent works.
    ///
    /// # Errors
    /// Returns the reason if there is none.
    pub fn observable(agent: &AgentSpec, host: &Host) -> Result<Self, &'static str> {
        let is_set = |name: &&str| host.variable(name).is_some();
        if CLOUDS.iter().any(is_set) {
            return Err("the API of a cloud");
        }
        let mut all = Self::of_agent(agent, host);
        let own_key = all.len() == 1 && agent.credentials.variables.iter().any(is_set);
        all.retain(|one| one.is_configured || own_key || is_set(&one.key));
        let endpoint = match (all.pop(), all.is_empty()) {
            (None, _) => return Err("the agent has no API key in a variable"),
            (Some(endpoint), true) => endpoint,
            (Some(_), false) => return Err("the agent has several model APIs"),
        };
        let is_remote = endpoint.upstream.starts_with("https:");
        if PROXY_VARIABLES.iter().any(is_set) {
            return Err("an HTTP proxy is set");
        }
        if is_remote && CERTIFICATES.iter().any(is_set) {
            return Err("the agent has its own certificates");
        }
        Ok(endpoint)
    }

    /// The values of the variables with credentials for this endpoint.
    #[must_use]
    pub fn credentials(&self, agent: &AgentSpec, host: &Host) -> Vec<String> {
        let names = std::iter::once(&self.key).chain(agent.credentials.variables);
        let values = names.filter_map(|name| Some(host.variable(name)?.to_string_lossy().into_owned()));
        values.collect()
    }

    /// Points the agent at a proxy that only observes: the agent works as with the API itself.
    pub fn observe(&self, host: &mut Host, proxy: &str) {
        self.redirect(host, proxy);
        if self.variable == ModelApi::ANTHROPIC.variable && !self.is_configured {
            host.env.entry(ASSUME_FIRST_PARTY.into()).or_insert_with(|| "1".into());
        }
    }

    /// The base URL for the agent that leads to a proxy.
    #[must_use]
    pub fn base_url(&self, proxy: &str) -> String {
        format!("{proxy}{}", self.suffix)
    }

    /// Points the agent at a proxy.
    pub fn redirect(&self, host: &mut Host, proxy: &str) {
        host.env.insert(self.variable.into(), self.base_url(proxy).into());
    }
}

/// Points every API of an agent at a mock, removes all credentials, and sets a key that is valid nowhere else.
pub fn redirect_to_mock(agent: &AgentSpec, agents: &AgentSpecs, host: &mut Host, mock: &str) {
    for name in agents.bypass_variables() {
        host.env.remove(OsStr::new(name));
    }
    for api in agent.apis {
        ModelEndpoint::new(api, None).redirect(host, mock);
        host.env.insert(api.key.into(), DUMMY_KEY.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter as _, Adapters, ClaudeCode, Codex, Command};

    #[test]
    fn observable_endpoint_is_the_one_with_credentials() {
        let of = |agent: &AgentSpec, env: &[(&str, &str)]| {
            ModelEndpoint::observable(agent, &Host::new(env.iter().copied())).map(|one| one.variable)
        };
        let claude = ClaudeCode.spec();
        assert_eq!(of(claude, &[("ANTHROPIC_API_KEY", "k")]), Ok("ANTHROPIC_BASE_URL"));
        assert_eq!(of(claude, &[("ANTHROPIC_AUTH_TOKEN", "k")]), Ok("ANTHROPIC_BASE_URL"));
        assert_eq!(of(claude, &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")]), Ok("ANTHROPIC_BASE_URL"));
        for env in [
            &[][..],
            &[("ANTHROPIC_API_KEY", "k"), ("CLAUDE_CODE_USE_BEDROCK", "1")],
            &[("ANTHROPIC_API_KEY", "k"), ("HTTPS_PROXY", "http://p:1")],
            &[("ANTHROPIC_API_KEY", "k"), ("NODE_EXTRA_CA_CERTS", "/c")],
        ] {
            assert!(of(claude, env).is_err(), "{env:?}");
        }
        assert_eq!(of(Command.spec(), &[("OPENAI_API_KEY", "k")]), Ok("OPENAI_BASE_URL"));
        assert!(of(Command.spec(), &[]).is_err());
        assert!(of(Command.spec(), &[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]).is_err());
        let mut host = Host::new([("ANTHROPIC_API_KEY", "k")]);
        let endpoint = ModelEndpoint::observable(claude, &host).unwrap();
        assert_eq!(endpoint.credentials(claude, &host), ["k", "k"]);
        endpoint.observe(&mut host, "http://127.0.0.1:2");
        assert_eq!(host.variable("ANTHROPIC_BASE_URL").unwrap(), "http://127.0.0.1:2");
        assert_eq!(host.variable(ASSUME_FIRST_PARTY).unwrap(), "1");
        let mut gateway = Host::new([("ANTHROPIC_BASE_URL", "http://gateway:1")]);
        ModelEndpoint::observable(claude, &gateway).unwrap().observe(&mut gateway, "http://127.0.0.1:2");
        assert_eq!(gateway.variable(ASSUME_FIRST_PARTY), None);
    }

    #[test]
    fn endpoints_follow_the_host_and_are_redirected() {
        let host = Host::new([("OPENAI_BASE_URL", "http://gateway:1/x/v1/"), ("ANTHROPIC_AUTH_TOKEN", "t")]);
        let all = ModelEndpoint::of_agent(Command.spec(), &host);
        assert_eq!((all[0].variable, all[0].upstream.as_str()), ("OPENAI_BASE_URL", "http://gateway:1/x"));
        assert_eq!(all[1].upstream, "https://api.anthropic.com");
        let mut pointed = host;
        all[0].redirect(&mut pointed, "http://127.0.0.1:2");
        assert_eq!(pointed.variable("OPENAI_BASE_URL").unwrap(), "http://127.0.0.1:2/v1");
        let specs = Adapters::builtin().specs();
        redirect_to_mock(ClaudeCode.spec(), &specs, &mut pointed, "http://127.0.0.1:3");
        assert_eq!(pointed.variable("ANTHROPIC_BASE_URL").unwrap(), "http://127.0.0.1:3");
        assert_eq!(pointed.variable("ANTHROPIC_AUTH_TOKEN"), None);
        assert_eq!(pointed.variable("ANTHROPIC_API_KEY").unwrap(), DUMMY_KEY);
        let odd = ModelEndpoint::of_agent(Codex.spec(), &Host::new([("OPENAI_BASE_URL", "http://h:1/api")]));
        assert_eq!((odd[0].upstream.as_str(), odd[0].suffix), ("http://h:1/api", ""));
    }
}
