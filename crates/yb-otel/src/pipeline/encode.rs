//! Encodes spans, events and metrics as OTLP requests, with secrets redacted.

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::logs::tonic::group_logs_by_resource_and_scope;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LogBatch, SdkLogRecord};

use prost::Message as _;

use super::queue::TelemetryItem;
use crate::content::Redactor;

/// An OTLP request.
#[derive(Debug)]
pub(super) enum ExportRequest {
    Traces(ExportTraceServiceRequest),
    Logs(ExportLogsServiceRequest),
    Metrics(ExportMetricsServiceRequest),
}

impl ExportRequest {
    pub(super) fn to_protobuf(&self) -> Vec<u8> {
        match self {
            Self::Traces(request) => request.encode_to_vec(),
            Self::Logs(request) => request.encode_to_vec(),
            Self::Metrics(request) => request.encode_to_vec(),
        }
    }

    /// Encodes the request as OTLP JSON.
    pub(super) fn to_json(&self) -> Result<Vec<u8>, String> {
        let json = match self {
            Self::Traces(request) => serde_json::to_vec(request),
            Self::Logs(request) => serde_json::to_vec(request),
            Self::Metrics(request) => serde_json::to_vec(request),
        };
        json.map_err(|error| error.to_string())
    }
}

/// Builds OTLP requests.
pub(super) struct Encoder {
    resource: ResourceAttributesWithSchema,
    redact: Redactor,
}

impl Encoder {
    pub(super) fn new(resource: &Resource, redact: Redactor) -> Self {
        Self { resource: resource.into(), redact }
    }

    /// Returns the requests for these items, each with its number of items.
    pub(super) fn requests(&mut self, items: Vec<TelemetryItem>) -> Vec<(u64, ExportRequest)> {
        let (mut spans, mut events, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for item in items {
            match item {
                TelemetryItem::Span(span) => spans.push(*span),
                TelemetryItem::Event(event) => events.push(*event),
                TelemetryItem::Metrics(metrics) => requests.push((1, ExportRequest::Metrics(*metrics))),
            }
        }
        if !events.is_empty() {
            requests.insert(0, (events.len() as u64, self.logs(&events)));
        }
        if !spans.is_empty() {
            let count = spans.len() as u64;
            let mut resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
            if !self.redact.is_empty() {
                let spans = resource_spans.iter_mut().flat_map(|resource| &mut resource.scope_spans);
                for span in spans.flat_map(|scope| &mut scope.spans) {
                    self.text(&mut span.name);
                    self.attributes(&mut span.attributes);
                    for event in &mut span.events {
                        self.text(&mut event.name);
                        self.attributes(&mut event.attributes);
                    }
                    if let Some(status) = &mut span.status {
                        self.text(&mut status.message);
                    }
                }
            }
            requests.insert(0, (count, ExportRequest::Traces(ExportTraceServiceRequest { resource_spans })));
        }
        requests
    }

    fn logs(&self, events: &[(SdkLogRecord, InstrumentationScope)]) -> ExportRequest {
        let records: Vec<_> = events.iter().map(|(record, scope)| (record, scope)).collect();
        let mut resource_logs = group_logs_by_resource_and_scope(&LogBatch::new(&records), &self.resource);
        if !self.redact.is_empty() {
            let scopes = resource_logs.iter_mut().flat_map(|resource| &mut resource.scope_logs);
            for record in scopes.flat_map(|scope| &mut scope.log_records) {
                self.attributes(&mut record.attributes);
                if let Some(body) = &mut record.body {
                    self.value(body);
                }
            }
        }
        ExportRequest::Logs(ExportLogsServiceRequest { resource_logs })
    }

    fn attributes(&self, attributes: &mut [KeyValue]) {
        for value in attributes.iter_mut().filter_map(|attribute| attribute.value.as_mut()) {
            self.value(value);
        }
    }

    fn value(&self, value: &mut AnyValue) {
        match &mut value.value {
            Some(Value::StringValue(text)) => self.text(text),
            Some(Value::ArrayValue(array)) => {
                array.values.iter_mut().for_each(|value| self.value(value));
            }
            Some(Value::KvlistValue(list)) => self.attributes(&mut list.values),
            _ => {}
        }
    }

    fn text(&self, text: &mut String) {
        *text = self.redact.apply(std::mem::take(text));
    }
}
