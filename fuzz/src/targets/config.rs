//! Configuration files, and edits of them.

use serde_json::json;
use yb_case::config::{self, Settings, edit};

use super::{Probe, Target, diagnostics, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "config",
    about: "configuration files: read, and edited without changing any other key",
    seeds: || {
        let known: String = config::known_keys().iter().map(|known| format!("# {known:?}\n")).collect();
        Seeds::new()
            .text("workspace_dir: .w\ntimeout_ms: 1000\nagent:\n  model: sonnet # why\n  timeout_ms: 5\nvariables: { A: b }\n")
            .text("{\"keep_workspace\": false, \"limits\": {\"memory\": 1}, \"otel\": {\"content\": true}}")
            .text("isolation: bubblewrap\nnetwork: none\nlog_level: debug\nevaluators: {max_concurrent: 2}\n")
            .text(known)
            .blocks(&["yaml"], |_| true)
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    for name in [".youbencharc", ".youbencharc.json"] {
        let path = probe.write(name, input)?;
        let (values, found) = config::read_file(&path);
        diagnostics::check(probe, &path, input, &found)?;
        let (settings, _) = Settings::from_files(None, &probe.path(""));
        let _ = (
            settings.timeouts(),
            settings.limits(),
            settings.variables(),
            settings.isolation(),
            settings.network(),
        );
        for key in values.keys() {
            probe.saw(&(name, key.split('.').next()));
        }
        if let Ok(text) = std::str::from_utf8(input) {
            for key in ["agent.model", "log_level", "variables.NEW", "timeout_ms"] {
                let value = if key == "timeout_ms" { json!(7) } else { json!("x: #y\n") };
                if let Ok(edited) = edit::set(&path, text, key, &value) {
                    probe.write(name, edited.as_bytes())?;
                    // A file in an unusual style may be editable once only.
                    let again = edit::set(&path, &edited, key, &value).unwrap_or_else(|_| edited.clone());
                    require(again == edited, "setting a key twice changes nothing more", || {
                        format!("{key} in {edited:?}")
                    })?;
                    let removed = edit::unset(&path, &edited, key);
                    require(!matches!(removed, Ok(None)), "a key that was set can be removed", || {
                        format!("{key} in {edited:?}")
                    })?;
                    probe.saw(&(name, key, removed.is_ok()));
                }
            }
            for known in text.lines().take(8) {
                if let Some((key, value)) = known.split_once(':') {
                    let _ = (config::check_key(key), config::value_from_text(key, value.trim()));
                }
            }
        }
        probe.remove(name);
    }
    Ok(())
}
