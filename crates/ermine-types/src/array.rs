//! Arrays: elements in row-major order, and the extent of each dimension.

use smallvec::SmallVec;

use crate::error::{Result, SqlError, SqlState};

use super::{Scalar, Value};

/// The maximum number of dimensions of an array.
pub const DIMENSIONS_MAX: usize = 6;
/// The maximum number of elements of an array.
pub const ELEMENTS_MAX: usize = (1 << 27) - 1;

/// The extent of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// The number of elements.
    pub length: u32,
    /// The first element's subscript.
    pub lower: i32,
}

/// An array.
///
/// Invariant: the product of the dimensions' lengths is the number of elements; an array without elements has no
/// dimensions. No element is itself an array.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// The elements' type.
    pub element: Scalar,
    dimensions: SmallVec<[Dimension; 1]>,
    elements: Vec<Value>,
}

/// The error `array too large`.
pub(crate) fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"))
}

impl Array {
    /// Creates an array of one dimension, from subscript 1 on.
    pub fn new(element: Scalar, elements: Vec<Value>) -> Self {
        let mut dimensions = SmallVec::new();
        if !elements.is_empty() {
            dimensions.push(Dimension { length: elements.len() as u32, lower: 1 });
        }
        Self { element, dimensions, elements }
    }

    /// Creates an array of any number of dimensions. `None`: the number of elements does not match.
    pub fn with_dimensions(element: Scalar, dimensions: &[Dimension], elements: Vec<Value>) -> Option<Self> {
        if elements.is_empty() {
            let is_empty = dimensions.is_empty() || dimensions.iter().any(|dimension| dimension.length == 0);
            return is_empty.then(|| Self::new(element, elements));
        }
        let product = dimensions.iter().try_fold(1usize, |product, dimension| {
            dimension.lower.checked_add_unsigned(dimension.length)?;
            product.checked_mul(dimension.length as usize)
        })?;
        let fits = !dimensions.is_empty() && dimensions.len() <= DIMENSIONS_MAX && product == elements.len();
        fits.then(|| Self { element, dimensions: dimensions.into(), elements })
    }

    /// Returns an array of arrays, which have the same dimensions; NULL counts as an empty array.
    pub fn nested(arrays: &[Value]) -> Result<Self> {
        let unequal = || {
            let message = "multidimensional arrays must have array expressions with matching dimensions";
            SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
        };
        let filled = |value: &Value| match value {
            Value::Array(array) if !array.elements.is_empty() => Some(array.clone()),
            _ => None,
        };
        let element =
            arrays.iter().find_map(|value| if let Value::Array(array) = value { Some(array.element) } else { None });
        let inner: Vec<_> = arrays.iter().filter_map(filled).collect();
        let Some(first) = inner.first() else { return Ok(Self::new(element.unwrap_or(Scalar::Text), Vec::new())) };
        if inner.len() < arrays.len() || inner.iter().any(|array| array.dimensions != first.dimensions) {
            return Err(unequal());
        }
        if first.dimensions.len() == DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                DIMENSIONS_MAX + 1
            );
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let outer = Dimension { length: inner.len() as u32, lower: 1 };
        let dimensions: Vec<_> = [outer].into_iter().chain(first.dimensions.iter().copied()).collect();
        let element = first.element;
        let elements = inner.into_iter().flat_map(|array| array.into_elements()).collect();
        Self::with_dimensions(element, &dimensions, elements).ok_or_else(too_large)
    }

    /// Returns its dimensions, the outermost first; none if it is empty.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Returns its elements; the last dimension varies fastest.
    pub fn elements(&self) -> &[Value] {
        &self.elements
    }

    /// Returns its elements.
    pub fn into_elements(self) -> Vec<Value> {
        self.elements
    }

    /// Returns an array of the same dimensions with converted elements.
    pub fn map(self, element: Scalar, mut convert: impl FnMut(Value) -> Result<Value>) -> Result<Self> {
        let elements = self.elements.into_iter().map(|value| match value {
            Value::Null => Ok(Value::Null),
            value => convert(value),
        });
        Ok(Self { element, dimensions: self.dimensions, elements: elements.collect::<Result<_>>()? })
    }

    /// Returns the element with these subscripts, one for each dimension; NULL if it does not exist.
    pub fn get(&self, subscripts: &[i32]) -> Value {
        if subscripts.len() != self.dimensions.len() {
            return Value::Null;
        }
        let mut at = 0;
        for (dimension, subscript) in self.dimensions.iter().zip(subscripts) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            match usize::try_from(offset) {
                Ok(offset) if offset < dimension.length as usize => at = at * dimension.length as usize + offset,
                _ => return Value::Null,
            }
        }
        self.elements.get(at).cloned().unwrap_or(Value::Null)
    }
}
