//! Edited records: whatever part of a run is changed, the commands that read it refuse it, and `yb verify` names the place.

mod derived;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use yb_testkit::{Outcome, TestContext};

use crate::YB;
use crate::small_suite::{SUITE, world};

const TRIAL: &str = "greeting--two--1";

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

/// A context with one finished run, and its directory.
fn ran() -> (TestContext, PathBuf) {
    let context = world();
    context.write("suite.yaml", SUITE);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "2", "--quiet"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    (context, run)
}

fn artifact(run: &Path, name: &str) -> PathBuf {
    run.join("trials").join(TRIAL).join("attempt-1/artifacts").join(name)
}

/// Replaces a text in a file, which must contain it.
#[track_caller]
fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{}: {text}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[track_caller]
fn assert_problem(context: &TestContext, place: &str) {
    let verified = yb(context, &["verify"]);
    assert_eq!(verified.code, Some(1), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains(&format!("problem: {place}")), "{}", verified.stdout);
    let json: Value = serde_json::from_str(&yb(context, &["verify", "--json"]).stdout).unwrap();
    assert_eq!((&json["intact"], &json["exit_code"]), (&Value::Bool(false), &Value::from(1)));
    let problem = &json["problems"][0];
    let shown = format!("{}: {}", problem["place"].as_str().unwrap(), problem["message"].as_str().unwrap());
    assert!(shown.starts_with(place), "{json:#}");
    assert_eq!(json["statement"], Value::Null);
}

#[test]
fn intact_run_is_verified() {
    let (context, run) = ran();
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains("intact; checked journal, plan, "), "{}", verified.stdout);
    assert_eq!(verified.stderr, "");
    let json: Value = serde_json::from_str(&yb(&context, &["verify", "--json"]).stdout).unwrap();
    assert!(json["checked"]["artifacts"].as_u64().unwrap() >= 9, "{json:#}");
    // Start and end tree of `none` are the same tree as the start tree of the others.
    assert_eq!(json["checked"]["trees"], 3);
    // All directories of artifacts are recorded, not only those of evaluators.
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert!(journal.contains("command-logs/"), "{journal}");
}

#[test]
fn edited_artifacts_are_refused_where_they_are_read() {
    for (name, from, to) in [
        ("results.json", "\"failed\"", "\"passed\""),
        ("git-diff.patch", "+++ b/a", "+++ b/b"),
        ("youbencha-log.json", "Greet by name.", "Greet by none."),
        ("evaluators/1-git-diff/verdict.json", "failed", "passed"),
    ] {
        let (context, run) = ran();
        let path = artifact(&run, name);
        if name == "git-diff.patch" {
            fs::write(&path, "forged").unwrap();
        } else {
            edit(&path, from, to);
        }
        for args in
            [&["show", TRIAL][..], &["show", TRIAL, "--json"], &["show", TRIAL, "--diff"], &["report"]]
        {
            let outcome = yb(&context, args);
            assert_eq!(outcome.code, Some(4), "{name}: {args:?}: {}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.stderr.contains("error: changed since it was recorded: `"), "{}", outcome.stderr);
            assert!(
                outcome.stderr.contains(name) && outcome.stderr.contains("yb verify"),
                "{}",
                outcome.stderr
            );
            assert_eq!(outcome.stdout, "");
        }
        // Other trials are not affected.
        assert_eq!(yb(&context, &["show", "greeting--one--1"]).code, Some(0));
        assert_problem(&context, &format!("trials/{TRIAL}/attempt-1/artifacts/{name}"));
    }
}

#[test]
fn edited_log_and_results_are_not_regraded() {
    for name in ["youbencha-log.json", "results.json"] {
        let (context, run) = ran();
        edit(&artifact(&run, name), "greet", "great");
        let graded = yb(&context, &["eval", "--from", "latest", "-c", "suite.yaml"]);
        assert_ne!(graded.code, Some(0));
        let all = format!("{}{}", graded.stdout, graded.stderr);
        assert!(all.contains("recorded digest"), "{name}: {all}");
    }
}

#[test]
fn missing_artifacts_are_a_problem_and_added_ones_a_note() {
    let (context, run) = ran();
    fs::remove_file(artifact(&run, "git-diff.patch")).unwrap();
    assert_problem(&context, &format!("trials/{TRIAL}/attempt-1/artifacts/git-diff.patch: missing"));
    // A removed artifact is not used, so that nothing is wrong with what is shown.
    assert_eq!(yb(&context, &["show", TRIAL]).code, Some(0));
    let (context, run) = ran();
    fs::write(artifact(&run, "extra.txt"), "").unwrap();
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    assert!(verified.stderr.contains("artifacts/extra.txt"), "{}", verified.stderr);
}

#[test]
fn edited_journal_is_refused_by_every_command() {
    type Edit = fn(&mut Vec<String>);
    let edits: [(&str, Edit); 4] = [
        ("an outcome", |lines| {
            let at = lines.iter().position(|line| line.contains("\"outcome\":\"failed\"")).unwrap();
            lines[at] = lines[at].replace("\"outcome\":\"failed\"", "\"outcome\":\"passed\"");
        }),
        ("the last line", |lines| {
            *lines.last_mut().unwrap() = lines.last().unwrap().replace("\"at\":\"2", "\"at\":\"1");
        }),
        ("a dropped end", |lines| drop(lines.pop())),
        ("an added line", |lines| {
            let last = lines.last().unwrap();
            let seq = lines.len();
            let line = last.replace(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq + 1));
            lines.push(line);
        }),
    ];
    for (what, change) in edits {
        let (context, run) = ran();
        let path = run.join("journal.jsonl");
        let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        for args in [
            &["show"][..],
            &["report"],
            &["compare", "latest", "latest"],
            &["gate", "latest", "--gate", "min_pass_rate=0.1"],
            &["baseline", "set", "main", "latest"],
            &["eval", "--from", "latest", "-c", "suite.yaml"],
        ] {
            let outcome = yb(&context, args);
            assert_eq!(outcome.code, Some(4), "{what}: {args:?}: {}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.stderr.contains("journal.jsonl"), "{what}: {}", outcome.stderr);
        }
        assert_problem(&context, "journal.jsonl");
    }
}

#[test]
fn edited_plan_and_results_are_refused() {
    let (context, run) = ran();
    edit(&run.join("plan.json"), "\"variant\": \"two\"", "\"variant\": \"one\"");
    for args in [&["show"][..], &["compare", "latest", "latest"], &["run", "--resume"]] {
        assert_ne!(yb(&context, args).code, Some(0), "{args:?}");
    }
    assert_problem(&context, "plan.json");
    let (context, run) = ran();
    edit(&run.join("results.json"), "\"failed\": 1", "\"failed\": 0");
    let reported = yb(&context, &["report"]);
    assert_eq!(reported.code, Some(4), "{}", reported.stderr);
    assert_problem(&context, "results.json");
}

#[test]
fn edited_objects_are_found_by_verify() {
    let (context, run) = ran();
    let packs = run.join("objects.git/objects/pack");
    let mut pack = fs::read_dir(&packs).into_iter().flatten().flatten().map(|entry| entry.path());
    let pack = pack.find(|path| path.extension().is_some_and(|end| end == "pack"));
    let path = pack.unwrap_or_else(|| loose_object(&run.join("objects.git/objects")));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_problem(&context, "objects.git");
}

fn loose_object(objects: &Path) -> PathBuf {
    let folders = fs::read_dir(objects).unwrap().flatten().filter(|entry| entry.file_name().len() == 2);
    folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten()).next().unwrap().path()
}

/// A journal as the previous version wrote it.
#[test]
fn run_without_a_chain_is_read_with_a_note() {
    let (context, run) = ran();
    let path = run.join("journal.jsonl");
    let lines: Vec<String> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("prev");
            line.as_object_mut().unwrap().remove("plan");
            line.to_string()
        })
        .collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let results = run.join("results.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&results).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("journal_head");
    fs::write(&results, value.to_string()).unwrap();
    assert_eq!(yb(&context, &["show"]).code, Some(0));
    let verified = yb(&context, &["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("note: not chained"), "{}", verified.stderr);
    let signed = yb(&context, &["verify", "--sign", "key"]);
    assert_eq!(signed.code, Some(2), "{}", signed.stderr);
    assert!(signed.stderr.contains("no complete record to sign"), "{}", signed.stderr);
}

#[test]
fn records_are_private() {
    let (_context, run) = ran();
    let mut checked = 0;
    let mut open = vec![run.clone()];
    while let Some(path) = open.pop() {
        let kind = fs::symlink_metadata(&path).unwrap();
        // The workspace is the agent's, the store is behind a private directory and has git's own modes.
        if kind.is_symlink() || path.ends_with("src-modified") || path.ends_with("objects.git") {
            continue;
        }
        let mode = kind.permissions().mode() & 0o777;
        checked += 1;
        if kind.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            let private = path == run || path.components().any(|part| part.as_os_str() == "artifacts");
            assert!(!private || mode == 0o700, "{}: {mode:o}", path.display());
        } else if path.file_name().unwrap() != "run.lock" {
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
    assert!(checked > 20, "{checked}");
}

fn ssh_keygen(context: &TestContext, args: &[&str], stdin: &Path) -> bool {
    let mut command = Command::new("ssh-keygen");
    command.args(args).current_dir(context.dir()).stdin(fs::File::open(stdin).unwrap());
    command.output().unwrap().status.success()
}

/// The signature is one of OpenSSH: both programs accept those of the other.
#[test]
fn signature_is_checked_by_yb_and_by_ssh_keygen() {
    let (context, run) = ran();
    let null = Path::new("/dev/null");
    for name in ["id", "other"] {
        assert!(ssh_keygen(&context, &["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name], null));
    }
    let unsigned = yb(&context, &["verify", "--verify-with", "id.pub"]);
    assert_eq!(unsigned.code, Some(1), "{}", unsigned.stderr);
    assert!(
        unsigned.stdout.contains("problem: record.txt.sig: the run is not signed"),
        "{}",
        unsigned.stdout
    );

    let signed = yb(&context, &["verify", "--sign", "id"]);
    assert_eq!(signed.code, Some(0), "{}{}", signed.stdout, signed.stderr);
    assert!(signed.stdout.contains("signed: "), "{}", signed.stdout);
    let checked = yb(&context, &["verify", "--verify-with", "id.pub"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("signature: valid for id.pub"), "{}", checked.stdout);
    let other = yb(&context, &["verify", "--verify-with", "other.pub", "--json"]);
    assert_eq!(other.code, Some(1), "{}", other.stdout);
    let json: Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(json["signature_valid"], false);

    let allowed = format!("me {}", context.read("id.pub"));
    context.write("allowed", allowed);
    let (statement, signature) = (run.join("record.txt"), run.join("record.txt.sig"));
    let name = signature.to_str().unwrap();
    let check = ["-Y", "verify", "-f", "allowed", "-I", "me", "-n", "youbencha-run", "-s", name];
    assert!(ssh_keygen(&context, &check, &statement));
    let forged = context.write("forged.txt", context.read(&statement).replace("run run-", "run ran-"));
    assert!(!ssh_keygen(&context, &check, &forged));

    // The other way round, which also serves keys with a passphrase and those of an agent.
    fs::remove_file(&signature).unwrap();
    let path = statement.to_str().unwrap();
    assert!(ssh_keygen(&context, &["-Y", "sign", "-f", "other", "-n", "youbencha-run", path], null));
    assert_eq!(yb(&context, &["verify", "--verify-with", "other.pub"]).code, Some(0));
    assert_eq!(yb(&context, &["verify", "--verify-with", "id.pub"]).code, Some(1));
}

#[test]
fn signature_does_not_cover_a_changed_run() {
    let (context, run) = ran();
    assert!(ssh_keygen(&context, &["-q", "-t", "ed25519", "-N", "", "-f", "id"], Path::new("/dev/null")));
    assert_eq!(yb(&context, &["verify", "--sign", "id"]).code, Some(0));
    // A forger who can compute digests rewrites the whole chain, which then verifies; the signature does not.
    let path = run.join("journal.jsonl");
    let mut head: Option<String> = None;
    let mut forged = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let line = line
            .replace("\"outcome\":\"failed\"", "\"outcome\":\"passed\"")
            .replace("\"status\":\"failed\"", "\"status\":\"passed\"");
        let line = match (&head, line.split_once("\"prev\":\"")) {
            (Some(head), Some((before, after))) => format!("{before}\"prev\":\"{head}{}", &after[64..]),
            _ => line,
        };
        head = Some(blake3::hash(line.as_bytes()).to_hex().to_string());
        forged.push_str(&format!("{line}\n"));
    }
    fs::write(&path, forged).unwrap();
    fs::remove_file(run.join("results.json")).unwrap();
    assert_eq!(yb(&context, &["verify"]).code, Some(0), "nothing but a signature tells");
    let checked = yb(&context, &["verify", "--verify-with", "id.pub"]);
    assert_ne!(checked.code, Some(0), "{}", checked.stdout);
}

#[test]
fn key_with_a_passphrase_is_refused_with_a_way_out() {
    let (context, _) = ran();
    assert!(ssh_keygen(
        &context,
        &["-q", "-t", "ed25519", "-N", "secret", "-f", "id"],
        Path::new("/dev/null")
    ));
    let signed = yb(&context, &["verify", "--sign", "id"]);
    assert_eq!(signed.code, Some(2), "{}", signed.stderr);
    assert!(signed.stderr.contains("ssh-keygen -Y sign"), "{}", signed.stderr);
}
