//! The descriptions of agents: complete, consistent, and the only place where an agent is named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use yb_agents::Adapters;
use yb_case::agent_spec::settings;
use yb_case::shape::Kind;
use yb_case::{AgentSpec, ConfigKeys};

#[test]
fn every_spec_is_consistent() {
    let specs = Adapters::builtin().specs();
    let known: BTreeSet<&str> = settings().chain(["agent"]).collect();
    let mut objects = BTreeSet::new();
    for spec in specs.iter() {
        let name = spec.name;
        assert_eq!(spec.section.name, name, "the section is called like the agent");
        assert_eq!(spec.adapter_version.split('.').count(), 3, "{name}");
        assert!(!spec.summary.is_empty() && !spec.summary.ends_with('.'), "{name}");
        if let ConfigKeys::Only(keys) = spec.config_keys {
            assert!(keys.iter().all(|key| known.contains(key)), "{name}: {keys:?}");
        }
        if let Kind::Object(object) = spec.section.kind {
            // Two agents may share one object, but two objects may not share one name.
            objects.insert((object.name, std::ptr::from_ref(object) as usize));
        }
        if spec.npm().is_some() {
            let reaches = spec.host_variables();
            let needed = spec.apis.iter().flat_map(|api| [api.variable, api.key]);
            for variable in needed.chain(spec.credentials.variables.iter().copied()) {
                assert!(reaches.contains(&variable), "{name}: `{variable}` does not reach the agent");
            }
        }
    }
    let names: BTreeSet<&str> = objects.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), objects.len(), "{objects:?}");
    assert_eq!(specs.names().collect::<BTreeSet<_>>().len(), specs.iter().count());
}

/// The columns of the page that are generated from the descriptions.
fn table() -> String {
    let mut lines = vec![
        "| `agent.type` | agent | program | path in | credentials | model API | package |".to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(Adapters::builtin().specs().iter().map(row));
    lines.join("\n") + "\n"
}

fn row(spec: &AgentSpec) -> String {
    let code = |text: &str| format!("`{text}`");
    let or_dash = |texts: Vec<String>| if texts.is_empty() { "–".to_owned() } else { texts.join(", ") };
    let (program, path, package) = match spec.npm() {
        Some(npm) => {
            (code(npm.bin), code(npm.path_variable), format!("`{}`, about {} MB", npm.package, npm.megabytes))
        }
        None => ("named by the case".to_owned(), "–".to_owned(), "–".to_owned()),
    };
    let login = spec.credentials.login.map(code);
    let credentials = login.into_iter().chain(spec.credentials.variables.iter().map(|name| code(name)));
    let apis = spec.apis.iter().map(|api| format!("`{}`, `{}`", api.variable, api.key));
    let cells = [
        code(spec.name),
        spec.summary.to_owned(),
        program,
        path,
        or_dash(credentials.collect()),
        or_dash(apis.collect()),
        package,
    ];
    format!("| {} |", cells.join(" | "))
}

/// The marks around the generated table.
const MARKS: (&str, &str) = ("<!-- agents -->\n", "<!-- end of agents -->\n");

#[test]
fn page_has_the_table_of_agents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/adapters.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (shown, after) = rest.split_once(MARKS.1).unwrap();
    if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, format!("{before}{}{}{}{after}", MARKS.0, table(), MARKS.1)).unwrap();
        return;
    }
    assert!(shown == table(), "the table drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`");
}

/// Files that may contain the name of an agent as a literal: its own ones, and tests.
fn is_allowed(path: &str, name: &str) -> bool {
    let own = name.replace('-', "_");
    let stem = format!("yb-agents/src/{own}");
    path.contains(&format!("{stem}.rs")) || path.contains(&format!("{stem}/")) || path.ends_with("tests.rs")
        // Test helpers describe how the real agents are tested.
        || path.contains("yb-testkit/")
        // The crate of one CLI, which knows nothing of agents.
        || path.starts_with("yb-claude/")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_agent_is_named_outside_its_own_file() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap().map(Result::unwrap) {
        let src = entry.path().join("src");
        if src.is_dir() {
            sources(&src, &mut files);
        }
    }
    assert!(files.len() > 100, "{} files", files.len());
    // `command` is also a key, an evaluator and an argument of tools.
    let specs = Adapters::builtin().specs();
    let mut named = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let path = file.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
        for line in lines {
            for spec in specs.iter().filter(|spec| spec.name != "command") {
                if line.contains(&format!("\"{}\"", spec.name)) && !is_allowed(&path, spec.name) {
                    named.push(format!("{path}: {}", line.trim()));
                }
            }
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}
