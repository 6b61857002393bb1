//! How far a judgement is, for whoever shows it.

/// A step of the work, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: &'static str,
    /// How much of it.
    pub done: u64,
    /// Out of how much.
    pub total: u64,
}

impl Progress {
    pub(crate) fn new(step: &'static str, done: u64, total: u64) -> Self {
        Self { step, done, total }
    }
}
