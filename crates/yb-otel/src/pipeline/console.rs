//! The console exporter: lines of OTLP JSON on a writer of the program.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use super::encode::ExportRequest;

/// The writer that `OTEL_TRACES_EXPORTER=console` uses. The library prints nothing itself.
#[derive(Clone)]
pub struct Console(Arc<Mutex<dyn Write + Send>>);

impl Console {
    /// Wraps a writer, such as standard error.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(writer)))
    }

    pub(super) fn write(&self, request: &ExportRequest) -> Result<(), String> {
        let mut line = request.to_json()?;
        line.push(b'\n');
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(&line).and_then(|()| writer.flush()).map_err(|error| format!("console: {error}"))
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Console")
    }
}
