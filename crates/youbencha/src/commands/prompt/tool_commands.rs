//! Tools of a prompt that are commands of its file: arguments on stdin as JSON, the result on stdout.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use yb_prompt::{Prompt, PromptTool, ToolRegistry};
use yb_supervise::{CapturedOutput, Command, End, Stdin};

const DEADLINE: Duration = Duration::from_secs(120);

/// Registers the commands of a prompt. They run in the directory of its file.
pub(super) fn registry(prompt: &Prompt, directory: Option<&Path>) -> ToolRegistry {
    let directory = directory.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut registry = ToolRegistry::new();
    for tool in prompt.tools() {
        if let PromptTool::Function { name, command, .. } = tool
            && !command.is_empty()
        {
            let (argv, directory) = (command.clone(), directory.to_owned());
            registry = registry
                .register(name, move |arguments: Value| call(argv.clone(), directory.clone(), arguments));
        }
    }
    registry
}

/// Runs a command without a shell, with the environment of `yb`, and returns its output.
async fn call(argv: Vec<String>, directory: PathBuf, arguments: Value) -> Result<String, String> {
    let Some((program, args)) = argv.split_first() else { return Err("empty command".to_owned()) };
    let input = Stdin::Bytes(arguments.to_string().into_bytes().into());
    let command = Command::new(program).args(args).current_dir(directory).inherit_env().stdin(input);
    let report = command.deadline(DEADLINE).run().await;
    let output = report.output.captured();
    match report.end {
        End::Exited { code: 0 } => {
            let stdout = output.map(CapturedOutput::stdout).unwrap_or_default();
            Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned())
        }
        end => {
            let all = output.map(|output| output.text().text.into_owned()).unwrap_or_default();
            Err(format!("{all}{end}"))
        }
    }
}
