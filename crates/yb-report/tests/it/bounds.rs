//! Properties of any run: no injected markup and bounded sizes.

use yb_testkit::RecordedRun;

use crate::{hostile, report};

/// Returns Markdown without code blocks and spans.
fn outside_code(text: &str) -> String {
    let mut bare = String::new();
    let mut fence = None;
    for line in text.lines() {
        // A block in an item of a list is indented.
        let inner = line.strip_prefix("  ").unwrap_or(line);
        let ticks = inner.chars().take_while(|c| *c == '`').count();
        match fence {
            Some(open) if line.trim() == "`".repeat(open) => fence = None,
            Some(_) => {}
            None if ticks >= 3 => fence = Some(ticks),
            None => {
                let line = line.replace("\\`", "");
                let mut rest = line.as_str();
                while let Some(at) = rest.find('`') {
                    bare.push_str(&rest[..at]);
                    let run = "`".repeat(rest[at..].chars().take_while(|c| *c == '`').count());
                    let inside = &rest[at + run.len()..];
                    rest = inside
                        .split_once(run.as_str())
                        .unwrap_or_else(|| panic!("code without an end: {line}"))
                        .1;
                }
                bare.push_str(rest);
                bare.push('\n');
            }
        }
    }
    assert!(fence.is_none(), "a block without an end");
    bare
}

#[test]
fn untrusted_text_is_never_markup() {
    let (_root, report) = report(&hostile());
    let page = yb_report::html(&report).pages().next().unwrap().text;
    assert!(!page.contains("<img"), "an element got through");
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script").count(), 1);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    for text in [yb_report::markdown(&report), yb_report::github(&report)] {
        // Outside of code, a tag would be markup.
        let bare = outside_code(&text);
        assert!(!bare.contains("<img"), "{bare}");
        assert!(!bare.contains("@all"), "somebody would be notified");
    }
    let xml = yb_report::junit(&report);
    assert!(!xml.contains("<img") && !xml.contains('\u{1b}'));
    for text in [page, yb_report::markdown(&report), xml] {
        assert!(!text.contains('\u{202e}'), "text could be turned around");
    }
}

#[test]
fn github_comment_stays_below_the_limit() {
    let long = |name: &str| format!("{name}{}", "|&<`".repeat(2_000));
    let run = RecordedRun {
        cases: (0..15).map(|at| long(&at.to_string())).collect(),
        variants: vec![long("v"), long("w")],
        repeats: 1,
        hostile: "&`<".repeat(30_000),
        extra_messages: 0,
    };
    // Directory names are limited, so the run is changed after writing.
    let short = RecordedRun {
        cases: vec!["c".to_owned()],
        variants: vec!["v".to_owned(), "w".to_owned()],
        ..run.clone()
    };
    let (_root, mut report) = report(&short);
    let model = report.runs[0].trials[0].clone();
    for case in &run.cases {
        let mut trial = model.clone();
        trial.case.clone_from(case);
        trial.error = Some(run.hostile.clone());
        trial.outcome = report.runs[0].trials[1].outcome.clone();
        report.runs[0].trials.push(trial);
    }
    report.runs[0].extra.insert(
        "gates".to_owned(),
        (0..30)
            .map(|_| serde_json::json!({"name": run.hostile, "status": run.hostile, "reason": run.hostile}))
            .collect(),
    );
    report.runs = vec![report.runs[0].clone(), report.runs[0].clone(), report.runs[0].clone()];
    let text = yb_report::github(&report);
    assert!(text.chars().count() < yb_report::GITHUB_LIMIT, "{}", text.chars().count());
    assert!(text.contains("run"), "{text}");
}

#[test]
fn long_conversation_is_cut_in_the_middle() {
    let run = RecordedRun {
        cases: vec!["long".to_owned()],
        variants: vec!["v".to_owned()],
        repeats: 1,
        extra_messages: 900,
        hostile: String::new(),
    };
    let (_root, report) = report(&run);
    let page = yb_report::html(&report).pages().next().unwrap().text;
    assert!(page.len() < 1_000_000, "{}", page.len());
    assert!(page.contains("omitted; full log:"));
    assert!(page.contains("I start with how the login handles its target."));
    assert!(page.contains("Done. After logging in"));
}

#[test]
fn html_has_a_page_per_trial_above_the_limit() {
    let run = RecordedRun { repeats: 4, ..RecordedRun::example() };
    let (_root, report) = report(&run);
    let pages: Vec<_> = yb_report::html(&report).pages().collect();
    assert_eq!(pages.len(), 61);
    assert_eq!(pages.last().unwrap().path, "index.html");
    let mut paths: Vec<_> = pages.iter().map(|page| page.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 61);
    assert!(pages.iter().all(|page| page.text.contains("default-src &#39;none&#39;")));
}
