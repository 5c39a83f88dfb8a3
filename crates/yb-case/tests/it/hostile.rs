//! Case files that mean harm: they are refused, in bounded time and memory, and never with a panic.

use std::fs;

use proptest::prelude::*;

use crate::case::{builtin, messages};

fn refused(bytes: &[u8]) -> String {
    let loaded = yb_case::parse("case.yaml".as_ref(), bytes, &builtin());
    assert!(loaded.case.is_none());
    messages(&loaded)
}

#[test]
fn case_size_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("case.yaml");
    fs::write(&file, vec![b'#'; 1024 * 1024 + 1]).unwrap();
    assert_eq!(messages(&yb_case::load(&file, &builtin())), "0:0: error: the file is too large");
    fs::write(&file, vec![b'#'; 1024 * 1024]).unwrap();
    assert_eq!(messages(&yb_case::load(&file, &builtin())), "0:0: error: the file is empty");
}

#[test]
fn case_must_be_utf8_without_nul() {
    assert_eq!(refused(b"name: a\0b"), "1:8: error: NUL character in the file");
    assert_eq!(refused(b"name: \xff"), "1:7: error: invalid UTF-8");
    assert!(refused(b"name: \"a\\0b\"").contains("NUL character in the string"));
}

#[test]
fn alias_bombs_and_deep_nesting_are_rejected() {
    let too_big = "the file is too large or too deep once its aliases are expanded";
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..40 {
        bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
    }
    assert!(refused(bomb.as_bytes()).contains(too_big));
    assert!(refused("[".repeat(500_000).as_bytes()).contains("error: "));
    assert!(refused(("[".repeat(200) + &"]".repeat(200)).as_bytes()).contains("error: "));
}

#[test]
fn case_must_be_a_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str| messages(&yb_case::load(&dir.path().join(name), &builtin()));
    assert_eq!(load("none.yaml"), "0:0: error: failed to read case: no such file");
    assert_eq!(load(""), "0:0: error: failed to read case: not a file");
    #[cfg(unix)]
    {
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        assert_eq!(load("pipe"), "0:0: error: failed to read case: not a file");
    }
}

#[test]
fn number_of_diagnostics_is_limited() {
    let text: String = (0..5000).map(|at| format!("k{at}: 1\n")).collect();
    let loaded = yb_case::parse("case.yaml".as_ref(), text.as_bytes(), &builtin());
    assert!(loaded.diagnostics.len() < 250);
    assert!(
        loaded.diagnostics.iter().any(|found| found.is_error()),
        "an error is never among those that are cut"
    );
}

/// C5: whatever a case names stays below its directory.
#[cfg(unix)]
#[test]
fn c5_traversal_and_links_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("case");
    fs::create_dir_all(root.join("in")).unwrap();
    fs::write(dir.path().join("secret.md"), "name: git-diff").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret.md"), root.join("link.md")).unwrap();
    std::os::unix::fs::symlink(dir.path(), root.join("up")).unwrap();
    fs::write(root.join("in/real.md"), "  Do what is asked.\n").unwrap();
    std::os::unix::fs::symlink("in/real.md", root.join("inner.md")).unwrap();
    fs::write(root.join("empty.md"), " \n").unwrap();
    fs::write(root.join("binary.md"), b"\xff\xfe").unwrap();
    let load = |prompt: &str, evaluator: &str| {
        let text = format!(
            "name: x\ndescription: x\nrepo: https://github.com/a/b\n\
             agent: {{ type: claude-code, config: {{ prompt_file: {prompt} }} }}\nevaluators: [{{ {evaluator} }}]\n"
        );
        yb_case::parse(&root.join("case.yaml"), text.as_bytes(), &builtin())
    };
    let fine = "name: git-diff, config: { assertions: { max_files_changed: 1 } }";
    for prompt in ["in/real.md", "./in/./real.md", "inner.md"] {
        let case = load(prompt, fine).case.unwrap();
        assert_eq!(case.agent.prompt.text(), Some("Do what is asked."));
    }
    for prompt in
        ["link.md", "up/secret.md", "in", "empty.md", "binary.md", "in/../../secret.md", "/etc/hostname"]
    {
        let loaded = load(prompt, fine);
        assert!(loaded.case.is_none(), "{prompt}");
        assert!(messages(&loaded).contains("[agent.config.prompt_file]"), "{prompt}: {}", messages(&loaded));
    }
    for file in ["file: link.md", "file: up/secret.md", "file: in", "file: ../secret.md"] {
        let loaded = load("inner.md", file);
        assert!(loaded.case.is_none(), "{file}");
        assert!(messages(&loaded).contains("[evaluators[0].file]"), "{file}: {}", messages(&loaded));
    }
}

/// Diagnostics about an evaluator file point into that file.
#[test]
fn diagnostics_point_into_evaluator_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("judge.yaml"), "name: agentic-judge\nconfig:\n  tpye: claude-code\nname: x\n")
        .unwrap();
    let text = "youbencha: 1\nname: x\ndescription: x\nrepo: https://github.com/a/b\n\
                agent: { type: claude-code, config: { prompt: Do what is asked. } }\nevaluators: [{ file: judge.yaml }]\n";
    let loaded = yb_case::parse(&dir.path().join("case.yaml"), text.as_bytes(), &builtin());
    assert!(loaded.case.is_none());
    let messages: Vec<_> = loaded
        .diagnostics
        .iter()
        .map(|found| {
            format!("{}:{} {}", found.file.file_name().unwrap().display(), found.line, found.message)
        })
        .collect();
    assert_eq!(
        messages,
        [
            "judge.yaml:3 unknown key: `tpye`",
            "judge.yaml:3 missing key: `type`",
            "judge.yaml:4 key given twice: `name`"
        ]
    );
}

const PARTS: &[&str] = &[
    "name",
    "repo",
    "agent",
    "type",
    "config",
    "prompt",
    "prompt_file",
    "evaluators",
    "file",
    "timeout",
    "env",
    "tags",
    "youbencha",
    "directory",
    "claude-code",
    "git-diff",
    "assertions",
    "extra_args",
    "mcp_servers",
    ": ",
    ":",
    "\n",
    "\n  ",
    "\n    ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "1",
    "-1",
    "0.5",
    "'",
    "\"",
    "&a ",
    "*a",
    "<<",
    "${X}",
    "${ENV:Y}",
    "~",
    "|",
    "http://[::1",
    "a@b:c",
    "../",
    "\t",
    "é",
    "\u{202e}",
];

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for name in ["case.yaml", "case.json"] {
            let loaded = yb_case::parse(name.as_ref(), &bytes, &builtin());
            prop_assert!(loaded.case.is_some() || loaded.diagnostics.iter().any(|found| found.is_error()));
        }
    }

    #[test]
    fn anything_like_a_case_never_panics(parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..60)) {
        let text = parts.concat();
        for name in ["case.yaml", "case.json"] {
            let loaded = yb_case::parse(name.as_ref(), text.as_bytes(), &builtin());
            prop_assert!(loaded.case.is_some() || loaded.diagnostics.iter().any(|found| found.is_error()));
        }
    }

    #[test]
    fn any_value_anywhere_never_panics(key in "[a-z_]{1,14}", value in "\\PC{0,40}") {
        let quoted = serde_json::to_string(&value).unwrap();
        for line in [format!("{key}: {quoted}"), format!("repo: {quoted}"), format!("agent: {{ config: {{ prompt_file: {quoted} }} }}")] {
            let _ = yb_case::parse("case.yaml".as_ref(), line.as_bytes(), &builtin());
        }
    }
}
