//! Matches requests with recorded exchanges by their conversation, ignoring volatile content.

pub(crate) mod dialogue;
pub(crate) mod divergence;
pub(crate) mod index;
pub(crate) mod lanes;
pub(crate) mod normalize;
