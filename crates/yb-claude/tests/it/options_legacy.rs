//! The legacy command line.

use yb_claude::{INLINE_LIMIT, Invocation, InvocationTarget, Options, Session};

const UUID: &str = "a173f5a0-3642-4197-8000-000000000001";

fn legacy(options: &Options, prompt: &str) -> Invocation {
    options.legacy_invocation(&prompt.into(), &InvocationTarget::new("/private")).unwrap()
}

fn args(invocation: &Invocation) -> Vec<&str> {
    invocation.args.iter().map(|arg| arg.to_str().unwrap()).collect()
}

/// CR-2.4.
#[test]
fn cr_2_4_prompt_is_argument_of_p() {
    let options = Options::default().with_max_turns(7).with_allowed_tools(["Bash", "Read", "Write", "Edit"]);
    let invocation = legacy(&options, "List files");
    let tools = [
        "--allowedTools",
        "Bash",
        "--allowedTools",
        "Read",
        "--allowedTools",
        "Write",
        "--allowedTools",
        "Edit",
    ];
    let start = ["-p", "List files", "--output-format", "json", "--max-turns", "7"];
    assert_eq!(args(&invocation), [&start[..], &tools].concat());
    assert_eq!(invocation.stdin, b"");

    let with_session = options.with_session(Session::from_id(UUID));
    let invocation = legacy(&with_session, "List files");
    assert_eq!(args(&invocation), [&start[..], &["--session-id", UUID], &tools].concat());
}

#[test]
fn legacy_form_has_default_turns_and_appends_other_options() {
    let options = Options::default().with_model("haiku").with_session(Session::Resume("abc".to_owned()));
    let invocation = legacy(&options, "x");
    assert_eq!(
        args(&invocation),
        ["-p", "x", "--output-format", "json", "--max-turns", "10", "--resume=abc", "--model=haiku"]
    );
}

#[test]
fn large_or_flag_like_prompt_is_passed_on_stdin() {
    let rest = ["--output-format", "json", "--max-turns", "10"];
    let large = "x".repeat(INLINE_LIMIT + 1);
    for prompt in ["--dangerously-skip-permissions", "-", &large] {
        let invocation = legacy(&Options::default(), prompt);
        assert_eq!(args(&invocation), [&["-p"][..], &rest].concat());
        assert_eq!(invocation.stdin, prompt.as_bytes());
    }
    let largest = "x".repeat(INLINE_LIMIT);
    assert_eq!(args(&legacy(&Options::default(), &largest))[1], largest);
}

#[test]
fn interpreted_prompt_warns_and_fails_in_strict_mode() {
    let options = Options::default();
    assert_eq!(legacy(&options, "/cost").warnings.len(), 1);
    assert!(
        options.with_strict(true).legacy_invocation(&"/cost".into(), &InvocationTarget::new("/p")).is_err()
    );
}
