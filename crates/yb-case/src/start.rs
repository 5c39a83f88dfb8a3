//! The start tree of a case: validates the repository or directory before anything is fetched.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::check::Checker;
use super::types::Start;
use yb_net::policy::is_private_address;
use yb_repo::Source;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Span};

/// Whether repositories on private hosts are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateHosts {
    /// Private hosts are rejected.
    #[default]
    Refused,
    /// Private hosts are allowed.
    Allowed,
}

/// Where local repositories and directories of a case may be. A case file from somebody else must not copy any directory of this
/// machine into a workspace, where an agent with a network sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LocalSources {
    /// Anywhere: the caller trusts its cases.
    #[default]
    Anywhere,
    /// In the project of the case, which is the enclosing git repository or else the directory of the case file, and below these
    /// directories.
    Below(Vec<PathBuf>),
}

impl LocalSources {
    /// Returns whether a case in `dir` may use a directory, which must be canonical.
    fn allow(&self, path: &Path, dir: &Path) -> bool {
        let Self::Below(roots) = self else { return true };
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let project = dir.ancestors().find(|folder| folder.join(".git").exists() && !is_too_broad(folder));
        let mut roots = roots.iter().filter_map(|root| root.canonicalize().ok());
        path.starts_with(project.unwrap_or(&dir)) || roots.any(|root| path.starts_with(root))
    }

    /// Returns the rule for a command that runs in a directory. Everything in the home directory is more than one project.
    #[must_use]
    pub fn of_project(project: &Path, allowed: &[PathBuf]) -> Self {
        let project = project.canonicalize().ok().filter(|project| !is_too_broad(project));
        Self::Below(project.into_iter().chain(allowed.iter().cloned()).collect())
    }
}

fn is_too_broad(folder: &Path) -> bool {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
}

/// The rules for the sources that a case may name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceRules<'a> {
    pub(crate) hosts: PrivateHosts,
    pub(crate) local: &'a LocalSources,
}

pub(crate) fn read(
    root: &Node,
    dir: &Path,
    rules: SourceRules<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Start> {
    let text = |key: &str| root.get(key).and_then(Node::text).map(str::to_owned);
    match (root.get("repo"), root.get("directory")) {
        (Some(repo), None) => {
            repository(repo, dir, rules, checker)?;
            let repo = repo.text()?.to_owned();
            Some(Start::Repo { repo, branch: text("branch"), commit: text("commit") })
        }
        (None, Some(directory)) => {
            for key in ["branch", "commit"] {
                if let Some(entry) = root.entry(key) {
                    let message = format!("`{key}` requires `repo`");
                    checker
                        .found
                        .error(entry.key.span, key, message)
                        .hint("remove it, or use `repo` instead of `directory`");
                }
            }
            let path = dir.join(directory.text()?);
            if path.is_dir() {
                let path = path.canonicalize().ok()?;
                check_local(&path, dir, directory, "directory", rules, checker);
                return Some(Start::Directory(path));
            }
            let message = format!("no such directory: {}", quoted(&path.to_string_lossy()));
            checker
                .found
                .error(directory.span, "directory", message)
                .hint("relative paths start at the directory of the case file");
            None
        }
        (Some(_), Some(directory)) => {
            checker
                .found
                .error(directory.span, "directory", "both `repo` and `directory` given")
                .hint("use only one of them");
            None
        }
        (None, None) if root.get("environment").is_some() => {
            for key in ["branch", "commit"] {
                if let Some(entry) = root.entry(key) {
                    let message = format!("`{key}` requires `repo`");
                    checker.found.error(entry.key.span, key, message).hint("remove it, or add `repo`");
                }
            }
            Some(Start::Image)
        }
        (None, None) => {
            let at = root.entries().iter().map(|entry| entry.key.span).min().unwrap_or(Span::WHOLE);
            let error = checker.found.error(at, "repo", "missing key: `repo`");
            error.expected("a URL or a path as `repo`, a path as `directory`, or an `environment`");
            None
        }
    }
}

/// Reports a local directory that the case may not use.
pub(crate) fn check_local(
    path: &Path,
    dir: &Path,
    node: &Node,
    key: &str,
    rules: SourceRules<'_>,
    checker: &mut Checker<'_, '_>,
) {
    if !rules.local.allow(path, dir) {
        let shown = quoted(&path.to_string_lossy());
        checker
            .found
            .error(node.span, key, format!("`{key}` is outside of the project: {shown}"))
            .hint(format!("if you trust the case, allow it: `--allow-path {}`", path.display()));
    }
}

fn repository(
    node: &Node,
    dir: &Path,
    rules: SourceRules<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Source> {
    let source = match Source::parse(node.text().filter(|text| !text.is_empty())?, dir) {
        Ok(source) => source,
        Err(error) => {
            let found = checker.found.error(node.span, "repo", error.to_string());
            found.expected("a URL, or the path of a local repository");
            if let Some(hint) = error.hint() {
                found.hint(hint);
            }
            return None;
        }
    };
    if let Source::Local(path) | Source::Directory(path) = &source {
        check_local(path, dir, node, "repo", rules, checker);
    }
    if let Source::Remote(url) = &source {
        if url.password().is_some() {
            checker
                .found
                .warning(node.span, "repo", "credentials in the repository URL")
                .hint("use a git credential helper or SSH instead");
        }
        if rules.hosts == PrivateHosts::Refused && is_private(url.host.trim_end_matches('.')) {
            checker
                .found
                .error(node.span, "repo", format!("repository on a private host: {}", quoted(&url.host)))
                .hint("use `--allow-private-hosts` to allow it, or the path of a local repository");
        }
    }
    Some(source)
}

/// Returns whether a host is private by its text. Resolved addresses are checked before fetching.
fn is_private(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        return true;
    }
    match lower.parse::<IpAddr>() {
        Ok(address) => is_private_address(address),
        // `127.1`, `0x7f000001` and `2130706433` are addresses to a resolver.
        Err(_) => {
            let last = lower.rsplit('.').next().unwrap_or_default();
            !last.is_empty() && (last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x"))
        }
    }
}
