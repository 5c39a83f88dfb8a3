//! Who makes tracers: a provider of any kind, the process's global one, or nobody.

use std::fmt;
use std::sync::Arc;

use opentelemetry::InstrumentationScope;
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, Tracer, TracerProvider};

type Make = dyn Fn(InstrumentationScope) -> BoxedTracer + Send + Sync;

/// A tracer provider whose type is forgotten. Only what implements OpenTelemetry's trait becomes one.
#[derive(Clone)]
pub struct Tracers(Option<Arc<Make>>);

impl Tracers {
    /// Those of this provider.
    pub fn new<P, T, S>(provider: P) -> Self
    where
        P: TracerProvider<Tracer = T> + Send + Sync + 'static,
        T: Tracer<Span = S> + Send + Sync + 'static,
        S: Span + Send + Sync + 'static,
    {
        Self(Some(Arc::new(move |scope| BoxedTracer::new(Box::new(provider.tracer_with_scope(scope))))))
    }

    /// Those of the process's global provider, as it is when a tracer is made.
    #[must_use]
    pub fn global() -> Self {
        Self(Some(Arc::new(global::tracer_with_scope)))
    }

    /// None: nothing is traced.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Whether nothing is traced.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// A tracer of this scope.
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
