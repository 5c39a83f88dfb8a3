//! `yb config`: effective values, sources and edits.

use insta::assert_snapshot;
use serde_json::Value;
use yb_testkit::TestContext;

use crate::YB;

#[test]
fn settings_are_listed_with_their_source() {
    let context = TestContext::new();
    std::fs::write(context.home().join(".youbencharc"), "timeout_ms: 1000\nagent: { model: opus }\n")
        .unwrap();
    context.write(".youbencharc", "agent: { model: sonnet }\nvariables: { BASE: here }\n");
    let outcome = context.command(YB).args(["config", "list"]).env("YB_LOG_LEVEL", "warn").run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    workspace_dir              .youbencha-workspace  default
    output_dir                 .youbencha-eval       default
    timeout_ms                 1000                  [TEMP]/home/.youbencharc
    log_level                  warn                  environment variable YB_LOG_LEVEL
    keep_workspace             true                  default
    observe_api                true                  default
    isolation                  auto                  default
    network                    open                  default
    agent.timeout_ms           -                     not set
    agent.model                sonnet                [TEMP]/work/.youbencharc
    evaluators.max_concurrent  4                     default
    limits.memory_mb           8192                  default
    limits.processes           1024                  default
    limits.cpu_seconds         0                     default
    limits.disk_mb             10240                 default
    otel.endpoint              -                     not set
    otel.file                  -                     not set
    otel.content               false                 default
    otel.vocabulary            genai-latest          default
    variables.BASE             here                  [TEMP]/work/.youbencharc
    ----- stderr -----
    ");
    let outcome = context.command(YB).args(["config", "list", "--json"]).env("YB_LOG_LEVEL", "warn").run();
    let rows: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let row = |key: &str| rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(row("log_level")["from"], "YB_LOG_LEVEL");
    assert_eq!(
        (row("timeout_ms")["value"].clone(), row("timeout_ms")["source"].clone()),
        (1000.into(), "user".into())
    );
    assert_snapshot!(context.run(YB, ["config", "list", "--global"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    agent.model  opus  [TEMP]/home/.youbencharc
    timeout_ms   1000  [TEMP]/home/.youbencharc
    ----- stderr -----
    ");
}

/// `list` and `run` use the same value.
#[test]
fn environment_variable_overrides_a_setting() {
    let context = TestContext::new();
    context.run(YB, ["init"]);
    let elsewhere = context.root().join("elsewhere");
    let run = |value: &str| {
        context.command(YB).args(["run", "-c", "testcase.yaml"]).env("YB_WORKSPACE_DIR", value).run()
    };
    assert_eq!(run(&elsewhere.to_string_lossy()).code, Some(0));
    assert!(elsewhere.join("runs").is_dir() && !context.dir().join(".youbencha-workspace").exists());
    let outcome = context.command(YB).args(["run", "-c", "testcase.yaml"]).env("YB_TIMEOUT_MS", "soon").run();
    assert_eq!(outcome.code, Some(2));
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: wrong value: `soon`
     --> YB_TIMEOUT_MS
      = key: `YB_TIMEOUT_MS`
      = expected: an integer, at least 1
    ");
}

#[test]
fn setting_is_set_read_and_removed() {
    let context = TestContext::new();
    context.write(".youbencharc", "# ours\nlog_level: warn # quiet\n");
    let yb = |args: &[&str]| context.run(YB, args);
    assert_snapshot!(yb(&["config", "set", "agent.model", "sonnet"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    set agent.model to sonnet in [TEMP]/work/.youbencharc
    ----- stderr -----
    ");
    assert_eq!(yb(&["config", "set", "log_level", "error"]).code, Some(0));
    assert_eq!(yb(&["config", "set", "variables.FLAG", "-x"]).code, Some(0));
    assert_eq!(
        context.read(".youbencharc"),
        "# ours\nlog_level: error # quiet\nagent:\n  model: sonnet\nvariables:\n  FLAG: \"-x\"\n"
    );
    assert_eq!(yb(&["config", "get", "agent.model"]).stdout, "sonnet\n");
    assert_eq!(yb(&["config", "get", "variables"]).stdout, "variables.FLAG: -x\n");
    assert_eq!(yb(&["config", "unset", "variables.FLAG"]).code, Some(0));
    assert_eq!(yb(&["config", "unset", "agent.model"]).code, Some(0));
    assert_eq!(context.read(".youbencharc"), "# ours\nlog_level: error # quiet\n");
    assert_snapshot!(yb(&["config", "get", "agent.model"]).snapshot(), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: not set: `agent.model`
    ");
    assert_eq!(yb(&["config", "unset", "agent.model"]).code, Some(1));
}

#[test]
fn global_file_is_separate() {
    let context = TestContext::new();
    context.write(".youbencharc.json", "{\"log_level\": \"warn\"}\n");
    assert_eq!(context.run(YB, ["config", "set", "--global", "log_level", "debug"]).code, Some(0));
    assert_eq!(std::fs::read_to_string(context.home().join(".youbencharc")).unwrap(), "log_level: debug\n");
    let outcome = context.run(YB, ["config", "set", "--global", "log_level", "info"]);
    assert!(outcome.stderr.contains("overridden by"), "{}", outcome.stderr);
    assert_eq!(context.run(YB, ["config", "get", "log_level"]).stdout, "warn\n");
    assert_eq!(context.run(YB, ["config", "get", "--global", "log_level"]).stdout, "info\n");
    assert_eq!(context.run(YB, ["config", "set", "timeout_ms", "5"]).code, Some(0));
    assert_eq!(context.read(".youbencharc.json"), "{\"log_level\": \"warn\", \"timeout_ms\": 5}\n");
}

#[test]
fn invalid_setting_changes_nothing() {
    let context = TestContext::new();
    let set = |key: &str, value: &str| context.run(YB, ["config", "set", key, value]).snapshot();
    assert_snapshot!(set("timout_ms", "5"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: unknown key: `timout_ms`
    hint: did you mean `timeout_ms`?
    ");
    assert_snapshot!(set("model", "opus"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: unknown key: `model`
    hint: did you mean `agent.model`?
    ");
    assert_snapshot!(set("agent", "opus"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: is a section, not a value: `agent`
    hint: use a key of the section: `agent.timeout_ms`, `agent.model`
    ");
    assert_snapshot!(set("timeout_ms", "soon"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `timeout_ms`: wrong value: `soon`
    hint: expected an integer, at least 1
    ");
    assert_snapshot!(set("log_level", "wran"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `log_level`: wrong value: `wran`
    hint: expected one of `debug`, `info`, `warn`, `error`
    hint: did you mean `warn`?
    ");
    assert_snapshot!(set("variables.a b", "x"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid variable name: `a b`
    hint: expected a variable name: letters, digits and `_`, not starting with a digit
    ");
    assert!(!context.dir().join(".youbencharc").exists());
    context.write(".youbencharc", "agent: [\n");
    assert_snapshot!(set("timeout_ms", "5"), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: not valid YAML: unclosed bracket `[`
     --> [TEMP]/work/.youbencharc:1:8
    1 | agent: [
      |        ^

    error: failed to change `timeout_ms` in `[TEMP]/work/.youbencharc`
      caused by: the file is invalid
    hint: edit the file by hand; nothing was changed
    ");
    assert_eq!(context.read(".youbencharc"), "agent: [\n");
}

#[test]
fn invalid_value_in_a_file_can_be_replaced() {
    let context = TestContext::new();
    context.write(".youbencharc", "log_level: loud\nmodle: x\n");
    assert_eq!(context.run(YB, ["config", "list"]).code, Some(2));
    assert_eq!(context.run(YB, ["config", "set", "log_level", "info"]).code, Some(0));
    assert_eq!(context.run(YB, ["config", "unset", "modle"]).code, Some(0));
    assert_eq!(context.read(".youbencharc"), "log_level: info\n");
    assert_eq!(context.run(YB, ["config", "unset", "modle"]).code, Some(2));
}

#[cfg(unix)]
#[test]
fn settings_are_not_written_through_a_link() {
    let context = TestContext::new();
    let elsewhere = context.root().join("dotfile");
    std::fs::write(&elsewhere, "timeout_ms: 1\n").unwrap();
    std::os::unix::fs::symlink(&elsewhere, context.dir().join(".youbencharc")).unwrap();
    assert_snapshot!(context.run(YB, ["config", "set", "timeout_ms", "5"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing to write through a symbolic link: `[TEMP]/work/.youbencharc`
    hint: name its target instead: `[TEMP]/dotfile`
    ");
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "timeout_ms: 1\n");
}

#[test]
fn new_file_documents_every_key() {
    let context = TestContext::new();
    assert_eq!(context.run(YB, ["config", "init"]).code, Some(0));
    assert_snapshot!(context.read(".youbencharc"), @r"
    # Settings of youBencha. Uncomment a line to set its key.
    # `yb config list` shows the effective values and their sources; environment variables override this file.

    # Directory of runs. (YB_WORKSPACE_DIR)
    #workspace_dir: .youbencha-workspace

    # Directory of the results of `yb eval`. (YB_OUTPUT_DIR)
    #output_dir: .youbencha-eval

    # Timeout of each step in milliseconds. (YB_TIMEOUT_MS)
    #timeout_ms: 300000

    # Log level. (YB_LOG_LEVEL)
    #log_level: info

    # Whether to keep workspaces. (YB_KEEP_WORKSPACE)
    #keep_workspace: true

    # Whether a proxy observes failures of the model API, which otherwise only the agent reports. (YB_OBSERVE_API)
    #observe_api: true

    # Isolation of cases that do not set it. (YB_ISOLATION)
    #isolation: auto

    # Network access of cases that do not set it. (YB_NETWORK)
    #network: open

    #agent:
    # Timeout of agents in milliseconds [default: `timeout_ms`]. (YB_AGENT_TIMEOUT_MS)
    #  timeout_ms: 300000
    # Model of cases that do not set one. (YB_AGENT_MODEL)
    #  model: sonnet

    #evaluators:
    # Number of evaluators at once. (YB_EVALUATORS_MAX_CONCURRENT)
    #  max_concurrent: 4

    #limits:
    # Memory of all processes in MB. (YB_LIMITS_MEMORY_MB)
    #  memory_mb: 8192
    # Number of concurrent processes. (YB_LIMITS_PROCESSES)
    #  processes: 1024
    # CPU time of all processes in seconds. (YB_LIMITS_CPU_SECONDS)
    #  cpu_seconds: 0
    # Disk usage of workspace and private directory in MB. (YB_LIMITS_DISK_MB)
    #  disk_mb: 10240

    #otel:
    # OTLP endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` overrides it. (YB_OTEL_ENDPOINT)
    #  endpoint: http://127.0.0.1:4318
    # File to which traces are appended as lines of OTLP JSON. (YB_OTEL_FILE)
    #  file: trace.jsonl
    # Whether traces include prompts, answers and tool calls. (YB_OTEL_CONTENT)
    #  content: false
    # Names of spans and attributes: OpenTelemetry conventions, or those of the prompt adapter. (YB_OTEL_VOCABULARY)
    #  vocabulary: genai-latest

    # Values of `${NAME}` in cases.
    #variables:
    #  NAME: value
    ");
    assert_eq!(context.run(YB, ["config", "list"]).code, Some(0));
    assert_eq!(context.run(YB, ["config", "init"]).code, Some(2));
    assert_eq!(context.run(YB, ["config", "set", "timeout_ms", "5"]).code, Some(0));
    assert!(context.read(".youbencharc").ends_with("#  NAME: value\ntimeout_ms: 5\n"));
    assert_eq!(context.run(YB, ["config", "init", "--force"]).code, Some(0));
    assert!(!context.read(".youbencharc").contains("timeout_ms: 5"));
    context.write(".youbencha.json", "{}");
    std::fs::remove_file(context.dir().join(".youbencharc")).unwrap();
    assert_eq!(context.run(YB, ["config", "init", "--force"]).code, Some(2));
}
