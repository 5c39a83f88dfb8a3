//! Runs the evaluators of a case concurrently, each with its own timeout and isolated from panics of the others.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use yb_supervise::PauseSwitch;

use super::evaluator::evaluator_of;
use super::subject::VERDICT_FILE;
use super::{
    Assertion, EvaluatorContext, EvaluatorResult, EvaluatorStatus, GradeError, Preparation, Subject, Verdict,
    needs_tree, prepare,
};
use yb_agents::trace::{Begin, End, Trace};
use yb_case::ConfiguredEvaluator;
use yb_model::outcome::Outcome;

/// Options for grading a trial.
#[derive(Debug, Clone, Copy)]
pub struct GradeOptions {
    /// How many evaluators run at the same time.
    pub concurrent: usize,
    /// The timeout of each evaluator; zero means no limit.
    pub timeout: Duration,
}

/// How long after its timeout an evaluator is aborted, so that it can report the timeout itself.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Runs all evaluators and writes their verdicts; the results are in the order of the case.
///
/// # Errors
/// When a verdict can't be written. An evaluator that fails is a result, not an error.
pub async fn grade(
    evaluators: &[ConfiguredEvaluator],
    subject: &Arc<Subject>,
    options: GradeOptions,
) -> Result<Vec<EvaluatorResult>, GradeError> {
    let permits = Arc::new(Semaphore::new(options.concurrent.max(1)));
    let mut tasks = JoinSet::new();
    let mut contexts = Vec::new();
    let mut indices = std::collections::HashMap::new();
    for (index, configured) in evaluators.iter().enumerate() {
        let timeout =
            evaluator_of(configured).map_or(options.timeout, |evaluator| evaluator.timeout(options.timeout));
        let mut context = EvaluatorContext::new(subject, index, &configured.name, timeout);
        let (permits, subject, configured) = (Arc::clone(&permits), Arc::clone(subject), configured.clone());
        contexts.push(context.clone());
        let task = tasks.spawn(async move {
            let _permit = permits.acquire().await;
            let begin = |trial: &Arc<dyn Trace>| trial.begin(Begin::Evaluator { name: &configured.name });
            context.trace = subject.trace.as_ref().map(begin);
            let (mut verdict, duration) = run_one(&configured, &subject, &context).await;
            verdict.evaluator.clone_from(&configured.name);
            verdict.redact(&subject.secrets);
            if let Some(trace) = &context.trace {
                trace.end(End::Evaluator(&verdict));
            }
            (verdict, duration)
        });
        indices.insert(task.id(), index);
    }
    let mut found: Vec<Option<(Verdict, Duration)>> = evaluators.iter().map(|_| None).collect();
    while let Some(ended) = tasks.join_next_with_id().await {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => {
                let message = "the evaluator panicked; this is a bug".to_owned();
                (error.id(), (Verdict::skipped(message), Duration::ZERO))
            }
        };
        if let Some(slot) = indices.get(&id).and_then(|index| found.get_mut(*index)) {
            *slot = Some(result);
        }
    }
    let mut results = Vec::new();
    for ((configured, context), found) in evaluators.iter().zip(&contexts).zip(found) {
        let (mut verdict, duration) = found
            .unwrap_or_else(|| (Verdict::skipped("the evaluator has no result".to_owned()), Duration::ZERO));
        context.remove_scratch();
        // The verdict of a panicked evaluator has no name yet.
        verdict.evaluator.clone_from(&configured.name);
        context.write_json("verdict", VERDICT_FILE, "the verdict of the evaluator", &verdict)?;
        results.push(EvaluatorResult {
            verdict,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            timestamp: Timestamp::now().to_string(),
        });
    }
    let _ = yb_repo::remove_tree(&subject.scratch);
    Ok(results)
}

async fn run_one(
    configured: &ConfiguredEvaluator,
    subject: &Subject,
    context: &EvaluatorContext,
) -> (Verdict, Duration) {
    let started = subject.grader_env.pause.stopwatch();
    let Some(evaluator) = evaluator_of(configured) else {
        return (Verdict::skipped(format!("unknown evaluator: `{}`", configured.name)), started.elapsed());
    };
    // Preparation is shared by all evaluators and has its own timeouts.
    if needs_tree(std::slice::from_ref(configured))
        && let Err(error) = prepare(&Preparation::of(subject)).await
    {
        return (Verdict::skipped(error.to_string()), started.elapsed());
    }
    let timeout = context.timeout;
    let limit = if timeout.is_zero() { timeout } else { timeout + GRACE_PERIOD };
    let verdict = tokio::select! {
        verdict = evaluator.evaluate(subject, context) => verdict,
        () = elapsed(limit, &subject.grader_env.pause) => {
            let message = format!("timed out after {timeout:?}");
            if evaluator.awaits_a_service() { Err(GradeError::other(message)) } else { Ok(ungradable(&message)) }
        }
    };
    (verdict.unwrap_or_else(|error| verdict_of(&error, context)), started.elapsed())
}

/// Returns the verdict for an error. What the content of the tree caused is a failure, otherwise an agent could prevent grading.
fn verdict_of(error: &GradeError, context: &EvaluatorContext) -> Verdict {
    let message = error.to_string();
    if error.is_caused_by_content() {
        // Verdicts do not depend on where they are made.
        ungradable(&message.replace(&*context.scratch.to_string_lossy(), "."))
    } else {
        Verdict::skipped(message)
    }
}

/// Returns the verdict about a result that can't be graded because of its content.
fn ungradable(message: &str) -> Verdict {
    let check = Assertion::new("gradable", false).with_message(|| message.to_owned());
    Verdict { message: format!("✗ {message}"), ..Verdict::from_checks(vec![check]) }
}

/// Waits until a limit has elapsed; 0 means no limit. Time during which grading is suspended does not count.
async fn elapsed(limit: Duration, pause: &PauseSwitch) {
    if limit.is_zero() {
        std::future::pending::<()>().await;
    }
    pause.sleep(limit).await;
}

/// Returns the outcome of a trial by its verdicts alone. A skipped evaluator never lets a trial pass, but a failed one decides
/// whatever others were skipped.
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

    #[test]
    fn content_that_can_t_be_graded_fails() {
        let io = |kind: std::io::ErrorKind| GradeError::io("/scratch/1/tree/x")(kind.into());
        assert!(io(std::io::ErrorKind::InvalidFilename).is_caused_by_content());
        assert!(io(std::io::ErrorKind::NotADirectory).is_caused_by_content());
        assert!(!io(std::io::ErrorKind::StorageFull).is_caused_by_content());
        assert!(!io(std::io::ErrorKind::PermissionDenied).is_caused_by_content());
        assert!(!GradeError::other("no program").is_caused_by_content());
        assert_eq!(ungradable("x").status, EvaluatorStatus::Failed);
    }

    #[test]
    fn skipped_evaluator_never_lets_a_trial_pass() {
        let result = |verdict| EvaluatorResult { verdict, duration_ms: 0, timestamp: String::new() };
        let passed = || result(Verdict::from_checks(Vec::new()));
        let failed = || result(Verdict::from_checks(vec![Assertion::new("x", false)]));
        let skipped = || result(Verdict::skipped("no".to_owned()));
        let cheated = || result(Verdict { cheating: Some("tests".to_owned()), ..failed().verdict });
        assert_eq!(outcome(&[passed(), passed()]), Outcome::Passed);
        assert_eq!(outcome(&[passed(), skipped()]), Outcome::GraderError);
        assert_eq!(outcome(&[skipped(), failed()]), Outcome::Failed);
        assert_eq!(outcome(&[failed(), cheated(), skipped()]), Outcome::Cheating);
    }
}
