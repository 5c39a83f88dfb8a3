//! `files` and `remove` of cases and variants, and directories relative to the file that names them.

use std::path::Path;

use yb_case::suite::Suite;
use yb_case::{Case, OverlayLayer};

use crate::suite::Files;

const COMMIT: &str = "0123456789012345678901234567890123456789";

fn case<'s>(suite: &'s Suite, variant: &str) -> &'s Case {
    &suite.combinations.iter().find(|one| one.variant == variant).unwrap().case
}

fn targets(layer: &OverlayLayer) -> Vec<&str> {
    layer.files.iter().map(|file| file.target.as_str()).collect()
}

/// A case with a file, in a directory of its own, and a suite with other files.
fn files() -> Files {
    let files = Files::new();
    files.write("cases/md/own.md", "own");
    files.write("md/strict.md", "strict");
    files.write("skills/greet/SKILL.md", "greet");
    files.write("skills/greet/bin/run.sh", "true");
    files.case("cases/one.yaml", "one", "files: { CLAUDE.md: md/own.md }\nremove: [AGENTS.md]");
    files
}

const VARIANTS: &str = "cases: [cases/one.yaml]
variants:
  - name: plain
  - { name: strict, files: { ./CLAUDE.md: md/strict.md, .agents/greet: skills/greet }, remove: [docs/] }
";

#[test]
fn files_of_variants_follow_those_of_the_case() {
    let files = files();
    let suite = files.good(VARIANTS);
    let plain = &case(&suite, "plain").overlay.layers;
    assert_eq!(plain.len(), 1);
    assert_eq!((targets(&plain[0]), &plain[0].remove), (vec!["CLAUDE.md"], &vec!["AGENTS.md".to_owned()]));
    assert!(plain[0].files[0].source.ends_with("cases/md/own.md"), "relative to the case");
    let strict = &case(&suite, "strict").overlay.layers;
    assert_eq!(strict[0], plain[0]);
    let laid = [".agents/greet/SKILL.md", ".agents/greet/bin/run.sh", "CLAUDE.md"];
    assert_eq!((targets(&strict[1]), &strict[1].remove), (laid.to_vec(), &vec!["docs".to_owned()]));
    assert!(strict[1].files[2].source.ends_with("md/strict.md"), "relative to the suite");
    let read = |name: &str| suite.files.iter().any(|file| file.path.ends_with(name));
    assert!(
        read("md/own.md") && read("md/strict.md") && read("skills/greet/bin/run.sh"),
        "resume checks them"
    );
}

#[test]
fn content_and_mode_of_files_are_in_the_task_digest_but_not_their_location() {
    let digest = |files: &Files| {
        let suite = files.good(VARIANTS);
        suite.combinations.iter().map(|one| one.task_digest(COMMIT)).collect::<Vec<_>>()
    };
    let (one, two) = (files(), files());
    let before = digest(&one);
    assert_eq!(before, digest(&two));
    assert_ne!(before[0], before[1]);
    two.write("skills/greet/SKILL.md", "greet by name");
    let after = digest(&two);
    assert!(before[0] == after[0] && before[1] != after[1]);
    #[cfg(unix)]
    {
        let path = one.path().join("skills/greet/bin/run.sh");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_ne!(before[1], digest(&one)[1], "an executable file is another file");
    }
}

#[test]
fn unusable_files_are_errors_with_their_place() {
    let files = files();
    std::fs::create_dir(files.path().join("empty")).unwrap();
    #[cfg(unix)]
    {
        std::fs::create_dir(files.path().join("links")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", files.path().join("links/passwd")).unwrap();
        std::os::unix::fs::symlink("/etc", files.path().join("out")).unwrap();
    }
    for (fragment, expected) in [
        (
            "files: { CLAUDE.md: md/none.md }",
            "failed to read `md/none.md` (no such file) [variants[0].files.CLAUDE.md]",
        ),
        ("files: { x: empty }", "failed to read `empty` (no such file) [variants[0].files.x]"),
        ("files: { x: links }", "failed to read `links` (a symbolic link: `x/passwd`) [variants[0].files.x]"),
        (
            "files: { x: out/passwd }",
            "failed to read `out/passwd` (a symbolic link leads out of the directory) [variants[0].files.x]",
        ),
        ("files: { ../x: md/strict.md }", "invalid name: `../x` [variants[0].files]"),
        ("files: { x: ../secret }", "wrong value: `../secret` [variants[0].files.x]"),
        (
            "files: { .git/hooks/post-checkout: md/strict.md }",
            "path in git's own directory: `.git/hooks/post-checkout` [variants[0].files..git/hooks/post-checkout]",
        ),
        ("remove: [.GIT]", "path in git's own directory: `.GIT` [variants[0].remove[0]]"),
        ("remove: [/etc]", "wrong value: `/etc` [variants[0].remove[0]]"),
        (
            "files: { a: md/strict.md, a/b: md/strict.md }",
            "`a` is both a file and a directory, or is written twice [variants[0].files]",
        ),
        (
            "files: { a: md/strict.md, ./a: md/strict.md }",
            "`a` is both a file and a directory, or is written twice [variants[0].files]",
        ),
    ] {
        let loaded = files.load(&format!("cases: [cases/one.yaml]\nvariants: [{{ name: v, {fragment} }}]\n"));
        let messages = files.messages(&loaded);
        let (message, key) = expected.split_once(" [").unwrap();
        let has_both = messages.contains(message) && messages.contains(&format!("[{key}"));
        assert!(loaded.suite.is_none() && has_both, "{fragment}\n{messages}");
    }
}

#[test]
fn additional_directories_start_at_the_file_that_names_them() {
    let files = files();
    let suite = files.good(
        "cases: [cases/one.yaml]
variants:
  - { name: suite, config: { add_dirs: [md] } }
  - { name: absolute, config: { add_dirs: [/usr] } }
",
    );
    let added = &case(&suite, "suite").agent.config.add_dirs;
    assert_eq!(added[0].path, files.path().join("md").canonicalize().unwrap());
    assert!(added[0].digest.is_some());
    assert_eq!(case(&suite, "absolute").agent.config.add_dirs[0].path, Path::new("/usr"));
    let before = suite.combinations[0].task_digest(COMMIT);
    files.write("md/strict.md", "stricter");
    let text = "cases: [cases/one.yaml]\nvariants: [{ name: suite, config: { add_dirs: [md] } }]\n";
    assert_ne!(files.good(text).combinations[0].task_digest(COMMIT), before, "its content is an input");
    for missing in ["md/none", "md/strict.md", "/no/such/directory"] {
        let text = format!(
            "cases: [cases/one.yaml]\nvariants: [{{ name: v, config: {{ add_dirs: [{missing}] }} }}]\n"
        );
        let messages = files.messages(&files.load(&text));
        assert!(messages.contains(&format!("no such directory: `{missing}`")), "{messages}");
        assert!(messages.contains("[variants[0].config.add_dirs[0]]"), "{messages}");
    }
}

#[test]
fn settings_of_an_untrusted_repository_are_a_warning() {
    let files = files();
    files.write("settings.json", "{}");
    let variant = |trust: bool| {
        format!(
            "cases: [cases/one.yaml]\nvariants: [{{ name: v, files: {{ .claude/settings.json: settings.json }}, \
             config: {{ claude-code: {{ trust_repo_settings: {trust} }} }} }}]\n"
        )
    };
    let messages = files.messages(&files.load(&variant(false)));
    assert!(
        messages.contains("`.claude/settings.json` has no effect without `trust_repo_settings`"),
        "{messages}"
    );
    files.good(&variant(true));
}
