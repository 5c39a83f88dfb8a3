//! Each session has one span with its outcome and without content.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use yb_claude::Options;
use yb_claude::sdk::{Host, ScriptStep};

use crate::sdk_support::{prompt, script};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("yb_claude")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(format!("span {}", span.metadata().name()));
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn session_is_one_span_without_content() {
    let seen = Seen::default();
    let guard = tracing::subscriber::set_default(seen.clone());
    let done = json!({"type": "result", "subtype": "success", "result": "SECRET", "session_id": "s-1", "total_cost_usd": 0.25});
    let cli = script(json!({}), [prompt(), ScriptStep::Line(done)]);
    let host = Host::new(Options::default().with_model("claude-x")).with_transport(cli);
    host.query("SECRET").text().await.unwrap();
    drop(guard);
    let seen = seen.0.lock().unwrap().join("\n");
    assert_eq!(seen.matches("span claude_session").count(), 1, "{seen}");
    for field in ["model=\"claude-x\"", "session_id=\"s-1\"", "subtype=\"success\"", "cost_usd=0.25"] {
        assert!(seen.contains(field), "{field}: {seen}");
    }
    assert!(!seen.contains("SECRET"), "{seen}");
}
