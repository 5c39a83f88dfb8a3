//! The results of skill evals as the viewer of skill-creator reads them: `benchmark.json`, and `grading.json` of each run.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::html::Page;
use crate::model::{OutcomeClass, Report, Trial};

/// The most of a results file that is read.
const RESULTS_FILE: &str = "results.json";

/// Returns the files: `benchmark.json` first. Trials without a verdict are left out.
#[must_use]
pub fn skill_benchmark(report: &Report) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut runs = Vec::new();
    let mut summaries: BTreeMap<&str, Samples> = BTreeMap::new();
    let mut cases: Vec<&str> = Vec::new();
    for (_, trial) in report.trials() {
        let Some(expectations) = expectations(trial) else { continue };
        if !cases.contains(&trial.case.as_str()) {
            cases.push(&trial.case);
        }
        let position = cases.iter().position(|case| *case == trial.case).unwrap_or_default();
        let number = trial.case.strip_prefix("eval-").and_then(|id| id.parse::<u64>().ok());
        let id = number.unwrap_or(position as u64 + 1);
        let configuration = configuration(&trial.variant);
        let total = expectations.len();
        let passed = expectations.iter().filter(|one| one["passed"] == true).count();
        let rate = passed as f64 / total.max(1) as f64;
        let seconds = trial.duration_ms.unwrap_or_default() as f64 / 1000.0;
        let tokens = trial.tokens.unwrap_or_default();
        let summary =
            json!({ "passed": passed, "failed": total - passed, "total": total, "pass_rate": rate });
        let folder = format!("{}/{configuration}/run-{}", trial.case, trial.repeat);
        pages.push(page(
            format!("{folder}/grading.json"),
            &json!({ "assertion_results": expectations, "expectations": expectations, "summary": summary }),
        ));
        pages.push(page(
            format!("{folder}/timing.json"),
            &json!({ "total_tokens": tokens, "duration_ms": trial.duration_ms }),
        ));
        let samples = summaries.entry(configuration).or_default();
        samples.rates.push(rate);
        samples.seconds.push(seconds);
        samples.tokens.push(tokens as f64);
        runs.push(json!({
            "eval_id": id, "eval_name": trial.case, "configuration": configuration, "run_number": trial.repeat,
            "result": {
                "pass_rate": rate, "passed": passed, "failed": total - passed, "total": total,
                "time_seconds": seconds, "tokens": tokens, "tool_calls": Value::Null,
                "errors": u64::from(trial.error.is_some()),
            },
            "expectations": expectations,
        }));
    }
    let mut run_summary: serde_json::Map<String, Value> =
        summaries.iter().map(|(name, samples)| ((*name).to_owned(), samples.to_json())).collect();
    if let (Some(with), Some(without)) = (summaries.get("with_skill"), summaries.get("without_skill")) {
        let delta = |values: fn(&Samples) -> &[f64]| mean(values(with)) - mean(values(without));
        run_summary.insert(
            "delta".to_owned(),
            json!({
                "pass_rate": delta(|samples| &samples.rates),
                "time_seconds": delta(|samples| &samples.seconds),
                "tokens": delta(|samples| &samples.tokens),
            }),
        );
    }
    let name = report.runs.first().map(|run| run.name.clone()).unwrap_or_default();
    let at = report.runs.first().and_then(|run| run.started_at.clone());
    let benchmark = json!({
        "metadata": { "skill_name": name, "timestamp": at, "evals_run": cases.len() },
        "runs": runs,
        "run_summary": run_summary,
        "notes": [],
    });
    pages.insert(0, page("benchmark.json".to_owned(), &benchmark));
    pages
}

fn page(path: String, value: &Value) -> Page {
    Page { path, text: serde_json::to_string_pretty(value).unwrap_or_default() + "\n" }
}

fn configuration(variant: &str) -> &str {
    match variant {
        "with" => "with_skill",
        "without" => "without_skill",
        other => other,
    }
}

/// Returns the graders of a trial as expectations; `None` if it was not graded.
fn expectations(trial: &Trial) -> Option<Vec<Value>> {
    if !matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Failed) {
        return None;
    }
    let text = fs::read(trial.artifacts.as_ref()?.join(RESULTS_FILE)).ok()?;
    let results: Value = serde_json::from_slice(&text).ok()?;
    let graders = results["evaluators"].as_array()?.iter();
    let graders = graders.filter_map(|evaluator| evaluator["metrics"]["graders"].as_array()).flatten();
    let expectation = |grader: &Value| {
        let text = grader["criteria"].as_str().or(grader["name"].as_str()).unwrap_or_default();
        json!({ "text": text, "passed": grader["passed"], "evidence": grader["explanation"] })
    };
    let all: Vec<Value> = graders.map(expectation).collect();
    (!all.is_empty()).then_some(all)
}

#[derive(Debug, Default)]
struct Samples {
    rates: Vec<f64>,
    seconds: Vec<f64>,
    tokens: Vec<f64>,
}

impl Samples {
    fn to_json(&self) -> Value {
        let [rates, seconds, tokens] = [&self.rates, &self.seconds, &self.tokens].map(|values| {
            let (least, most) = values
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(*x), most.max(*x)));
            json!({ "mean": mean(values), "stddev": deviation(values), "min": least, "max": most })
        });
        json!({ "pass_rate": rates, "time_seconds": seconds, "tokens": tokens })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the standard deviation of a sample; 0 for one value.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TrialOutcome;

    #[test]
    fn benchmark_has_runs_summary_and_gradings() {
        let dir = tempfile::tempdir().unwrap();
        let trial = |variant: &str, passed: bool| {
            let artifacts = dir.path().join(variant);
            fs::create_dir_all(&artifacts).unwrap();
            let graders = json!([{ "name": "a", "criteria": "It greets.", "passed": passed, "explanation": "x" },
                { "name": "b", "passed": true, "explanation": "y" }]);
            let results = json!({ "evaluators": [{ "metrics": { "graders": graders } }] });
            fs::write(artifacts.join(RESULTS_FILE), results.to_string()).unwrap();
            let class = if passed { OutcomeClass::Passed } else { OutcomeClass::Failed };
            Trial {
                case: "eval-7".to_owned(),
                variant: variant.to_owned(),
                repeat: 1,
                duration_ms: Some(1500),
                tokens: Some(30),
                outcome: TrialOutcome { name: "x".to_owned(), class },
                artifacts: Some(artifacts),
                ..Trial::default()
            }
        };
        let run = crate::model::Run {
            id: "r".to_owned(),
            name: "polite".to_owned(),
            condition: "finished".to_owned(),
            started_at: None,
            last_at: None,
            config: None,
            youbencha: None,
            directory: dir.path().to_owned(),
            variants: None,
            pass_rate: None,
            extra: serde_json::Map::new(),
            trials: vec![trial("without", false), trial("with", true)],
        };
        let pages = skill_benchmark(&Report::of(vec![run]));
        let paths: Vec<&str> = pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(paths[0], "benchmark.json");
        assert!(paths.contains(&"eval-7/with_skill/run-1/grading.json"), "{paths:?}");
        let benchmark: Value = serde_json::from_str(&pages[0].text).unwrap();
        assert_eq!(benchmark["runs"][0]["eval_id"], 7);
        assert_eq!(benchmark["runs"][0]["expectations"][0]["text"], "It greets.");
        assert_eq!(benchmark["run_summary"]["delta"]["pass_rate"], 0.5);
        assert_eq!(benchmark["run_summary"]["with_skill"]["tokens"]["mean"], 30.0);
    }
}
