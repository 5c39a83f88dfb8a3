//! Case and eval files.

use std::sync::OnceLock;

use yb_agents::Adapters;
use yb_case::LoadOptions;

use super::{Probe, Target, diagnostics, magnitude, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "case",
    about: "case and eval files: parsed or rejected with an error whose position lies in the file",
    seeds: || {
        Seeds::new()
            .files("examples", "case.yaml")?
            .blocks(&["yaml"], |block| !block.contains("cases:"))?
            .blocks(&["json"], |_| true)?
            .schema("case.schema.json")?
            .schema("eval.schema.json")
    },
    check,
};

/// All agents and evaluators; the lists are built once.
pub(super) fn options() -> &'static LoadOptions {
    static OPTIONS: OnceLock<LoadOptions> = OnceLock::new();
    OPTIONS.get_or_init(|| LoadOptions::new(Adapters::builtin().specs(), yb_evaluate::builtin_evaluators()))
}

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let options = options();
    for name in ["case.yaml", "case.json"] {
        let path = probe.path(name);
        let loaded = yb_case::parse(&path, input, options);
        let is_error = loaded.diagnostics.iter().any(yb_yaml::diagnostic::Diagnostic::is_error);
        require(
            loaded.case.is_none() == is_error,
            "a case has no errors, and a rejected one has some",
            || format!("{:?}", loaded.diagnostics),
        )?;
        diagnostics::check(probe, &path, input, &loaded.diagnostics)?;
        probe.saw(&(name, loaded.case.is_some(), loaded.diagnostics.len()));
        if let Some(case) = loaded.case {
            let again = yb_case::parse(&path, input, options).case;
            require(again.as_ref() == Some(&case), "the same bytes are the same case", || {
                format!("{case:?}")
            })?;
            probe.saw(&(case.evaluators.len(), magnitude(case.name.len()), case.agent.kind.as_str()));
        }
    }
    let path = probe.write("eval.yaml", input)?;
    let loaded = yb_case::load_eval(&path, options);
    diagnostics::check(probe, &path, input, &loaded.diagnostics)?;
    probe.saw(&(loaded.eval.is_some(), yb_case::is_eval_file(&path)));
    Ok(())
}
