//! Exports of a generated run, and trajectories as logs. What other programs read is tested in `youbencha`.

mod atif;
