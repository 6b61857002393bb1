//! Set-returning functions after binding.
//!
//! Those in FROM are sources. Those in a list of results are run on the rows of the sources, of the groups, or of the
//! window functions, before DISTINCT, ORDER BY and LIMIT: each row is followed by one for each row of the functions,
//! which advance together; a function without further rows returns NULL. Functions whose arguments contain others are
//! run on the rows of those.

use std::sync::Arc;

use crate::{expr::Expr, functions::SetFunction, types::record::Field};

/// A call of a set-returning function.
#[derive(Clone, Debug)]
pub(crate) struct SetCall {
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Vec<Expr>,
    /// Whether it has no rows if an argument is NULL.
    pub(crate) is_strict: bool,
    pub(crate) eval: SetFunction,
    /// The number of its columns.
    pub(crate) width: usize,
    /// The columns of the rows, where each row is one record: the call has one column then.
    pub(crate) record: Option<Arc<[Field]>>,
}

impl PartialEq for SetCall {
    /// Within a statement, a function returns the same rows for the same arguments.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && std::ptr::fn_addr_eq(self.eval, other.eval) && self.arguments == other.arguments
    }
}

/// The set-returning functions of a list of results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    /// The place of the first result, behind the places of the rows that they are run on.
    pub(crate) first: usize,
    /// Calls of one column, or of one record, that advance together; arguments refer to those of levels before.
    pub(crate) levels: Vec<Vec<SetCall>>,
}

impl Sets {
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Returns the number of places of a row with all results.
    pub(crate) fn width(&self) -> usize {
        self.first + self.levels.iter().map(Vec::len).sum::<usize>()
    }

    /// Returns all arguments.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.levels.iter().flatten().flat_map(|call| &call.arguments)
    }

    /// Returns all arguments, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.levels.iter_mut().flatten().flat_map(|call| &mut call.arguments)
    }
}
