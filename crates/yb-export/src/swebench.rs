//! Predictions of SWE-bench: the patch of each trial, one line each. The case has the name of the instance.

use serde_json::json;
use yb_report::Run;

use crate::record::TrialRecord;
use crate::{ExportError, Output, file_name};

/// Writes a file per variant and repeat: a file of predictions has one line per instance.
pub(crate) fn export(run: &Run, output: &mut Output<'_, '_>) -> Result<(), ExportError> {
    let mut files: Vec<(String, String)> = Vec::new();
    for trial in &run.trials {
        let record = TrialRecord::read(run, trial)?;
        let Some(patch) = record.as_ref().map(TrialRecord::patch).transpose()?.flatten() else {
            output.summary.skipped.push(format!("{}: {}", trial.name, trial.outcome.name));
            continue;
        };
        let model = trial.model.as_deref().unwrap_or("unknown");
        let name = format!("{}__{}__{model}", trial.variant, trial.agent);
        let line = json!({ "instance_id": trial.case, "model_name_or_path": name, "model_patch": patch });
        let file = format!("{}-{}.jsonl", file_name(&trial.variant), trial.repeat);
        match files.iter_mut().find(|(known, _)| *known == file) {
            Some((_, text)) => text.push_str(&format!("{line}\n")),
            None => files.push((file, format!("{line}\n"))),
        }
        output.summary.trials += 1;
    }
    for (file, text) in files {
        output.write(&file, text.as_bytes())?;
    }
    Ok(())
}
