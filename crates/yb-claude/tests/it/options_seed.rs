//! The literal command of the first specification.

use yb_claude::{INLINE_LIMIT, Invocation, Options, Session, Target};

const UUID: &str = "a173f5a0-3642-4197-8000-000000000001";

fn seed(options: &Options, prompt: &str) -> Invocation {
    options.seed_invocation(&prompt.into(), &Target::new("/private")).unwrap()
}

fn args(invocation: &Invocation) -> Vec<&str> {
    invocation.args.iter().map(|arg| arg.to_str().unwrap()).collect()
}

/// CR-2.4.
#[test]
fn cr_2_4_the_prompt_is_the_argument_of_p() {
    let options = Options::default().with_max_turns(7).with_allowed_tools(["Bash", "Read", "Write", "Edit"]);
    let invocation = seed(&options, "List files");
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
    let invocation = seed(&with_session, "List files");
    assert_eq!(args(&invocation), [&start[..], &["--session-id", UUID], &tools].concat());
}

#[test]
fn turns_have_a_default_and_other_options_follow() {
    let options = Options::default().with_model("haiku").with_session(Session::Resume("abc".to_owned()));
    let invocation = seed(&options, "x");
    assert_eq!(
        args(&invocation),
        ["-p", "x", "--output-format", "json", "--max-turns", "10", "--resume=abc", "--model=haiku"]
    );
}

#[test]
fn a_large_prompt_and_one_like_a_flag_go_to_stdin() {
    let rest = ["--output-format", "json", "--max-turns", "10"];
    let large = "x".repeat(INLINE_LIMIT + 1);
    for prompt in ["--dangerously-skip-permissions", "-", &large] {
        let invocation = seed(&Options::default(), prompt);
        assert_eq!(args(&invocation), [&["-p"][..], &rest].concat());
        assert_eq!(invocation.stdin, prompt.as_bytes());
    }
    let largest = "x".repeat(INLINE_LIMIT);
    assert_eq!(args(&seed(&Options::default(), &largest))[1], largest);
}

#[test]
fn an_interpreted_prompt_warns_and_strict_refuses_it() {
    let options = Options::default();
    assert_eq!(seed(&options, "/cost").warnings.len(), 1);
    assert!(options.with_strict(true).seed_invocation(&"/cost".into(), &Target::new("/p")).is_err());
}
