//! The rules of the data model and the settlements, named after them: accepted and refused values.

use yb_case::{Case, Loaded, Start};

use crate::case::{builtin, messages};

pub(crate) const BASE: &str = "youbencha: 1
name: A case
description: About something.
repo: https://github.com/example/x.git
agent: { type: claude-code, config: { prompt: Do what is asked. } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

pub(crate) fn parse(text: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    yb_case::parse(&dir.path().join("case.yaml"), text.as_bytes(), &builtin())
}

/// The base with one top-level line replaced or added.
pub(crate) fn with(line: &str) -> Loaded {
    let key = line.split(':').next().unwrap();
    let kept = BASE.lines().filter(|old| old.split(':').next() != Some(key));
    parse(&kept.chain([line]).collect::<Vec<_>>().join("\n"))
}

#[track_caller]
pub(crate) fn accepts(lines: &[&str]) {
    for line in lines {
        let loaded = with(line);
        assert!(loaded.case.is_some(), "{line}\n{}", messages(&loaded));
        assert_eq!(messages(&loaded), "", "{line}");
    }
}

#[track_caller]
pub(crate) fn rejects(key: &str, lines: &[&str]) {
    for line in lines {
        let loaded = with(line);
        assert!(loaded.case.is_none(), "accepted: {line}");
        let here = loaded.diagnostics.iter().any(|found| found.is_error() && found.key.starts_with(key));
        assert!(here, "{line}\n{}", messages(&loaded));
        let helps = loaded.diagnostics.iter().all(|found| found.expected.is_some() || found.hint.is_some());
        assert!(helps, "{line}\n{}", messages(&loaded));
    }
}

/// The base with these keys in `agent.config`.
fn config(keys: &str) -> String {
    format!("agent: {{ type: claude-code, config: {{ prompt: Do what is asked., {keys} }} }}")
}

#[track_caller]
fn accepts_config(keys: &[&str]) {
    for keys in keys {
        accepts(&[&config(keys)]);
    }
}

#[track_caller]
fn rejects_config(key: &str, keys: &[&str]) {
    for keys in keys {
        rejects(&format!("agent.config.{key}"), &[&config(keys)]);
    }
}

#[track_caller]
pub(crate) fn warns(line: &str, expected: &str) -> Case {
    let loaded = with(line);
    let case = loaded.case.clone().unwrap_or_else(|| panic!("{}", messages(&loaded)));
    let messages: Vec<_> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages.join("\n"), expected);
    Case::clone(&case)
}

pub(crate) fn long(key: &str, length: usize) -> String {
    format!("{key}: {}", "x".repeat(length))
}

#[test]
fn prompt_1_to_1_000_000() {
    let agent = |prompt: &str| format!("agent: {{ type: claude-code, config: {{ prompt: {prompt} }} }}");
    accepts(&[&agent(&"x".repeat(1_000_000))]);
    rejects(
        "agent.config.prompt",
        &[&agent("''"), &agent("'  '"), &agent(&"x".repeat(1_000_001)), &agent("7")],
    );
    warns(&agent("Short"), "very short prompt: 5 characters");
}

#[test]
fn exactly_one_of_prompt_and_prompt_file() {
    rejects_config("prompt_file", &["prompt_file: x.md"]);
    rejects(
        "agent.config.prompt",
        &["agent: { type: claude-code }", "agent: { type: claude-code, config: { model: claude-x } }"],
    );
}

#[test]
fn prompt_file_at_most_500_and_stays_inside() {
    let agent = |file: &str| format!("agent: {{ type: claude-code, config: {{ prompt_file: {file} }} }}");
    let missing = "prompt file not found relative to the case: ";
    warns(&agent("./prompts/task.md"), &format!("{missing}`./prompts/task.md`"));
    let long = "x".repeat(501);
    rejects(
        "agent.config.prompt_file",
        &[
            &agent("/etc/passwd"),
            &agent("../x"),
            &agent("a/../../x"),
            &agent("'C:\\x'"),
            &agent("\"a\\0b\""),
            &agent(&long),
            &agent("''"),
        ],
    );
}

#[test]
fn agent_name_word_characters_at_most_100() {
    let longest = format!("agent_name: {}", "a".repeat(100));
    accepts_config(&["agent_name: code-reviewer_2", &longest]);
    rejects_config(
        "agent_name",
        &["agent_name: ''", "agent_name: a b", "agent_name: a/b", &format!("{longest}a")],
    );
}

#[test]
fn model_claude_names_and_c9_aliases() {
    accepts_config(&[
        "model: claude-sonnet-4-5-20250929",
        "model: claude-sonnet-4.5",
        "model: anthropic/claude-opus-5-5",
        "model: 'claude-opus-5-5[1m]'",
    ]);
    rejects_config("model", &["model: ''", "model: two words", "model: --evil"]);
    let case = warns(&config("model: sonnet"), "not the full name of a Claude model: `sonnet`");
    assert_eq!(case.agent.model.as_deref(), Some("sonnet"));
    warns(&config("model: gpt-5"), "not the full name of a Claude model: `gpt-5`");
}

#[test]
fn system_prompts_at_most_10_000_and_50_000() {
    let text = |key: &str, length: usize| format!("{key}: {}", "x".repeat(length));
    accepts_config(&[&text("append_system_prompt", 10_000), &text("system_prompt", 50_000)]);
    rejects_config("append_system_prompt", &[&text("append_system_prompt", 10_001)]);
    rejects_config("system_prompt", &[&text("system_prompt", 50_001)]);
}

#[test]
fn permission_mode_and_c11() {
    accepts_config(&["permission_mode: auto", "permission_mode: plan", "permission_mode: acceptEdits"]);
    rejects_config("permission_mode", &["permission_mode: yolo", "permission_mode: ''"]);
    for alias in ["ask", "manual"] {
        let message = format!("`{alias}` is an alias of `default`");
        let case = warns(&config(&format!("permission_mode: {alias}")), &message);
        assert_eq!(case.agent.config.permission_mode.as_deref(), Some("default"));
    }
}

#[test]
fn allowed_tools_and_c17() {
    accepts_config(&[
        "allowed_tools: []",
        "allowed_tools: [Read, 'Bash(git *)', mcp__a-b__*]",
        "disallowed_tools: [WebFetch]",
    ]);
    rejects_config(
        "allowed_tools",
        &["allowed_tools: ['']", "allowed_tools: ['a b']", "allowed_tools: [-p]", "allowed_tools: Read"],
    );
    let unset = with(&config("effort: low")).case.unwrap();
    let empty = with(&config("allowed_tools: []")).case.unwrap();
    assert_eq!(
        (&unset.agent.config.allowed_tools, &empty.agent.config.allowed_tools),
        (&None, &Some(vec![]))
    );
}

/// The base with another agent and these keys in `agent.config`.
fn config_of(agent: &str, keys: &str) -> String {
    format!("agent: {{ type: {agent}, config: {{ prompt: Do what is asked., {keys} }} }}")
}

#[test]
fn tool_names_of_other_agents_are_translated() {
    let names = |agent: &str| {
        let loaded = with(&config_of(agent, "tools: [Read, write, search, Bash]"));
        let case = loaded.case.as_ref().unwrap_or_else(|| panic!("{}", messages(&loaded)));
        case.agent.config.tools.clone().unwrap()
    };
    assert_eq!(names("claude-code"), ["Read", "Write", "Grep", "Glob", "Bash"]);
    // `write` is one of its kinds of tools.
    assert_eq!(names("copilot-cli"), ["view", "write", "grep", "glob", "bash"]);
    assert_eq!(names("gemini"), ["read_file", "write_file", "grep_search", "glob", "run_shell_command"]);
    assert_eq!(names("opencode"), ["read", "write", "grep", "glob", "bash"]);
}

#[test]
fn unknown_tool_names_are_errors_with_the_nearest_name() {
    let found = |agent: &str, keys: &str| {
        let loaded = with(&config_of(agent, keys));
        let shown =
            loaded.diagnostics.iter().map(|one| format!("{one}; {}\n", one.hint.as_deref().unwrap_or("")));
        shown.collect::<String>()
    };
    let text = found("claude-code", "tools: [Raed]");
    assert!(text.contains("error: Claude Code has no tool `Raed`") && text.contains("`Read`"), "{text}");
    let text = found("gemini", "disallowed_tools: ['Bash(git *)']");
    assert!(text.contains("whose tool is `run_shell_command`"), "{text}");
    let text = found("copilot-cli", "allowed_tools: [google_web_search]");
    assert!(text.contains("no tool of this agent has the same purpose"), "{text}");
    // Tools of MCP servers have the names that the servers give them.
    accepts(&[&config_of(
        "copilot-cli",
        "tools: [view, tickets-list], mcp_servers: { tickets: { command: x } }",
    )]);
}

/// An ignored restriction would let the agent do what the case forbids.
#[test]
fn tool_lists_are_errors_for_agents_that_can_not_be_restricted() {
    for agent in ["codex", "command"] {
        for key in ["tools", "allowed_tools", "disallowed_tools"] {
            let loaded = with(&config_of(agent, &format!("{key}: [Read], command: {{ argv: [x] }}")));
            assert!(loaded.case.is_none(), "{agent} {key}");
            let expected = format!("error: `{agent}` has no such setting: `{key}`");
            assert!(messages(&loaded).contains(&expected), "{}", messages(&loaded));
        }
    }
}

#[test]
fn inline_agent_definitions_are_read() {
    let keys = "agent_name: tester, agents: { tester: { prompt: You test., tools: [read] } }";
    let case = with(&config(keys)).case.unwrap();
    let tester = &case.agent.config.agents["tester"];
    assert_eq!((tester.prompt.as_str(), tester.description.as_str()), ("You test.", "tester"));
    assert_eq!(tester.tools.as_deref().unwrap(), ["Read"]);
    rejects_config(
        "agents",
        &["agents: { a: { description: x } }", "agents: { a: { prompt: x, tools: [Raed] } }"],
    );
}

#[test]
fn max_tokens_1_to_200_000() {
    accepts_config(&["max_tokens: 1", "max_tokens: 200000"]);
    rejects_config(
        "max_tokens",
        &["max_tokens: 0", "max_tokens: 200001", "max_tokens: 1.5", "max_tokens: '5'"],
    );
}

#[test]
fn temperature_0_to_1_and_c13() {
    for value in ["0", "0.5", "1.0"] {
        let case = warns(&config(&format!("temperature: {value}")), "unsupported by the CLI: `temperature`");
        assert!(case.agent.config.temperature.is_some());
    }
    rejects_config("temperature", &["temperature: -0.1", "temperature: 1.1", "temperature: warm"]);
}

#[test]
fn c31_duplicate_settings_are_reported() {
    let agent = |outer: &str, inner: &str| {
        format!("agent: {{ type: claude-code, {outer}, config: {{ prompt: Do what is asked., {inner} }} }}")
    };
    accepts(&[&agent("model: claude-x", "model: claude-x"), &agent("agent_name: a", "agent_name: a")]);
    rejects("agent.config.model", &[&agent("model: claude-x", "model: claude-y")]);
    rejects("agent.config.agent_name", &[&agent("agent_name: a", "agent_name: b")]);
    rejects("agent.config.agent", &[&agent("agent_name: a", "agent: b")]);
}

#[test]
fn c33_unsupported_agent_settings_are_warnings() {
    let copilot = |keys: &str| {
        format!(
            "agent: {{ type: copilot-cli, model: claude-x, models: {{ copilot-cli: gpt-5 }}, config: {{ prompt: Do what is asked., {keys} }} }}"
        )
    };
    let case = warns(&copilot("max_turns: 5"), "`copilot-cli` has no such setting: `max_turns`");
    assert_eq!(case.agent.config.max_turns, None);
    assert_eq!(case.agent.model.as_deref(), Some("gpt-5"));
    accepts(&[&copilot("claude-code: { effort: high }"), &copilot("effort: high")]);
    rejects(
        "agent.models.copilot",
        &["agent: { type: claude-code, models: { copilot: x }, config: { prompt: Do what is asked. } }"],
    );
    rejects_config("claude-code.efort", &["claude-code: { efort: high }"]);
    let command = "agent: { type: command, config: { prompt: Do what is asked., command: { argv: [sh, -c, '{prompt}'] } } }";
    assert_eq!(with(command).case.unwrap().agent.config.section["argv"][0], "sh");
    rejects(
        "agent.config.command.argv",
        &["agent: { type: command, config: { prompt: Do what is asked., command: { argv: [] } } }"],
    );
}

#[test]
fn c34_additional_settings_are_validated() {
    accepts_config(&[
        "mcp_servers: { docs: { command: x } }",
        "max_turns: 5",
        "effort: xhigh",
        "settings: { a: 1 }",
        "add_dirs: [/usr, .]",
        "extra_args: [--a, --b=c]",
        "extra_args: { a: null, b: c, d: 1 }",
    ]);
    rejects_config("max_turns", &["max_turns: 0", "max_turns: many"]);
    rejects_config("effort", &["effort: lots"]);
    rejects_config("mcp_servers", &["mcp_servers: [x]", "mcp_servers: { docs: x }"]);
    rejects_config(
        "extra_args",
        &["extra_args: [x]", "extra_args: ['-x']", "extra_args: { a: [] }", "extra_args: { --a: b }"],
    );
    let args = with(&config("extra_args: { a: null, b: c, d: 1, e: false }")).case.unwrap();
    assert_eq!(args.agent.config.extra_args, ["--a", "--b=c", "--d=1"]);
}

// Keys that the original does not have.

#[test]
fn own_fields_are_validated() {
    accepts(&[
        "timeouts: { clone: 1000, agent: 0, evaluators: 1h }",
        "max_budget_usd: 0.01",
        "tags: [a, 'size:small', b/c]",
        "env: [HOME, LANG]",
        "env: { A: b, B: '${ENV:C}' }",
        "capture: { include: ['dist/**', '*.log'] }",
        "isolation: none",
    ]);
    rejects("timeouts", &["timeouts: { agnt: 5 }", "timeouts: { agent: -1 }", "timeouts: 5"]);
    rejects("max_budget_usd", &["max_budget_usd: 0", "max_budget_usd: -1", "max_budget_usd: much"]);
    rejects("tags", &["tags: a", "tags: ['']", "tags: ['a b']"]);
    rejects("env", &["env: ['A=B']", "env: { 1A: b }", "env: { A: 1 }", "env: A"]);
    rejects(
        "capture",
        &["capture: { include: ['../x'] }", "capture: { include: ['/x'] }", "capture: { exclude: [] }"],
    );
    rejects("isolation", &["isolation: docker"]);
    rejects("zebra", &["zebra: 1"]);
}

#[test]
fn directory_can_be_the_start_tree() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("app")).unwrap();
    let load = |extra: &str| {
        let text =
            BASE.replace("repo: https://github.com/example/x.git", &format!("directory: ./app\n{extra}"));
        yb_case::parse(&dir.path().join("case.yaml"), text.as_bytes(), &builtin())
    };
    let case = load("").case.unwrap();
    assert_eq!(case.start, Start::Directory(dir.path().join("app").canonicalize().unwrap()));
    for extra in ["branch: main", "commit: abc", "expected: done", "repo: https://github.com/a/b"] {
        assert!(load(extra).case.is_none(), "{extra}");
    }
    rejects("directory", &["directory: ./app"]);
    let neither = parse(&BASE.replace("repo: https://github.com/example/x.git\n", ""));
    assert_eq!(messages(&neither), "1:1: error: missing key: `repo` [repo]");
}

#[test]
fn version_makes_a_file_strict() {
    let typo = "evaluators: [{ name: git-diff, config: { asertions: { max_files_changed: 1 } } }]";
    assert!(with(typo).case.is_none());
    let lenient = parse(&BASE.replace("youbencha: 1\n", "").replace("assertions", "asertions"));
    assert!(lenient.case.unwrap().evaluators[0].vacuous, "it loads, and is shown as vacuous");
    rejects("youbencha", &["youbencha: 2", "youbencha: 0", "youbencha: yes"]);
    let newer = parse("youbencha: 2\nwhatever: { is: new }\n");
    assert_eq!(messages(&newer), "1:12: error: unsupported format version: `2` [youbencha]");
}

#[test]
fn mcp_server_without_an_address_is_an_error() {
    let server = |server: &str| {
        with(&format!(
            "agent: {{ type: claude-code, config: {{ prompt: Fix all of it., mcp_servers: {{ a: {server} }} }} }}"
        ))
    };
    for right in ["{ command: x, args: [y] }", "{ type: http, url: 'https://x' }", "{ httpUrl: 'https://x' }"]
    {
        assert!(server(right).case.is_some(), "{right}");
    }
    let typo = messages(&server("{ comand: x }"));
    assert!(typo.contains("unknown key of an MCP server: `comand`"), "{typo}");
    let none = messages(&server("{ args: [x] }"));
    assert!(none.contains("an MCP server has neither `command` nor `url`"), "{none}");
}

#[test]
fn allowed_tools_that_restrict_nothing_are_a_warning() {
    let tools = |config: &str| {
        messages(&with(&format!(
            "agent: {{ type: claude-code, config: {{ prompt: Fix all of it., {config} }} }}"
        )))
    };
    let warned = tools("allowed_tools: [Read], permission_mode: bypassPermissions");
    assert!(warned.contains("`allowed_tools` restricts nothing"), "{warned}");
    for holds in ["allowed_tools: [Read]", "allowed_tools: [Read], permission_mode: dontAsk"] {
        assert_eq!(tools(holds), "", "{holds}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported() {
    let loaded = parse(
        "youbencha: 1\nname: ''\nnmae: x\nrepo: ftp://x\nagent: { type: x, config: { prompt: 5 } }\nevaluators: []\ntimeout: -1\n",
    );
    let keys: Vec<_> = loaded.diagnostics.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(
        keys,
        ["description", "name", "nmae", "repo", "agent.type", "agent.config.prompt", "evaluators", "timeout"]
    );
}

#[test]
fn variables_are_expanded_and_unknown_ones_reported() {
    let variables =
        [("BASE", "https://github.com/a"), ("WHO", "${BASE}")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let options = builtin().with_variables(variables.into());
    let text = BASE
        .replace("https://github.com/example/x.git", "${BASE}/x.git")
        .replace("A case", "'${WHO} ${BSAE} ${NOPE} ${x:-y} ${'");
    let loaded = yb_case::parse("case.yaml".as_ref(), text.as_bytes(), &options);
    let hints: Vec<_> = loaded.diagnostics.iter().filter_map(|found| found.hint.as_deref()).collect();
    assert_eq!(
        hints,
        ["did you mean `BASE`?", "define it under `variables` in `.youbencharc`; it is not replaced"]
    );
    let case = loaded.case.unwrap();
    assert_eq!(case.name, "${BASE} ${BSAE} ${NOPE} ${x:-y} ${", "a value is not looked at again");
    assert_eq!(case.start.to_string(), "https://github.com/a/x.git");
    warns("name: ${ENV:HOME}", "environment variables are not expanded here: `${ENV:HOME}`");
    let graders = "prepare: [{ command: x, env: { A: '${ENV:HOME}' } }]\n\
                   evaluators: [{ name: command, config: { argv: [x], env: { A: '${ENV:HOME}' } } }]\n";
    let text =
        BASE.split_once("evaluators:").map_or_else(String::new, |(rest, _)| format!("{rest}{graders}"));
    let loaded = yb_case::parse("case.yaml".as_ref(), text.as_bytes(), &options);
    let messages: Vec<_> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert!(loaded.case.is_some(), "{messages:?}");
    assert!(!messages.iter().any(|text| text.contains("not expanded here")), "{messages:?}");
}

#[test]
fn key_without_a_value_is_ignored() {
    let case = warns("branch:", "no value: `branch`");
    assert!(matches!(&case.start, Start::Repo { branch: None, .. }));
}
