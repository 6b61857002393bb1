//! Operators: the resolution of an operator for two operands, and its function.
//!
//! Every operator is a row of a table: name, types of the operands, type of the result, function. The tables are
//! defined beside the functions: `arithmetic`, `comparison`, `time`, `text`, `collections`, `network`,
//! `bits`. The binder resolves a name
//! once per statement; at run time the operator is a plain function pointer. All operators are strict: no function is
//! called with NULL.

mod arithmetic;
mod bits;
mod collections;
mod comparison;
mod network;
mod text;
mod time;

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use crate::{
    Environment, SqlType, Value, cast,
    error::{Result, SqlError, SqlState},
    functions::resolution::{Candidate, Outcome, Parameter, Unresolved, no_array_of, resolve},
};

pub(crate) use arithmetic::{check_float, power_f64};
pub use comparison::{check_equality, compared_in, widening};

pub(crate) use collections::{concatenate_arrays, extend_array, plain_json, texts};

/// The function of a binary operator, for two values that are not NULL.
pub type BinaryFunction = fn(&Value, &Value, &Environment) -> Result<Value>;
/// The function of a prefix operator, for a value that is not NULL.
pub type PrefixFunction = fn(&Value, &Environment) -> Result<Value>;

/// An operator between two operands.
#[derive(Clone, Copy, Debug)]
pub struct BinaryOperator {
    /// The type that the left operand has to be cast to.
    pub left: SqlType,
    /// The type that the right operand has to be cast to.
    pub right: SqlType,
    /// The type of the result.
    pub result: SqlType,
    /// Whether the result is independent of the session's settings.
    pub is_immutable: bool,
    /// Its function; not to be called with NULL, where the result is NULL.
    pub function: BinaryFunction,
    /// Its function under the collation C, if that is another one: only letters of ASCII are letters then.
    pub in_c: Option<BinaryFunction>,
}

impl BinaryOperator {
    fn new(left: SqlType, right: SqlType, result: SqlType, entry: &Binary) -> Self {
        let is_zoned = |ty| ty == SqlType::TIMESTAMPTZ;
        let is_immutable = match result {
            // With `||`, the other operand becomes a text.
            SqlType::TEXT if left.is_text() || right.is_text() => {
                [left, right].into_iter().all(|ty| cast::is_immutable(ty, SqlType::TEXT))
            }
            // Combined with any other type, a point in time becomes the local time of the zone.
            _ => is_zoned(left) == is_zoned(right),
        };
        Self { left, right, result, is_immutable, function: entry.function, in_c: entry.in_c }
    }
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug)]
pub struct PrefixOperator {
    /// The type that the operand has to be cast to.
    pub operand: SqlType,
    /// The type of the result.
    pub result: SqlType,
    /// Its function; not to be called with NULL, where the result is NULL.
    pub function: PrefixFunction,
}

/// A row of the tables.
struct Entry<F> {
    parameters: Vec<Parameter>,
    result: Outcome,
    function: F,
    in_c: Option<F>,
}

impl<F> Candidate for Entry<F> {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
}

type Binary = Entry<BinaryFunction>;
type Prefix = Entry<PrefixFunction>;

/// Operators by their names.
#[derive(Default)]
struct Tables {
    binary: HashMap<&'static str, Vec<Binary>>,
    prefix: HashMap<&'static str, Vec<Prefix>>,
}

impl Tables {
    fn add(
        &mut self,
        name: &'static str,
        left: Parameter,
        right: Parameter,
        result: Outcome,
        function: BinaryFunction,
    ) {
        let entry = Entry { parameters: vec![left, right], result, function, in_c: None };
        self.binary.entry(name).or_default().push(entry);
    }

    /// Adds an operator between two types.
    fn binary(&mut self, name: &'static str, left: SqlType, right: SqlType, result: SqlType, function: BinaryFunction) {
        self.add(name, Parameter::Is(left), Parameter::Is(right), Outcome::Is(result), function);
    }

    /// Adds an operator that matches a text with a pattern, and its function under the collation C.
    fn matching(&mut self, name: &'static str, left: SqlType, function: BinaryFunction, in_c: BinaryFunction) {
        let parameters = vec![Parameter::Is(left), Parameter::Is(SqlType::TEXT)];
        let entry = Entry { parameters, result: Outcome::Is(SqlType::BOOL), function, in_c: Some(in_c) };
        self.binary.entry(name).or_default().push(entry);
    }

    /// Adds an operator before a type.
    fn prefix(&mut self, name: &'static str, operand: SqlType, result: SqlType, function: PrefixFunction) {
        let entry =
            Entry { parameters: vec![Parameter::Is(operand)], result: Outcome::Is(result), function, in_c: None };
        self.prefix.entry(name).or_default().push(entry);
    }
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::default();
    arithmetic::register(&mut tables);
    comparison::register(&mut tables);
    time::register(&mut tables);
    text::register(&mut tables);
    collections::register(&mut tables);
    network::register(&mut tables);
    bits::register(&mut tables);
    tables
});

fn unresolved(reason: Unresolved, call: &str) -> SqlError {
    match reason {
        Unresolved::Undetermined => SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            "could not determine polymorphic type because input has type unknown",
        ),
        Unresolved::NoArray(ty) => no_array_of(ty),
        Unresolved::Unknown => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {call}"))
            .hint("No operator matches the given name and argument types. You might need to add explicit type casts."),
        Unresolved::Ambiguous => SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {call}"))
            .hint("Could not choose a best candidate operator. You might need to add explicit type casts."),
    }
}

fn name_of(ty: Option<SqlType>) -> Cow<'static, str> {
    ty.map_or("unknown".into(), SqlType::name)
}

/// Returns the operator between two operands; `None` is an operand without a type, a literal or a parameter.
pub fn resolve_binary(operator: &str, left: Option<SqlType>, right: Option<SqlType>) -> Result<BinaryOperator> {
    let name = if operator == "!=" { "<>" } else { operator };
    let entries = TABLES.binary.get(name).map_or(&[][..], Vec::as_slice);
    // An operand without a type is first assumed to have the other's type.
    let alike = match (left, right) {
        (Some(ty), None) | (None, Some(ty)) => {
            entries.iter().find(|entry| entry.parameters == [Parameter::Is(ty), Parameter::Is(ty)])
        }
        _ => None,
    };
    if let Some(entry) = alike
        && let (Parameter::Is(left), Parameter::Is(right)) = (entry.parameters[0], entry.parameters[1])
    {
        return Ok(BinaryOperator::new(left, right, entry.result.resolve(None), entry));
    }
    let resolved = resolve(entries.iter(), &[left, right]).map_err(|reason| {
        let reason = match reason {
            // PostgreSQL has operators of these names for other types than arrays, too.
            Unresolved::Undetermined if left.or(right).is_none() => Unresolved::Ambiguous,
            reason => reason,
        };
        unresolved(reason, &format!("{} {operator} {}", name_of(left), name_of(right)))
    })?;
    let result = resolved.candidate.result.resolve(resolved.element);
    Ok(BinaryOperator::new(resolved.types[0], resolved.types[1], result, resolved.candidate))
}

/// Returns the operator before an operand; `None` is one without a type.
pub fn resolve_prefix(operator: &str, operand: Option<SqlType>) -> Result<PrefixOperator> {
    let entries = TABLES.prefix.get(operator).map_or(&[][..], Vec::as_slice);
    let resolved = resolve(entries.iter(), &[operand])
        .map_err(|reason| unresolved(reason, &format!("{operator} {}", name_of(operand))))?;
    Ok(PrefixOperator {
        operand: resolved.types[0],
        result: resolved.candidate.result.resolve(resolved.element),
        function: resolved.candidate.function,
    })
}

/// The error of a function whose arguments have other types than it was resolved for.
pub(crate) fn mismatch() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a function got values of other types than its own")
}

/// Destructures values; fails with [`mismatch`] if they are of other types.
macro_rules! take {
    ($($value:expr => $pattern:pat),+ => $result:expr) => {
        match ($($value,)+) {
            ($($pattern,)+) => $result,
            #[allow(unreachable_patterns)]
            _ => Err($crate::operators::mismatch()),
        }
    };
}
pub(crate) use take;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scalar, random::random_value, text};

    /// Returns `left operator right`, as text.
    pub(super) fn apply(left: (SqlType, &str), operator: &str, right: (SqlType, &str)) -> Result<String> {
        let environment = Environment::default();
        let found = resolve_binary(operator, Some(left.0), Some(right.0))?;
        let operand = |(ty, content): (SqlType, &str), wanted| {
            let value = text::parse(ty, -1, content, &environment)?;
            crate::cast::cast(value, ty, wanted, -1, false, &environment)
        };
        let value = (found.function)(&operand(left, found.left)?, &operand(right, found.right)?, &environment)?;
        Ok(text::to_string(&value, found.result, &environment))
    }

    #[test]
    fn operators_are_resolved_as_postgresql_does() {
        let types = |operator: &str, left, right| {
            let found = resolve_binary(operator, left, right).unwrap();
            (found.left, found.right, found.result)
        };
        let (int2, int4, int8) = (SqlType::INT2, SqlType::INT4, SqlType::INT8);
        let (float8, numeric, text) = (SqlType::FLOAT8, SqlType::NUMERIC, SqlType::TEXT);
        assert_eq!(types("+", Some(int4), Some(int8)), (int4, int8, int8));
        assert_eq!(types("+", Some(int2), Some(int4)), (int2, int4, int4));
        assert_eq!(types("+", Some(int4), None), (int4, int4, int4));
        assert_eq!(types("+", Some(int4), Some(numeric)), (numeric, numeric, numeric));
        assert_eq!(types("+", Some(numeric), Some(float8)), (float8, float8, float8));
        assert_eq!(types("=", Some(SqlType::VARCHAR), None), (text, text, SqlType::BOOL));
        assert_eq!(types("=", Some(SqlType::VARCHAR), Some(text)), (text, text, SqlType::BOOL));
        assert_eq!(types("=", None, None), (text, text, SqlType::BOOL));
        assert_eq!(types("||", Some(text), Some(int4)), (text, int4, text));
        assert_eq!(types("||", None, None), (text, text, text));
        assert_eq!(types("-", Some(SqlType::DATE), Some(int4)), (SqlType::DATE, int4, SqlType::DATE));
        assert_eq!(types("^", Some(int4), Some(int4)), (float8, float8, float8));
        assert_eq!(types("->", Some(SqlType::JSONB), None), (SqlType::JSONB, text, SqlType::JSONB));
        assert_eq!(types("=", Some(int4.array()), None), (int4.array(), int4.array(), SqlType::BOOL));
        assert_eq!(types("||", Some(int4.array()), Some(int4)), (int4.array(), int4, int4.array()));
        assert_eq!(types("<", Some(SqlType::DATE), Some(SqlType::TIMESTAMP)).2, SqlType::BOOL);
        assert_eq!(types("-", Some(SqlType::TIMESTAMPTZ), Some(SqlType::TIMESTAMPTZ)).2, SqlType::INTERVAL);
    }

    #[test]
    fn what_does_not_exist_says_so() {
        let error = resolve_binary("||", Some(SqlType::INT4), Some(SqlType::INT4)).unwrap_err();
        assert_eq!(error.report().message, "operator does not exist: integer || integer");
        assert!(error.report().hint.is_some());
        let error = resolve_binary("+", None, None).unwrap_err();
        assert_eq!(error.report().message, "operator is not unique: unknown + unknown");
        let error = resolve_prefix("-", Some(SqlType::TEXT)).unwrap_err();
        assert_eq!(error.report().message, "operator does not exist: - text");
    }

    #[test]
    fn no_operand_panics() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let environment = Environment::default();
        let all: Vec<_> = SqlType::all().collect();
        for (name, entries) in TABLES.binary.iter().filter(|(name, _)| **name != "^") {
            for entry in entries {
                for _ in 0..100 {
                    let ty = *random.choice(&all).unwrap();
                    let mut value = |parameter: &Parameter| match parameter {
                        Parameter::Is(ty) => random_value(*ty, &mut random),
                        Parameter::Array | Parameter::CommonArray => random_value(ty.array(), &mut random),
                        Parameter::Enum => random_value(SqlType::scalar(Scalar::Enum(1)), &mut random),
                        _ => random_value(SqlType::scalar(ty.scalar), &mut random),
                    };
                    let (left, right) = (value(&entry.parameters[0]), value(&entry.parameters[1]));
                    println!("{left:?} {name} {right:?}");
                    let _ = (entry.function)(&left, &right, &environment);
                }
            }
        }
    }
}
