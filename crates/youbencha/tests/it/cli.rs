//! Help, version and argument errors.

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

    Run:
      run               Run agents on cases and grade the results
      eval              Grade a directory, or re-grade a recorded run
      prompt            Render, run and test prompt files
      ask               Send one prompt to Claude Code
      demo              Run, record, replay and grade Claude Code in an offline demo

    Inspect:
      show              Show a run or a trial
      view              Serve pages about all runs, live, on 127.0.0.1
      open              Open the report of a run, or the workspace of a trial
      list              List agents, evaluators or runs
      report            Write a report as HTML, Markdown, JSON, CSV, JUnit or a pull request comment
      export            Export a run to ATIF, Inspect, Harbor, data frames or SWE-bench predictions
      index             Rebuild or query the SQLite index of all runs
      verify            Check that a run was not changed since it was recorded

    Compare:
      compare           Compare two runs and detect regressions
      diff              Show the difference between the results of two trials
      trend             Show pass rate, cost and time over the runs of a suite
      gate              Re-evaluate the gates of a run
      baseline          Manage baselines: named results to compare runs with

    Replay:
      tape              Mock, record and replay model API traffic

    Set up:
      init              Create an example case that runs offline
      import            Convert a suite of another tool to case and suite files
      validate          Check case and suite files
      check             Prove cases without an agent: untouched they fail, solved they pass
      schema            Print JSON Schemas of files and outputs
      suggest-testcase  Let an agent propose a case from the output of an agent
      config            Show and edit settings
      doctor            Check git, agents, containment, isolation, disk and memory
      self              Show how this program was installed and how to update it
      install-agents    Install agent CLIs, or the judge definition
      completions       Generate shell completions
      clean             Remove runs and cached repositories
      help              Print help of a command or topic

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Topics (`yb help TOPIC`):
      cases        Case files
      suites       Suite files
      evaluators   Evaluators
      gates        Conditions on results
      statistics   How comparisons are decided
      replay       Recording and replaying model API traffic
      isolation    Isolation, network access and limits
      runs         Files of a run and the index
      events       Events of `--json`
      prompts      Prompt files
      environment  Environment variables
      exit-codes   Exit codes

    Exit codes:
        0  all trials passed; with gates, all gates passed
        1  a trial or a gate failed
        2  usage or configuration error; nothing was started
        3  an agent is not installed or not authenticated
        4  infrastructure failure: trials could not be completed
        5  inconclusive: too few results for a decision
      130  interrupted or terminated
    ----- stderr -----
    ");
}

#[test]
fn no_command_is_a_usage_error_with_help() {
    assert_snapshot!(run(&[]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    Run, replay, grade and trace coding agents

    Usage: yb <COMMAND>

    Run:
      run               Run agents on cases and grade the results
      eval              Grade a directory, or re-grade a recorded run
      prompt            Render, run and test prompt files
      ask               Send one prompt to Claude Code
      demo              Run, record, replay and grade Claude Code in an offline demo

    Inspect:
      show              Show a run or a trial
      view              Serve pages about all runs, live, on 127.0.0.1
      open              Open the report of a run, or the workspace of a trial
      list              List agents, evaluators or runs
      report            Write a report as HTML, Markdown, JSON, CSV, JUnit or a pull request comment
      export            Export a run to ATIF, Inspect, Harbor, data frames or SWE-bench predictions
      index             Rebuild or query the SQLite index of all runs
      verify            Check that a run was not changed since it was recorded

    Compare:
      compare           Compare two runs and detect regressions
      diff              Show the difference between the results of two trials
      trend             Show pass rate, cost and time over the runs of a suite
      gate              Re-evaluate the gates of a run
      baseline          Manage baselines: named results to compare runs with

    Replay:
      tape              Mock, record and replay model API traffic

    Set up:
      init              Create an example case that runs offline
      import            Convert a suite of another tool to case and suite files
      validate          Check case and suite files
      check             Prove cases without an agent: untouched they fail, solved they pass
      schema            Print JSON Schemas of files and outputs
      suggest-testcase  Let an agent propose a case from the output of an agent
      config            Show and edit settings
      doctor            Check git, agents, containment, isolation, disk and memory
      self              Show how this program was installed and how to update it
      install-agents    Install agent CLIs, or the judge definition
      completions       Generate shell completions
      clean             Remove runs and cached repositories
      help              Print help of a command or topic

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Topics (`yb help TOPIC`):
      cases        Case files
      suites       Suite files
      evaluators   Evaluators
      gates        Conditions on results
      statistics   How comparisons are decided
      replay       Recording and replaying model API traffic
      isolation    Isolation, network access and limits
      runs         Files of a run and the index
      events       Events of `--json`
      prompts      Prompt files
      environment  Environment variables
      exit-codes   Exit codes
    ");
    assert_snapshot!(run(&["tape"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    Mock, record and replay model API traffic

    Usage: yb tape <COMMAND>

    Commands:
      diff    Compare two tapes turn by turn
      record  Record the model API traffic of a command
      redact  Copy a tape with further secrets redacted
      serve   Serve a scripted model or a tape on loopback
      show    Show the conversations on a tape
      verify  Check the integrity of tapes

    Options:
      -h, --help  Print help (see more with '--help')
    ");
}

#[test]
fn help_of_tape_serve() {
    assert_snapshot!(run(&["tape", "serve", "--help"]), @r"
    exit code: 0
    ----- stdout -----
    Serve a scripted model or a tape on loopback

    Prints the address, the environment variables for Claude Code, and a line for each request. Runs
    until Ctrl-C, with exit code 130.

    Usage: yb tape serve [OPTIONS] <SCRIPT>

    Arguments:
      <SCRIPT>
              Script (YAML) or tape

    Options:
          --port <N>
              Port on 127.0.0.1; 0 means any free port
              
              [default: 0]

          --var <NAME=VALUE>
              Set a script variable `{{NAME}}`, or a directory of a tape such as `workspace`; repeatable

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
    Send one prompt to Claude Code

    Usage: yb ask [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]  Prompt [default: stdin, also with `-`]

    Options:
          --json                   Print a JSON object with text, model, tokens, cost, session and
                                   duration
          --resume <SESSION>       Continue an earlier session
          --model <MODEL>          Model name or alias
          --max-budget-usd <USD>   Stop when the cost reaches this amount
          --max-turns <N>          Limit the number of turns [default: 10]
          --timeout <SECONDS>      Limit the time in seconds [default: 600]
          --allowed-tools <TOOLS>  Allow tools without permission prompts, such as `Bash,Edit` [default:
                                   read-only tools]
          --claude <PATH>          Path to Claude Code: a program or a directory with `node_modules`
                                   [default: search]
      -h, --help                   Print help (see more with '--help')

    Traces:
          --otel[=<URL>]      Export traces with OTLP [default: `OTEL_EXPORTER_OTLP_ENDPOINT`,
                              `otel.endpoint` or `http://127.0.0.1:[PORT]`]
          --otel-file <FILE>  Append traces to this file as lines of OTLP JSON
          --otel-content      Include prompts, answers and tool calls in traces; secrets are redacted
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
