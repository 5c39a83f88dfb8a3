//! Files that cases and variants lay over the start tree.

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{RealClaude, TestContext};

use crate::YB;
use crate::suites::World;

/// Writes a suite whose agent greets by name only if `CLAUDE.md` says so, and whose hidden test checks the greeting.
fn world(variants: &Value, more: &Value) -> World {
    let world = World::new();
    world.context.write("tree/greet.sh", "echo Hello\n");
    world.context.write("tree/CLAUDE.md", "Be brief.\n");
    world.context.write("tree/.gitignore", ".env\n");
    world.context.write("md/names.md", "Greet people by name.\n");
    world.context.write("env.txt", "LAID=1\n");
    let agent =
        "if grep -qs 'by name' CLAUDE.md; then echo 'echo \"Hello, $1!\"' > greet.sh; fi; ls -a > seen";
    let mut case = json!({ "name": "greeting", "description": "x", "directory": "tree",
        "agent": { "type": "command", "config": { "prompt": "Improve greet.sh.", "command": { "argv": ["sh", "-c", agent] } } },
        "may_change": ["greet.sh"],
        "evaluators": [
            { "name": "command", "config": { "shell": "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!' && test -f CLAUDE.md && cat .env" } },
            { "name": "git-diff", "config": { "assertions": { "max_files_changed": 2 } } }] });
    for (key, value) in more.as_object().unwrap() {
        case[key] = value.clone();
    }
    let suite = json!({ "youbencha": 1, "name": "n", "cases": [case], "variants": variants });
    world.context.write("suite.yaml", suite.to_string());
    world
}

fn outcomes(world: &World) -> Vec<(String, String)> {
    let run = world.runs().pop().unwrap();
    let results: Value = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    let trials = results["trials"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    trials.map(|trial| (text(&trial["variant"]), text(&trial["outcome"]))).collect()
}

#[test]
fn laid_files_are_in_the_start_tree_and_in_no_diff() {
    let variants = json!([
        { "name": "plain", "files": { ".env": "env.txt" } },
        { "name": "names", "files": { "CLAUDE.md": "md/names.md", ".env": "env.txt" } },
        { "name": "none", "remove": ["CLAUDE.md"], "files": { ".env": "env.txt" } }
    ]);
    let world = world(&variants, &json!({}));
    let outcome = world.suite(&["--quiet"]).run();
    let expected = [("plain", "failed"), ("names", "passed"), ("none", "failed")];
    let expected = expected.map(|(variant, outcome)| (variant.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&world), expected, "{}{}", outcome.stdout, outcome.stderr);
    let diff = world.context.run(YB, ["show", "latest", "greeting--names--1", "--diff"]).stdout;
    let changed = |diff: &str, file: &str| diff.contains(&format!("diff --git a/{file} "));
    assert!(changed(&diff, "greet.sh") && !changed(&diff, "CLAUDE.md") && !changed(&diff, ".env"), "{diff}");
    let removed = world.context.run(YB, ["show", "latest", "greeting--none--1", "--diff"]).stdout;
    assert!(!changed(&removed, "CLAUDE.md"), "{removed}");
    let run = world.only_run();
    let seen = run.join("trials/greeting--none--1/attempt-1/src-modified/seen");
    assert!(!std::fs::read_to_string(seen).unwrap().contains("CLAUDE.md"));
    assert_eq!(world.context.read("tree/CLAUDE.md"), "Be brief.\n", "the source is unchanged");
}

#[test]
fn laid_files_do_not_count_as_differences_from_the_expected_result() {
    let agent = "echo 'echo done' > greet.sh; ls";
    let more = json!({ "expected_source": "directory", "expected": "wanted",
        "agent": { "type": "command", "config": { "prompt": "Improve greet.sh.", "command": { "argv": ["sh", "-c", agent] } } },
        "evaluators": [{ "name": "expected-diff", "config": { "threshold": 1.0 } }] });
    let variants = json!([
        { "name": "plain" },
        { "name": "laid", "files": { "AGENTS.md": "md/names.md", "CLAUDE.md": "md/names.md" } },
        { "name": "removed", "remove": ["CLAUDE.md"] },
        // What the agent itself does to a laid file counts.
        { "name": "touched", "files": { "greet.sh": "md/names.md", "AGENTS.md": "md/names.md" },
            "config": { "command": { "argv": ["sh", "-c", "echo x >> AGENTS.md; echo 'echo done' > greet.sh"] } } }
    ]);
    let world = world(&variants, &more);
    for (name, text) in [
        ("a.txt", "start\n"),
        ("greet.sh", "echo done\n"),
        ("CLAUDE.md", "Be brief.\n"),
        (".gitignore", ".env\n"),
    ] {
        world.context.write(format!("wanted/{name}"), text);
    }
    let outcome = world.suite(&["--quiet"]).run();
    let expected = [("plain", "passed"), ("laid", "passed"), ("removed", "passed"), ("touched", "failed")];
    let expected = expected.map(|(variant, outcome)| (variant.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&world), expected, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn resume_notices_a_changed_file_of_a_variant() {
    let variants = json!([{ "name": "names", "files": { "CLAUDE.md": "md/names.md" } }]);
    let world = world(&variants, &json!({}));
    world.suite(&["--quiet"]).run();
    let run = world.only_run();
    std::fs::remove_file(run.join("results.json")).unwrap();
    world.context.write("md/names.md", "Greet nobody by name.\n");
    let outcome = world.context.run(YB, ["run", "--resume", "latest"]);
    assert_eq!(outcome.code, Some(2), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("md/names.md"), "{}", outcome.stderr);
}

#[test]
fn hooks_see_the_environment_of_the_variant_and_the_case_directory() {
    let hook = "cat \"$YB_CASE_DIR/md/names.md\" > told; echo \"$GREETING $SECRET\" >> told; \
        echo x > \"$YB_CASE_DIR/written\"; ls -a \"$YB_CASE_DIR/.youbencha-workspace\" >> told; true";
    let more = json!({ "pre_execution": [{ "name": "script", "config": { "command": hook } }],
        "isolation": "bubblewrap", "env": { "GREETING": "from the case", "SECRET": "${ENV:PASSED}" } });
    let variants =
        json!([{ "name": "plain" }, { "name": "other", "env": { "GREETING": "from the variant" } }]);
    let world = world(&variants, &more);
    world.suite(&["--quiet"]).env("PASSED", "a-credential").run();
    let told = |variant: &str| {
        let path = format!("trials/greeting--{variant}--1/attempt-1/src-modified/told");
        std::fs::read_to_string(world.only_run().join(path)).unwrap_or_default()
    };
    for (variant, greeting) in [("plain", "from the case"), ("other", "from the variant")] {
        let told = told(variant);
        let expected = format!("Greet people by name.\n{greeting} \n");
        assert!(told.starts_with(&expected), "{variant}: {told}");
        assert!(!told.contains("cache"), "other runs stay hidden: {told}");
    }
    assert!(!world.path("written").exists(), "the directory is read-only");
}

#[test]
fn replay_refuses_a_changed_file_before_the_agent_starts() {
    let context = TestContext::new();
    context.run(YB, ["demo", "--no-download", "--dir", "demo"]);
    let yb = |args: &[&str]| context.command(YB).current_dir(context.dir().join("demo")).args(args).run();
    context.write("demo/md/rules.md", "Be brief.\n");
    let suite = context.read("demo/suite.yaml");
    context.write(
        "demo/suite.yaml",
        suite.replacen("- name: careful", "- name: careful\n    files: { CLAUDE.md: md/rules.md }", 1),
    );
    let recorded =
        yb(&["run", "-c", "suite.yaml", "--replay", "tapes", "--filter", "variant=careful", "--quiet"]);
    assert_ne!(recorded.code, Some(0), "{}{}", recorded.stdout, recorded.stderr);
    let shown = yb(&["show", "latest"]);
    assert!(
        shown.stdout.contains("case-text") || shown.stdout.contains("`files`"),
        "{}{}",
        shown.stdout,
        recorded.stdout
    );
}

/// The guide's suite, with the real agent: the instructions reach the model, and a skill and a directory are found.
#[test]
fn real_claude_gets_the_instructions_of_its_variant() {
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'if grep -qs \"by name\" CLAUDE.md; then echo ''echo \"Hello, $1!\"'' > greet.sh; fi', description: Greet } }]
    - say: Done.
";
    let variants = json!([
        { "name": "plain", "remove": ["CLAUDE.md"], "files": { ".env": "env.txt" } },
        { "name": "rules", "files": { "CLAUDE.md": "md/names.md", ".env": "env.txt" } },
        { "name": "skill", "files": { ".env": "env.txt", ".claude/skills/polite": "skills/polite" },
            "config": { "claude-code": { "trust_repo_settings": true } } },
        { "name": "shared", "files": { ".env": "env.txt" }, "config": { "add_dirs": ["shared"] } }
    ]);
    let agent = json!({ "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Improve greet.sh." } });
    let world = world(&variants, &json!({ "agent": agent }));
    world.context.write("shared/CLAUDE.md", "Say it in the words of the shared directory.\n");
    world.context.write(
        "skills/polite/SKILL.md",
        "---\nname: polite\ndescription: How to be polite to strangers.\n---\nSay please.\n",
    );
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let outcome = world
        .suite(&["--quiet", "--jobs", "1"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    let expected = [("plain", "failed"), ("rules", "passed"), ("skill", "failed"), ("shared", "failed")];
    let expected = expected.map(|(variant, outcome)| (variant.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&world), expected, "{}{}", outcome.stdout, outcome.stderr);
    let told =
        |text: &str| server.requests().iter().filter(|seen| seen.body.to_string().contains(text)).count();
    // Two requests of each conversation.
    assert_eq!(told("Greet people by name."), 2, "the instructions of one variant");
    assert_eq!(told("How to be polite to strangers."), 2, "the skill of one variant");
    assert_eq!(told("in the words of the shared directory"), 2, "the directory of one variant");
    let diff = world.context.run(YB, ["show", "latest", "greeting--rules--1", "--diff"]).stdout;
    assert!(diff.contains("greet.sh") && !diff.contains("CLAUDE.md") && !diff.contains("SKILL"), "{diff}");
}

/// Runs the suite of the guide with the real agent instead of the shell command.
#[test]
fn real_claude_answers_the_question_of_the_guide() {
    let world = World::new();
    let guide = include_str!("../../../../docs/guides/claude-md.md");
    for block in guide.split("<!-- file: ").skip(1) {
        let (name, rest) = block.split_once(" -->").unwrap();
        let text = rest.split("```").nth(1).unwrap().split_once('\n').unwrap().1;
        let lines = text.lines().filter(|line| !line.contains("command: { argv"));
        let text = lines.map(|line| format!("{line}\n")).collect::<String>();
        world
            .context
            .write(name, text.replace("type: command", "type: claude-code").replace("repeats: 10", ""));
    }
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'if grep -qs \"by name\" CLAUDE.md; then echo ''echo \"Hello, $1!\"'' > greet.sh; fi', description: Greet } }]
    - say: Done.
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let outcome = world
        .suite(&["--quiet", "--jobs", "1"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    let expected = [("without", "failed"), ("with", "passed")];
    let expected = expected.map(|(variant, outcome)| (variant.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&world), expected, "{}{}", outcome.stdout, outcome.stderr);
    let told = server
        .requests()
        .iter()
        .filter(|seen| seen.body.to_string().contains("Greet people by name."))
        .count();
    assert_eq!(told, 2, "both requests of one conversation");
}
