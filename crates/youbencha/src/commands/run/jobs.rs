//! The default number of concurrent trials.

/// Memory per agent: 200 to 600 MB are usual.
const PER_AGENT: u64 = 600 << 20;

/// Returns the number of cores, limited by memory.
pub(in crate::commands) fn default() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fit =
        available_memory().map_or(cores, |bytes| usize::try_from(bytes / PER_AGENT).unwrap_or(usize::MAX));
    cores.min(fit).max(1)
}

/// Returns the available memory in bytes, if known.
fn available_memory() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn default_is_between_one_and_the_number_of_cores() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=cores).contains(&super::default()));
    }
}
