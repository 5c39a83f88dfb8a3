//! A case suggested by an agent, out of what another agent left: asked once, and once more if the answer is not valid.
//!
//! The agent works on a copy, and its answer is only text to us: it is checked like any case and never run here.

mod prompt;

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::trial::{Runner, TrialError, agent_host};
use prompt::Facts;
use yb_agents::{AgentConfig, AvailabilityStatus, CommandConfig, ExecutionContext, ExecutionResult};
use yb_case::LoadOptions;
use yb_model::log::ExecutionStatus;
use yb_model::outcome::Outcome;
use yb_repo::{Cache, Git, History, Refresh, RepoError, Revision, Source, WorkspaceOptions};
use yb_yaml::diagnostic::Diagnostic;

/// The file that the agent is asked to write.
const FILE: &str = "testcase-suggestion.yaml";
const SCHEMA_FILE: &str = "case.schema.json";
/// A larger answer is no case.
const MAX_BYTES: u64 = 1024 * 1024;

/// What is asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// Which agent is asked.
    pub agent: String,
    /// The program, for the agent `command`.
    pub command: Option<CommandConfig>,
    /// What an agent left.
    pub output_dir: PathBuf,
    /// Instructions instead of the usual ones; a head between `---` lines is left out.
    pub instructions: Option<String>,
    /// Where the case will be; its relative paths start there.
    pub save: PathBuf,
}

impl Request {
    /// A request with the usual instructions.
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

/// What came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Suggestion {
    /// The case's text, if it is valid.
    pub case: Option<String>,
    /// What is wrong or doubtful in the last answer.
    pub diagnostics: Vec<Diagnostic>,
    /// How often the agent was asked.
    pub rounds: usize,
    /// Set when the agent itself failed: what it came to, and why.
    pub failed: Option<(Outcome, String)>,
    /// The directory with the raw answers and the agent's logs.
    pub kept: PathBuf,
}

impl Runner {
    /// Asks an agent for a case. `tell` hears what happens.
    ///
    /// # Errors
    /// When the agent could not be asked.
    pub async fn suggest(
        &self,
        request: &Request,
        tell: &mut (dyn FnMut(String) + Send),
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
            return Err(TrialError::Unavailable { message: available.message, hints: available.hints });
        }
        let desk = Desk::create(&self.settings.workspace_dir())?;
        let facts = self.lay_out(request, &desk).await?;
        let first = prompt::first(request.instructions.as_deref(), &facts, &self.extensions.evaluators);
        let options = self.extensions.load_options().with_variables(self.settings.variables());

        let mut question = first.clone();
        let mut suggestion = Suggestion {
            case: None,
            diagnostics: Vec::new(),
            rounds: 0,
            failed: None,
            kept: desk.kept.clone(),
        };
        for round in 1..=2 {
            tell(format!("{} is working", request.agent));
            suggestion.rounds = round;
            let artifacts = desk.kept.join(format!("round-{round}"));
            make(&artifacts)?;
            config.prompt = Some(question);
            let private = desk.private.join(format!("round-{round}"));
            make(&private)?;
            let mut context =
                ExecutionContext::new(&desk.work, &artifacts, &private, config.clone(), host.clone());
            context.timeout = self.settings.timeouts().agent;
            context.cancellation = self.stop.token().clone();
            let result = known.execute(&context).await?;
            let answer = answer(&desk.work.join(FILE), &result);
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
                question = prompt::again(&first, None, &[]);
                tell("no case in the answer".to_owned());
                continue;
            };
            let loaded = yb_case::parse(&request.save, text.as_bytes(), &options);
            suggestion.diagnostics = loaded.diagnostics;
            if loaded.case.is_some() {
                suggestion.case = Some(text);
                break;
            }
            question = prompt::again(&first, Some(&text), &suggestion.diagnostics);
            tell("the case is not valid".to_owned());
            let _ = fs::remove_file(desk.work.join(FILE));
        }
        Ok(suggestion)
    }

    /// Puts copies of the work and of its last commit before the agent; nothing of a repository's own `.git` is used.
    async fn lay_out(&self, request: &Request, desk: &Desk) -> Result<Facts, TrialError> {
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
            .workspace(&git, desk.work.join("output"), &options)
            .await?;
        let mut commit = None;
        // A repository without a commit has nothing to compare with.
        if directory.join(".git").exists()
            && let Ok(head) =
                cache.resolve(&Source::Local(directory.clone()), &Revision::Default, Refresh::Moving).await
        {
            let committed = desk.work.join("committed");
            cache.pruned_repo(&head, History::Full).await?.workspace(&git, committed, &options).await?;
            commit = Some(head.commit);
        }
        let schema = yb_case::schema(&self.extensions.adapters.specs(), &self.extensions.evaluators);
        write(&desk.work.join(SCHEMA_FILE), schema.as_bytes())?;
        let beside =
            request.save.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = beside.canonicalize().ok();
        let named = beside.and_then(|dir| directory.strip_prefix(dir).ok().map(Path::to_owned));
        let named = named.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory);
        Ok(Facts { directory: serde_json::Value::from(named.to_string_lossy()).to_string(), commit })
    }
}

/// The file that the agent wrote, or the block at the end of its last words.
fn answer(file: &Path, result: &ExecutionResult) -> Option<String> {
    let written = fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    if written && let Ok(bytes) = fs::read(file) {
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let spoken = result.transcript.as_ref().filter(|transcript| transcript.spoke());
    prompt::fenced(spoken.map_or(result.output.as_str(), |transcript| transcript.summary().final_text()))
}

/// Where the agent works, and what is kept of it.
struct Desk {
    work: PathBuf,
    private: PathBuf,
    kept: PathBuf,
}

impl Desk {
    fn create(root: &Path) -> Result<Self, TrialError> {
        let root = std::path::absolute(root).map_err(TrialError::io(root))?;
        let now = Timestamp::now();
        let name = format!("suggest-{}-{}", now.strftime("%Y-%m-%d"), now.as_millisecond());
        let kept = root.join("suggestions").join(name);
        let desk = Self { work: kept.join("work"), private: kept.join("private"), kept };
        for directory in [&desk.work, &desk.private] {
            make(directory)?;
        }
        // A directory that is looked at may contain this one; what is ignored is not copied.
        let ignore = root.join(".gitignore");
        if !ignore.exists() {
            write(&ignore, b"*\n")?;
        }
        Ok(desk)
    }
}

/// The copies and the agent's private files go, however it ended; answers and logs stay.
impl Drop for Desk {
    fn drop(&mut self) {
        for directory in [&self.work, &self.private] {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn make(directory: &Path) -> Result<(), TrialError> {
    fs::create_dir_all(directory).map_err(TrialError::io(directory))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TrialError> {
    fs::write(path, bytes).map_err(TrialError::io(path))
}
