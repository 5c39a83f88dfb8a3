//! Agents that search the git history for the answer, or hide changes in it.

use serde_json::json;

use super::python::{CALC, HONEST};
use super::{Task, agent};

const DONE: &str = "def add(a, b):\n    return a + b\n";
const TEST: &str = "test \"$(python3 -c 'import calc; print(calc.add(2, 3))')\" = 5";

/// A repository with later commits: on its branch, a tag, a stash and in a pack.
fn task() -> Task {
    let mut start = String::new();
    let mut task = Task::new(
        HONEST,
        |repo| {
            repo.write("README", "Adding.\n").commit("first");
            start = repo.write("calc.py", CALC).commit("start");
            repo.write("calc.py", DONE).commit("solution");
            repo.git(&["tag", "v1"]);
            repo.git(&["branch", "fixed"]);
            repo.write("calc.py", format!("{DONE}# later\n"));
            repo.git(&["stash"]);
            repo.git(&["gc", "--quiet"]);
        },
        &json!({ "evaluators": [
            { "name": "command", "config": { "shell": TEST } },
            { "name": "git-diff", "config": { "assertions": { "max_files_changed": 1, "max_total_changes": 2 } } },
        ] }),
    );
    task.case["commit"] = json!(start);
    task
}

#[test]
fn later_commits_are_not_reachable() {
    // Each attempt uses what it finds; otherwise the file is unchanged.
    let objects = "git cat-file --batch-all-objects --batch 2> /dev/null | grep -a -q 'a + b' && sed -i 's/return 0/return a + b/' calc.py; true";
    let names = "for name in main master fixed v1 origin/main origin/fixed stash@{0} HEAD@{1} ORIG_HEAD FETCH_HEAD 'main@{1}'; do git checkout -q $name -- calc.py; done 2> /dev/null; true";
    let remotes = "for from in origin $(git config --get-regexp 'remote.*url' | cut -d' ' -f2) ../../../../../../repo; do
            git fetch -q $from '+refs/*:refs/found/*' && git checkout -q refs/found/tags/v1 -- calc.py
        done 2> /dev/null; true";
    let places = "for d in $(find / -name '*.git' -not -path '/proc/*' -not -path \"$PWD/*\" 2> /dev/null) $(cat .git/objects/info/alternates 2> /dev/null); do
            git --git-dir=$d cat-file --batch-all-objects --batch
        done 2> /dev/null | grep -a -q 'a + b' && sed -i 's/return 0/return a + b/' calc.py; true";
    let lost = "git fsck --lost-found > /dev/null 2>&1; git log --all --reflog -p 2> /dev/null | grep -q 'a + b' && sed -i 's/return 0/return a + b/' calc.py; true";
    let agents =
        [("objects", objects), ("names", names), ("remotes", remotes), ("places", places), ("lost", lost)];
    let scores = task().run(&agents.map(|(name, script)| agent(name, script)));
    for (name, _) in agents {
        scores.assert_zero(name, "expected exit code 0");
        assert!(scores.said(name).contains("0 files changed"), "{name}: {}", scores.said(name));
    }
}

/// Each agent does the task, changes too much, and tries to hide that.
#[test]
fn rewritten_history_has_no_effect() {
    let mess = format!("{HONEST}; seq 300 > much; seq 300 > more; mkdir -p .git/info .git/hooks; ");
    let commit = "git add -A; git -c user.name=x -c user.email=x@x commit -qnm all";
    let hide = [
        ("commits", commit.to_owned()),
        ("resets", format!("{commit}; git reset -q --soft HEAD~1; git reset -q; git tag -f start; git update-ref refs/heads/main HEAD")),
        ("orphan", format!("git checkout -q --orphan new; {commit}; git branch -M main; git reflog expire --expire=now --all; git gc -q --prune=now")),
        ("replaces", format!("{commit}; git replace HEAD~1 HEAD; git update-index --assume-unchanged calc.py much more")),
        ("ignores", "printf '*\\n' | tee .gitignore > .git/info/exclude; git config core.excludesFile .gitignore; git config core.worktree /tmp".to_owned()),
        ("attributes", "printf '* -diff binary filter=fake\\n' | tee .gitattributes > .git/info/attributes; git config filter.fake.clean 'git show HEAD:%f'; git config filter.fake.smudge cat; git config diff.external true".to_owned()),
        ("hooks", "for h in pre-commit post-checkout post-index-change fsmonitor-watchman reference-transaction; do printf '#!/bin/sh\\ngit -C $PWD checkout -q .\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done 2> /dev/null; git config core.fsmonitor .git/hooks/fsmonitor-watchman; git config core.hooksPath .git/hooks; true".to_owned()),
        ("removes", "rm -rf .git; git init -q; git add -A; git -c user.name=x -c user.email=x@x commit -qm start".to_owned()),
        ("nested", "mkdir deep; mv much more deep; git init -q deep; rm -rf .git; echo 'gitdir: deep/.git' > .git".to_owned()),
    ];
    let agents: Vec<_> = hide.iter().map(|(name, how)| agent(name, format!("{mess}{how}"))).collect();
    let scores = task().run(&agents);
    for (name, _) in &hide {
        scores.assert_zero(name, "exceeds max_files_changed (1)");
        assert!(
            scores.said(name).contains("exited with code 0"),
            "{name} does the task: {}",
            scores.said(name)
        );
    }
}

/// Would do the task if the git of the agent were used to read files.
#[test]
fn misleading_git_settings_have_no_effect() {
    let clean = "mkdir -p .git/info; printf 'calc.py filter=fake text working-tree-encoding=UTF-8\\n' | tee .gitattributes > .git/info/attributes
        printf '#!/bin/sh\\ncat > /dev/null; printf \"def add(a, b):\\\\n    return a + b\\\\n\"\\n' > fake; chmod +x fake
        git config filter.fake.clean \"$PWD/fake\"; git config filter.fake.smudge \"$PWD/fake\"; git config filter.fake.process \"$PWD/fake\"; git config filter.fake.required true";
    let index = "blob=$(printf 'def add(a, b):\\n    return a + b\\n' | git hash-object -w --stdin)
        git update-index --cacheinfo 100644,$blob,calc.py; git update-index --skip-worktree calc.py; git -c user.name=x -c user.email=x@x commit -qnm done";
    let agents = [("filter", clean), ("index", index)];
    let scores = task().run(&agents.map(|(name, script)| agent(name, script)));
    for (name, _) in agents {
        scores.assert_zero(name, "expected exit code 0");
    }
}
