//! `yb run` on a terminal: the live display and its removal.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use yb_testkit::TestContext;

use crate::YB;
use crate::small_suite::world;

/// The timeout of waiting for the screen.
const PATIENCE: Duration = Duration::from_secs(60);

/// `yb` on a pseudo-terminal with an emulated screen.
pub(crate) struct Terminal {
    child: Child,
    master: OwnedFd,
    /// The raw output and the screen.
    seen: Arc<Mutex<(Vec<u8>, vt100::Parser)>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    /// Like `script -c`, but with a known size and signals for `yb` only.
    pub(crate) fn start(context: &TestContext, args: &[&str], env: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(&name).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        // `setsid --ctty` makes it the controlling terminal, which Ctrl-C needs.
        let mut command = Command::new("setsid");
        command.args(["--ctty", YB]).args(args).current_dir(context.dir()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", context.home());
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").envs(env.iter().copied());
        let out = |file: &File| Stdio::from(file.try_clone().unwrap());
        let child = command.stdin(out(&slave)).stdout(out(&slave)).stderr(out(&slave)).spawn().unwrap();
        drop(slave);
        let seen = Arc::new(Mutex::new((Vec::new(), vt100::Parser::new(24, 100, 1000))));
        let (mut pty, sink) = (File::from(master.try_clone().unwrap()), seen.clone());
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The end of a pseudo-terminal is reported as an error.
            while let Ok(count @ 1..) = pty.read(&mut chunk) {
                let (bytes, screen) = &mut *sink.lock().unwrap();
                bytes.extend_from_slice(&chunk[..count]);
                screen.process(&chunk[..count]);
            }
        });
        Self { child, master, seen, reader: Some(reader) }
    }

    fn screen(&self) -> String {
        self.seen.lock().unwrap().1.screen().contents()
    }

    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().0).into_owned()
    }

    /// Returns color and weight of the first character of a text on the screen.
    fn look_of(&self, text: &str) -> (vt100::Color, bool) {
        let screen = self.seen.lock().unwrap().1.screen().clone();
        let rows: Vec<String> = screen.rows(0, 200).collect();
        let row = rows.iter().position(|row| row.contains(text)).unwrap_or_else(|| panic!("{rows:#?}"));
        let column = rows[row].split(text).next().unwrap().chars().count();
        let cell = screen.cell(u16::try_from(row).unwrap(), u16::try_from(column).unwrap()).unwrap();
        (cell.fgcolor(), cell.bold())
    }

    #[track_caller]
    fn until(&self, what: &str, found: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !found(&self.screen()) {
            assert!(Instant::now() < end, "never {what}:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        self.seen.lock().unwrap().1.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.master, size).unwrap();
    }

    fn press(&self, key: u8) {
        File::from(self.master.try_clone().unwrap()).write_all(&[key]).unwrap();
    }

    /// `setsid` executes `yb` in the same process.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end and checks that the cursor is visible and at the start of a line.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => {
                    let _ = self.child.kill();
                    panic!("it hangs:\n{}", self.screen());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.reader.take().unwrap().join().unwrap();
        let (bytes, parser) = &*self.seen.lock().unwrap();
        let screen = parser.screen();
        assert_eq!(screen.cursor_position().1, 0, "{}", screen.contents());
        assert!(!screen.hide_cursor() && !screen.alternate_screen());
        assert_eq!((screen.fgcolor(), screen.bold()), (vt100::Color::Default, false));
        assert!(!String::from_utf8_lossy(bytes).contains("\u{1b}[?"), "no mode of the terminal is changed");
        (status.code(), screen.contents())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds a suite of trials that wait for a file.
fn slow(repeats: u32) -> String {
    format!(
        r#"
youbencha: 1
name: nightly
cases:
  - name: greeting
    description: The script greets by name.
    repo: repo
    isolation: none
    agent: {{ type: command, config: {{ prompt: Greet by name., command: {{ argv: [sh, -c, "touch ../../../../../../../up; while ! test -e ../../../../../../../go; do sleep 0.05; done"] }} }} }}
    evaluators: [{{ name: git-diff, config: {{ assertions: {{ max_files_changed: 2 }} }} }}]
repeats: {repeats}
"#
    )
}

#[test]
fn running_trials_are_shown_and_removed_at_the_end() {
    let context = world();
    context.write("suite.yaml", slow(2));
    let mut terminal =
        Terminal::start(&context, &["run", "-c", "suite.yaml", "--jobs", "2", "--no-check"], &[]);
    terminal.until("both", |screen| {
        screen.contains("greeting #1  command  0:0") && screen.contains("greeting #2  command  0:0")
    });
    terminal.until("a bar", |screen| screen.contains("0/2"));
    let modes = tcgetattr(terminal.master.as_fd()).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
    // Resizing works, and the clock advances without events.
    terminal.resize(24, 120);
    terminal.until("time", |screen| screen.contains("0:01/5:00"));
    context.write("go", "");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    let mut left: Vec<&str> = screen.lines().map(str::trim_end).collect();
    left.retain(|line| !line.starts_with("run run-"));
    let shown = context.filtered(&left.join("\n"));
    let (first, rest) = shown.split_at(shown.find("case ").unwrap());
    assert_eq!(first.lines().count(), 2, "{shown}");
    assert!(first.contains("[1/2] greeting #") && first.contains("[2/2] greeting #"), "{shown}");
    insta::assert_snapshot!(rest, @r"
    case      passed  median time
    greeting  2/2     [TIME]
    2 of 2 trials: 2 passed in [TIME]; isolation: none
    hint: inspect the run: yb show latest
    hint: write an HTML report: yb report --format html
    ");
}

/// A case that fails at once beside one that waits for a file.
fn one_fails() -> String {
    let failing = r#"
  - name: bad
    description: Fails.
    repo: repo
    isolation: none
    agent: { type: command, config: { prompt: Nothing., command: { argv: ["true"] } } }
    evaluators: [{ name: command, config: { shell: "echo this is why; exit 3" } }]
"#;
    slow(1).replace("cases:\n", &format!("cases:{failing}"))
}

#[test]
fn failure_stands_out_as_it_happens_and_at_the_end() {
    let context = world();
    context.write("suite.yaml", one_fails());
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml", "--jobs", "2"], &[]);
    let why = "bad: failed in ";
    terminal.until("the failure and the bar", |screen| {
        screen.contains(why) && screen.contains("    │ this is why") && screen.contains(" 1/2  1 failed  ")
    });
    let red = (vt100::Color::Idx(1), true);
    assert_eq!((terminal.look_of("failed in "), terminal.look_of("1 failed  ")), (red, red));
    let bar = terminal.screen().lines().last().unwrap().to_owned();
    assert!(bar.contains(" elapsed"), "{bar}");
    assert_eq!(bar.chars().count(), 99, "the bar fills the line: {bar:?}");
    assert!(bar.starts_with('━'), "{bar:?}");
    context.write("go", "");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(1), "{screen}");
    let (_, end) = screen.split_once("case ").unwrap_or_else(|| panic!("{screen}"));
    let reason = "✗ bad: failed: command: exited with code 3 | expected exit code 0";
    assert!(end.contains(reason) && end.contains("    │ this is why"), "{screen}");
    assert_eq!(terminal.look_of("failed: command"), red);
}

#[test]
fn small_terminal_counts_hidden_trials() {
    let context = world();
    context.write("suite.yaml", slow(6));
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml", "--jobs", "6"], &[]);
    terminal.until("all", |screen| screen.contains("greeting #6  command"));
    terminal.resize(5, 100);
    terminal.until("few", |screen| screen.contains("and 4 more"));
    terminal.resize(24, 100);
    context.write("go", "");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("more") && screen.contains("6 of 6 trials: 6 passed"), "{screen}");
}

#[test]
fn ctrl_c_drains_then_kills_and_leaves_a_clean_terminal() {
    let context = world();
    context.write("suite.yaml", slow(2));
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml", "--jobs", "1"], &[]);
    terminal.until("up", |screen| screen.contains("command  0:0"));
    terminal.press(3);
    terminal
        .until("the word, and what runs", |screen| screen.contains("Ctrl-C again") && screen.contains("0/2"));
    terminal.press(3);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("2 trials pending") && !screen.contains("0/2 "), "{screen}");
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn sigterm_leaves_a_clean_terminal() {
    let context = world();
    context.write("suite.yaml", slow(1));
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml"], &[]);
    terminal.until("up", |screen| screen.contains("command  0:0"));
    terminal.signal(Signal::TERM);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!screen.contains('━') && !screen.contains('─'), "{screen}");
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn ctrl_z_releases_the_terminal_until_resume() {
    let context = world();
    context.write("suite.yaml", slow(1));
    let began = Instant::now();
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml"], &[]);
    terminal.until("up", |screen| screen.contains("command  0:0"));
    terminal.press(26);
    terminal.until("gone", |screen| !screen.contains("command  0:0") && !screen.contains("0/1"));
    let suspended = Duration::from_secs(4);
    std::thread::sleep(suspended);
    terminal.signal(Signal::CONT);
    terminal.until("back", |screen| screen.contains("command  0:0") && screen.contains("0/1"));
    let (screen, most) = (terminal.screen(), began.elapsed() - suspended);
    let shown = screen.split(" elapsed").next().unwrap().rsplit([' ', ':']).next().unwrap();
    assert!(shown.parse::<u64>().unwrap() <= most.as_secs(), "the suspension is shown: {screen}");
    context.write("go", "");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn no_color_disables_color_and_dumb_and_ci_disable_the_live_display() {
    let context = world();
    context.write("suite.yaml", slow(1));
    let args = ["run", "-c", "suite.yaml"];
    let mut terminal = Terminal::start(&context, &args, &[("NO_COLOR", "1")]);
    terminal.until("up", |screen| screen.contains("command  0:0"));
    context.write("go", "");
    terminal.end();
    let written = terminal.written();
    let mut codes =
        written.split("\u{1b}[").skip(1).map(|rest| rest.trim_start_matches(|c: char| !c.is_alphabetic()));
    assert!(codes.all(|code| code.starts_with(['A', 'J'])), "only the cursor moves: {written:?}");
    for variable in [("TERM", "dumb"), ("CI", "true")] {
        let mut terminal = Terminal::start(&context, &args, &[variable]);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("running agent `command`") && !screen.contains("0/1"), "{screen}");
        assert!(!terminal.written().contains("\u{1b}[J"), "{:?}", terminal.written());
    }
}
