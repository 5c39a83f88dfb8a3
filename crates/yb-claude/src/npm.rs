//! The layout of the npm packages: a wrapper package, and the native program in one package per platform.

use std::io::Read as _;
use std::path::{Path, PathBuf};

const SCOPE: &str = "@anthropic-ai";
const WRAPPER: &str = "claude-code";

/// Selects the platform package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Platform {
    /// The operating system in npm's naming; `None` if no package exists for it.
    system: Option<&'static str>,
    processor: Option<&'static str>,
    musl: bool,
}

impl Platform {
    /// Detects the platform of this machine, whose file system starts at `root`.
    pub(crate) fn of_machine(root: &Path) -> Self {
        Self::new(std::env::consts::OS, std::env::consts::ARCH, root)
    }

    pub(crate) fn new(os: &str, arch: &str, root: &Path) -> Self {
        let system = match os {
            "linux" => Some("linux"),
            "macos" => Some("darwin"),
            "windows" => Some("win32"),
            _ => None,
        };
        let processor = match arch {
            "x86_64" => Some("x64"),
            "aarch64" => Some("arm64"),
            _ => None,
        };
        Self { system, processor, musl: os == "linux" && is_musl(root) }
    }

    /// The program's path inside a `node_modules` directory.
    fn native(&self, node_modules: &Path) -> Option<PathBuf> {
        let (system, processor) = (self.system?, self.processor?);
        let libc = if self.musl { "-musl" } else { "" };
        let package = format!("{WRAPPER}-{system}-{processor}{libc}");
        Some(node_modules.join(SCOPE).join(package).join(self.program()))
    }

    /// The name of the program on this platform.
    pub(crate) fn program(&self) -> &'static str {
        if self.system == Some("win32") { "claude.exe" } else { "claude" }
    }

    /// Returns the possible paths of the native program below an npm prefix, most likely first.
    pub(crate) fn below_prefix(&self, prefix: &Path) -> Vec<PathBuf> {
        // The second is npm's global layout on Unix; the last two apply if npm does not hoist.
        let roots = [prefix.join("node_modules"), prefix.join("lib").join("node_modules")];
        let nested = roots.iter().map(|root| root.join(SCOPE).join(WRAPPER).join("node_modules"));
        roots.iter().cloned().chain(nested).filter_map(|root| self.native(&root)).collect()
    }

    /// Returns the possible paths of the native program next to and below a wrapper package.
    pub(crate) fn beside_wrapper(&self, wrapper: &Wrapper) -> Vec<PathBuf> {
        [wrapper.node_modules.clone(), wrapper.package.join("node_modules")]
            .iter()
            .filter_map(|root| self.native(root))
            .collect()
    }
}

/// Detects musl: its loader exists and glibc's does not. A glibc system may have both.
fn is_musl(root: &Path) -> bool {
    let has_loader = |folder: &str, prefix: &str| {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return false };
        entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
    };
    has_loader("lib", "ld-musl-") && !has_loader("lib64", "ld-linux-") && !has_loader("lib", "ld-linux-")
}

/// The npm package whose `bin/claude.exe` npm links as `claude`.
#[derive(Debug)]
pub(crate) struct Wrapper {
    program: PathBuf,
    package: PathBuf,
    node_modules: PathBuf,
}

impl Wrapper {
    /// Returns the wrapper package that a program resolves into, if any.
    pub(crate) fn behind(program: &Path) -> Option<Self> {
        let program = program.canonicalize().ok()?;
        let package = program.parent()?.parent()?.to_owned();
        let scope = package.parent()?;
        if !program.ends_with("bin/claude.exe") || !package.ends_with(WRAPPER) || !scope.ends_with(SCOPE) {
            return None;
        }
        let node_modules = scope.parent()?.to_owned();
        Some(Self { program, package, node_modules })
    }

    /// Returns whether the program is the placeholder, which only prints repair instructions.
    pub(crate) fn is_stub(&self) -> bool {
        let mut magic = [0; 4];
        let read = std::fs::File::open(&self.program).and_then(|mut file| file.read_exact(&mut magic));
        let native = magic == *b"\x7fELF"
            || magic.starts_with(b"MZ")
            || [*b"\xcf\xfa\xed\xfe", *b"\xca\xfe\xba\xbe"].contains(&magic);
        read.is_err() || !native
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_selects_package() {
        let check = |os: &str, arch: &str, expect: Option<&str>| {
            let native = Platform::new(os, arch, Path::new("/nonexistent")).native(Path::new("n"));
            assert_eq!(native, expect.map(|path| Path::new("n/@anthropic-ai").join(path)));
        };
        check("linux", "x86_64", Some("claude-code-linux-x64/claude"));
        check("linux", "aarch64", Some("claude-code-linux-arm64/claude"));
        check("macos", "aarch64", Some("claude-code-darwin-arm64/claude"));
        check("windows", "x86_64", Some("claude-code-win32-x64/claude.exe"));
        check("freebsd", "x86_64", None);
        check("linux", "riscv64", None);
    }

    #[test]
    fn musl_is_detected_by_its_loader_without_glibc() {
        let check = |files: &[&str], expect: bool| {
            let root = tempfile::tempdir().unwrap();
            for file in files {
                let path = root.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            assert_eq!(Platform::new("linux", "x86_64", root.path()).musl, expect, "{files:?}");
            assert!(!Platform::new("macos", "x86_64", root.path()).musl);
        };
        check(&[], false);
        check(&["lib/ld-musl-x86_64.so.1"], true);
        check(&["lib/ld-musl-x86_64.so.1", "lib64/ld-linux-x86-64.so.2"], false);
        check(&["lib/ld-musl-aarch64.so.1", "lib/ld-linux-aarch64.so.1"], false);
        check(&["lib64/ld-linux-x86-64.so.2"], false);
    }
}
