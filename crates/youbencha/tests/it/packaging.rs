//! Packages of a release, made from a small program, installed by the real package managers, and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use yb_testkit::TestContext;

use crate::YB;

const LINUX: &str = "x86_64-unknown-linux-musl";

/// The packages, in a temporary directory.
struct Release {
    context: TestContext,
}

impl Release {
    /// Makes packages from a script that prints its arguments and exits with 5.
    fn new() -> Self {
        let release = Self { context: TestContext::new() };
        let program = release.path("program");
        std::fs::write(&program, "#!/bin/sh\necho \"yb $*\"\nexit 5\n").unwrap();
        release.make("dist");
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.context.root().join(name)
    }

    fn make(&self, out: &str) {
        let programs = [LINUX, "x86_64-pc-windows-gnu", "aarch64-apple-darwin"]
            .map(|target| format!("{target}={}", self.path("program").display()));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new("python3");
        command.arg("-B").arg(root.join("packaging")).arg("--out").arg(self.path(out));
        command.args(["--host-program", YB]).args(programs).env("SOURCE_DATE_EPOCH", "1700000000");
        succeed(&mut command);
    }

    fn package(&self, end: &str) -> PathBuf {
        let mut found: Vec<_> = self.names().into_iter().filter(|name| name.ends_with(end)).collect();
        assert_eq!(found.len(), 1, "{end}: {:?}", self.names());
        self.path("dist").join(found.remove(0))
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("dist")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs an installed `yb`, which must be the packaged program, with its arguments and exit code.
fn check_installed(program: &Path) {
    let output = Command::new(program).args(["run", "a b"]).output().unwrap();
    let (text, code) = (String::from_utf8_lossy(&output.stdout), output.status.code());
    assert_eq!((text.as_ref(), code), ("yb run a b\n", Some(5)), "{}", program.display());
}

#[test]
fn packages_are_the_same_bytes_when_made_again() {
    let release = Release::new();
    release.make("again");
    let sums = |name: &str| std::fs::read_to_string(release.path(name).join("SHA256SUMS")).unwrap();
    assert_eq!(sums("dist"), sums("again"));
    // All but the list itself are on it.
    assert_eq!(sums("dist").lines().count(), release.names().len() - 1, "{:?}", release.names());
}

#[test]
fn npm_package_runs_the_program_of_its_platform() {
    let release = Release::new();
    let prefix = release.path("npm");
    let npm = |packages: &[PathBuf]| {
        let mut command = Command::new("npm");
        command.args(["install", "--omit=optional", "--no-audit", "--no-fund", "--offline", "--prefix"]);
        command.arg(&prefix).args(packages).env("HOME", release.path("home"));
        succeed(&mut command);
    };
    let launcher = release.package("youbencha-0.1.0.tgz");
    npm(std::slice::from_ref(&launcher));
    let program = prefix.join("node_modules/.bin/yb");
    let without = Command::new(&program).output().unwrap();
    assert_eq!(without.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&without.stderr).contains("@youbencha/linux-x64 is not installed"));
    npm(&[launcher, release.package("youbencha-linux-x64-0.1.0.tgz")]);
    check_installed(&program);
    check_installed(&prefix.join("node_modules/.bin/youbencha"));
}

#[test]
fn wheel_installs_the_program() {
    let release = Release::new();
    let venv = release.path("venv");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let pip = ["install", "--quiet", "--no-index", "--disable-pip-version-check"];
    succeed(Command::new(venv.join("bin/pip")).args(pip).arg(release.package("musllinux_1_1_x86_64.whl")));
    check_installed(&venv.join("bin/yb"));
}

#[test]
fn install_script_checks_the_archive_and_installs_it() {
    let release = Release::new();
    let install = |url: &str, to: &Path| {
        let mut command = Command::new("sh");
        command.arg(release.package("install.sh")).env("YB_DOWNLOAD_URL", url).env("YB_INSTALL_DIR", to);
        command.output().unwrap()
    };
    // curl reads `file:` as well, so no server is needed.
    let url = format!("file://{}", release.path("dist").display());
    let to = release.path("bin");
    // The packaged script exits with 5 when it is asked for its version, which the message contains.
    let output = install(&url, &to);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("installed yb --version to "), "{text}{}", String::from_utf8_lossy(&output.stderr));
    check_installed(&to.join("yb"));
    check_installed(&to.join("youbencha"));

    let archive = release.package(&format!("{LINUX}.tar.gz"));
    let mut bytes = std::fs::read(&archive).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&archive, bytes).unwrap();
    let elsewhere = release.path("elsewhere");
    let output = install(&url, &elsewhere);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not have the checksum of the release"));
    assert!(!elsewhere.join("yb").exists());
}

#[test]
fn debian_package_has_program_link_pages_and_dependencies() {
    let release = Release::new();
    let package = release.package("_amd64.deb");
    let root = release.path("root");
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root));
    check_installed(&root.join("usr/bin/yb"));
    check_installed(&root.join("usr/bin/youbencha"));
    assert!(root.join("usr/share/man/man1/yb-run.1").exists());
    assert!(root.join("usr/share/doc/youbencha/THIRD-PARTY-LICENSES.txt").exists());
    let output = succeed(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "git (>= 1:2.39), bubblewrap (>= 0.8)");
}

#[test]
fn bill_of_materials_has_the_locked_crates_with_licenses() {
    let release = Release::new();
    let text = std::fs::read_to_string(release.package(&format!("{LINUX}.cdx.json"))).unwrap();
    let bom: serde_json::Value = serde_json::from_str(&text).unwrap();
    let components = bom["components"].as_array().unwrap();
    let tokio = components.iter().find(|component| component["name"] == "tokio").unwrap();
    assert_eq!(tokio["hashes"][0]["alg"], "SHA-256");
    for component in components {
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
    }
    // Test collaborators are not part of the program.
    assert!(!components.iter().any(|component| component["name"] == "yb-testkit"));
}

#[test]
fn long_name_runs_the_program_beside_it() {
    let context = TestContext::new();
    let stub = context.root().join("youbencha");
    std::fs::copy(env!("CARGO_BIN_EXE_youbencha"), &stub).unwrap();
    let output = Command::new(&stub).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: `youbencha` runs the `yb`"));
    let yb = context.root().join("yb");
    std::fs::write(&yb, "#!/bin/sh\necho \"yb $*\"\nexit 5\n").unwrap();
    succeed(Command::new("chmod").arg("755").arg(&yb));
    check_installed(&stub);
}

#[test]
fn homebrew_formula_names_the_archives_with_their_checksums() {
    let release = Release::new();
    let formula = release.package("youbencha.rb");
    let text = std::fs::read_to_string(&formula).unwrap();
    let sums = std::fs::read_to_string(release.path("dist").join("SHA256SUMS")).unwrap();
    for target in [LINUX, "aarch64-apple-darwin"] {
        let name = format!("youbencha-0.1.0-{target}.tar.gz");
        let line = sums.lines().find(|line| line.ends_with(&name)).unwrap();
        let (sum, _) = line.split_once(' ').unwrap();
        let expected = format!("/releases/download/v0.1.0/{name}\"\n      sha256 \"{sum}\"\n");
        assert!(text.contains(&expected), "{text}");
    }
    // No archive, no block: Homebrew would fail to download it.
    assert!(!text.contains("x86_64-apple-darwin"), "{text}");
    succeed(Command::new("ruby").arg("-c").arg(&formula));
}

#[test]
fn binstall_metadata_names_the_archives_of_a_release() {
    let release = Release::new();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest: toml_edit::DocumentMut = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
    let metadata = &manifest["package"]["metadata"]["binstall"];
    let overrides = metadata["overrides"].as_table_like().unwrap();
    let targets = overrides.iter().map(|(target, _)| target).chain([LINUX, "aarch64-apple-darwin"]);
    for target in targets.filter(|target| *target != "aarch64-unknown-linux-gnu") {
        let value = |key: &str| {
            let own = overrides.get(target).and_then(|table| table.get(key));
            let template = own.unwrap_or(&metadata[key]).as_str().unwrap();
            template.replace("{ version }", "0.1.0").replace("{ target }", target)
        };
        let url = value("pkg-url");
        let (_, archive) = url.rsplit_once('/').unwrap();
        assert!(release.names().iter().any(|name| name == archive), "{target}: {archive}");
        let folder = archive.trim_end_matches(".tar.gz").trim_end_matches(".zip");
        assert_eq!(value("bin-dir"), format!("{folder}/{{ bin }}{{ binary-ext }}"), "{target}");
        assert_eq!(value("pkg-fmt"), if archive.ends_with(".zip") { "zip" } else { "tgz" }, "{target}");
    }
}
