//! The validation rules, in lenient and strict mode.

use serde_json::json;
use yb_claude::{
    Agent, AgentDefinition, InvocationTarget, MAX_PROMPT_CHARS, McpServer, Options, OptionsError,
    OutputFormat, Prompt, Session, SystemPrompt, TextSource,
};

fn options() -> Options {
    Options::default()
}

/// Returns the fields of an error.
fn errors(options: &Options) -> Vec<String> {
    match options.validate() {
        Ok(_) => Vec::new(),
        Err(OptionsError::Invalid(issues)) => {
            assert!(issues.iter().all(|issue| !issue.message.is_empty() && !issue.hint.is_empty()));
            issues.into_iter().map(|issue| issue.field).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

/// Invalid in both modes.
#[track_caller]
fn wrong(options: Options, field: &str) {
    assert_eq!(errors(&options), [field]);
    assert!(errors(&options.with_strict(true)).contains(&field.to_owned()));
}

/// Valid in both modes.
#[track_caller]
fn fine(options: Options) {
    assert_eq!(options.validate(), Ok(Vec::new()));
    assert_eq!(options.with_strict(true).validate(), Ok(Vec::new()));
}

/// A warning, and an error in strict mode.
#[track_caller]
fn doubtful(options: Options, field: &str) {
    let warnings = options.validate().unwrap();
    assert_eq!(warnings.iter().map(|issue| issue.field.as_str()).collect::<Vec<_>>(), [field]);
    assert_eq!(errors(&options.with_strict(true)), [field]);
}

#[test]
fn prompts_have_1_to_1_000_000_characters() {
    let check = |prompt: Prompt, fine: bool| {
        assert_eq!(options().invocation(&prompt, &InvocationTarget::new("/p")).is_ok(), fine);
    };
    check("".into(), false);
    check(" \n".into(), false);
    check("x".into(), true);
    check("é".repeat(MAX_PROMPT_CHARS).into(), true);
    check("x".repeat(MAX_PROMPT_CHARS + 1).into(), false);
    check("a\0".into(), false);
    check(Prompt::blocks(vec![]), false);
    check(Prompt::blocks(vec![json!("text")]), false);
}

#[test]
fn models() {
    fine(options().with_model("claude-sonnet-4-5-20250929"));
    for lenient in
        ["sonnet", "opus[1m]", "anthropic/claude-x", "us.anthropic.claude-x-v1:0", "claude-x@20250101"]
    {
        assert_eq!(options().with_model(lenient).validate(), Ok(Vec::new()), "{lenient}");
        assert_eq!(errors(&options().with_model(lenient).with_strict(true)), ["model"], "{lenient}");
    }
    for bad in ["", "a b", "-x", "a,b", "anthropic/", "x\n"] {
        wrong(options().with_model(bad), "model");
    }
    wrong(options().with_fallback_models(["claude-a", ""]), "fallback_models[1]");
    doubtful(options().with_model("claude-a").with_fallback_models(["claude-a"]), "fallback_models");
    wrong(options().with_betas(["a,b"]), "betas[0]");
}

#[test]
fn agent_names_have_1_to_100_word_characters() {
    let agent = |name: &str| options().with_agent_definition(name, AgentDefinition::new("d", "p"));
    fine(agent("code-reviewer_2").with_agent(Agent::Defined("code-reviewer_2".to_owned())));
    fine(agent(&"a".repeat(100)));
    for bad in ["", "a b", "../x", "é", &"a".repeat(101)] {
        wrong(agent(bad), &format!("agents[{bad}]"));
    }
    wrong(options().with_agent(Agent::Defined("nope".to_owned())), "agent");
    doubtful(options().with_agent(Agent::KnownToCli("Plan".to_owned())), "agent");
    wrong(options().with_agent_definition("a", AgentDefinition::new(" ", "p")), "agents[a]");
    wrong(options().with_agent_definition("a", AgentDefinition::new("d", "")), "agents[a]");
    wrong(options().with_mcp_server("a b", McpServer::http("u")), "mcp_servers[a b]");
}

#[test]
fn lengths_of_system_prompts() {
    let system = |length| options().with_system_prompt(SystemPrompt::Text("é".repeat(length)));
    let append = |length| options().with_append_system_prompt(TextSource::Text("é".repeat(length)));
    fine(system(50_000));
    doubtful(system(50_001), "system_prompt");
    fine(append(10_000));
    doubtful(append(10_001), "append_system_prompt");
    wrong(options().with_system_prompt(SystemPrompt::Text("\0".to_owned())), "system_prompt");
}

#[test]
fn numbers() {
    fine(options().with_max_output_tokens(1));
    fine(options().with_max_output_tokens(200_000));
    wrong(options().with_max_output_tokens(0), "max_output_tokens");
    wrong(options().with_max_output_tokens(200_001), "max_output_tokens");
    doubtful(options().with_temperature(0.0), "temperature");
    doubtful(options().with_temperature(1.0), "temperature");
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        wrong(options().with_temperature(bad), "temperature");
    }
    fine(options().with_max_turns(1));
    wrong(options().with_max_turns(0), "max_turns");
    fine(options().with_max_budget_usd(0.01));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        wrong(options().with_max_budget_usd(bad), "max_budget_usd");
    }
    wrong(options().with_task_budget(0), "task_budget");
    wrong(options().with_json_schema(json!([])), "json_schema");
}

#[test]
fn tools() {
    fine(options().with_tools([""; 0]).with_allowed_tools(["Bash", "Bash(git *)", "mcp__x__*"]));
    wrong(options().with_tools(["Read", "-x"]), "tools[1]");
    wrong(options().with_allowed_tools(["Read,Write"]), "allowed_tools[0]");
    wrong(options().with_disallowed_tools([""]), "disallowed_tools[0]");
    wrong(options().with_permission_prompt_tool("--x"), "permission_prompt_tool");
}

#[test]
fn sessions_and_output() {
    wrong(options().with_session(Session::WithId("abc".to_owned())), "session");
    wrong(options().with_session(Session::Resume(" ".to_owned())), "session");
    wrong(options().with_session(Session::Fork { of: None, id: Some("x".to_owned()) }), "session");
    wrong(options().with_resume_at("m"), "resume_at");
    wrong(
        options().with_output(OutputFormat::Json).with_include_partial_messages(true),
        "include_partial_messages",
    );
    wrong(options().with_cwd("relative"), "cwd");
    wrong(options().with_env("A=B", ""), "env[A=B]");
    wrong(options().with_env("", ""), "env[]");
}

#[test]
fn extra_flags() {
    fine(options().with_extra_arg("autocompact", "-1").with_extra_flag("chrome"));
    for bad in ["", "-p", "--x", "a=b", "a b", "output-format", "dangerously-skip-permissions"] {
        assert!(errors(&options().with_extra_flag(bad)).contains(&"extra_args[0]".to_owned()), "{bad}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let options = options().with_model("a b").with_max_turns(0).with_temperature(2.0).with_tools(["-x"]);
    let error = options.validate().unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid options: `model`: expected an alias such as `sonnet`, or a model's full name; \
         `max_turns`: expected at least 1; `temperature`: expected 0 to 1; \
         `tools[0]`: expected a tool such as `Read`, `Bash(git *)` or `mcp__server__*`"
    );
    assert_eq!(error.hints().len(), 4);
    let prompt_too = options.invocation(&"".into(), &InvocationTarget::new("/p")).unwrap_err();
    assert_eq!(prompt_too.hints().len(), 5);
}
