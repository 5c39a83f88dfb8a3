//! `agentic-judge`: other agents give each assertion a score, and the scores decide, not what a judge calls them.
//!
//! A judge works in a folder of its own with a copy of the result in it, in the sandbox. What the judged agent wrote reaches
//! it as data only: see `data`. An answer that can't be used is no verdict at all, and never a pass.

mod answer;
mod ask;
mod data;
mod prompt;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{
    Artifact, Assertion, Desk, Evaluator, EvaluatorError, EvaluatorStatus, GradeError, Need, Subject, Verdict,
};
use answer::Answer;
use ask::Asked;
pub use ask::{JudgeError, available, check};
use data::Data;
use yb_case::Judge;

/// How many judges of one trial are asked at once.
const AT_ONCE: usize = 4;
/// Scores are compared with this much tolerance: a mean of equal numbers is not always that number.
const TOLERANCE: f64 = 1e-9;

#[async_trait]
impl Evaluator for Judge {
    fn need(&self) -> Need {
        Need::Tree
    }

    fn time(&self, _usual: Duration) -> Duration {
        // They are asked a few at a time.
        let rounds = (self.panel.len() * self.repeat as usize).div_ceil(AT_ONCE);
        self.timeout * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    async fn evaluate(&self, subject: &Subject, desk: &Desk) -> Result<Verdict, GradeError> {
        let data = Arc::new(Data::of(subject, desk).await?);
        let seats = Arc::new(Semaphore::new(AT_ONCE));
        let mut calls = JoinSet::new();
        let everyone = self.panel.iter().flat_map(|who| (0..self.repeat).map(move |_| who));
        for (at, who) in everyone.enumerate() {
            let (judge, who, data) = (self.clone(), who.clone(), Arc::clone(&data));
            let (subject, desk, seats) = (subject.clone(), desk.clone(), Arc::clone(&seats));
            calls.spawn(async move {
                let _seat = seats.acquire().await;
                (at, ask::ask(&judge, &who, at + 1, &data, &subject, &desk).await)
            });
        }
        let mut asked = Vec::new();
        while let Some(ended) = calls.join_next().await {
            asked.push(ended.map_err(|_| GradeError::other("a judge was lost; this is a bug"))?);
        }
        asked.sort_by_key(|(at, _)| *at);
        let asked: Vec<Asked> = asked.into_iter().map(|(_, asked)| asked).collect();
        Ok(verdict(self, &asked))
    }
}

/// What all answers come to.
fn verdict(judge: &Judge, asked: &[Asked]) -> Verdict {
    let mut answers = Vec::new();
    let mut unusable = Vec::new();
    for (at, one) in asked.iter().enumerate() {
        match &one.answer {
            Ok(answer) => answers.push(answer),
            Err(why) if asked.len() == 1 => unusable.push(why.clone()),
            Err(why) => unusable.push(format!("judge {}: {why}", at + 1)),
        }
    }
    let mut verdict = if unusable.is_empty() {
        scored(judge, &answers)
    } else {
        let message = unusable.join("; ");
        Verdict {
            status: EvaluatorStatus::Skipped,
            message: message.clone(),
            error: Some(EvaluatorError { message }),
            ..Verdict::of(Vec::new())
        }
    };
    let kinds: Vec<&str> = asked.iter().map(|one| one.agent.as_str()).collect();
    let kind = if kinds.windows(2).all(|two| two[0] == two[1]) { json!(kinds.first()) } else { json!(kinds) };
    let models: Vec<Option<&str>> = asked.iter().map(|one| one.model.as_deref()).collect();
    verdict = verdict
        .metric("agent_type", kind)
        .metric("judges", asked.len())
        .metric("models", json!(models))
        .metric("tokens", asked.iter().map(|one| one.tokens).sum::<u64>());
    let known: Vec<f64> = asked.iter().filter_map(|one| one.cost_usd).collect();
    verdict.cost_usd = (!known.is_empty()).then(|| known.iter().sum());
    verdict.artifacts = asked
        .iter()
        .filter_map(|one| one.log.as_ref())
        .map(|path| Artifact::new("log", path.as_str(), "what the judge was told, did and said"))
        .collect();
    verdict
}

/// Status by scores and thresholds; what the judges themselves say stands beside it.
fn scored(judge: &Judge, answers: &[&Answer]) -> Verdict {
    // Where nothing was asserted, the judge's own definition says what it looks at.
    let wanted: Vec<(String, f64)> = if judge.assertions.is_empty() {
        let names = answers.iter().flat_map(|answer| answer.scores.keys().cloned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| (name, judge.threshold)).collect()
    } else {
        judge.assertions.iter().map(|one| (one.name.clone(), one.threshold)).collect()
    };
    let (mut checks, mut scores, mut agreement) = (Vec::new(), Map::new(), Vec::new());
    for (name, threshold) in &wanted {
        let given: Vec<f64> = answers.iter().map(|answer| answer.score(name).unwrap_or(0.0)).collect();
        let mean = given.iter().sum::<f64>() / given.len().max(1) as f64;
        let holds = |score: f64| score >= threshold - TOLERANCE;
        let yes = given.iter().filter(|score| holds(**score)).count();
        agreement.push(yes.max(given.len() - yes) as f64 / given.len().max(1) as f64);
        let check = Assertion::of(name, holds(mean)).found(mean, *threshold);
        let check = Assertion { score: mean, threshold: *threshold, ..check };
        checks.push(check.because(|| format!("{name} ({mean:.2}) below its threshold ({threshold})")));
        scores.insert(name.clone(), json!(given));
    }
    let total = checks.len();
    let mut verdict = Verdict::of(checks);
    verdict.assertions = verdict.checks.iter().map(|one| (one.name.clone(), json!(one.score))).collect();
    let held = total - verdict.failed().count();
    let said: Vec<Value> = answers.iter().map(|answer| json!(answer.status)).collect();
    let messages: Vec<&str> = answers.iter().map(|answer| answer.message.as_str()).collect();
    verdict = verdict.metric("judge_said", said).metric("judge_messages", json!(messages));
    if answers.len() > 1 {
        let least = agreement.iter().copied().fold(1.0, f64::min);
        verdict = verdict.metric("agreement", least).metric("scores", scores);
    }
    verdict.saying(&format!("{held} of {total} assertions hold"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use yb_case::{JudgeAssertion, Panelist};

    fn judge(thresholds: &[(&str, f64)]) -> Judge {
        let assertion = |(name, threshold): &(&str, f64)| JudgeAssertion {
            name: (*name).to_owned(),
            text: "x".to_owned(),
            threshold: *threshold,
            named: true,
        };
        Judge {
            panel: vec![Panelist::default()],
            repeat: 1,
            timeout: Duration::from_secs(1),
            max_budget_usd: None,
            prompt: None,
            instructions: None,
            assertions: thresholds.iter().map(assertion).collect(),
            threshold: 0.7,
            env: Vec::new(),
            dir: std::path::PathBuf::new(),
        }
    }

    fn said(status: &str, scores: &[(&str, f64)]) -> Asked {
        let scores = scores.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect();
        let answer = Answer { status: Some(status.to_owned()), scores, message: "because".to_owned() };
        Asked { answer: Ok(answer), cost_usd: Some(0.25), tokens: 10, ..Asked::default() }
    }

    #[test]
    fn scores_decide_whatever_the_judge_calls_them() {
        let judge = judge(&[("a", 0.7), ("b", 0.9)]);
        let passed = verdict(&judge, &[said("failed", &[("a", 0.7), ("b", 0.9)])]);
        assert_eq!(passed.status, EvaluatorStatus::Passed);
        assert_eq!(passed.metrics["judge_said"], json!(["failed"]));
        let failed = verdict(&judge, &[said("passed", &[("a", 1.0), ("b", 0.89)])]);
        assert_eq!(failed.status, EvaluatorStatus::Failed);
        assert_eq!(failed.message, "✗ 1 of 2 assertions hold | b (0.89) below its threshold (0.9)");
        assert_eq!(failed.assertions["b"], json!(0.89));
        assert_eq!(failed.cost_usd, Some(0.25));
    }

    #[test]
    fn several_judges_are_one_mean_and_their_agreement_is_told() {
        let judge = judge(&[("a", 0.6)]);
        let all = verdict(
            &judge,
            &[said("passed", &[("a", 1.0)]), said("passed", &[("a", 0.9)]), said("failed", &[("a", 0.2)])],
        );
        assert_eq!(all.status, EvaluatorStatus::Passed);
        assert!((all.checks[0].score - 0.7).abs() < 1e-9);
        assert!((all.metrics["agreement"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(all.metrics["scores"]["a"], json!([1.0, 0.9, 0.2]));
        assert_eq!(all.cost_usd, Some(0.75));
    }

    #[test]
    fn one_answer_that_cannot_be_used_leaves_no_verdict_and_still_costs() {
        let judge = judge(&[("a", 0.6)]);
        let lost = Asked { answer: Err("no answer".to_owned()), cost_usd: Some(0.5), ..Asked::default() };
        let all = verdict(&judge, &[said("passed", &[("a", 1.0)]), lost]);
        assert_eq!(all.status, EvaluatorStatus::Skipped);
        assert_eq!(all.error.unwrap().message, "judge 2: no answer");
        assert_eq!(all.cost_usd, Some(0.75));
    }

    #[test]
    fn without_assertions_every_score_that_is_given_counts() {
        let judge = judge(&[]);
        let failed = verdict(&judge, &[said("passed", &[("x", 0.9), ("y", 0.1)])]);
        assert_eq!(failed.status, EvaluatorStatus::Failed);
        assert_eq!(failed.checks.len(), 2);
    }
}
