//! Random secrets, said by a scripted model to real agents in every way: no 8 characters of them are in any file that a run
//! leaves, in any report, or in any output.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use yb_testkit::git::Repo;
use yb_testkit::{RealAgent, TestContext};

use super::{contains, files};
use crate::YB;

const LETTERS: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const ALL: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789_-+/=.";

/// Returns a secret that depends on a seed.
fn secret(mut seed: u64) -> String {
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let (length, letters) = (16 + next(40), [LETTERS, ALL][next(2)]);
    (0..length).map(|_| char::from(letters[next(letters.len())])).collect()
}

/// Returns a run of 8 characters of the secret, also if it is folded over lines.
fn leak(bytes: &[u8], secret: &str) -> Option<String> {
    let found =
        |bytes: &[u8]| secret.as_bytes().windows(8).find(|part| contains(bytes, part)).map(<[u8]>::to_vec);
    let unfolded: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let text = String::from_utf8_lossy(bytes);
    let unescaped = text.replace("\\n", "").into_bytes();
    [bytes, &unfolded, &unescaped]
        .into_iter()
        .find_map(found)
        .map(|part| String::from_utf8_lossy(&part).into_owned())
}

#[track_caller]
fn assert_absent(place: &str, bytes: &[u8], secret: &str) {
    assert_eq!(leak(bytes, secret), None, "{place}: secret {secret}: {}", String::from_utf8_lossy(bytes));
}

fn check(name: &str, seed: u64) {
    let (secret, agent) = (secret(seed), RealAgent::named(name));
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greeting.txt", "Hello.\n").commit("start");
    // The tools print the secret and keep no file of it: a file that an agent writes is its result and not redacted.
    let print = format!(
        "printf %s '{secret}' | fold -w 10; echo; printf %s '{secret}' | base64; printf %s \"$DEPLOY_KEY\" | od -An -tx1 | tr -d ' \\n'"
    );
    let model = json!({ "tape": 1, "lanes": { "main": [
        { "think": format!("I know {secret}."), "say": format!("The key is {secret}, is it?"),
          "tools": [{ "run": { "command": print } }], "pace": { "chunk": 5 } },
        // Apart, because agents read stdout and stderr at the same time: one would be in the middle of the other.
        { "tools": [{ "run": { "command": "echo \"$DEPLOY_KEY\" >&2" } }] },
        { "say": format!("It was\n{secret}"), "pace": { "chunk": 3 } },
    ] } });
    let script = context.write("model.yaml", model.to_string());
    let grade = "echo \"$DEPLOY_KEY\"; printf %s \"$DEPLOY_KEY\" | fold -w 7 >&2; printf %s \"$DEPLOY_KEY\" > report.tap; exit 1";
    let hook = json!([{ "name": "script", "config": { "command": "echo \"$DEPLOY_KEY\"", "env": { "DEPLOY_KEY": "${ENV:DEPLOY_KEY}" } } }]);
    let case = json!({ "youbencha": 1, "name": "said", "description": "The key is said.", "repo": "repo",
        "agent": { "type": agent.name, "model": agent.model, "config": { "prompt": "Say the key." } },
        "env": ["DEPLOY_KEY"], "tape": { "script": "model.yaml" }, "pre_execution": hook, "post_evaluation": hook,
        "evaluators": [
            { "name": "command", "config": { "shell": grade, "env": { "DEPLOY_KEY": "${ENV:DEPLOY_KEY}" } } },
            { "name": "git-diff", "config": { "assertions": { "max_files_changed": 5 } } },
        ] });
    context.write("case.yaml", case.to_string());
    let yb = |args: &[&str]| {
        let mut command = context.command(YB).args(args).env("DEPLOY_KEY", &secret);
        for (name, value) in agent.env("http://127.0.0.1:9") {
            command = command.env(name, value);
        }
        command.timeout(Duration::from_secs(160)).run()
    };
    let run = [
        "run",
        "-c",
        "case.yaml",
        "--record",
        "tapes",
        "--otel-file",
        "spans.jsonl",
        "--otel-content",
        "--json",
    ];
    let outcome = yb(&run);
    assert_eq!(outcome.code, Some(1), "the grade fails: {}{}", outcome.stdout, outcome.stderr);
    let mut outputs = vec![("run".to_owned(), outcome)];
    for format in ["markdown", "json", "html", "junit", "csv", "github"] {
        let file = format!("report.{format}");
        outputs.push((format.to_owned(), yb(&["report", "--format", format, "--output", &file])));
        assert!(context.dir().join(&file).exists(), "{format}: {}", outputs.last().unwrap().1.stderr);
    }
    for args in [
        &["show", "--json", "--transcript", "--diff", "--command"][..],
        &["show", "--transcript"],
        &["show"],
        &["verify"],
        &["eval", "--from", "latest", "-c", "case.yaml"],
        &["tape", "show", "tapes/said--default--1.tape"],
    ] {
        outputs.push((args.join(" "), yb(args)));
    }
    for (what, outcome) in &outputs {
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_absent(what, text.as_bytes(), &secret);
        }
    }
    let all = files(&context.dir());
    let is_there = |end: &str| all.iter().any(|path| path.ends_with(end));
    for name in
        ["spans.jsonl", "journal.jsonl", "frames.jsonl", "youbencha-log.json", "results.json", "report.html"]
    {
        assert!(is_there(name), "{name}: {all:?}");
    }
    let has_marker =
        |path: &Path| contains(&std::fs::read(path).unwrap_or_default(), b"[REDACTED:DEPLOY_KEY]");
    for path in all.iter().filter(|path| **path != script) {
        assert_absent(&path.display().to_string(), &std::fs::read(path).unwrap_or_default(), &secret);
    }
    // It was said, and found, everywhere.
    for name in ["spans.jsonl", "frames.jsonl", "youbencha-log.json", "report.html"] {
        assert!(all.iter().any(|path| path.ends_with(name) && has_marker(path)), "{name} has no marker");
    }
    let tape = yb_tape::Tape::open(context.dir().join("tapes/said--default--1.tape")).unwrap();
    for exchange in tape.exchanges() {
        assert_absent("response", exchange.response_body(), &secret);
        assert_absent("request", tape.request_body(exchange).to_string().as_bytes(), &secret);
    }
    assert!(tape.exchanges().len() >= 2);
}

#[test]
fn real_claude_leaves_no_random_secret_anywhere() {
    for seed in [1, 2, 3] {
        check("claude-code", seed);
    }
}

#[test]
fn real_opencode_leaves_no_random_secret_anywhere() {
    check("opencode", 11);
}

#[test]
fn real_codex_leaves_no_random_secret_anywhere() {
    check("codex", 21);
}

#[test]
fn real_gemini_leaves_no_random_secret_anywhere() {
    check("gemini", 31);
}

#[test]
fn real_copilot_leaves_no_random_secret_anywhere() {
    check("copilot-cli", 41);
}
