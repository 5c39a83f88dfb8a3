//! `yb tape record`, `show`, `diff`, `verify` and `redact`.

use insta::assert_snapshot;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Outcome, TestContext};

use crate::YB;

const SECRET: &str = "very-secret-token";

fn server(said: &str) -> MockServer {
    let script = format!(
        "tape: 1\nlanes:\n  main:\n    - tools: [{{ Bash: {{ command: echo \"$DEPLOY_WORD\", description: x }} }}]\n    - say: {said}\n"
    );
    MockServer::start(Script::parse(&script, &Vars::new()).unwrap(), &MockServerOptions::default()).unwrap()
}

fn record(context: &TestContext, said: &str, tape: &str) -> Outcome {
    let server = server(said);
    let command = context.command(YB).args(["tape", "record", "--output", tape, "--upstream"]);
    command
        .arg(server.base_url())
        .args(["--", YB, "scripted-agent"])
        .env("DEPLOY_WORD", SECRET)
        .stdin("Say something.")
        .run()
}

#[test]
fn tape_records_shows_and_compares_any_command() {
    let mut context = TestContext::new();
    context.filter(r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]").filter(r", \d+\.\d s,", ", [TIME],");
    let recorded = record(&context, "Done.", "one.tape");
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(recorded.stdout.contains(r#""result":"Done.""#), "{}", recorded.stdout);
    assert_snapshot!(context.filtered(&recorded.stderr), @r"
    recording http://127.0.0.1:[PORT] into one.tape
    recorded 2 exchanges, 20 input tokens, 10 output tokens: one.tape
    ");
    assert_snapshot!(context.run(YB, ["tape", "show", "one.tape"]).snapshot(), @r#"
    exit code: 0
    ----- stdout -----
    tape: one.tape
    upstream: http://127.0.0.1:[PORT]
    2 exchanges, 20 input tokens, 10 output tokens

    main: Say something.
      turn 1: 200, [TIME], 10 input tokens, 5 output tokens
        > user message: Say something.
        < Bash {"command":"echo \"$DEPLOY_WORD\"","description":"x"}
      turn 2: 200, [TIME], 10 input tokens, 5 output tokens
        > result of tool call `toolu_main_1_1`: very-secret-token
        < text: Done.
    ----- stderr -----
    "#);
    let json: serde_json::Value =
        serde_json::from_str(&context.run(YB, ["tape", "show", "one.tape", "--json"]).stdout).unwrap();
    assert_eq!((&json["exchanges"], &json["lanes"][0]["name"]), (&2.into(), &"main".into()));

    record(&context, "Well done.", "two.tape");
    let same = context.run(YB, ["tape", "diff", "one.tape", "one.tape"]);
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "no differences\n"));
    let other = context.run(YB, ["tape", "diff", "one.tape", "two.tape"]);
    assert_eq!(other.code, Some(1), "{}", other.stdout);
    assert!(other.stdout.contains("main, turn 2"), "{}", other.stdout);
    let over = record(&context, "Done.", "one.tape");
    assert_eq!(over.code, Some(2), "{}", over.stderr);
    assert!(over.stderr.contains("existing tapes are never overwritten"), "{}", over.stderr);
}

#[test]
fn truncated_tape_is_reported_and_secrets_are_redacted() {
    let context = TestContext::new();
    record(&context, "Done.", "one.tape");
    let whole = std::fs::read(context.dir().join("one.tape")).unwrap();
    context.write("cut.tape", &whole[..whole.len() - 10]);
    let verified = context.run(YB, ["tape", "verify", "one.tape", "cut.tape"]);
    assert_eq!(verified.code, Some(1), "{}", verified.stdout);
    assert!(verified.stdout.starts_with("ok       one.tape\nbroken   cut.tape\n"), "{}", verified.stdout);

    let says = |tape: &str| context.run(YB, ["tape", "show", tape, "--full"]).stdout;
    assert!(says("one.tape").contains(SECRET), "nobody knew that it is one");
    let redact = context.command(YB).args(["tape", "redact", "one.tape", "--output", "clean.tape"]);
    let redacted = redact.args(["--secret", "DEPLOY_WORD"]).env("DEPLOY_WORD", SECRET).run();
    assert_eq!(redacted.code, Some(0), "{}", redacted.stderr);
    assert!(!says("clean.tape").contains(SECRET) && says("clean.tape").contains("[REDACTED:DEPLOY_WORD]"));
    let unset =
        context.run(YB, ["tape", "redact", "one.tape", "--output", "x.tape", "--secret", "DEPLOY_WORD"]);
    assert_snapshot!(unset.snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: environment variable is not set: `DEPLOY_WORD`
    hint: `--secret` takes the name of a variable, so that the value is not visible in process lists
    ");
}

#[test]
fn tape_errors_name_the_tape_and_a_hint() {
    let context = TestContext::new();
    record(&context, "Done.", "one.tape");
    assert_snapshot!(context.run(YB, ["tape", "show", "one.tape", "--lane", "sub"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no such lane in `one.tape`: `sub`
    hint: lanes of the tape: `main`
    ");
    assert_snapshot!(context.run(YB, ["tape", "show", "none.tape"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: failed to read tape: `none.tape`
      caused by: No such file or directory (os error 2)
    ");
    let started = context.run(YB, ["tape", "record", "--output", "x.tape", "--", "no-such-program"]);
    assert_eq!(started.code, Some(2), "{}", started.stderr);
    assert!(started.stderr.contains("failed to start `no-such-program`"), "{}", started.stderr);
    assert!(!context.dir().join("x.tape").exists());
}
