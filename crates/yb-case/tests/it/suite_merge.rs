//! Variants merged over cases, and selected combinations.

use yb_case::suite::Suite;
use yb_case::{Case, EnvVar, Prompt};

use crate::suite::{Files, inline};

fn pairs(suite: &Suite) -> Vec<String> {
    suite.combinations.iter().map(|one| format!("{}×{}", one.case_name, one.variant)).collect()
}

fn case<'s>(suite: &'s Suite, variant: &str) -> &'s Case {
    &suite.combinations.iter().find(|one| one.variant == variant).unwrap().case
}

const RICH: &str = "agent:
  type: claude-code
  model: claude-opus-5-5
  models: { claude-code: claude-opus-5-5 }
  agent_name: writer
  config:
    prompt: Make greet.sh greet.
    agent: writer
    effort: low
    settings: { a: 1, b: 2 }
    claude-code: { max_turns: 30, trust_repo_settings: true }
env: { GREETING: Hello, TOKEN: '${ENV:APP_TOKEN}' }
";

#[test]
fn variant_is_merged_key_by_key() {
    let files = Files::new();
    files.case("one.yaml", "one", RICH);
    files.write("prompts/other.md", "Make greet.sh greet by name.\n");
    let suite = files.good(
        "cases: [one.yaml]
variants:
  - name: as it is
  - name: sonnet
    model: claude-sonnet-4-5
    version: '2.1.325'
    config: { max_turns: 5, settings: { c: 3 } }
    env: { GREETING: Hi }
  - { name: other, agent_name: reader, config: { prompt_file: prompts/other.md, claude-code: { effort: high } }, environment: [GREETING, MORE] }
  - { name: model, config: { model: claude-haiku-4-5, agent: helper } }
",
    );
    let plain = case(&suite, "as it is");
    assert_eq!(plain.agent.config.max_turns, Some(30));
    assert_eq!(suite.combinations[0].agent_version, None);

    let sonnet = case(&suite, "sonnet");
    assert_eq!(sonnet.agent.model.as_deref(), Some("claude-sonnet-4-5"), "also over `models`");
    assert_eq!(sonnet.agent.config.max_turns, Some(5), "also over the section of the agent");
    assert!(sonnet.agent.config.trust_repo_settings, "the rest of the section stays");
    assert_eq!(sonnet.agent.config.settings.as_ref().unwrap().len(), 1, "a key is replaced as a whole");
    assert_eq!(sonnet.agent.config.effort.as_deref(), Some("low"));
    assert_eq!(sonnet.agent.agent_name.as_deref(), Some("writer"));
    assert_eq!(suite.combinations[1].agent_version.as_deref(), Some("2.1.325"));
    let env = |case: &Case| -> Vec<(String, Option<String>)> {
        case.env.iter().map(|EnvVar { name, value, .. }| (name.clone(), value.clone())).collect()
    };
    let of = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    assert_eq!(env(sonnet), [of("TOKEN", "${ENV:APP_TOKEN}"), of("GREETING", "Hi")]);

    let other = case(&suite, "other");
    let Prompt::File { path, text } = &other.agent.prompt else { panic!("{:?}", other.agent.prompt) };
    assert!(path.ends_with("prompts/other.md"));
    assert_eq!(text, "Make greet.sh greet by name.");
    assert_eq!(other.agent.agent_name.as_deref(), Some("reader"));
    assert_eq!(other.agent.config.effort.as_deref(), Some("high"));
    assert_eq!(env(other)[1..], [("GREETING".to_owned(), None), ("MORE".to_owned(), None)]);

    let model = case(&suite, "model");
    assert_eq!(model.agent.model.as_deref(), Some("claude-haiku-4-5"));
    assert_eq!(model.agent.agent_name.as_deref(), Some("helper"));
    assert!(suite.files.iter().any(|file| file.path.ends_with("prompts/other.md")));
}

#[test]
fn relative_paths_start_at_their_own_file() {
    let files = Files::new();
    files.case("cases/one.yaml", "one", "agent: { type: claude-code, config: { prompt_file: task.md } }");
    files.write("cases/task.md", "What the case says.");
    files.write("task.md", "What the suite says.");
    let suite = files.good(
        "cases: [cases/one.yaml]\nvariants: [{ name: a }, { name: b, config: { prompt_file: task.md } }]\n",
    );
    assert_eq!(case(&suite, "a").agent.prompt.text(), Some("What the case says."));
    assert_eq!(case(&suite, "b").agent.prompt.text(), Some("What the suite says."));
}

#[test]
fn case_can_omit_keys_that_every_variant_sets() {
    let files = Files::new();
    files.case("half.yaml", "half", "agent: { config: { prompt: Make greet.sh greet. } }");
    let none = inline("none", "");
    let suite = files.good(&format!(
        "cases: [half.yaml, {none}]
variants:
  - {{ name: a, type: claude-code, config: {{ prompt: Say more than this. }} }}
  - {{ name: b, type: command, config: {{ prompt: Say more than this., command: {{ argv: [agent] }} }} }}
"
    ));
    assert_eq!(pairs(&suite), ["half×a", "half×b", "none×a", "none×b"]);
    assert_eq!(suite.combinations[3].case.agent.kind, "command");
}

#[test]
fn selectors_include_and_exclude_combinations() {
    let files = Files::new();
    files.case("quick.yaml", "quick-1", "tags: [quick]");
    files.case("slow.yaml", "slow-1", "tags: [slow, big]");
    let base = "cases: ['*w.yaml', quick.yaml]\nvariants: [{ name: a }, { name: b }]\n";
    let keeps = |more: &str, expected: &[&str]| {
        assert_eq!(pairs(&files.good(&format!("{base}{more}"))), expected, "{more}");
    };
    keeps("", &["slow-1×a", "slow-1×b", "quick-1×a", "quick-1×b"]);
    keeps("include: [{ case: slow-* }]", &["slow-1×a", "slow-1×b"]);
    keeps("include: [{ case: slow-*, variant: b }, { tag: quick, variant: a }]", &["slow-1×b", "quick-1×a"]);
    keeps(
        "exclude: [{ tag: big }, { variant: '?', case: '*-[12]', tag: slow }]",
        &["quick-1×a", "quick-1×b"],
    );
    keeps("include: [{ tag: slow }]\nexclude: [{ variant: a }]", &["slow-1×b"]);
    keeps("exclude: []", &["slow-1×a", "slow-1×b", "quick-1×a", "quick-1×b"]);
}

#[test]
fn suite_settings_are_read() {
    let files = Files::new();
    files.case("one.yaml", "one", "");
    let suite = files.good(
        "description: x\ncases: [one.yaml]\nrepeats: 3\nconcurrency: { claude-code: 2, command: 1 }\nretries: 0\nmax_cost_usd: 10\n",
    );
    assert_eq!(suite.name.as_deref(), Some("nightly"));
    assert_eq!((suite.repeats, suite.retries, suite.max_cost_usd, suite.trials()), (3, 0, Some(10.0), 3));
    assert_eq!(
        suite.concurrency.into_iter().collect::<Vec<_>>(),
        [("claude-code".into(), 2), ("command".into(), 1)]
    );
}

#[test]
fn suite_variables_are_expanded_once() {
    let files = Files::new();
    files.case("one.yaml", "one", "");
    let suite = files.good(
        "cases: [one.yaml]\nvariants: [{ name: 'for ${PROJECT}', env: { A: '${ENV:B}' }, config: { mcp_servers: { x: { url: 'http://127.0.0.1/', token: '${ENV:C}' } } } }]\n",
    );
    assert_eq!(suite.combinations[0].variant, "for Service");
    assert_eq!(suite.combinations[0].case.environment_names(), ["B", "C"]);
}
