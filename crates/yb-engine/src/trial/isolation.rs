//! The isolation, network access and limits of a trial: the requested ones or, for `isolation: auto`, the strongest
//! isolation that is available.

use std::path::PathBuf;

use yb_supervise::{SandboxKind, SandboxUnavailable};

use super::{AttemptContext, Runner, TrialError};
use yb_agents::Isolation;
use yb_case::{Case, Network, NetworkMode, Start, TrialLimits};
use yb_repo::Source;

/// The isolation of a trial, with warnings about it.
#[derive(Debug)]
pub(super) struct IsolationPlan {
    pub(super) used: Isolation,
    pub(super) network: Network,
    pub(super) limits: TrialLimits,
    pub(super) warnings: Vec<String>,
}

impl Runner {
    /// Returns the isolation, network access and limits of a case's agent and of the hooks before it. The command line
    /// overrides the case, with a warning if that is weaker.
    pub(super) fn level(&self, case: &Case) -> Result<IsolationPlan, TrialError> {
        let settings = self.settings.clone().with_case(case);
        let demanded = self.isolation.unwrap_or(settings.isolation());
        let (used, warning) = level(demanded, SandboxKind::probe)?;
        if case.environment.is_some() && used != Isolation::Bubblewrap {
            let reason = "a case with `environment` runs under bubblewrap only".to_owned();
            let fix = "install bubblewrap; `yb doctor` checks whether it works".to_owned();
            return Err(TrialError::Isolation { level: demanded.as_str(), reason, fix });
        }
        let mut warnings: Vec<String> = warning.into_iter().collect();
        if used.strength() < minimum_level(case.isolation).strength() {
            let asked = case.isolation.as_str();
            warnings = vec![format!("the case requests `isolation: {asked}`, overridden with `{used}`")];
        }
        warnings.extend(filter_warning(used, SandboxKind::probe_syscall_filter));
        let mut mode = self.network.unwrap_or(settings.network());
        // A replay needs no network. Where access can't be restricted, there is a warning.
        if self.network.is_none() && self.is_replayed(case) && mode != NetworkMode::ModelOnly {
            match check_network(NetworkMode::ModelOnly, used, demanded, SandboxKind::probe_network) {
                Ok(_) => mode = NetworkMode::ModelOnly,
                Err(_) => warnings
                    .push(format!("network access is not restricted during replay: `isolation: {used}`")),
            }
        }
        let asked = case.network.as_ref().map_or(NetworkMode::Open, |network| network.mode);
        if mode < asked {
            warnings.push(format!("the case requests `network: {asked}`, overridden with `{mode}`"));
        }
        let mut network = Network::new(mode);
        if let Some(own) =
            case.network.as_ref().filter(|_| mode == NetworkMode::ModelOnly && !self.is_replayed(case))
        {
            network.allow.clone_from(&own.allow);
        }
        warnings.extend(check_network(mode, used, demanded, SandboxKind::probe_network)?);
        Ok(IsolationPlan { used, network, limits: settings.limits(), warnings })
    }

    /// Returns the warnings about the isolation of a case on this machine.
    pub(crate) fn isolation_warnings(&self, case: &Case) -> Vec<String> {
        self.level(case).map(|level| level.warnings).unwrap_or_default()
    }

    /// Returns the level of isolation that a case gets on this machine.
    pub(crate) fn isolation_level(&self, case: &Case) -> Result<String, TrialError> {
        Ok(self.level(case)?.used.to_string())
    }

    /// Returns the paths that are hidden from all processes before grading: other trials, the caches with later commits,
    /// the case, and the repository that it starts from.
    pub(super) fn hidden(&self, case: &Case, attempt: &AttemptContext<'_>) -> Vec<PathBuf> {
        let run = attempt.run.path();
        let root = run.ancestors().nth(2).unwrap_or(run);
        let mut hidden = vec![root.to_owned(), run.to_owned(), case.dir.clone()];
        match &case.start {
            Start::Directory(path) => hidden.push(path.clone()),
            Start::Image => {}
            Start::Repo { repo, .. } => {
                if let Ok(Source::Directory(path)) = Source::parse(repo, &case.dir) {
                    hidden.push(path);
                }
            }
        }
        hidden
    }
}

/// Returns the weakest isolation that satisfies a case.
fn minimum_level(demanded: yb_case::Isolation) -> Isolation {
    match demanded {
        yb_case::Isolation::Bubblewrap => Isolation::Bubblewrap,
        yb_case::Isolation::Landlock => Isolation::Landlock,
        yb_case::Isolation::Auto | yb_case::Isolation::None | yb_case::Isolation::External => Isolation::None,
    }
}

fn level(
    demanded: yb_case::Isolation,
    probe: impl Fn(SandboxKind) -> Result<(), SandboxUnavailable>,
) -> Result<(Isolation, Option<String>), TrialError> {
    let works = |used| Ok((used, None));
    let named = |used, kind| match probe(kind) {
        Ok(()) => works(used),
        Err(why) => Err(TrialError::Isolation { level: demanded.as_str(), reason: why.reason, fix: why.fix }),
    };
    match demanded {
        yb_case::Isolation::None => works(Isolation::None),
        yb_case::Isolation::External => works(Isolation::External),
        yb_case::Isolation::Bubblewrap => named(Isolation::Bubblewrap, SandboxKind::Bubblewrap),
        yb_case::Isolation::Landlock => named(Isolation::Landlock, SandboxKind::Landlock),
        yb_case::Isolation::Auto => {
            let Err(bubblewrap) = probe(SandboxKind::Bubblewrap) else { return works(Isolation::Bubblewrap) };
            let fix = format!("{}; fix: {}", bubblewrap.reason, bubblewrap.fix);
            Ok(match probe(SandboxKind::Landlock) {
                Ok(()) => {
                    let which = "the agent ran under landlock, which does not hide processes";
                    (Isolation::Landlock, Some(format!("{which}: {fix}")))
                }
                Err(_) => {
                    let which = "the agent ran without isolation";
                    (Isolation::None, Some(format!("{which}: {fix}")))
                }
            })
        }
    }
}

/// Returns a warning if the sandbox does not filter system calls.
fn filter_warning(
    used: Isolation,
    probe: impl Fn(SandboxKind) -> Result<(), SandboxUnavailable>,
) -> Option<String> {
    let why = probe(used.kind()?).err()?;
    Some(format!("the system calls of the agent were not filtered: {}; fix: {}", why.reason, why.fix))
}

/// Checks whether the isolation can enforce the network access. Returns a warning if the enforcement is weak: landlock
/// knows ports, not hosts, and is used only if the case requests it by name.
fn check_network(
    mode: NetworkMode,
    used: Isolation,
    demanded: yb_case::Isolation,
    probe: impl Fn(SandboxKind) -> Result<(), SandboxUnavailable>,
) -> Result<Option<String>, TrialError> {
    let refused = |reason: String, fix: &str| {
        Err(TrialError::Network { mode: mode.as_str(), level: used, reason, fix: fix.to_owned() })
    };
    match (mode, used) {
        (NetworkMode::Open, _) | (_, Isolation::Bubblewrap) => Ok(None),
        (_, Isolation::Landlock) if demanded == yb_case::Isolation::Landlock => {
            match probe(SandboxKind::Landlock) {
                Ok(()) => Ok(Some(format!(
                    "`network: {mode}` under landlock restricts ports, not hosts, and no Unix sockets in directories"
                ))),
                Err(why) => refused(why.reason, &why.fix),
            }
        }
        (_, Isolation::Landlock) => refused(
            "landlock restricts ports, not hosts".to_owned(),
            "install the package `bubblewrap`, or set `isolation: landlock` if that is sufficient",
        ),
        (_, Isolation::None | Isolation::External) => refused(
            "the network can't be restricted".to_owned(),
            "use `isolation: bubblewrap`; `yb doctor` checks whether it is available",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Selects a level on a machine where only these sandboxes work.
    fn on(
        works: &'static [SandboxKind],
        demanded: yb_case::Isolation,
    ) -> Result<(Isolation, Option<String>), TrialError> {
        let probe = |kind: SandboxKind| match works.contains(&kind) {
            true => Ok(()),
            false => Err(SandboxUnavailable::new(format!("no {kind}"), format!("install {kind}"))),
        };
        level(demanded, probe)
    }

    #[test]
    fn auto_selects_the_strongest_available_isolation_and_warns() {
        use SandboxKind::{Bubblewrap, Landlock};
        let auto = yb_case::Isolation::Auto;
        assert_eq!(on(&[Bubblewrap, Landlock], auto).unwrap(), (Isolation::Bubblewrap, None));
        for (works, used, said) in [
            (&[Landlock][..], Isolation::Landlock, "the agent ran under landlock"),
            (&[], Isolation::None, "the agent ran without isolation"),
        ] {
            let (level, warning) = on(works, auto).unwrap();
            let warning = warning.unwrap();
            assert_eq!(level, used);
            assert!(warning.contains(said) && warning.contains("fix: install bubblewrap"), "{warning}");
        }
    }

    #[test]
    fn unenforceable_network_access_is_refused() {
        use NetworkMode::{ModelOnly, None, Open};
        use yb_case::Isolation as Asked;
        let ask = |mode, used, asked| check_network(mode, used, asked, |_| Ok(()));
        for level in [Isolation::None, Isolation::External, Isolation::Landlock] {
            assert!(ask(Open, level, Asked::Auto).unwrap().is_none());
            for mode in [ModelOnly, None] {
                let error = ask(mode, level, Asked::Auto).unwrap_err();
                let words = format!("`network: {mode}` is not supported with `isolation: {level}`");
                assert!(error.to_string().contains(&words) && !error.hints().is_empty(), "{error}");
            }
        }
        assert!(ask(None, Isolation::Bubblewrap, Asked::Auto).unwrap().is_none());
        let warning = ask(ModelOnly, Isolation::Landlock, Asked::Landlock).unwrap().unwrap();
        assert!(warning.contains("restricts ports, not hosts"), "{warning}");
        let old = |_| Err(SandboxUnavailable::new("too old", "a new one"));
        assert!(check_network(ModelOnly, Isolation::Landlock, Asked::Landlock, old).is_err());
    }

    #[test]
    fn missing_filter_is_a_warning_with_the_fix() {
        let missing = |_| Err(SandboxUnavailable::new("no seccomp", "another kernel"));
        let warning = filter_warning(Isolation::Landlock, missing).unwrap();
        assert_eq!(
            warning,
            "the system calls of the agent were not filtered: no seccomp; fix: another kernel"
        );
        assert_eq!(filter_warning(Isolation::Landlock, |_| Ok(())), None);
        assert_eq!(filter_warning(Isolation::External, missing), None);
    }

    #[test]
    fn named_isolation_is_used_or_refused() {
        use yb_case::Isolation as Asked;
        for (asked, used) in [(Asked::None, Isolation::None), (Asked::External, Isolation::External)] {
            assert_eq!(on(&[], asked).unwrap(), (used, None));
        }
        for (asked, kind, used) in [
            (Asked::Bubblewrap, &[SandboxKind::Bubblewrap][..], Isolation::Bubblewrap),
            (Asked::Landlock, &[SandboxKind::Landlock], Isolation::Landlock),
        ] {
            assert_eq!(on(kind, asked).unwrap(), (used, None));
            let error = on(&[], asked).unwrap_err();
            assert!(!error.is_configuration(), "{error}");
            assert!(error.to_string().contains(&format!("`isolation: {used}` is not available")), "{error}");
        }
    }
}
