//! Reports of a recorded run of 1,000 trials with conversations longer than a page shows.

use std::fs;
use std::time::Instant;

use yb_engine::run::RunDir;
use yb_report::{Report, Run};
use yb_testkit::RecordedRun;

use crate::Failure;
use crate::runs::World;
use crate::stats::{ms, row};

type Format = fn(&Report) -> String;

pub(crate) fn run() -> Result<(), Failure> {
    let root = tempfile::tempdir()?;
    let recorded = RecordedRun {
        cases: (1..=50).map(|at| format!("case-{at}")).collect(),
        variants: ["opus", "sonnet", "haiku", "other"].map(str::to_owned).to_vec(),
        repeats: 5,
        hostile: String::new(),
        extra_messages: 60,
    };
    let written = recorded.write(root.path());
    let read = || -> Result<Run, Failure> { Ok(yb_report::read_run(RunDir::at(&written))?) };

    let began = Instant::now();
    let report = Report::of(vec![read()?]);
    let folder = root.path().join("report");
    fs::create_dir_all(folder.join("trials"))?;
    let (mut pages, mut bytes) = (0, 0);
    for page in yb_report::html(&report).pages() {
        fs::write(folder.join(&page.path), &page.text)?;
        pages += 1;
        bytes += page.text.len();
    }
    let took = began.elapsed();
    let index = fs::metadata(folder.join("index.html"))?.len() as f64 / 1e6;
    let size = bytes as f64 / 1e6;
    row(
        &format!("html, {} trials, {pages} pages", recorded.trials()),
        &ms(took),
        Some(("at most 5 s", took.as_secs() < 5)),
    );
    row("all pages", &format!("{size:.1} MB"), Some(("below 100 MB", size < 100.0)));
    row("the first page", &format!("{index:.1} MB"), None);
    let formats: [(&str, Format); 5] = [
        ("markdown", yb_report::markdown),
        ("json", yb_report::json),
        ("junit", yb_report::junit),
        ("csv", yb_report::csv),
        ("github", yb_report::github),
    ];
    for (name, make) in formats {
        let began = Instant::now();
        let text = make(&Report::of(vec![read()?]));
        row(name, &ms(began.elapsed()), None);
        row(&format!("{name}, size"), &format!("{:.2} MB", text.len() as f64 / 1e6), None);
    }
    many_trials()
}

/// Memory and time of `yb` for runs of 1,000 and 10,000 trials.
fn many_trials() -> Result<(), Failure> {
    let commands: [(&str, &[&str]); 3] = [
        ("report", &["--format", "json", "--output", "report.json", "--from"]),
        ("report", &["--format", "html", "--output", "pages", "--from"]),
        ("show", &[]),
    ];
    let mut cpu = Vec::new();
    for trials in [1_000_usize, 10_000] {
        let world = World::new("true", 1)?;
        let recorded = RecordedRun {
            cases: (1..=trials / 20).map(|at| format!("case-{at}")).collect(),
            variants: ["opus", "sonnet", "haiku", "other"].map(str::to_owned).to_vec(),
            repeats: 5,
            hostile: String::new(),
            extra_messages: 2,
        };
        let run = recorded.write(&world.path().join(".youbencha-workspace"));
        let path = run.to_string_lossy().into_owned();
        for (name, args) in commands {
            let args: Vec<&str> = args.iter().copied().chain([path.as_str()]).collect();
            let used = world.start_command(name, &args)?.measured()?;
            let megabytes = used.peak_rss as f64 / 1e6;
            let kind = args.get(1).filter(|_| name == "report").copied().unwrap_or_default();
            let what = format!("{name} {kind}, {trials} trials");
            row(&what, &format!("{megabytes:.1} MB"), Some(("below 64 MB", megabytes < 64.0)));
            row(&format!("{what}, CPU"), &format!("{:.2} s", used.cpu.as_secs_f64()), None);
            cpu.push(used.cpu.as_secs_f64().max(0.01));
        }
    }
    for (at, (name, args)) in commands.iter().enumerate() {
        let exponent = (cpu[at + commands.len()] / cpu[at]).log10();
        let kind = args.get(1).copied().unwrap_or_default();
        row(
            &format!("{name} {kind}, exponent"),
            &format!("{exponent:.2}"),
            Some(("at most 1.1", exponent <= 1.1)),
        );
    }
    Ok(())
}
