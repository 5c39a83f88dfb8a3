//! `yb self doctor`: how this program was installed, and how to update it.
//!
//! Each package manager leaves files of its own beside what it installs, so the path of the program tells; nothing is recorded, no
//! package manager is run and nothing is downloaded.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::SelfDoctorArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// How a program was installed.
#[derive(Debug, PartialEq, Eq)]
struct Installation {
    /// The package manager, as people call it.
    by: &'static str,
    /// The command that updates it.
    update: String,
}

pub(super) fn run(args: &SelfDoctorArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let own = std::env::current_exe().map_err(|error| {
        CliError::new(ErrorKind::Infrastructure, "failed to locate this program").caused_by(error)
    })?;
    let program = std::fs::canonicalize(&own).unwrap_or(own);
    let found = installation(&program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others: Vec<PathBuf> = on_path(std::env::split_paths(&path))
        .into_iter()
        .filter(|other| !is_launcher_of(other, &program))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    if args.json {
        let others: Vec<String> = others.iter().map(|other| other.display().to_string()).collect();
        printer.pretty_json(&json!({
            "program": program.display().to_string(),
            "version": version,
            "platform": platform,
            "installed_by": found.by,
            "update": found.update,
            "others_on_path": others,
        }));
        return Ok(ExitCode::Passed);
    }
    let mut row = |name: &str, value: &str| printer.line(format_args!("{name:13} {value}"));
    row("program", &program.display().to_string());
    row("version", &format!("{version} ({platform})"));
    row("installed by", found.by);
    row("update", &found.update);
    for other in &others {
        row("also on PATH", &other.display().to_string());
    }
    Ok(ExitCode::Passed)
}

/// Finds out how the program at this path was installed.
fn installation(program: &Path) -> Installation {
    let has = |name: &str| program.components().any(|part| part.as_os_str() == name);
    let directory = program.parent().unwrap_or(Path::new(""));
    let above = directory.parent().unwrap_or(Path::new(""));
    let found = |by, update: &str| Installation { by, update: update.to_owned() };
    if has("@youbencha") && has("node_modules") {
        return if has("_npx") {
            found("npx", "npx youbencha@latest")
        } else if above.ancestors().any(|folder| folder.ends_with("lib/node_modules")) {
            found("npm, globally", "npm install --global youbencha@latest")
        } else {
            found("npm, in a project", "npm install youbencha@latest")
        };
    }
    if has("Cellar") {
        return found("Homebrew", "brew upgrade youbencha");
    }
    if has("pipx") && has("venvs") {
        return found("pipx", "pipx upgrade youbencha");
    }
    if has("uv") && has("tools") {
        return found("uv tool", "uv tool upgrade youbencha");
    }
    if has("uv") && above.join("pyvenv.cfg").exists() {
        return found("uvx", "uvx youbencha@latest");
    }
    if is_python_script(above) {
        let python = if cfg!(windows) { "python.exe" } else { "python3" };
        let python = directory.join(python);
        let python = if python.exists() { python.display().to_string() } else { "python3".to_owned() };
        return found("pip", &format!("{python} -m pip install --upgrade youbencha"));
    }
    let listed = std::fs::read_to_string(above.join(".crates.toml")).unwrap_or_default();
    if listed.contains("\"youbencha ") {
        return found("cargo install", "cargo install --locked youbencha");
    }
    if directory == Path::new("/usr/bin") {
        if Path::new("/var/lib/dpkg/info/youbencha.list").exists() {
            return found("dpkg", "dpkg --install youbencha_VERSION.deb, from the newest release");
        }
        return found(
            "the system's packages",
            "the system's package manager, such as `dnf upgrade youbencha`",
        );
    }
    if above.join("CACHEDIR.TAG").exists() && directory.join("deps").is_dir() {
        return found("cargo build", "git pull, then build again");
    }
    if directory.join("youbencha").read_link().is_ok_and(|target| target == Path::new("yb")) {
        let script = "https://github.com/youbencha/youbencha/releases/latest/download/install.sh";
        let update = format!("curl -fsSL {script} | YB_INSTALL_DIR='{}' sh", directory.display());
        return Installation { by: "install.sh, or an archive", update };
    }
    found("unknown: the program stands alone", "replace it by that of the newest release")
}

/// Whether `pip` installed into this prefix: the directory of the package's metadata is there.
fn is_python_script(prefix: &Path) -> bool {
    let lists = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let packages = |folder: PathBuf| {
        lists(folder).iter().any(|name| name.starts_with("youbencha-") && name.ends_with(".dist-info"))
    };
    let lib = prefix.join("lib");
    packages(prefix.join("Lib").join("site-packages"))
        || lists(lib.clone()).iter().any(|python| {
            packages(lib.join(python).join("site-packages"))
                || packages(lib.join(python).join("dist-packages"))
        })
}

/// Lists the programs `yb` on PATH.
fn on_path(directories: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) { &["yb.exe", "yb.cmd"] } else { &["yb"] };
    let mut found = Vec::new();
    for directory in directories.filter(|directory| directory.is_absolute()) {
        for program in names.iter().map(|name| directory.join(name)).filter(|program| program.is_file()) {
            if !found.contains(&program) {
                found.push(program);
            }
        }
    }
    found
}

/// Whether this is a link to the program, or the launcher of npm's package, which runs it.
fn is_launcher_of(other: &Path, program: &Path) -> bool {
    let real = std::fs::canonicalize(other).unwrap_or_else(|_| other.to_owned());
    let is_npm = |path: &Path| path.components().any(|part| part.as_os_str() == "node_modules");
    real == program || (is_npm(&real) && is_npm(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Installs `yb` at a path below a temporary directory, with other files, and tells how.
    fn detect(program: &str, others: &[(&str, &str)]) -> Installation {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in others.iter().chain([&(program, "")]) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        installation(&root.path().join(program))
    }

    #[test]
    fn each_package_manager_is_recognized_by_what_it_leaves() {
        let npm = "lib/node_modules/youbencha/node_modules/@youbencha/linux-x64/bin/yb";
        assert_eq!(detect(npm, &[]).update, "npm install --global youbencha@latest");
        assert_eq!(detect("p/node_modules/@youbencha/linux-x64/bin/yb", &[]).by, "npm, in a project");
        assert_eq!(detect(".npm/_npx/1/node_modules/@youbencha/linux-x64/bin/yb", &[]).by, "npx");
        assert_eq!(detect("opt/Cellar/youbencha/0.1.0/bin/yb", &[]).by, "Homebrew");
        assert_eq!(detect("pipx/venvs/youbencha/bin/yb", &[]).by, "pipx");
        assert_eq!(detect("uv/tools/youbencha/bin/yb", &[]).by, "uv tool");
        assert_eq!(detect("uv/archive-v0/x/bin/yb", &[("uv/archive-v0/x/pyvenv.cfg", "")]).by, "uvx");
        let metadata = "v/lib/python3.12/site-packages/youbencha-0.1.0.dist-info/METADATA";
        let pip = detect("v/bin/yb", &[(metadata, ""), ("v/bin/python3", "")]);
        assert!(
            pip.by == "pip" && pip.update.ends_with("/v/bin/python3 -m pip install --upgrade youbencha"),
            "{pip:?}"
        );
        let listed = "[v1]\n\"youbencha 0.1.0 (registry+https://example.org)\" = [\"yb\", \"youbencha\"]\n";
        assert_eq!(detect("c/bin/yb", &[("c/.crates.toml", listed)]).by, "cargo install");
        assert_eq!(
            detect("target/debug/yb", &[("target/CACHEDIR.TAG", ""), ("target/debug/deps/x", "")]).by,
            "cargo build"
        );
    }

    #[test]
    fn metadata_of_other_packages_is_not_ours() {
        let others = [
            ("v/lib/python3.12/site-packages/other-1.dist-info/METADATA", ""),
            ("v/.crates.toml", "\"other 1\""),
        ];
        assert!(detect("v/bin/yb", &others).by.starts_with("unknown"));
    }

    #[cfg(unix)]
    #[test]
    fn archive_is_recognized_by_the_link_of_the_long_name() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("yb", root.path().join("youbencha")).unwrap();
        let found = installation(&root.path().join("yb"));
        assert_eq!(found.by, "install.sh, or an archive");
        assert!(found.update.contains("install.sh | YB_INSTALL_DIR="), "{found:?}");
    }
}
