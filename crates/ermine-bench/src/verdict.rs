//! Conditions that must hold of the data, and whether they do.

use std::fmt;

use ermine::Scheme;
use serde::Serialize;

/// Result of one condition.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The number of the condition in the rules, or the name of a condition of our own.
    pub condition: &'static str,
    /// The condition in words.
    pub statement: &'static str,
    /// Number of comparisons.
    pub compared: u64,
    /// Number of comparisons that failed.
    pub faults: u64,
    /// The first differences.
    pub examples: Vec<String>,
}

/// Maximum number of differences shown for one condition.
const EXAMPLES_MAX: usize = 3;

impl Verdict {
    /// Creates a verdict with no comparisons yet.
    pub fn new(condition: &'static str, statement: &'static str) -> Self {
        Self { condition, statement, compared: 0, faults: 0, examples: Vec::new() }
    }

    /// Counts a comparison; `difference` is called only if it does not hold.
    pub fn compare(&mut self, holds: bool, difference: impl FnOnce() -> String) {
        self.compared += 1;
        if !holds {
            self.faults += 1;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(difference());
            }
        }
    }

    /// Whether it holds. A condition that was never compared does not.
    pub fn holds(&self) -> bool {
        self.faults == 0 && self.compared > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "PASS" } else { "FAIL" };
        write!(f, "{verdict}  {:<7}  {}", self.condition, self.statement)?;
        if !self.holds() {
            write!(f, ": {} of {} differ", self.faults, self.compared)?;
        }
        self.examples.iter().try_for_each(|example| write!(f, "\n        {example}"))
    }
}

/// Whether all conditions hold.
pub fn all_hold(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(Verdict::holds)
}

/// The schemes that promise a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// All schemes: rows are whole, and nothing of an aborted attempt stays.
    Always,
    /// All schemes except read committed, which permits lost updates.
    NoLostUpdates,
    /// The serializable schemes.
    Serializable,
}

impl Promise {
    fn made_by(self, scheme: Scheme) -> bool {
        match self {
            Self::Always => true,
            Self::NoLostUpdates => scheme != Scheme::Rc,
            Self::Serializable => scheme.is_serializable(),
        }
    }
}

/// A verdict, and whether the scheme that ran has promised it.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The result of the condition.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The scheme that ran.
    #[serde(serialize_with = "crate::report::scheme_name")]
    pub scheme: Scheme,
    /// The schemes that promise it.
    pub promise: Promise,
}

impl Check {
    /// Whether the condition holds, or does not have to.
    pub fn passes(&self) -> bool {
        self.verdict.holds() || (self.verdict.compared > 0 && !self.promise.made_by(self.scheme))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdict.fmt(f)?;
        if !self.verdict.holds() && self.passes() {
            write!(f, "\n        permitted under {}", self.scheme)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scheme: Scheme, promise: Promise, faults: u64) -> Check {
        let mut verdict = Verdict::new("x", "y");
        (0..10).for_each(|n| verdict.compare(n >= faults, || n.to_string()));
        Check { verdict, scheme, promise }
    }

    #[test]
    fn a_scheme_answers_for_what_it_promises() {
        for promise in [Promise::Always, Promise::NoLostUpdates, Promise::Serializable] {
            assert!(Scheme::ALL.iter().all(|&scheme| check(scheme, promise, 0).passes()));
            assert!(!check(Scheme::SiSsn, promise, 1).passes());
        }
        assert!(check(Scheme::Si, Promise::Serializable, 1).passes());
        assert!(!check(Scheme::Si, Promise::NoLostUpdates, 1).passes());
        assert!(check(Scheme::Rc, Promise::NoLostUpdates, 1).passes());
        assert!(!check(Scheme::Rc, Promise::Always, 1).passes());
    }

    #[test]
    fn what_was_never_compared_does_not_pass() {
        let (verdict, scheme, promise) = (Verdict::new("x", "y"), Scheme::Si, Promise::Serializable);
        assert!(!Check { verdict, scheme, promise }.passes());
    }

    #[test]
    fn three_examples_are_kept() {
        assert_eq!(check(Scheme::Si, Promise::Always, 5).verdict.examples.len(), 3);
    }
}
