//! Runs the evaluators of a case: several at once, each on its own time, and none can take another down with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use yb_supervise::PauseSwitch;

use super::subject::{VERDICT_FILE, remove_tree};
use super::{
    Desk, EvaluatorResult, EvaluatorStatus, GradeError, Need, Preparation, Subject, Verdict, evaluator,
    prepared,
};
use yb_agents::trace::{Begin, End, Trace};
use yb_model::outcome::Outcome;

/// What all evaluators of a trial share.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many look at once.
    pub concurrent: usize,
    /// How long each may look; zero is for ever.
    pub timeout: Duration,
}

/// How much longer than its own time an evaluator is waited for, so that it can say itself that its time was over.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(200);

/// Asks every evaluator, and keeps each verdict as a file; results come in the order of the case.
///
/// # Errors
/// When a verdict can't be written. Whatever goes wrong in an evaluator is its result.
pub async fn grade(
    evaluators: &[yb_case::Evaluator],
    subject: &Arc<Subject>,
    limits: Limits,
) -> Result<Vec<EvaluatorResult>, GradeError> {
    let seats = Arc::new(Semaphore::new(limits.concurrent.max(1)));
    let mut tasks = JoinSet::new();
    let mut desks = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (at, wanted) in evaluators.iter().enumerate() {
        let time =
            evaluator(&wanted.check).map_or(limits.timeout, |evaluator| evaluator.time(limits.timeout));
        let mut desk = Desk::new(subject, at, &wanted.name, time);
        let (seats, subject, wanted) = (Arc::clone(&seats), Arc::clone(subject), wanted.clone());
        desks.push(desk.clone());
        let task = tasks.spawn(async move {
            let _seat = seats.acquire().await;
            let begin = |trial: &Arc<dyn Trace>| trial.begin(Begin::Evaluator { name: &wanted.name });
            desk.trace = subject.trace.as_ref().map(begin);
            let (mut verdict, took) = one(&wanted, &subject, &desk).await;
            verdict.evaluator.clone_from(&wanted.name);
            verdict.redact(&subject.secrets);
            if let Some(trace) = &desk.trace {
                trace.end(End::Evaluator(&verdict));
            }
            (verdict, took)
        });
        places.insert(task.id(), at);
    }
    let mut found: Vec<Option<(Verdict, Duration)>> = evaluators.iter().map(|_| None).collect();
    while let Some(ended) = tasks.join_next_with_id().await {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(lost) => {
                (lost.id(), (Verdict::unable("it crashed; this is a bug".to_owned()), Duration::ZERO))
            }
        };
        if let Some(place) = places.get(&id).and_then(|at| found.get_mut(*at)) {
            *place = Some(result);
        }
    }
    let mut results = Vec::new();
    for ((wanted, desk), found) in evaluators.iter().zip(&desks).zip(found) {
        let (mut verdict, took) =
            found.unwrap_or_else(|| (Verdict::unable("it was lost".to_owned()), Duration::ZERO));
        desk.clear();
        // Of one that was lost.
        verdict.evaluator.clone_from(&wanted.name);
        desk.keep_json("verdict", VERDICT_FILE, "what the evaluator said", &verdict)?;
        results.push(EvaluatorResult {
            verdict,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            timestamp: Timestamp::now().to_string(),
        });
    }
    remove_tree(&subject.scratch);
    Ok(results)
}

async fn one(wanted: &yb_case::Evaluator, subject: &Subject, desk: &Desk) -> (Verdict, Duration) {
    let began = Instant::now();
    let Some(evaluator) = evaluator(&wanted.check) else {
        return (Verdict::unable(format!("not run by this version: `{}`", wanted.name)), began.elapsed());
    };
    // What is prepared is for all, and has times of its own.
    if evaluator.need() == Need::Tree
        && let Err(error) = prepared(&Preparation::of(subject)).await
    {
        return (Verdict::unable(error.to_string()), began.elapsed());
    }
    let limit = if desk.timeout.is_zero() { desk.timeout } else { desk.timeout + PATIENCE };
    let verdict = tokio::select! {
        verdict = evaluator.evaluate(subject, desk) => verdict,
        () = time_is_over(limit, &subject.bench.pause) => {
            Err(GradeError::other(format!("it did not end within {:?}", desk.timeout)))
        }
    };
    (verdict.unwrap_or_else(|error| Verdict::unable(error.to_string())), began.elapsed())
}

/// Counted in steps: the time in which everything is paused does not count.
async fn time_is_over(limit: Duration, pause: &PauseSwitch) {
    let mut waited = Duration::ZERO;
    while limit.is_zero() || waited < limit {
        tokio::time::sleep(TICK).await;
        if !pause.is_paused() {
            waited += TICK;
        }
    }
}

/// What a trial came to by its verdicts alone. One that could not look never lets a trial pass; but where another says
/// no, the answer is known.
#[must_use]
pub fn outcome(results: &[EvaluatorResult]) -> Outcome {
    let any = |status| results.iter().any(|result| result.status == status);
    if results.iter().any(|result| result.cheating.is_some()) {
        Outcome::Cheating
    } else if any(EvaluatorStatus::Failed) {
        Outcome::Failed
    } else if any(EvaluatorStatus::Skipped) {
        Outcome::GraderError
    } else {
        Outcome::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Assertion;

    #[test]
    fn who_could_not_look_never_lets_a_trial_pass() {
        let result = |verdict| EvaluatorResult { verdict, duration_ms: 0, timestamp: String::new() };
        let passed = || result(Verdict::of(Vec::new()));
        let failed = || result(Verdict::of(vec![Assertion::of("x", false)]));
        let unable = || result(Verdict::unable("no".to_owned()));
        let cheated = || result(Verdict { cheating: Some("tests".to_owned()), ..failed().verdict });
        assert_eq!(outcome(&[passed(), passed()]), Outcome::Passed);
        assert_eq!(outcome(&[passed(), unable()]), Outcome::GraderError);
        assert_eq!(outcome(&[unable(), failed()]), Outcome::Failed);
        assert_eq!(outcome(&[failed(), cheated(), unable()]), Outcome::Cheating);
    }
}
