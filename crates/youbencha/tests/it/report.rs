//! `yb report`: what each format says, where it goes, and what can't be reported.
