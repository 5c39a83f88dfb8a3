//! Plugins, skills, MCP servers, agents and instructions of a case: whether they are loaded, used, and of use.

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Outcome, RealClaude};

use crate::YB;
use crate::suites::World;

/// A conversation that uses the skill `polite`, and greets by name only if there is such a skill.
const USES_SKILL: &str = "
tape: 1
lanes:
  main:
    - tools: [{ Skill: { skill: polite } }]
    - tools: [{ Bash: { command: 'if [ -e \"$CLAUDE_CONFIG_DIR/skills/polite\" ]; then echo ''echo \"Hello, $1!\"'' > greet.sh; fi', description: Greet } }]
    - say: Done.
";
/// A conversation that does nothing.
const IDLE: &str = "{ tape: 1, lanes: { main: [ { say: Done. } ] } }";

const SKILL: &str = "---\nname: polite\ndescription: How to be polite to strangers.\n---\nSay please.\n";

/// A case for the real agent, and a suite with these variants.
struct Suite {
    world: World,
    server: MockServer,
}

impl Suite {
    fn new(script: &str, suite: &Value) -> Self {
        let world = World::new();
        world.context.write("tree/greet.sh", "echo Hello\n");
        world.context.write("skills/polite/SKILL.md", SKILL);
        world.context.write("md/names.md", "# Rules\n\nGreet people by name.\n");
        world.context.write("plugin/.claude-plugin/plugin.json", r#"{"name":"greeter","version":"1.0.0"}"#);
        world.context.write("plugin/skills/polite/SKILL.md", SKILL);
        world.context.write("plugin/evals/secret.md", "The answer is 42.\n");
        let mut whole = json!({ "youbencha": 1, "name": "lift", "cases": [{ "name": "greeting", "description": "x",
            "directory": "tree",
            "agent": { "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Improve greet.sh." } },
            "evaluators": [{ "name": "command", "config": { "shell": "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'" } }] }] });
        for (key, value) in suite.as_object().unwrap() {
            whole[key] = value.clone();
        }
        world.context.write("suite.yaml", whole.to_string());
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { world, server }
    }

    fn run(&self, args: &[&str]) -> Outcome {
        self.world
            .suite(args)
            .env("ANTHROPIC_BASE_URL", self.server.base_url())
            .env("ANTHROPIC_API_KEY", "not-a-real-key")
            .env("YB_CLAUDE", RealClaude::new().program())
            .run()
    }

    fn results(&self) -> Value {
        let run = self.world.runs().pop().unwrap();
        serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap()
    }

    /// The attempt that decided about the first trial of a variant.
    fn attempt(&self, variant: &str) -> Value {
        let results = self.results();
        let trials = results["trials"].as_array().unwrap();
        let trial = trials.iter().find(|trial| trial["variant"] == variant).unwrap();
        trial["attempts"].as_array().unwrap().last().unwrap().clone()
    }

    fn requests_with(&self, text: &str) -> usize {
        self.server.requests().iter().filter(|seen| seen.body.to_string().contains(text)).count()
    }
}

#[test]
fn real_claude_loads_what_its_variant_declares_and_nothing_else() {
    let variants = json!([
        { "name": "without" },
        { "name": "skill", "config": { "skills": ["skills/polite"] } },
        { "name": "plugin", "config": { "plugins": ["plugin"] } },
        { "name": "rules", "config": { "instructions": "md/names.md" } },
        { "name": "agent", "config": { "agents": { "rev": { "description": "Reviews.", "prompt": "Review." } } } }
    ]);
    let suite = Suite::new(IDLE, &json!({ "variants": variants }));
    let outcome = suite.run(&["--quiet", "--jobs", "1"]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    for (variant, kind, name) in [
        ("skill", "skill", "polite"),
        ("plugin", "plugin", "greeter"),
        ("rules", "instructions", "CLAUDE.md"),
        ("agent", "agent", "rev"),
    ] {
        let attempt = suite.attempt(variant);
        assert_eq!(attempt["outcome"], "failed", "{attempt:#}");
        let add_on = &attempt["add_ons"][0];
        assert_eq!((&add_on["kind"], &add_on["name"]), (&json!(kind), &json!(name)), "{attempt:#}");
        assert_eq!(add_on["status"], "proven", "{attempt:#}");
        assert_eq!(add_on["uses"], u64::from(variant == "rules"), "{attempt:#}");
    }
    assert_eq!(suite.attempt("without")["add_ons"], Value::Null);
    assert_eq!(suite.requests_with("How to be polite to strangers."), 2, "skill and plugin");
    assert_eq!(suite.requests_with("Greet people by name."), 1, "rules");
    let log: Value = serde_json::from_str(
        &suite.world.context.run(YB, ["show", "latest", "greeting--skill--1", "--json"]).stdout,
    )
    .unwrap_or_default();
    assert!(log.to_string().contains("\"add_ons\""), "{log}");
}

#[test]
fn real_claude_can_only_read_its_plugin_without_the_evaluations() {
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'cd \"$(dirname \"$PWD\")/add-ons/plugins/greeter\" && find . -type f | sort > \"$OLDPWD/seen\"; echo x > skills/polite/SKILL.md; echo $? >> \"$OLDPWD/seen\"', description: Look } }]
    - say: Done.
";
    let variants = json!([{ "name": "with", "config": { "plugins": ["plugin"] } }]);
    let suite = Suite::new(script, &json!({ "variants": variants, "isolation": "bubblewrap" }));
    suite.run(&["--quiet"]);
    let seen = suite.world.only_run().join("trials/greeting--with--1/attempt-1/src-modified/seen");
    let seen = std::fs::read_to_string(seen).unwrap();
    let expected = "./.claude-plugin/plugin.json\n./skills/polite/SKILL.md\n";
    assert!(seen.starts_with(expected) && !seen.ends_with("\n0\n"), "{seen}");
    assert_eq!(suite.world.context.read("plugin/skills/polite/SKILL.md"), SKILL);
}

#[test]
fn real_claude_that_does_not_load_an_add_on_is_miswired() {
    let variants = json!([
        { "name": "skill", "config": { "skills": ["skills/headless"] } },
        { "name": "tool", "config": { "skills": ["skills/polite"], "tools": ["Read"] } },
        { "name": "plugin", "config": { "plugins": ["broken"] } },
        { "name": "server", "config": { "mcp_servers": { "db": { "command": "/no/such/program" } } } }
    ]);
    let suite = Suite::new(IDLE, &json!({ "variants": variants }));
    suite.world.context.write("skills/headless/SKILL.md", "No header.\n");
    suite.world.context.write("broken/.claude-plugin/plugin.json", r#"{"name":"broken"}"#);
    suite.world.context.write("broken/hooks/hooks.json", "{\"bad");
    let outcome = suite.run(&["--quiet", "--jobs", "1"]);
    assert_eq!(outcome.code, Some(4), "{}{}", outcome.stdout, outcome.stderr);
    for (variant, code, message) in [
        (
            "skill",
            "CLAUDE_MISWIRED",
            "miswired: skill `headless` was not loaded: Claude Code does not list it",
        ),
        ("tool", "CLAUDE_MISWIRED", "miswired: skill `polite` was not loaded: the agent has no tool `Skill`"),
        ("plugin", "CLAUDE_MISWIRED", "miswired: plugin `broken` was not loaded: Hook load failed"),
        ("server", "CLAUDE_MCP_FAILED", "MCP server `db` did not start"),
    ] {
        let attempt = suite.attempt(variant);
        assert_eq!(attempt["outcome"], "miswired", "{attempt:#}");
        assert_eq!(attempt["error_code"], code, "{attempt:#}");
        assert!(attempt["error"].as_str().unwrap().starts_with(message), "{attempt:#}");
        assert_eq!(attempt["then"], "done", "it is not retried");
    }
    let results = suite.results();
    assert_eq!(results["outcomes"], json!({ "miswired": 4 }));
}

const WITH_AND_WITHOUT: &str =
    r#"[{ "name": "without" }, { "name": "with", "config": { "skills": ["skills/polite"] } }]"#;

#[test]
fn real_claude_with_a_skill_that_helps_has_a_lift() {
    let variants: Value = serde_json::from_str(WITH_AND_WITHOUT).unwrap();
    let suite = Suite::new(
        USES_SKILL,
        &json!({ "variants": variants, "repeats": 5, "vary": ["skills"],
            "gates": { "min_lift": { "of": "with", "over": "without", "points": 0 } } }),
    );
    let outcome = suite.run(&["--jobs", "2"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let summary = suite.results()["variants"].clone();
    let sentence = summary["lifts"][0]["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("`with` over `without`: +100 points [") && sentence.contains("]: real"),
        "{sentence}"
    );
    assert!(outcome.stdout.contains(sentence), "{}", outcome.stdout);
    let activation = &summary["activations"][0];
    assert_eq!((&activation["proven"], &activation["used"]), (&json!(5), &json!(5)), "{activation}");
    assert!(outcome.stdout.contains("activation rate"), "{}", outcome.stdout);
    let comment = suite.world.context.run(YB, ["report", "--format", "github", "-o", "-"]).stdout;
    assert!(comment.starts_with("**\\`with\\` over \\`without\\`: +100 points "), "{comment}");
    let gates = suite.results()["gates"].clone();
    let names: Vec<&str> =
        gates["gates"].as_array().unwrap().iter().map(|gate| gate["gate"].as_str().unwrap()).collect();
    assert_eq!(names, ["min_lift", "vary"], "{gates}");
}

#[test]
fn real_claude_that_never_uses_its_skill_fails_the_gate() {
    let variants: Value = serde_json::from_str(WITH_AND_WITHOUT).unwrap();
    let suite = Suite::new(
        IDLE,
        &json!({ "variants": variants, "gates": { "min_lift": { "of": "with", "over": "without" } },
            "cases": [{ "name": "greeting", "description": "x", "directory": "tree",
                "agent": { "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Improve greet.sh." } },
                "evaluators": [{ "name": "activation" }] }] }),
    );
    let outcome = suite.run(&[]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let sentence = "`with` over `without`: never fired: skill `polite` used in 0 of 1 trial";
    assert!(outcome.stdout.contains(sentence), "{}", outcome.stdout);
    assert_eq!(suite.attempt("without")["outcome"], "passed", "it has nothing to use");
    let attempt = suite.attempt("with");
    assert_eq!(attempt["evaluators"][0]["message"], "✗ 0 of 1 add-ons used | skill `polite` was never used");
}

#[test]
fn undeclared_difference_between_running_agents_is_shown() {
    let variants = json!([{ "name": "without", "config": { "tools": ["Bash"] } },
        { "name": "with", "config": { "tools": ["Bash"], "extra_args": ["--disallowedTools=Bash"] } }]);
    let suite = Suite::new(IDLE, &json!({ "variants": variants, "vary": ["other"] }));
    let outcome = suite.run(&["--quiet"]);
    let difference = "undeclared difference in tools: `without` has `Bash`, `with` has none of these";
    assert!(outcome.stdout.contains(difference), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(suite.results()["gates"]["answer"], "cannot_tell");
    assert_eq!(outcome.code, Some(5), "{}{}", outcome.stdout, outcome.stderr);
}
