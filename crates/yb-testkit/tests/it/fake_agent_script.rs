//! How a script is found, read and refused.

use rustix::process::Signal;
use yb_testkit::{FakeAgent, bin, fake_agent};

use crate::support::{Stage, run, stderr, stdout};

#[test]
fn the_script_beside_the_program_is_found_under_any_name_and_through_path() {
    let stage = Stage::new("- print: mine");
    assert_eq!(stdout(&stage.run()), "mine\n");

    let mut command = std::process::Command::new("claude");
    let output = command.env_clear().env("PATH", stage.path("bin")).output().unwrap();
    assert_eq!(stdout(&output), "mine\n");
}

#[test]
fn an_argument_wins_over_the_variable_and_the_variable_over_the_file() {
    let stage = Stage::new("- print: beside");
    std::fs::write(stage.path("env.yaml"), "- print: variable").unwrap();
    std::fs::write(stage.path("arg.yaml"), "- print: argument").unwrap();
    let output = stage.command().env(fake_agent::SCRIPT_VARIABLE, "env.yaml").output().unwrap();
    assert_eq!(stdout(&output), "variable\n");
    let mut command = stage.command();
    command.env(fake_agent::SCRIPT_VARIABLE, "env.yaml").args(["--script", "arg.yaml", "-p"]);
    assert_eq!(stdout(&command.output().unwrap()), "argument\n");
}

#[test]
fn without_a_script_it_says_where_one_could_be() {
    let output = std::process::Command::new(bin("fake-agent")).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(fake_agent::EXIT_BAD_SCRIPT));
    assert!(
        stderr(&output).contains("fake-agent: no script: give `--script PATH`, set YB_FAKE_AGENT_SCRIPT")
    );
}

#[test]
fn a_bad_script_names_the_step() {
    let check = |yaml: &str, expect: &str| {
        let stage = Stage::new("- print: replaced");
        std::fs::write(stage.path("bad.yaml"), yaml).unwrap();
        let output = stage.command().args(["--script", "bad.yaml"]).output().unwrap();
        assert_eq!(output.status.code(), Some(fake_agent::EXIT_BAD_SCRIPT), "{yaml}");
        assert!(stderr(&output).contains(expect), "{yaml}: {}", stderr(&output));
    };
    check("- print: a\n- prnt: b", "step 2: unknown variant `prnt`");
    check("- child: {steps: [{exit: 0}, {sleep_ms: long}]}", "step 1: step 2: invalid type");
    check("- print: {line: a, too: stderr}", "step 1: unknown field `too`");
    check("- ignore: [NOSUCH]", "step 1: unknown signal: NOSUCH");
    check("- child: {steps: [{sleep_ms: 120001}]}", "`sleep_ms: 120001` is longer than `cap_s: 120`");
    check("cap_s: 1\nsteps: [{sleep_ms: 1500}]", "longer than `cap_s: 1`");
    check("- print: '{{nobody}}'", "nothing was captured as `nobody`");
    check("- print: [unclosed", "bad.yaml");
}

#[test]
#[should_panic(expected = "unknown variant `prnt`")]
fn the_builder_refuses_a_bad_script_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let _ = FakeAgent::in_dir(dir.path()).script("- prnt: a");
}

#[test]
fn the_cap_ends_every_process_of_a_script() {
    let script = "
cap_s: 1
steps:
- daemon: {steps: [{read_stdin: {}}, {sleep_ms: 900}, {sleep_ms: 900}]}
- sleep_ms: 900
- sleep_ms: 900
";
    // `output` waits for everyone who holds the pipes, so for the daemon too.
    let output = run(script);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(Signal::ALARM.as_raw()));
}

#[test]
fn the_examples_of_the_readme_can_be_played() {
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
