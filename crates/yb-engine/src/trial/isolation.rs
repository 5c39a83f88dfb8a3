//! Which isolation a trial gets: what it asks for or, if it leaves that open, the strongest that works here.

use std::path::PathBuf;

use yb_supervise::{SandboxKind, SandboxUnavailable};

use super::{Attempt, Runner, TrialError};
use crate::adapter::Isolation;
use crate::case::{self, Case, Start};
use crate::repo::Source;

/// What a trial gets, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) used: Isolation,
    pub(super) warning: Option<String>,
}

impl Runner {
    /// The isolation of a case's agent and of its hooks before it. The command line wins over the case, aloud.
    pub(super) fn level(&self, case: &Case) -> Result<Level, TrialError> {
        let demanded = self.isolation.unwrap_or(case.isolation);
        let mut level = level(demanded, SandboxKind::probe)?;
        if level.used.strength() < least(case.isolation).strength() {
            let (asked, used) = (case.isolation.as_str(), level.used);
            level.warning = Some(format!("the case asks for `isolation: {asked}`, and got `{used}` as told"));
        }
        Ok(level)
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
fn least(demanded: case::Isolation) -> Isolation {
    match demanded {
        case::Isolation::Bubblewrap => Isolation::Bubblewrap,
        case::Isolation::Landlock => Isolation::Landlock,
        case::Isolation::Auto | case::Isolation::None | case::Isolation::External => Isolation::None,
    }
}

fn level(
    demanded: case::Isolation,
    probe: impl Fn(SandboxKind) -> Result<(), SandboxUnavailable>,
) -> Result<Level, TrialError> {
    let works = |used| Ok(Level { used, warning: None });
    let named = |used, kind| match probe(kind) {
        Ok(()) => works(used),
        Err(why) => Err(TrialError::Isolation { level: demanded.as_str(), reason: why.reason, fix: why.fix }),
    };
    match demanded {
        case::Isolation::None => works(Isolation::None),
        case::Isolation::External => works(Isolation::External),
        case::Isolation::Bubblewrap => named(Isolation::Bubblewrap, SandboxKind::Bubblewrap),
        case::Isolation::Landlock => named(Isolation::Landlock, SandboxKind::Landlock),
        case::Isolation::Auto => {
            let Err(bubblewrap) = probe(SandboxKind::Bubblewrap) else { return works(Isolation::Bubblewrap) };
            let fix = format!("{}; fix: {}", bubblewrap.reason, bubblewrap.fix);
            Ok(match probe(SandboxKind::Landlock) {
                Ok(()) => Level {
                    used: Isolation::Landlock,
                    warning: Some(format!(
                        "landlock stood between the agent and the machine, which hides no processes: {fix}"
                    )),
                },
                Err(_) => Level {
                    used: Isolation::None,
                    warning: Some(format!("nothing stood between the agent and the machine: {fix}")),
                },
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which only these work.
    fn on(
        works: &'static [SandboxKind],
        demanded: case::Isolation,
    ) -> Result<(Isolation, Option<String>), TrialError> {
        let probe = |kind: SandboxKind| match works.contains(&kind) {
            true => Ok(()),
            false => Err(SandboxUnavailable::new(format!("no {kind}"), format!("install {kind}"))),
        };
        level(demanded, probe).map(|level| (level.used, level.warning))
    }

    #[test]
    fn auto_takes_the_strongest_that_works_and_says_what_is_missing() {
        use SandboxKind::{Bubblewrap, Landlock};
        let auto = case::Isolation::Auto;
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
    fn a_level_that_is_named_is_taken_or_refused() {
        use case::Isolation as Asked;
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
