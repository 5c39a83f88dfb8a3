//! Webhooks: sends the results as one HTTP request. The configuration is checked before the trial, and secrets are
//! redacted in the recorded result.

mod sender;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hooks::{HookResult, MAX_OUTPUT_CHARS};
use super::{Runner, TrialError};
use sender::{SendOutcome, SystemClock, WebhookSender};
use yb_agents::secrets_in_object;
use yb_case::{Case, PostHook, Webhook, environment_names, with_environment};
use yb_model::results::Results;
use yb_net::http::HttpUrl;
use yb_net::policy::SystemResolver;
use yb_net::tls::Roots;
use yb_redact::Secrets;

const USER_AGENT: &str = concat!("youBencha/", env!("CARGO_PKG_VERSION"));
/// Headers that are derived from the request and can't be set.
const RESERVED_HEADERS: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
];
/// Shorter values are not redacted: they would match ordinary words.
const MIN_SECRET_LEN: usize = 4;

/// A webhook request without its body.
struct WebhookRequest {
    url: HttpUrl,
    method: Method,
    headers: HeaderMap,
    /// Values to redact.
    secrets: Vec<(String, String)>,
}

/// Checks the configuration of all webhooks of a case.
pub(super) fn check(case: &Case, env: &BTreeMap<String, String>) -> Result<(), TrialError> {
    for hook in &case.post_evaluation {
        if let PostHook::Webhook(hook) = hook {
            prepare(hook, env)?;
        }
    }
    Ok(())
}

/// Sends the results. A failure is reported and does not change the outcome.
pub(super) async fn send(
    hook: &Webhook,
    artifacts: Option<&Path>,
    runner: &Runner,
    results: &Results,
    secrets: &[(String, Vec<u8>)],
) -> Result<HookResult, TrialError> {
    let mut prepared = prepare(hook, &runner.env)?;
    for (name, value) in secrets {
        prepared.redact(name, &String::from_utf8_lossy(value));
    }
    let mut body = json!({ "results": results });
    // Only what the agent received: the headers and the URL belong to the receiver.
    Secrets::of_safe_length(secrets.iter().cloned()).redact_value(&mut body);
    if let Some(path) = artifacts {
        body["artifacts_path"] = json!(path);
    }
    let sender = WebhookSender {
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

/// Builds the request of a webhook. Errors never contain values, which may be secret.
fn prepare(hook: &Webhook, env: &BTreeMap<String, String>) -> Result<WebhookRequest, TrialError> {
    let fill = |text: &str| {
        with_environment(text, |name| env.get(name).cloned()).map_err(|name| TrialError::NoVariable { name })
    };
    let invalid = |reason: String, hint| TrialError::Webhook { reason, hint };
    let url: HttpUrl = fill(&hook.url)?.parse().map_err(|reason| {
        invalid(
            format!("`url`: {reason}"),
            "write `https://host/path`, and credentials into a header: `Authorization: Bearer ${ENV:NAME}`",
        )
    })?;
    let method = Method::from_bytes(hook.method.as_bytes())
        .map_err(|_| invalid("unknown `method`".to_owned(), "use POST, PUT or PATCH"))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    let mut filled = Map::new();
    for (name, value) in &hook.headers {
        let value = fill(value)?;
        let header = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(|header| !RESERVED_HEADERS.contains(header))
            .ok_or_else(|| invalid(format!("header can't be set: `{name}`"), "leave it out"))?;
        let mut content = HeaderValue::from_str(&value).map_err(|_| {
            invalid(format!("value of the header can't be sent: `{name}`"), "use one line of printable ASCII")
        })?;
        content.set_sensitive(true);
        headers.insert(header, content);
        filled.insert(name.clone(), Value::String(value));
    }
    let mut prepared = WebhookRequest { url, method, headers, secrets: Vec::new() };
    for (name, value) in secrets_in_object(&filled) {
        prepared.redact(&name, &String::from_utf8_lossy(&value));
    }
    // The name of a header does not reveal whether its value is secret.
    for (name, value) in &filled {
        if let Some(value) = value.as_str().filter(|value| value.len() >= 2 * MIN_SECRET_LEN) {
            prepared.redact(name, value);
        }
    }
    // Servers may repeat the path or the query of the URL in their response: `Cannot POST /services/…`.
    if !environment_names(&hook.url).is_empty() {
        for part in [Some(prepared.url.path()), prepared.url.query()]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect::<Vec<_>>()
        {
            prepared.redact("url", &part);
        }
    }
    let texts = hook.headers.iter().map(|(_, value)| value).chain([&hook.url]);
    for name in texts.flat_map(|text| environment_names(text)) {
        if let Some(value) = env.get(name) {
            prepared.redact(name, value);
        }
    }
    Ok(prepared)
}

impl WebhookRequest {
    /// Returns method and origin. Path and query are omitted because they often contain a token.
    fn what(&self) -> String {
        format!("{} {}", self.method, self.url.origin())
    }

    /// Redacts a value in everything that is recorded, unless it is part of the origin.
    fn redact(&mut self, name: &str, value: &str) {
        if value.len() >= MIN_SECRET_LEN && !self.url.origin().contains(value) {
            self.secrets.push((name.to_owned(), value.to_owned()));
        }
    }

    fn redacted(&self, text: &str) -> String {
        Secrets::new(self.secrets.iter().cloned()).redact(text).into_owned()
    }

    fn result(&self, sent: &SendOutcome, began: Instant) -> HookResult {
        let output = self.redacted(String::from_utf8_lossy(&sent.body).trim());
        HookResult {
            moment: "post_evaluation",
            hook: "webhook",
            what: self.what(),
            succeeded: sent.succeeded,
            message: self.redacted(&sent.message),
            output: output.chars().take(MAX_OUTPUT_CHARS).collect(),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            timestamp: Timestamp::now().to_string(),
        }
    }
}
