//! Suite files that mean harm: they are refused, in bounded time and memory, and never with a panic.

use proptest::prelude::*;

use crate::suite::{Files, inline};

const PARTS: &[&str] = &[
    "cases: ",
    "variants: ",
    "include: ",
    "exclude: ",
    "- ",
    "\n  - ",
    "\n",
    "{ ",
    " }",
    "[",
    "]",
    ", ",
    "name: a",
    "name: 'b:'",
    "one.yaml",
    "'*.yaml'",
    "'**'",
    "'{a,b}/**'",
    "../x",
    "case: '*'",
    "variant: a",
    "tag: quick",
    "type: command",
    "model: x",
    "config: ",
    "command: { argv: [x] }",
    "env: [A]",
    "env: { A: '${ENV:B}' }",
    "&a ",
    "*a",
    "repeats: 3\n",
    "concurrency: { command: 1 }",
    "agent: ",
    "prompt: Make it so now.",
    "prompt_file: one.yaml",
    "directory: app",
    "evaluators: [git-diff]",
    "description: x",
    "null",
];

#[test]
fn a_suite_that_is_too_large_or_too_deep() {
    let files = Files::new();
    let mut bomb = "cases: &a0 [x, x]\n".to_owned();
    for level in 1..40 {
        bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
    }
    let loaded = files.load(&bomb);
    assert!(loaded.suite.is_none());
    assert!(files.said(&loaded).contains("too large or too deep once its aliases are expanded"));
    let loaded = files.load(&format!("cases: [x]\n{}", "#".repeat(1024 * 1024)));
    assert!(files.said(&loaded).contains("the file is too large"), "{}", files.said(&loaded));
}

#[test]
fn a_long_prompt_is_not_multiplied_without_end() {
    let files = Files::new();
    let prompt = "x".repeat(900_000);
    let case = inline("one", &format!(", agent: {{ type: claude-code, config: {{ prompt: {prompt} }} }}"));
    let variants: String = (0..300).map(|n| format!("  - {{ name: v{n} }}\n")).collect();
    let loaded = files.load(&format!("cases:\n  - {case}\nvariants:\n{variants}"));
    assert!(loaded.suite.is_none());
    assert!(files.said(&loaded).contains("too large once cases and variants are combined"));
}

proptest! {
    #[test]
    fn anything_like_a_suite_never_panics(parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..60)) {
        let files = Files::new();
        files.case("one.yaml", "one", "tags: [quick]");
        let loaded = files.load(&parts.concat());
        prop_assert!(loaded.suite.is_some() || loaded.diagnostics.iter().any(|found| found.is_error()));
    }
}
