//! The plugins, skills and instructions of a trial: copies them to a directory that the agent can only read, and combines the
//! evidence about them.

use std::fs;
use std::io;
use std::path::Path;

use super::{TrialError, overlay};
use yb_agents::{AddOnDir, AgentConfig, ErrorCode, ExecutionResult};
use yb_case::{AddOn, AgentSpec, Case};
use yb_model::log::ErrorRecord;
use yb_model::outcome::Outcome;
use yb_model::{AddOnKind, WiringStatus};
use yb_tape::RequestTexts;

pub(super) const PLUGINS: &str = "plugins";
pub(super) const SKILLS: &str = "skills";

/// Returns the directories of add-ons below `root`.
pub(super) fn directories(root: &Path, kind: &str, add_ons: &[AddOn]) -> Vec<AddOnDir> {
    let directory = |add_on: &AddOn| AddOnDir {
        name: add_on.name.clone(),
        path: root.join(kind).join(&add_on.name),
        digest: add_on.digest.clone(),
    };
    add_ons.iter().map(directory).collect()
}

/// Copies the add-ons of a case to `root`, with the content that the plan names.
pub(super) fn copy(case: &Case, root: &Path) -> Result<(), TrialError> {
    let config = &case.agent.config;
    for (kind, add_ons) in [(PLUGINS, &config.plugins), (SKILLS, &config.skills)] {
        for add_on in add_ons {
            let directory = root.join(kind).join(&add_on.name);
            let failed = |path: &str, source: io::Error| TrialError::Overlay {
                what: "copy",
                path: format!("{}/{path}", add_on.name),
                source,
            };
            fs::create_dir_all(&directory).map_err(|error| failed("", error))?;
            for file in &add_on.files {
                overlay::write(&directory, file).map_err(|error| failed(&file.target, error))?;
            }
        }
    }
    Ok(())
}

/// Returns the texts that are looked for in model requests.
pub(super) fn texts(config: &AgentConfig) -> RequestTexts {
    RequestTexts::new(config.instructions.iter().filter_map(|file| file.line.clone()))
}

/// Adds the evidence of model requests to that of the agent. Instructions that are in no request make the trial miswired: an agent
/// sends its first request before it can change anything.
pub(super) fn check(
    agent: &AgentSpec,
    config: &AgentConfig,
    executed: &mut ExecutionResult,
    seen: Option<&RequestTexts>,
) {
    for add_on in executed.add_ons.iter_mut().filter(|one| one.kind == AddOnKind::Instructions) {
        let line = config.instructions.as_ref().and_then(|file| file.line.as_deref());
        let (status, reason) = match (seen, line) {
            (_, None) => (WiringStatus::Unproven, Some("no line identifies the file")),
            (None, _) => (WiringStatus::Unproven, Some("the model requests were not observed")),
            (Some(seen), Some(line)) if seen.contained(line) => (WiringStatus::Proven, None),
            (Some(seen), _) if seen.requests() == 0 => {
                (WiringStatus::Unproven, Some("there was no model request"))
            }
            _ => (WiringStatus::Missing, Some("no model request contains its text")),
        };
        add_on.status = status;
        add_on.reason = reason.map(str::to_owned);
        add_on.uses = (status != WiringStatus::Unproven).then_some(u64::from(status == WiringStatus::Proven));
    }
    for add_on in executed.add_ons.iter_mut().filter(|one| one.status == WiringStatus::Unproven) {
        add_on.reason.get_or_insert_with(|| "neither the agent nor its model requests show it".to_owned());
    }
    let missing = executed
        .add_ons
        .iter()
        .find(|one| one.kind == AddOnKind::Instructions && one.status == WiringStatus::Missing);
    let decided = matches!(
        executed.outcome,
        Some(
            Outcome::Infra
                | Outcome::RateLimited
                | Outcome::Unauthenticated
                | Outcome::Diverged
                | Outcome::Cancelled
                | Outcome::Miswired
        )
    );
    if let Some(add_on) = missing.filter(|_| !decided) {
        let reason = add_on.reason.as_deref().unwrap_or_default();
        let record = ErrorRecord {
            message: format!("miswired: {} was not loaded: {reason}", add_on.label()),
            timestamp: executed.completed_at.clone(),
            code: Some(ErrorCode::Miswired.for_agent(agent)),
            stack_trace: None,
            context: std::collections::BTreeMap::new(),
        };
        executed.errors.insert(0, record);
        executed.outcome = Some(Outcome::Miswired);
    }
}
