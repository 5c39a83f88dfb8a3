//! Which isolation, network and limits a trial gets: what it asks for or, if it leaves the first open, the strongest that works here.

use std::path::PathBuf;

use yb_supervise::{SandboxKind, SandboxUnavailable};

use super::{Attempt, Runner, TrialError};
use yb_agents::Isolation;
use yb_case::{Case, Limits, Network, NetworkMode, Start};
use yb_repo::Source;

/// What a trial gets, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) used: Isolation,
    pub(super) network: Network,
    pub(super) limits: Limits,
    pub(super) warnings: Vec<String>,
}

impl Runner {
    /// The isolation, network and limits of a case's agent and of its hooks before it. The command line wins over the
    /// case, aloud.
    pub(super) fn level(&self, case: &Case) -> Result<Level, TrialError> {
        let settings = self.settings.clone().with_case(case);
        let demanded = self.isolation.unwrap_or(settings.isolation());
        let (used, warning) = level(demanded, SandboxKind::probe)?;
        let mut warnings: Vec<String> = warning.into_iter().collect();
        if used.strength() < least(case.isolation).strength() {
            let asked = case.isolation.as_str();
            warnings = vec![format!("the case asks for `isolation: {asked}`, and got `{used}` as told")];
        }
        let mut mode = self.network.unwrap_or(settings.network());
        // A tape answers everything, so that nothing else need be reached; where that can't be held, it is said.
        if self.network.is_none() && self.is_replayed(case) && mode != NetworkMode::ModelOnly {
            match hold(NetworkMode::ModelOnly, used, demanded, SandboxKind::probe_network) {
                Ok(_) => mode = NetworkMode::ModelOnly,
                Err(_) => warnings.push(format!(
                    "nothing keeps the replay from reaching more than its tape: `isolation: {used}`"
                )),
            }
        }
        let asked = case.network.as_ref().map_or(NetworkMode::Open, |network| network.mode);
        if mode < asked {
            warnings.push(format!("the case asks for `network: {asked}`, and got `{mode}` as told"));
        }
        let mut network = Network::new(mode);
        if let Some(own) =
            case.network.as_ref().filter(|_| mode == NetworkMode::ModelOnly && !self.is_replayed(case))
        {
            network.allow.clone_from(&own.allow);
        }
        warnings.extend(hold(mode, used, demanded, SandboxKind::probe_network)?);
        Ok(Level { used, network, limits: settings.limits(), warnings })
    }

    /// What nothing that runs before grading may see: other trials, the caches with later commits, the case, and the
    /// repository that it starts from.
    pub(super) fn hidden(&self, case: &Case, attempt: &Attempt<'_>) -> Vec<PathBuf> {
        let run = attempt.run.path();
        let root = run.ancestors().nth(2).unwrap_or(run);
        let mut hidden = vec![root.to_owned(), run.to_owned(), case.dir.clone()];
        match &case.start {
            Start::Directory(path) => hidden.push(path.clone()),
            Start::Repo { repo, .. } => {
                if let Ok(Source::Directory(path)) = Source::parse(repo, &case.dir) {
                    hidden.push(path);
                }
            }
        }
        hidden
    }
}

/// What a case can't do without.
fn least(demanded: yb_case::Isolation) -> Isolation {
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
                    let which = "landlock stood between the agent and the machine, which hides no processes";
                    (Isolation::Landlock, Some(format!("{which}: {fix}")))
                }
                Err(_) => {
                    let which = "nothing stood between the agent and the machine";
                    (Isolation::None, Some(format!("{which}: {fix}")))
                }
            })
        }
    }
}

/// Whether the level can hold the network, and what is to be said about how well. Landlock's way is a weaker one, and
/// taken only by whoever names it.
fn hold(
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
                    "`network: {mode}` under landlock holds TCP only: datagrams, names and Unix sockets were open"
                ))),
                Err(why) => refused(why.reason, &why.fix),
            }
        }
        (_, Isolation::Landlock) => refused(
            "landlock holds TCP only".to_owned(),
            "install the package `bubblewrap`, or say `isolation: landlock` if that is enough",
        ),
        (_, Isolation::None | Isolation::External) => refused(
            "nothing holds the network".to_owned(),
            "use `isolation: bubblewrap`; `yb doctor` says whether it works here",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which only these work.
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
    fn auto_takes_the_strongest_that_works_and_says_what_is_missing() {
        use SandboxKind::{Bubblewrap, Landlock};
        let auto = yb_case::Isolation::Auto;
        assert_eq!(on(&[Bubblewrap, Landlock], auto).unwrap(), (Isolation::Bubblewrap, None));
        for (works, used, said) in [
            (&[Landlock][..], Isolation::Landlock, "landlock stood between the agent and the machine"),
            (&[], Isolation::None, "nothing stood between the agent and the machine"),
        ] {
            let (level, warning) = on(works, auto).unwrap();
            let warning = warning.unwrap();
            assert_eq!(level, used);
            assert!(warning.contains(said) && warning.contains("fix: install bubblewrap"), "{warning}");
        }
    }

    #[test]
    fn a_network_that_nothing_holds_is_refused() {
        use NetworkMode::{ModelOnly, None, Open};
        use yb_case::Isolation as Asked;
        let ask = |mode, used, asked| hold(mode, used, asked, |_| Ok(()));
        for level in [Isolation::None, Isolation::External, Isolation::Landlock] {
            assert!(ask(Open, level, Asked::Auto).unwrap().is_none());
            for mode in [ModelOnly, None] {
                let error = ask(mode, level, Asked::Auto).unwrap_err();
                let words = format!("`network: {mode}` is not possible with `isolation: {level}`");
                assert!(error.to_string().contains(&words) && !error.hints().is_empty(), "{error}");
            }
        }
        assert!(ask(None, Isolation::Bubblewrap, Asked::Auto).unwrap().is_none());
        let warning = ask(ModelOnly, Isolation::Landlock, Asked::Landlock).unwrap().unwrap();
        assert!(warning.contains("holds TCP only"), "{warning}");
        let old = |_| Err(SandboxUnavailable::new("too old", "a new one"));
        assert!(hold(ModelOnly, Isolation::Landlock, Asked::Landlock, old).is_err());
    }

    #[test]
    fn a_level_that_is_named_is_taken_or_refused() {
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
            assert!(
                error.to_string().contains(&format!("`isolation: {used}` does not work here")),
                "{error}"
            );
        }
    }
}
