//! Globs of created files: `*` and `?` within a name, `**` across directories, and nothing else.

/// Returns whether a path matches a glob.
pub(super) fn matches(glob: &str, path: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let path: Vec<char> = path.chars().collect();
    // `reachable[j]`: the glob so far matches the first j characters of the path.
    let mut reachable = vec![false; path.len() + 1];
    reachable[0] = true;
    let mut at = 0;
    while at < glob.len() {
        let mut next = vec![false; path.len() + 1];
        let rest = glob.get(at..).unwrap_or_default();
        match rest {
            ['*', '*', '/', ..] => {
                // No directory, or any number of whole ones.
                let mut any = false;
                for end in 0..=path.len() {
                    next[end] = reachable[end] || (any && end > 0 && path[end - 1] == '/');
                    any |= reachable[end];
                }
                at += 3;
            }
            ['*', '*', ..] => {
                let mut any = false;
                for end in 0..=path.len() {
                    any |= reachable[end];
                    next[end] = any;
                }
                at += 2;
            }
            ['*', ..] => {
                for end in 0..=path.len() {
                    let extended = end > 0 && next[end - 1] && path[end - 1] != '/';
                    next[end] = reachable[end] || extended;
                }
                at += 1;
            }
            [single, ..] => {
                for end in 1..=path.len() {
                    let same = if *single == '?' { path[end - 1] != '/' } else { path[end - 1] == *single };
                    next[end] = reachable[end - 1] && same;
                }
                at += 1;
            }
            [] => break,
        }
        reachable = next;
    }
    reachable.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs_match_like_those_of_plugin_evals() {
        for (glob, path, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "sub/b.txt", false),
            ("**/*.txt", "a.txt", true),
            ("**/*.txt", "x/y/b.txt", true),
            ("**", "x/y", true),
            ("sub/*", "sub/b.txt", true),
            ("sub", "sub/b.txt", false),
            ("*b.txt", "sub/b.txt", false),
            ("?.txt", "a.txt", true),
            ("[ab].txt", "a.txt", false),
            ("{a,c}.txt", "a.txt", false),
            ("./a.txt", "a.txt", false),
            (".hid*", ".hidden", true),
            ("a**c", "a/b/c", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} {path}");
        }
    }
}
