//! The HTML report in a real browser, opened from disk: it works, makes no network requests, runs no code of an
//! agent, and supports light and dark themes. One browser for all checks, because starting one takes a second.

use std::path::Path;

use serde_json::json;
use yb_testkit::{Browser, RecordedRun, TestContext};

use crate::YB;

/// Placed in every untrusted text.
const HOSTILE: &str = "</script></title></style><img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>' onfocus='window.hacked=1";

fn report(context: &TestContext, run: &RecordedRun, output: &str) -> String {
    let root = context.dir().join(".youbencha-workspace");
    let _ = std::fs::remove_dir_all(&root);
    let written = run.write(&root);
    let from = written.to_str().unwrap();
    let outcome = context.run(YB, ["report", "--from", from, "--format", "html", "--output", output]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let path = context.dir().join(output);
    let index = if path.is_dir() { path.join("index.html") } else { path };
    format!("file://{}", index.display())
}

/// Saves screenshots to the directory in `YB_SCREENSHOTS`.
fn screenshot(browser: &mut Browser, name: &str) -> Vec<u8> {
    let png = browser.screenshot();
    assert!(png.starts_with(b"\x89PNG"), "{name}");
    if let Some(folder) = std::env::var_os("YB_SCREENSHOTS") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(name), &png).unwrap();
    }
    png
}

/// Waits for a number of visible rows.
#[track_caller]
fn shown_rows(browser: &mut Browser, count: usize) {
    browser.until(&format!("document.querySelectorAll('#list tbody tr:not([hidden])').length === {count}"));
}

#[test]
fn report_works_in_a_browser() {
    let context = TestContext::new();
    let mut browser = Browser::start();

    single_file(&context, &mut browser);
    hostile_texts(&context, &mut browser);
    folder(&context, &mut browser);

    assert_eq!(browser.console_errors(), Vec::<serde_json::Value>::new());
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with("file://") && !url.starts_with("data:") && !url.starts_with("about:"))
        .collect();
    assert_eq!(elsewhere, Vec::<String>::new(), "a report needs no network");
}

/// Filters, sorting, the heat-map, a trial, the theme, a phone.
fn single_file(context: &TestContext, browser: &mut Browser) {
    let url = report(context, &RecordedRun { extra_messages: 3, ..RecordedRun::example() }, "report.html");
    browser.set_viewport(1280, 1560, "light");
    browser.open(&url);
    assert_eq!(browser.eval("document.querySelectorAll('article.view:not([hidden])').length"), 0);
    shown_rows(browser, 45);
    let light = screenshot(browser, "overview-light.png");

    browser.click("#theme");
    browser.until("document.documentElement.dataset.theme === 'dark'");
    let dark = screenshot(browser, "overview-dark.png");
    assert_ne!(light, dark);

    browser.click(".chip[data-outcome=timeout]");
    shown_rows(browser, 3);
    assert_eq!(browser.eval("document.getElementById('shown').textContent"), "3 of 45");
    browser.click(".chip[data-outcome='']");
    browser.click("#search");
    browser.call("Input.insertText", &json!({"text": "DISK WENT"}));
    shown_rows(browser, 1);
    browser.eval("(() => { const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input')); })()");
    browser.click(".heat tbody tr:nth-child(2) td:nth-of-type(1) a");
    shown_rows(browser, 3);
    browser.click("#only");
    shown_rows(browser, 45);

    let times = "[...document.querySelectorAll('#list tbody tr')].map(row => +row.querySelector('td.num:nth-of-type(5)').dataset.v)";
    browser.click("#list th:nth-child(5) button");
    browser
        .until("document.querySelector('#list th:nth-child(5)').getAttribute('aria-sort') === 'ascending'");
    assert_eq!(browser.eval(&format!("(t => t.every((x, i) => !i || t[i - 1] <= x))({times})")), true);
    browser.click("#list th:nth-child(5) button");
    browser.until(&format!("(t => t.every((x, i) => !i || t[i - 1] >= x))({times})"));

    browser.click("#list tbody tr[data-outcome=failed] a.go");
    browser.until("document.activeElement.tagName === 'H1'");
    assert_eq!(browser.eval("document.querySelectorAll('.view:not([hidden])').length"), 1);
    let talk = ".view:not([hidden]) .talk";
    assert_eq!(browser.eval(&format!("document.querySelectorAll('{talk} .tool[open]').length")), 0);
    // Keyboard: from the heading, Tab reaches a tool call and Enter expands it.
    let mut tabs = 0;
    while browser.eval("document.activeElement.closest('.tool') === null") == true {
        browser.press("Tab");
        tabs += 1;
        assert!(tabs < 60, "no tool call can be reached by keyboard");
    }
    browser.press("Enter");
    browser.until(&format!("document.querySelectorAll('{talk} .tool[open]').length === 1"));
    browser.click(&format!("{talk} .unfold"));
    assert_eq!(browser.eval(&format!("document.querySelectorAll('{talk} .tool:not([open])').length")), 0);
    assert!(
        browser.eval("document.querySelectorAll('.view:not([hidden]) .diff .a').length").as_u64() > Some(3)
    );
    // The output of the tests is clipped.
    browser.until(&format!("document.querySelector('{talk} .more') !== null"));
    browser.click(&format!("{talk} .more"));
    browser.until(&format!("document.querySelectorAll('{talk} .whole').length === 1"));
    browser.click(&format!("{talk} .unfold"));
    browser.set_viewport(1280, 1900, "dark");
    browser.eval("scrollTo(0, 0)");
    let _ = screenshot(browser, "trial-dark.png");
    browser.set_viewport(1280, 900, "dark");
    browser.eval("document.querySelector('.view:not([hidden]) .file').scrollIntoView({block: 'center'})");
    let _ = screenshot(browser, "changes-dark.png");
    let before = browser.eval("location.hash");
    browser.click(".view:not([hidden]) .around a:last-child");
    browser.until(&format!("location.hash !== {before} && !document.querySelector(location.hash).hidden"));
    browser.click(".view:not([hidden]) .home");
    browser.until("!document.getElementById('overview').hidden");

    // The system decides the default theme; on a phone, nothing is wider than the screen.
    browser.eval("localStorage.clear()");
    browser.set_viewport(390, 1700, "light");
    browser.open("about:blank");
    browser.open(&url);
    assert_eq!(browser.eval("document.documentElement.dataset.shown"), "light");
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    let _ = screenshot(browser, "phone-light.png");
    browser.eval("location.hash = '#t2'");
    browser.until("!document.getElementById('t2').hidden");
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    let _ = screenshot(browser, "phone-trial.png");
}

fn hostile_texts(context: &TestContext, browser: &mut Browser) {
    let run = RecordedRun { hostile: HOSTILE.to_owned(), repeats: 1, ..RecordedRun::example() };
    let url = report(context, &run, "hostile.html");
    browser.open(&url);
    assert_eq!(browser.eval("document.querySelectorAll('article').length"), 15);
    browser.eval("document.querySelectorAll('details').forEach(d => d.open = true)");
    browser.eval("location.hash = '#t1'");
    browser.until("!document.getElementById('t1').hidden");
    assert_eq!(browser.eval("typeof window.hacked"), "undefined");
    assert_eq!(
        browser.eval("document.images.length + document.querySelectorAll('[onfocus],[onerror]').length"),
        0
    );
    assert_eq!(browser.eval("document.scripts.length + document.styleSheets.length"), 2);
    let text = browser.eval("document.querySelector('#t1 .talk').textContent");
    assert!(text.as_str().unwrap().contains(HOSTILE), "what was written is shown as it was written");
}

/// A page per trial.
fn folder(context: &TestContext, browser: &mut Browser) {
    let url = report(context, &RecordedRun { repeats: 4, ..RecordedRun::example() }, "pages");
    assert_eq!(std::fs::read_dir(context.dir().join("pages/trials")).unwrap().count(), 60);
    browser.open(&url);
    shown_rows(browser, 60);
    browser.click("#list tbody tr:nth-child(2) a.go");
    browser.wait_for_load();
    assert!(
        browser
            .eval("location.pathname")
            .as_str()
            .unwrap()
            .ends_with("/trials/0002-fix-login-redirect--opus--1.html")
    );
    browser.click(".around a:last-child");
    browser.wait_for_load();
    browser.click(".home");
    browser.wait_for_load();
    shown_rows(browser, 60);
}
