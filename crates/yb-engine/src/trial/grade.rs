//! Grading a trial that was captured: makes the subject that evaluators look at, here and when a trial is graded again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use yb_supervise::CancellationToken;

use super::place::Place;
use super::{Attempt, Runner, TrialError};
use crate::case::Case;
use crate::evaluate::{self, Bench, EvaluatorResult, Limits, PATCH_FILE, Subject};
use crate::log::YouBenchaLog;
use crate::outcome::Outcome;

/// Below an attempt's private files: where trees are laid out while something looks at them.
const SCRATCH: &str = "grading";

impl Runner {
    /// Grades what an attempt left. What it came to by that counts unless its execution has decided already.
    pub(super) async fn grade(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &Attempt<'_>,
        (start, end): (&str, &str),
        log: &YouBenchaLog,
        place: &Place,
    ) -> Result<(Vec<EvaluatorResult>, Outcome), TrialError> {
        let secrets = self.secrets(case)?;
        let patch = place.artifacts.join(PATCH_FILE);
        let (diff, _) = attempt.store.diff_and_patch(start, end, &patch, &secrets).await?;
        let cancel = CancellationToken::new();
        let subject = Arc::new(Subject {
            case: case.name.clone(),
            case_dir: case.dir.clone(),
            store: attempt.store.clone(),
            start: start.to_owned(),
            end: end.to_owned(),
            expected: None,
            diff: Arc::new(diff),
            log: Arc::new(log.clone()),
            secrets: secrets.into(),
            prepare: [].into(),
            artifacts: place.artifacts.clone(),
            scratch: place.private.join(SCRATCH),
            bench: self.bench(case, cache, self.hidden(case, attempt), cancel.clone())?,
        });
        let results = tokio::select! {
            results = evaluate::grade(&case.evaluators, &subject, self.limits()) => results,
            // Money that is spent ends agents; this one has ended already, and what it did is worth knowing.
            () = self.interrupted() => {
                cancel.cancel();
                Ok(Vec::new())
            }
        };
        let results = results.map_err(|error| TrialError::Grading { reason: error.to_string() })?;
        let outcome = match self.stop.outcome() {
            Some(Outcome::Cancelled) if results.is_empty() => Outcome::Cancelled,
            _ => evaluate::outcome(&results),
        };
        Ok((results, outcome))
    }

    /// How code that an agent may have written is run for grading.
    pub(crate) fn bench(
        &self,
        case: &Case,
        cache: &Path,
        hidden: Vec<PathBuf>,
        cancel: CancellationToken,
    ) -> Result<Bench, TrialError> {
        Ok(Bench {
            isolation: self.level(case)?.used,
            hidden,
            env: Arc::new(self.env.clone()),
            shim: self.shim.clone(),
            cache: cache.to_owned(),
            cancel,
            pause: self.pause.clone(),
        })
    }

    /// How many evaluators look at once, and for how long.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            concurrent: self.settings.max_concurrent_evaluators(),
            timeout: self.settings.timeouts().evaluators,
        }
    }

    async fn interrupted(&self) {
        self.stop.token().cancelled().await;
        if self.stop.outcome() != Some(Outcome::Cancelled) {
            std::future::pending::<()>().await;
        }
    }
}
