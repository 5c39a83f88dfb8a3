//! One grader: its kind, and the rules by which it passes.

use super::Graded;
use super::glob;
use super::js_regex::JsRegex;
use super::material::{Call, Material};

/// The kinds of graders.
pub(super) const TYPES: &[&str] =
    &["regex", "tool_used", "tool_order", "file_exists", "llm", "baseline", "json", "cost", "duration"];
/// What a grader can read, besides a file.
pub(super) const TARGETS: &[&str] = &["last_message", "trace", "files"];

/// A grader.
#[derive(Debug, Clone)]
pub(super) struct Grader {
    pub(super) name: String,
    pub(super) weight: f64,
    /// Whether it is only for variants with a plugin or skill.
    pub(super) with_only: bool,
    pub(super) scored: bool,
    pub(super) negate: bool,
    pub(super) kind: GraderKind,
}

/// The condition of a grader.
#[derive(Debug, Clone)]
pub(super) enum GraderKind {
    Regex {
        regex: JsRegex,
        rule: MatchRule,
        target: Target,
    },
    ToolUsed {
        call: CallPattern,
        min: u64,
        max: Option<u64>,
    },
    ToolOrder {
        before: CallPattern,
        after: CallPattern,
    },
    FileExists {
        glob: String,
        exists: bool,
    },
    /// `llm` and `baseline`: the text that the judge decides about.
    Judged {
        text: String,
        /// The criteria of the suite alone.
        criteria: String,
    },
    Json {
        target: Target,
    },
    MaxCost {
        usd: f64,
    },
    MaxDuration {
        seconds: f64,
    },
}

/// How often a regular expression must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchRule {
    Contains,
    NotContains,
    Count(usize),
}

/// What a grader reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    LastMessage,
    Trace,
    Files,
    File(String),
}

impl Target {
    pub(super) fn label(&self) -> String {
        match self {
            Self::LastMessage => "last_message".to_owned(),
            Self::Trace => "trace".to_owned(),
            Self::Files => "files".to_owned(),
            Self::File(path) => format!("file {path}"),
        }
    }
}

/// Selects tool calls.
#[derive(Debug, Clone)]
pub(super) struct CallPattern {
    pub(super) tool: String,
    pub(super) input: Option<JsRegex>,
}

/// Returns whether and why a grader passes. A search that takes too long fails it.
pub(super) async fn grade(kind: &GraderKind, material: &Material) -> Graded {
    let result = match kind {
        GraderKind::Regex { regex, rule, target } => grade_regex(regex, *rule, target, material).await,
        GraderKind::ToolUsed { call, min, max } => tool_used(call, *min, *max, material).await,
        GraderKind::ToolOrder { before, after } => tool_order(before, after, material).await,
        GraderKind::FileExists { glob: pattern, exists } => {
            let found = material.created.iter().any(|path| glob::matches(pattern, path));
            let explanation = match (found, exists) {
                (true, true) => format!("{pattern} exists as expected"),
                (false, false) => format!("{pattern} absent as expected"),
                (true, false) => format!("{pattern} exists (expected absent)"),
                (false, true) => format!("{pattern} missing (expected present)"),
            };
            Ok((found == *exists, explanation))
        }
        GraderKind::Judged { .. } => Err("no judge".to_owned()),
        GraderKind::Json { target } => material.text(target).map(|text| {
            let error = serde_json::from_str::<serde::de::IgnoredAny>(text.trim()).err();
            (
                error.is_none(),
                error.map_or_else(|| "valid JSON".to_owned(), |error| format!("not JSON: {error}")),
            )
        }),
        GraderKind::MaxCost { usd } => Ok(match material.cost_usd {
            Some(cost) => (cost <= *usd, format!("cost ${cost:.4} (maximum ${usd:.4})")),
            None => (false, "the cost is unknown".to_owned()),
        }),
        GraderKind::MaxDuration { seconds } => {
            let taken = material.seconds;
            Ok((taken <= *seconds, format!("took {taken:.1} s (maximum {seconds:.1} s)")))
        }
    };
    let (passed, explanation) = result.unwrap_or_else(|reason| (false, reason));
    Graded { passed, explanation }
}

const TOO_SLOW: &str = "the search took more than 10 s";

async fn grade_regex(
    regex: &JsRegex,
    rule: MatchRule,
    target: &Target,
    material: &Material,
) -> Result<(bool, String), String> {
    let text = material.text(target)?;
    // One match more than expected suffices.
    let limit = match rule {
        MatchRule::Count(_) => usize::MAX,
        _ => 1,
    };
    let found = regex.count(text, limit).await.ok_or(TOO_SLOW)?;
    Ok(match rule {
        MatchRule::Contains if found > 0 => (true, format!("matched {}", regex.source)),
        MatchRule::Contains => (false, format!("pattern not found in {}", target.label())),
        MatchRule::NotContains if found == 0 => (true, "pattern absent as expected".to_owned()),
        MatchRule::NotContains => (false, format!("pattern found in {}", target.label())),
        MatchRule::Count(wanted) => (found == wanted, format!("found {found} matches (expected {wanted})")),
    })
}

async fn matches(pattern: &CallPattern, call: &Call) -> Result<bool, String> {
    if call.name != pattern.tool {
        return Ok(false);
    }
    match &pattern.input {
        Some(regex) => Ok(regex.count(&call.input, 1).await.ok_or(TOO_SLOW)? > 0),
        None => Ok(true),
    }
}

async fn tool_used(
    pattern: &CallPattern,
    min: u64,
    max: Option<u64>,
    material: &Material,
) -> Result<(bool, String), String> {
    let mut times = 0;
    for call in &material.calls {
        times += u64::from(matches(pattern, call).await?);
    }
    let limit = max.map_or_else(|| "∞".to_owned(), |max| max.to_string());
    let passed = times >= min && max.is_none_or(|max| times <= max);
    Ok((passed, format!("{} called {times}x (expected {min}..{limit})", pattern.tool)))
}

async fn first(pattern: &CallPattern, material: &Material) -> Result<Option<usize>, String> {
    for (at, call) in material.calls.iter().enumerate() {
        if matches(pattern, call).await? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

async fn tool_order(
    before: &CallPattern,
    after: &CallPattern,
    material: &Material,
) -> Result<(bool, String), String> {
    Ok(match (first(before, material).await?, first(after, material).await?) {
        (None, _) => (false, format!("\"before\" tool {} never called", before.tool)),
        (_, None) => (false, format!("\"after\" tool {} never called", after.tool)),
        (Some(one), Some(two)) => {
            let verb = if one < two { "precedes" } else { "does NOT precede" };
            (one < two, format!("{}@{one} {verb} {}@{two}", before.tool, after.tool))
        }
    })
}
