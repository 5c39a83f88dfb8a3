//! Generates the files of a recorded run: plan, journal and artifacts of many trials. The content is
//! deterministic.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Trials with artifacts; of further ones there are only plan and journal.
const MAX_ARTIFACTS: usize = 1_000;

/// The shape of a generated run.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    /// The cases.
    pub cases: Vec<String>,
    /// The variants.
    pub variants: Vec<String>,
    /// Repeats per case and variant.
    pub repeats: u32,
    /// Text to inject into every field that an agent, a case or a repository controls.
    pub hostile: String,
    /// Number of additional messages per conversation.
    pub extra_messages: usize,
}

impl RecordedRun {
    /// Returns the run used in documentation and screenshots.
    #[must_use]
    pub fn example() -> Self {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            cases: names(&[
                "fix-login-redirect",
                "add-pagination",
                "cache-invalidation",
                "flaky-retry",
                "csv-export",
            ]),
            variants: names(&["sonnet", "opus", "opus-no-tests"]),
            repeats: 3,
            hostile: String::new(),
            extra_messages: 0,
        }
    }

    /// Writes the run to `<root>/runs/nightly-2026-11-15-1794765306041` and returns that path.
    ///
    /// # Panics
    /// Panics if it can't be written.
    #[must_use]
    pub fn write(&self, root: &Path) -> PathBuf {
        let id = "nightly-2026-11-15-1794765306041";
        let run = root.join("runs").join(id);
        let mut planned = Vec::new();
        let mut journal = vec![json!({"event": "run_started", "version": 1, "run": id, "youbencha": "0.1.0",
            "trials": self.trials(), "jobs": 4})];
        let mut number = 0;
        for repeat in 1..=self.repeats {
            for case in &self.cases {
                for variant in &self.variants {
                    number += 1;
                    let trial = RecordedTrial { run: self, case, variant, repeat, number };
                    planned.push(trial.plan());
                    trial.record(&run, &mut journal);
                }
            }
        }
        journal.push(json!({"event": "run_finished"}));
        let lines: Vec<String> = journal
            .into_iter()
            .enumerate()
            .map(|(at, mut line)| {
                line["seq"] = json!(at + 1);
                line["at"] = json!(timestamp(at));
                line.to_string()
            })
            .collect();
        let plan = json!({"version": 1, "run": id, "created_at": timestamp(0), "youbencha": "0.1.0",
            "name": format!("nightly{}", self.hostile), "config": "suite.yaml", "files": [],
            "options": {"retries": 2}, "trials": planned});
        save(&run.join("plan.json"), plan.to_string().as_bytes());
        save(&run.join("journal.jsonl"), format!("{}\n", lines.join("\n")).as_bytes());
        run
    }

    /// Returns the number of trials.
    #[must_use]
    pub fn trials(&self) -> usize {
        self.cases.len() * self.variants.len() * self.repeats as usize
    }
}

struct RecordedTrial<'a> {
    run: &'a RecordedRun,
    case: &'a str,
    variant: &'a str,
    repeat: u32,
    number: usize,
}

impl RecordedTrial<'_> {
    fn folder(&self) -> String {
        let safe = |text: &str| -> String {
            text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect()
        };
        format!("{}--{}--{}", safe(self.case), safe(self.variant), self.repeat)
    }

    /// Returns a number that depends only on the trial and a word.
    fn pseudo_random(&self, word: &str) -> u64 {
        let text = format!("{}/{}/{}/{word}", self.case, self.variant, self.repeat);
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }) >> 20
            & 0xffff_ffff
            ^ 0x9e37
    }

    fn outcome(&self) -> &'static str {
        match self.pseudo_random("outcome") % 100 {
            0..66 => "passed",
            66..86 => "failed",
            86..91 => "timeout",
            91..95 => "agent_error",
            95..98 => "infra",
            _ => "grader_error",
        }
    }

    fn plan(&self) -> Value {
        json!({"id": format!("{:016x}", self.number), "folder": self.folder(), "case": format!("{}{}", self.case, self.run.hostile),
            "variant": self.variant, "repeat": self.repeat, "agent": "claude-code", "model": "claude-opus-5-5",
            "commit": "5f0c1a9be2d34c7f8a6b1d2e3f4a5b6c7d8e9f01", "task_digest": "t", "grade_digest": "g", "timeout_ms": 600_000})
    }

    fn record(&self, run: &Path, journal: &mut Vec<Value>) {
        let (folder, outcome) = (self.folder(), self.outcome());
        let hostile = &self.run.hostile;
        let duration = 42_000 + self.pseudo_random("time") % 240_000;
        let usd = 0.05 + (self.pseudo_random("cost") % 400) as f64 / 1000.0;
        let tokens = 4_000 + self.pseudo_random("tokens") % 30_000;
        let passed = outcome == "passed";
        let status = if passed { "passed" } else { "failed" };
        let error = match outcome {
            "infra" => Some(format!("the disk went away{hostile}")),
            "agent_error" => Some(format!("the agent exited with code 139{hostile}")),
            _ => None,
        };
        journal.push(json!({"event": "attempt_started", "trial": folder, "attempt": 1}));
        journal.push(json!({"event": "attempt_finished", "trial": folder, "attempt": 1, "outcome": outcome, "then": "done",
            "started_at": timestamp(self.number), "duration_ms": duration, "tokens": tokens, "turns": 6 + self.pseudo_random("turns") % 20,
            "spend": {"agent_usd": usd, "judge_usd": usd / 9.0}, "agent_version": "2.1.300", "model": "claude-opus-5-5",
            "isolation": "bubblewrap", "error": error,
            "evaluators": [{"name": "git-diff", "status": "passed"}, {"name": "command", "status": status}, {"name": "agentic-judge", "status": status}]}));
        if self.number > MAX_ARTIFACTS {
            return;
        }
        let artifacts = run.join("trials").join(&folder).join("attempt-1/artifacts");
        save(&artifacts.join("results.json"), self.results(duration, passed).to_string().as_bytes());
        save(&artifacts.join("youbencha-log.json"), self.log(duration, tokens, usd).to_string().as_bytes());
        save(&artifacts.join("git-diff.patch"), self.patch().as_bytes());
    }

    fn results(&self, duration: u64, passed: bool) -> Value {
        let hostile = &self.run.hostile;
        let score = if passed { 0.93 } else { 0.4 };
        let status = if passed { "passed" } else { "failed" };
        json!({
            "version": "1.0.0",
            "test_case": {"name": self.case, "description": format!("After a login the user lands on the page that was asked for.{hostile}"),
                "config_file": "suite.yaml", "config_hash": "0", "repo": "https://example.com/shop.git", "branch": "main", "commit": "5f0c1a9"},
            "execution": {"started_at": timestamp(self.number), "completed_at": timestamp(self.number), "duration_ms": duration,
                "youbencha_version": "0.1.0", "environment": {"os": "linux", "node_version": "none", "workspace_dir": "w"}, "isolation": "bubblewrap"},
            "agent": {"type": "claude-code", "youbencha_log_path": "youbencha-log.json", "status": "success", "exit_code": 0},
            "evaluators": [
                {"evaluator": "git-diff", "status": "passed", "message": format!("✓ 2 changed files (+14/-3 lines){hostile}"),
                    "duration_ms": 12, "timestamp": timestamp(self.number), "assertions": {"max_files_changed": 5},
                    "metrics": {"files_changed": 2, "lines_added": 14, "lines_removed": 3, "change_entropy": 0.811_278,
                        "changed_files": [{"path": format!("src/login.ts{hostile}"), "additions": 8, "deletions": 3, "changes": 11},
                            {"path": "test/login.test.ts", "additions": 6, "deletions": 0, "changes": 6}]},
                    "artifacts": [{"type": "diff", "path": "git-diff.patch", "description": "all changes"}]},
                self.command(passed),
                {"evaluator": "agentic-judge", "status": status, "message": if passed { "every assertion holds".to_owned() } else {
                        format!("tests 0.40 is below 0.80{hostile}") },
                    "duration_ms": 8_400, "timestamp": timestamp(self.number), "cost_usd": 0.0123,
                    "assertions": {"redirect": {"score": 1.0, "threshold": 0.8, "reason": "the target is kept through the login"},
                        "tests": {"score": score, "threshold": 0.8, "reason": format!("covers the open redirect{hostile}")}},
                    "metrics": {"agreement": 1.0, "votes": {"first": {"tests": score}, "second": {"tests": score}}}}],
            "summary": {"total_evaluators": 3, "passed": 1 + 2 * u8::from(passed), "failed": 2 * u8::from(!passed), "skipped": 0, "overall_status": status},
            "artifacts": {"agent_log": "youbencha-log.json", "reports": [], "evaluator_artifacts": ["git-diff.patch"]},
            "outcome": self.outcome(),
        })
    }

    /// Returns the result of a test run.
    fn command(&self, passed: bool) -> Value {
        let hostile = &self.run.hostile;
        let mut result = json!({"evaluator": "command", "status": "passed", "graded_code": "separate-process",
            "message": "✓ exited with code 0, 15 tests passed, 0 failed", "duration_ms": 2_100, "timestamp": timestamp(self.number),
            "assertions": {"exit_code": 0}, "metrics": {"exit_code": 0, "tests_passed": 15, "tests_failed": 0}});
        if !passed {
            result["status"] = json!("failed");
            result["message"] = json!(format!(
                "✗ exited with code 1, 14 tests passed, 1 failed: `login > ignores targets on other hosts{hostile}` | expected exit code 0"
            ));
            result["metrics"] = json!({"exit_code": 1, "tests_passed": 14, "tests_failed": 1});
            result["failures"] = json!([{"test": format!("login > ignores targets on other hosts{hostile}"), "lines": [
                "Error: expect(received).toBe(expected)", "", "Expected: \"/\"", format!("Received: \"//evil.example\"{hostile}"), "",
                "    at test/login.test.ts:14:24"]}]);
        }
        result
    }

    fn log(&self, duration: u64, tokens: u64, usd: f64) -> Value {
        let hostile = &self.run.hostile;
        let call = |id: &str, name: &str, arguments: Value| json!([{"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]);
        let at = timestamp(self.number);
        let after = |seconds: usize| timestamp(self.number + seconds);
        let mut messages = vec![
            json!({"role": "user", "timestamp": at, "content": format!("Users who open a deep link while logged out land on the start page after logging in. \
                Send them to the page that they asked for, and only within our own site. Add a test.{hostile}")}),
            json!({"role": "assistant", "timestamp": after(4), "thinking": format!("The target has to survive the login.{hostile}"), "content": "I start with how the login handles its target.",
                "tool_calls": call("c1", "Grep", json!({"pattern": format!("redirect{hostile}"), "path": "src"}))}),
            json!({"role": "tool", "timestamp": after(5), "tool_call_id": "c1", "content": "src/login.ts:12: res.redirect('/')"}),
            json!({"role": "assistant", "timestamp": after(9), "content": "",
                "tool_calls": call("c2", "Edit", json!({"file_path": "src/login.ts", "old_string": "res.redirect('/')", "new_string": "res.redirect(target(req))\n"}))}),
            json!({"role": "tool", "timestamp": after(10), "tool_call_id": "c2", "content": "updated"}),
            json!({"role": "assistant", "timestamp": after(14), "content": "Now the test.",
                "tool_calls": call("c3", "Bash", json!({"command": "npm test -- login"}))}),
        ];
        messages.push(
            json!({"role": "tool", "timestamp": after(32), "tool_call_id": "c3", "content": "14 passing"}),
        );
        for at in 0..self.run.extra_messages {
            messages.push(json!({"role": "assistant", "timestamp": after(33 + at), "content": format!("Step {at}: looking at another file.{hostile}"),
                "tool_calls": call(&format!("x{at}"), "Read", json!({"file_path": format!("src/part-{at}.ts")}))}));
        }
        messages.push(json!({"role": "assistant", "timestamp": after(38 + self.run.extra_messages), "content": format!("Done. After logging in, users land where they wanted to go; targets on other hosts are ignored.{hostile}")}));
        let mut calls = vec![
            json!({"id": "c1", "name": "Grep", "arguments": "{}", "result": format!("src/login.ts:12: res.redirect('/'){hostile}"), "result_bytes": 34,
                "started_at": after(4), "completed_at": after(5)}),
            json!({"id": "c2", "name": "Edit", "arguments": "{}", "result": "The file src/login.ts has been updated.",
                "started_at": after(9), "completed_at": after(10)}),
            json!({"id": "c3", "name": "Bash", "arguments": "{}", "is_error": self.outcome() != "passed", "result_bytes": 48_211, "started_at": after(14), "completed_at": after(32),
                "result": format!("{}\n 14 passing (212ms)", "  ✓ keeps the target of a deep link through the login\n".repeat(40))}),
        ];
        for at in 0..self.run.extra_messages {
            calls.push(json!({"id": format!("x{at}"), "name": "Read", "arguments": "{}",
                "result": format!("{}{hostile}", "export const part = (value) => value + 1;\n".repeat(30))}));
        }
        json!({
            "version": "1.0.0", "schema_version": "1.0.0",
            "agent": {"name": "claude-code", "version": "2.1.300", "adapter_version": "0.1.0"},
            "model": {"name": "claude-opus-5-5", "provider": "anthropic", "parameters": {}, "source": "init"},
            "execution": {"started_at": at, "completed_at": at, "duration_ms": duration, "exit_code": 0, "status": "success"},
            "messages": messages, "tool_calls": calls,
            "usage": {"input_tokens": tokens / 5 * 4, "output_tokens": tokens / 5, "total_tokens": tokens, "cache_read_input_tokens": tokens * 7,
                "cache_creation_input_tokens": 900, "cost_usd": usd, "estimated_cost_usd": usd, "source": "self-reported", "by_model": {}},
            "errors": [], "warnings": [],
        })
    }

    fn patch(&self) -> String {
        let hostile = &self.run.hostile;
        format!(
            "diff --git a/src/login.ts b/src/login.ts\nindex 3f1c0aa..9b2d7e1 100644\n--- a/src/login.ts\n+++ b/src/login.ts\n\
             @@ -8,11 +8,16 @@ import {{ session }} from './session';\n \n export async function login(req, res) {{\n   const user = await check(req.body);\n\
             -  if (!user) return res.status(401).end();\n-  session.start(res, user);\n-  res.redirect('/');\n\
             +  if (!user) {{\n+    return res.status(401).end();\n+  }}\n+  session.start(res, user);\n+  res.redirect(target(req)); // {hostile}\n }}\n\
             +\n+/** Only paths of our own: `//host` and `\\\\host` lead elsewhere. */\n+const target = (req) => /^\\/(?![/\\\\])/.test(req.query.to ?? '') ? req.query.to : '/';\n\
             diff --git a/test/login.test.ts b/test/login.test.ts\nnew file mode 100644\nindex 0000000..6ad1f22\n--- /dev/null\n+++ b/test/login.test.ts\n\
             @@ -0,0 +1,6 @@\n+import {{ login }} from '../src/login';\n+\n+test('keeps the target of a deep link', async () => {{\n\
             +  const res = await login({{ query: {{ to: '/orders/7' }} }});\n+  expect(res.location).toBe('/orders/7');\n+}});\n"
        )
    }
}

/// Returns a timestamp within one day, increasing with the number.
fn timestamp(at: usize) -> String {
    format!("2026-11-15T{:02}:{:02}:{:02}.000Z", at / 3600 % 24, at / 60 % 60, at % 60)
}

fn save(path: &Path, bytes: &[u8]) {
    let saved = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    saved.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}
