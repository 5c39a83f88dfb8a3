//! Export, dropped telemetry and deadlines of a pipeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::trace::{Span as _, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use tokio::net::{TcpListener, TcpStream};
use yb_otel::{
    Evaluation, Pipeline, PipelineConfig, Redactor, emit_evaluation, parse_traceparent, traceparent,
};
use yb_testkit::{OtlpReceiver, spans_in_file};

use crate::support::Traced;

#[tokio::test]
async fn pipeline_without_a_destination_is_disabled() {
    let pipeline = Pipeline::start(&PipelineConfig::new([("OTEL_SERVICE_NAME", "x")])).unwrap();
    assert!(!pipeline.is_enabled());
    assert!(!pipeline.tracer().start("nothing").is_recording());
    assert_eq!(pipeline.shutdown(Duration::ZERO).await.count, 0);
}

#[tokio::test]
async fn spans_events_and_headers_arrive_without_secrets() {
    let redact = Redactor::from_values([("TOKEN", "hunter2")]);
    let traced =
        Traced::with(|config| config.with_redactor(redact.clone()).with_resource_attribute("a", "b"));
    let parent = parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let mut span = traced.pipeline.tracer().start_with_context("say hunter2", &parent);
    span.set_attribute(KeyValue::new("said", "hunter2!"));
    let context = Context::new().with_span(span);
    assert!(traceparent(&context).starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
    let evaluation =
        Evaluation::new("judge").with_score(0.5).with_label("passed").with_explanation("hunter2 is there");
    emit_evaluation(&traced.pipeline.logger(), &context, &evaluation, &Redactor::default());
    context.span().end();
    let spans = traced.spans().await;
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((span.name.as_str(), span.parent_id.as_str()), ("say [REDACTED:TOKEN]", "b7ad6b7169203331"));
    assert_eq!(span.attributes["said"], "[REDACTED:TOKEN]!");
    assert_eq!(span.resource["service.name"], "youbencha");
    assert_eq!(span.resource["a"], "b");
    let events = traced.receiver.events();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(event.name, "gen_ai.evaluation.result");
    assert_eq!((&event.trace_id, &event.span_id), (&span.trace_id, &span.span_id));
    assert_eq!(event.attributes["gen_ai.evaluation.name"], "judge");
    assert_eq!(event.attributes["gen_ai.evaluation.score.value"], 0.5);
    assert_eq!(event.attributes["gen_ai.evaluation.score.label"], "passed");
    assert_eq!(event.attributes["gen_ai.evaluation.explanation"], "[REDACTED:TOKEN] is there");
}

#[tokio::test]
async fn headers_and_json_follow_the_variables() {
    let receiver = OtlpReceiver::start();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b".to_owned()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json".to_owned()),
    ];
    let pipeline = Pipeline::start(&PipelineConfig::new(variables)).unwrap();
    pipeline.tracer().start("one").end();
    assert_eq!(pipeline.shutdown(Duration::from_secs(30)).await.count, 0);
    assert_eq!(receiver.spans()[0].name, "one");
    let headers = receiver.headers();
    assert_eq!(headers[0]["x-key"], "a b");
    assert_eq!(headers[0]["content-type"], "application/json");
}

#[tokio::test]
async fn requests_are_compressed_on_request() {
    let receiver = OtlpReceiver::start();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip".to_owned()),
    ];
    let pipeline = Pipeline::start(&PipelineConfig::new(variables)).unwrap();
    pipeline.tracer().start("x".repeat(10_000)).end();
    assert_eq!(pipeline.shutdown(Duration::from_secs(30)).await.count, 0);
    let headers = receiver.headers();
    assert_eq!(headers[0]["content-encoding"], "gzip");
    assert!(headers[0]["content-length"].parse::<u64>().unwrap() < 1_000, "{headers:?}");
    assert_eq!(receiver.spans()[0].name.len(), 10_000);
}

#[tokio::test]
async fn file_has_the_same_requests_as_json_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.jsonl");
    let none: [(&str, &str); 0] = [];
    let pipeline = Pipeline::start(&PipelineConfig::new(none).with_file(&path)).unwrap();
    for name in ["one", "two"] {
        pipeline.tracer().start(name).end();
    }
    assert_eq!(pipeline.shutdown(Duration::from_secs(30)).await.count, 0);
    let names: Vec<_> = spans_in_file(&path).into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["one", "two"]);
    let nowhere = PipelineConfig::new(none).with_file(dir.path().join("no/such/place"));
    let error = Pipeline::start(&nowhere).unwrap_err().to_string();
    assert!(error.starts_with("failed to open the trace file `"), "{error}");
}

#[tokio::test]
async fn hanging_receiver_does_not_block_and_drops_are_counted() {
    let traced = Traced::new();
    traced.receiver.hang(true);
    let start = Instant::now();
    for _ in 0..5000 {
        traced.pipeline.tracer().start("span").end();
    }
    let dropped = traced.pipeline.shutdown(Duration::from_millis(300)).await;
    // A guard against a hang, not a measurement.
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(dropped.count, 5000, "{dropped}");
    traced.receiver.hang(false);
    // Telemetry after the shutdown is counted too.
    traced.pipeline.tracer().start("late").end();
    assert_eq!(traced.pipeline.dropped().to_string(), "5001 dropped: the pipeline is shut down");
}

#[tokio::test]
async fn refused_requests_are_retried_only_if_transient_and_counted() {
    let traced = Traced::new();
    traced.receiver.respond_with(400);
    traced.pipeline.tracer().start("span").end();
    let dropped = traced.pipeline.shutdown(Duration::from_secs(30)).await;
    assert_eq!(dropped.count, 1);
    assert!(dropped.reason.unwrap().ends_with("HTTP 400 Bad Request"));
    assert_eq!(traced.receiver.headers().len(), 1);

    let traced = Traced::new();
    traced.receiver.respond_with(503);
    traced.pipeline.tracer().start("span").end();
    let (dropped, ()) = tokio::join!(traced.pipeline.shutdown(Duration::from_secs(30)), async {
        while traced.receiver.headers().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        traced.receiver.respond_with(200);
    });
    assert_eq!(dropped.count, 0, "{dropped}");
    assert_eq!(traced.receiver.spans().len(), 1);
}

#[tokio::test]
async fn unreachable_receiver_is_counted_with_a_reason() {
    let receiver = OtlpReceiver::start();
    let endpoint = receiver.endpoint();
    drop(receiver);
    let pipeline =
        Pipeline::start(&PipelineConfig::new([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)])).unwrap();
    pipeline.tracer().start("span").end();
    let dropped = pipeline.shutdown(Duration::from_secs(30)).await;
    assert_eq!(dropped.count, 1);
    assert!(dropped.reason.unwrap().starts_with("http://127.0.0.1:"));
}

#[tokio::test]
async fn queue_is_bounded_by_bytes() {
    let traced = Traced::new();
    traced.receiver.hang(true);
    let text = "x".repeat(1024 * 1024);
    for _ in 0..3 * 64 {
        let mut span = traced.pipeline.tracer().start("span");
        span.set_attribute(KeyValue::new("text", text.clone()));
        span.end();
    }
    let before = traced.pipeline.dropped();
    let after = traced.pipeline.shutdown(Duration::ZERO).await;
    assert!(before.count > 0 && before.count < 3 * 64, "{before}");
    assert_eq!(before.reason.unwrap(), "the queue is full");
    assert_eq!(after.count, 3 * 64);
}

/// Starts a TLS proxy in front of a receiver and returns its port.
async fn start_tls_proxy(receiver: &OtlpReceiver, tls: tokio_rustls::TlsAcceptor) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let upstream = receiver.endpoint().trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = tls.accept(stream).await else { continue };
            let mut plain = TcpStream::connect(&upstream).await.unwrap();
            // Either side may close first.
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
        }
    });
    port
}

#[tokio::test]
async fn https_trusts_only_the_configured_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let [made, stranger] = ["made.pem", "stranger.pem"].map(|name| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(dir.path().join(name), made.cert.pem()).unwrap();
        made
    });
    drop(stranger);
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let receiver = OtlpReceiver::start();
    let port = start_tls_proxy(&receiver, Arc::new(config).into()).await;
    for (roots, dropped) in [("stranger.pem", 1), ("made.pem", 0)] {
        let variables = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("https://localhost:{port}/v1/traces")),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", dir.path().join(roots).display().to_string()),
        ];
        let pipeline = Pipeline::start(&PipelineConfig::new(variables)).unwrap();
        pipeline.tracer().start(roots).end();
        let lost = pipeline.shutdown(Duration::from_secs(30)).await;
        assert_eq!(lost.count, dropped, "{roots}: {lost}");
    }
    let names: Vec<_> = receiver.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["made.pem"]);
}
