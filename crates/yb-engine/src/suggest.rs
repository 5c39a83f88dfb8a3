//! Suggests a case from the output of an agent: another agent writes it, with one retry if it is invalid.
//!
//! The agent works on a copy. Its answer is validated like any case and never run.

mod prompt;

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::trial::{Runner, TrialError, agent_host};
use prompt::OutputFacts;
use yb_agents::{AgentConfig, AvailabilityStatus, CommandConfig, ExecutionContext, ExecutionResult};
use yb_model::log::ExecutionStatus;
use yb_model::outcome::Outcome;
use yb_repo::{Cache, Git, History, Refresh, RepoError, Revision, Source, WorkspaceOptions};
use yb_yaml::diagnostic::Diagnostic;

/// The file that the agent is asked to write.
const FILE: &str = "testcase-suggestion.yaml";
const SCHEMA_FILE: &str = "case.schema.json";
/// The maximum size of a case in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A request for a case.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SuggestRequest {
    /// The agent that writes the case.
    pub agent: String,
    /// The command, for the agent `command`.
    pub command: Option<CommandConfig>,
    /// The output of the agent whose task becomes the case.
    pub output_dir: PathBuf,
    /// Replaces the built-in instructions; front matter between `---` lines is ignored.
    pub instructions: Option<String>,
    /// The path of the new case, to which its relative paths refer.
    pub save: PathBuf,
}

impl SuggestRequest {
    /// Returns a request with the built-in instructions.
    pub fn new(agent: impl Into<String>, output_dir: impl Into<PathBuf>, save: impl Into<PathBuf>) -> Self {
        Self {
            agent: agent.into(),
            command: None,
            output_dir: output_dir.into(),
            instructions: None,
            save: save.into(),
        }
    }
}

/// A suggested case, or the reason why there is none.
#[derive(Debug)]
#[non_exhaustive]
pub struct Suggestion {
    /// The case's text, if it is valid.
    pub case: Option<String>,
    /// Errors and warnings of the last answer.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of times the agent ran.
    pub rounds: usize,
    /// Outcome and reason, if the agent itself failed.
    pub failed: Option<(Outcome, String)>,
    /// The directory with the raw answers and the agent's logs.
    pub kept: PathBuf,
}

impl Runner {
    /// Runs an agent that suggests a case. Calls `report` with progress messages.
    ///
    /// # Errors
    /// Returns an error when the agent can't be run.
    pub async fn suggest(
        &self,
        request: &SuggestRequest,
        report: &mut (dyn FnMut(String) + Send),
    ) -> Result<Suggestion, TrialError> {
        let known = self.adapter(&request.agent)?;
        let mut config = AgentConfig {
            model: self.settings.model().map(str::to_owned),
            tools: known.spec().edit_tools(),
            permission_mode: Some("acceptEdits".to_owned()),
            section: request.command.as_ref().map(CommandConfig::to_section).unwrap_or_default(),
            ..AgentConfig::default()
        };
        let mut host = agent_host(known.spec(), &self.env);
        host.shim.clone_from(&self.shim);
        let available = known.check_availability(&config, &host).await;
        if available.status != AvailabilityStatus::Ready {
            return Err(TrialError::unavailable(available));
        }
        let dirs = SuggestDirs::create(&self.settings.workspace_dir())?;
        let facts = self.copy_output(request, &dirs).await?;
        let first = prompt::first(request.instructions.as_deref(), &facts, &self.extensions.evaluators);
        let options = self.extensions.load_options().with_variables(self.settings.variables());

        let mut question = first.clone();
        let mut suggestion = Suggestion {
            case: None,
            diagnostics: Vec::new(),
            rounds: 0,
            failed: None,
            kept: dirs.kept.clone(),
        };
        for round in 1..=2 {
            report(format!("{} is working", request.agent));
            suggestion.rounds = round;
            let artifacts = dirs.kept.join(format!("round-{round}"));
            make(&artifacts)?;
            config.prompt = Some(question);
            let private = dirs.private.join(format!("round-{round}"));
            make(&private)?;
            let mut context =
                ExecutionContext::new(&dirs.work, &artifacts, &private, config.clone(), host.clone());
            context.timeout = self.settings.timeouts().agent;
            context.cancellation = self.stop.token().clone();
            let result = known.execute(&context).await?;
            let answer = answer(&dirs.work.join(FILE), &result);
            if let Some(text) = &answer {
                write(&artifacts.join("answer.yaml"), text.as_bytes())?;
            }
            if result.status != ExecutionStatus::Success {
                let why = result.errors.first().map(|error| error.message.clone());
                let outcome = result.outcome.unwrap_or(Outcome::AgentError);
                suggestion.failed = Some((outcome, why.unwrap_or_else(|| "the agent failed".to_owned())));
                break;
            }
            let Some(text) = answer else {
                suggestion.diagnostics.clear();
                question = prompt::second(&first, None, &[]);
                report("no case in the answer".to_owned());
                continue;
            };
            let loaded = yb_case::parse(&request.save, text.as_bytes(), &options);
            suggestion.diagnostics = loaded.diagnostics;
            if loaded.case.is_some() {
                suggestion.case = Some(text);
                break;
            }
            question = prompt::second(&first, Some(&text), &suggestion.diagnostics);
            report("the case is invalid".to_owned());
            let _ = fs::remove_file(dirs.work.join(FILE));
        }
        Ok(suggestion)
    }

    /// Copies the output and its last commit for the agent, without using the configuration of the repository.
    async fn copy_output(
        &self,
        request: &SuggestRequest,
        dirs: &SuggestDirs,
    ) -> Result<OutputFacts, TrialError> {
        let root = self.settings.workspace_dir().join("cache");
        let mut git = Git::new(root.join("git-home"))?
            .deadline(self.settings.timeouts().clone)
            .cancel_on(self.stop.token().clone());
        if let Some(shim) = &self.shim {
            git = git.shim(shim);
        }
        git.check().await.map_err(RepoError::from)?;
        let cache = Cache::new(&root, &git)?;
        let directory = request.output_dir.canonicalize().map_err(TrialError::io(&request.output_dir))?;
        let options = WorkspaceOptions::default();

        let output = Source::Directory(directory.clone());
        let output = cache.resolve(&output, &Revision::Default, Refresh::Moving).await?;
        cache
            .pruned_repo(&output, History::Full)
            .await?
            .workspace(&git, dirs.work.join("output"), &options)
            .await?;
        let mut commit = None;
        // A repository without a commit has no base to compare with.
        if directory.join(".git").exists()
            && let Ok(head) =
                cache.resolve(&Source::Local(directory.clone()), &Revision::Default, Refresh::Moving).await
        {
            let committed = dirs.work.join("committed");
            cache.pruned_repo(&head, History::Full).await?.workspace(&git, committed, &options).await?;
            commit = Some(head.commit);
        }
        let schema = yb_case::schema(&self.extensions.adapters.specs(), &self.extensions.evaluators);
        write(&dirs.work.join(SCHEMA_FILE), schema.as_bytes())?;
        let beside =
            request.save.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = beside.canonicalize().ok();
        let named = beside.and_then(|dir| directory.strip_prefix(dir).ok().map(Path::to_owned));
        let named = named.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory);
        Ok(OutputFacts { directory: serde_json::Value::from(named.to_string_lossy()).to_string(), commit })
    }
}

/// Returns the file that the agent wrote, or the last fenced block of its final message.
fn answer(file: &Path, result: &ExecutionResult) -> Option<String> {
    let written = fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    if written && let Ok(bytes) = fs::read(file) {
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let spoken = result.transcript.as_ref().filter(|transcript| transcript.spoke());
    prompt::fenced(spoken.map_or(result.output.as_str(), |transcript| transcript.summary().final_text()))
}

/// The directories of a suggestion.
struct SuggestDirs {
    work: PathBuf,
    private: PathBuf,
    kept: PathBuf,
}

impl SuggestDirs {
    fn create(root: &Path) -> Result<Self, TrialError> {
        let root = std::path::absolute(root).map_err(TrialError::io(root))?;
        let now = Timestamp::now();
        let name = format!("suggest-{}-{}", now.strftime("%Y-%m-%d"), now.as_millisecond());
        let kept = root.join("suggestions").join(name);
        let dirs = Self { work: kept.join("work"), private: kept.join("private"), kept };
        for directory in [&dirs.work, &dirs.private] {
            make(directory)?;
        }
        // The output directory may contain this one: ignored files are not copied.
        let ignore = root.join(".gitignore");
        if !ignore.exists() {
            write(&ignore, b"*\n")?;
        }
        Ok(dirs)
    }
}

/// Removes the copies and the agent's private files. Answers and logs are kept.
impl Drop for SuggestDirs {
    fn drop(&mut self) {
        for directory in [&self.work, &self.private] {
            let _ = yb_repo::remove_or_set_aside(directory);
        }
    }
}

fn make(directory: &Path) -> Result<(), TrialError> {
    fs::create_dir_all(directory).map_err(TrialError::io(directory))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TrialError> {
    fs::write(path, bytes).map_err(TrialError::io(path))
}
