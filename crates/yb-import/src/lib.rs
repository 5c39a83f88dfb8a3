//! Eval suites of other tools as cases and suites of youBencha.
//!
//! Each format has a module that converts its files to a [`ImportedSuite`]: our own files, and notes about everything that has no
//! counterpart. Nothing is run and nothing is written while converting.

mod agentv;
mod assertions;
mod document;
mod output;
mod plugin_eval;
mod promptfoo;
mod skill_eval;

use std::path::{Path, PathBuf};

pub use output::{ImportedSuite, Note, SUITE_FILE};

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A plugin with `evals/`, as `claude plugin eval` runs it.
    PluginEval,
    /// A skill with `evals/evals.json`.
    SkillEval,
    /// An eval file of AgentV.
    AgentV,
    /// A configuration of promptfoo.
    Promptfoo,
}

impl Format {
    /// The name in messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::PluginEval => "plugin evals",
            Self::SkillEval => "skill evals",
            Self::AgentV => "AgentV",
            Self::Promptfoo => "promptfoo",
        }
    }
}

/// The agent of an imported suite.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The type of the agent and of the judge.
    pub agent: String,
    /// The model of the agent, in place of that of the suite.
    pub model: Option<String>,
    /// The score from which a trial passes.
    pub threshold: f64,
}

/// Why a suite can't be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file can't be read or written.
    #[error("failed to access `{}`: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is invalid.
    #[error("{place}: {reason}")]
    Invalid {
        /// The file, with a position if it is known.
        place: String,
        /// The reason.
        reason: String,
    },
    /// Nothing in the suite can be run.
    #[error("`{}` has no case that can be run", path.display())]
    Empty {
        /// The path of the suite.
        path: PathBuf,
        /// What was left out.
        notes: Vec<Note>,
    },
}

impl ImportError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), reason: reason.into() }
    }
}

/// Returns the format of a suite of another tool; `None` for our own files and anything unknown.
#[must_use]
pub fn detect(path: &Path) -> Option<Format> {
    if path.is_dir() {
        let has_skill_evals = path.join(skill_eval::EVALS_FILE).is_file();
        return match (path.join("SKILL.md").is_file(), has_skill_evals) {
            (true, true) => Some(Format::SkillEval),
            _ if plugin_eval::has_cases(path) => Some(Format::PluginEval),
            (false, true) => Some(Format::SkillEval),
            _ => None,
        };
    }
    let name = path.file_name()?.to_str()?;
    if name == "evals.json" {
        return Some(Format::SkillEval);
    }
    let document = document::read(path).ok()?;
    let has = |key: &str| document.get(key).is_some();
    if has("youbencha") || has("cases") || (has("agent") && has("evaluators")) {
        return None;
    }
    if name.starts_with("promptfooconfig") || (has("prompts") && has("providers") && !has("default_test")) {
        return Some(Format::Promptfoo);
    }
    (has("tests") || has("eval_cases")).then_some(Format::AgentV)
}

/// Converts a suite of another tool.
///
/// # Errors
/// When a file can't be read or is invalid, or no case can be run.
pub fn import(path: &Path, format: Format, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let suite = match format {
        Format::PluginEval => plugin_eval::import(path, options)?,
        Format::SkillEval => skill_eval::import(path, options)?,
        Format::AgentV => agentv::import(path, options)?,
        Format::Promptfoo => promptfoo::import(path, options)?,
    };
    if suite.cases() == 0 {
        return Err(ImportError::Empty { path: path.to_owned(), notes: suite.notes });
    }
    Ok(suite)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(dir)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Converts a suite and returns its notes.
        fn import(&self, name: &str, expected: Format) -> Vec<String> {
            let path = self.path(name);
            assert_eq!(detect(&path), Some(expected));
            let options = ImportOptions { agent: "claude-code".to_owned(), model: None, threshold: 1.0 };
            let suite = import(&path, expected, &options).unwrap();
            suite.write(&self.path("out")).unwrap();
            suite.notes.iter().map(ToString::to_string).collect()
        }

        fn json(&self, name: &str) -> Value {
            serde_json::from_slice(&fs::read(self.path("out").join(name)).unwrap()).unwrap()
        }
    }

    const PLUGIN: &str = r#"{ "name": "greeter" }"#;

    #[test]
    fn plugin_evals_become_two_variants() {
        let case = "schema_version: '1.1'\nname: full\nruns: 2\ncontext: { scaffold_script: setup.sh, add_dirs: [data] }\n\
                    execution: { prompt: From YAML., model: haiku, max_turns: 4, timeout_seconds: 9, allowed_tools: [Bash], \
                    append_system_prompt: Be nice., env: { EVAL_A: '1' } }\n\
                    graders: [{ name: g, type: baseline, baseline_file: base.txt, criteria: Better. }]\n";
        let files = Files::new(&[
            ("p/.claude-plugin/plugin.json", PLUGIN),
            ("p/skills/x/SKILL.md", "x"),
            ("p/evals/full/case.yaml", case),
            ("p/evals/full/base.txt", "The base."),
            ("p/evals/full/setup.sh", "touch a"),
            ("p/evals/full/data/d.txt", "d"),
            ("p/evals/full/graders/skill.md", "---\ntype: tool_used\ntool: Skill\n---\n"),
            ("p/evals/full/graders/re.md", "---\ntype: regex\nflags: i\n---\ndo(ne)?\n"),
            (
                "p/evals/old/case.yaml",
                "name: old\ncontext: { history_file: h.jsonl }\nexecution: { prompt: x }\n",
            ),
            (
                "p/evals/zmock/case.yaml",
                "execution: { prompt: x }\ngraders: [{ name: g, type: regex, pattern: a, target: mock_calls }]\n",
            ),
        ]);
        let notes = files.import("p", Format::PluginEval);
        assert_eq!(
            notes,
            [
                "old: left out: `history_file` is not supported",
                "zmock: left out: graders of `mock_calls` are not supported",
            ]
        );
        let suite = files.json("suite.json");
        assert_eq!((&suite["repeats"], &suite["vary"]), (&json!(2), &json!(["plugins"])));
        assert_eq!(suite["variants"][1]["config"]["plugins"], json!(["plugins/p"]));
        assert!(files.path("out/plugins/p/skills/x/SKILL.md").is_file());
        assert!(!files.path("out/plugins/p/evals").exists(), "the agent must not see its graders");
        let case = files.json("full.json");
        let config = &case["agent"]["config"];
        assert_eq!((&case["agent"]["model"], &config["max_turns"]), (&json!("haiku"), &json!(4)));
        assert_eq!(config["disallowed_tools"], json!(["WebFetch"]));
        assert_eq!(config["add_dirs"], json!(["dirs/full/data"]));
        assert_eq!((&case["timeouts"]["agent"], &case["env"]["EVAL_A"]), (&json!(9000), &json!("1")));
        assert_eq!(case["pre_execution"][0]["name"], "script");
        assert_eq!(fs::read_to_string(files.path("out/full.prompt.md")).unwrap(), "From YAML.");
        let graders = files.json("full.graders.json");
        assert_eq!(graders[0]["baseline"], "The base.");
        assert_eq!((&graders[1]["name"], &graders[1]["pattern"]), (&json!("re"), &json!("do(ne)?")));
        assert_eq!((&graders[2]["arm"], &graders[2]["scored"]), (&json!("with-only"), &json!(false)));
    }

    #[test]
    fn invalid_plugin_case_is_an_error_that_names_it() {
        let options = ImportOptions { agent: "claude-code".to_owned(), model: None, threshold: 1.0 };
        for (text, reason) in
            [("---\ncolor: red\n---\nHi.\n", "unknown key `color`"), ("---\nruns: 1\n---\n", "no prompt")]
        {
            let files =
                Files::new(&[("p/.claude-plugin/plugin.json", PLUGIN), ("p/evals/one/prompt.md", text)]);
            let error = import(&files.path("p"), Format::PluginEval, &options).unwrap_err().to_string();
            assert!(error.contains("evals/one") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn skill_evals_are_read_in_both_spellings() {
        let evals = r#"{ "skill_name": "polite", "evals": [
            { "id": 1, "prompt": "Greet.", "expected_output": "A greeting.", "files": ["evals/files/a.txt"], "assertions": ["It greets.", "It is short."] },
            { "id": 2, "prompt": "Greet.", "expected_output": "x", "expectations": ["It greets."] },
            { "id": 3, "prompt": "Greet.", "expected_output": "A greeting." },
            { "id": 4, "prompt": "Greet." }] }"#;
        let files = Files::new(&[
            ("polite/SKILL.md", "x"),
            ("polite/evals/evals.json", evals),
            ("polite/evals/files/a.txt", "a"),
        ]);
        let notes = files.import("polite", Format::SkillEval);
        assert_eq!(notes, ["eval-4: left out: neither assertions nor an expected output"]);
        assert_eq!(detect(&files.path("polite/evals/evals.json")), Some(Format::SkillEval));
        assert_eq!(files.json("eval-1.graders.json").as_array().unwrap().len(), 2);
        assert_eq!(files.json("eval-2.graders.json")[0]["criteria"], "It greets.");
        assert_eq!(
            files.json("eval-3.graders.json")[0]["criteria"],
            "The result is as expected: A greeting."
        );
        assert!(files.path("out/start-eval-1/evals/files/a.txt").is_file());
        assert_eq!(files.json("suite.json")["vary"], json!(["skills"]));
    }

    #[test]
    fn agentv_tests_become_cases() {
        let eval = "name: greet\ntarget: x\nassertions: [{ type: contains, value: Hello }]\ntests:\n\
                    - { id: one, input: [{ role: system, content: Be nice. }, { role: user, content: Greet. }], criteria: It greets., expected_output: Hello }\n\
                    - { id: two, input: Greet., assertions: [{ type: code-grader, command: x }] }\n\
                    - { id: three, input: [{ role: assistant, content: Hi }] }\n";
        let files = Files::new(&[("eval.yaml", eval)]);
        let notes = files.import("eval.yaml", Format::AgentV);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].ends_with("`target` is replaced by the agent `claude-code`"), "{notes:?}");
        assert_eq!(notes[1], "two: assertion left out: `code-grader` has no counterpart");
        assert_eq!(notes[2], "three: left out: messages of `assistant` are not supported");
        assert_eq!(files.json("one.json")["agent"]["config"]["append_system_prompt"], "Be nice.");
        assert_eq!(files.json("one.graders.json")[1]["criteria"], "It greets.\nExpected: Hello");
        assert_eq!(files.json("suite.json")["cases"], json!(["one.json", "two.json"]));
    }

    #[test]
    fn promptfoo_tests_are_rendered_with_each_prompt() {
        let config = "prompts: ['Greet {{name}}.', 'Say hi to {{ name }}.']\nproviders: [x]\nsharing: true\n\
                      defaultTest: { assert: [{ type: icontains, value: '{{name}}' }] }\ntests:\n\
                      - { vars: { name: Ada }, threshold: 0.5 }\n- { vars: { name: [a, b] } }\n";
        let files = Files::new(&[("promptfooconfig.yaml", config)]);
        let notes = files.import("promptfooconfig.yaml", Format::Promptfoo);
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(notes[2].contains("the variable `name` is not a text"), "{notes:?}");
        assert_eq!(
            fs::read_to_string(files.path("out/test-1-prompt-2.prompt.md")).unwrap(),
            "Say hi to Ada."
        );
        assert_eq!(files.json("test-1-prompt-1.graders.json")[0]["pattern"], "Ada");
        assert_eq!(files.json("test-1-prompt-1.json")["evaluators"][0]["config"]["threshold"], 0.5);
    }

    #[test]
    fn own_files_are_not_foreign() {
        let files = Files::new(&[
            ("suite.yaml", "youbencha: 1\ncases: []\n"),
            ("case.yaml", "agent: {}\nevaluators: []\n"),
            ("empty/x", ""),
        ]);
        for name in ["suite.yaml", "case.yaml", "empty", "missing.yaml"] {
            assert_eq!(detect(&files.path(name)), None, "{name}");
        }
    }
}
