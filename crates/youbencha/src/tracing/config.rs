//! Configuration of tracing: command line, then OpenTelemetry variables, then settings.

use std::collections::BTreeMap;

use yb_engine::adapter::{Host, secrets_of};
use yb_engine::config::Settings;
use yb_otel::{Console, PipelineConfig, Redactor, SemanticConventions};

use crate::args::OtelArgs;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Endpoints of single signals, which override the general one.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
];
/// Shorter secrets can't be distinguished from ordinary words.
const MIN_SECRET_LENGTH: usize = 8;
/// The conventional address of a collector.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:4318";
/// The conventional address of a collector for gRPC.
const DEFAULT_GRPC_ENDPOINT: &str = "http://127.0.0.1:4317";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";

/// Returns whether arguments or settings ask for a trace, as opposed to variables alone.
pub(super) fn is_requested(args: &OtelArgs, settings: &Settings) -> bool {
    args.otel.is_some()
        || args.otel_file.is_some()
        || settings.otel_endpoint().is_some()
        || settings.otel_file().is_some()
}

pub(super) fn pipeline_config(
    args: &OtelArgs,
    settings: &Settings,
    env: &BTreeMap<String, String>,
) -> PipelineConfig {
    let mut config = PipelineConfig::new(variables(args, settings, env))
        .with_redactor(secrets(env))
        // Results are on standard output.
        .with_console(Console::new(std::io::stderr()))
        .with_resource_attribute("service.version", env!("CARGO_PKG_VERSION"));
    if let Some(file) = args.otel_file.clone().or_else(|| settings.otel_file()) {
        config = config.with_file(file);
    }
    if args.otel_content || settings.otel_content() {
        config = config.with_content(true);
    }
    match settings.otel_vocabulary().and_then(SemanticConventions::from_name) {
        Some(vocabulary) => config.with_conventions(vocabulary),
        None => config,
    }
}

/// Returns the OpenTelemetry variables, merged with arguments and settings.
fn variables<'a>(
    args: &'a OtelArgs,
    settings: &'a Settings,
    env: &'a BTreeMap<String, String>,
) -> BTreeMap<&'static str, &'a str> {
    let given = PipelineConfig::VARIABLES.iter().filter_map(|name| Some((*name, env.get(*name)?.as_str())));
    let mut variables: BTreeMap<&'static str, &str> = given.filter(|(_, value)| !value.is_empty()).collect();
    if args.otel.is_some() || args.otel_file.is_some() {
        variables.remove("OTEL_SDK_DISABLED");
        if variables.get(TRACES_EXPORTER) == Some(&"none") {
            variables.remove(TRACES_EXPORTER);
        }
    }
    let addressed = variables.contains_key(ENDPOINT) || variables.contains_key(ENDPOINTS[0]);
    match &args.otel {
        Some(Some(url)) => {
            variables.retain(|name, _| !ENDPOINTS.contains(name));
            variables.insert(ENDPOINT, url);
        }
        Some(None) if !addressed => {
            let grpc = variables.get(PROTOCOL) == Some(&"grpc");
            let default = if grpc { DEFAULT_GRPC_ENDPOINT } else { DEFAULT_ENDPOINT };
            variables.insert(ENDPOINT, settings.otel_endpoint().unwrap_or(default));
        }
        None if !addressed => variables.extend(settings.otel_endpoint().map(|url| (ENDPOINT, url))),
        _ => {}
    }
    variables
}

/// Returns the secrets of the environment, to be redacted.
fn secrets(env: &BTreeMap<String, String>) -> Redactor {
    let found = secrets_of(&Host::new(env)).into_iter().filter(|(_, value)| value.len() >= MIN_SECRET_LENGTH);
    Redactor::from_values(found.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the endpoint of traces.
    fn endpoint(
        otel: Option<Option<&str>>,
        configured: Option<&str>,
        env: &[(&str, &str)],
    ) -> Option<String> {
        let args = OtelArgs { otel: otel.map(|url| url.map(str::to_owned)), ..OtelArgs::default() };
        let settings = match configured {
            Some(url) => Settings::default().with_argument("otel.endpoint", url),
            None => Settings::default(),
        };
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let variables = variables(&args, &settings, &env);
        let named = variables.get(ENDPOINTS[0]).or_else(|| variables.get(ENDPOINT));
        named.filter(|_| !variables.contains_key("OTEL_SDK_DISABLED")).map(|url| (*url).to_owned())
    }

    #[test]
    fn arguments_override_variables_and_variables_override_settings() {
        let env = [(ENDPOINT, "variable")];
        assert_eq!(endpoint(None, None, &[]), None);
        assert_eq!(endpoint(None, None, &[(ENDPOINT, "")]), None);
        assert_eq!(endpoint(None, Some("settings"), &[]).as_deref(), Some("settings"));
        assert_eq!(endpoint(None, Some("settings"), &env).as_deref(), Some("variable"));
        assert_eq!(endpoint(Some(None), None, &[]).as_deref(), Some(DEFAULT_ENDPOINT));
        assert_eq!(endpoint(Some(None), Some("settings"), &[]).as_deref(), Some("settings"));
        assert_eq!(endpoint(Some(None), Some("settings"), &env).as_deref(), Some("variable"));
        let own = [(ENDPOINT, "variable"), (ENDPOINTS[0], "traces")];
        assert_eq!(endpoint(None, None, &own).as_deref(), Some("traces"));
        assert_eq!(endpoint(Some(Some("typed")), Some("settings"), &own).as_deref(), Some("typed"));
        assert_eq!(endpoint(Some(None), None, &[(PROTOCOL, "grpc")]).as_deref(), Some(DEFAULT_GRPC_ENDPOINT));
        let disabled = [(ENDPOINT, "variable"), ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(endpoint(None, None, &disabled), None);
        assert_eq!(endpoint(Some(None), None, &disabled).as_deref(), Some("variable"));
    }
}
