//! A run in Phoenix, which recognizes agents, tools and models and counts tokens from the standard
//! attributes alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use yb_testkit::Browser;

use crate::phoenix::Phoenix;
use crate::tracing::World;

#[test]
fn real_claude_run_in_phoenix_has_agents_tools_models_and_tokens() {
    let (world, mut phoenix) = (World::new(), Phoenix::start());
    let outcome = world.run(&[&format!("--otel={}", phoenix.url()), "--otel-content"]).run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stderr.contains("trace"), "{}", outcome.stderr);

    // The database is written asynchronously.
    let spans = phoenix.until("all spans", |phoenix| Some(phoenix.spans()).filter(|spans| spans.len() >= 16));
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for span in &spans {
        let text = |name: &str| span[name].as_str().unwrap_or_default();
        *kinds.entry((text("span_kind"), text("name"))).or_default() += 1;
    }
    let kinds: Vec<_> = kinds.into_iter().map(|((kind, name), count)| (kind, name, count)).collect();
    assert_eq!(
        kinds,
        [
            ("AGENT", "invoke_agent claude-code", 1),
            ("AGENT", "invoke_agent general-purpose", 1),
            ("CHAIN", "run greeting", 1),
            ("CHAIN", "trial greeting--default--1", 1),
            ("EVALUATOR", "evaluate command", 1),
            ("EVALUATOR", "evaluate git-diff", 1),
            ("LLM", "chat claude-opus-5-5", 6),
            ("TOOL", "execute_tool Agent", 1),
            ("TOOL", "execute_tool Bash", 2),
            ("TOOL", "execute_tool Read", 1),
        ]
    );
    let tokens = |span: &Value, name: &str| span["attributes"][format!("llm.token_count.{name}")].as_u64();
    let models: Vec<&Value> = spans.iter().filter(|span| span["span_kind"] == "LLM").collect();
    let mut counted: Vec<(Option<u64>, Option<u64>)> = Vec::new();
    for model in &models {
        assert_eq!(model["attributes"]["llm.model_name"], "claude-opus-5-5");
        counted.push((tokens(model, "prompt"), tokens(model, "completion")));
    }
    let said = |text: &str| {
        let of = |span: &&Value| span["attributes"]["llm.output_messages.0.message.content"] == text;
        models.iter().copied().filter(of).count()
    };
    assert_eq!((said("I look first."), said("The reviewer is content.")), (1, 1));
    // The tokens of subagents are there too.
    counted.sort_unstable();
    let expected = [(10, 5), (10, 5), (10, 5), (10, 5), (107, 20), (200, 30)];
    assert_eq!(counted, expected.map(|(prompt, written)| (Some(prompt), Some(written))));
    // Its list shows at a glance that the run failed, and why.
    let run = spans.iter().find(|span| span["name"] == "run greeting").unwrap();
    assert_eq!(run["status_code"], "ERROR", "{run}");
    assert_eq!(run["attributes"]["input.value"], "Greet by name.", "{run}");
    let output = run["attributes"]["output.value"].as_str().unwrap();
    assert!(output.starts_with("failed, score 0.50"), "{output}");
    // No double counting: the trace has the tokens of the models.
    let sum: u64 = counted.iter().map(|(prompt, written)| prompt.unwrap_or(0) + written.unwrap_or(0)).sum();
    let counted = phoenix.query("{projects{edges{node{tokenCountTotal traceCount}}}}");
    let project = &counted["projects"]["edges"][0]["node"];
    assert_eq!(
        (project["tokenCountTotal"].as_f64(), project["traceCount"].as_u64()),
        (Some(sum as f64), Some(1))
    );

    let first = models.iter().min_by_key(|span| span["start_time"].as_str()).unwrap();
    screenshot(&phoenix, first);

    // The same over gRPC, compressed.
    let grpc = world
        .run(&["--otel"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", phoenix.grpc_url())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .run();
    assert_eq!(grpc.code, Some(1), "{}{}", grpc.stdout, grpc.stderr);
    assert!(!grpc.stderr.contains("trace"), "{}", grpc.stderr);
    phoenix.until("the spans over gRPC", |phoenix| (phoenix.spans().len() >= 32).then_some(()));
}

/// For docs/guides/tracing.md: saves screenshots to the directory in `YB_SCREENSHOTS`.
fn screenshot(phoenix: &Phoenix, span: &Value) {
    let Some(folder) = std::env::var_os("YB_SCREENSHOTS") else { return };
    let answer = phoenix.query("{projects{edges{node{id}}}}");
    let project = answer["projects"]["edges"][0]["node"]["id"].as_str().unwrap();
    let (trace, span) = (span["context"]["trace_id"].as_str().unwrap(), span["id"].as_str().unwrap());
    let mut browser = Browser::start();
    browser.set_viewport(1280, 860, "light");
    let place = format!("{}/projects/{project}/traces/{trace}?selectedSpanNodeId={span}", phoenix.url());
    browser.open(&place);
    browser.until("document.body.innerText.includes('evaluate git-diff')");
    // Its pages render incrementally.
    std::thread::sleep(std::time::Duration::from_secs(10));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(Path::new(&folder).join("phoenix.png"), browser.screenshot()).unwrap();
    browser.open(&format!("{}/projects/{project}/traces", phoenix.url()));
    browser.until("document.body.innerText.includes('run greeting')");
    std::thread::sleep(std::time::Duration::from_secs(10));
    std::fs::write(Path::new(&folder).join("phoenix-runs.png"), browser.screenshot()).unwrap();
}
