//! What a statement has spent its time on, for the log of a server.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::{Prepared, Session, Sought, statement::Renewed};
use crate::{
    catalog::statement_uses::ShownPlan,
    explain::{self, Explained},
    plan::HowToExplain,
    types::Environment,
};

/// The parts of a statement's time, and its text. All of it is as of the last statement that began.
#[derive(Clone, Default, Debug)]
pub struct Effort {
    /// The text as other sessions are shown it: bounded, and without passwords.
    pub text: Arc<str>,
    /// The time of its waits for rows, tables and locks of others.
    pub waited: Duration,
    /// Its attempts that lost a conflict.
    pub retries: u32,
}

impl Session {
    /// Returns what the last statement has spent its time on. The waits are returned once.
    pub fn effort(&self) -> Effort {
        let waited = self.registered.presence.footprint.take_waits();
        Effort { text: self.registered.presence.doing().query, waited, retries: self.retries }
    }

    /// Returns the shape of the plan of a text that the session has remembered ([`Prepared::shape`]).
    pub fn shape_of(&self, text: &str) -> Option<String> {
        self.plans.get(&Sought { text, types: &[] }).map(|prepared| prepared.shape())
    }

    /// Returns the time from which on a statement is slow (`log_min_duration_statement`).
    #[inline]
    pub fn slow_after(&self) -> Option<Duration> {
        self.settings.in_force().slow_after
    }

    /// Whether statements that fail are logged (`log_min_error_statement`).
    pub fn logs_failures(&self) -> bool {
        !matches!(self.setting("log_min_error_statement"), Some("log" | "fatal" | "panic"))
    }
}

impl Prepared {
    /// Returns the nodes of the plan, in the order of EXPLAIN; empty: the statement has no plan.
    pub fn shape(&self) -> String {
        let environment = Environment::default();
        // A poisoned plan was not replaced. The lock is not held for long: each run of the statement takes it.
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Renewed::bound);
        let bound = renewed.as_deref().unwrap_or(&self.bound);
        if !bound.plan.is_planned() {
            return String::new();
        }
        let explained = Explained {
            plan: &bound.plan,
            has_estimates: false,
            environment: &environment,
            instrumentation: None,
            planned: bound.took,
            how: HowToExplain::default(),
        };
        let lines = explain::lines(&explained, None);
        lines.iter().map(|line| line.trim_start_matches([' ', '-', '>'])).collect::<Vec<_>>().join("; ")
    }
}

impl ShownPlan for Prepared {
    fn shape(&self) -> String {
        Self::shape(self)
    }
}
