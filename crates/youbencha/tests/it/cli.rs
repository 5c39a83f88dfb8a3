//! Help, version and mistakes in the arguments.

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

fn run(args: &[&str]) -> String {
    TestContext::new().run(YB, args).snapshot()
}

#[test]
fn version() {
    assert_snapshot!(run(&["--version"]), @r"
    exit code: 0
    ----- stdout -----
    yb [VERSION]
    ----- stderr -----
    ");
    let long_name = TestContext::new().run(env!("CARGO_BIN_EXE_youbencha"), ["--version"]).snapshot();
    assert_eq!(long_name, run(&["--version"]));
}

#[test]
fn help() {
    assert_snapshot!(run(&["--help"]), @r"
    exit code: 0
    ----- stdout -----
    Run, replay, grade and trace coding agents

    Usage: yb <COMMAND>

    Commands:
      ask               Ask Claude Code one question
      baseline          Keep a run's results under a name, to compare later runs with
      clean             Remove runs that nobody needs any more
      compare           Compare two runs case by case, and tell whether it got worse
      completions       Print a script that completes commands and options in a shell
      config            Show and change settings
      demo              See Claude Code be recorded, replayed and graded, offline and for nothing
      doctor            Check what running cases needs: git, agents, containment, disk, memory
      gate              Ask again whether a run holds its gates
      index             The index over all runs of this project, a SQLite file
      eval              Grade a directory that is there, or grade a recorded run again
      init              Write a case that runs at once, offline: `testcase.yaml` and a tiny project
      install-agents    Install the judge's definition for agents, or agents' programs
      list              List the agents and evaluators that a case may name, or the runs of this project
      prompt            Fill in prompt files, ask with them, test them
      report            Turn a run into a page, Markdown, JSON, CSV, JUnit or a pull request comment
      run               Run cases: the agents, what they changed, and whether that holds
      schema            Print the JSON Schema of case, suite or eval files, or of results
      show              Show a run or a trial: what it came to, what was said, what was changed
      suggest-testcase  Let an agent propose a case, out of what an agent left
      tape              Stand in for an agent's model API: script, record, replay, look
      validate          Check case and suite files and show everything that is wrong; nothing is started
      help              Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Exit codes:
        0  everything ran and passed; with gates: every gate held
        1  something evaluated failed, or a gate did not hold
        2  usage or configuration error; nothing was started
        3  an agent is not installed or not authenticated
        4  infrastructure: trials could not be completed
        5  cannot tell: too few or too uncertain results for the question
      130  interrupted or terminated
    ----- stderr -----
    ");
}

#[test]
fn nothing_typed_is_a_usage_error_that_helps() {
    assert_snapshot!(run(&[]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    Run, replay, grade and trace coding agents

    Usage: yb <COMMAND>

    Commands:
      ask               Ask Claude Code one question
      baseline          Keep a run's results under a name, to compare later runs with
      clean             Remove runs that nobody needs any more
      compare           Compare two runs case by case, and tell whether it got worse
      completions       Print a script that completes commands and options in a shell
      config            Show and change settings
      demo              See Claude Code be recorded, replayed and graded, offline and for nothing
      doctor            Check what running cases needs: git, agents, containment, disk, memory
      gate              Ask again whether a run holds its gates
      index             The index over all runs of this project, a SQLite file
      eval              Grade a directory that is there, or grade a recorded run again
      init              Write a case that runs at once, offline: `testcase.yaml` and a tiny project
      install-agents    Install the judge's definition for agents, or agents' programs
      list              List the agents and evaluators that a case may name, or the runs of this project
      prompt            Fill in prompt files, ask with them, test them
      report            Turn a run into a page, Markdown, JSON, CSV, JUnit or a pull request comment
      run               Run cases: the agents, what they changed, and whether that holds
      schema            Print the JSON Schema of case, suite or eval files, or of results
      show              Show a run or a trial: what it came to, what was said, what was changed
      suggest-testcase  Let an agent propose a case, out of what an agent left
      tape              Stand in for an agent's model API: script, record, replay, look
      validate          Check case and suite files and show everything that is wrong; nothing is started
      help              Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    ");
    assert_snapshot!(run(&["tape"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    Stand in for an agent's model API: script, record, replay, look

    Usage: yb tape <COMMAND>

    Commands:
      diff    Compare what two tapes say, turn by turn; exits with 1 where they differ
      record  Run a command with a recorder between it and its model
      redact  Copy a tape without secrets that nobody knew of when it was recorded
      serve   Serve a scripted model, or a recorded tape, on loopback until Ctrl-C
      show    Show what is on a tape: its conversations, turn by turn
      verify  Check that tapes are whole; exits with 1 where one is not
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help (see more with '--help')
    ");
}

#[test]
fn help_of_tape_serve() {
    assert_snapshot!(run(&["tape", "serve", "--help"]), @r"
    exit code: 0
    ----- stdout -----
    Serve a scripted model, or a recorded tape, on loopback until Ctrl-C

    Prints the address and the environment that points Claude Code to it, then one line for each
    request. Being stopped by a signal is its only end, so its exit code is 130.

    Usage: yb tape serve [OPTIONS] <SCRIPT>

    Arguments:
      <SCRIPT>
              The script, a YAML file, or a tape

    Options:
          --port <N>
              Port on 127.0.0.1; 0 takes any free one
              
              [default: 0]

          --var <NAME=VALUE>
              Set a variable that the script uses as `{{NAME}}`, or a directory of a tape, such as
              `workspace`; may be repeated

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      yb tape serve model.yaml
      yb tape serve model.yaml --port [PORT] --var workspace=/tmp/repo
    ----- stderr -----
    ");
}

#[test]
fn help_of_ask() {
    assert_snapshot!(run(&["ask", "-h"]), @r"
    exit code: 0
    ----- stdout -----
    Ask Claude Code one question

    Usage: yb ask [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]  The question; without it, or with `-`, stdin

    Options:
          --json                   Print one JSON object with text, model, tokens, cost, session and
                                   duration
          --resume <SESSION>       Go on with an earlier session
          --model <MODEL>          The model, by name or alias
          --max-budget-usd <USD>   Stop when the answer has cost this much
          --max-turns <N>          Stop after this many turns [default: 10]
          --timeout <SECONDS>      Stop after this many seconds [default: 600]
          --allowed-tools <TOOLS>  Tools that need no permission, such as `Bash,Edit`; by default it may
                                   only look
          --claude <PATH>          Where Claude Code is: a program, or a folder with `node_modules`
                                   [default: searched]
      -h, --help                   Print help (see more with '--help')

    Traces:
          --otel[=<URL>]      Send a trace over OTLP [default: what `OTEL_EXPORTER_OTLP_ENDPOINT` or the
                              settings say, or `http://127.0.0.1:[PORT]`]
          --otel-file <FILE>  Add the trace to this file, as lines of OTLP JSON
          --otel-content      Put prompts, answers and tool calls into the trace; secrets are taken out
    ----- stderr -----
    ");
}

#[test]
fn unknown_command() {
    assert_snapshot!(run(&["tpae"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'tpae'

      tip: a similar subcommand exists: 'tape'

    Usage: yb <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn bad_arguments() {
    assert_snapshot!(run(&["tape", "serve"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <SCRIPT>

    Usage: yb tape serve <SCRIPT>

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["tape", "serve", "a.yaml", "--var", "workspace"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'workspace' for '--var <NAME=VALUE>': expected `NAME=VALUE`

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["tape", "serve", "a.yaml", "--port", "70000"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '70000' for '--port <N>': 70000 is not in 0..=65535

    For more information, try '--help'.
    ");
}
