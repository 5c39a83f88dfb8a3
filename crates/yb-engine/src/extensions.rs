//! The extension points of the engine: agents and evaluators. `main` chooses them; there is no global registry.

use yb_agents::{Adapter, Adapters};
use yb_case::{EvaluatorSpec, EvaluatorSpecs, LoadOptions};

/// The parts of the engine that a program can extend. The value is passed from `main` to everything that needs it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Extensions {
    /// The agents that cases may name.
    pub adapters: Adapters,
    /// The evaluators that cases may name.
    pub evaluators: EvaluatorSpecs,
}

impl Extensions {
    /// The built-in agents and evaluators.
    #[must_use]
    pub fn builtin() -> Self {
        Self { adapters: Adapters::builtin(), evaluators: yb_evaluate::builtin_evaluators() }
    }

    /// Options of loading files that name these agents and evaluators.
    #[must_use]
    pub fn load_options(&self) -> LoadOptions {
        LoadOptions::new(self.adapters.specs(), self.evaluators.clone())
    }

    /// Adds an agent, or replaces the one with its name.
    #[must_use]
    pub fn with_adapter(mut self, adapter: &'static dyn Adapter) -> Self {
        self.adapters = self.adapters.with(adapter);
        self
    }

    /// Adds an evaluator, or replaces the one with its name.
    #[must_use]
    pub fn with_evaluator(mut self, spec: &'static EvaluatorSpec) -> Self {
        self.evaluators = self.evaluators.with(spec);
        self
    }
}

impl Default for Extensions {
    fn default() -> Self {
        Self::builtin()
    }
}
