//! The process table from `ps`, for systems without `/proc`. Lacks working directories.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::{Command, Stdio};

use super::Stat;

/// Number of columns of `lstart`: weekday, month, day, time, year.
const START_WORDS: usize = 5;

pub(super) fn stat(pid: u32) -> Option<Stat> {
    table(&["-p", &pid.to_string()]).pop().map(|(_, stat)| stat)
}

pub(super) fn all() -> Vec<(u32, Stat)> {
    table(&["-A"])
}

pub(super) fn command_line(pid: u32) -> Option<String> {
    ps(&["-ww", "-o", "args=", "-p", &pid.to_string()]).lines().next().map(str::to_owned)
}

pub(super) fn directory_references(pid: u32) -> Vec<String> {
    command_line(pid).into_iter().collect()
}

/// `ps` appends the environment to the arguments; values with spaces are split.
pub(super) fn environment(pid: u32) -> Vec<String> {
    ps(&["eww", "-o", "args=", "-p", &pid.to_string()]).split_whitespace().map(str::to_owned).collect()
}

fn table(which: &[&str]) -> Vec<(u32, Stat)> {
    let mut args = which.to_vec();
    args.extend(["-o", "pid=,ppid=,stat=,lstart=,comm="]);
    ps(&args).lines().filter_map(parse).collect()
}

fn ps(args: &[&str]) -> String {
    let output = Command::new("ps").args(args).env("LC_ALL", "C").stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn parse(line: &str) -> Option<(u32, Stat)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (pid, parent, state) = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?, words.get(2)?);
    // Only equality matters, so a hash is enough.
    let mut hasher = DefaultHasher::new();
    words.get(3..3 + START_WORDS)?.hash(&mut hasher);
    let name = words.get(3 + START_WORDS..)?.join(" ");
    Some((pid, Stat { name, state: state.chars().next()?, parent, start_time: hasher.finish() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ps_table_contains_this_process() {
        let this = std::process::id();
        let alone = stat(this).unwrap();
        assert!(all().contains(&(this, alone.clone())) || all().iter().any(|(pid, _)| *pid == this));
        assert_eq!(alone.parent, std::os::unix::process::parent_id());
        assert!(!command_line(this).unwrap().is_empty());
        assert!(!environment(this).is_empty());
        assert_eq!(directory_references(this).len(), 1);
    }
}
