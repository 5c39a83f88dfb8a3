//! Search and parsing of definition files.

use super::*;

fn with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn header_is_parsed_into_definition() {
    let text = "---\nname: other\ndescription: Reviews code\ntools: Read, Bash(git log:*, git show), Grep\n\
                model: haiku\ncolor: red\nmaxTurns: 3\n---\n\nYou review.\n";
    let agent = parse("reviewer", text).unwrap();
    assert_eq!(agent.description, "Reviews code");
    assert_eq!(agent.prompt, "You review.");
    assert_eq!(agent.tools.unwrap(), ["Read", "Bash(git log:*, git show)", "Grep"]);
    assert_eq!(agent.model.as_deref(), Some("haiku"));
    assert_eq!(agent.more.keys().collect::<Vec<_>>(), ["maxTurns"]);
    assert_eq!(agent.more["maxTurns"], 3);
}

#[test]
fn lists_quotes_and_crlf_are_parsed() {
    let check = |text: &str, tools: Option<&[&str]>| {
        let agent = parse("a", text).unwrap();
        assert_eq!(
            agent.tools.as_deref(),
            tools.map(|tools| tools.iter().map(ToString::to_string).collect::<Vec<_>>()).as_deref()
        );
    };
    check("---\r\ntools: ['Read', \"Grep\"]\r\n---\r\nprompt", Some(&["Read", "Grep"]));
    check("---\ntools:\n  - Read\n  - Grep\n---\nprompt", Some(&["Read", "Grep"]));
    check("---\ntools: []\n---\nprompt", Some(&[]));
    check("---\ntools: '*'\n---\nprompt", None);
    check("\u{feff}---\n---\nprompt", None);
    check("only a prompt", None);
}

#[test]
fn invalid_yaml_header_is_parsed_by_line() {
    let text = "---\ndescription: Use it when: x. Examples: <a>b: c</a>\ntools: Read, Grep\n---\nprompt";
    let agent = parse("a", text).unwrap();
    assert_eq!(agent.description, "Use it when: x. Examples: <a>b: c</a>");
    assert_eq!(agent.tools.unwrap(), ["Read", "Grep"]);
}

#[test]
fn invalid_definition_error_names_problem() {
    for (text, why) in [
        ("---\ndescription: x\n", "end of the header"),
        ("---\ndescription: x\n---\n \n", "missing prompt"),
        ("---\ntools: {a: 1}\n---\np", "`tools`"),
        ("---\n{{\n---\np", "YAML"),
    ] {
        let problem = parse("a", text).unwrap_err();
        assert!(problem.contains(why), "{problem}");
    }
}

#[test]
fn first_root_and_plain_name_take_precedence() {
    let first = with_files(&[(".claude/agents/r.agent.md", "first, long name")]);
    let second = with_files(&[
        (".claude/agents/r.md", "second"),
        (".claude/agents/r.agent.md", "second, long name"),
        (".claude/agents/q.md", "q"),
    ]);
    let roots = [first.path(), second.path()];
    assert_eq!(find_agent("r", &roots).unwrap().0.prompt, "first, long name");
    assert_eq!(find_agent("r", &roots[1..]).unwrap().0.prompt, "second");
    let (agent, path) = find_agent("q", &roots).unwrap();
    assert_eq!((agent.prompt.as_str(), agent.description.as_str()), ("q", "q"));
    assert_eq!(path, second.path().join(".claude/agents/q.md"));
}

#[test]
fn not_found_error_lists_searched_paths() {
    let root = with_files(&[]);
    let error = find_agent("code-reviewer", &[root.path()]).unwrap_err();
    let text = error.to_string();
    for file in ["code-reviewer.md", "code-reviewer.agent.md"] {
        let path = root.path().join(".claude/agents").join(file);
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
    assert!(!error.hint().is_empty());
}

#[test]
fn agent_name_cannot_escape_agents_dir() {
    let root = with_files(&[(".claude/x.md", "secret")]);
    for name in ["../x", "a/b", "", "..", "a.b", "a\\b", &"a".repeat(101)] {
        assert!(matches!(find_agent(name, &[root.path()]), Err(AgentError::BadName(_))), "{name}");
    }
}

#[test]
fn large_or_irregular_file_is_rejected() {
    let root = with_files(&[(".claude/agents/big.md", &"x".repeat(1 << 21))]);
    std::fs::create_dir(root.path().join(".claude/agents/dir.md")).unwrap();
    for name in ["big", "dir"] {
        assert!(matches!(find_agent(name, &[root.path()]), Err(AgentError::Unreadable { .. })), "{name}");
    }
}
