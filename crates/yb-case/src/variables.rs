//! Expands `${NAME}` in values from the configured variables. Environment variables need an explicit `${ENV:NAME}`.

use std::collections::BTreeMap;

use super::check::join;
use yb_yaml::diagnostic::{Diagnostics, quoted};
use yb_yaml::{MAX_EXPANDED_BYTES, Node, Span, Value};

/// Variables that are expanded when a hook runs.
const HOOK_VARIABLES: &[&str] = &[
    "WORKSPACE_DIR",
    "REPO_DIR",
    "ARTIFACTS_DIR",
    "TEST_CASE_NAME",
    "REPO_URL",
    "BRANCH",
    "RESULTS_PATH",
    "OVERALL_STATUS",
    "YB_CASE_DIR",
];
const ENV: &str = "ENV:";

/// Expands the variables in all strings below a node; keys are not expanded.
pub(crate) fn substitute(node: &mut Node, variables: &BTreeMap<String, String>, found: &mut Diagnostics<'_>) {
    let mut work = Substitution { variables, found, bytes: 0 };
    work.node(node, "");
}

struct Substitution<'v, 'f, 's> {
    variables: &'v BTreeMap<String, String>,
    found: &'f mut Diagnostics<'s>,
    bytes: usize,
}

impl Substitution<'_, '_, '_> {
    fn node(&mut self, node: &mut Node, path: &str) {
        let span = node.span;
        match &mut node.value {
            Value::Text(text) if text.contains("${") => *text = self.text(text, span, path),
            Value::List(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.node(item, &join(path, &format!("[{at}]")));
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let path = join(path, &entry.key.name);
                    self.node(&mut entry.node, &path);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str, span: Span, path: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            out.push_str(before);
            let Some(end) = reference.find('}') else {
                rest = reference;
                break;
            };
            let (whole, after) = reference.split_at(end + 1);
            let name = &whole[2..end];
            match self.variables.get(name) {
                Some(value) => {
                    self.bytes = self.bytes.saturating_add(value.len());
                    if self.bytes > MAX_EXPANDED_BYTES {
                        self.found
                            .error(span, path, "the file is too large after variable expansion")
                            .expected(format!("at most {MAX_EXPANDED_BYTES} bytes"));
                        return String::new();
                    }
                    out.push_str(value);
                }
                None => {
                    self.unknown(name, span, path);
                    out.push_str(whole);
                }
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }

    fn unknown(&mut self, name: &str, span: Span, path: &str) {
        if let Some(name) = name.strip_prefix(ENV) {
            if !takes_environment(path) {
                let reference = quoted(&format!("${{ENV:{name}}}"));
                self.found
                    .warning(span, path, format!("environment variables are not expanded here: {reference}"))
                    .hint(
                        "use `${ENV:…}` under `env` or `mcp_servers`, or in hooks; here it is not replaced",
                    );
            }
            return;
        }
        let hook = is_hook(path) && HOOK_VARIABLES.contains(&name);
        if hook || !is_name(name) {
            return;
        }
        let found = self.found.warning(span, path, format!("unknown variable: {}", quoted(name)));
        let known = self.variables.keys().map(String::as_str);
        if found.did_you_mean(name, known).hint.is_none() {
            found.hint("define it under `variables` in `.youbencharc`; it is not replaced");
        }
    }
}

/// Returns the key path within a case or variant, without the path of the case in a suite.
fn local(path: &str) -> &str {
    if let Some(level) = path.strip_prefix("factors.") {
        return level.splitn(3, '.').nth(2).unwrap_or_default();
    }
    let inside = ["cases[", "variants["].iter().any(|list| path.starts_with(list));
    path.split_once("].").filter(|_| inside).map_or(path, |(_, rest)| rest)
}

fn is_hook(path: &str) -> bool {
    let path = local(path);
    path.starts_with("pre_execution[") || path.starts_with("post_evaluation[")
}

fn takes_environment(path: &str) -> bool {
    let variable = ["env.", "environment."].iter().any(|key| local(path).starts_with(key));
    let graded = local(path).starts_with("evaluators[") && path.contains(".config.env.")
        || local(path).starts_with("prepare[");
    is_hook(path) || variable || graded || path.contains(".mcp_servers.")
}

fn is_name(text: &str) -> bool {
    super::format::Format::EnvName.accepts(text)
}

/// Returns the names of all `${ENV:NAME}` in a string.
#[must_use]
pub fn environment_names(text: &str) -> Vec<&str> {
    text.split("${ENV:")
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .filter(|name| is_name(name))
        .collect()
}

/// Expands each `${ENV:NAME}` in a string.
///
/// # Errors
/// Returns the name of the first unset variable.
pub fn with_environment(text: &str, get: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${ENV:") {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if is_name(name) => {
                out.push_str(&get(name).ok_or_else(|| name.to_owned())?);
                rest = tail;
            }
            _ => {
                out.push_str("${ENV:");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{environment_names, with_environment};

    #[test]
    fn with_environment_expands_references_once() {
        let get = |name: &str| (name == "A").then(|| "${ENV:B}".to_owned());
        assert_eq!(environment_names("${ENV:A} ${B} ${ENV:C}"), ["A", "C"]);
        assert_eq!(with_environment("x ${ENV:A} y", get), Ok("x ${ENV:B} y".into()), "not recursive");
        assert_eq!(with_environment("${ENV:NOT}", get), Err("NOT".into()));
    }
}
