//! Functions: the resolution of a call, and the implementations.
//!
//! As with operators, every function is a row of a table: name, parameters, result, strictness, volatility, function.
//! The tables are defined beside the functions, each group of which has its module; aggregates, and functions that
//! return sets (`sets`), have their own.

mod aggregates;
mod angles;
mod arrays;
mod bits;
mod buckets;
mod bytes;
mod catalogs;
mod collections;
mod encoded;
mod encodings;
mod extensions;
mod formats;
mod identifiers;
mod json_objects;
pub(crate) mod jsonpath;
mod math;
mod network;
mod ordered;
mod overlaps;
pub(crate) mod pattern;
pub(crate) mod posix;
pub mod records;
mod regexp;
mod regexp_search;
mod regression;
pub mod resolution;
mod sends;
mod sets;
mod similar;
mod strings;
mod system;
mod times;

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    Environment, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use resolution::{Candidate, Outcome, Parameter, Unresolved, no_array_of};

pub use crate::keywords::quote_ident;
pub use aggregates::{
    Accumulator, Aggregate, aggregate, collect_array, is_aggregate, is_ordered_set, ordered_set_aggregate,
};
pub use collections::write_json;
pub(crate) use math::square_root;
pub use sets::{SetFunction, SetReturning, SetRows, is_set_returning, set_returning};

/// How far a function's result may change while its arguments do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Volatility {
    /// Never.
    Immutable,
    /// Not within a statement.
    Stable,
    /// At every call.
    Volatile,
}

/// The implementation of a function.
pub type ScalarFunction = fn(&[Value], &Environment) -> Result<Value>;

/// A function that a call means.
#[derive(Clone, Debug)]
pub struct Function {
    /// The types that the arguments have to be cast to.
    pub arguments: Vec<SqlType>,
    /// The places of untyped arguments that are accepted as any type.
    pub untyped: Vec<usize>,
    /// The type of the result.
    pub result: SqlType,
    /// Whether the result is NULL if an argument is; the function is not to be called then.
    pub is_strict: bool,
    /// How far the result may change.
    pub volatility: Volatility,
    /// The implementation.
    pub function: ScalarFunction,
    /// The implementation under the collation C, if it is another one: only letters of ASCII are letters then.
    pub in_c: Option<ScalarFunction>,
}

/// A row of the tables.
struct Entry {
    parameters: Vec<Parameter>,
    result: Outcome,
    is_strict: bool,
    is_variadic: bool,
    optional: usize,
    volatility: Volatility,
    function: ScalarFunction,
    in_c: Option<ScalarFunction>,
}

impl Candidate for Entry {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    fn optional(&self) -> usize {
        self.optional
    }
}

impl Entry {
    /// Calls the function with NULL arguments too.
    fn accepts_null(&mut self) -> &mut Self {
        self.is_strict = false;
        self
    }

    /// Lets the last parameter occur any number of times.
    fn variadic(&mut self) -> &mut Self {
        self.is_variadic = true;
        self
    }

    /// Lets the last parameters be left out.
    fn optional(&mut self, count: usize) -> &mut Self {
        self.optional = count;
        self
    }

    /// Gives the function another implementation under the collation C.
    fn in_c(&mut self, function: ScalarFunction) -> &mut Self {
        self.in_c = Some(function);
        self
    }

    fn stable(&mut self) -> &mut Self {
        self.volatility = Volatility::Stable;
        self
    }

    fn volatile(&mut self) -> &mut Self {
        self.volatility = Volatility::Volatile;
        self
    }
}

/// Functions by their names.
#[derive(Default)]
struct Table(HashMap<&'static str, Vec<Entry>>);

impl Table {
    /// Adds a function with parameters of any kind: strict and immutable, unless changed.
    fn generic(
        &mut self,
        name: &'static str,
        parameters: &[Parameter],
        result: Outcome,
        function: ScalarFunction,
    ) -> &mut Entry {
        let entries = self.0.entry(name).or_default();
        entries.push(Entry {
            parameters: parameters.to_vec(),
            result,
            is_strict: true,
            is_variadic: false,
            optional: 0,
            volatility: Volatility::Immutable,
            function,
            in_c: None,
        });
        let at = entries.len() - 1;
        &mut entries[at]
    }

    /// Adds a function of given types.
    fn add(
        &mut self,
        name: &'static str,
        parameters: &[SqlType],
        result: SqlType,
        function: ScalarFunction,
    ) -> &mut Entry {
        let parameters: Vec<_> = parameters.iter().map(|ty| Parameter::Is(*ty)).collect();
        self.generic(name, &parameters, Outcome::Is(result), function)
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    math::register(&mut table);
    strings::register(&mut table);
    bytes::register(&mut table);
    bits::register(&mut table);
    regexp::register(&mut table);
    times::register(&mut table);
    formats::register(&mut table);
    collections::register(&mut table);
    system::register(&mut table);
    extensions::register(&mut table);
    network::register(&mut table);
    jsonpath::register(&mut table);
    angles::register(&mut table);
    arrays::register(&mut table);
    buckets::register(&mut table);
    encoded::register(&mut table);
    identifiers::register(&mut table);
    json_objects::register(&mut table);
    overlaps::register(&mut table);
    regexp_search::register(&mut table);
    sends::register(&mut table);
    similar::register(&mut table);
    table
});

/// Returns the names of all functions: those of a row, those that return rows, and aggregates.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.0.keys().copied().chain(sets::names()).chain(aggregates::names())
}

/// Whether the result's size, or the work, depends on the values of the arguments, however small they are.
pub fn grows(name: &str) -> bool {
    const NAMES: [&str; 10] = ["repeat", "lpad", "rpad", "factorial", "power", "pow", "exp", "ln", "log", "sqrt"];
    NAMES.contains(&name)
}

/// The error of a call that means no function, or several.
pub fn unresolved(reason: Unresolved, call: &str) -> SqlError {
    match reason {
        Unresolved::Undetermined => SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            "could not determine polymorphic type because input has type unknown",
        ),
        Unresolved::NoArray(ty) => no_array_of(ty),
        Unresolved::Unknown => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {call} does not exist"))
            .hint("No function matches the given name and argument types. You might need to add explicit type casts."),
        Unresolved::Ambiguous => SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {call} is not unique"))
            .hint("Could not choose a best candidate function. You might need to add explicit type casts."),
    }
}

/// Returns the function that a call means; `None` is an argument without a type, a literal or a parameter.
pub fn resolve(name: &str, arguments: &[Option<SqlType>]) -> Result<Function> {
    if let ("pg_typeof", [argument]) = (name, arguments) {
        return Ok(system::type_of(*argument));
    }
    let entries = TABLE.0.get(name).map_or(&[][..], Vec::as_slice);
    let resolved = resolution::resolve(entries.iter(), arguments)
        .map_err(|reason| unresolved(reason, &format!("{name}({})", resolution::describe(arguments))))?;
    let entry = resolved.candidate;
    let parameter = |at: usize| entry.parameters.get(at).or(entry.parameters.last());
    let takes_any = |at: &usize| arguments[*at].is_none() && parameter(*at) == Some(&Parameter::Any);
    Ok(Function {
        untyped: (0..arguments.len()).filter(takes_any).collect(),
        arguments: resolved.types,
        result: entry.result.resolve(resolved.element),
        is_strict: entry.is_strict,
        volatility: entry.volatility,
        function: entry.function,
        in_c: entry.in_c,
    })
}

/// Destructures arguments; fails with `mismatch` if they are of other types.
macro_rules! arguments {
    ($arguments:expr, [$($pattern:pat),* $(,)?] => $result:expr) => {
        match $arguments {
            [$($pattern),*] => $result,
            #[allow(unreachable_patterns)]
            _ => Err($crate::operators::mismatch()),
        }
    };
}
use arguments;

#[cfg(test)]
mod book;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cast, random::random_value, text};

    /// Calls a function with typed arguments; `None` is NULL.
    pub(super) fn call(name: &str, arguments: &[(SqlType, &str)]) -> Result<String> {
        let environment = Environment::default();
        let types: Vec<_> = arguments.iter().map(|(ty, _)| Some(*ty)).collect();
        let function = resolve(name, &types)?;
        let values = arguments
            .iter()
            .zip(&function.arguments)
            .map(|((ty, content), wanted)| {
                let value = text::parse(*ty, -1, content, &environment)?;
                cast::cast(value, *ty, *wanted, -1, false, &environment)
            })
            .collect::<Result<Vec<_>>>()?;
        let value = (function.function)(&values, &environment)?;
        Ok(if value.is_null() { "NULL".into() } else { text::to_string(&value, function.result, &environment) })
    }

    #[test]
    fn calls_are_resolved_as_postgresql_does() {
        let types = |name: &str, arguments: &[Option<SqlType>]| {
            let function = resolve(name, arguments).unwrap();
            (function.arguments, function.result)
        };
        assert_eq!(types("abs", &[Some(SqlType::INT4)]), (vec![SqlType::INT4], SqlType::INT4));
        assert_eq!(types("round", &[Some(SqlType::INT4)]), (vec![SqlType::FLOAT8], SqlType::FLOAT8));
        assert_eq!(types("round", &[Some(SqlType::NUMERIC), Some(SqlType::INT2)]).1, SqlType::NUMERIC);
        assert_eq!(types("lower", &[None]), (vec![SqlType::TEXT], SqlType::TEXT));
        assert_eq!(types("lower", &[Some(SqlType::VARCHAR)]), (vec![SqlType::TEXT], SqlType::TEXT));
        assert_eq!(types("concat", &[Some(SqlType::INT4), None]).1, SqlType::TEXT);
        assert_eq!(types("array_append", &[Some(SqlType::INT4.array()), None]).0[1], SqlType::INT4);
        assert_eq!(types("pg_typeof", &[Some(SqlType::DATE)]).1, SqlType::TEXT);
        let error = resolve("lower", &[Some(SqlType::INT4)]).unwrap_err();
        assert_eq!(error.report().message, "function lower(integer) does not exist");
    }

    #[test]
    fn no_value_panics() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let environment = Environment::default();
        let all: Vec<_> = SqlType::all().collect();
        // Functions that may be slow or large, and are bounded elsewhere.
        let heavy = ["repeat", "lpad", "rpad", "power", "pow", "factorial"];
        for (name, entries) in TABLE.0.iter().filter(|(name, _)| !heavy.contains(name)) {
            for _ in 0..150 {
                let entry = random.choice(entries).unwrap();
                let ty = *random.choice(&all).unwrap();
                let count = entry.parameters.len() - random.usize(..=entry.optional);
                let values: Vec<_> = entry.parameters[..count]
                    .iter()
                    .map(|parameter| match parameter {
                        _ if !entry.is_strict && random.u8(..5) == 0 => Value::Null,
                        Parameter::Is(ty) => random_value(*ty, &mut random),
                        Parameter::Array => random_value(ty.array(), &mut random),
                        _ => random_value(if ty.is_array { ty.element().unwrap_or(ty) } else { ty }, &mut random),
                    })
                    .collect();
                println!("{name} {values:?}");
                let _ = (entry.function)(&values, &environment);
            }
        }
    }
}
