//! The collations of expressions, derived as PostgreSQL does it (its documentation, 24.2.1).
//!
//! Texts are always ordered by their bytes. A collation decides which characters have two cases and are letters: those
//! of Unicode, or under the collation C only those of ASCII.

use super::{Binder, Typed};
use crate::{
    collation::Collation,
    error::{Result, SqlError, SqlState},
    types::SqlType,
};

/// The collation that an expression has, and its strength.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Derived {
    /// It contains no text.
    #[default]
    Nothing,
    /// The collation of a column or a type.
    Implicit(Collation),
    /// The collation that COLLATE names.
    Explicit(Collation),
}

impl Derived {
    pub(super) fn collation(self) -> Collation {
        match self {
            Self::Nothing => Collation::Default,
            Self::Implicit(collation) | Self::Explicit(collation) => collation,
        }
    }

    /// Combines the collations of two operands.
    fn with(self, other: Self) -> Result<Self> {
        match (self, other) {
            (Self::Explicit(one), Self::Explicit(other)) if one != other => {
                let message = format!(
                    "collation mismatch between explicit collations \"{}\" and \"{}\"",
                    one.name(),
                    other.name()
                );
                Err(SqlError::new(SqlState::COLLATION_MISMATCH, message))
            }
            (Self::Explicit(_), _) => Ok(self),
            (_, Self::Explicit(_)) | (Self::Nothing | Self::Implicit(Collation::Default), _) => Ok(match other {
                Self::Nothing => self,
                other => other,
            }),
            (Self::Implicit(_), _) => Ok(self),
        }
    }

    /// Returns the collation of an expression of this type, `None` being one without a type, whose operands have this
    /// collation.
    fn result(self, ty: Option<SqlType>) -> Self {
        match (self, ty) {
            (Self::Explicit(_), None) => self,
            (_, Some(ty)) if SqlType::scalar(ty.scalar).is_text() => match self {
                Self::Nothing => Self::Implicit(Collation::of(ty)),
                derived => derived,
            },
            _ => Self::Nothing,
        }
    }
}

impl Binder<'_> {
    /// Calls `bind` on an operand that does not influence the collation of the expression around it.
    pub(super) fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = self.collation.take();
        let bound = bind(self);
        self.collation = around;
        bound
    }

    /// Calls `bind` on an expression, returns its collation too, and adds that to the expression around it.
    pub(super) fn collated(&mut self, bind: impl FnOnce(&mut Self) -> Result<Typed>) -> Result<(Typed, Collation)> {
        let around = self.collation.replace(Derived::Nothing);
        let bound = bind(self);
        let own = std::mem::replace(&mut self.collation, around).unwrap_or_default();
        let bound = bound?;
        let own = own.result(bound.ty);
        if let Some(around) = &mut self.collation {
            *around = around.with(own)?;
        }
        Ok((bound, own.collation()))
    }

    /// Sets the collation of the expression that is bound now, if any is.
    pub(super) fn set_collation(&mut self, derived: Derived) {
        self.collation = self.collation.map(|_| derived);
    }

    /// Whether the operands that are bound so far demand the collation C, or one like it.
    pub(super) fn is_in_c(&self) -> bool {
        self.collation.unwrap_or_default().collation() != Collation::Default
    }
}
