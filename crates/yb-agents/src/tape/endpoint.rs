//! Model endpoints of agents, and how a tape gets between an agent and its model.

use std::ffi::OsStr;

use yb_case::{AgentSpec, AgentSpecs, ModelApi};
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
}

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
        Self { variable: api.variable, upstream: upstream.to_owned(), suffix, is_configured }
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
