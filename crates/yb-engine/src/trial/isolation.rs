//! Which isolation a trial gets: what it asks for or, if it leaves that open, the strongest that works here.

use std::path::PathBuf;

use yb_supervise::Sandbox;

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
        let mut level = level(demanded)?;
        let weaker = case.isolation == case::Isolation::Bubblewrap && level.used != Isolation::Bubblewrap;
        if weaker {
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

fn level(demanded: case::Isolation) -> Result<Level, TrialError> {
    let works = |used| Ok(Level { used, warning: None });
    match demanded {
        case::Isolation::None => works(Isolation::None),
        case::Isolation::External => works(Isolation::External),
        case::Isolation::Landlock => {
            Err(TrialError::Unsupported { what: vec!["`isolation: landlock`".to_owned()] })
        }
        case::Isolation::Bubblewrap | case::Isolation::Auto => match Sandbox::probe() {
            Ok(()) => works(Isolation::Bubblewrap),
            Err(why) if demanded == case::Isolation::Bubblewrap => {
                Err(TrialError::Isolation { level: demanded.as_str(), reason: why.reason, fix: why.fix })
            }
            Err(why) => {
                let warning = format!(
                    "nothing stood between the agent and the machine: {}; fix: {}",
                    why.reason, why.fix
                );
                Ok(Level { used: Isolation::None, warning: Some(warning) })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_not_there_is_refused_by_name() {
        let error = level(case::Isolation::Landlock).unwrap_err();
        assert!(error.is_configuration() && error.to_string().contains("`isolation: landlock`"), "{error}");
        assert_eq!(level(case::Isolation::None).unwrap().used, Isolation::None);
        assert_eq!(level(case::Isolation::External).unwrap().used, Isolation::External);
    }
}
