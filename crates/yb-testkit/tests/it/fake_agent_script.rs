//! Finding, parsing and validating scripts.

use rustix::process::Signal;
use yb_testkit::{FakeAgent, bin, fake_agent};

use crate::support::{AgentDir, run, stderr, stdout};

#[test]
fn script_beside_program_is_found_under_any_name() {
    let agent = AgentDir::new("- print: mine");
    assert_eq!(stdout(&agent.run()), "mine\n");

    let mut command = std::process::Command::new("claude");
    let output = command.env_clear().env("PATH", agent.path("bin")).output().unwrap();
    assert_eq!(stdout(&output), "mine\n");
}

#[test]
fn script_argument_wins_over_variable_over_file() {
    let agent = AgentDir::new("- print: beside");
    std::fs::write(agent.path("env.yaml"), "- print: variable").unwrap();
    std::fs::write(agent.path("arg.yaml"), "- print: argument").unwrap();
    let output = agent.command().env(fake_agent::SCRIPT_VARIABLE, "env.yaml").output().unwrap();
    assert_eq!(stdout(&output), "variable\n");
    let mut command = agent.command();
    command.env(fake_agent::SCRIPT_VARIABLE, "env.yaml").args(["--script", "arg.yaml", "-p"]);
    assert_eq!(stdout(&command.output().unwrap()), "argument\n");
}

#[test]
fn missing_script_error_lists_candidates() {
    let output = std::process::Command::new(bin("fake-agent")).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(fake_agent::EXIT_BAD_SCRIPT));
    assert!(
        stderr(&output).contains("fake-agent: no script: pass `--script PATH`, set YB_FAKE_AGENT_SCRIPT")
    );
}

#[test]
fn invalid_script_error_names_step() {
    let check = |yaml: &str, expect: &str| {
        let agent = AgentDir::new("- print: replaced");
        std::fs::write(agent.path("bad.yaml"), yaml).unwrap();
        let output = agent.command().args(["--script", "bad.yaml"]).output().unwrap();
        assert_eq!(output.status.code(), Some(fake_agent::EXIT_BAD_SCRIPT), "{yaml}");
        assert!(stderr(&output).contains(expect), "{yaml}: {}", stderr(&output));
    };
    check("- print: a\n- prnt: b", "step 2: unknown variant `prnt`");
    check("- child: {steps: [{exit: 0}, {sleep_ms: long}]}", "step 1: step 2: invalid type");
    check("- print: {line: a, too: stderr}", "step 1: unknown field `too`");
    check("- ignore: [NOSUCH]", "step 1: unknown signal: NOSUCH");
    check("- child: {steps: [{sleep_ms: 120001}]}", "`sleep_ms: 120001` is longer than `cap_s: 120`");
    check("cap_s: 1\nsteps: [{sleep_ms: 1500}]", "longer than `cap_s: 1`");
    check("- print: '{{nobody}}'", "no captured value: `nobody`");
    check("- print: [unclosed", "bad.yaml");
}

#[test]
#[should_panic(expected = "unknown variant `prnt`")]
fn builder_rejects_invalid_script() {
    let dir = tempfile::tempdir().unwrap();
    let _ = FakeAgent::in_dir(dir.path()).script("- prnt: a");
}

#[test]
fn lifetime_cap_ends_every_process() {
    let script = "
cap_s: 1
steps:
- daemon: {steps: [{read_stdin: {}}, {sleep_ms: 900}, {sleep_ms: 900}]}
- sleep_ms: 900
- sleep_ms: 900
";
    // `output` waits for all processes that hold the pipes, including the daemon.
    let output = run(script);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(Signal::ALARM.as_raw()));
}

#[test]
fn readme_examples_are_valid() {
    let readme = include_str!("../../README.md");
    let (_, examples) = readme.split_once("```yaml\n").unwrap();
    let (examples, _) = examples.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let examples: Vec<&str> = examples.split("---\n").collect();
    assert_eq!(examples.len(), 7);
    for script in examples {
        let _ = FakeAgent::in_dir(dir.path()).script(script);
    }
}
