//! Extensions: the evaluators that this program knows. `main` chooses them; there is no global registry.

use yb_case::{EvaluatorSpec, EvaluatorSpecs};

/// The components of the engine that a program can add to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Extensions {
    /// The evaluators that a case may name.
    pub evaluators: EvaluatorSpecs,
}

impl Extensions {
    /// Returns the built-in components.
    #[must_use]
    pub fn builtin() -> Self {
        Self { evaluators: yb_evaluate::builtin_evaluators() }
    }

    /// Adds an evaluator. It replaces one of the same name.
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
