//! The environment of a case: the root directory in which its processes run, in place of the system of the host.

use std::fmt;
use std::path::{Path, PathBuf};

use super::build::environment;
use super::check::Checker;
use super::start::SourceRules;
use super::types::EnvVar;
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The keys of which an environment has exactly one.
const SOURCES: [&str; 3] = ["image", "dockerfile", "rootfs"];

/// The environment of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEnvironment {
    /// Where the root directory comes from.
    pub root: RootSource,
    /// The working directory of the agent, if the case has no repository; that of the image if `None`.
    pub workdir: Option<String>,
    /// The user inside: a name of its `/etc/passwd`, or an id; that of the image if `None`.
    pub user: Option<String>,
    /// Environment variables for all processes.
    pub env: Vec<EnvVar>,
}

/// Where a root directory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSource {
    /// An image: `registry/name:tag`, `registry/name@sha256:…`, `oci:DIR` or `docker-archive:FILE`.
    Image(String),
    /// A directory with a Dockerfile; absolute.
    Dockerfile(PathBuf),
    /// A directory; absolute.
    Rootfs(PathBuf),
}

impl fmt::Display for RootSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => formatter.write_str(image),
            Self::Dockerfile(path) | Self::Rootfs(path) => path.display().fmt(formatter),
        }
    }
}

impl TaskEnvironment {
    /// Returns an identifier for digests.
    #[must_use]
    pub fn key(&self) -> String {
        let env: Vec<String> = self
            .env
            .iter()
            .map(|one| format!("{}={}", one.name, one.value.as_deref().unwrap_or("$")))
            .collect();
        let root = match &self.root {
            RootSource::Image(image) => format!("image {image}"),
            // The digest of the files is found when they are built; the location does not matter.
            RootSource::Dockerfile(path) => {
                format!("dockerfile {}", path.file_name().unwrap_or_default().to_string_lossy())
            }
            RootSource::Rootfs(path) => format!("rootfs {}", path.display()),
        };
        format!("{root} {:?} {:?} {env:?}", self.workdir, self.user)
    }
}

/// Reads `environment`, which has exactly one source.
pub(crate) fn read(
    root: &Node,
    dir: &Path,
    rules: SourceRules<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<TaskEnvironment> {
    let entry = root.entry("environment")?;
    let node = &entry.node;
    let given: Vec<(&str, &Node)> = SOURCES.iter().filter_map(|key| Some((*key, node.get(key)?))).collect();
    let [(source, value)] = given.as_slice() else {
        let message =
            if given.is_empty() { "no root in `environment`" } else { "several roots in `environment`" };
        checker
            .found
            .error(entry.key.span, "environment", message)
            .expected("one of `image`, `dockerfile` and `rootfs`");
        return None;
    };
    let written = value.text().filter(|text| !text.is_empty())?;
    let key = format!("environment.{source}");
    let source = if *source == "image" {
        let (kind, local) = match written.split_once(':') {
            Some((kind @ ("oci" | "docker-archive"), path)) => (kind, Some(path)),
            _ => ("", None),
        };
        match local {
            None => RootSource::Image(written.to_owned()),
            Some(path) => {
                let path = local_path(path, dir, value, &key, rules, checker)?;
                RootSource::Image(format!("{kind}:{}", path.display()))
            }
        }
    } else {
        let path = local_path(written, dir, value, &key, rules, checker)?;
        if !path.is_dir() {
            checker.found.error(
                value.span,
                &key,
                format!("not a directory: {}", quoted(&path.to_string_lossy())),
            );
            return None;
        }
        if *source == "dockerfile" {
            if !path.join("Dockerfile").is_file() {
                let message = format!("no Dockerfile in {}", quoted(&path.to_string_lossy()));
                checker.found.error(value.span, &key, message).hint("name the directory with the Dockerfile");
                return None;
            }
            RootSource::Dockerfile(path)
        } else {
            RootSource::Rootfs(path)
        }
    };
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    if let Some(workdir) = node.get("workdir").filter(|node| node.text().is_some_and(|text| !is_plain(text)))
    {
        checker
            .found
            .error(workdir.span, "environment.workdir", "not a plain absolute path")
            .expected("a path such as `/app`, without `..`");
    }
    Some(TaskEnvironment {
        root: source,
        workdir: text("workdir"),
        user: text("user"),
        env: environment(node.get("env")),
    })
}

fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.split('/').any(|part| part == ".." || part == ".")
}

fn local_path(
    written: &str,
    dir: &Path,
    node: &Node,
    key: &str,
    rules: SourceRules<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<PathBuf> {
    let path = dir.join(written);
    let Ok(path) = path.canonicalize() else {
        let message = format!("no such file or directory: {}", quoted(&path.to_string_lossy()));
        checker
            .found
            .error(node.span, key, message)
            .hint("relative paths start at the directory of the case file");
        return None;
    };
    super::start::check_local(&path, dir, node, key, rules, checker);
    Some(path)
}
