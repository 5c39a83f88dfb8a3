//! Headless Chromium, driven through the DevTools protocol over pipes, with its requests and errors. Does not
//! listen on a port.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Timeout of all operations.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Names of the Chromium executable.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    commands: File,
    responses: Receiver<Value>,
    session: String,
    next: u64,
    messages: Vec<Value>,
    process: Child,
    _home: TempDir,
}

impl Browser {
    /// Starts a browser with its own profile.
    ///
    /// # Panics
    /// Panics if Chromium is not installed or does not respond.
    #[must_use]
    pub fn start() -> Self {
        let home = TempDir::with_prefix("yb-browser-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        let pipe = |name: &str| {
            let path = home.path().join(name);
            // Portable without `unsafe`: every system has this command.
            let made = Command::new("mkfifo").arg(&path).status();
            assert!(made.is_ok_and(|status| status.success()), "mkfifo {}", path.display());
            // Opened for reading and writing, so that opening does not block.
            let file = OpenOptions::new().read(true).write(true).open(&path);
            (path, file.unwrap_or_else(|error| panic!("fifo: {error}")))
        };
        let ((commands_path, commands), (responses_path, responses)) = (pipe("commands"), pipe("responses"));
        let process = spawn(home.path(), &commands_path, &responses_path);
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut responses = BufReader::new(responses);
            loop {
                let mut message = Vec::new();
                match responses.read_until(0, &mut message) {
                    Ok(read) if read > 0 => {}
                    _ => return,
                }
                message.pop();
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            commands,
            responses: receive,
            session: String::new(),
            next: 0,
            messages: Vec::new(),
            process,
            _home: home,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let session =
            browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = session["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a DevTools method and returns its result.
    ///
    /// # Panics
    /// Panics if the call fails or times out.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let sent = self.commands.write_all(format!("{command}\0").as_bytes());
        sent.unwrap_or_else(|error| panic!("{method}: {error}"));
        let end = Instant::now() + TIMEOUT;
        loop {
            let message = self.receive(end, method);
            if message["id"] == json!(self.next) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.messages.push(message);
        }
    }

    #[track_caller]
    fn receive(&self, end: Instant, what: &str) -> Value {
        let left = end.saturating_duration_since(Instant::now());
        self.responses
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("{what}: no response from the browser: {error}"))
    }

    /// Navigates to a page and waits until it is loaded.
    #[track_caller]
    pub fn open(&mut self, url: &str) {
        self.messages.retain(|message| message["method"] != "Page.loadEventFired");
        let response = self.call("Page.navigate", &json!({"url": url}));
        assert!(response["errorText"].is_null(), "{url}: {response}");
        if response["loaderId"].is_null() {
            return;
        }
        self.wait_for_load();
    }

    /// Waits until a page is loaded, after a click on a link.
    #[track_caller]
    pub fn wait_for_load(&mut self) {
        let end = Instant::now() + TIMEOUT;
        while !self.messages.iter().any(|message| message["method"] == "Page.loadEventFired") {
            let message = self.receive(end, "load");
            self.messages.push(message);
        }
        self.messages.retain(|message| message["method"] != "Page.loadEventFired");
    }

    /// Evaluates an expression.
    ///
    /// # Panics
    /// Panics if it throws.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let response = self.call(
            "Runtime.evaluate",
            &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(response["exceptionDetails"].is_null(), "{expression}: {}", response["exceptionDetails"]);
        response["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// Panics on timeout.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let end = Instant::now() + TIMEOUT;
        while self.eval(expression) != true {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Clicks on an element with the mouse.
    ///
    /// # Panics
    /// Panics if it does not exist or is covered by another element.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let quoted = json!(selector);
        let place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({quoted}); if (!e) return null; e.scrollIntoView({{block: 'center'}}); \
             const r = e.getClientRects()[0]; const x = r.x + r.width / 2, y = r.y + r.height / 2; \
             const hit = document.elementFromPoint(x, y); return {{x, y, hit: !!hit && (e.contains(hit) || hit.contains(e))}}; }})()"
        ));
        assert_eq!(place["hit"], true, "element is missing or covered: `{selector}`: {place}");
        for kind in ["mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                &json!({"type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}),
            );
        }
    }

    /// Presses a key, e.g. `Tab` or `Enter`.
    #[track_caller]
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => (32, " "),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                &json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}),
            );
        }
    }

    /// Sets the window size and the preferred color scheme.
    #[track_caller]
    pub fn set_viewport(&mut self, width: u32, height: u32, theme: &str) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": theme}]}),
        );
    }

    /// Takes a screenshot of the window, as PNG.
    #[must_use]
    #[track_caller]
    pub fn screenshot(&mut self) -> Vec<u8> {
        let response = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        base64(response["data"].as_str().unwrap_or_default())
    }

    /// Returns the URLs of all requests.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let asked = self.messages.iter().filter(|message| message["method"] == "Network.requestWillBeSent");
        asked
            .map(|message| message["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Returns console errors and warnings, exceptions and dialogs.
    #[must_use]
    pub fn console_errors(&self) -> Vec<Value> {
        let bad = |message: &&Value| match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => {
                matches!(message["params"]["entry"]["level"].as_str(), Some("error" | "warning"))
            }
            Some("Runtime.consoleAPICalled") => {
                matches!(message["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            Some("Page.javascriptDialogOpening") => true,
            _ => false,
        };
        self.messages.iter().filter(bad).cloned().collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ask it to close first, so that its children exit; then kill the rest.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

fn spawn(home: &Path, commands: &Path, responses: &Path) -> Child {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| PROGRAMS.iter().any(|name| folder.join(name).is_file()))
    });
    assert!(
        found,
        "Chromium not found on PATH; hint: run `apt-get install chromium`, or `scripts/test` as root"
    );
    // The shell opens the pipes as descriptors 3 and 4, as Chromium expects.
    let script = "for name in chromium chromium-browser google-chrome chrome; do command -v \"$name\" >/dev/null && break; done\n\
                  exec \"$name\" \"$@\" 3<\"$COMMANDS\" 4>\"$RESPONSES\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", "--headless=new", "--remote-debugging-pipe", "--no-first-run"]);
    // Chromium's sandbox does not work as root; the pages are our own.
    command.args([
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--disable-breakpad",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
    ]);
    command.arg(format!("--user-data-dir={}", home.join("profile").display()));
    command.env("COMMANDS", commands).env("RESPONSES", responses).env("HOME", home).env("TMPDIR", home);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().unwrap_or_else(|error| panic!("sh: {error}"))
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        (bits, held) = (bits << 6 | u32::from(six), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}
