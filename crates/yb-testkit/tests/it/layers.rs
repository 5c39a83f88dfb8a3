//! The layering of the workspace: `ARCHITECTURE.md` lists the crates bottom up, and a crate depends on crates above it in
//! the table only.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The crates of the table under `## Crates`, in its order.
fn layers() -> Vec<String> {
    let page = std::fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    let section = page
        .split(
            "
## ",
        )
        .find(|section| {
            section.starts_with(
                "Crates
",
            )
        })
        .unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `"));
    names.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

/// The crates in `crates/`, each with the workspace crates that it depends on outside tests.
fn dependencies() -> Vec<(String, Vec<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(workspace_root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name_of = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let members: Vec<String> = packages.iter().map(name_of).collect();
    packages
        .iter()
        .filter(|package| !["bench", "fuzz"].contains(&name_of(package).as_str()))
        .map(|package| {
            let needed = package["dependencies"].as_array().unwrap().iter();
            let outside_tests = needed.filter(|dependency| dependency["kind"] != "dev").map(name_of);
            (name_of(package), outside_tests.filter(|name| members.contains(name)).collect())
        })
        .collect()
}

#[test]
fn no_crate_depends_upwards() {
    let layers = layers();
    let layer = |name: &String| layers.iter().position(|known| known == name);
    for (name, needed) in dependencies() {
        let own = layer(&name).unwrap_or_else(|| panic!("`{name}` is not in the table of ARCHITECTURE.md"));
        for below in needed {
            let at =
                layer(&below).unwrap_or_else(|| panic!("`{below}` is not in the table of ARCHITECTURE.md"));
            assert!(at < own, "`{name}` depends on `{below}`, which ARCHITECTURE.md lists after it");
        }
    }
}

#[test]
fn architecture_table_lists_only_crates_that_exist() {
    let members: Vec<String> = dependencies().into_iter().map(|(name, _)| name).collect();
    for name in layers() {
        assert!(members.contains(&name), "no such crate: `{name}`");
    }
}

/// CI turns the warnings of the lints into errors.
#[test]
fn nfr_4_every_crate_has_the_lints_that_demand_documentation() {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let root = read(workspace_root().join("Cargo.toml"));
    let (_, lints) = root.split_once("[workspace.lints.rust]").unwrap();
    assert!(lints.contains("\nmissing_docs = \"warn\"\n"), "{lints}");
    for (name, _) in dependencies() {
        let manifest = read(workspace_root().join("crates").join(&name).join("Cargo.toml"));
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{name}");
    }
    let ci = read(workspace_root().join(".ci/run"));
    assert!(ci.contains("-D warnings"), "{ci}");
}
