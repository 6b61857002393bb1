//! Records: the values of a row, with the names and types of its columns.

use std::sync::Arc;

use super::{SqlType, Value};
use crate::error::{Result, SqlError, SqlState};

/// The maximum number of records of which each is in the next: beyond it, functions of a record could exhaust the
/// stack.
const DEPTH_MAX: usize = 100;

/// A column of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name of the column.
    pub name: Box<str>,
    /// The type of its value.
    pub ty: SqlType,
}

/// A record. Its columns come with it, so that its text, its JSON and its order need no context.
///
/// Invariant: it has as many values as fields, and the values are of their types.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    fields: Arc<[Field]>,
    values: Box<[Value]>,
    /// The number of records of which each is in the next, this one included.
    depth: usize,
}

impl Record {
    /// Creates a record; fails if it is nested too deep.
    pub fn new(fields: Arc<[Field]>, values: Vec<Value>) -> Result<Self> {
        debug_assert_eq!(fields.len(), values.len());
        fn depth_of(value: &Value) -> usize {
            match value {
                Value::Record(record) => record.depth,
                Value::Array(array) if array.element == super::Scalar::Record => {
                    array.elements().iter().map(depth_of).max().unwrap_or(0)
                }
                _ => 0,
            }
        }
        let depth = 1 + values.iter().map(depth_of).max().unwrap_or(0);
        if depth > DEPTH_MAX {
            let message = format!("records are nested in more than {DEPTH_MAX} others");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        Ok(Self { fields, values: values.into(), depth })
    }

    /// Returns its values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns its columns.
    pub(crate) fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// Returns its columns with their values.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&Field, &Value)> {
        self.fields.iter().zip(&self.values)
    }
}

/// The error of a text or of bytes that are to become a record.
pub(crate) fn no_input() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "input of anonymous composite types is not implemented")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_limited() {
        let fields: Arc<[Field]> = [Field { name: "f1".into(), ty: SqlType::RECORD }].into();
        let mut value = Value::Null;
        for _ in 0..DEPTH_MAX {
            value = Value::Record(Box::new(Record::new(fields.clone(), vec![value]).unwrap()));
            let array = crate::Array::new(crate::Scalar::Record, vec![value.clone()]);
            value = Value::array(array);
        }
        assert_eq!(Record::new(fields, vec![value]).unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
    }
}
