//! Shared by benchmarks of whole runs: a suite of shell agents, a `yb` process, and its journal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::{Value, json};

use crate::Failure;

/// The timeout of anything that is waited for.
const HANG: Duration = Duration::from_secs(900);

/// A folder that agents can access, named by the variable `MEET`.
pub(crate) const MEET: &str = "meet";

/// A folder with a suite of one case.
pub(crate) struct World {
    root: tempfile::TempDir,
    yb: PathBuf,
}

impl World {
    /// Creates a suite of one case with this shell command as agent, and this many repeats.
    pub(crate) fn new(agent: &str, repeats: usize) -> Result<Self, Failure> {
        let yb = std::env::current_exe()?.with_file_name("yb");
        if !yb.exists() {
            return Err("build it first: `cargo build --release -p youbencha`".into());
        }
        // Next to the program and not in `/tmp`, as a user's project is: a path in `/tmp` has to be mounted into the private
        // `/tmp` of a sandbox.
        let root = match std::env::var_os("TMPDIR") {
            Some(_) => tempfile::tempdir()?,
            None => tempfile::tempdir_in(yb.parent().unwrap_or(Path::new(".")))?,
        };
        fs::create_dir(root.path().join("tree"))?;
        fs::write(root.path().join("tree/a.txt"), "start\n")?;
        fs::create_dir(root.path().join(MEET))?;
        let world = Self { root, yb };
        world.suite(agent, repeats)?;
        Ok(world)
    }

    pub(crate) fn suite(&self, agent: &str, repeats: usize) -> Result<(), Failure> {
        let case = json!({ "name": "one", "description": "One file changes.", "directory": "tree",
            "env": { "MEET": self.path().join(MEET) },
            "agent": { "type": "command", "config": { "prompt": "Change one file.",
                "command": { "argv": ["sh", "-c", agent] } } },
            "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } }] });
        let suite = json!({ "youbencha": 1, "name": "bench", "cases": [case], "repeats": repeats });
        Ok(fs::write(self.path().join("suite.yaml"), suite.to_string())?)
    }

    pub(crate) fn yb(&self) -> &Path {
        &self.yb
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Starts `yb run` with these arguments in the background.
    pub(crate) fn start(&self, args: &[&str]) -> Result<Yb, Failure> {
        self.start_command("run", args)
    }

    /// Starts a command of `yb` with these arguments in the background.
    pub(crate) fn start_command(&self, name: &str, args: &[&str]) -> Result<Yb, Failure> {
        let stderr = self.path().join("stderr");
        let mut command = Command::new(&self.yb);
        command.arg(name).args(args).current_dir(self.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(File::create(&stderr)?);
        Ok(Yb { child: command.spawn()?, stderr })
    }

    /// Returns the newest run.
    pub(crate) fn run(&self) -> Result<Option<PathBuf>, Failure> {
        let runs = yb_engine::run::all_runs(&self.path().join(".youbencha-workspace"))?;
        Ok(runs.last().map(|run| run.path().to_owned()))
    }

    /// Removes all runs, but not the cache.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(self.path().join(".youbencha-workspace/runs")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns how many processes still run below the folder, after a short wait.
    pub(crate) fn orphans(&self) -> usize {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let left = yb_testkit::processes_in(self.path()).len();
            if left == 0 || Instant::now() > end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A `yb` process in the background.
pub(crate) struct Yb {
    child: Child,
    stderr: PathBuf,
}

/// The resource usage of a `yb` process, without its children.
pub(crate) struct Own {
    pub(crate) cpu: Duration,
    pub(crate) peak_rss: u64,
}

impl Yb {
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn is_over(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for the process. Returns its exit code and the end of its output.
    pub(crate) fn wait(mut self) -> Result<(Option<i32>, String), Failure> {
        let end = Instant::now() + HANG;
        while !self.is_over()? {
            if Instant::now() > end {
                let _ = self.child.kill();
                return Err("`yb` hung".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((self.child.wait()?.code(), fs::read_to_string(&self.stderr)?))
    }

    /// Waits for the process and reads its resource usage before it is reaped.
    pub(crate) fn measured(mut self) -> Result<Own, Failure> {
        let pid = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let mut peak_rss = 0;
        while waitid(WaitId::Pid(pid), options)?.is_none() {
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            peak_rss = peak_rss.max(kilobytes.unwrap_or(0) * 1024);
            std::thread::sleep(Duration::from_millis(10));
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 =
            fields.get(11..13).into_iter().flatten().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        let code = self.child.wait()?.code();
        if code != Some(0) {
            return Err(format!("exit code {code:?}: {}", fs::read_to_string(&self.stderr)?).into());
        }
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Own { cpu: Duration::from_millis(ticks * 1000 / per_second), peak_rss })
    }
}

/// Returns the events of a run's journal, without an incomplete last line.
pub(crate) fn journal(run: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Returns the result of each trial. A trial restarted after its result, or an attempt that starts or ends twice, is an error.
pub(crate) fn results(journal: &[Value]) -> Result<BTreeMap<String, Value>, Failure> {
    let mut results = BTreeMap::new();
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    for entry in journal {
        let trial = entry["trial"].as_str().unwrap_or_default().to_owned();
        match entry["event"].as_str() {
            Some("attempt_started") => {
                let again = results.contains_key(&trial) || open.contains_key(&trial);
                open.insert(trial, entry["attempt"].clone());
                if again {
                    return Err(format!("repeated: {entry}").into());
                }
            }
            Some("attempt_finished") => {
                if open.remove(&trial).as_ref() != Some(&entry["attempt"]) {
                    return Err(format!("ended without a beginning: {entry}").into());
                }
                if entry["then"] == "done" && entry["outcome"] != "cancelled" {
                    results.insert(trial, entry.clone());
                }
            }
            _ => {}
        }
    }
    Ok(results)
}
