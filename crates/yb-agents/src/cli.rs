//! The shared part of adapters for CLIs with events on stdout.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::Value;
use yb_claude::env_vars as vars;
use yb_supervise::{CapturedOutput, Command, Sandbox, Stdin};

use super::artifacts::Artifacts;
use super::definition::{self, DefinitionDirs};
use super::drive::{OutputFormat, drive};
use super::guard::{self, Model};
use super::normalize;
use super::reader::Reader;
use super::secrets::{secrets, secrets_of_json};
use super::view;
use super::{
    Adapter, AdapterError, AgentConfig, Availability, AvailabilityStatus, Environment, Executed,
    ExecutionContext, ExecutionResult, Host, Intent,
};
use yb_case::{AgentSpec, NpmProgram};
use yb_model::log::{StdinContent, YouBenchaLog};

/// The deadline of `--version` before an execution.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline of `--version` after an execution, whose end it delays.
pub(super) const LATE_VERSION_DEADLINE: Duration = Duration::from_secs(2);
/// Hosts that are never reached through a proxy.
const LOOPBACK: &str = "127.0.0.1,localhost,::1";

/// The part of an adapter that differs between CLIs.
pub(super) trait Cli: Send + Sync {
    fn agent_spec(&self) -> &'static AgentSpec;

    /// The native program behind an npm wrapper, in a `node_modules` folder.
    fn native(&self, _packages: &Path) -> Option<PathBuf> {
        None
    }

    /// Whether there are credentials; they are not tested.
    fn is_authenticated(&self, host: &Host) -> bool;

    /// The locations of its model API.
    fn model(&self, host: &Host) -> Vec<Model>;

    /// Builds the invocation. Nothing is written; the directories of `call` may not exist.
    fn invocation(&self, call: &Call<'_>) -> Result<Invocation, AdapterError>;

    /// Where definitions of named agents are, and the file in the private directory that makes this one known to the agent.
    fn definition_file(&self, _name: &str, _context: &ExecutionContext) -> Option<(DefinitionDirs, PathBuf)> {
        None
    }

    /// The reader of its output.
    fn reader(&self, call: &Call<'_>) -> Box<dyn Reader>;

    /// Adds to the sandbox what it needs beside its packages.
    fn show(&self, view: Sandbox, _context: &ExecutionContext) -> Sandbox {
        view
    }

    /// Prepares its private directory.
    fn prepare(&self, _context: &ExecutionContext) -> std::io::Result<()> {
        Ok(())
    }

    /// Keeps files from its private directory after the exit.
    fn keep(&self, _call: &Call<'_>) -> std::io::Result<()> {
        Ok(())
    }

    /// Variables for `--version`, beside the host's.
    fn version_environment(&self, _host: &Host) -> Environment {
        Environment::new()
    }
}

/// The input of an invocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) context: &'a ExecutionContext,
    pub(super) prompt: &'a str,
    /// The agent's folder among the artifacts.
    pub(super) folder: &'a Path,
}

impl Call<'_> {
    /// A path in the agent's private directory.
    pub(super) fn private(&self, name: &str) -> PathBuf {
        self.context.private_dir.join(name)
    }
}

/// The command line, environment and files of an execution.
#[derive(Debug, Clone, Default)]
pub(super) struct Invocation {
    pub(super) args: Vec<OsString>,
    /// Variables, which override the host's.
    pub(super) env: BTreeMap<&'static str, OsString>,
    /// Files in its private directory, with mode 0600.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Warnings about settings without effect.
    pub(super) warnings: Vec<String>,
    /// The permission mode, as in a case.
    pub(super) permission_mode: String,
}

impl Invocation {
    /// Adds an argument.
    pub(super) fn arg(&mut self, argument: impl Into<OsString>) -> &mut Self {
        self.args.push(argument.into());
        self
    }

    /// Adds `--flag=value`, so that no value becomes a flag.
    pub(super) fn flag(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.arg(argument)
    }

    /// Reports that a key of `agent.config` has no effect.
    pub(super) fn ignores(&mut self, key: &str, why: &str, config: &AgentConfig) -> Result<(), AdapterError> {
        let message = format!("`{key}` has no effect: {why}");
        if config.strict {
            return Err(AdapterError::config(
                message,
                format!("leave `{key}` out, or run without `--strict`"),
            ));
        }
        self.warnings.push(message);
        Ok(())
    }
}

/// The permission mode; by default everything is allowed, because there is no user to ask, or everything that
/// `allowed_tools` lists.
pub(super) fn permission_mode(config: &AgentConfig) -> &str {
    let default = if config.allowed_tools.is_some() { "dontAsk" } else { "bypassPermissions" };
    config.permission_mode.as_deref().unwrap_or(default)
}

/// The list of allowed tools, if it is also the list of tools that the agent has: without `tools` and `permission_mode`.
pub(super) fn allowlist(config: &AgentConfig) -> Option<&[String]> {
    let is_alone = config.tools.is_none() && config.permission_mode.is_none();
    config.allowed_tools.as_deref().filter(|_| is_alone)
}

#[async_trait]
impl<T: Cli> Adapter for T {
    fn spec(&self) -> &'static AgentSpec {
        self.agent_spec()
    }

    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError> {
        let spec = self.agent_spec();
        let context = intent.nowhere();
        let prompt = super::prompt::early(intent)?.unwrap_or_else(|| "x".to_owned());
        let call = Call { context: &context, prompt: &prompt, folder: Path::new("/artifacts") };
        let mut invocation = self.invocation(&call)?;
        reject_cost_limit(&mut invocation, spec, &context.config)?;
        guard::exits(&context.network, &context.host, &self.model(&context.host)).map(drop)
    }

    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability {
        let spec = self.agent_spec();
        let program = match program(self, config, host) {
            Ok(program) => program,
            Err(error) => {
                let (message, hints) = (error.to_string(), error.hints());
                return Availability { status: AvailabilityStatus::Missing, version: None, message, hints };
            }
        };
        let shown = program.display();
        let version = query_version(&program, self.version_environment(host), host, VERSION_DEADLINE).await;
        let (status, version, message, hints) = match version {
            Err(reason) => (
                AvailabilityStatus::Missing,
                None,
                format!("{} does not run ({reason}): `{shown}`", spec.label),
                vec![install_hint(spec)],
            ),
            Ok(version) if self.is_authenticated(host) => {
                let message = format!("{} {version} is ready: `{shown}`", spec.label);
                (AvailabilityStatus::Ready, Some(version), message, Vec::new())
            }
            Ok(version) => {
                let message = format!("{} {version} requires authentication: `{shown}`", spec.label);
                (
                    AvailabilityStatus::NotAuthenticated,
                    Some(version),
                    message,
                    vec![spec.credentials.hint.to_owned()],
                )
            }
        };
        Availability { status, version, message, hints }
    }

    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError> {
        if !context.has_workspace() {
            return Err(AdapterError::WorkspaceMissing { path: context.workspace.clone() });
        }
        let spec = self.agent_spec();
        let prompt = super::prompt::prompt(context)?;
        let program = program(self, &context.config, &context.host)?;
        // Without credentials some agents retry without a limit.
        if !self.is_authenticated(&context.host) {
            return Err(AdapterError::NotAuthenticated {
                message: format!("{} requires authentication", spec.label),
                hints: vec![spec.credentials.hint.to_owned()],
            });
        }
        let artifacts = Artifacts::prepare(&context.artifacts_dir, spec.log_dir)?;
        let folder = context.artifacts_dir.join(spec.log_dir);
        let call = Call { context, prompt: &prompt, folder: &folder };
        let mut invocation = self.invocation(&call)?;
        reject_cost_limit(&mut invocation, spec, &context.config)?;
        invocation.files.extend(named_definition(self, context)?);
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        yb_claude::hermetic::create_dirs(&context.private_dir).map_err(private)?;
        for (path, text) in &invocation.files {
            write(path, text).map_err(private)?;
        }
        self.prepare(context).map_err(private)?;
        // A program without a version may still work; its version is then unknown in the log.
        let host = &context.host;
        let version =
            query_version(&program, self.version_environment(host), host, VERSION_DEADLINE).await.ok();
        let env = environment(&invocation, context);
        let command = command(&program, &invocation, &env, &prompt, context);
        let exits = guard::exits(&context.network, &context.host, &self.model(&context.host))?;
        let reader = self.reader(&call);
        let driven = drive(command, OutputFormat::Messages(reader), &artifacts, context, exits, |view| {
            self.show(view::show_packages(view, &program), context)
        })
        .await?;
        let mut result = ExecutionResult::of(driven, prompt.clone(), spec, artifacts);
        if let Err(error) = self.keep(&call) {
            result.warnings.push(format!("failed to keep what {} left: {error}", spec.label));
        }
        result.warnings.splice(0..0, invocation.warnings);
        result.permission_mode = Some(invocation.permission_mode);
        result.agent_version = version;
        result.executed = Some(Executed {
            argv: std::iter::once(program.into()).chain(invocation.args).collect(),
            env: env.into_keys().collect(),
            stdin: StdinContent::Prompt,
        });
        Ok(result)
    }

    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog {
        normalize::log(self.agent_spec(), self.agent_spec().provider, &result.agent_output(), result, context)
    }
}

/// The definition of the named agent as a file in the agent's private home; none if the case has it.
fn named_definition(
    cli: &impl Cli,
    context: &ExecutionContext,
) -> Result<Option<(PathBuf, String)>, AdapterError> {
    let config = &context.config;
    let name = config.agent_name.as_deref().filter(|name| !config.agents.contains_key(*name));
    let Some((dirs, file)) = name.and_then(|name| cli.definition_file(name, context)) else {
        return Ok(None);
    };
    Ok(Some((file, definition::find(name.unwrap_or_default(), dirs, context)?)))
}

/// Reports a cost limit that the agent does not enforce.
fn reject_cost_limit(
    invocation: &mut Invocation,
    spec: &AgentSpec,
    config: &AgentConfig,
) -> Result<(), AdapterError> {
    if config.max_budget_usd.is_some() && !spec.capabilities.cost_limit {
        invocation.ignores("max_budget_usd", "this agent has no limit of cost of its own", config)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// The host's variables, a private HOME and TMPDIR, and the variables of the invocation.
fn environment(invocation: &Invocation, context: &ExecutionContext) -> Environment {
    let mut env = context.host.env.clone();
    env.insert(vars::HOME.into(), context.private_dir.join(view::HOME).into());
    env.insert(vars::TMPDIR.into(), context.private_dir.join(view::TMP).into());
    for name in [vars::NO_PROXY, vars::NO_PROXY_LOWER] {
        let known = context.host.variable(vars::NO_PROXY).map(|hosts| hosts.to_string_lossy().into_owned());
        let hosts = known.map_or(LOOPBACK.to_owned(), |known| format!("{known},{LOOPBACK}"));
        env.insert(name.into(), hosts.into());
    }
    env.extend(invocation.env.iter().map(|(name, value)| (OsString::from(*name), value.clone())));
    env
}

fn command(
    program: &Path,
    invocation: &Invocation,
    env: &Environment,
    prompt: &str,
    context: &ExecutionContext,
) -> Command {
    let mut command = Command::new(program).args(&invocation.args).envs(env);
    command = command.stdin(Stdin::Bytes(prompt.as_bytes().to_vec().into()));
    let servers = context.config.mcp_servers.values().flat_map(secrets_of_json);
    for (name, value) in secrets(&context.host.env).chain(servers) {
        command = command.secret(name, value);
    }
    command
}

/// Finds the program: the pinned version, the path in the variable, the first on `PATH`, or the newest that `yb` installed. For a
/// wrapper, the native program behind it.
fn program(cli: &(impl Cli + ?Sized), config: &AgentConfig, host: &Host) -> Result<PathBuf, AdapterError> {
    let spec = cli.agent_spec();
    let npm = npm_program(spec)?;
    let missing = |message: String| AdapterError::NotInstalled { message, hints: vec![install_hint(spec)] };
    let found = match (super::pinned_program(spec, config, host), host.variable(npm.path_variable)) {
        (Some(pinned), _) => pinned.path(),
        (None, Some(named)) => {
            let path = PathBuf::from(named);
            let shown = path.display().to_string();
            path.is_file().then_some(path).ok_or_else(|| {
                missing(format!("{} is not where `{}` says: `{shown}`", spec.label, npm.path_variable))
            })?
        }
        (None, None) => {
            let installed = || host.programs.as_ref()?.newest(spec).map(|program| program.path());
            on_path(npm.bin, host).or_else(installed).ok_or_else(|| {
                missing(format!("{} is not installed: no `{}` on the PATH", spec.label, npm.bin))
            })?
        }
    };
    let Ok(real) = found.canonicalize() else { return Ok(found) };
    let packages = real.ancestors().filter(|path| path.ends_with("node_modules"));
    let below = real.ancestors().map(|path| path.join("node_modules"));
    let native = packages.map(Path::to_owned).chain(below).filter(|path| path.is_dir());
    Ok(native.filter_map(|packages| cli.native(&packages)).find(|path| path.is_file()).unwrap_or(found))
}

/// Finds a program on the `PATH` of the agent.
pub(super) fn on_path(program: &str, host: &Host) -> Option<PathBuf> {
    yb_supervise::find_program(program, host.variable(vars::PATH)?)
}

fn install_hint(spec: &AgentSpec) -> String {
    match spec.npm() {
        Some(npm) => {
            format!("install it: `npm install -g {}`, or name it in `{}`", npm.package, npm.path_variable)
        }
        None => "install it".to_owned(),
    }
}

fn npm_program(spec: &'static AgentSpec) -> Result<&'static NpmProgram, AdapterError> {
    spec.npm().ok_or_else(|| AdapterError::NotInstalled {
        message: format!("{} has no program of its own", spec.label),
        hints: Vec::new(),
    })
}

/// Merges one JSON object over another, field by field.
pub(super) fn lay_over(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                lay_over(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// npm's name for the machine's system and processor, as in `linux-x64`.
pub(super) fn npm_platform() -> Option<String> {
    let system = match std::env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        "windows" => "win32",
        _ => return None,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    Some(format!("{system}-{processor}"))
}

/// Cached versions of programs.
static VERSIONS: Mutex<BTreeMap<FileState, String>> = Mutex::new(BTreeMap::new());

/// A file's path, size and modification time.
type FileState = (PathBuf, u64, Option<SystemTime>);

/// Returns the cached version of a program.
pub(super) fn known_version(program: &Path) -> Option<String> {
    VERSIONS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .get(&file_state(program).ok()?)
        .cloned()
}

/// Caches the version of a program.
pub(super) fn remember_version(program: &Path, version: &str) {
    if let Ok(key) = file_state(program) {
        let mut versions = VERSIONS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        versions.insert(key, version.to_owned());
    }
}

fn file_state(program: &Path) -> std::io::Result<FileState> {
    let stat = std::fs::metadata(program)?;
    Ok((program.to_owned(), stat.len(), stat.modified().ok()))
}

/// Runs `--version` with these variables beside the host's, once for each state of the program's file.
pub(super) async fn query_version(
    program: &Path,
    variables: Environment,
    host: &Host,
    deadline: Duration,
) -> Result<String, String> {
    if let Some(version) = known_version(program) {
        return Ok(version);
    }
    // It may write files, which are discarded.
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(program).arg("--version").stdin(Stdin::None).deadline(deadline);
    command = command.envs(&host.env).current_dir(scratch.path()).env(vars::HOME, scratch.path());
    command = command.envs(variables);
    if let Some(shim) = &host.shim {
        command = command.shim(shim);
    }
    let report = command.run().await;
    let bytes = report.output.captured().map(CapturedOutput::stdout).unwrap_or_default();
    if !report.success() {
        return Err(report.end.to_string());
    }
    let version = version_in(&String::from_utf8_lossy(&bytes)).ok_or("it does not say its version")?;
    remember_version(program, &version);
    Ok(version)
}

/// The first word that looks like `1.2.3`.
fn version_in(output: &str) -> Option<String> {
    let words = output.split(|c: char| c.is_whitespace() || c == ',');
    let clean = words.map(|word| word.trim_start_matches('v').trim_end_matches(['.', ')', ']']));
    clean
        .filter(|word| {
            let numbers = word.split(['-', '+']).next().unwrap_or_default();
            let mut parts = numbers.split('.');
            parts.clone().count() >= 3 && parts.all(|part| part.parse::<u64>().is_ok())
        })
        .map(str::to_owned)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_extracted_from_text() {
        for (output, version) in [
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.", Some("1.0.102")),
            ("v2.0.0-beta.1", Some("2.0.0-beta.1")),
            ("1.18.33", Some("1.18.33")),
            ("no version in 1.2", None),
        ] {
            assert_eq!(version_in(output).as_deref(), version, "{output}");
        }
    }
}
