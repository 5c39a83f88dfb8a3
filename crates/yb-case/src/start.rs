//! Where a case starts: which repositories and directories it may name, before anything is fetched.

use std::net::IpAddr;
use std::path::Path;

use super::check::Checker;
use super::types::Start;
use yb_net::policy::is_private_address;
use yb_repo::Source;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Span};

/// Whether hosts inside somebody's network may be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateHosts {
    /// They are refused.
    #[default]
    Refused,
    /// The user said that they are meant.
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
                    let message = format!("a directory has no branches and commits: `{key}`");
                    checker.found.error(entry.key.span, key, message).hint("remove it, or use `repo`");
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
                .error(directory.span, "directory", "two starting trees: `repo` and `directory`")
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
            found.expected("a URL, or the path of a repository on this machine");
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
                .warning(node.span, "repo", "credentials in the repository's URL")
                .hint("leave them to git's own credential helper or ssh");
        }
        if hosts == PrivateHosts::Refused && is_private(url.host.trim_end_matches('.')) {
            checker
                .found
                .error(node.span, "repo", format!("host of the repository is private: {}", quoted(&url.host)))
                .hint("use `--allow-private-hosts` if this host is meant, or the path of a local repository");
        }
    }
    Some(source)
}

/// By what is written; what a name resolves to is looked at before fetching.
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
