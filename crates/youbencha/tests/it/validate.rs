//! `yb validate` and `yb schema`.

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

const GOOD: &str = "youbencha: 1
name: greeting
description: The script greets by name.
directory: ./app
agent: { type: claude-code, config: { prompt: Make greet.sh greet by name. } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

fn context() -> TestContext {
    let context = TestContext::new();
    context.write("app/greet.sh", "echo Hello\n");
    context.write("good.yaml", GOOD);
    context
}

#[test]
fn valid_case_is_accepted() {
    assert_snapshot!(context().run(YB, ["validate", "-c", "good.yaml"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    valid: 1 file
    ----- stderr -----
    ");
}

#[test]
fn verbose_prints_a_case() {
    let context = context();
    context.write("task.md", "Make greet.sh greet by name.\n");
    context.write(
        "other.yaml",
        "name: other\ndescription: x\nrepo: https://github.com/example/x.git\nbranch: main\n\
         agent: { type: claude-code, model: claude-opus-5-5, config: { prompt_file: ./task.md } }\n\
         evaluators: [git-diff]\nenv: [GREETING]\n",
    );
    assert_snapshot!(context.run(YB, ["validate", "good.yaml", "other.yaml", "-v"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    good.yaml: greeting
      format:     strict (`youbencha: 1`)
      start:      [TEMP]/work/app
      agent:      claude-code
      prompt:     28 characters
      evaluators: git-diff

    warning: vacuous: it asserts nothing, so it always passes: `git-diff`
     --> other.yaml:6:14
    6 | evaluators: [git-diff]
      |              ^^^^^^^^
      = key: `evaluators[0]`
    hint: add assertions under `config.assertions`

    other.yaml: other
      format:     lenient (add `youbencha: 1` for strict)
      start:      https://github.com/example/x.git, branch main
      agent:      claude-code, claude-opus-5-5
      prompt:     [TEMP]/work/task.md (28 characters)
      evaluators: git-diff (vacuous)
      environment variables: GREETING

    valid: 2 files, 1 warning
    ----- stderr -----
    ");
}

#[test]
fn all_errors_of_a_file_are_reported() {
    let context = context();
    context.write(
        "bad.yaml",
        "youbencha: 1
name: greeting
repo: http://10.0.0.1/x.git
agent:
  type: claude-cod
  config:
    prompt: Make greet.sh greet by name.
    prompt_file: ../task.md
evaluators:
  - git-dif
  - name: git-diff
    config:
      asertions: { max_files_changed: 1 }
timeouts:
  agent: soon
name: again
",
    );
    assert_snapshot!(context.run(YB, ["validate", "bad.yaml"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    error: missing key: `description`
     --> bad.yaml:1:1
    1 | youbencha: 1
      | ^^^^^^^^^
      = key: `description`
      = expected: a string of 1 to 1000 characters

    error: repository on a private host: `10.0.0.1`
     --> bad.yaml:3:7
    3 | repo: http://10.0.0.1/x.git
      |       ^^^^^^^^^^^^^^^^^^^^^
      = key: `repo`
    hint: use `--allow-private-hosts` to allow it, or the path of a local repository

    error: wrong value: `claude-cod`
     --> bad.yaml:5:9
    5 |   type: claude-cod
      |         ^^^^^^^^^^
      = key: `agent.type`
      = expected: one of `claude-code`, `copilot-cli`, `codex`, `gemini`, `opencode`, `acp`, `command`
    hint: did you mean `claude-code`?

    error: wrong value: `../task.md`
     --> bad.yaml:8:18
    8 |     prompt_file: ../task.md
      |                  ^^^^^^^^^^
      = key: `agent.config.prompt_file`
      = expected: a relative path without `..`

    error: both `prompt` and `prompt_file` given
     --> bad.yaml:8:18
    8 |     prompt_file: ../task.md
      |                  ^^^^^^^^^^
      = key: `agent.config.prompt_file`
    hint: use only one of them

    error: unknown evaluator: `git-dif`
      --> bad.yaml:10:5
    10 |   - git-dif
       |     ^^^^^^^
       = key: `evaluators[0]`
    hint: did you mean `git-diff`?

    warning: vacuous: it asserts nothing, so it always passes: `git-diff`
      --> bad.yaml:11:11
    11 |   - name: git-diff
       |           ^^^^^^^^
       = key: `evaluators[1]`
    hint: add assertions under `config.assertions`

    error: unknown key: `asertions`
      --> bad.yaml:13:7
    13 |       asertions: { max_files_changed: 1 }
       |       ^^^^^^^^^
       = key: `evaluators[1].config.asertions`
    hint: did you mean `assertions`?

    error: wrong value: `soon`
      --> bad.yaml:15:10
    15 |   agent: soon
       |          ^^^^
       = key: `timeouts.agent`
       = expected: a duration: 0 for no limit, milliseconds such as `300000`, or a string such as `5m`

    error: key given twice: `name`
      --> bad.yaml:16:1
    16 | name: again
       | ^^^^
       = key: `name`
    hint: the first one is at line 2, column 1; remove one of them

    invalid: 1 file, 9 errors, 1 warning
    ----- stderr -----
    ");
}

#[test]
fn warnings_are_allowed_unless_strict() {
    let context = context();
    context.write(
        "case.yaml",
        GOOD.replace("youbencha: 1\n", "").replace("max_files_changed", "max_files_chnged"),
    );
    let lenient = context.run(YB, ["validate", "-c", "case.yaml"]);
    assert_snapshot!(lenient.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    warning: vacuous: it asserts nothing, so it always passes: `git-diff`
     --> case.yaml:5:22
    5 | evaluators: [{ name: git-diff, config: { assertions: { max_files_chnged: 1 } } }]
      |                      ^^^^^^^^
      = key: `evaluators[0]`
    hint: add assertions under `config.assertions`

    warning: unknown key: `max_files_chnged`
     --> case.yaml:5:56
    5 | evaluators: [{ name: git-diff, config: { assertions: { max_files_chnged: 1 } } }]
      |                                                        ^^^^^^^^^^^^^^^^
      = key: `evaluators[0].config.assertions.max_files_chnged`
    hint: did you mean `max_files_changed`?

    valid: 1 file, 2 warnings
    ----- stderr -----
    ");
    let strict = context.run(YB, ["validate", "-c", "case.yaml", "--strict"]);
    assert_eq!(strict.code, Some(2));
    assert!(strict.stdout.contains("error: unknown key: `max_files_chnged`"), "{}", strict.stdout);
    assert!(strict.stdout.ends_with("invalid: 1 file, 2 errors\n"), "{}", strict.stdout);
}

#[test]
fn variables_are_read_from_settings() {
    let context = context();
    context.write(".youbencharc", "variables: { REPO_BASE: https://github.com/example }\nworkspce_dir: x\n");
    context.write("case.yaml", GOOD.replace("directory: ./app", "repo: ${REPO_BASE}/${REPO_NAM}.git"));
    assert_snapshot!(context.run(YB, ["validate", "case.yaml"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    warning: unknown key: `workspce_dir`
     --> [TEMP]/work/.youbencharc:2:1
    2 | workspce_dir: x
      | ^^^^^^^^^^^^
      = key: `workspce_dir`
    hint: did you mean `workspace_dir`?

    warning: unknown variable: `REPO_NAM`
     --> case.yaml:4:7
    4 | repo: ${REPO_BASE}/${REPO_NAM}.git
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = key: `repo`
    hint: did you mean `REPO_BASE`?

    valid: 1 file, 2 warnings
    ----- stderr -----
    ");
}

#[test]
fn files_without_cases_are_rejected() {
    let context = context();
    context.write("broken.yaml", "name: a: b\n");
    context.write("broken.json", "{ \"name\": \"x\", }\n");
    context.write("nul.yaml", b"name: a\0b\n");
    context.write("large.yaml", vec![b'#'; 1024 * 1024 + 1]);
    let files = ["broken.yaml", "broken.json", "nul.yaml", "large.yaml", "none.yaml"];
    assert_snapshot!(context.run(YB, ["validate"].iter().chain(&files)).snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    error: not valid YAML: mapping values are not allowed in this context
     --> broken.yaml:1:8
    1 | name: a: b
      |        ^
    hint: put a string that contains `: ` in double quotes

    error: not valid JSON: `}`
     --> broken.json:1:16
    1 | { "name": "x", }
      |                ^
      = expected: a key in double quotes

    error: NUL character in the file
     --> nul.yaml:1:8
    hint: remove it; is this a text file?

    error: the file is too large
     --> large.yaml
      = expected: at most 1048576 bytes
    hint: put long prompts into separate files, with `prompt_file`

    error: failed to read case: no such file
     --> none.yaml

    invalid: 5 files, 5 errors
    ----- stderr -----
    "#);
}

#[test]
fn validate_without_a_file_is_a_usage_error() {
    assert_snapshot!(context().run(YB, ["validate"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no file given
    hint: pass one or more files: `yb validate case.yaml`
    ");
}

#[test]
fn private_hosts_are_allowed_on_request() {
    let context = context();
    context.write("case.yaml", GOOD.replace("directory: ./app", "repo: http://localhost:3000/x.git"));
    assert_eq!(context.run(YB, ["validate", "case.yaml"]).code, Some(2));
    assert_eq!(context.run(YB, ["validate", "case.yaml", "--allow-private-hosts"]).code, Some(0));
}

#[test]
fn case_schema_matches_the_committed_one() {
    let committed = include_str!("../../../../schemas/case.schema.json");
    for args in [&["schema"][..], &["schema", "case"]] {
        let outcome = context().run(YB, args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), committed));
    }
}

/// The example of `docs/reference/suite-file.md`.
fn suite() -> TestContext {
    let context = context();
    let docs = include_str!("../../../../docs/reference/suite-file.md");
    let example = docs.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    context.write("nightly.yaml", example);
    let case = GOOD.replace("./app", "../app").replace("type: claude-code, ", "");
    context.write("cases/greeting.yaml", case);
    context
}

#[test]
fn verbose_prints_a_suite() {
    let outcome = suite().run(YB, ["validate", "-v", "nightly.yaml"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    nightly.yaml: nightly
      (2 cases × 2 variants - 1 excluded) × 3 repeats = 9 trials
      greeting × sonnet: claude-code, claude-sonnet-4-5
      greeting × opus: claude-code 2.1.325, claude-opus-5-5
      farewell × sonnet: claude-code, claude-sonnet-4-5

    valid: 1 file
    ----- stderr -----
    ");
    assert!(include_str!("../../../../docs/reference/suite-file.md").contains(&outcome.stdout));
}

#[test]
fn verbose_prints_a_complete_product() {
    let context = suite();
    let cases = ["one", "two"].map(|name| {
        context.write(format!("{name}.yaml"), GOOD.replace("greeting", name));
        format!("{name}.yaml")
    });
    let text = format!(
        "youbencha: 1\nname: x\ncases: [{}]\nvariants: [{{ name: a }}]\nrepeats: 2\n",
        cases.join(", ")
    );
    context.write("suite.yaml", text);
    let outcome = context.run(YB, ["validate", "-v", "-c", "suite.yaml"]);
    assert!(outcome.stdout.contains("  2 cases × 1 variant × 2 repeats = 4 trials\n"), "{}", outcome.stdout);
}

#[test]
fn error_of_a_variant_names_the_variant() {
    let context = suite();
    let text = include_str!("../../../../docs/reference/suite-file.md").split("```yaml\n").nth(1).unwrap();
    let text = text.split("```").next().unwrap();
    let (before, after) = text.split_once("  - name: opus\n    type: claude-code\n").unwrap();
    context.write("nightly.yaml", format!("{before}  - name: opus\n{after}"));
    let outcome = context.run(YB, ["validate", "nightly.yaml"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 2
    ----- stdout -----
    error: missing key: `type`
     --> cases/greeting.yaml:5:10
    5 | agent: { config: { prompt: Make greet.sh greet by name. } }
      |          ^^^^^^
      = key: `agent.type`
      = expected: one of `claude-code`, `copilot-cli`, `codex`, `gemini`, `opencode`, `acp`, `command`
      = with: variant `opus` (nightly.yaml:15:11)

    invalid: 1 file, 1 error
    ----- stderr -----
    ");
    let shown = outcome.stdout.split("\n\n").next().unwrap();
    assert!(include_str!("../../../../docs/reference/suite-file.md").contains(shown));
}

#[test]
fn suite_schema_matches_the_committed_one() {
    let committed = include_str!("../../../../schemas/suite.schema.json");
    let outcome = context().run(YB, ["schema", "suite"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), committed));
    let committed = include_str!("../../../../schemas/eval.schema.json");
    let outcome = context().run(YB, ["schema", "eval"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), committed));
}
