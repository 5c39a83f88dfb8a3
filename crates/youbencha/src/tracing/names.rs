//! Attribute names of run, trial and evaluator spans.

pub(super) const TRACEPARENT: &str = "TRACEPARENT";

pub(super) const RUN_ID: &str = "youbencha.run.id";
pub(super) const RUN_NAME: &str = "youbencha.run.name";
pub(super) const TRIAL: &str = "youbencha.trial";
pub(super) const CASE: &str = "youbencha.case";
pub(super) const VARIANT: &str = "youbencha.variant";
pub(super) const REPEAT: &str = "youbencha.repeat";
pub(super) const ATTEMPT: &str = "youbencha.attempt";
pub(super) const AGENT: &str = "youbencha.agent";
pub(super) const TAGS: &str = "youbencha.tags";
pub(super) const OUTCOME: &str = "youbencha.outcome";
pub(super) const ISOLATION: &str = "youbencha.isolation";
/// The mean score of the evaluators, from 0 to 1; of a run, the mean of its trials.
pub(super) const SCORE: &str = "youbencha.score";
pub(super) const COST_USD: &str = "youbencha.cost_usd";
pub(super) const CHEATING: &str = "youbencha.cheating";
/// Prefix of the number of trials by outcome: `youbencha.trials.passed`.
pub(super) const TRIALS: &str = "youbencha.trials";

/// Input and output for the lists of Phoenix and MLflow, with content only.
pub(super) const INPUT_VALUE: &str = "input.value";
pub(super) const OUTPUT_VALUE: &str = "output.value";

pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const EVALUATION_EVENT: &str = "gen_ai.evaluation.result";
pub(super) const EVALUATION_NAME: &str = "gen_ai.evaluation.name";
pub(super) const EVALUATION_SCORE: &str = "gen_ai.evaluation.score.value";
pub(super) const EVALUATION_LABEL: &str = "gen_ai.evaluation.score.label";
pub(super) const EVALUATION_EXPLANATION: &str = "gen_ai.evaluation.explanation";

pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

/// The span kind for Phoenix and MLflow. Spans of agents have none: both tools recognize their operation, and MLflow would lose
/// cache tokens.
pub(super) const KIND: &str = "openinference.span.kind";
pub(super) const CHAIN: &str = "CHAIN";
pub(super) const EVALUATOR: &str = "EVALUATOR";
