//! Which recorded exchange a request is: what it says, without what no two runs have in common.

pub(crate) mod dialogue;
pub(crate) mod divergence;
pub(crate) mod index;
pub(crate) mod lanes;
pub(crate) mod normal;
