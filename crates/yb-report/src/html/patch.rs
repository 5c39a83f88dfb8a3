//! The changes of a trial: the patch by file, with colored and numbered lines, limited in size.

use yb_figures::{bytes, count, plural};

use super::markup::Markup;
use crate::model::Trial;

/// The maximum number of lines of an unfolded file.
const OPEN: usize = 300;
/// The maximum number of unfolded files.
const FILES: usize = 12;

pub(super) fn write(body: &mut Markup, trial: &Trial, room: usize) {
    let Some((patch, length)) = trial.patch(room as u64) else { return };
    let files = files(&patch);
    body.raw("<section class=\"card\"><h2>Changes</h2>");
    for file in &files {
        write_file(body, file, files.len() <= FILES);
    }
    let path = trial.patch_path().map(|path| path.display().to_string()).unwrap_or_default();
    if length > room as u64 {
        body.raw("<p class=\"gap\">").text(&format!("{} omitted; full patch: ", bytes(length - room as u64)));
        body.element("span", "mono", &path).raw("</p>");
    } else {
        body.raw("<p class=\"hint\">patch: ").element("span", "mono", &path).raw("</p>");
    }
    body.raw("</section>");
}

/// Writes a patch without a frame.
pub(crate) fn write_text(body: &mut Markup, patch: &str) {
    let files = files(patch);
    for file in &files {
        write_file(body, file, files.len() <= FILES);
    }
}

/// One file of a patch.
#[derive(Debug, Default)]
struct File<'a> {
    path: String,
    remark: &'static str,
    lines: Vec<&'a str>,
    added: usize,
    removed: usize,
}

fn files(patch: &str) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    let mut in_hunk = false;
    for line in patch.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            in_hunk = false;
            let path = names.rsplit(" b/").next().unwrap_or(names).trim_matches('"').to_owned();
            files.push(File { path, ..File::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if line.starts_with("@@ ") {
            in_hunk = true;
        }
        if in_hunk {
            file.added += usize::from(line.starts_with('+'));
            file.removed += usize::from(line.starts_with('-'));
            file.lines.push(line);
        } else if let Some(path) = line.strip_prefix("+++ b/").or_else(|| line.strip_prefix("--- a/")) {
            file.path = path.trim_end_matches('\t').to_owned();
        } else if let Some(path) = line.strip_prefix("rename to ") {
            path.clone_into(&mut file.path);
            file.remark = "moved";
        } else if line.starts_with("new file") {
            file.remark = "new";
        } else if line.starts_with("deleted file") {
            file.remark = "deleted";
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files") {
            file.remark = "binary";
        }
    }
    files
}

fn write_file(body: &mut Markup, file: &File<'_>, open: bool) {
    if file.lines.is_empty() {
        body.raw("<div class=\"file\"><div class=\"name\">").element("span", "mono", &file.path);
        body.element("span", "hint", file.remark).raw("</div></div>");
        return;
    }
    body.raw("<details class=\"file\"").raw(if open && file.lines.len() <= OPEN { " open>" } else { ">" });
    body.raw("<summary>").element("span", "mono", &file.path);
    if !file.remark.is_empty() {
        body.element("span", "hint", file.remark);
    }
    let label = format!("{} added, {} removed", plural(file.added, "line"), count(file.removed));
    body.raw("<span class=\"sums\"").attr("aria-label", &label).raw("><span class=\"plus\">+");
    body.text(&count(file.added)).raw("</span> <span class=\"minus\">−").text(&count(file.removed));
    body.raw("</span></span></summary><pre class=\"diff\" tabindex=\"0\">");
    let (mut old, mut new) = (0, 0);
    for line in &file.lines {
        let mut number = 0;
        body.raw(match line.as_bytes().first() {
            Some(b'@') => {
                (old, new) = hunk_starts(line).unwrap_or((old, new));
                "<span class=\"at\""
            }
            Some(b'+') => {
                (number, new) = (new, new + 1);
                "<span class=\"a\""
            }
            Some(b'-') => {
                (number, old) = (old, old + 1);
                "<span class=\"d\""
            }
            Some(b'\\') => "<span class=\"at\"",
            _ => {
                (number, old, new) = (new, old + 1, new + 1);
                "<span"
            }
        });
        if number > 0 {
            body.attr("data-n", &number.to_string());
        }
        body.raw(">").text(line).raw("</span>");
    }
    body.raw("</pre></details>");
}

/// Parses the first line numbers of a hunk header, `@@ -3,7 +3,9 @@`.
fn hunk_starts(line: &str) -> Option<(usize, usize)> {
    let mut parts = line.split(' ').skip(1);
    let number = |part: &str| part.get(1..)?.split(',').next()?.parse().ok();
    Some((number(parts.next()?)?, number(parts.next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_read_by_file() {
        let patch = "diff --git a/a b.txt b/a b.txt\nindex 1..2 100644\n--- a/a b.txt\n+++ b/a b.txt\n@@ -3,2 +3,2 @@ fn\n \
                     same\n-old\n+++ b/not a name\ndiff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n\
                     diff --git a/p.png b/p.png\nnew file mode 100644\nGIT binary patch\nliteral 3\n";
        let files = files(patch);
        let summary: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.remark, f.added, f.removed)).collect();
        assert_eq!(summary, [("a b.txt", "", 1, 1), ("y", "moved", 0, 0), ("p.png", "binary", 0, 0)]);
        assert_eq!(hunk_starts("@@ -3,7 +4,9 @@ fn x"), Some((3, 4)));
        assert_eq!(hunk_starts("@@ nonsense"), None);
    }
}
