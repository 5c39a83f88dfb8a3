//! How many trials fit on this machine at once.

/// An agent needs 200 to 600 MB.
const PER_AGENT: u64 = 600 << 20;

/// As many as there are cores, and as many as there is memory for.
pub(in crate::commands) fn default() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fit =
        available_memory().map_or(cores, |bytes| usize::try_from(bytes / PER_AGENT).unwrap_or(usize::MAX));
    cores.min(fit).max(1)
}

/// In bytes, where the system tells.
fn available_memory() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn at_least_one_and_no_more_than_cores() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=cores).contains(&super::default()));
    }
}
