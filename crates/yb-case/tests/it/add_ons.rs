//! Plugins, skills and instructions of cases and variants, `vary`, and the gate `min_lift`.

use yb_case::suite::Suite;
use yb_case::{AddOn, Case};

use crate::suite::Files;

fn files() -> Files {
    let files = Files::new();
    files.write("plugin/.claude-plugin/plugin.json", r#"{"name":"greeter"}"#);
    files.write("plugin/skills/polite/SKILL.md", "polite");
    files.write("plugin/evals/case/prompt.md", "hidden");
    files.write("skills/polite/SKILL.md", "polite");
    files.write("md/rules.md", "Greet people by name.\n");
    files.case("one.yaml", "one", "");
    files
}

fn case<'s>(suite: &'s Suite, variant: &str) -> &'s Case {
    &suite.combinations.iter().find(|one| one.variant == variant).unwrap().case
}

fn names(add_ons: &[AddOn]) -> Vec<&str> {
    add_ons.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn add_ons_are_read_with_their_names_and_digests() {
    let files = files();
    let suite = files.good(
        "cases: [one.yaml]
variants:
  - name: without
  - { name: with, config: { plugins: [plugin], skills: [skills/polite], instructions: md/rules.md } }
",
    );
    let config = &case(&suite, "with").agent.config;
    assert_eq!((names(&config.plugins), names(&config.skills)), (vec!["greeter"], vec!["polite"]));
    let plugin: Vec<&str> = config.plugins[0].files.iter().map(|file| file.target.as_str()).collect();
    assert_eq!(plugin, [".claude-plugin/plugin.json", "skills/polite/SKILL.md"], "without its evaluations");
    assert_eq!(config.plugins[0].digest.len(), 64);
    let instructions = config.instructions.as_ref().unwrap();
    assert_eq!(instructions.line.as_deref(), Some("Greet people by name."));
    assert!(case(&suite, "with").overlay.covers("CLAUDE.md"));
    assert!(!case(&suite, "without").overlay.covers("CLAUDE.md"));
    let digests: Vec<String> = suite.combinations.iter().map(|one| one.task_digest("commit")).collect();
    assert_ne!(digests[0], digests[1]);
    assert!(suite.files.iter().any(|file| file.path.ends_with("plugin/skills/polite/SKILL.md")));
    files.write("skills/polite/SKILL.md", "rude");
    let changed = files.good("cases: [one.yaml]\nvariants: [{ name: with, config: { plugins: [plugin], skills: [skills/polite], instructions: md/rules.md } }]\n");
    assert_ne!(changed.combinations[0].task_digest("commit"), digests[1]);
}

#[test]
fn instructions_have_the_name_that_the_agent_reads() {
    let files = files();
    for (agent, file) in
        [("codex", "AGENTS.md"), ("gemini", "GEMINI.md"), ("copilot-cli", ".github/copilot-instructions.md")]
    {
        let text = format!(
            "cases: [one.yaml]\nvariants: [{{ name: with, type: {agent}, model: m, config: {{ instructions: md/rules.md }} }}]\n"
        );
        let loaded = files.load(&text);
        let suite = loaded.suite.unwrap();
        assert!(case(&suite, "with").overlay.covers(file), "{agent}");
    }
}

#[test]
fn wrong_add_ons_are_errors_with_a_position() {
    let files = files();
    files.write("empty/readme.txt", "x");
    files.write("broken/.claude-plugin/plugin.json", "{");
    for (config, message) in [
        ("plugins: [none]", "failed to read `none` (no such file)"),
        ("plugins: [empty]", "not a plugin: `empty`"),
        ("plugins: [broken]", "invalid `.claude-plugin/plugin.json`"),
        ("plugins: [/etc]", "failed to read `/etc` (the path is absolute)"),
        ("plugins: [plugin, ./plugin]", "another one has the same name: `greeter`"),
        ("skills: [plugin]", "not a skill: `plugin`"),
        ("skills: [md/rules.md]", "(not a directory)"),
        ("instructions: md", "(not a file)"),
    ] {
        let text = format!("cases: [one.yaml]\nvariants: [{{ name: with, config: {{ {config} }} }}]\n");
        let loaded = files.load(&text);
        let messages = files.messages(&loaded);
        assert!(loaded.suite.is_none() && messages.contains(message), "{config}: {messages}");
    }
}

#[test]
fn agent_without_the_feature_is_an_error() {
    let files = files();
    for (agent, config) in [("codex", "plugins: [plugin]"), ("gemini", "skills: [skills/polite]")] {
        let text = format!(
            "cases: [one.yaml]\nvariants: [{{ name: with, type: {agent}, model: m, config: {{ {config} }} }}]\n"
        );
        let loaded = files.load(&text);
        let messages = files.messages(&loaded);
        assert!(loaded.suite.is_none() && messages.contains("has no such setting"), "{messages}");
    }
}

#[test]
fn undeclared_difference_between_variants_is_an_error() {
    let files = files();
    let with = |vary: &str, more: &str| {
        files.load(&format!(
            "vary: [{vary}]\ncases: [one.yaml]\nvariants: [{{ name: without }}, {{ name: with, config: {{ skills: [skills/polite] }}{more} }}]\n"
        ))
    };
    assert_eq!(files.messages(&with("skills", "")), "");
    assert_eq!(with("skills", "").suite.unwrap().vary, ["skills"]);
    let loaded = with("skills", ", model: claude-sonnet-5-5");
    let messages = files.messages(&loaded);
    assert!(loaded.suite.is_none());
    assert!(
        messages.contains("variants `without` and `with` differ in `model`, which `vary` does not list"),
        "{messages}"
    );
    assert_eq!(files.messages(&with("skills, model", ", model: claude-sonnet-5-5")), "");
    let messages = files.messages(&with("plugins", ""));
    assert!(messages.contains("differ in `skills`"), "{messages}");
    let alone = files.load("vary: [skills]\ncases: [one.yaml]\n");
    assert!(files.messages(&alone).contains("`vary` requires at least two variants"));
}

#[test]
fn lift_names_variants_of_the_suite() {
    let files = files();
    let with = |gate: &str| {
        files.load(&format!(
            "cases: [one.yaml]\nvariants: [{{ name: without }}, {{ name: with, config: {{ skills: [skills/polite] }} }}]\ngates: {{ min_lift: {gate} }}\n"
        ))
    };
    let gate = with("{ of: with, over: without, points: 5 }").suite.unwrap().gates.min_lift.unwrap();
    assert_eq!(
        (gate.of.as_str(), gate.over.as_str(), gate.points, gate.alpha),
        ("with", "without", 5.0, 0.05)
    );
    for (gate, message) in [
        ("{ of: wiht, over: without }", "no such variant: `wiht`"),
        ("{ of: with, over: with }", "`of` and `over` are the same variant"),
        ("{ of: with }", "missing key: `over`"),
    ] {
        let loaded = with(gate);
        let messages = files.messages(&loaded);
        assert!(loaded.suite.is_none() && messages.contains(message), "{gate}: {messages}");
    }
}
