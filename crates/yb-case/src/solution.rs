//! The reference solution of a case, with which `yb check` proves that the case can be solved.

use std::path::Path;

use super::check::{Checker, join};
use super::expected::{self, Expected, ExpectedFiles};
use super::fields::SOLUTION;
use super::hook::{self, Script};
use super::types::Case;
use yb_yaml::Node;

pub(crate) const COMMAND: &str = "command";

/// The reference solution of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Solution {
    /// A complete tree.
    Tree(Expected),
    /// Files that are copied over the start tree.
    Files(ExpectedFiles),
    /// A command that solves the task in the workspace.
    Command(Script),
}

impl Solution {
    /// Returns an identifier that does not depend on the location of the files.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Tree(tree) => tree.key(),
            Self::Files(files) => format!("files {}", files.digest),
            Self::Command(script) => format!("command {}", script.command),
        }
    }
}

impl Case {
    /// Returns the reference solution: `solution`, or else the expected result.
    #[must_use]
    pub fn reference(&self) -> Option<Solution> {
        self.solution.clone().or_else(|| self.expected.clone().map(Solution::Tree))
    }
}

/// Reads `solution`, which has exactly one key.
pub(crate) fn read(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Solution> {
    let entry = root.entry("solution")?;
    let known = SOLUTION.fields.iter().filter_map(|field| Some((field.name, entry.node.get(field.name)?)));
    let given: Vec<(&str, &Node)> = known.collect();
    let [(source, node)] = given.as_slice() else {
        let names = SOLUTION.fields.iter().map(|field| field.name);
        let message = if given.is_empty() { "empty `solution`" } else { "several solutions" };
        let expected = format!("one of {}", super::shape::list_of(names));
        checker.found.error(entry.key.span, "solution", message).expected(expected);
        return None;
    };
    if *source == COMMAND {
        return Some(Solution::Command(hook::command_line(node.text()?)));
    }
    let key = join("solution", source);
    match expected::of_source(source, node, root, dir, &key, checker)? {
        Expected::Directory(files) => Some(Solution::Files(files)),
        tree => Some(Solution::Tree(tree)),
    }
}
