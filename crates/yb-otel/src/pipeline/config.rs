//! Configuration of a pipeline from OpenTelemetry's environment variables, which the caller passes in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opentelemetry_sdk::trace::Sampler;

use super::console::Console;
use crate::content::Redactor;
use crate::names::SemanticConventions;

/// A pipeline that could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The URL of an endpoint is invalid.
    #[error("invalid endpoint in `{variable}`: {reason}")]
    Endpoint {
        /// The variable that holds it.
        variable: String,
        /// The problem. The URL is not repeated, because it may hold a token.
        reason: String,
    },
    /// A header is invalid.
    #[error("invalid header for the OTLP receiver: `{name}`")]
    Header {
        /// The header name. The value may be a token.
        name: String,
    },
    /// A variable has an unsupported value.
    #[error("unsupported value of `{variable}`: `{value}`\nhint: {hint}")]
    Value {
        /// The variable.
        variable: String,
        /// The value.
        value: String,
        /// The supported values.
        hint: &'static str,
    },
    /// TLS could not be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(String),
    /// The trace file could not be opened.
    #[error("failed to open the trace file `{}`: {reason}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The export thread could not be started.
    #[error("failed to start the exporter: {0}")]
    Thread(String),
}

/// The configuration of a pipeline.
///
/// ```
/// use yb_otel::{Pipeline, PipelineConfig};
///
/// # fn main() -> Result<(), yb_otel::PipelineError> {
/// let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"), ("OTEL_SERVICE_NAME", "nightly")];
/// let pipeline = Pipeline::start(&PipelineConfig::new(variables))?;
/// assert!(pipeline.is_enabled());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PipelineConfig {
    variables: BTreeMap<String, String>,
    file: Option<PathBuf>,
    conventions: Option<SemanticConventions>,
    content: Option<bool>,
    redact: Redactor,
    resource: BTreeMap<String, String>,
    console: Option<Console>,
}

impl PipelineConfig {
    /// Creates a configuration from OpenTelemetry's environment variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`: see
    /// [`VARIABLES`](Self::VARIABLES). Without an endpoint nothing is sent.
    pub fn new<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.filter(|(_, value)| !value.is_empty()).collect(), ..Self::default() }
    }

    /// The supported variables.
    pub const VARIABLES: [&'static str; 33] = [
        "OTEL_SDK_DISABLED",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_SEMCONV_STABILITY_OPT_IN",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
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
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
        "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION",
        "OTEL_EXPORTER_OTLP_INSECURE",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_METRIC_EXPORT_INTERVAL",
    ];

    /// Also writes to a file: a line of OTLP JSON for each request.
    pub fn with_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets the writer of the exporter `console`. Without it, that exporter writes nothing.
    pub fn with_console(mut self, console: Console) -> Self {
        self.console = Some(console);
        self
    }

    pub(super) fn console(&self) -> Option<&Console> {
        self.console.as_ref()
    }

    /// Sets the semantic conventions, overriding the variables.
    pub fn with_conventions(mut self, conventions: SemanticConventions) -> Self {
        self.conventions = Some(conventions);
        self
    }

    /// Sets whether content is recorded, overriding the variables.
    pub fn with_content(mut self, content: bool) -> Self {
        self.content = Some(content);
        self
    }

    /// Sets the redactor of everything that is exported.
    pub fn with_redactor(mut self, redact: Redactor) -> Self {
        self.redact = redact;
        self
    }

    /// Adds a resource attribute. The variables override it.
    pub fn with_resource_attribute(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.resource.insert(key.into(), value.into());
        self
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn settings(&self) -> Result<PipelineSettings, PipelineError> {
        let mut disabled =
            self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mut resource = self.resource.clone();
        resource.extend(parse_pairs(self.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()));
        let named = self.get("OTEL_SERVICE_NAME").map(str::to_owned);
        let service_name =
            named.or_else(|| resource.remove("service.name")).unwrap_or_else(|| "youbencha".to_owned());
        resource.remove("service.name");
        let captured = self.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        let captured = captured.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let opt_in = SemanticConventions::from_opt_in(
            self.get(SemanticConventions::OPT_IN),
            SemanticConventions::default(),
        );
        let on_console = ["TRACES", "METRICS", "LOGS"].map(|signal| {
            let wanted = |exporters: &str| exporters.split(',').any(|exporter| exporter.trim() == "console");
            !disabled
                && self.console.is_some()
                && self.get(&format!("OTEL_{signal}_EXPORTER")).is_some_and(wanted)
        });
        let addressed = self.variables.keys().any(|name| name.ends_with("_ENDPOINT"));
        // Without a destination no other variable matters, so none is rejected.
        disabled |= !addressed && self.file.is_none() && !on_console.contains(&true);
        if disabled {
            return Ok(PipelineSettings::default());
        }
        Ok(PipelineSettings {
            traces: self.signal("TRACES", "v1/traces")?,
            metrics: self.signal("METRICS", "v1/metrics")?,
            logs: self.signal("LOGS", "v1/logs")?,
            on_console,
            sampler: self.sampler()?,
            file: self.file.clone(),
            conventions: self.conventions.unwrap_or(opt_in),
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

    /// Returns the sampler. The defaults are those of the specification.
    fn sampler(&self) -> Result<Sampler, PipelineError> {
        const VARIABLE: &str = "OTEL_TRACES_SAMPLER";
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let unsupported = |variable: &str, value: &str, hint| PipelineError::Value {
            variable: variable.to_owned(),
            value: value.to_owned(),
            hint,
        };
        let ratio = || match self.get(ARGUMENT) {
            None => Ok(Sampler::TraceIdRatioBased(1.0)),
            Some(value) => match value.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio)) {
                Some(ratio) => Ok(Sampler::TraceIdRatioBased(ratio)),
                None => Err(unsupported(ARGUMENT, value, "a number from 0 to 1")),
            },
        };
        let parent_based = |root| Sampler::ParentBased(Box::new(root));
        Ok(match self.get(VARIABLE) {
            Some("always_on") => Sampler::AlwaysOn,
            Some("always_off") => Sampler::AlwaysOff,
            Some("traceidratio") => ratio()?,
            None | Some("parentbased_always_on") => parent_based(Sampler::AlwaysOn),
            Some("parentbased_always_off") => parent_based(Sampler::AlwaysOff),
            Some("parentbased_traceidratio") => parent_based(ratio()?),
            Some(other) => {
                let hint = "`always_on`, `always_off`, `traceidratio`, or one of these after `parentbased_`";
                return Err(unsupported(VARIABLE, other, hint));
            }
        })
    }

    fn signal(&self, signal: &str, path: &str) -> Result<Option<SignalSettings>, PipelineError> {
        let unsupported = |variable: String, value: &str, hint| PipelineError::Value {
            variable,
            value: value.to_owned(),
            hint,
        };
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let exporters: Vec<&str> = self.get(&exporter).unwrap_or("otlp").split(',').map(str::trim).collect();
        if let Some(other) = exporters.iter().find(|name| !["otlp", "console", "none"].contains(name)) {
            return Err(unsupported(exporter, other, "`otlp`, `console` or `none`"));
        }
        if !exporters.contains(&"otlp") {
            return Ok(None);
        }
        let signal_variable = |what: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
            match self.get(&own) {
                Some(value) => Some((own, value)),
                None => {
                    let general = format!("OTEL_EXPORTER_OTLP_{what}");
                    self.get(&general).map(|value| (general, value))
                }
            }
        };
        let Some((variable, endpoint)) = signal_variable("ENDPOINT") else { return Ok(None) };
        let protocol = match signal_variable("PROTOCOL") {
            None => Protocol::HttpProtobuf,
            Some((_, "http/protobuf")) => Protocol::HttpProtobuf,
            Some((_, "http/json")) => Protocol::HttpJson,
            Some((_, "grpc")) => Protocol::Grpc,
            Some((variable, other)) => {
                return Err(unsupported(variable, other, "`http/protobuf`, `http/json` or `grpc`"));
            }
        };
        let gzip = match signal_variable("COMPRESSION") {
            None | Some((_, "none")) => false,
            Some((_, "gzip")) => true,
            Some((variable, other)) => return Err(unsupported(variable, other, "`gzip` or `none`")),
        };
        // The general endpoint is a base URL; that of one signal is used as is.
        let whole = variable != ENDPOINT || protocol == Protocol::Grpc;
        let endpoint =
            if whole { endpoint.to_owned() } else { format!("{}/{path}", endpoint.trim_end_matches('/')) };
        // An endpoint of gRPC may be a host and a port.
        let endpoint = if protocol == Protocol::Grpc && !endpoint.contains("://") {
            let insecure = self.get("OTEL_EXPORTER_OTLP_INSECURE");
            let insecure = insecure.is_some_and(|value| value.eq_ignore_ascii_case("true"));
            format!("{}://{endpoint}", if insecure { "http" } else { "https" })
        } else {
            endpoint
        };
        Ok(Some(SignalSettings {
            endpoint,
            variable,
            protocol,
            gzip,
            headers: parse_pairs(signal_variable("HEADERS").map(|(_, value)| value).unwrap_or_default()),
            timeout: Duration::from_millis(self.number("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?),
            certificate: self.get("OTEL_EXPORTER_OTLP_CERTIFICATE").map(|file| Path::new(file).to_owned()),
        }))
    }
}

/// The variable of the endpoint for all signals.
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The OTLP transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    HttpProtobuf,
    HttpJson,
    Grpc,
}

/// The export settings of one signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalSettings {
    pub(super) endpoint: String,
    /// The variable that holds the endpoint.
    pub(super) variable: String,
    pub(super) protocol: Protocol,
    pub(super) gzip: bool,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) certificate: Option<PathBuf>,
}

/// The parsed configuration.
#[derive(Debug, Clone)]
pub(super) struct PipelineSettings {
    pub(super) traces: Option<SignalSettings>,
    pub(super) metrics: Option<SignalSettings>,
    pub(super) logs: Option<SignalSettings>,
    /// Whether traces, metrics and logs are written to the console.
    pub(super) on_console: [bool; 3],
    pub(super) sampler: Sampler,
    pub(super) file: Option<PathBuf>,
    pub(super) conventions: SemanticConventions,
    pub(super) content: bool,
    pub(super) redact: Redactor,
    pub(super) service_name: String,
    pub(super) resource: BTreeMap<String, String>,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
    pub(super) metric_interval: Duration,
}

impl PipelineSettings {
    pub(super) fn is_disabled(&self) -> bool {
        self.traces.is_none()
            && self.metrics.is_none()
            && self.logs.is_none()
            && self.file.is_none()
            && !self.on_console.contains(&true)
    }
}

/// A disabled pipeline.
impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            traces: None,
            metrics: None,
            logs: None,
            on_console: [false; 3],
            sampler: Sampler::AlwaysOff,
            file: None,
            conventions: SemanticConventions::default(),
            content: false,
            redact: Redactor::default(),
            service_name: String::new(),
            resource: BTreeMap::new(),
            queue: 0,
            batch: 0,
            delay: Duration::ZERO,
            metric_interval: Duration::ZERO,
        }
    }
}

/// Parses comma-separated `key=value` pairs, percent-encoded as in W3C baggage.
fn parse_pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (percent_decode(key.trim()), percent_decode(value.trim()))).collect()
}

fn percent_decode(text: &str) -> String {
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

    fn settings(variables: &[(&str, &str)]) -> Result<PipelineSettings, String> {
        PipelineConfig::new(variables.iter().copied()).settings().map_err(|error| error.to_string())
    }

    #[test]
    fn pipeline_is_disabled_without_an_endpoint() {
        assert!(settings(&[]).unwrap().is_disabled());
        assert!(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().is_disabled());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        assert!(settings(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_disabled());
        let only_traces =
            settings(&[endpoint, ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")]).unwrap();
        assert!(only_traces.traces.is_some() && only_traces.metrics.is_none() && only_traces.logs.is_none());
    }

    #[test]
    fn endpoints_headers_and_resources_follow_the_specification() {
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
        assert_eq!(traces.headers, parse_pairs("api-key=a b,x=y"));
        assert_eq!((settings.service_name.as_str(), settings.resource), ("mine", parse_pairs("a=b")));
        assert_eq!(settings.conventions, SemanticConventions::GenAiLatest);
    }

    #[test]
    fn unsupported_value_is_an_error_that_lists_supported_ones() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        for (variable, value, hint) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "`http/protobuf`, `http/json` or `grpc`"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "`gzip` or `none`"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "`otlp`, `console` or `none`"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "`always_on`, `always_off`"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5", "a number from 0 to 1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "a whole number"),
        ] {
            let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
            assert!(
                settings(&[(variable, value)]).unwrap().is_disabled(),
                "{variable} without a destination"
            );
            let error = settings(&[endpoint, ratio, (variable, value)]).unwrap_err();
            assert!(error.contains(variable) && error.contains(value) && error.contains(hint), "{error}");
        }
    }

    #[test]
    fn invalid_percent_encoding_is_kept() {
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%41"), "%zzA");
    }
}
