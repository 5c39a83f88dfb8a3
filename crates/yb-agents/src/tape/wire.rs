//! By which variables agents find their model's API, and so how a tape gets between the two.

use yb_claude::hermetic::DUMMY_KEY;

use crate::Host;

/// How one family of APIs is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelApi {
    /// The variable with its address.
    pub variable: &'static str,
    /// Where it is, unless the variable says.
    pub address: &'static str,
    /// What an agent expects at the end of the address.
    pub suffix: &'static str,
    /// The variable with the key.
    pub key: &'static str,
}

static APIS: [ModelApi; 4] = [
    ModelApi {
        variable: "ANTHROPIC_BASE_URL",
        address: "https://api.anthropic.com",
        suffix: "",
        key: "ANTHROPIC_API_KEY",
    },
    ModelApi {
        variable: "OPENAI_BASE_URL",
        address: "https://api.openai.com",
        suffix: "/v1",
        key: "OPENAI_API_KEY",
    },
    ModelApi {
        variable: "GOOGLE_GEMINI_BASE_URL",
        address: "https://generativelanguage.googleapis.com",
        suffix: "",
        key: "GEMINI_API_KEY",
    },
    ModelApi {
        variable: "COPILOT_PROVIDER_BASE_URL",
        address: "https://api.githubcopilot.com",
        suffix: "/v1",
        key: "COPILOT_PROVIDER_API_KEY",
    },
];

/// Every family of APIs.
#[must_use]
pub fn model_apis() -> &'static [ModelApi] {
    &APIS
}

/// Other ways to a model than a key, and what would lead around a tape.
const AROUND: [&str; 9] = [
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CODEX_API_KEY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "https_proxy",
    "http_proxy",
];

/// What an agent of a kind speaks; none if no tape can get between.
fn spoken(kind: &str) -> &'static [ModelApi] {
    match kind {
        "claude-code" => &APIS[..1],
        "codex" | "opencode" => &APIS[1..2],
        "gemini" => &APIS[2..3],
        "copilot-cli" => &APIS[3..],
        "command" => &APIS[..3],
        _ => &[],
    }
}

/// One API as an agent would have found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub(crate) variable: &'static str,
    /// Where requests go on to.
    pub upstream: String,
    /// What stands between the tape's address and the agent's paths.
    suffix: &'static str,
    /// Whether the agent was told the address.
    pub(crate) is_named: bool,
}

impl Base {
    /// Points the agent at a tape.
    pub fn point(&self, host: &mut Host, url: &str) {
        host.env.insert(self.variable.into(), format!("{url}{}", self.suffix).into());
    }
}

/// The APIs that an agent may ask, those first that it was told the address of.
pub fn bases(kind: &str, host: &Host) -> Vec<Base> {
    let mut all: Vec<Base> = spoken(kind)
        .iter()
        .map(|api| {
            let named = host.variable(api.variable).map(|url| url.to_string_lossy().into_owned());
            let is_named = named.is_some();
            let url = named.unwrap_or_else(|| format!("{}{}", api.address, api.suffix));
            let url = url.trim_end_matches('/');
            match url.strip_suffix(api.suffix) {
                Some(root) => {
                    Base { variable: api.variable, upstream: root.to_owned(), suffix: api.suffix, is_named }
                }
                None => Base { variable: api.variable, upstream: url.to_owned(), suffix: "", is_named },
            }
        })
        .collect();
    all.sort_by_key(|base| !base.is_named);
    all
}

/// Takes every credential away and gives a key that is none: whoever answers asks for nothing.
pub fn stand_in(kind: &str, host: &mut Host, url: &str) {
    for name in AROUND {
        host.env.remove(std::ffi::OsStr::new(name));
    }
    for (api, base) in spoken(kind).iter().zip(bases(kind, &Host::default())) {
        base.point(host, url);
        host.env.insert(api.key.into(), DUMMY_KEY.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_stands_where_the_api_was() {
        let host = Host::new([("OPENAI_BASE_URL", "http://gateway:1/x/v1/"), ("ANTHROPIC_AUTH_TOKEN", "t")]);
        let all = bases("command", &host);
        assert_eq!((all[0].variable, all[0].upstream.as_str()), ("OPENAI_BASE_URL", "http://gateway:1/x"));
        assert_eq!(all[1].upstream, "https://api.anthropic.com");
        let mut pointed = host;
        all[0].point(&mut pointed, "http://127.0.0.1:2");
        assert_eq!(pointed.variable("OPENAI_BASE_URL").unwrap(), "http://127.0.0.1:2/v1");
        stand_in("claude-code", &mut pointed, "http://127.0.0.1:3");
        assert_eq!(pointed.variable("ANTHROPIC_BASE_URL").unwrap(), "http://127.0.0.1:3");
        assert_eq!(pointed.variable("ANTHROPIC_AUTH_TOKEN"), None);
        assert_eq!(pointed.variable("ANTHROPIC_API_KEY").unwrap(), DUMMY_KEY);
        let odd = bases("codex", &Host::new([("OPENAI_BASE_URL", "http://h:1/api")]));
        assert_eq!((odd[0].upstream.as_str(), odd[0].suffix), ("http://h:1/api", ""));
        assert!(bases("manual", &Host::default()).is_empty());
    }
}
