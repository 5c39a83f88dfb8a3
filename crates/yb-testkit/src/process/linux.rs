//! The process table of Linux, from `/proc`.

use std::fs;

use super::Stat;

pub(super) fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

pub(super) fn all() -> Vec<(u32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

/// Returns the arguments, separated by spaces.
pub(super) fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " "))
}

/// Returns everything that links a process to a directory.
pub(super) fn directory_references(pid: u32) -> Vec<String> {
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
    [link("cwd"), link("exe")]
        .into_iter()
        .flatten()
        .map(|path| path.to_string_lossy().into_owned())
        .chain(command_line(pid))
        .collect()
}

/// Returns the initial environment, as `NAME=value`.
pub(super) fn environment(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

/// Parses a stat line. The name is in parentheses and may contain parentheses itself.
fn parse(line: &str) -> Option<Stat> {
    let (head, tail) = line.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Stat {
        name: head.split_once('(')?.1.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_parentheses_in_name_is_parsed() {
        let line = "42 (a) b (c) S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let expected = Stat { name: "a) b (c".to_owned(), state: 'S', parent: 7, start_time: 987_654 };
        assert_eq!(parse(line), Some(expected));
    }
}
