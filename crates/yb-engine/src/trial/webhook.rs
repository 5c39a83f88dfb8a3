//! Webhooks: the results as one request. What the case says about it is checked before the trial; what is kept of it
//! afterwards has no secret in it.

mod attempts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hooks::{HookResult, SHOWN};
use super::{Runner, TrialError};
use attempts::{Sender, Sent, SystemClock};
use yb_agents::secrets_in_object;
use yb_case::{Case, PostHook, Webhook, environment_names, with_environment};
use yb_model::results::Results;
use yb_net::http::HttpUrl;
use yb_net::policy::SystemResolver;
use yb_net::tls::Roots;

const USER_AGENT: &str = concat!("youBencha/", env!("CARGO_PKG_VERSION"));
/// Headers that follow from the request itself; another value would be another request.
const OURS: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
];
/// Shorter values can't be told from ordinary words.
const SHORTEST: usize = 4;

/// A request that is ready but for its body.
struct Prepared {
    url: HttpUrl,
    method: Method,
    headers: HeaderMap,
    /// What must not be kept, the longest first.
    secrets: Vec<(String, String)>,
}

/// Whether every webhook of a case can be sent as far as that is known before the trial.
pub(super) fn check(case: &Case, env: &BTreeMap<String, String>) -> Result<(), TrialError> {
    for hook in &case.post_evaluation {
        if let PostHook::Webhook(hook) = hook {
            prepare(hook, env)?;
        }
    }
    Ok(())
}

/// Sends the results. Whatever happens is told, and changes nothing.
pub(super) async fn send(
    hook: &Webhook,
    artifacts: Option<&Path>,
    runner: &Runner,
    results: &Results,
    secrets: &[(String, Vec<u8>)],
) -> Result<HookResult, TrialError> {
    let mut prepared = prepare(hook, &runner.env)?;
    for (name, value) in secrets {
        prepared.hide(name, &String::from_utf8_lossy(value));
    }
    let mut body = json!({ "results": results });
    if let Some(path) = artifacts {
        body["artifacts_path"] = json!(path);
    }
    let sender = Sender {
        hosts: runner.hosts,
        resolver: &SystemResolver,
        roots: Roots::from_env(|name| runner.env.get(name).cloned()),
        clock: &SystemClock,
        cancellation: runner.stop.token().clone(),
    };
    let began = Instant::now();
    let sent = sender.send(&prepared, hook, body.to_string()).await;
    Ok(prepared.result(&sent, began))
}

/// The request that a case asks for. No message repeats a value: any may hold a secret.
fn prepare(hook: &Webhook, env: &BTreeMap<String, String>) -> Result<Prepared, TrialError> {
    let fill = |text: &str| {
        with_environment(text, |name| env.get(name).cloned()).map_err(|name| TrialError::NoVariable { name })
    };
    let wrong = |reason: String, hint| TrialError::Webhook { reason, hint };
    let url: HttpUrl = fill(&hook.url)?.parse().map_err(|reason| {
        wrong(
            format!("`url`: {reason}"),
            "write `https://host/path`, and credentials into a header: `Authorization: Bearer ${ENV:NAME}`",
        )
    })?;
    let method = Method::from_bytes(hook.method.as_bytes())
        .map_err(|_| wrong("`method` is none".to_owned(), "use POST, PUT or PATCH"))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    let mut filled = Map::new();
    for (name, value) in &hook.headers {
        let value = fill(value)?;
        let header = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(|header| !OURS.contains(header))
            .ok_or_else(|| wrong(format!("header can't be set: `{name}`"), "leave it out"))?;
        let mut content = HeaderValue::from_str(&value).map_err(|_| {
            wrong(format!("value of the header can't be sent: `{name}`"), "use one line of printable ASCII")
        })?;
        content.set_sensitive(true);
        headers.insert(header, content);
        filled.insert(name.clone(), Value::String(value));
    }
    let mut prepared = Prepared { url, method, headers, secrets: Vec::new() };
    for (name, value) in secrets_in_object(&filled) {
        prepared.hide(&name, &String::from_utf8_lossy(&value));
    }
    // A service may call its key what it likes.
    for (name, value) in &filled {
        if let Some(value) = value.as_str().filter(|value| value.len() >= 2 * SHORTEST) {
            prepared.hide(name, value);
        }
    }
    // Of an address that comes from the environment a server repeats the path alone: `Cannot POST /services/…`.
    if !environment_names(&hook.url).is_empty() {
        for part in [Some(prepared.url.path()), prepared.url.query()]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect::<Vec<_>>()
        {
            prepared.hide("url", &part);
        }
    }
    let texts = hook.headers.iter().map(|(_, value)| value).chain([&hook.url]);
    for name in texts.flat_map(|text| environment_names(text)) {
        if let Some(value) = env.get(name) {
            prepared.hide(name, value);
        }
    }
    Ok(prepared)
}

impl Prepared {
    /// Where it goes, without path and query: many services have their token there.
    fn what(&self) -> String {
        format!("{} {}", self.method, self.url.origin())
    }

    /// Keeps a value out of all that is kept; but for the host, which every message names.
    fn hide(&mut self, name: &str, value: &str) {
        if value.len() >= SHORTEST && !self.url.origin().contains(value) {
            self.secrets.push((name.to_owned(), value.to_owned()));
            self.secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        }
    }

    fn without_secrets(&self, text: &str) -> String {
        let replace = |text: String, (name, value): &(String, String)| {
            text.replace(value.as_str(), &format!("[REDACTED:{name}]"))
        };
        self.secrets.iter().fold(text.to_owned(), replace)
    }

    fn result(&self, sent: &Sent, began: Instant) -> HookResult {
        let output = self.without_secrets(String::from_utf8_lossy(&sent.body).trim());
        HookResult {
            moment: "post_evaluation",
            hook: "webhook",
            what: self.what(),
            succeeded: sent.succeeded,
            message: self.without_secrets(&sent.message),
            output: output.chars().take(SHOWN).collect(),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            timestamp: Timestamp::now().to_string(),
        }
    }
}
