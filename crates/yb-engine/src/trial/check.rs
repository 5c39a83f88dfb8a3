//! Grading without an agent: the start tree as it is, and the reference solution of a case.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::attempt::included;
use super::attempt_dirs::AttemptDirs;
use super::{AttemptContext, Runner, TrialError, eval, expected_tree, hooks};
use yb_case::{Case, EvaluatorInput, Solution};
use yb_evaluate::EvaluatorResult;
use yb_model::log::{Usage, UsageSource};
use yb_model::outcome::Outcome;
use yb_repo::{ResolvedCommit, StartTree};

/// The result of grading without an agent.
#[derive(Debug)]
pub(crate) struct CheckResult {
    pub(crate) outcome: Outcome,
    pub(crate) evaluators: Vec<EvaluatorResult>,
    /// Why the reference solution can't be applied.
    pub(crate) error: Option<String>,
}

/// The reference solution, with its commit if it is one.
pub(crate) type Reference<'a> = (&'a Solution, Option<&'a ResolvedCommit>);

impl Runner {
    /// Prepares a workspace as for a trial, and grades the start tree or the reference solution in place of an agent's result.
    pub(crate) async fn check_once(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        reference: Option<Reference<'_>>,
    ) -> Result<CheckResult, TrialError> {
        let include = included(case)?;
        let (mut sandbox, _) = self.sandbox(case, attempt)?;
        let dirs = AttemptDirs::create(attempt.run, attempt.trial, attempt.number)?;
        let prepared = self
            .prepare_workspace((case, cache), attempt, &dirs, &mut sandbox, &include, &mut |_| {})
            .await?;
        let start = prepared.start;
        self.prepare_grading(case, cache, attempt, &start.tree).await?;
        let end = match reference {
            None => Ok(start.tree.clone()),
            Some((Solution::Command(script), _)) => {
                let branch = &attempt.start.branch;
                let result = hooks::run_before(script, case, &dirs, self, branch, &sandbox).await?;
                if result.succeeded {
                    let end = match &sandbox.overlay {
                        Some(overlay) => {
                            attempt.store.capture_end_of_overlay(&dirs.trial, overlay, &start).await?
                        }
                        None => attempt.store.capture_end(&dirs.trial, &dirs.workspace, &start).await?,
                    };
                    Ok(end.tree)
                } else {
                    Err(format!("`{}`: {}", result.what, result.message))
                }
            }
            Some(reference) => solved(case, attempt, &start, reference).await,
        };
        let result = match end {
            Ok(end) => self.grade_without_agent(case, cache, attempt, (&start.tree, &end), &dirs).await,
            Err(error) => {
                Ok(CheckResult { outcome: Outcome::Failed, evaluators: Vec::new(), error: Some(error) })
            }
        };
        dirs.finish(false);
        result
    }

    /// Grades an end tree with the log of an agent that did nothing.
    pub(crate) async fn grade_without_agent(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        trees: (&str, &str),
        dirs: &AttemptDirs,
    ) -> Result<CheckResult, TrialError> {
        let said = format!("Check of the case: {}", case.name);
        let mut log = eval::manual(said, &dirs.workspace, Timestamp::now(), self.level(case)?.used);
        // An idle agent is cheap: limits of cost and length must not be what fails it.
        log.usage = Usage {
            cost_usd: Some(0.0),
            estimated_cost_usd: Some(0.0),
            source: UsageSource::SelfReported,
            ..Usage::unreported()
        };
        log.execution.num_turns = Some(0);
        log.write(&dirs.artifacts)?;
        let (evaluators, outcome) = self.grade(case, cache, attempt, trees, &Arc::new(log), dirs).await?;
        Ok(CheckResult { outcome, evaluators, error: None })
    }
}

/// Returns the tree of a reference solution that is not a command.
async fn solved(
    case: &Case,
    attempt: &AttemptContext<'_>,
    start: &StartTree,
    (solution, commit): Reference<'_>,
) -> Result<String, String> {
    match solution {
        Solution::Files(files) => {
            attempt.store.overlay(&start.tree, &files.path).await.map_err(|error| error.to_string())
        }
        Solution::Tree(tree) => {
            let solved = Case { expected: Some(tree.clone()), ..case.clone() };
            let found = expected_tree(&solved, attempt.store, &start.tree, commit).await;
            found.unwrap_or_else(|| Err("no solution".to_owned()))
        }
        Solution::Command(_) => Err("a command has no tree".to_owned()),
    }
}

/// Returns the case with the evaluators that can grade without an agent, and the names of the others with the reason. The
/// log of an agent that did nothing can be graded; a reference solution has none.
pub(crate) fn gradable(case: &Case, is_solution: bool, judges: bool) -> (Case, Vec<(String, &'static str)>) {
    let mut left_out = Vec::new();
    let mut kept = case.clone();
    kept.post_evaluation.clear();
    kept.evaluators.retain(|evaluator| {
        let reads_log = evaluator.spec.is_some_and(|spec| spec.input == EvaluatorInput::Log);
        let reason = if !judges && yb_evaluate::calls_a_model(evaluator) {
            "costs money; include it with `--judges`"
        } else if is_solution && reads_log {
            "grades an agent's log, which a solution has not"
        } else {
            return true;
        };
        left_out.push((evaluator.name.clone(), reason));
        false
    });
    (kept, left_out)
}
