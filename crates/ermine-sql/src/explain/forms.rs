//! Calls of functions as SQL writes them: some have words between their arguments, or arguments in another order.

use super::sql::Sql;
use crate::{
    expr::{Expr, hidden},
    types::{SqlType, Value},
};

/// Functions that are called without parentheses, and perhaps with a precision.
const WORDS: [&str; 11] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// Whether the function of this name is written as an operator.
pub(super) fn is_operator(name: &str) -> bool {
    let (name, _) = hidden::collated(name);
    !name.is_empty() && name.chars().all(|one| "+-*/<>=~!@#%^&|`?".contains(one))
}

impl Sql<'_> {
    /// Whether a call is written with words between its arguments, and without parentheses around it.
    pub(super) fn has_words(name: &str, arguments: usize) -> bool {
        matches!(
            (name, arguments),
            (hidden::ROW_IS_NULL | hidden::ROW_IS_NOT_NULL, _) | ("timezone", 2) | ("overlaps", 4)
        )
    }

    /// Writes a call; `result`: the type of its result.
    pub(super) fn call(&self, name: &str, arguments: &[Expr], result: Option<SqlType>) -> String {
        match (name, arguments) {
            (hidden::ROW_IS_NULL, [row]) => format!("{} IS NULL", self.operand(row)),
            (hidden::ROW_IS_NOT_NULL, [row]) => format!("{} IS NOT NULL", self.operand(row)),
            (hidden::ARRAYS, arrays) => format!("ARRAY[{}]", self.list(arrays)),
            (hidden::NAME_ELEMENT, [name, subscripts @ ..]) => self.element(name, subscripts),
            (name, [row, _]) if let Some(column) = name.strip_prefix(hidden::COLUMN) => {
                format!("({}).{}", self.write(row), crate::functions::quote_ident(column))
            }
            ("timezone", [zone, time]) => format!("{} AT TIME ZONE {}", self.typed(time), self.typed(zone)),
            ("extract", [Expr::Constant(Value::Text(field)), from]) => {
                let is_word = !field.is_empty() && field.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
                match is_word {
                    true => format!("EXTRACT({field} FROM {})", self.typed(from)),
                    false => format!("EXTRACT('{}' FROM {})", field.replace('\'', "''"), self.typed(from)),
                }
            }
            ("position", [text, part]) => format!("POSITION({} IN {})", self.operand(part), self.operand(text)),
            ("overlay", [text, new, from, rest @ ..]) => {
                let [text, new, from] = [text, new, from].map(|operand| self.operand(operand));
                let count: String = rest.iter().map(|count| format!(" FOR {}", self.operand(count))).collect();
                format!("OVERLAY({text} PLACING {new} FROM {from}{count})")
            }
            ("overlaps", [start, end, other_start, other_end]) => {
                let [start, end, other_start, other_end] =
                    [start, end, other_start, other_end].map(|operand| self.typed(operand));
                format!("({start}, {end}) OVERLAPS ({other_start}, {other_end})")
            }
            (word, []) if WORDS.contains(&word) => word.to_uppercase(),
            (word, [precision]) if WORDS.contains(&word) => {
                format!("{}({})", word.to_uppercase(), self.write(precision))
            }
            // The type is an argument, too.
            ("enum_first" | "enum_last" | "enum_range", [Expr::Constant(Value::Oid(_)), values @ ..]) => {
                let ty = result.map(|ty| self.type_name(SqlType::scalar(ty.scalar))).unwrap_or_default();
                let value = |value: &Expr| match value {
                    Expr::Constant(Value::Null) => format!("NULL::{ty}"),
                    value => self.write(value),
                };
                format!("{name}({})", values.iter().map(value).collect::<Vec<_>>().join(", "))
            }
            _ => {
                let (name, collation) = hidden::collated(name);
                let mut texts: Vec<_> = arguments.iter().map(|argument| self.argument(argument)).collect();
                if let ([first, ..], [text, ..]) = (arguments, &mut texts[..])
                    && !collation.is_empty()
                {
                    *text = format!("{}{collation}", self.operand(first));
                }
                Self::of_parts(name, &texts.join(", "))
            }
        }
    }

    /// Writes a call of a function that reads the catalog.
    pub(super) fn lookup(&self, name: &str, arguments: &[Expr]) -> String {
        match (name, arguments) {
            ("text" | "regclass" | "regtype" | "regnamespace" | "regrole" | "regproc", [one]) => {
                format!("{}::{name}", self.operand(one))
            }
            _ => self.call(name, arguments, None),
        }
    }

    fn argument(&self, expr: &Expr) -> String {
        match expr {
            Expr::Constant(_) => self.typed(expr),
            _ => self.write(expr),
        }
    }

    /// Writes a call of a function, or of one of the columns of its rows.
    fn of_parts(name: &str, arguments: &str) -> String {
        match name.split_once('.') {
            Some((function, column)) => format!("({function}({arguments})).{column}"),
            None => format!("{name}({arguments})"),
        }
    }
}
