//! Diagnostics of suites: each problem once, with its position and the combinations that cause it.

use crate::case::builtin;
use insta::assert_snapshot;
use serde_json::{Value, json};
use yb_case::suite;

use crate::suite::{Files, HEAD, inline};

fn messages(files: &Files, text: &str) -> String {
    let loaded = files.load(text);
    let errors = loaded.diagnostics.iter().any(yb_yaml::diagnostic::Diagnostic::is_error);
    assert_eq!(loaded.suite.is_none(), errors);
    files.messages(&loaded)
}

fn with_one() -> Files {
    let files = Files::new();
    files.case("one.yaml", "one", "tags: [quick]");
    files
}

#[test]
fn all_errors_of_a_suite_are_reported() {
    let files = with_one();
    assert_snapshot!(messages(&files, "cases: [one.yaml, 5, ../x.yaml]
varaints: []
variants:
  - { name: a, modle: x, version: 2.1 }
  - { model: y }
  - { name: c, type: claude-cod, env: { A-B: c } }
repeats: 0
concurrency: { claude: 1, command: 0 }
retries: -1
max_cost_usd: 0
include: []
exclude: [{ cse: one }, {}, { case: '[' }]
"), @r"
    suite.yaml:3:19: error: wrong value: `5`; expected a relative path without `..`, or a mapping with `youbencha`, `name`, `description`, `repo` [cases[1]]
    suite.yaml:3:22: error: wrong value: `../x.yaml`; expected a relative path without `..` [cases[2]]
    suite.yaml:4:1: error: unknown key: `varaints` [varaints]; did you mean `variants`?
    suite.yaml:6:16: error: unknown key: `modle` [variants[0].modle]; did you mean `model`?
    suite.yaml:6:35: error: wrong value: `2.1`; expected an exact version, such as `2.1.325` [variants[0].version]; put it in double quotes
    suite.yaml:7:7: error: missing key: `name`; expected a string of 1 to 200 characters [variants[1].name]
    suite.yaml:8:22: error: wrong value: `claude-cod`; expected one of `claude-code`, `copilot-cli`, `codex`, `gemini`, `opencode`, `acp`, `command` [variants[2].type]; did you mean `claude-code`?
    suite.yaml:8:41: error: invalid name: `A-B`; expected a variable name: letters, digits and `_`, not starting with a digit [variants[2].env]
    suite.yaml:9:10: error: wrong value: `0`; expected an integer from 1 to 10000 [repeats]
    suite.yaml:10:16: error: unknown agent: `claude`; expected one of `claude-code`, `copilot-cli`, `codex`, `gemini`, `opencode`, `acp`, `command` [concurrency.claude]; did you mean `claude-code`?
    suite.yaml:10:36: error: wrong value: `0`; expected an integer from 1 to 1000 [concurrency.command]
    suite.yaml:11:10: error: wrong value: `-1`; expected an integer from 0 to 100 [retries]
    suite.yaml:12:15: error: wrong value: `0`; expected a number above 0 [max_cost_usd]
    suite.yaml:13:10: error: empty list; expected a list of at least 1, each a mapping with `case`, `variant`, `tag` [include]
    suite.yaml:14:13: error: unknown key: `cse` [exclude[0].cse]; did you mean `case`?
    suite.yaml:14:25: error: empty selector; expected one or more of `case`, `variant`, `tag` [exclude[1]]
    suite.yaml:14:37: error: invalid pattern (unclosed character class; missing ']'): `[`; expected a name with the wildcards `*` and `?` [exclude[2].case]
    ");
}

#[test]
fn missing_suite_cases_are_reported() {
    let files = with_one();
    files.case("cases/two.yaml", "two", "");
    files.write("nested.yaml", &format!("{HEAD}cases: [one.yaml]\n"));
    files.write("broken.yaml", "name: [\n");
    files.write("list.yaml", "- a\n");
    assert_snapshot!(messages(&files, "cases: [on.yaml, 'none/*.yaml', 'cases/*.yml', nested.yaml, { cases: [] }, cases, cases/tow.yaml, broken.yaml, list.yaml, 'a[.yaml']
"), @r"
    suite.yaml:3:9: error: failed to read case (no such file): `on.yaml` [cases[0]]; did you mean `one.yaml`?
    suite.yaml:3:18: error: no file matches: `none/*.yaml` [cases[1]]; `*` matches within a directory, `**` across directories; hidden files need an explicit dot
    suite.yaml:3:33: error: no file matches: `cases/*.yml` [cases[2]]; `*` matches within a directory, `**` across directories; hidden files need an explicit dot
    suite.yaml:3:48: error: nested suite: `nested.yaml`; expected a case [cases[3]]; list its cases here, or move case files to a separate directory
    suite.yaml:3:61: error: nested suite; expected a case [cases[4]]; list its cases here, or move case files to a separate directory
    suite.yaml:3:76: error: failed to read case (not a file): `cases` [cases[5]]; the path is relative to the directory of the suite file and must stay below it
    suite.yaml:3:83: error: failed to read case (no such file): `cases/tow.yaml` [cases[6]]; did you mean `cases/two.yaml`?
    suite.yaml:3:123: error: invalid pattern (unclosed character class; missing ']'): `a[.yaml` [cases[9]]; `*`, `?`, `[…]` and `{…}` are special characters
    broken.yaml:1:7: error: not valid YAML: unclosed bracket `[` []
    list.yaml:1:1: error: wrong value: a list; expected a mapping with `name`, `description`, `repo`, `agent` and `evaluators` []
    ");
}

#[test]
fn ambiguous_names_are_rejected() {
    let files = with_one();
    files.case("again.yaml", "one", "");
    files.case("close.yaml", "On.e", "");
    files.case("double.yaml", "one--a", "");
    assert_snapshot!(messages(&files, "cases: [one.yaml, again.yaml, close.yaml, one.yaml, double.yaml]
variants: [{ name: b }, { name: b }, { name: 'b:' }, { name: a--b }]
"), @r"
    suite.yaml:3:1: error: combinations with the same directory name: `On.e` with `a--b`, and `one--a` with `b` [cases]; rename one of them
    suite.yaml:3:1: error: combinations with the same directory name: `On.e` with `a--b`, and `one--a` with `b:` [cases]; rename one of them
    suite.yaml:3:43: error: case file given twice: `one.yaml` [cases[3]]; the first one is at line 3, column 9; remove one of them
    suite.yaml:4:33: error: duplicate variant name: `b` [variants[1].name]; the other one is at suite.yaml:4:20; rename one of them
    suite.yaml:4:46: error: variants with the same directory name: `b` and `b:`; expected names that differ in letters, digits, `-` or `_`, ignoring case [variants[2].name]; the other one is at suite.yaml:4:20; rename one of them
    again.yaml:2:7: error: duplicate case name: `one` [name]; the other one is at one.yaml:2:7; rename one of them
    close.yaml:2:7: error: cases with the same directory name: `one` and `On.e`; expected names that differ in letters, digits, `-` or `_`, ignoring case [name]; the other one is at one.yaml:2:7; rename one of them
    ");
}

#[test]
fn selectors_that_match_nothing_are_warnings() {
    let files = with_one();
    assert_snapshot!(messages(&files, "cases: [one.yaml]
variants: [{ name: sonnet }]
include: [{ case: one }, { variant: sonet }, { tag: qick }]
exclude: [{ case: zebra-* }]
"), @r"
    suite.yaml:5:37: warning: no variant matches: `sonet` [include[1].variant]; did you mean `sonnet`?
    suite.yaml:5:53: warning: no tag matches: `qick` [include[2].tag]; did you mean `quick`?
    suite.yaml:6:19: warning: no case matches: `zebra-*` [exclude[0].case]; the selector has no effect; remove or correct it
    ");
    assert_snapshot!(messages(&files, "cases: [one.yaml]\nexclude: [{ tag: quick }]\n"), @r"
    suite.yaml:4:1: error: no combination selected [exclude]; a combination is selected if it matches a selector of `include` and none of `exclude`
    ");
    assert_snapshot!(messages(&files, "cases: [one.yaml]\ninclude: [{ case: two }]\n"), @r"
    suite.yaml:4:1: error: no combination selected [include]; a combination is selected if it matches a selector of `include` and none of `exclude`
    suite.yaml:4:19: warning: no case matches: `two` [include[0].case]; the selector has no effect; remove or correct it
    ");
}

#[test]
fn same_error_in_many_combinations_is_reported_once() {
    let files = Files::new();
    files.case("one.yaml", "one", "isolaton: none");
    files.case("two.yaml", "two", "");
    assert_snapshot!(messages(&files, "cases: [one.yaml, two.yaml]
variants:
  - { name: a, model: sonnet }
  - { name: b, config: { effort: huge } }
  - { name: c, config: { efort: high } }
"), @r"
    suite.yaml:5:23: warning: not the full name of a Claude model: `sonnet`; expected `claude-` and a name, such as `claude-sonnet-4-5` [variants[0].model]; an alias can mean another model tomorrow; `agent.models` names one for each agent
    suite.yaml:6:34: error: wrong value: `huge`; expected one of `low`, `medium`, `high`, `xhigh`, `max` [variants[1].config.effort]
    suite.yaml:7:26: error: unknown key: `efort` [variants[2].config.efort]; did you mean `effort`?
    one.yaml:7:1: error: unknown key: `isolaton` [isolaton]; did you mean `isolation`?
    ");
}

#[test]
fn merge_errors_name_the_variant() {
    let files = Files::new();
    files.case("one.yaml", "one", "agent: { config: { prompt: Make greet.sh greet., max_turns: 3 } }");
    let two = inline("two", ", agent: { type: command, config: { command: { argv: [x] } } }");
    assert_snapshot!(messages(&files, &format!("cases:
  - one.yaml
  - {two}
variants:
  - name: typed
    type: command
    config: {{ prompt: Say more than this., command: {{ output: none }} }}
  - name: untyped
    model: claude-opus-5-5
  - name: fine
    type: claude-code
    config: {{ prompt: Say more than this. }}
")), @r"
    suite.yaml:5:134: error: missing prompt; expected `prompt` or `prompt_file` under `agent.config`; with variant `untyped` (suite.yaml:10:11) [cases[1].agent.config.prompt]
    suite.yaml:9:55: error: missing key: `argv`; expected a list of at least 1, each a string; with variant `typed` and case `one` [variants[0].config.command.argv]
    one.yaml:7:50: warning: `command` has no such setting: `max_turns`; with variant `typed` (suite.yaml:7:11) [agent.config.max_turns]; it is ignored; put what only one agent knows under `agent.config.<type>`
    one.yaml:7:10: error: missing key: `type`; expected one of `claude-code`, `copilot-cli`, `codex`, `gemini`, `opencode`, `acp`, `command`; with variant `untyped` (suite.yaml:10:11) [agent.type]
    ");
}

#[test]
fn suite_requires_its_version() {
    let files = with_one();
    let path = files.write("old.yaml", "name: x\ncases: [one.yaml]\n");
    let loaded = suite::load(&path, &crate::case::options());
    assert_snapshot!(files.messages(&loaded), @r"
    old.yaml:1:1: error: missing key: `youbencha`; expected `1` [youbencha]
    ");
    let path = files.write("new.yaml", "youbencha: 2\ncases: [one.yaml]\n");
    let loaded = suite::load(&path, &crate::case::options());
    assert_snapshot!(files.messages(&loaded), @r"
    new.yaml:1:12: error: unsupported format version: `2`; expected `1` [youbencha]; the file requires a newer version; update youbencha
    ");
}

#[test]
fn diagnostics_in_evaluator_files_are_reported_once() {
    let files = Files::new();
    files.write("evaluators/size.yaml", "name: git-diff\nconfig: { assertion: {} }\n");
    for name in ["one", "two"] {
        let agent = "agent: { type: claude-code, config: { prompt: Make greet.sh greet. } }";
        let text = format!(
            "youbencha: 1\nname: {name}\ndescription: x\ndirectory: app\n{agent}\nevaluators: [{{ file: evaluators/size.yaml }}]\n"
        );
        files.write(&format!("{name}.yaml"), &text);
    }
    assert_snapshot!(messages(&files, "cases: [one.yaml, two.yaml]\nvariants: [{ name: a }, { name: b }]\n"), @r"
    evaluators/size.yaml:1:7: warning: vacuous: it asserts nothing, so it always passes: `git-diff` []; add assertions under `config.assertions`
    evaluators/size.yaml:2:11: error: unknown key: `assertion` [config.assertion]; did you mean `assertions`?
    ");
}

#[cfg(unix)]
#[test]
fn c5_globs_do_not_leave_the_directory() {
    let files = Files::new();
    let outside = Files::new();
    outside.case("cases/secret.yaml", "secret", "");
    files.case("cases/in.yaml", "in", "");
    let link =
        |from: std::path::PathBuf, to: &str| std::os::unix::fs::symlink(from, files.path().join(to)).unwrap();
    link(outside.path().join("cases"), "linked");
    link(files.path().join("cases/in.yaml"), "cases/same.yaml");
    let suite = files.good("cases: ['**/*.yaml']\nexclude: []\n".replace("**/*", "cases/*").as_str());
    assert_eq!(suite.combinations.len(), 1, "a link to a file that is there already is that file");
    assert_snapshot!(messages(&files, "cases: ['linked/*.yaml', linked/secret.yaml]\n"), @r"
    suite.yaml:3:9: error: a symbolic link leads out of the directory: `linked/*.yaml` [cases[0]]; the path is relative to the directory of the suite file and must stay below it
    suite.yaml:3:26: error: failed to read case (a symbolic link leads out of the directory): `linked/secret.yaml` [cases[1]]; the path is relative to the directory of the suite file and must stay below it
    ");
    link(outside.path().join("cases/secret.yaml"), "cases/out.yaml");
    assert_snapshot!(messages(&files, "cases: ['cases/**/*.yaml']\n"), @r"
    suite.yaml:3:9: error: failed to read case (a symbolic link leads out of the directory): `cases/out.yaml` [cases[0]]; the path is relative to the directory of the suite file and must stay below it
    ");
}

#[test]
fn number_of_combinations_is_limited() {
    let files = with_one();
    let cases: String = (0..200).map(|n| format!("  - {}\n", inline(&format!("c{n}"), ""))).collect();
    let variants: String = (0..51).map(|n| format!("  - {{ name: v{n}, type: claude-code }}\n")).collect();
    let messages = messages(&files, &format!("cases:\n{cases}variants:\n{variants}"));
    assert!(
        messages.contains("too many combinations of cases and variants; expected at most 10000"),
        "{messages}"
    );
}

#[test]
fn committed_schema_is_up_to_date() {
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/suite.schema.json");
    if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&committed, suite::schema(&builtin().agents, &builtin().evaluators)).unwrap();
    }
    let committed = std::fs::read_to_string(committed).unwrap();
    assert!(
        committed == suite::schema(&builtin().agents, &builtin().evaluators),
        "the schema drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`"
    );
}

#[test]
fn schema_agrees_with_the_decoder() {
    let schema: Value =
        serde_json::from_str(&suite::schema(&builtin().agents, &builtin().evaluators)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let files = with_one();
    let case = json!({
        "name": "two", "description": "x", "directory": "app", "evaluators": ["git-diff"],
        "agent": { "config": { "prompt": "Make greet.sh greet." } },
    });
    let good = json!({
        "youbencha": 1, "name": "x", "cases": ["one.yaml", case], "variants": [{ "name": "a", "type": "claude-code" }],
    });
    let changes = [
        ("retries", json!(0), true),
        ("repeats", json!(10_000), true),
        ("repeats", json!(10_001), false),
        ("repeats", json!(0), false),
        ("max_cost_usd", json!(0), false),
        ("max_cost_usd", json!(0.5), true),
        ("include", json!([]), false),
        ("include", json!([{ "case": "one" }]), true),
        ("exclude", json!([{}]), false),
        ("exclude", json!([{ "what": "one" }]), false),
        ("concurrency", json!({ "command": 0 }), false),
        ("concurrency", json!({ "command": 1 }), true),
        (
            "gates",
            json!({ "min_pass_rate": 1, "max_cost_usd": 0, "max_lost": 0.5, "isolation": "landlock" }),
            true,
        ),
        ("gates", json!({ "min_pass_rate": 90 }), false),
        ("gates", json!({ "isolation": "none" }), false),
        ("gates", json!({ "no_regression": { "against": "main", "on_inconclusive": "pass" } }), true),
        ("gates", json!({ "no_regression": { "alpha": 0.05 } }), false),
        ("gates", json!({ "no_regression": { "against": "main", "alpha": 0 } }), false),
        ("gates", json!({ "tags": { "quick": { "min_pass_rate": 0.5 } } }), true),
        ("gates", json!({ "tags": { "quick": { "no_regression": { "against": "main" } } } }), false),
        ("unknown", json!(1), false),
        ("name", json!(""), false),
        ("youbencha", json!(2), false),
        ("cases", json!([]), false),
        ("cases", json!([{ "name": "x" }]), false),
        ("variants", json!([]), false),
        ("variants", json!([{ "type": "claude-code" }]), false),
        (
            "variants",
            json!([{ "name": "a", "type": "claude-code", "env": ["A"], "config": { "effort": "max" } }]),
            true,
        ),
        ("variants", json!([{ "name": "a", "type": "claude-code", "config": { "effort": "most" } }]), false),
    ];
    for (key, value, valid) in changes {
        let mut document = good.clone();
        document[key] = value;
        let path = files.write("suite.json", &document.to_string());
        let loaded = suite::load(&path, &crate::case::options());
        assert_eq!(loaded.suite.is_some(), valid, "{document}: {}", files.messages(&loaded));
        assert_eq!(validator.is_valid(&document), valid, "{document}");
    }
}
