//! The same case with other evaluation tools: 50 files are copied, a command changes one of them, another checks it.
//!
//! Each tool is installed from its registry into `YB_PEERS_DIR` (`.tools/peers`), with a version that this was tried with. What can't be
//! installed is printed with the reason. `yb` does more than the others, which neither isolate the command nor record trees.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::stats::children_cpu;

const FILES: usize = 50;
const TRIALS: [usize; 3] = [1, 50, 500];
const INSPECT_TASK: &str = include_str!("peers/inspect_task.py");
const HARBOR_ENVIRONMENT: &str = include_str!("peers/harbor_env.py");

/// The agent and the check, for tools that give a command no directory of its own.
const AGENT: &str =
    "d=$(mktemp -d) && cp -r repo/. \"$d\" && cd \"$d\" && echo more >> f1 && grep -q more f1 && echo changed
rm -rf \"$d\"
";

/// A tool to measure.
struct Peer {
    name: &'static str,
    package: Package,
    /// Writes its files for a number of trials, and returns its arguments.
    prepare: fn(&Path, usize) -> Result<Vec<String>, Failure>,
    /// Whether its output shows that all trials passed.
    passed: fn(&Path, &str, usize) -> bool,
}

enum Package {
    /// The `yb` of this build.
    Sibling,
    Npm {
        package: &'static str,
        program: &'static str,
    },
    Python {
        package: &'static str,
        program: &'static str,
        min_minor: u32,
    },
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "yb",
        package: Package::Sibling,
        prepare: yb,
        passed: |_, output, n| output.contains(&yb_total(n)),
    },
    Peer {
        name: "AgentV",
        package: Package::Npm { package: "agentv@4.42.4", program: "agentv" },
        prepare: agentv,
        passed: |_, output, n| output.contains(&format!("Passed: {n}\n")),
    },
    Peer {
        name: "promptfoo",
        package: Package::Npm { package: "promptfoo@0.121.20", program: "promptfoo" },
        prepare: promptfoo,
        passed: |world, _, n| {
            let results = fs::read_to_string(world.join("results.json")).unwrap_or_default();
            results.contains(&format!("\"successes\": {n},"))
        },
    },
    Peer {
        name: "Inspect",
        package: Package::Python { package: "inspect-ai==0.3.285", program: "inspect", min_minor: 10 },
        prepare: inspect,
        passed: |world, _, _| fs::read_dir(world.join("logs")).is_ok_and(|logs| logs.count() > 0),
    },
    Peer {
        name: "Harbor",
        package: Package::Python { package: "harbor==0.24.0", program: "harbor", min_minor: 12 },
        prepare: harbor,
        passed: |_, output, n| output.contains(&format!("{n}/{n} Mean: 1.000")),
    },
];

pub(crate) fn run() -> Result<(), Failure> {
    let tools = std::env::var_os("YB_PEERS_DIR").map_or_else(|| PathBuf::from(".tools/peers"), PathBuf::from);
    let tools = std::path::absolute(tools)?;
    println!(
        "  {:<12} {:<12} {:>6} {:>12} {:>12} {:>14}",
        "tool", "version", "trials", "wall", "CPU", "CPU per trial"
    );
    for peer in &PEERS {
        let program = match peer.package.install(&tools.join(peer.name.to_lowercase())) {
            Ok(program) => program,
            Err(reason) => {
                println!("  {:<12} skipped: {reason}", peer.name);
                continue;
            }
        };
        let version = version(&program)?;
        let mut first = Duration::ZERO;
        for trials in TRIALS {
            let (wall, cpu) = match measure(peer, &program, trials) {
                Ok(figures) => figures,
                Err(error) => {
                    println!("  {:<12} {version:<12} {trials:>6} failed: {error}", peer.name);
                    break;
                }
            };
            if trials == 1 {
                first = cpu;
            }
            let further = match trials {
                1 => String::new(),
                _ => format!(
                    "{:.1} ms",
                    cpu.saturating_sub(first).as_secs_f64() * 1000.0 / (trials - 1) as f64
                ),
            };
            let (wall, cpu) = (wall.as_secs_f64(), cpu.as_secs_f64());
            println!(
                "  {:<12} {version:<12} {trials:>6} {wall:>10.2} s {cpu:>10.2} s {further:>14}",
                peer.name
            );
        }
    }
    Ok(())
}

fn measure(peer: &Peer, program: &Path, trials: usize) -> Result<(Duration, Duration), Failure> {
    let directory = tempfile::tempdir()?;
    let world = directory.path();
    fs::create_dir(world.join("repo"))?;
    for number in 0..FILES {
        fs::write(world.join(format!("repo/f{number}")), format!("line {number}\n").repeat(50))?;
    }
    let arguments = (peer.prepare)(world, trials)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(world).stdin(Stdio::null());
    command.env("PYTHONPATH", world).env("HARBOR_TELEMETRY", "0").env("PROMPTFOO_DISABLE_TELEMETRY", "1");
    command.env("PROMPTFOO_DISABLE_UPDATE", "1").env("PROMPTFOO_CONFIG_DIR", world.join("promptfoo"));
    let (began, before) = (Instant::now(), children_cpu()?);
    let output = command.output()?;
    let (wall, cpu) = (began.elapsed(), children_cpu()?.saturating_sub(before));
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && (peer.passed)(world, &text, trials) {
        return Ok((wall, cpu));
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{}: {last}", output.status).into())
}

impl Package {
    /// Installs the tool unless that was done before, and returns its program; or the reason why it can't be.
    fn install(&self, directory: &Path) -> Result<PathBuf, String> {
        match self {
            Self::Sibling => {
                let yb = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("yb");
                if yb.exists() {
                    Ok(yb)
                } else {
                    Err("build it first: `cargo build --release -p youbencha`".to_owned())
                }
            }
            Self::Npm { package, program } => {
                let program = directory.join("node_modules/.bin").join(program);
                if !program.exists() {
                    let options = ["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
                    run_quietly(Command::new("npm").args(options).arg(directory).arg(package))?;
                }
                Ok(program)
            }
            Self::Python { package, program, min_minor } => {
                let environment = directory.join("venv");
                let program = environment.join("bin").join(program);
                if !program.exists() {
                    let python = find_python(*min_minor)
                        .ok_or_else(|| format!("needs Python 3.{min_minor} or newer, which was not found"))?;
                    run_quietly(Command::new(python).args(["-m", "venv"]).arg(&environment))?;
                    run_quietly(
                        Command::new(environment.join("bin/pip")).args(["install", "--quiet", package]),
                    )?;
                }
                Ok(program)
            }
        }
    }
}

/// Finds a Python on PATH, or one that pyenv installed.
fn find_python(min_minor: u32) -> Option<PathBuf> {
    let named = (min_minor..min_minor + 10).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let pyenv = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
    let installed = pyenv.and_then(|versions| fs::read_dir(versions).ok()).into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin/python3"));
    std::iter::once(PathBuf::from("python3")).chain(named).chain(installed).find(|python| {
        let check = format!("import sys, venv; sys.exit(sys.version_info < (3, {min_minor}))");
        run_quietly(Command::new(python).args(["-c", &check])).is_ok()
    })
}

fn run_quietly(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(stderr.lines().last().unwrap_or("failed").to_owned()) }
}

/// Returns the first word of the output that starts with a digit.
fn version(program: &Path) -> Result<String, Failure> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Ok(word.unwrap_or("unknown").to_owned())
}

fn yb(world: &Path, trials: usize) -> Result<Vec<String>, Failure> {
    let case = "youbencha: 1
name: trivial
description: One file is changed.
directory: repo
agent: { type: command, config: { prompt: Change one file., command: { argv: [sh, -c, 'cat > /dev/null; echo more >> f1'] } } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";
    fs::write(world.join("case.yaml"), case)?;
    Ok(words(&["run", "-c", "case.yaml", "--repeat", &trials.to_string()]))
}

fn yb_total(trials: usize) -> String {
    if trials == 1 {
        "trivial: passed".to_owned()
    } else {
        format!("{trials} of {trials} trials: {trials} passed")
    }
}

fn agentv(world: &Path, trials: usize) -> Result<Vec<String>, Failure> {
    fs::write(world.join("agent.sh"), AGENT)?;
    fs::create_dir(world.join(".agentv"))?;
    let target =
        "targets: [{ name: local, provider: cli, command: 'sh ./agent.sh > {OUTPUT_FILE}', cwd: . }]\n";
    fs::write(
        world.join(".agentv/targets.yaml"),
        target.replace("cwd: .", &format!("cwd: {}", world.display())),
    )?;
    let mut suite = "description: One file is changed.\ntarget: local\ntests:\n".to_owned();
    for number in 0..trials {
        writeln!(suite, "  - id: trivial-{number}")?;
        writeln!(
            suite,
            "    input: Change one file.\n    assertions: [{{ type: contains, value: changed }}]"
        )?;
    }
    fs::write(world.join("suite.eval.yaml"), suite)?;
    Ok(words(&["eval", "suite.eval.yaml"]))
}

fn promptfoo(world: &Path, trials: usize) -> Result<Vec<String>, Failure> {
    fs::write(world.join("agent.sh"), AGENT)?;
    let config = "prompts: [Change one file.]
providers: ['exec: sh agent.sh']
tests: [{ assert: [{ type: contains, value: changed }] }]
";
    fs::write(world.join("promptfooconfig.yaml"), config)?;
    let options = ["eval", "--no-cache", "--no-progress-bar", "--no-table", "-o", "results.json", "--repeat"];
    Ok(words(&[&options[..], &[&trials.to_string()]].concat()))
}

fn inspect(world: &Path, trials: usize) -> Result<Vec<String>, Failure> {
    fs::write(world.join("inspect_task.py"), INSPECT_TASK)?;
    let options =
        ["eval", "inspect_task.py", "--model", "mockllm/model", "--display", "none", "--log-dir", "logs"];
    Ok(words(&[&options[..], &["--epochs", &trials.to_string()]].concat()))
}

fn harbor(world: &Path, trials: usize) -> Result<Vec<String>, Failure> {
    let task = world.join("task");
    for name in ["environment", "solution", "tests"] {
        fs::create_dir_all(task.join(name))?;
    }
    fs::rename(world.join("repo"), task.join("environment/repo"))?;
    let reward = "if grep -q more f1; then echo 1; else echo 0; fi > \"$(dirname \"$0\")/../logs/verifier/reward.txt\"";
    for (name, content) in [
        ("environment/Dockerfile", "FROM scratch\n"),
        ("instruction.md", "Change one file.\n"),
        ("solution/solve.sh", "#!/bin/bash\necho more >> f1\n"),
        ("tests/test.sh", &format!("#!/bin/bash\n{reward}\n")),
        ("task.toml", "version = \"1.0\"\n[metadata]\n[verifier]\n[agent]\n[environment]\n"),
    ] {
        fs::write(task.join(name), content)?;
    }
    fs::write(world.join("harbor_env.py"), HARBOR_ENVIRONMENT)?;
    let options =
        ["run", "-p", "task", "-a", "oracle", "-e", "harbor_env:LocalEnvironment", "-q", "-o", "jobs", "-k"];
    Ok(words(&[&options[..], &[&trials.to_string()]].concat()))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
