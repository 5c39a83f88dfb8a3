//! A Rust function with hidden tests, and a build script of the agent that runs before they are compiled.

use serde_json::json;

use super::{Task, agent};

const TESTS: &str = "#[test]\nfn adds() {\n    assert_eq!(sum::add(1, 2), 3);\n}\n";

/// Returns the path of the compiler for the case, because the home directory is hidden by default.
fn sysroot() -> String {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn task() -> Task {
    let root = sysroot();
    let task = Task::new(
        "sed -i 's/{ 0/{ a + b/' src/lib.rs",
        |repo| {
            repo.write("Cargo.toml", "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[profile.dev]\ndebug = false\n");
            repo.write("src/lib.rs", "#[allow(unused)]\npub fn add(a: i32, b: i32) -> i32 { 0 }\n");
            repo.write(".gitignore", "target\n").commit("start");
        },
        &json!({ "evaluators": [{ "name": "command", "config": {
            "argv": [format!("{root}/bin/cargo"), "test", "--quiet", "--offline", "--test", "hidden"],
            "env": { "TOOLCHAIN": root, "RUSTC": format!("{root}/bin/rustc") },
            "hidden": { "tests/hidden.rs": "graders/hidden.rs" },
            "expect": { "output": "test result: ok. 1 passed" } } }] }),
    );
    task.context.write("graders/hidden.rs", TESTS);
    task
}

#[test]
fn build_rewrites_the_tests() {
    let build =
        |code: &str| format!("cat > build.rs <<'EOF'\nuse std::fs::*;\nfn main() {{\n{code}\n}}\nEOF\n");
    let empty = "let empty = \"#[test]\\nfn adds() {}\\n\";";
    let scores = task().run(&[
        agent("writes", build(&format!("{empty} let _ = write(\"tests/hidden.rs\", empty);"))),
        agent("replaces", build(&format!("{empty} let _ = remove_file(\"tests/hidden.rs\"); let _ = write(\"new\", empty); let _ = rename(\"new\", \"tests/hidden.rs\");"))),
        agent("moves", build(&format!("{empty} let _ = rename(\"tests\", \"old\"); let _ = create_dir(\"tests\"); let _ = write(\"tests/hidden.rs\", empty);"))),
        agent("target", "echo 'fn main() { println!(\"test result: ok. 1 passed\") }' > evil.rs; printf '[[test]]\\nname = \"hidden\"\\npath = \"evil.rs\"\\nharness = false\\n' >> Cargo.toml"),
        agent("runner", "mkdir .cargo; printf '#!/bin/sh\\necho test result: ok. 1 passed\\n' > .cargo/run; chmod +x .cargo/run; printf '[build]\\nrustc-wrapper = \"/bin/true\"\\n[target.x86_64-unknown-linux-gnu]\\nrunner = \".cargo/run\"\\n[target.aarch64-unknown-linux-gnu]\\nrunner = \".cargo/run\"\\n' > .cargo/config.toml; cp .cargo/config.toml .cargo/config"),
    ]);
    for name in ["writes", "replaces", "moves"] {
        scores.assert_zero(name, "exited with code 101");
    }
    scores.assert_zero("target", "restored: `Cargo.toml (test)`");
    scores.assert_zero("runner", "left out: `.cargo/config`, `.cargo/config.toml`, `.cargo/run`");
}

/// Tests of the repository are restored, and a build script of the agent can't rewrite them either.
#[test]
fn build_does_not_rewrite_restored_tests() {
    let root = sysroot();
    let task = Task::new(
        "sed -i 's/{ 0/{ a + b/' src/lib.rs; mkdir src/tests; echo '#[test] fn own() {}' > src/tests/mod.rs; echo '#[cfg(test)] mod tests;' >> src/lib.rs",
        |repo| {
            repo.write("Cargo.toml", "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[profile.dev]\ndebug = false\n");
            repo.write("src/lib.rs", "#[allow(unused)]\npub fn add(a: i32, b: i32) -> i32 { 0 }\n");
            repo.write("tests/adds.rs", TESTS).write(".gitignore", "target\n").commit("start");
        },
        &json!({ "evaluators": [{ "name": "command", "config": {
            "argv": [format!("{root}/bin/cargo"), "test", "--quiet", "--offline", "--lib", "--tests"],
            "env": { "TOOLCHAIN": root, "RUSTC": format!("{root}/bin/rustc") } } }] }),
    );
    let scores = task.run(&[agent(
        "build-script",
        "cat > build.rs <<'EOF'\nfn main() { let _ = std::fs::write(\"tests/adds.rs\", \"\"); let _ = std::fs::remove_dir_all(\"tests\"); }\nEOF\n",
    )]);
    scores.assert_zero("build-script", "exited with code 101");
}
