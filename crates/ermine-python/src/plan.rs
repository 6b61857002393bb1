//! The types of a statement's parameters.
//!
//! They are inferred from the statement where possible. Where nothing can be inferred, or where a value of Python has
//! no direct form in the inferred type, the types that the values have naturally are given, as PostgreSQL's drivers do,
//! and SQL's casts apply.

use std::sync::{Arc, Mutex, PoisonError};

use ermine_sql::types::SqlType;
use pyo3::prelude::*;

/// The types of the parameters of a text.
#[pyclass(frozen, module = "ermine_db._ermine")]
pub struct Plan {
    pub text: Arc<str>,
    /// The types that were given.
    pub given: Box<[Option<SqlType>]>,
    /// The types that follow, of all parameters.
    pub types: Box<[SqlType]>,
    /// The same text with other types given.
    others: Mutex<Vec<Py<Plan>>>,
}

impl Plan {
    /// The number of combinations of given types that are remembered for a text.
    const OTHERS_MAX: usize = 16;

    pub fn new(text: Arc<str>, given: Box<[Option<SqlType>]>, types: Box<[SqlType]>) -> Self {
        Self { text, given, types, others: Mutex::default() }
    }

    /// Returns the plan of the same text in which these types are given, if it is known.
    pub fn other(&self, py: Python<'_>, given: &[Option<SqlType>]) -> Option<Py<Self>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.iter().find(|other| *other.get().given == *given).map(|other| other.clone_ref(py))
    }

    pub fn remember(&self, other: Py<Self>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= Self::OTHERS_MAX {
            others.clear();
        }
        others.push(other);
    }
}
