//! A CLI that is started before its session is known.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Client, Error, Host};
use crate::PermissionMode;

/// A running CLI that waits for its session. It has loaded everything that does not depend on the working directory.
///
/// ```no_run
/// use yb_claude::Options;
/// use yb_claude::sdk::{Claim, Host};
///
/// # async fn example() -> Result<(), yb_claude::sdk::Error> {
/// let spare = Host::new(Options::default()).prewarm().await?;
/// let client = spare.claim(Claim::new("/path/to/project").with_model("sonnet")).await?;
/// println!("{}", client.turn("What is in this directory?").text().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Spare {
    client: Client,
    servers: Vec<String>,
    /// The working directory until the claim.
    _parking: tempfile::TempDir,
}

/// The session of a [`Spare`]. Other options are fixed when the CLI is started.
#[derive(Debug, Clone)]
#[must_use]
pub struct Claim {
    fields: Map<String, Value>,
    model: Option<String>,
}

impl Claim {
    /// Creates a claim for a session with this working directory.
    pub fn new(cwd: impl AsRef<Path>) -> Self {
        let mut fields = Map::new();
        fields.insert("cwd".to_owned(), json!(cwd.as_ref().to_string_lossy()));
        Self { fields, model: None }
    }

    /// Sets the model.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the permission mode.
    pub fn with_permission_mode(self, mode: PermissionMode) -> Self {
        self.with_field("permission_mode", mode.as_str())
    }

    /// Sets the text that is appended to the system prompt.
    pub fn with_append_system_prompt(self, text: impl Into<String>) -> Self {
        self.with_field("append_system_prompt", text.into())
    }

    /// Sets the title.
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.with_field("title", title.into())
    }

    /// Sets a field of the `claim_session` request, under the CLI's name.
    pub fn with_field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

impl Spare {
    /// Starts the CLI in an empty directory; the working directory of the options is not used.
    pub(super) async fn start(host: &Host) -> Result<Self, Error> {
        let parking = tempfile::TempDir::with_prefix("yb-spare-").map_err(Error::spawn)?;
        let mut host = host.clone();
        host.options = host.options.with_cwd(parking.path()).with_extra_flag("await-claim");
        let client = Client::connect(&host).await?;
        let servers = host.handlers.servers.keys().cloned().collect();
        Ok(Self { client, servers, _parking: parking })
    }

    /// Starts the session.
    ///
    /// # Errors
    /// [`Error::Control`] if the CLI can't take the claim, for example because the directory's settings select an agent. The
    /// session has to be started with [`Client::connect`] then.
    pub async fn claim(self, claim: Claim) -> Result<Client, Error> {
        let mut body = claim.fields;
        body.insert("subtype".to_owned(), json!("claim_session"));
        body.insert("sdk_mcp_servers".to_owned(), json!(self.servers));
        self.client.control(Value::Object(body)).await?;
        if let Some(model) = &claim.model {
            self.client.set_model(Some(model)).await?;
        }
        Ok(self.client)
    }
}
