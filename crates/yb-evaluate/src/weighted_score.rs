//! `weighted-score`: the weighted share of graders that pass, against a threshold. Its kinds of graders and their rules are those of
//! `claude plugin eval`, so that suites of plugins have the same scores here.

mod glob;
mod grader;
mod js_regex;
mod judge;
mod material;
mod read;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::agentic_judge::AgenticJudge;
use super::{
    Assertion, Evaluator, EvaluatorContext, EvaluatorStatus, GradeError, GraderEnv, PreflightError, Subject,
    Trust, Verdict,
};
use grader::{Grader, GraderKind};
use material::Material;
use yb_case::format::Format;
use yb_case::shape::{COUNT, Field, Kind, Object, RELATIVE_PATH, SHARE, TEXT, formatted};
use yb_case::{EvaluatorInput, EvaluatorSpec};

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "weighted-score",
    summary: "the weighted share of graders that pass: regular expressions, tools, files, judges",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read: read::read,
};

static CONFIG: Object = Object {
    name: "weightedScore",
    fields: &[
        Field::new("graders", Kind::List { of: &Kind::Object(&GRADER), min: 1 }, "Graders."),
        Field::new(
            "graders_file",
            RELATIVE_PATH,
            "JSON file with a list of further graders, relative to this file; variables are not expanded.",
        ),
        Field::new("threshold", SHARE, "Minimum score, from 0 to 1.").default("1"),
        Field::new("judge", Kind::Object(&JUDGE), "Judge of the graders `llm` and `baseline`."),
    ],
};

static JUDGE: Object = Object {
    name: "scoreJudge",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type of the judge.").required(),
        Field::new("model", formatted(200, Format::Model), "Model of the judge."),
        Field::new(
            "votes",
            Kind::Whole { min: 1, max: 15 },
            "Number of calls; a grader passes if its mean score is at least 0.5.",
        )
        .default("3"),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Stops a call when its cost reaches this amount.",
        ),
        Field::new("command", yb_case::shape::FREE, "Program for `type: command`."),
    ],
};

const TOOL_CALL: Kind = Kind::Either(&[TEXT, Kind::Object(&CALL)]);

static GRADER: Object = Object {
    name: "grader",
    fields: &[
        Field::new("name", formatted(200, Format::Any), "Name. Required."),
        Field::new("type", Kind::Word(grader::TYPES), "Kind.").required(),
        Field::new("weight", Kind::Number { min: 0.0, max: f64::MAX, above: true }, "Weight.").default("1"),
        Field::new(
            "arm",
            Kind::Word(&["both", "with-only"]),
            "`with-only`: only for variants with a plugin or skill.",
        )
        .default("\"both\""),
        Field::new("scored", Kind::Bool, "Whether it is part of the score; if not, it is only reported.")
            .default("true"),
        Field::new("negate", Kind::Bool, "Whether it passes when its condition does not hold.")
            .default("false"),
        Field::new(
            "pattern",
            yb_case::shape::text(0, usize::MAX),
            "`regex`: a JavaScript regular expression.",
        ),
        Field::new("flags", yb_case::shape::text(0, 8), "`regex`: JavaScript flags, such as `im`."),
        Field::new("match", TEXT, "`regex`: `contains`, `not_contains` or `count:N`.")
            .default("\"contains\""),
        Field::new(
            "target",
            Kind::Either(&[Kind::Word(grader::TARGETS), Kind::Object(&FILE_TARGET)]),
            "`regex` and `json`: what is graded.",
        )
        .default("\"last_message\""),
        Field::new(
            "focus",
            Kind::Either(&[Kind::Word(grader::TARGETS), Kind::Object(&FILE_TARGET)]),
            "`llm`: what is judged.",
        )
        .default("\"last_message\""),
        Field::new("tool", TEXT, "`tool_used`: name of the tool."),
        Field::new(
            "input_match",
            TEXT,
            "`tool_used`: JavaScript regular expression for the input of the call, as JSON without spaces.",
        ),
        Field::new("min", COUNT, "`tool_used`: minimum number of calls.").default("1"),
        Field::new("max", COUNT, "`tool_used`: maximum number of calls."),
        Field::new(
            "before",
            TOOL_CALL,
            "`tool_order`: a tool whose first call comes before that of `after`.",
        ),
        Field::new("after", TOOL_CALL, "`tool_order`: the later tool."),
        Field::new("path", TEXT, "`file_exists`: glob of files that the agent created; `*`, `**` and `?`."),
        Field::new("exists", Kind::Bool, "`file_exists`: whether there must be one.").default("true"),
        Field::new("criteria", TEXT, "`llm` and `baseline`: what the judge decides."),
        Field::new("baseline", TEXT, "`baseline`: the text to compare with."),
        Field::new(
            "max_value",
            Kind::Number { min: 0.0, max: f64::MAX, above: false },
            "`cost` (USD) and `duration` (seconds): the limit.",
        ),
    ],
};

static CALL: Object = Object {
    name: "graderCall",
    fields: &[
        Field::new("tool", TEXT, "Name of the tool.").required(),
        Field::new("input_match", TEXT, "JavaScript regular expression for its input."),
    ],
};

static FILE_TARGET: Object = Object {
    name: "graderFile",
    fields: &[
        Field::new("source", Kind::Word(&["file"]), "Always `file`.").required(),
        Field::new("path", TEXT, "File in the end tree.").required(),
    ],
};

/// Graders, and the score that they must reach.
#[derive(Debug)]
struct WeightedScore {
    graders: Vec<Grader>,
    threshold: f64,
    judge: Option<AgenticJudge>,
}

/// Whether and why a grader passed.
#[derive(Debug, Clone, PartialEq)]
struct Graded {
    passed: bool,
    explanation: String,
}

/// The tolerance of comparing a score with its threshold.
const TOLERANCE: f64 = 1e-9;

#[async_trait]
impl Evaluator for WeightedScore {
    fn timeout(&self, default: Duration) -> Duration {
        self.judge.as_ref().map_or(default, |judge| default.max(judge.timeout(default)))
    }

    fn awaits_a_service(&self) -> bool {
        self.judge.is_some()
    }

    fn check(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        self.judge.as_ref().map_or(Ok(()), |judge| judge.check(env))
    }

    async fn check_availability(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        match &self.judge {
            Some(judge) => judge.check_availability(env).await,
            None => Ok(()),
        }
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let material = Arc::new(Material::collect(subject, &self.graders).await?);
        let judged = match &self.judge {
            Some(judge) => Some(judge.evaluate(subject, context).await?),
            None => None,
        };
        if let Some(judged) = judged.as_ref().filter(|judged| judged.status == EvaluatorStatus::Skipped) {
            return Ok(judged.clone());
        }
        let mut checks = Vec::new();
        let mut details = Vec::new();
        let (mut reached, mut total) = (0.0, 0.0);
        for grader in &self.graders {
            if grader.with_only && !material.has_add_ons {
                continue;
            }
            let mut graded = match &grader.kind {
                GraderKind::Judged { .. } => judge::graded(&grader.name, judged.as_ref()),
                kind => grader::grade(kind, &material).await,
            };
            if grader.negate {
                graded.passed = !graded.passed;
            }
            if grader.scored {
                total += grader.weight;
                reached += if graded.passed { grader.weight } else { 0.0 };
            }
            let mut detail = json!({
                "name": grader.name, "passed": graded.passed, "weight": grader.weight,
                "scored": grader.scored, "explanation": graded.explanation,
            });
            if let GraderKind::Judged { criteria, .. } = &grader.kind {
                detail["criteria"] = json!(criteria);
            }
            details.push(detail);
            let mut check = Assertion::new(&grader.name, graded.passed || !grader.scored);
            check.score = if graded.passed { 1.0 } else { 0.0 };
            checks.push(check.with_message(|| format!("{}: {}", grader.name, graded.explanation)));
        }
        let score = if total > 0.0 { reached / total } else { 1.0 };
        let mut verdict = Verdict::from_checks(checks)
            .metric("score", score)
            .metric("threshold", self.threshold)
            .metric("graders", details);
        let passed = score + TOLERANCE >= self.threshold;
        verdict = verdict.with_summary(&format!("score {score:.2} (minimum {:.2})", self.threshold));
        // A grader that failed does not fail the evaluator as long as the score is reached.
        verdict.status = if passed { EvaluatorStatus::Passed } else { EvaluatorStatus::Failed };
        if passed && verdict.message.starts_with('✗') {
            verdict.message = verdict.message.replacen('✗', "✓", 1);
        }
        verdict.trust = Some(Trust::SelfReported);
        if let Some(judged) = judged {
            verdict.cost_usd = judged.cost_usd;
            verdict.artifacts = judged.artifacts;
        }
        Ok(verdict)
    }
}
