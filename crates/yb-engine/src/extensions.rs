//! The extension points of the engine: what a program adds to the built-in agents.

use yb_agents::Adapters;

/// The parts of the engine that a program can extend. The value is passed from `main` to everything that needs it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Extensions {
    /// The agents that cases may name.
    pub adapters: Adapters,
}

impl Extensions {
    /// The built-in extensions.
    #[must_use]
    pub fn builtin() -> Self {
        Self { adapters: Adapters::builtin() }
    }

    /// Adds an agent, or replaces the one with its name.
    #[must_use]
    pub fn with_adapter(mut self, adapter: &'static dyn yb_agents::Adapter) -> Self {
        self.adapters = self.adapters.with(adapter);
        self
    }
}

impl Default for Extensions {
    fn default() -> Self {
        Self::builtin()
    }
}
