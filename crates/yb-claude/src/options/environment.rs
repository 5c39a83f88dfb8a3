//! The environment that results from options: variables to set, variables to remove, and secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use super::{Options, Secret};
use crate::env_vars as vars;

/// A change of one environment variable.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvChange {
    /// Set to this value.
    Set(OsString),
    /// Removed.
    Remove,
}

/// Hides the value, which may be a secret.
impl fmt::Debug for EnvChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Set(_) => "Set(…)",
            Self::Remove => "Remove",
        })
    }
}

/// The default entry point: what the CLI itself uses for `-p`.
///
/// Measured on 2.1.325: names other than `sdk-cli`, `sdk-py` and `sdk-ts` add the agent `claude-code-guide` to what the
/// model is offered (1,073 characters). The name of this crate is in [`CLIENT_APP`].
const ENTRYPOINT: &str = "sdk-cli";
/// The default application in the `User-Agent` of model requests.
const CLIENT_APP: &str = concat!("yb-claude/", env!("CARGO_PKG_VERSION"));

/// Last words of the names of secret variables.
const SECRET_WORDS: [&str; 9] =
    ["KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "HEADERS", "AUTH"];

/// Whether the name of a variable suggests a secret value.
fn is_secret_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    name.rsplit(['_', '-']).next().is_some_and(|word| SECRET_WORDS.contains(&word))
}

impl Options {
    /// Returns all changes, sorted by name; changes from the caller take precedence.
    pub(crate) fn environment(&self) -> BTreeMap<OsString, EnvChange> {
        let mut env = EnvChanges::default();
        env.remove(vars::CLAUDECODE);
        // Both affect the CLI's JavaScript runtime.
        env.remove("NODE_OPTIONS");
        env.remove("DEBUG");
        if !self.telemetry_export {
            vars::TELEMETRY_EXPORT.iter().for_each(|name| env.remove(name));
        }
        env.set(vars::CLAUDE_CODE_ENTRYPOINT, self.entrypoint.as_deref().unwrap_or(ENTRYPOINT));
        // Inherited values describe an outer session.
        env.remove(vars::CLAUDE_AGENT_SDK_VERSION);
        env.remove(vars::CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP);
        let client_app = self.client_app.as_deref().unwrap_or(CLIENT_APP);
        env.set_or_remove(
            vars::CLAUDE_AGENT_SDK_CLIENT_APP,
            Some(client_app).filter(|client_app| !client_app.is_empty()),
        );
        env.set_or_remove(vars::TRACEPARENT, self.trace_parent.as_deref());
        env.set_or_remove(vars::TRACESTATE, self.trace_state.as_deref());
        env.set_or_remove(
            vars::CLAUDE_CODE_DISABLE_BACKGROUND_TASKS,
            (!self.background_tasks).then_some("1"),
        );
        if let Some(cwd) = &self.cwd {
            env.set(vars::PWD, cwd);
        }
        if self.sandboxed {
            env.set(vars::IS_SANDBOX, "1");
        }
        if self.file_checkpointing {
            env.set(vars::CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING, "true");
        }
        if let Some(tokens) = self.max_output_tokens {
            env.set(vars::CLAUDE_CODE_MAX_OUTPUT_TOKENS, tokens.to_string());
        }
        if let Some(retries) = self.max_retries {
            env.set(vars::CLAUDE_CODE_MAX_RETRIES, retries.to_string());
        }
        if let Some(timeout) = self.api_timeout {
            env.set(vars::API_TIMEOUT_MS, timeout.as_millis().to_string());
        }
        for (name, secret) in self.named_secrets() {
            env.set(name, secret.expose());
        }
        let mut env = env.0;
        env.extend(self.env.clone());
        env
    }

    /// Returns the secrets, which must be redacted from logs and recordings.
    pub(crate) fn secrets(&self) -> Vec<(String, Vec<u8>)> {
        let mut secrets: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, change) in self.environment() {
            let EnvChange::Set(value) = change else { continue };
            let is_url = name == vars::ANTHROPIC_BASE_URL;
            // A URL without credentials is not a secret, and is useful in a log.
            let is_secret = is_secret_name(&name) || is_url && value.to_string_lossy().contains('@');
            if is_secret && !value.is_empty() {
                secrets.push((name.to_string_lossy().into_owned(), value.into_encoded_bytes()));
            }
        }
        secrets
    }

    fn named_secrets(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        let named = [
            (vars::ANTHROPIC_API_KEY, &self.api_key),
            (vars::ANTHROPIC_AUTH_TOKEN, &self.auth_token),
            (vars::CLAUDE_CODE_OAUTH_TOKEN, &self.oauth_token),
            (vars::ANTHROPIC_BASE_URL, &self.base_url),
        ];
        named.into_iter().filter_map(|(name, secret)| Some((name, secret.as_ref()?)))
    }
}

#[derive(Default)]
struct EnvChanges(BTreeMap<OsString, EnvChange>);

impl EnvChanges {
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.insert(name.into(), EnvChange::Set(value.into()));
    }

    fn remove(&mut self, name: &str) {
        self.0.insert(name.into(), EnvChange::Remove);
    }

    fn set_or_remove(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.set(name, value),
            None => self.remove(name),
        }
    }
}
