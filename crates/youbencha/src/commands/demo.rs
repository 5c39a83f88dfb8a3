//! `yb demo`: the real Claude Code edits a tiny repository, offline, and the user watches each step.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use yb_claude::{Block, Message, Options, PermissionMode, Prompt, Target};
use yb_supervise::{Command, End, Launch, OutputMode, Report, StreamItem};
use yb_tape::{Script, Server, ServerOptions, Vars};

use crate::args::DemoArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

const SCRIPT: &str = include_str!("../../demo/model.yaml");
const PROMPT: &str = "Make `greet.sh NAME` greet by name, so that test.sh passes.";
const DEADLINE: Duration = Duration::from_secs(120);

/// The repository as the agent finds it: a program and a test that fails.
const FILES: [(&str, &str); 2] = [
    ("greet.sh", "echo \"Hello!\"\n"),
    ("test.sh", "test \"$(sh greet.sh Ada)\" = \"Hello, Ada!\" && echo pass || { echo FAIL; exit 1; }\n"),
];

pub(crate) fn run(args: &DemoArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start the demo"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        tokio::select! {
            code = demo(args, printer) => code,
            // Dropping the demo ends the agent, with everything that it started.
            () = signals.stop() => Ok(ExitCode::Interrupted),
        }
    })
}

async fn demo(args: &DemoArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let found = yb_claude::find(args.agents_dir.as_deref(), &|name| std::env::var_os(name))?;
    let directory = TempDir::with_prefix("yb-demo-").map_err(CliError::failed_to("make a directory"))?;
    let (repo, private) = (directory.path().join("repo"), directory.path().join("private"));

    printer.line("1. A repository with a failing test");
    make_repository(&repo).await?;
    printer.line(format_args!("   {}: {}", repo.display(), test(&repo).await));

    printer.line("\n2. A scripted model on this machine: no account, no network, no cost");
    let vars = Vars::new().with("workspace", repo.to_string_lossy());
    let server = Server::start(Script::parse(SCRIPT, &vars)?, &ServerOptions::default())?;
    printer.line(format_args!("   {}", server.base_url()));

    printer.line("\n3. The real agent, with its real tools, under supervision");
    printer.line(format_args!("   {}", found.path.display()));
    printer.line(format_args!("   > {PROMPT}"));
    yb_claude::hermetic::create_folders(&private).map_err(CliError::failed_to("make a directory"))?;
    let options = Options::default().with_permission_mode(PermissionMode::BypassPermissions).with_cwd(&repo);
    let invocation = options
        .invocation(&Prompt::text(PROMPT), &Target::new(private.join("files")))
        .map_err(|error| CliError::new(ErrorKind::Usage, "failed to prepare the agent").caused_by(error))?;
    let command = invocation
        .command(&found.path)
        .envs(yb_claude::hermetic::environment(&server.base_url(), &private))
        .output(OutputMode::stream())
        .launch(Launch::Contained)
        .deadline(DEADLINE);
    let report = watch(command, &repo, printer).await?;

    printer.line("\n4. What it left");
    let diff = git(&repo, &["diff", "--no-color"]).await?;
    for line in diff.lines().filter(|line| line.starts_with(['+', '-'])) {
        printer.line(format_args!("   {line}"));
    }
    let verdict = test(&repo).await;
    printer.line(format_args!("   test.sh: {verdict}"));
    printer.line(format_args!("   {}", describe(&report)));
    let requests = server.requests().iter().filter(|seen| seen.lane.is_some()).count();
    server.shutdown().await;
    let passed = report.success() && verdict == "pass";
    printer.line(format_args!(
        "\n{}: {requests} model calls, all answered by the script",
        if passed { "passed" } else { "failed" }
    ));
    if args.keep {
        let kept = directory.keep();
        printer.line(format_args!("kept: {}", kept.display()));
    }
    Ok(if passed { ExitCode::Passed } else { ExitCode::Failed })
}

async fn make_repository(repo: &Path) -> Result<(), CliError> {
    std::fs::create_dir(repo).map_err(CliError::failed_to("make a directory"))?;
    for (name, content) in FILES {
        std::fs::write(repo.join(name), content).map_err(CliError::failed_to("write a file"))?;
    }
    git(repo, &["init", "--quiet", "--initial-branch=main"]).await?;
    git(repo, &["add", "."]).await?;
    git(repo, &["commit", "--quiet", "--message=a failing test"]).await?;
    Ok(())
}

/// Runs git with nothing of the user's configuration, and gives what it printed.
async fn git(repo: &Path, args: &[&str]) -> Result<String, CliError> {
    let mut command =
        Command::new("git").args(args).current_dir(repo).launch(Launch::Contained).deadline(DEADLINE);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "yb demo"),
        ("GIT_AUTHOR_EMAIL", "demo@localhost"),
        ("GIT_COMMITTER_NAME", "yb demo"),
        ("GIT_COMMITTER_EMAIL", "demo@localhost"),
    ] {
        command = command.env(name, value);
    }
    let report = command.run().await;
    let output =
        report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
    match report.end {
        End::Exited { code: 0 } => Ok(output),
        End::SpawnFailed(error) => Err(error.into()),
        end => {
            Err(CliError::new(ErrorKind::Infrastructure, format!("git {} {end}", args[0])).caused_by(output))
        }
    }
}

/// What the repository's own test says.
async fn test(repo: &Path) -> String {
    let command =
        Command::new("sh").arg("test.sh").current_dir(repo).launch(Launch::Contained).deadline(DEADLINE);
    let report = command.run().await;
    let output = report.output.captured().map(|captured| captured.text().text.trim().to_owned());
    output.unwrap_or_else(|| report.end.to_string())
}

/// Shows what the agent does while it does it.
async fn watch(command: Command, repo: &Path, printer: &mut Printer) -> Result<Report, CliError> {
    let mut running = command.spawn().await?;
    let Some(mut lines) = running.lines() else { return Ok(running.wait().await) };
    while let Some(item) = lines.next().await {
        let StreamItem::Line(line) = item else { continue };
        let Ok(message) = Message::parse(&line) else { continue };
        let blocks = match &message {
            Message::Assistant(assistant) => assistant.message.content.as_slice(),
            Message::User(user) => user.message.content.blocks(),
            _ => &[],
        };
        for text in blocks.iter().filter_map(|block| step(block, repo)) {
            printer.line(format_args!("   {text}"));
        }
    }
    Ok(running.wait().await)
}

/// The line that one block of the conversation is worth.
fn step(block: &Block, repo: &Path) -> Option<String> {
    let short = |text: &str| text.replace(&format!("{}/", repo.display()), "");
    Some(match block {
        Block::Text(text) => format!("says   {}", short(&text.text)),
        Block::ToolUse(call) => {
            let input: Value = call.input.to_value().unwrap_or_default();
            let what = ["file_path", "command"].into_iter().find_map(|key| input[key].as_str());
            format!("tool   {} {}", call.name, short(what.unwrap_or_default()))
        }
        Block::ToolResult(result) if result.is_error => {
            format!("       failed: {}", short(result.content.text().lines().next().unwrap_or_default()))
        }
        _ => return None,
    })
}

/// One line about the process: how it ended, and that nothing is left of it.
fn describe(report: &Report) -> String {
    let means = report.containment.map(|containment| containment.means.to_string()).unwrap_or_default();
    let left = match report.unkillable.len() {
        0 => "nothing left running".to_owned(),
        count => format!("{count} processes could not be killed"),
    };
    let cpu = report.usage.user + report.usage.system;
    format!(
        "agent: {} after {:.1} s, {:.1} s of CPU, {left} ({means})",
        report.end,
        report.duration.as_secs_f64(),
        cpu.as_secs_f64()
    )
}
