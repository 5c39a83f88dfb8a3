//! An OTLP receiver on loopback for traces, metrics and logs over HTTP.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use serde_json::{Map, Value, json};

/// How long a test waits for data.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A received span.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSpan {
    /// Its name.
    pub name: String,
    /// Trace id, in hex.
    pub trace_id: String,
    /// Span id, in hex.
    pub span_id: String,
    /// Parent span id, in hex; empty for a root.
    pub parent_id: String,
    /// Span kind: 1 internal, 3 client.
    pub kind: i32,
    /// Status code: 0 unset, 1 ok, 2 error.
    pub status: i32,
    /// Status message.
    pub message: String,
    /// Start, in Unix nanoseconds.
    pub start: u64,
    /// End, in Unix nanoseconds.
    pub end: u64,
    /// Its attributes.
    pub attributes: Map<String, Value>,
    /// Names of its events.
    pub events: Vec<String>,
    /// Instrumentation scope.
    pub scope: String,
    /// Resource attributes.
    pub resource: Map<String, Value>,
}

/// A received event or log record.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedEvent {
    /// Its name.
    pub name: String,
    /// Trace id, in hex.
    pub trace_id: String,
    /// Span id, in hex.
    pub span_id: String,
    /// Its attributes.
    pub attributes: Map<String, Value>,
}

/// A received metric data point.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedMetric {
    /// Name of the metric.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Attributes of the data point.
    pub attributes: Map<String, Value>,
    /// Number of measurements; 1 for a sum.
    pub count: u64,
    /// Sum of the measurements.
    pub sum: f64,
}

#[derive(Debug, Default)]
struct ReceivedData {
    spans: Vec<ReceivedSpan>,
    events: Vec<ReceivedEvent>,
    metrics: BTreeMap<String, ReceivedMetric>,
    headers: Vec<BTreeMap<String, String>>,
    invalid: Vec<String>,
}

/// The receiver. Stops when dropped.
#[derive(Debug)]
pub struct OtlpReceiver {
    address: SocketAddr,
    received: Arc<Mutex<ReceivedData>>,
    status: Arc<AtomicU16>,
    hangs: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl OtlpReceiver {
    /// Starts listening on a free port.
    ///
    /// # Panics
    /// Panics if it can't listen.
    #[must_use]
    pub fn start() -> Self {
        let listener =
            TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("failed to listen: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
        let receiver = Self {
            address,
            received: Arc::default(),
            status: Arc::new(AtomicU16::new(200)),
            hangs: Arc::default(),
            ended: Arc::default(),
        };
        let (received, status) = (Arc::clone(&receiver.received), Arc::clone(&receiver.status));
        let (hangs, ended) = (Arc::clone(&receiver.hangs), Arc::clone(&receiver.ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (received, status) = (Arc::clone(&received), Arc::clone(&status));
                let (hangs, ended) = (Arc::clone(&hangs), Arc::clone(&ended));
                std::thread::spawn(move || {
                    while hangs.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    // A disconnecting client is not an error.
                    let _ = serve(&stream, &received, &status);
                });
            }
        });
        receiver
    }

    /// Returns the base URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the response status. Requests are only stored if it is 200.
    pub fn respond_with(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// Accepts connections without responding while `hangs` is true.
    pub fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    fn received(&self) -> MutexGuard<'_, ReceivedData> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spans so far, ordered by start.
    ///
    /// # Panics
    /// Panics if an invalid request was received.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        let received = self.received();
        assert!(received.invalid.is_empty(), "not OTLP: {:?}", received.invalid);
        sort_by_start(received.spans.clone())
    }

    /// Waits for a number of spans.
    ///
    /// # Panics
    /// Panics on timeout.
    #[must_use]
    pub fn wait_for_spans(&self, count: usize) -> Vec<ReceivedSpan> {
        let start = Instant::now();
        loop {
            let spans = self.spans();
            if spans.len() >= count {
                return spans;
            }
            assert!(start.elapsed() < TIMEOUT, "received {} of {count} spans: {}", spans.len(), tree(&spans));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the events so far.
    #[must_use]
    pub fn events(&self) -> Vec<ReceivedEvent> {
        self.received().events.clone()
    }

    /// Returns the current metrics, by name and attributes.
    #[must_use]
    pub fn metrics(&self) -> Vec<ReceivedMetric> {
        self.received().metrics.values().cloned().collect()
    }

    /// Returns the headers of every request, including `:path`.
    #[must_use]
    pub fn headers(&self) -> Vec<BTreeMap<String, String>> {
        self.received().headers.clone()
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the accept loop.
        drop(TcpStream::connect(self.address));
    }
}

/// Reads the spans of a file with one OTLP JSON request per line.
///
/// # Panics
/// Panics if the file is invalid.
#[must_use]
#[track_caller]
pub fn spans_in_file(path: &Path) -> Vec<ReceivedSpan> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut received = ReceivedData::default();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if value.get("resourceSpans").is_some() {
            let request = serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}: {line}"));
            store_traces(&mut received, request);
        }
    }
    sort_by_start(received.spans)
}

fn sort_by_start(mut spans: Vec<ReceivedSpan>) -> Vec<ReceivedSpan> {
    // With equal start the longer span comes first, because it is the parent.
    spans.sort_by(|a, b| (a.start, b.end, &a.name).cmp(&(b.start, a.end, &b.name)));
    spans
}

/// Formats the spans as a tree of names, with `ERROR` and the error type after those that failed.
#[must_use]
pub fn tree(spans: &[ReceivedSpan]) -> String {
    fn below(spans: &[ReceivedSpan], parent: &str, depth: usize, text: &mut String) {
        for span in spans.iter().filter(|span| span.parent_id == parent) {
            let kind = span.attributes.get("error.type").and_then(Value::as_str).unwrap_or_default();
            let ended = if span.status == 2 { format!(" ERROR {kind}") } else { String::new() };
            text.push_str(&format!("{}{}{ended}\n", "  ".repeat(depth), span.name));
            below(spans, &span.span_id, depth + 1, text);
        }
    }
    let mut text = String::new();
    let known = |id: &str| spans.iter().any(|span| span.span_id == id);
    let mut roots: Vec<&str> =
        spans.iter().map(|span| span.parent_id.as_str()).filter(|id| !known(id)).collect();
    roots.sort_unstable();
    roots.dedup();
    for root in roots {
        below(spans, root, 0, &mut text);
    }
    text
}

fn serve(stream: &TcpStream, received: &Mutex<ReceivedData>, status: &AtomicU16) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let path = first.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::from([(":path".to_owned(), path.clone())]);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let body = read_body(&mut reader, &headers)?;
        let status = status.load(Ordering::Relaxed);
        {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            if status == 200
                && let Err(error) = decode(&mut received, &path, &headers, &body)
            {
                received.invalid.push(format!("{path}: {error}"));
            }
            received.headers.push(headers.clone());
        }
        let response = format!("HTTP/1.1 {status} .\r\ncontent-length: 0\r\n\r\n");
        (&mut &*stream).write_all(response.as_bytes())?;
        if headers.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            return Ok(());
        }
    }
}

fn read_body(reader: &mut BufReader<&TcpStream>, headers: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let number = |text: &str, radix| u64::from_str_radix(text.trim(), radix).unwrap_or_default();
    if headers.get("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = number(size.split(';').next().unwrap_or_default(), 16);
            reader.take(size).read_to_end(&mut body)?;
            reader.read_line(&mut String::new())?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    let size = headers.get("content-length").map_or(0, |size| number(size, 10));
    reader.take(size).read_to_end(&mut body)?;
    Ok(body)
}

fn decode(
    received: &mut ReceivedData,
    path: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Result<(), String> {
    fn read<T: prost::Message + Default + serde::de::DeserializeOwned>(
        json: bool,
        body: &[u8],
    ) -> Result<T, String> {
        if json {
            serde_json::from_slice(body).map_err(|error| error.to_string())
        } else {
            T::decode(body).map_err(|error| error.to_string())
        }
    }
    let mut plain = Vec::new();
    let body = match headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => {
            flate2::read::GzDecoder::new(body).read_to_end(&mut plain).map_err(|error| error.to_string())?;
            &plain
        }
        _ => body,
    };
    let json = headers.get("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    match path {
        "/v1/traces" => store_traces(received, read(json, body)?),
        "/v1/metrics" => store_metrics(received, read(json, body)?),
        "/v1/logs" => store_logs(received, read(json, body)?),
        _ => return Err("unknown path".to_owned()),
    }
    Ok(())
}

fn store_traces(received: &mut ReceivedData, request: ExportTraceServiceRequest) {
    for resource_spans in request.resource_spans {
        let resource = attributes(&resource_spans.resource.unwrap_or_default().attributes);
        for scope_spans in resource_spans.scope_spans {
            let scope = scope_spans.scope.unwrap_or_default().name;
            received.spans.extend(scope_spans.spans.into_iter().map(|span| ReceivedSpan {
                name: span.name,
                trace_id: hex(&span.trace_id),
                span_id: hex(&span.span_id),
                parent_id: hex(&span.parent_span_id),
                kind: span.kind,
                status: span.status.as_ref().map_or(0, |status| status.code),
                message: span.status.unwrap_or_default().message,
                start: span.start_time_unix_nano,
                end: span.end_time_unix_nano,
                attributes: attributes(&span.attributes),
                events: span.events.into_iter().map(|event| event.name).collect(),
                scope: scope.clone(),
                resource: resource.clone(),
            }));
        }
    }
}

fn store_logs(received: &mut ReceivedData, request: ExportLogsServiceRequest) {
    let scopes = request.resource_logs.into_iter().flat_map(|resource| resource.scope_logs);
    for record in scopes.flat_map(|scope| scope.log_records) {
        received.events.push(ReceivedEvent {
            name: record.event_name,
            trace_id: hex(&record.trace_id),
            span_id: hex(&record.span_id),
            attributes: attributes(&record.attributes),
        });
    }
}

fn store_metrics(received: &mut ReceivedData, request: ExportMetricsServiceRequest) {
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    for metric in scopes.flat_map(|scope| scope.metrics) {
        let points: Vec<(Map<String, Value>, u64, f64)> = match metric.data {
            Some(Data::Histogram(histogram)) => {
                let points = histogram.data_points.into_iter();
                points
                    .map(|point| (attributes(&point.attributes), point.count, point.sum.unwrap_or_default()))
                    .collect()
            }
            Some(Data::Sum(sum)) => {
                let points = sum.data_points.into_iter();
                points
                    .map(|point| {
                        let value = match point.value {
                            Some(Number::AsDouble(value)) => value,
                            Some(Number::AsInt(value)) => value as f64,
                            None => 0.0,
                        };
                        (attributes(&point.attributes), 1, value)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        for (attributes, count, sum) in points {
            let key = format!("{} {}", metric.name, Value::Object(attributes.clone()));
            let (name, unit) = (metric.name.clone(), metric.unit.clone());
            received.metrics.insert(key, ReceivedMetric { name, unit, attributes, count, sum });
        }
    }
}

fn attributes(attributes: &[KeyValue]) -> Map<String, Value> {
    attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), attribute.value.as_ref().map_or(Value::Null, value)))
        .collect()
}

fn value(any: &AnyValue) -> Value {
    match &any.value {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(value)) => json!(value),
        Some(Any::IntValue(value)) => json!(value),
        Some(Any::DoubleValue(value)) => json!(value),
        Some(Any::ArrayValue(array)) => array.values.iter().map(value).collect(),
        Some(Any::KvlistValue(list)) => Value::Object(attributes(&list.values)),
        Some(Any::BytesValue(bytes)) => json!(hex(bytes)),
        _ => Value::Null,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
