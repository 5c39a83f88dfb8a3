//! Properties of all values: user input never becomes a flag, and no argument is too large.

use proptest::prelude::*;
use yb_claude::{
    Agent, AgentDefinition, INLINE_LIMIT, InvocationTarget, McpServer, Options, Session, Settings,
    SystemPrompt, TextSource,
};

/// Flag-like, large and arbitrary texts.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "-{0,3}[a-zA-Z=]{0,12}",
        "--dangerously-skip-permissions(=x)?",
        any::<String>(),
        "[a-z]{1,3}".prop_map(|text| text.repeat(70_000)),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (
        (text(), text(), text(), text(), text()),
        proptest::collection::vec(
            prop_oneof![9 => "[A-Z][a-z]{1,8}(\\([-a-z *]{1,8}x\\))?", 1 => "[-A-Z(*) ]{0,9}"],
            0..4,
        ),
        (text(), text(), "[A-Z-]{1,9}", "[a-z][-a-z]{0,8}"),
        any::<bool>(),
    )
        .prop_map(|((model, system, append, session, name), tools, (path, value, key, flag), small)| {
            let mut options = Options::default()
                .with_system_prompt(SystemPrompt::Text(system))
                .with_append_system_prompt(TextSource::Text(append))
                .with_session(Session::from_id(session))
                .with_name(name)
                .with_add_dir(&path)
                .with_settings(Settings::File(path.into()))
                .with_mcp_server("s", McpServer::stdio(value.clone(), [value.clone()]))
                .with_agent_definition("a", AgentDefinition::new("d", value.clone()))
                .with_agent(Agent::Defined("a".to_owned()))
                .with_env(key, value.clone())
                .with_allowed_tools(tools.clone());
            if small {
                options = options.with_model(model).with_tools(tools).with_extra_arg(flag, value);
            }
            options
        })
}

/// The fixed arguments; all others are `--flag` or `--flag=value`.
const WORDS: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

proptest! {
    #[test]
    fn values_never_become_flags_or_exceed_limit(options in options(), prompt in text()) {
        let invocation = options.invocation(&prompt.into(), &InvocationTarget::new("/private"));
        // Limit the number of rejected values, so that the test stays meaningful.
        prop_assume!(invocation.is_ok());
        let invocation = invocation.unwrap();
        prop_assert_eq!(&invocation.args[..6], WORDS.map(std::ffi::OsString::from));
        for arg in &invocation.args {
            prop_assert!(arg.len() <= INLINE_LIMIT);
            prop_assert!(!arg.as_encoded_bytes().contains(&0));
        }
        for arg in &invocation.args[6..] {
            let arg = arg.to_str().unwrap();
            // Exactly one argument, a known flag or `--flag=value`.
            let flag = arg.split('=').next().unwrap();
            prop_assert!(flag.starts_with("--") && flag.len() > 2, "{}", flag);
            prop_assert_ne!(flag, "--dangerously-skip-permissions");
        }
    }

    #[test]
    fn legacy_command_line_keeps_its_form(options in options(), prompt in text()) {
        let invocation = options.legacy_invocation(&prompt.as_str().into(), &InvocationTarget::new("/private"));
        prop_assume!(invocation.is_ok());
        let invocation = invocation.unwrap();
        let args: Vec<_> = invocation.args.iter().map(|arg| arg.to_str().unwrap()).collect();
        prop_assert!(args.iter().all(|arg| arg.len() <= INLINE_LIMIT));
        prop_assert_eq!(args[0], "-p");
        let by_argument = invocation.stdin.is_empty();
        let rest = if by_argument { 2 } else { 1 };
        prop_assert!(by_argument || invocation.stdin == prompt.as_bytes());
        prop_assert!(!by_argument || args[1] == prompt && !prompt.starts_with('-'));
        prop_assert_eq!(&args[rest..rest + 3], ["--output-format", "json", "--max-turns"]);
        prop_assert!(!args.contains(&"--dangerously-skip-permissions"));
    }
}
