//! A tracer provider of any type.

use std::fmt;
use std::sync::Arc;

use opentelemetry::InstrumentationScope;
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, Tracer, TracerProvider};

type MakeTracer = dyn Fn(InstrumentationScope) -> BoxedTracer + Send + Sync;

/// A type-erased tracer provider.
#[derive(Clone)]
pub struct Tracers(Option<Arc<MakeTracer>>);

impl Tracers {
    /// Wraps a tracer provider.
    pub fn new<P, T, S>(provider: P) -> Self
    where
        P: TracerProvider<Tracer = T> + Send + Sync + 'static,
        T: Tracer<Span = S> + Send + Sync + 'static,
        S: Span + Send + Sync + 'static,
    {
        Self(Some(Arc::new(move |scope| BoxedTracer::new(Box::new(provider.tracer_with_scope(scope))))))
    }

    /// Uses the global provider that is set when a tracer is created.
    #[must_use]
    pub fn global() -> Self {
        Self(Some(Arc::new(global::tracer_with_scope)))
    }

    /// Disables tracing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns whether tracing is disabled.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Creates a tracer with this scope.
    #[must_use]
    pub fn tracer(&self, scope: InstrumentationScope) -> BoxedTracer {
        match &self.0 {
            Some(make) => make(scope),
            None => BoxedTracer::new(Box::new(opentelemetry::trace::noop::NoopTracer::new())),
        }
    }
}

impl fmt::Debug for Tracers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Tracers").field(&self.0.is_some()).finish()
    }
}
