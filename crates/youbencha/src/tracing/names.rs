//! The names of everything in a trace that is not an agent's: of runs, trials and evaluators.

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
pub(super) const COST_USD: &str = "youbencha.cost_usd";
pub(super) const CHEATING: &str = "youbencha.cheating";
/// How many trials came to what: `youbencha.trials.passed`.
pub(super) const TRIALS: &str = "youbencha.trials";

pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const EVALUATION_NAME: &str = "gen_ai.evaluation.name";
pub(super) const EVALUATION_SCORE: &str = "gen_ai.evaluation.score.value";
pub(super) const EVALUATION_LABEL: &str = "gen_ai.evaluation.score.label";
pub(super) const EVALUATION_EXPLANATION: &str = "gen_ai.evaluation.explanation";

pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

/// The kind of a span that no GenAI convention knows, for Phoenix and MLflow, which would show it as unknown. Spans of agents
/// carry none: both tell those by their operation, and MLflow loses the tokens of the cache when it sees this.
pub(super) const KIND: &str = "openinference.span.kind";
pub(super) const CHAIN: &str = "CHAIN";
pub(super) const EVALUATOR: &str = "EVALUATOR";
