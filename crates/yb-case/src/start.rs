//! The start tree of a case: validates the repository or directory before anything is fetched.

use std::net::IpAddr;
use std::path::Path;

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

pub(crate) fn read(
    root: &Node,
    dir: &Path,
    hosts: PrivateHosts,
    checker: &mut Checker<'_, '_>,
) -> Option<Start> {
    let text = |key: &str| root.get(key).and_then(Node::text).map(str::to_owned);
    match (root.get("repo"), root.get("directory")) {
        (Some(repo), None) => {
            repository(repo, dir, hosts, checker)?;
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
                return path.canonicalize().ok().map(Start::Directory);
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
        (None, None) => {
            let at = root.entries().iter().map(|entry| entry.key.span).min().unwrap_or(Span::WHOLE);
            let error = checker.found.error(at, "repo", "missing key: `repo`");
            error.expected("a URL or a path as `repo`, or a path as `directory`");
            None
        }
    }
}

fn repository(node: &Node, dir: &Path, hosts: PrivateHosts, checker: &mut Checker<'_, '_>) -> Option<Source> {
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
    if let Source::Remote(url) = &source {
        if url.password().is_some() {
            checker
                .found
                .warning(node.span, "repo", "credentials in the repository URL")
                .hint("use a git credential helper or SSH instead");
        }
        if hosts == PrivateHosts::Refused && is_private(url.host.trim_end_matches('.')) {
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
