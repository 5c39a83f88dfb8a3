//! The model endpoint of a trial: a mock script, a replayed tape, or the model API behind a recording proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_tape::{
    ApiCredentials, Divergence, Fork, ForkTarget, HeldRequests, MockServer, MockServerOptions, ObservedUsage,
    ObservingProxy, ParseReplayFaultError, RecordingOptions, RecordingProxy, ReplayFault, ReplayMode,
    ReplayOptions, ReplayServer, ReplaySpeed, RequestTexts, Script, Secrets, Tape, Upstream, Vars,
};

use super::attempt_dirs::AttemptDirs;
use super::attribution::{ApiEvidence, is_program_of_case};
use super::{AttemptContext, Runner, TrialError, agent};
use yb_agents::tape::{self, ModelEndpoint, TapeHow, TapeUse, redirect_to_mock};
use yb_agents::{AgentConfig, ExecutionResult, Host, observed_cost, prints_messages};
use yb_case::{AgentSpec, Case, TapeMode, TapeSource, TapeSpeed};
use yb_model::log::{ErrorRecord, ModelUsage, Usage, UsageSource};
use yb_model::outcome::Outcome;

/// A placeholder URL for checks before the endpoint is started.
const UNUSED_URL: &str = "http://127.0.0.1:9";
/// How long an agent may take to end by itself after it diverged from its tape.
const DIVERGENCE_GRACE: Duration = Duration::from_secs(5);
const DIVERGED: &str = "TAPE_DIVERGED";

/// The servers between an agent and its model.
pub(super) struct ModelServers {
    script: Option<MockServer>,
    recorder: Option<(RecordingProxy, PathBuf)>,
    replayer: Option<ReplayServer>,
    observer: Option<ObservingProxy>,
    /// Why failures of the API are not observed.
    unobserved: Option<&'static str>,
    /// The replayed tape, or the script.
    file: PathBuf,
    digest: Option<String>,
    /// The texts of the case, by name.
    texts: BTreeMap<String, String>,
    /// How the case differs from the recorded one.
    case_divergence: Option<Divergence>,
    /// The full digest of the replayed tape.
    content: Option<String>,
    warnings: Vec<String>,
}

/// How a tape was used by an attempt, with the observed usage.
pub(super) struct TapeReport {
    pub(super) tape: TapeUse,
    observed: ObservedUsage,
    spent: Option<f64>,
}

impl Runner {
    /// Whether a tape or a script replaces the model, so that no credentials are needed.
    pub(crate) fn has_simulated_model(&self, case: &Case) -> bool {
        (self.tape.replay.is_some() || case.tape.is_some()) && !self.forks_to_a_model(case)
    }

    /// Whether all model responses come from a tape, so that no network is needed.
    pub(super) fn is_replayed(&self, case: &Case) -> bool {
        self.replays(case).is_some() && !self.forks_to_a_model(case)
    }

    fn forks_to_a_model(&self, case: &Case) -> bool {
        self.tape.fork.is_some() && script_of(case).is_none()
    }

    /// Returns the tape or the directory of tapes to replay.
    fn replays<'a>(&'a self, case: &'a Case) -> Option<&'a Path> {
        let own = case.tape.as_ref().and_then(|tape| match &tape.source {
            TapeSource::Replay(path) => Some(path.as_path()),
            TapeSource::Script(_) => None,
        });
        self.tape.replay.as_deref().or(own)
    }

    /// Returns the agent's environment before the endpoint is started.
    pub(super) fn host(&self, case: &Case) -> Result<Host, TrialError> {
        let mut host = agent::host(case, self.agent_spec(case), &self.env, self.shim.as_deref())?;
        if self.has_simulated_model(case) {
            self.redirect_to_mock(case, &mut host, UNUSED_URL);
        }
        Ok(host)
    }

    /// Returns the spec of the case's agent; `None` for a directory graded by `yb eval`.
    pub(crate) fn agent_spec(&self, case: &Case) -> Option<&'static AgentSpec> {
        self.extensions.adapters.get(&case.agent.kind).map(|adapter| adapter.spec())
    }

    fn endpoints(&self, case: &Case, host: &Host) -> Vec<ModelEndpoint> {
        self.agent_spec(case).map(|agent| ModelEndpoint::of_agent(agent, host)).unwrap_or_default()
    }

    fn redirect_to_mock(&self, case: &Case, host: &mut Host, url: &str) {
        if let Some(agent) = self.agent_spec(case) {
            redirect_to_mock(agent, &self.extensions.adapters.specs(), host, url);
        }
    }

    /// Checks the tape options of a trial before it runs.
    pub(crate) fn check_tape(&self, case: &Case, trial: &str) -> Result<(), TrialError> {
        if let Some(path) = self.replays(case) {
            let tape = open(&tape::replayed(path, trial))?;
            if let Some(fork) = &self.tape.fork {
                check_step(&tape, "main", fork.step, "--fork")?;
            }
            for fault in faults(&self.tape.faults)? {
                check_step(&tape, &fault.lane, fault.turn, "--fault")?;
            }
        } else if self.tape.fork.is_some() {
            return Err(TrialError::tape("`--fork` without a tape to fork from", "name it: `--replay DIR`"));
        } else if let Some(script) = script_of(case) {
            load(script, Path::new("/workspace"))?;
        }
        let Some(directory) = &self.tape.record else { return Ok(()) };
        if self.is_replayed(case) {
            return Err(TrialError::tape(
                "recording a replay would reproduce the same tape",
                "leave out `--record`, or the tape of the case",
            ));
        }
        let file = tape::recorded(directory, trial);
        if file.exists() {
            let message = format!("tape already exists: `{}`", file.display());
            return Err(TrialError::tape(message, "record into another directory, or remove that one"));
        }
        if self.endpoints(case, &Host::default()).is_empty() {
            let message = format!("model traffic of `{}` can't be recorded or replayed", case.agent.kind);
            return Err(TrialError::tape(message, "leave out `--record`"));
        }
        Ok(())
    }

    /// Starts the endpoint and directs the agent to it.
    pub(super) fn start_endpoint(
        &self,
        case: &Case,
        attempt: &AttemptContext<'_>,
        place: &AttemptDirs,
        config: &AgentConfig,
        host: &mut Host,
        texts: BTreeMap<String, String>,
    ) -> Result<ModelServers, TrialError> {
        let mut servers = ModelServers {
            script: None,
            recorder: None,
            replayer: None,
            observer: None,
            unobserved: None,
            file: PathBuf::new(),
            digest: None,
            texts,
            case_divergence: None,
            content: None,
            warnings: Vec::new(),
        };
        let endpoints = self.endpoints(case, host);
        if let Some(path) = self.replays(case) {
            let file = tape::replayed(path, attempt.trial);
            servers.replay(self, case, file, place, endpoints.first())?;
        } else if let Some(script) = script_of(case) {
            let server = MockServer::start(load(script, &place.workspace)?, &MockServerOptions::default());
            servers.script = Some(server.map_err(TrialError::from)?);
            script.clone_into(&mut servers.file);
        }
        if let Some(directory) = &self.tape.record {
            servers.record((self, case), directory, attempt, place, host, endpoints.first())?;
        }
        match servers.base_url() {
            None => servers.observe(self, case, config, host),
            Some(url) if self.has_simulated_model(case) => self.redirect_to_mock(case, host, &url),
            Some(url) => {
                if let Some(endpoint) = endpoints.first() {
                    endpoint.redirect(host, &url);
                }
            }
        }
        Ok(servers)
    }
}

impl ModelServers {
    fn replay(
        &mut self,
        runner: &Runner,
        case: &Case,
        file: PathBuf,
        place: &AttemptDirs,
        api: Option<&ModelEndpoint>,
    ) -> Result<(), TrialError> {
        let tape = open(&file)?;
        if let Some(cut) = tape.truncation() {
            self.warnings.push(format!(
                "the tape ends at byte {}: {}: `{}`",
                cut.at,
                cut.reason,
                file.display()
            ));
        }
        let bytes = std::fs::read(&file).map_err(TrialError::io(&file))?;
        self.compare_case(&tape, runner.tape.fork.is_some());
        let digest = blake3::hash(&bytes).to_hex();
        self.digest = Some(digest.chars().take(16).collect());
        self.content = Some(digest.to_string());
        let own = case.tape.as_ref();
        let mode = runner.tape.mode.or(own.map(|own| own.mode)).unwrap_or_default();
        let speed = runner.tape.speed.or(own.map(|own| own.speed)).unwrap_or_default();
        let mut options = ReplayOptions::default()
            .mode(match mode {
                TapeMode::Exact => ReplayMode::Exact,
                TapeMode::Strict => ReplayMode::Strict,
                TapeMode::Lenient => ReplayMode::Lenient,
            })
            .speed(if speed == TapeSpeed::Real { ReplaySpeed::Real } else { ReplaySpeed::Fast });
        for (name, path) in places(place) {
            options = options.directory(name, path);
        }
        for fault in faults(&runner.tape.faults)? {
            options = options.fault(fault);
        }
        if let Some(fork) = &runner.tape.fork {
            let live = match (script_of(case), api) {
                (Some(script), _) => ForkTarget::Script(load(script, &place.workspace)?),
                (None, Some(api)) => ForkTarget::Upstream {
                    upstream: Upstream::new(&api.upstream)?,
                    model: fork.model.clone(),
                },
                (None, None) => {
                    let message =
                        format!("model traffic of `{}` can't be recorded or replayed", case.agent.kind);
                    return Err(TrialError::tape(message, "leave out `--fork`"));
                }
            };
            options = options.fork(Fork::after(fork.step, live));
        }
        self.replayer = Some(ReplayServer::start(&tape, options)?);
        self.file = file;
        Ok(())
    }

    /// Compares the texts of the case with the recorded ones, verbatim. A fork may change them on purpose.
    fn compare_case(&mut self, tape: &Tape, is_forked: bool) {
        if !tape.has_case() {
            let file = tape.path().display();
            self.warnings.push(format!("the tape does not have the texts of its case to compare: `{file}`"));
        }
        match tape.case_difference(&self.texts) {
            Some(divergence) if is_forked => self.warnings.push(format!(
                "the case differs from the recorded one: {}: recorded `{}`, now `{}`",
                divergence.part, divergence.expected, divergence.actual
            )),
            divergence => self.case_divergence = divergence,
        }
    }

    /// Returns how the case differs from the recorded one, so that the agent must not start.
    pub(super) fn case_divergence(&self) -> Option<&Divergence> {
        self.case_divergence.as_ref()
    }

    /// Starts recording to a temporary file, which is renamed when the attempt has ended: each retry has its own tape.
    fn record(
        &mut self,
        (runner, case): (&Runner, &Case),
        directory: &Path,
        attempt: &AttemptContext<'_>,
        place: &AttemptDirs,
        host: &Host,
        api: Option<&ModelEndpoint>,
    ) -> Result<(), TrialError> {
        let upstream = match (self.base_url(), api) {
            (Some(tape_report), _) => tape_report,
            (None, Some(api)) => api.upstream.clone(),
            (None, None) => return Ok(()),
        };
        std::fs::create_dir_all(directory).map_err(TrialError::io(directory))?;
        let part = directory.join(format!(".{}.attempt-{}.part", attempt.trial, attempt.number));
        let _ = std::fs::remove_file(&part);
        let mut secrets = Secrets::new();
        for (name, value) in yb_agents::secrets_of(host) {
            secrets = secrets.with(name, String::from_utf8_lossy(&value));
        }
        let mut options = RecordingOptions::new(Upstream::new(&upstream)?, &part)
            .secrets(secrets)
            .case(self.texts.clone())
            .full_requests(runner.tape.full_requests);
        if let (None, Some(api), Some(agent)) = (self.base_url(), api, runner.agent_spec(case)) {
            options = options.credentials(credentials(api, agent, host));
        }
        for (name, path) in places(place) {
            options = options.directory(name, path);
        }
        self.recorder = Some((RecordingProxy::start(options)?, tape::recorded(directory, attempt.trial)));
        Ok(())
    }

    /// Starts a proxy that only observes, if the agent reports failures of its API and its endpoint can be redirected.
    fn observe(&mut self, runner: &Runner, case: &Case, config: &AgentConfig, host: &mut Host) {
        let Some(agent) = runner.agent_spec(case) else { return };
        if is_program_of_case(agent) && !prints_messages(config) {
            return;
        }
        let start = || {
            if !runner.settings.observe_api() {
                return Err("`observe_api` is off");
            }
            let endpoint = ModelEndpoint::observable(agent, host)?;
            let upstream = Upstream::new(&endpoint.upstream).map_err(|_| "the address of the API")?;
            let proxy = ObservingProxy::start(upstream, credentials(&endpoint, agent, host))
                .map_err(|_| "the proxy could not be started")?;
            Ok((endpoint, proxy))
        };
        match start() {
            Ok((endpoint, proxy)) => {
                endpoint.observe(host, &proxy.base_url());
                self.observer = Some(proxy);
            }
            Err(reason) => self.unobserved = Some(reason),
        }
    }

    /// Why failures of the API are not observed; `None` if they are.
    pub(super) fn unobserved(&self) -> Option<&'static str> {
        self.unobserved
    }

    /// Looks for texts in the model requests of the agent.
    pub(super) fn watch_texts(&self, texts: &RequestTexts) {
        if let Some(observer) = &self.observer {
            observer.watch_texts(texts.clone());
        } else if let Some((recorder, _)) = &self.recorder {
            recorder.watch_texts(texts.clone());
        } else if let Some(replayer) = &self.replayer {
            replayer.watch_texts(texts.clone());
        } else if let Some(script) = &self.script {
            script.watch_texts(texts.clone());
        }
    }

    /// Holds the model requests of the agent that carry tool results; `None` if no server stands between the agent and its model.
    pub(super) fn hold_requests(&self) -> Option<HeldRequests> {
        if let Some(observer) = &self.observer {
            Some(observer.hold_requests())
        } else if let Some((recorder, _)) = &self.recorder {
            recorder.hold_requests()
        } else if let Some(replayer) = &self.replayer {
            Some(replayer.hold_requests())
        } else {
            self.script.as_ref().map(MockServer::hold_requests)
        }
    }

    /// Whether a server stands between the agent and its model.
    pub(super) fn is_observed(&self) -> bool {
        self.observer.is_some() || self.base_url().is_some()
    }

    /// Returns the base URL for the agent, unless it uses its API directly or through a proxy that only observes.
    fn base_url(&self) -> Option<String> {
        let played = || self.replayer.as_ref().map(ReplayServer::base_url);
        let recorded = self.recorder.as_ref().map(|(recorder, _)| recorder.base_url());
        recorded.or_else(played).or_else(|| self.script.as_ref().map(MockServer::base_url))
    }

    /// Waits for a divergence, and for the grace period in which the agent may end by itself.
    pub(super) async fn wait_for_divergence(&self) {
        match &self.replayer {
            Some(replayer) => {
                replayer.diverged().await;
                tokio::time::sleep(DIVERGENCE_GRACE).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Shuts down the endpoint, and adds its warnings and a divergence to the result. Returns the evidence about failures of the API.
    pub(super) async fn finish(self, executed: &mut ExecutionResult) -> (Option<TapeReport>, ApiEvidence) {
        if let Some(observer) = self.observer {
            return (None, ApiEvidence::Observed(observer.finish().await));
        }
        if self.base_url().is_none() {
            return (
                None,
                ApiEvidence::Unobserved(self.unobserved.unwrap_or("the agent prints no messages")),
            );
        }
        let mut failure = None;
        executed.warnings.extend(self.warnings);
        let mut tape = TapeUse {
            how: TapeHow::Scripted,
            file: self.file.display().to_string(),
            digest: self.digest,
            content: self.content,
            exchanges: 0,
            tolerated: 0,
            normalized: BTreeMap::new(),
            forwarded: 0,
            recorded_usd: None,
        };
        let mut observed = ObservedUsage::default();
        let mut spent = Some(0.0);
        if let Some(server) = &self.script {
            tape.exchanges = server.requests().len() as u64 + server.dropped();
            failure = server.api_failure();
        }
        if let Some(replayer) = self.replayer {
            let outcome = replayer.shutdown().await;
            tape.how = if outcome.forwarded > 0 { TapeHow::Forked } else { TapeHow::Replayed };
            tape.exchanges = outcome.served;
            tape.tolerated = outcome.tolerated;
            tape.normalized =
                outcome.normalized.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
            tape.forwarded = outcome.forwarded;
            tape.recorded_usd = observed_cost(&outcome.recorded_usage);
            spent = if outcome.forwarded > 0 { observed_cost(&outcome.live_usage) } else { Some(0.0) };
            observed = outcome.recorded_usage;
            failure = outcome.api_failure;
            for (model, usage) in &outcome.live_usage.models {
                observed.models.entry(model.clone()).or_default().add(usage);
            }
            match self.case_divergence.or(outcome.divergence) {
                Some(divergence) => diverged(executed, &divergence),
                None if outcome.remaining > 0 => executed.warnings.push(format!(
                    "{} recorded requests were never asked: `{}`",
                    outcome.remaining, tape.file
                )),
                None => {}
            }
        }
        if let Some((recorder, file)) = self.recorder {
            let is_script = self.script.is_some();
            tape.how = match tape.how {
                TapeHow::Scripted if is_script => TapeHow::RecordedScript,
                TapeHow::Scripted => TapeHow::Recorded,
                how => how,
            };
            let recorded = tokio::task::spawn_blocking(move || {
                let recorded = recorder.finish().map_err(|error| error.to_string())?;
                std::fs::rename(&recorded.tape, &file).map_err(|error| error.to_string())?;
                let content = std::fs::read(&file).map_err(|error| error.to_string())?;
                let content = blake3::hash(&content).to_hex().to_string();
                Ok::<_, String>((file, content, recorded.observed, recorded.api_failure))
            });
            match recorded.await.map_err(|error| error.to_string()).and_then(|recorded| recorded) {
                Ok((file, content, seen, api_failure)) => {
                    failure = api_failure;
                    tape.file = file.display().to_string();
                    tape.content = Some(content);
                    tape.exchanges = seen.exchanges;
                    observed = seen;
                }
                Err(reason) => executed.warnings.push(format!("the tape is incomplete: {reason}")),
            }
            if tape.how == TapeHow::Recorded {
                spent = None;
            }
        }
        (Some(TapeReport { tape, observed, spent }), ApiEvidence::Observed(failure))
    }
}

impl TapeReport {
    /// Replaces the tokens that the agent reported by the observed ones. The cost is still the reported one.
    pub(super) fn apply_observed_usage(&self, usage: &mut Usage) {
        if self.observed.models.is_empty() {
            return;
        }
        let total = self.observed.total();
        (usage.input_tokens, usage.prompt_tokens) = (total.input, total.input);
        (usage.output_tokens, usage.completion_tokens) = (total.output, total.output);
        usage.total_tokens = total.input.saturating_add(total.output);
        usage.cache_read_input_tokens = total.cache_read;
        usage.cache_creation_input_tokens = total.cache_write;
        usage.source = UsageSource::Observed;
        for (name, seen) in &self.observed.models {
            let own = usage.by_model.get(name);
            let model = ModelUsage {
                input_tokens: seen.input,
                output_tokens: seen.output,
                cache_read_input_tokens: seen.cache_read,
                cache_creation_input_tokens: seen.cache_write,
                cost_usd: own.and_then(|own| own.cost_usd),
                cost_basis: own.and_then(|own| own.cost_basis.clone()),
                source: UsageSource::Observed,
            };
            usage.by_model.insert(name.clone(), model);
        }
    }

    /// Returns the tape use and the actual cost. The cost that the agent reported for a replay takes precedence over the
    /// computed one.
    pub(super) fn into_tape_use(mut self, agent_said: Option<f64>) -> (TapeUse, Option<f64>) {
        if self.tape.how.is_replay() {
            self.tape.recorded_usd = agent_said.or(self.tape.recorded_usd);
        }
        (self.tape, self.spent)
    }
}

/// The credentials of the agent's own requests.
fn credentials(endpoint: &ModelEndpoint, agent: &AgentSpec, host: &Host) -> ApiCredentials {
    let known = endpoint.credentials(agent, host);
    if known.is_empty() { ApiCredentials::OfFirstRequest } else { ApiCredentials::OneOf(known) }
}

fn diverged(executed: &mut ExecutionResult, divergence: &Divergence) {
    executed.outcome = Some(Outcome::Diverged);
    // Later responses of the tape repeat the divergence as an error of the agent.
    let first = divergence.to_string();
    let first = first.lines().next().unwrap_or_default().to_owned();
    executed.errors.retain(|error| !error.message.contains(&first));
    let record = ErrorRecord {
        message: divergence.to_string(),
        timestamp: executed.completed_at.clone(),
        code: Some(DIVERGED.to_owned()),
        stack_trace: None,
        context: [("hints".to_owned(), vec![divergence.hint()].into())].into(),
    };
    executed.errors.insert(0, record);
}

/// Returns the directories that a tape refers to by name, so that it can be replayed elsewhere.
fn places(place: &AttemptDirs) -> [(&'static str, &Path); 3] {
    [("workspace", &place.workspace), ("private", &place.private), ("add-ons", &place.add_ons)]
}

fn script_of(case: &Case) -> Option<&Path> {
    match &case.tape.as_ref()?.source {
        TapeSource::Script(path) => Some(path),
        TapeSource::Replay(_) => None,
    }
}

fn load(script: &Path, workspace: &Path) -> Result<Script, TrialError> {
    Ok(Script::load(script, &Vars::new().with("workspace", workspace.to_string_lossy()))?)
}

fn open(file: &Path) -> Result<Tape, TrialError> {
    Tape::open(file).map_err(|error| match error {
        yb_tape::Error::ReadTape { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let trial = file.file_stem().unwrap_or_default().to_string_lossy();
            TrialError::tape(
                format!("no tape for this trial: `{}`", file.display()),
                format!("record it: `yb run -c FILE --record {}` makes one for each trial, such as `{trial}.tape`",
                    file.parent().unwrap_or(Path::new(".")).display()),
            )
        }
        error => error.into(),
    })
}

/// Checks that a lane of the tape has at least this many steps.
fn check_step(tape: &Tape, lane: &str, step: usize, option: &str) -> Result<(), TrialError> {
    let known = tape.lanes().iter().find(|known| known.name == lane);
    let exchanges = known.into_iter().flat_map(|lane| &lane.exchanges);
    let turns = exchanges.map(|at| tape.exchanges()[*at].turn()).max().unwrap_or(0);
    if step <= turns {
        return Ok(());
    }
    let file = tape.path().display();
    let message = format!("`{option}` refers to step {step}, but lane `{lane}` has {turns} steps: `{file}`");
    Err(TrialError::tape(message, "`yb tape show` lists the steps of a tape"))
}

fn faults(texts: &[String]) -> Result<Vec<ReplayFault>, TrialError> {
    let read = |text: &String| {
        text.parse()
            .map_err(|error: ParseReplayFaultError| TrialError::tape(error.to_string(), String::new()))
    };
    texts.iter().map(read).collect()
}

impl From<yb_tape::Error> for TrialError {
    fn from(error: yb_tape::Error) -> Self {
        let hint = error.hint().map(str::to_owned).unwrap_or_default();
        let mut message = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            message = format!("{message}: {cause}");
        }
        Self::Tape { message, hint }
    }
}
