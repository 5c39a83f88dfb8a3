//! Parity with `claude plugin eval`: the same plugin, the same scripted model, the real CLI below both; each grader of each case has
//! the same result, and each run the same score.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

use crate::suites::World;

/// A case: its name, the header of `prompt.md`, the replies of the model, and its graders as name and YAML.
type EvalCase = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const TOOLS: &str = "allowed_tools: [Write, Read, Edit, Glob, Skill]";
const WRITE: &str = "[{ tools: [{ Write: { file_path: a.txt, content: \"Hi there\\nhello\" } }] }, { tools: [{ Read: { file_path: a.txt } }] }, { say: \"Line one\\nAll Done.\" }]";
const SAY: &str = "[{ say: \"Line one\\nAll Done. 😀\" }]";

/// Each key of a grader, and each kind of target.
const GRADED: &[EvalCase] = &[
    (
        "contains",
        "",
        SAY,
        &[("hit", "{ type: regex, pattern: Done }"), ("miss", "{ type: regex, pattern: done }")],
    ),
    (
        "absent",
        "",
        SAY,
        &[
            ("hit", "{ type: regex, pattern: Done, match: not_contains }"),
            ("miss", "{ type: regex, pattern: zzz, match: not_contains }"),
        ],
    ),
    (
        "count",
        "",
        SAY,
        &[
            ("two", "{ type: regex, pattern: l, match: 'count:2' }"),
            ("none", "{ type: regex, pattern: zzz, match: 'count:0' }"),
            ("three", "{ type: regex, pattern: n, match: 'count:9' }"),
        ],
    ),
    (
        "flags",
        "",
        SAY,
        &[
            ("i", "{ type: regex, pattern: DONE, flags: i }"),
            ("m", "{ type: regex, pattern: '^All', flags: m }"),
            ("none", "{ type: regex, pattern: '^All' }"),
            ("s", "{ type: regex, pattern: one.All, flags: s }"),
            ("y", "{ type: regex, pattern: All, flags: y }"),
        ],
    ),
    (
        "javascript",
        "",
        SAY,
        &[
            ("behind", "{ type: regex, pattern: '(?<=All )Done' }"),
            ("unit", "{ type: regex, pattern: 'Done. ..$' }"),
            ("point", "{ type: regex, pattern: 'Done. .$', flags: u }"),
            ("escape", "{ type: regex, pattern: '\\u{1F600}', flags: u }"),
            ("back", "{ type: regex, pattern: '(l)\\1' }"),
        ],
    ),
    (
        "weights",
        "",
        SAY,
        &[
            ("heavy", "{ type: regex, pattern: Done, weight: 3 }"),
            ("light", "{ type: regex, pattern: zzz, weight: 0.5 }"),
        ],
    ),
    (
        "arms",
        "",
        SAY,
        &[
            ("with", "{ type: regex, pattern: zzz, arm: with-only }"),
            ("both", "{ type: regex, pattern: Done, arm: both }"),
            ("skill", "{ type: tool_used, tool: Skill }"),
            ("skill-both", "{ type: tool_used, tool: Skill, min: 0, arm: both }"),
        ],
    ),
    (
        "trace",
        TOOLS,
        WRITE,
        &[
            ("call", "{ type: regex, pattern: '\"name\":\"Write\"', target: trace }"),
            ("ids", "{ type: regex, pattern: toolu_main_1_1, match: 'count:3', target: trace }"),
            ("start", "{ type: regex, pattern: '^.\"type\":\"system\"', target: trace }"),
            ("prompt", "{ type: regex, pattern: 'Case trace', target: trace }"),
        ],
    ),
    (
        "files",
        TOOLS,
        WRITE,
        &[
            ("name", "{ type: regex, pattern: '^a.txt$', target: files }"),
            ("other", "{ type: regex, pattern: b.txt, target: files }"),
        ],
    ),
    (
        "content",
        TOOLS,
        WRITE,
        &[
            ("hit", "{ type: regex, pattern: '^Hi', target: { source: file, path: a.txt } }"),
            ("none", "{ type: regex, pattern: x, target: { source: file, path: no.txt } }"),
            (
                "absent",
                "{ type: regex, pattern: x, match: not_contains, target: { source: file, path: no.txt } }",
            ),
        ],
    ),
];

/// Tools, files, judges, and each key of a case.
const RUN: &[EvalCase] = &[
    (
        "used",
        TOOLS,
        WRITE,
        &[
            ("once", "{ type: tool_used, tool: Write }"),
            ("twice", "{ type: tool_used, tool: Write, min: 2 }"),
            ("glob", "{ type: tool_used, tool: 'Wri*' }"),
            ("case", "{ type: tool_used, tool: write }"),
        ],
    ),
    (
        "input",
        TOOLS,
        WRITE,
        &[
            ("json", "{ type: tool_used, tool: Write, input_match: '\"file_path\":\"a' }"),
            ("newline", "{ type: tool_used, tool: Write, input_match: 'there.nhello' }"),
            ("upper", "{ type: tool_used, tool: Write, input_match: HI }"),
        ],
    ),
    (
        "limits",
        TOOLS,
        WRITE,
        &[
            ("max", "{ type: tool_used, tool: Read, max: 1 }"),
            ("never", "{ type: tool_used, tool: Bash, min: 0, max: 0 }"),
            ("range", "{ type: tool_used, tool: Write, min: 1, max: 3 }"),
        ],
    ),
    (
        "order",
        TOOLS,
        WRITE,
        &[
            ("right", "{ type: tool_order, before: Write, after: Read }"),
            ("wrong", "{ type: tool_order, before: Read, after: Write }"),
            ("same", "{ type: tool_order, before: Write, after: Write }"),
            (
                "input",
                "{ type: tool_order, before: { tool: Write, input_match: a.txt }, after: { tool: Read } }",
            ),
            ("never", "{ type: tool_order, before: Edit, after: Read }"),
        ],
    ),
    (
        "globs",
        TOOLS,
        "[{ tools: [{ Write: { file_path: a.txt, content: x } }] }, { tools: [{ Write: { file_path: sub/b.txt, content: x } }] }, { tools: [{ Write: { file_path: .hidden, content: x } }] }, { say: Done }]",
        &[
            ("star", "{ type: file_exists, path: '*.txt' }"),
            ("deep", "{ type: file_exists, path: '**/b.txt' }"),
            ("root", "{ type: file_exists, path: '**/a.txt' }"),
            ("flat", "{ type: file_exists, path: b.txt }"),
            ("dir", "{ type: file_exists, path: sub }"),
            ("dot", "{ type: file_exists, path: '.hid*' }"),
            ("braces", "{ type: file_exists, path: '{a,c}.txt' }"),
            ("class", "{ type: file_exists, path: '[ab].txt' }"),
            ("here", "{ type: file_exists, path: './a.txt' }"),
            ("one", "{ type: file_exists, path: '?.txt' }"),
            ("absent", "{ type: file_exists, path: '*.zip', exists: false }"),
            ("present", "{ type: file_exists, path: a.txt, exists: false }"),
        ],
    ),
    (
        "turns",
        "max_turns: 1\nallowed_tools: [Write, Read]",
        WRITE,
        &[("said", "{ type: regex, pattern: Done }"), ("wrote", "{ type: file_exists, path: a.txt }")],
    ),
    (
        "system",
        "append_system_prompt: Be kind to strangers.",
        SAY,
        &[("done", "{ type: regex, pattern: Done }")],
    ),
    (
        "denied",
        "",
        "[{ tools: [{ Edit: { file_path: a.txt, old_string: x, new_string: y } }] }, { say: Done }]",
        &[("tried", "{ type: tool_used, tool: Edit }"), ("wrote", "{ type: file_exists, path: a.txt }")],
    ),
    (
        "keys",
        "schema_version: \"1.1\"\ndescription: All keys.\ntags: [some]\nexpected_outcome: It says so.\ntimeout_seconds: 60\nplugins: [\"../..\"]\nenv: { EVAL_MODE: fast }",
        SAY,
        &[("done", "{ type: regex, pattern: Done }")],
    ),
    (
        "skill",
        TOOLS,
        "[{ tools: [{ Skill: { skill: polite } }] }, { say: Done }]",
        &[("fired", "{ type: tool_used, tool: Skill }"), ("done", "{ type: regex, pattern: Done }")],
    ),
];

struct Suite {
    world: World,
    server: MockServer,
}

impl Suite {
    fn new(cases: &[EvalCase]) -> Self {
        let world = World::new();
        let write = |path: &str, text: &str| world.context.write(path, text);
        write("plugin/.claude-plugin/plugin.json", r#"{"name":"greeter","version":"1.0.0"}"#);
        write(
            "plugin/skills/polite/SKILL.md",
            "---\nname: polite\ndescription: How to greet.\n---\nGreet.\n",
        );
        let mut lanes = String::new();
        for (name, header, replies, graders) in cases {
            let header =
                format!("---\nruns: 1\nmodel: claude-sonnet-4-5\n{header}\n---\nCase {name}, please.\n");
            // The last one of a key that is given twice would win.
            write(&format!("plugin/evals/{name}/prompt.md"), &header.replace("\n\n---", "\n---"));
            for (grader, keys) in *graders {
                let text = format!("---\n{keys}\n---\n");
                write(&format!("plugin/evals/{name}/graders/{grader}.md"), &text);
            }
            lanes.push_str(&format!(
                "  {name}: {{ match: {{ prompt: 'Case {name}, please.' }}, replies: {replies} }}\n"
            ));
        }
        let script = Script::parse(&format!("tape: 1\nlanes:\n{lanes}"), &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { world, server }
    }

    /// Returns the score and the graders of each case and arm, as `claude plugin eval` reports them.
    fn theirs(&self) -> Scores {
        let home = self.world.path("claude-home");
        std::fs::create_dir_all(&home).unwrap();
        let out = home.join("out.json");
        let done = Command::new(RealClaude::new().program())
            .args(["plugin", "eval"])
            .arg(self.world.path("plugin"))
            .args(["--trust-plugin", "--no-publish", "-j", "2", "--allow-tools", "Write", "--json"])
            .arg(&out)
            .arg("--output-dir")
            .arg(home.join("results"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &home)
            .env("ANTHROPIC_BASE_URL", self.server.base_url())
            .env("ANTHROPIC_API_KEY", "not-a-real-key")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .output()
            .unwrap();
        let text = std::fs::read(&out);
        let text = text.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)));
        let report: Value = serde_json::from_slice(&text).unwrap();
        let mut scores = Scores::new();
        for case in report["cases"].as_array().unwrap() {
            for (arm, runs) in case["arms"].as_object().unwrap() {
                let run = &runs[0];
                let key = format!("{} {arm}", case["name"].as_str().unwrap());
                scores.insert(key, (run["score"].as_f64().unwrap(), graders(&run["graders"])));
            }
        }
        assert!(!scores.is_empty(), "{report:#}");
        scores
    }

    /// Returns the same, as `yb run` reports it.
    fn ours(&self) -> Scores {
        let done = self
            .world
            .run(&["-c", "plugin", "--quiet", "--no-check"])
            .env("ANTHROPIC_BASE_URL", self.server.base_url())
            .env("ANTHROPIC_API_KEY", "not-a-real-key")
            .env("YB_CLAUDE", RealClaude::new().program())
            .run();
        assert!(matches!(done.code, Some(0 | 1)), "{}{}", done.stdout, done.stderr);
        let mut scores = Scores::new();
        let trials = self.world.only_run().join("trials");
        for entry in std::fs::read_dir(trials).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            let mut parts = name.split("--");
            let key = format!("{} {}", parts.next().unwrap(), parts.next().unwrap());
            let file = entry.path().join("attempt-1/artifacts/evaluators/1-weighted-score/verdict.json");
            let verdict = read(&file);
            let metrics = &verdict["metrics"];
            scores.insert(key, (metrics["score"].as_f64().unwrap(), graders(&metrics["graders"])));
        }
        scores
    }
}

type Scores = BTreeMap<String, (f64, BTreeMap<String, (bool, bool)>)>;

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Returns whether each grader passed, and whether it counts.
fn graders(list: &Value) -> BTreeMap<String, (bool, bool)> {
    let list = list.as_array().unwrap();
    let grader = |grader: &Value| {
        let flag = |key: &str| grader[key].as_bool().unwrap();
        (grader["name"].as_str().unwrap().to_owned(), (flag("passed"), flag("scored")))
    };
    list.iter().map(grader).collect()
}

fn assert_parity(cases: &[EvalCase]) {
    let suite = Suite::new(cases);
    let (theirs, ours) = (suite.theirs(), suite.ours());
    assert_eq!(theirs.len(), cases.len() * 2, "{theirs:#?}");
    for (key, expected) in &theirs {
        let found = ours.get(key).unwrap_or_else(|| panic!("{key} is missing: {:?}", ours.keys()));
        assert_eq!(found.1, expected.1, "{key}");
        assert!((found.0 - expected.0).abs() < 1e-9, "{key}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn real_claude_plugin_eval_and_yb_agree_on_regular_expressions() {
    assert_parity(GRADED);
}

#[test]
fn real_claude_plugin_eval_and_yb_agree_on_tools_files_and_keys() {
    assert_parity(RUN);
}
