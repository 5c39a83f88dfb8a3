//! Shadows: files that a runner or an import would take in place of a hidden or restored file.

use std::collections::HashSet;

use super::runner_rules::{IMPORTED_MODULES, ImportedModules};
use yb_repo::TreeFile;

/// Extensions by which JavaScript runners complete a module name. Which one wins differs between runners.
const JS_EXTENSIONS: [&str; 10] = ["js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx", "json", "node"];
/// Extensions of compiled Python modules.
const COMPILED: [&str; 4] = ["so", "pyd", "pyc", "pyo"];

/// The files that must be the ones that run, prepared for finding their shadows.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    files: HashSet<String>,
    /// The directories of Python modules, and those above them.
    python_dirs: HashSet<String>,
    /// JavaScript modules without their extension.
    js_modules: HashSet<String>,
    /// Directories whose module is an index file.
    js_index_dirs: HashSet<String>,
    /// The directories in which modules are looked up, for each entry of [`IMPORTED_MODULES`].
    roots: Vec<HashSet<String>>,
}

impl Anchors {
    /// Collects the paths of files from the root of the tree. `import_roots` are further directories in which modules
    /// are looked up.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a [u8]>, import_roots: &[String]) -> Self {
        let roots = IMPORTED_MODULES
            .iter()
            .map(|modules| {
                let usual = modules.roots.iter().map(|root| (*root).to_owned());
                usual.chain(import_roots.iter().cloned()).collect()
            })
            .collect();
        let mut anchors = Self { roots, ..Self::default() };
        for path in paths {
            anchors.add(&String::from_utf8_lossy(path));
        }
        anchors
    }

    fn add(&mut self, path: &str) {
        let (dir, name) = split(path);
        let (module, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        for (modules, roots) in IMPORTED_MODULES.iter().zip(&mut self.roots) {
            if modules.beside_tests && extension == modules.extension {
                roots.extend(dirs_above(path).map(str::to_owned));
                roots.insert(String::new());
            }
        }
        if extension == "py" {
            self.python_dirs.extend(dirs_above(path).map(str::to_owned));
        }
        if JS_EXTENSIONS.contains(&extension) {
            self.js_modules.insert(join(dir, module));
            if module == "index" && !dir.is_empty() {
                self.js_modules.insert(dir.to_owned());
                self.js_index_dirs.insert(dir.to_owned());
            }
        }
        self.files.insert(path.to_owned());
    }

    /// Returns why a file that the start tree does not have would be taken in place of another. A link may stand for a
    /// directory.
    pub(crate) fn shadowed_by(
        &self,
        file: &TreeFile,
        in_start: &dyn Fn(&str) -> bool,
    ) -> Option<&'static str> {
        let path = &*file.display_path();
        if self.files.contains(path) {
            return None;
        }
        if file.is_link() && self.roots.iter().flatten().any(|root| is_same_or_above(path, root)) {
            return Some("a link in place of a directory of modules");
        }
        if file.is_link() && self.files.contains(&format!("{path}.py")) {
            return Some("a package in place of a test module");
        }
        let (dir, name) = split(path);
        let (stem, _) = name.split_once('.').unwrap_or((name, ""));
        let (module, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let compiled = COMPILED.contains(&extension);
        if dirs_above(path).any(|above| self.files.contains(&format!("{above}.py"))) {
            return Some("a package in place of a test module");
        }
        if compiled && self.files.contains(&format!("{}.py", join(dir, stem))) {
            return Some("a compiled module in place of a test module");
        }
        if (compiled || extension == "py") && self.python_dirs.contains(&join(dir, stem)) {
            return Some("a module in place of a directory with tests");
        }
        let as_module = if JS_EXTENSIONS.contains(&extension) { join(dir, module) } else { path.to_owned() };
        if self.js_modules.contains(&as_module) || self.js_modules.contains(path) {
            return Some("a module in place of a test module");
        }
        if name == "package.json" && self.js_index_dirs.contains(dir) {
            return Some("a setting that replaces an index file");
        }
        let mut lists = IMPORTED_MODULES.iter().zip(&self.roots);
        lists.find_map(|(modules, roots)| {
            roots.iter().any(|root| is_import_shadow(modules, root, file, in_start)).then_some(modules.reason)
        })
    }
}

/// Returns whether a file below an import root has the name of a module that a runner imports.
fn is_import_shadow(
    modules: &ImportedModules,
    root: &str,
    file: &TreeFile,
    in_start: &dyn Fn(&str) -> bool,
) -> bool {
    let path = &*file.display_path();
    let below = if root.is_empty() {
        path
    } else {
        let Some(below) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        below
    };
    let name = match below.split_once('/') {
        Some((package, rest)) if modules.is_package_file(rest) => package,
        Some(_) => return false,
        None if file.is_link() && !below.contains('.') => below,
        None => {
            let (stem, rest) = below.split_once('.').unwrap_or((below, ""));
            let extension = rest.rsplit('.').next().unwrap_or_default();
            if extension != modules.extension && !COMPILED.contains(&extension) {
                return false;
            }
            stem
        }
    };
    let known = modules.names.binary_search(&name).is_ok()
        || modules.prefixes.iter().any(|prefix| name.starts_with(prefix));
    // A module that the start tree has already is the repository's own.
    let own = || {
        let module = join(root, name);
        let package = format!("{module}/{}{}", modules.package_file, modules.extension);
        in_start(&format!("{module}.{}", modules.extension))
            || (!modules.package_file.is_empty() && in_start(&package))
    };
    known && !own()
}

impl ImportedModules {
    /// Returns whether a file makes the directory that it is in a module.
    fn is_package_file(&self, below: &str) -> bool {
        if self.package_file.is_empty() {
            below.ends_with(&format!(".{}", self.extension))
        } else {
            below.starts_with(self.package_file)
        }
    }
}

/// Returns whether a path is a directory or above it.
fn is_same_or_above(path: &str, dir: &str) -> bool {
    dir.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Iterates over the directories above a path, without the root.
fn dirs_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, mode: u32) -> TreeFile {
        TreeFile { mode, id: String::new(), size: 1, path: path.as_bytes().to_vec() }
    }

    #[test]
    fn names_that_win_over_a_test_are_shadows() {
        let anchors = ["tests/test_calc.py", "checks/helper.js", "checks/lib/index.js", "spec/calc_spec.rb"];
        let anchors = Anchors::new(anchors.map(str::as_bytes), &["app".to_owned()]);
        let start = ["src/queue.py", "html/page.html", "logging/__init__.py"];
        let in_start = |path: &str| start.contains(&path);
        for path in [
            "tests/test_calc/__init__.py",
            "tests/test_calc/deep/x.py",
            "tests/test_calc.cpython-311-x86_64-linux-gnu.so",
            "tests/test_calc.pyc",
            "tests.py",
            "checks/helper",
            "checks/helper.mjs",
            "checks/helper.json",
            "checks/lib.js",
            "checks/lib/package.json",
            "iniconfig.py",
            "tests/iniconfig.py",
            "app/json.py",
            "src/pluggy/__init__.py",
            "random.cpython-311.so",
            "html/__init__.py",
            "pytest_cov/__init__.py",
            "lib/rspec/expectations.rb",
            "lib/set.rb",
        ] {
            assert!(anchors.shadowed_by(&file(path, 0o100_644), &in_start).is_some(), "{path}");
        }
        for path in [
            "calc.py",
            "calc/__init__.py",
            "tests/test_calc.py",
            "tests/test_calc2.py",
            "checks/helper.js",
            "checks/other.js",
            "src/queue.py",
            "logging/handlers.py",
            "cmd/main.go",
            "html/index.html",
            "pkg/json.py",
            "json/data.txt",
            "lib/calc.rb",
            "package.json",
        ] {
            assert_eq!(anchors.shadowed_by(&file(path, 0o100_644), &in_start), None, "{path}");
        }
        for path in ["iniconfig", "tests/test_calc", "lib", "spec", "src", "app"] {
            assert!(anchors.shadowed_by(&file(path, 0o120_000), &in_start).is_some(), "{path}");
        }
        for path in ["docs", "current", "srcs"] {
            assert_eq!(anchors.shadowed_by(&file(path, 0o120_000), &in_start), None, "{path}");
        }
    }
}
