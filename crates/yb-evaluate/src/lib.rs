//! Grading: runs the evaluators of a case on a finished trial and returns their verdicts.
//!
//! An evaluator is one file (its [`EvaluatorSpec`](yb_case::EvaluatorSpec), the parsed configuration, and the
//! [`Evaluator`] implementation) and one line in the registry.
//!
//! Grading does not need the workspace of the trial: a [`GraderRoot, Subject`] is made from the run's `objects.git` and the agent's
//! log, and the same subject gives byte-identical [`Verdict`]s. Durations are kept apart, in [`EvaluatorResult`].

mod activation;
mod agentic_judge;
mod answer;
mod budget;
mod command;
mod env;
mod evaluator;
mod expected_diff;
mod failures;
mod files;
#[cfg(test)]
mod fixtures;
mod git_diff;
mod grade;
mod manifest;
mod prepare;
mod probe;
mod program;
mod protect;
mod recorded_calls;
mod registry;
mod reward_file;
mod runner_rules;
mod shadow;
mod similarity;
mod subject;
mod test_report;
mod trajectory;
mod tree;
mod weighted_score;

pub use evaluator::{
    Evaluator, GradeError, PreflightError, calls_a_model, check, check_availability, into_config,
    is_supported, needs_tree,
};
pub use git_diff::PATCH_FILE;
pub use grade::{GradeOptions, grade, outcome};
pub use prepare::{Preparation, prepare};
pub use registry::builtin_evaluators;
pub use subject::{EvaluatorContext, FOLDER, GraderEnv, GraderRoot, Subject, VERDICT_FILE};
pub use yb_model::verdict::{
    Artifact, Assertion, EvaluatorError, EvaluatorResult, EvaluatorStatus, Failure, GradedCode, Trust,
    Verdict,
};
