//! What a pipeline is made from: variables with OpenTelemetry's names, given by the caller and never looked up here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::content::Redact;
use crate::names::Vocabulary;

/// Why there is no pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A receiver's address is none.
    #[error("invalid endpoint in `{variable}`: {reason}")]
    Endpoint {
        /// Where it stands.
        variable: String,
        /// What is wrong; the address itself may hold a token.
        reason: String,
    },
    /// A header can't be sent.
    #[error("invalid header for the OTLP receiver: `{name}`")]
    Header {
        /// Its name; its value may be a token.
        name: String,
    },
    /// A variable has a value that nobody understands.
    #[error("unsupported value of `{variable}`: `{value}`\nhint: {hint}")]
    Value {
        /// Which.
        variable: String,
        /// What it is.
        value: String,
        /// What it may be.
        hint: &'static str,
    },
    /// gRPC was left out of this build.
    #[error("this build does not speak OTLP over gRPC\nhint: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")]
    NoGrpc,
    /// https can't be spoken.
    #[error("failed to prepare TLS: {0}")]
    Tls(String),
    /// The file can't be written.
    #[error("failed to open the trace file `{}`: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no thread to be had.
    #[error("failed to start the exporter: {0}")]
    Thread(String),
}

/// What a pipeline is made from.
///
/// ```
/// use yb_otel::{Pipeline, PipelineConfig};
///
/// # fn main() -> Result<(), yb_otel::PipelineError> {
/// let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"), ("OTEL_SERVICE_NAME", "nightly")];
/// let pipeline = Pipeline::start(&PipelineConfig::new(variables))?;
/// assert!(pipeline.is_on());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PipelineConfig {
    variables: BTreeMap<String, String>,
    file: Option<PathBuf>,
    vocabulary: Option<Vocabulary>,
    content: Option<bool>,
    redact: Redact,
    resource: BTreeMap<String, String>,
}

impl PipelineConfig {
    /// From the variables that OpenTelemetry names, `OTEL_EXPORTER_OTLP_ENDPOINT` and others: see [`VARIABLES`](Self::VARIABLES).
    /// Without an endpoint nothing is sent anywhere.
    pub fn new<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.filter(|(_, value)| !value.is_empty()).collect(), ..Self::default() }
    }

    /// The variables that are understood, so that a caller knows which to hand over.
    pub const VARIABLES: [&'static str; 27] = [
        "OTEL_SDK_DISABLED",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_SEMCONV_STABILITY_OPT_IN",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "OTEL_TRACES_EXPORTER",
        "OTEL_METRICS_EXPORTER",
        "OTEL_LOGS_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_METRIC_EXPORT_INTERVAL",
    ];

    /// The same, written to a file as well: a line of OTLP JSON for each request.
    pub fn with_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// The same in these words, whatever the variables say.
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = Some(vocabulary);
        self
    }

    /// The same with or without what was said, whatever the variables say.
    pub fn with_content(mut self, content: bool) -> Self {
        self.content = Some(content);
        self
    }

    /// The same without these secrets in anything that leaves.
    pub fn with_redact(mut self, redact: Redact) -> Self {
        self.redact = redact;
        self
    }

    /// The same with one more attribute of the resource; the variables win.
    pub fn with_resource_attribute(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.resource.insert(key.into(), value.into());
        self
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn settings(&self) -> Result<Settings, PipelineError> {
        let disabled = self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mut resource = self.resource.clone();
        resource.extend(pairs(self.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()));
        let named = self.get("OTEL_SERVICE_NAME").map(str::to_owned);
        let service_name =
            named.or_else(|| resource.remove("service.name")).unwrap_or_else(|| "youbencha".to_owned());
        resource.remove("service.name");
        let captured = self.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        let captured = captured.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let opt_in = Vocabulary::from_opt_in(self.get(Vocabulary::OPT_IN), Vocabulary::default());
        Ok(Settings {
            traces: if disabled { None } else { self.signal("TRACES", "v1/traces")? },
            metrics: if disabled { None } else { self.signal("METRICS", "v1/metrics")? },
            logs: if disabled { None } else { self.signal("LOGS", "v1/logs")? },
            file: self.file.clone().filter(|_| !disabled),
            vocabulary: self.vocabulary.unwrap_or(opt_in),
            content: self.content.unwrap_or(captured),
            redact: self.redact.clone(),
            service_name,
            resource,
            queue: self.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)? as usize,
            batch: self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)? as usize,
            delay: Duration::from_millis(self.number("OTEL_BSP_SCHEDULE_DELAY", 1000)?),
            metric_interval: Duration::from_millis(self.number("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?),
        })
    }

    fn number(&self, variable: &str, otherwise: u64) -> Result<u64, PipelineError> {
        let Some(value) = self.get(variable) else { return Ok(otherwise) };
        value.parse().map_err(|_| PipelineError::Value {
            variable: variable.to_owned(),
            value: value.to_owned(),
            hint: "a whole number",
        })
    }

    fn signal(&self, signal: &str, path: &str) -> Result<Option<SignalSettings>, PipelineError> {
        let unsupported = |variable: String, value: &str, hint| PipelineError::Value {
            variable,
            value: value.to_owned(),
            hint,
        };
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.get(&exporter) {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(unsupported(exporter, other, "`otlp` or `none`")),
        }
        let of_signal = |what: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
            match self.get(&own) {
                Some(value) => Some((own, value)),
                None => {
                    let general = format!("OTEL_EXPORTER_OTLP_{what}");
                    self.get(&general).map(|value| (general, value))
                }
            }
        };
        let Some((variable, endpoint)) = of_signal("ENDPOINT") else { return Ok(None) };
        let protocol = match of_signal("PROTOCOL") {
            None => Protocol::HttpProtobuf,
            Some((_, "http/protobuf")) => Protocol::HttpProtobuf,
            Some((_, "http/json")) => Protocol::HttpJson,
            Some((_, "grpc")) => Protocol::Grpc,
            Some((variable, other)) => {
                return Err(unsupported(variable, other, "`http/protobuf`, `http/json` or `grpc`"));
            }
        };
        if let Some((variable, value)) = of_signal("COMPRESSION").filter(|(_, value)| *value != "none") {
            return Err(unsupported(variable, value, "`none`"));
        }
        // The general address is a base; that of one signal is meant as it stands.
        let whole = variable != ENDPOINT || protocol == Protocol::Grpc;
        let endpoint =
            if whole { endpoint.to_owned() } else { format!("{}/{path}", endpoint.trim_end_matches('/')) };
        Ok(Some(SignalSettings {
            endpoint,
            variable,
            protocol,
            headers: pairs(of_signal("HEADERS").map(|(_, value)| value).unwrap_or_default()),
            timeout: Duration::from_millis(self.number("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?),
            certificate: self.get("OTEL_EXPORTER_OTLP_CERTIFICATE").map(|file| Path::new(file).to_owned()),
        }))
    }
}

/// The address that is meant for every kind of telemetry.
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// How a receiver is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    HttpProtobuf,
    HttpJson,
    Grpc,
}

/// Where one kind of telemetry goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalSettings {
    pub(super) endpoint: String,
    /// Which variable said so.
    pub(super) variable: String,
    pub(super) protocol: Protocol,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) certificate: Option<PathBuf>,
}

/// What the variables mean.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) traces: Option<SignalSettings>,
    pub(super) metrics: Option<SignalSettings>,
    pub(super) logs: Option<SignalSettings>,
    pub(super) file: Option<PathBuf>,
    pub(super) vocabulary: Vocabulary,
    pub(super) content: bool,
    pub(super) redact: Redact,
    pub(super) service_name: String,
    pub(super) resource: BTreeMap<String, String>,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
    pub(super) metric_interval: Duration,
}

impl Settings {
    pub(super) fn is_off(&self) -> bool {
        self.traces.is_none() && self.metrics.is_none() && self.logs.is_none() && self.file.is_none()
    }
}

/// `key=value` pairs with commas between them, percent-encoded as in W3C baggage.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decoded(key.trim()), decoded(value.trim()))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, String> {
        PipelineConfig::new(variables.iter().copied()).settings().map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_sent_anywhere_unless_told() {
        assert!(settings(&[]).unwrap().is_off());
        assert!(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().is_off());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        assert!(settings(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_off());
        let only_traces =
            settings(&[endpoint, ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")]).unwrap();
        assert!(only_traces.traces.is_some() && only_traces.metrics.is_none() && only_traces.logs.is_none());
    }

    #[test]
    fn endpoints_headers_and_resources_are_read_as_opentelemetry_does() {
        let settings = settings(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host:4318/base/"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://other:1/logs"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = y"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,a=b"),
            ("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental"),
        ])
        .unwrap();
        let traces = settings.traces.unwrap();
        assert_eq!(traces.endpoint, "http://host:4318/base/v1/traces");
        assert_eq!(settings.logs.unwrap().endpoint, "http://other:1/logs");
        assert_eq!(traces.headers, pairs("api-key=a b,x=y"));
        assert_eq!((settings.service_name.as_str(), settings.resource), ("mine", pairs("a=b")));
        assert_eq!(settings.vocabulary, Vocabulary::GenAiLatest);
    }

    #[test]
    fn what_nobody_understands_is_an_error_that_says_what_would_be() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        for (variable, value, says) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "`http/protobuf`, `http/json` or `grpc`"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "`none`"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "`otlp` or `none`"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "a whole number"),
        ] {
            let error = settings(&[endpoint, (variable, value)]).unwrap_err();
            assert!(error.contains(variable) && error.contains(value) && error.contains(says), "{error}");
        }
    }

    #[test]
    fn percent_signs_that_encode_nothing_stay() {
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%41"), "%zzA");
    }
}
