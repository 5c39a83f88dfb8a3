//! The pages in a real browser: live updates, keys, deep links, hostile texts, themes and a phone. One browser for all checks,
//! because starting one takes a second.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use yb_testkit::{Browser, RecordedRun};
use yb_view::ViewServer;

use crate::live::{hold, unfinished};
use crate::serve;

const RUN: &str = "nightly-2026-11-15-1794765306041";
const HOSTILE: &str = "</script></title></style><img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>' onfocus='window.hacked=1";

/// Returns the texts whose contrast with their background is below 4.5, as WCAG AA requires.
const CONTRAST: &str = r"(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const ground = (element) => {
    if (!element) return rgba(getComputedStyle(document.body).backgroundColor);
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(element.parentElement));
  };
  const light = (color) => color.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const bad = new Set();
  const walker = document.createTreeWalker(document.getElementById('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility() || element.closest('svg')) continue;
    const below = ground(element);
    const text = over(rgba(getComputedStyle(element).color), below);
    const [one, two] = [light(text), light(below)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) bad.add(element.tagName + '.' + element.className + ' ' + ratio.toFixed(2));
  }
  return [...bad];
})()";

/// Saves screenshots to the directory in `YB_SCREENSHOTS`.
fn screenshot(browser: &mut Browser, name: &str) {
    let png = browser.screenshot();
    assert!(png.starts_with(b"\x89PNG"), "{name}");
    if let Some(folder) = std::env::var_os("YB_SCREENSHOTS") {
        fs::create_dir_all(&folder).unwrap();
        fs::write(Path::new(&folder).join(name), &png).unwrap();
    }
}

/// Takes a screenshot of a page at two sizes and in both themes; nothing is wider than the screen.
fn looks(browser: &mut Browser, url: &str, name: &str, height: u32) {
    for (width, theme) in [(1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")] {
        browser.set_viewport(width, height, theme);
        browser.open(url);
        assert_eq!(browser.eval("document.documentElement.dataset.shown"), theme);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.eval(fits), true, "{name} at {width}");
        assert_eq!(browser.eval(CONTRAST), json!([]), "{name} at {width}, {theme}");
        screenshot(browser, &format!("{name}-{width}-{theme}.png"));
    }
}

fn at(server: &ViewServer, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

fn key(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { key } else { "" };
        browser.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "text": text}));
    }
}

#[test]
fn pages_work_in_a_browser() {
    let mut browser = Browser::start();
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun { extra_messages: 3, ..RecordedRun::example() }.write(root.path());
    let earlier = run.with_file_name("nightly-2026-11-14-1794678906041");
    fs::create_dir(&earlier).unwrap();
    for name in ["plan.json", "journal.jsonl"] {
        fs::copy(run.join(name), earlier.join(name)).unwrap();
    }
    let server = serve(root.path());

    // The token leaves the address, and its cookie opens every other page.
    browser.open(&server.url(None));
    browser.until("location.search === ''");
    looks(&mut browser, &at(&server, "/"), "runs", 1000);
    keyboard(&mut browser, &server);
    looks(&mut browser, &at(&server, &format!("/runs/{RUN}")), "run", 2400);
    let trial = format!("/runs/{RUN}/trials/cache-invalidation--opus--1");
    looks(&mut browser, &at(&server, &trial), "trial", 2600);
    let pair = format!("/trials?a={RUN}/csv-export--opus--1&b={RUN}/csv-export--sonnet--1");
    looks(&mut browser, &at(&server, &pair), "pair", 1200);
    looks(&mut browser, &at(&server, &format!("/runs/{RUN}/review")), "review", 800);
    live_updates(&mut browser);
    hostile(&mut browser);

    assert_eq!(browser.console_errors(), Vec::<Value>::new());
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| {
            !url.starts_with("http://127.0.0.1:") && !url.starts_with("data:") && !url.starts_with("about:")
        })
        .collect();
    assert_eq!(elsewhere, Vec::<String>::new(), "the pages need no other host");
}

/// From the list to a step of a conversation with keys alone.
fn keyboard(browser: &mut Browser, server: &ViewServer) {
    browser.set_viewport(1400, 900, "light");
    browser.open(&at(server, "/"));
    browser.until("!document.getElementById('help').hidden");
    key(browser, "?");
    browser.until("document.getElementById('keys').open");
    key(browser, "?");
    browser.until("!document.getElementById('keys').open");
    key(browser, "j");
    browser.until("document.activeElement.classList.contains('go')");
    browser.press("Enter");
    browser.wait_for_load();
    browser.until("location.pathname.startsWith('/runs/') && document.querySelector('#trials') !== null");
    browser.until("!document.getElementById('help').hidden");
    key(browser, "/");
    browser.until("document.activeElement.id === 'search'");
    browser.call("Input.insertText", &json!({"text": "disk went"}));
    browser.press("Enter");
    browser.wait_for_load();
    browser
        .until("location.search.includes('q=disk') && document.querySelectorAll('[data-row]').length === 1");
    browser.call("Runtime.evaluate", &json!({"expression": "setTimeout(() => history.back())"}));
    // Some browsers keep the page as it was, others load it again.
    browser.until(
        "document.querySelectorAll('[data-row]').length === 45 && document.activeElement === document.body",
    );
    browser.until("!document.getElementById('help').hidden");
    key(browser, "j");
    key(browser, "j");
    key(browser, "k");
    browser.until("document.activeElement.classList.contains('go')");
    browser.press("Enter");
    browser.wait_for_load();
    browser.until("location.pathname.includes('/trials/') && document.querySelector('.talk') !== null");
    browser.until("document.getElementById('step-1') !== null");
    key(browser, "j");
    key(browser, "j");
    browser.until("location.hash === '#step-2'");
    // The address alone selects the step again.
    let step = browser.eval("location.href");
    browser.open("about:blank");
    browser.open(step.as_str().unwrap());
    browser.until("document.querySelector('.here')?.id === 'step-2'");
    key(browser, "u");
    browser.wait_for_load();
    assert_eq!(browser.eval("location.pathname.split('/').length"), 3);
}

fn live_updates(browser: &mut Browser) {
    let root = tempfile::tempdir().unwrap();
    let run = RecordedRun::example().write(root.path());
    let rest = unfinished(&run, 24);
    let lock = hold(&run);
    let server = serve(root.path());
    browser.set_viewport(1400, 1100, "light");
    browser.open(&server.url(Some(RUN)));
    browser.until("document.getElementById('state').textContent === 'live'");
    browser.until("/^[0-9]/.test(document.querySelector('#live .since').textContent)");
    screenshot(browser, "live-1400-light.png");
    let mut journal = fs::File::options().append(true).open(run.join("journal.jsonl")).unwrap();
    journal.write_all(rest[0].as_bytes()).unwrap();
    browser.until("document.getElementById('live').textContent.includes('12 of 45 trials')");
    journal.write_all(rest[1..].concat().as_bytes()).unwrap();
    browser.until("document.getElementById('live').textContent.includes('45 of 45 trials')");
    drop(lock);
    // The page reloads itself without the live part.
    browser.wait_for_load();
    browser.until("document.getElementById('live') === null && document.querySelector('.answer') !== null");
}

fn hostile(browser: &mut Browser) {
    let root = tempfile::tempdir().unwrap();
    let _ =
        RecordedRun { hostile: HOSTILE.to_owned(), repeats: 1, ..RecordedRun::example() }.write(root.path());
    let server = serve(root.path());
    browser.open(&server.url(None));
    for path in [
        "/".to_owned(),
        format!("/runs/{RUN}"),
        format!("/runs/{RUN}/trials/csv-export--opus--1"),
        format!("/trials?a={RUN}/csv-export--opus--1&b={RUN}/csv-export--sonnet--1"),
    ] {
        browser.open(&at(&server, &path));
        browser.eval("document.querySelectorAll('details').forEach(d => d.open = true)");
        assert_eq!(browser.eval("typeof window.hacked"), "undefined", "{path}");
        let injected = "document.images.length + document.querySelectorAll('[onfocus],[onerror]').length";
        assert_eq!(browser.eval(injected), 0, "{path}");
        assert_eq!(browser.eval("document.scripts.length"), 2, "{path}");
    }
}
