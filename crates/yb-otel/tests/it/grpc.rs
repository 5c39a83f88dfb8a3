//! Export over gRPC, compressed or not, with and without TLS, to an HTTP/2 server of another implementation of the framing.

use std::convert::Infallible;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry::Context;
use opentelemetry::trace::{Span as _, Tracer as _};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::net::TcpListener;
use yb_otel::{Console, DroppedTelemetry, Evaluation, Pipeline, PipelineConfig, Redactor, emit_evaluation};

/// A request: its path, its headers and its message.
type Received = Arc<Mutex<Vec<(String, HeaderMap, Vec<u8>)>>>;

/// Starts a server that answers each call with this gRPC status, in the trailers, or in the headers without a message.
async fn start(
    status: &'static str,
    trailers_only: bool,
    tls: Option<tokio_rustls::TlsAcceptor>,
) -> (u16, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Received::default();
    let seen = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, seen) = (tls.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let seen = Arc::clone(&seen);
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let message = unframe(&head.headers, &body);
                        seen.lock().unwrap().push((head.uri.path().to_owned(), head.headers, message));
                        let mut own = HeaderMap::new();
                        own.insert("grpc-status", HeaderValue::from_static(status));
                        let message = if trailers_only { Bytes::new() } else { Bytes::from_static(&[0; 5]) };
                        let trailers = (!trailers_only).then(|| Ok::<_, Infallible>(own.clone()));
                        let mut response =
                            Response::new(Full::new(message).with_trailers(async { trailers }));
                        if trailers_only {
                            response.headers_mut().extend(own);
                        }
                        Ok::<_, Infallible>(response)
                    }
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                // A disconnecting client is not an error.
                match tls {
                    None => drop(server.serve_connection(TokioIo::new(stream), service).await),
                    Some(tls) => {
                        let Ok(stream) = tls.accept(stream).await else { return };
                        drop(server.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
            });
        }
    });
    (port, received)
}

/// Returns the message of a frame, decompressed.
fn unframe(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let (head, message) = body.split_at(5);
    assert_eq!(u32::from_be_bytes(head[1..].try_into().unwrap()) as usize, message.len());
    let encoding = headers.get("grpc-encoding").map(|value| value.to_str().unwrap());
    assert!([(0, None), (1, Some("gzip"))].contains(&(head[0], encoding)), "{encoding:?}");
    if head[0] == 1 { gunzip(message) } else { message.to_vec() }
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// Exports a span and an event, and returns what was dropped.
async fn export(variables: &[(&str, String)]) -> DroppedTelemetry {
    let pipeline = Pipeline::start(&PipelineConfig::new(variables.iter().cloned())).unwrap();
    pipeline.tracer().start("one").end();
    emit_evaluation(&pipeline.logger(), &Context::new(), &Evaluation::new("judge"), &Redactor::default());
    pipeline.shutdown(Duration::from_secs(30)).await
}

fn variables(endpoint: String) -> Vec<(&'static str, String)> {
    vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b".to_owned()),
    ]
}

#[tokio::test]
async fn grpc_receiver_gets_framed_requests_with_headers() {
    for gzip in [false, true] {
        let (port, received) = start("0", false, None).await;
        // gRPC's endpoint may be a host and a port.
        let mut variables = variables(format!("127.0.0.1:{port}"));
        variables.push(("OTEL_EXPORTER_OTLP_INSECURE", "true".to_owned()));
        if gzip {
            variables.push(("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip".to_owned()));
        }
        let dropped = export(&variables).await;
        assert_eq!(dropped.count, 0, "{dropped}");
        let received = received.lock().unwrap();
        let paths: Vec<&str> = received.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
            ]
        );
        let (_, headers, message) = &received[0];
        assert_eq!(headers["x-key"], "a b");
        assert_eq!(headers["content-type"], "application/grpc");
        assert_eq!(headers["te"], "trailers");
        let request = ExportTraceServiceRequest::decode(&message[..]).unwrap();
        assert_eq!(request.resource_spans[0].scope_spans[0].spans[0].name, "one");
    }
}

#[tokio::test]
async fn grpc_status_decides_whether_telemetry_was_dropped() {
    // Invalid argument, in trailers and in headers: both items are dropped.
    for trailers_only in [false, true] {
        let (port, _) = start("3", trailers_only, None).await;
        let dropped = export(&variables(format!("http://127.0.0.1:{port}"))).await;
        assert_eq!(dropped.count, 2, "{dropped}");
        assert!(dropped.reason.unwrap().ends_with("gRPC status 3 (invalid argument)"));
    }
    // Unimplemented: the receiver accepts traces only, but it refused a trace here.
    let (port, _) = start("12", true, None).await;
    assert_eq!(export(&variables(format!("http://127.0.0.1:{port}"))).await.count, 1);
    // Unavailable is retried.
    let (port, received) = start("14", true, None).await;
    assert_eq!(export(&variables(format!("http://127.0.0.1:{port}"))).await.count, 2);
    assert_eq!(received.lock().unwrap().len(), 6, "each request three times");
}

#[tokio::test]
async fn grpc_uses_tls_with_the_configured_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let roots = dir.path().join("made.pem");
    std::fs::write(&roots, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (port, received) = start("0", false, Some(Arc::new(config).into())).await;
    let mut variables = variables(format!("https://localhost:{port}"));
    variables.push(("OTEL_EXPORTER_OTLP_CERTIFICATE", roots.display().to_string()));
    let dropped = export(&variables).await;
    assert_eq!((dropped.count, received.lock().unwrap().len()), (0, 2), "{dropped}");
}

#[tokio::test]
async fn samplers_and_exporters_follow_the_variables() {
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for (sampler, argument, sampled) in [
        ("always_on", "", 40),
        ("always_off", "", 0),
        ("traceidratio", "0", 0),
        ("parentbased_traceidratio", "1", 40),
        ("parentbased_always_off", "", 0),
    ] {
        let written = Written::default();
        let variables = [
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_TRACES_SAMPLER", sampler),
            ("OTEL_TRACES_SAMPLER_ARG", argument),
        ];
        let config = PipelineConfig::new(variables).with_console(Console::new(written.clone()));
        let pipeline = Pipeline::start(&config).unwrap();
        assert!(pipeline.is_enabled());
        for _ in 0..40 {
            pipeline.tracer().start("one").end();
        }
        assert_eq!(pipeline.shutdown(Duration::from_secs(30)).await.count, 0);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("\"name\":\"one\"").count(), sampled, "{sampler}");
    }
}
