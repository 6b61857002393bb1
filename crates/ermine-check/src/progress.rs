//! Progress of a judgement, for callers that display it.

/// A step of the work, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: &'static str,
    /// Units done.
    pub done: u64,
    /// Units in total.
    pub total: u64,
}

impl Progress {
    pub(crate) fn new(step: &'static str, done: u64, total: u64) -> Self {
        Self { step, done, total }
    }
}
