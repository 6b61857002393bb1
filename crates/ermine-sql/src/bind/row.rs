//! Rows as values: row constructors, whole rows of sources, and the columns of both.
//!
//! A row is a value of the type `record` ([`Expr::Record`]), but two row constructors are compared value by value, as
//! PostgreSQL does it: NULL is not known to be equal to anything there, while it is equal to itself in records.

use std::sync::Arc;

use sqlparser::ast::{self, FunctionArguments};

use super::{
    Binder, ScopeColumn, Typed,
    call::expressions_of,
    collation::Derived,
    expr::unnested,
    names::{name_of, relation_of},
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Call, Comparison, Expr, Function, hidden},
    system::reg::shown,
    types::{Scalar, SqlType, Value, record::Field},
};

/// Maximum number of columns of a row constructor.
const COLUMNS_MAX: usize = 1664;

/// Returns the expressions between the parentheses of a row constructor.
pub(super) fn items_of(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match unnested(expr) {
        ast::Expr::Tuple(items) if !items.is_empty() => Some(items.iter().collect()),
        ast::Expr::Function(function) => match (&function.name.0[..], &function.args) {
            ([ast::ObjectNamePart::Identifier(name)], FunctionArguments::List(list))
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row") =>
            {
                expressions_of(list).ok().filter(|(_, is_star)| !is_star).map(|(items, _)| items)
            }
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds the values of a row constructor, whose collations have nothing to do with one another.
    pub(super) fn values_of_row(&mut self, items: &[&ast::Expr]) -> Result<Vec<Typed>> {
        self.apart(|this| {
            let mut values = Vec::new();
            for item in items {
                match item {
                    ast::Expr::QualifiedWildcard(name, _) => {
                        let source = this.source_row(&relation_of(name)?.1)?;
                        values.extend(source.values.into_iter().map(|(_, value)| value));
                    }
                    item => values.push(this.expr(item)?),
                }
            }
            if values.len() > COLUMNS_MAX {
                let message = format!("ROW expressions can have at most {COLUMNS_MAX} entries");
                return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
            }
            Ok(values)
        })
    }

    /// Binds a row constructor as a value.
    pub(super) fn row(&mut self, items: &[&ast::Expr]) -> Result<Typed> {
        let values = self.values_of_row(items)?;
        self.record(values.into_iter().enumerate().map(|(at, value)| (format!("f{}", at + 1), value)))
    }

    fn record(&mut self, columns: impl IntoIterator<Item = (String, Typed)>) -> Result<Typed> {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for (name, value) in columns {
            // The text of a record shows the names of objects, not their numbers.
            let value = match value.ty.and_then(|ty| shown(ty, value.modifier)) {
                Some(text) => self.look_up("text", vec![value], text)?,
                None => value,
            };
            let (value, ty) = self.settle(value)?;
            fields.push(Field { name: name.into(), ty });
            values.push(value);
        }
        self.set_collation(Derived::Nothing);
        Ok(Typed::new(Expr::Record(fields.into(), values), SqlType::RECORD))
    }

    /// Binds the whole row of a source.
    pub(super) fn row_of_source(&mut self, source: &str) -> Result<Typed> {
        let SourceRow { values, is_absent } = self.source_row(source)?;
        let row = self.record(values)?;
        let Some(is_absent) = is_absent else { return Ok(row) };
        let or_null = Expr::Case(vec![(is_absent, Expr::Constant(Value::Null))], Box::new(row.expr));
        Ok(Typed::new(or_null, SqlType::RECORD))
    }

    /// Whether a name that is no column is that of a source.
    pub(super) fn is_source(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.sources.iter().any(|own| own == name))
    }

    fn source_row(&mut self, source: &str) -> Result<SourceRow> {
        let missing = |what: &str| {
            let message = format!("{what} FROM-clause entry for table \"{source}\"");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        };
        let meant = (0..self.scopes.len()).find_map(|level| {
            let scope = &self.scopes[self.scopes.len() - 1 - level];
            let number = scope.sources.iter().position(|own| own == source)?;
            Some((level, scope, number))
        });
        let (level, scope, number) = meant.ok_or_else(|| missing("missing"))?;
        if scope.is_definition {
            return Err(SqlError::unsupported("a whole row in the definition of a table"));
        }
        let is_own = |column: &&ScopeColumn| column.source == number;
        if scope.columns[..scope.hidden].iter().any(|column| is_own(&column)) {
            return Err(missing("invalid reference to"));
        }
        let place = |column: &ScopeColumn| match level {
            0 => Expr::Column(column.at),
            level => Expr::Outer(level, column.at),
        };
        let all = scope.columns.iter().filter(is_own);
        let (system, mut columns): (Vec<_>, Vec<_>) = all.cloned().partition(|column| column.is_system);
        columns.sort_by_key(|column| column.number);
        let is_null = |column: &ScopeColumn| Expr::IsNull(Box::new(place(column)));
        // Only an outer join leaves a row out, and `tableoid` is NULL only then.
        let is_absent = match &system[..] {
            _ if scope.sources.len() == 1 => None,
            [oid, ..] => Some(is_null(oid)),
            [] if columns.is_empty() => None,
            [] => Some(Expr::And(columns.iter().map(is_null).collect())),
        };
        let values = columns.iter().map(|column| {
            let typed = Typed { expr: place(column), ty: Some(column.ty), modifier: column.modifier };
            (column.name.clone(), typed)
        });
        let values = values.collect();
        columns.iter().for_each(|column| self.note_use(column.origin));
        Ok(SourceRow { values, is_absent })
    }

    /// Binds the columns of rows, one inside the other: `(row).column`.
    pub(super) fn column_of_row(&mut self, row: &ast::Expr, names: &[&ast::Ident]) -> Result<Typed> {
        let (mut value, mut names) = (None, names.iter().map(|name| name_of(name)));
        if let ast::Expr::Identifier(source) = unnested(row)
            && let source = name_of(source)
            && !self.has_column(&source)
            && self.is_source(&source)
        {
            value = names.next().map(|name| self.column(Some(&source), &name)).transpose()?;
        }
        let mut value = match value {
            Some(value) => value,
            None => self.expr(row)?,
        };
        for name in names {
            value = self.column_of_record(value, &name)?;
        }
        Ok(value)
    }

    /// Returns the columns of a record, where they are known.
    pub(super) fn fields_of(&self, row: &Typed) -> Option<Arc<[Field]>> {
        if row.ty != Some(SqlType::RECORD) {
            return None;
        }
        let column_of = |level: usize, at: usize| {
            let scope = self.scopes.iter().rev().nth(level)?;
            scope.columns.iter().find(|column| column.at == at)?.fields.clone()
        };
        match &row.expr {
            Expr::Record(fields, _) => Some(fields.clone()),
            Expr::Column(at) => column_of(0, *at),
            Expr::Outer(level, at) => column_of(*level, *at),
            Expr::Set(at) => self.scopes.last()?.sets.as_ref()?.fields_of(*at),
            // A row that an outer join may leave out.
            Expr::Case(_, otherwise) => match &**otherwise {
                Expr::Record(fields, _) => Some(fields.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    fn column_of_record(&self, row: Typed, name: &str) -> Result<Typed> {
        if row.ty != Some(SqlType::RECORD) {
            let ty = row.ty.map_or("unknown".into(), SqlType::name);
            let message = format!("column notation .{name} applied to type {ty}, which is not a composite type");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let Some(fields) = self.fields_of(&row) else {
            return Err(SqlError::unsupported(format_args!("the column {name} of a record")));
        };
        match fields.iter().position(|field| *field.name == *name) {
            Some(at) => Ok(Typed::new(value_at(row.expr, at, &fields[at]), fields[at].ty)),
            None => {
                let message = format!("could not identify column \"{name}\" in record data type");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// Returns all columns of a record, with their names.
    pub(super) fn columns_of_record(&self, row: Typed) -> Result<Vec<(String, Typed)>> {
        if row.ty != Some(SqlType::RECORD) {
            let ty = row.ty.map_or("unknown".into(), SqlType::name);
            let message = format!("type {ty} is not composite");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let Some(fields) = self.fields_of(&row) else {
            return Err(SqlError::unsupported("the columns of this record"));
        };
        let column = |(at, field): (usize, &Field)| {
            (field.name.to_string(), Typed::new(value_at(row.expr.clone(), at, field), field.ty))
        };
        Ok(fields.iter().enumerate().map(column).collect())
    }

    /// Binds IS NULL, or IS NOT NULL: of a record, all values are NULL, or none is.
    pub(super) fn null_test(&mut self, operand: &ast::Expr, is_null: bool) -> Result<Expr> {
        let typed = self.expr(operand)?;
        if typed.ty != Some(SqlType::RECORD) {
            let null = Expr::IsNull(Box::new(self.leave(typed)?));
            return Ok(if is_null { null } else { Expr::Not(Box::new(null)) });
        }
        let (name, eval): (_, Call) = match is_null {
            true => (hidden::ROW_IS_NULL, |values, _| Ok(Value::Bool(all_values(values, Value::is_null)))),
            false => (hidden::ROW_IS_NOT_NULL, |values, _| {
                Ok(Value::Bool(!values[0].is_null() && all_values(values, |value| !value.is_null())))
            }),
        };
        let function = Function { is_strict: false, ..Function::of_operator(name, true, SqlType::BOOL, eval) };
        Ok(Expr::Call(function, vec![typed.expr]))
    }

    /// Binds a comparison of row constructors.
    pub(super) fn compare_rows(&mut self, operator: &str, left: &[&ast::Expr], right: &[&ast::Expr]) -> Result<Typed> {
        let (left, right) = (self.values_of_row(left)?, self.values_of_row(right)?);
        self.rows(operator, left, right)
    }

    /// Binds a comparison of the values of two rows.
    pub(super) fn rows(&mut self, operator: &str, left: Vec<Typed>, right: Vec<Typed>) -> Result<Typed> {
        check_alike(&left, &right)?;
        let mut pairs: Vec<_> = left.into_iter().zip(right).collect();
        let comparison = Comparison::parse(operator)
            .ok_or_else(|| SqlError::unsupported(format_args!("the operator {operator} between rows")))?;
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                let mut conditions = Vec::new();
                for (left, right) in pairs {
                    conditions.push(self.compare(Comparison::Equal, left, right)?);
                }
                let equal = Expr::And(conditions);
                let expr = if comparison == Comparison::Equal { equal } else { Expr::Not(Box::new(equal)) };
                Ok(Typed::new(expr, SqlType::BOOL))
            }
            _ => {
                let strict = match comparison {
                    Comparison::Less | Comparison::LessOrEqual => Comparison::Less,
                    _ => Comparison::Greater,
                };
                let mut comparisons = Vec::new();
                let last = pairs.len() - 1;
                for (left, right) in pairs.drain(..last) {
                    comparisons.push(self.compare(Comparison::Equal, left.clone(), right.clone())?);
                    comparisons.push(self.compare(strict, left, right)?);
                }
                let (left, right) = pairs.remove(0);
                comparisons.push(self.compare(comparison, left, right)?);
                Ok(Typed::new(Expr::Rows(comparisons), SqlType::BOOL))
            }
        }
    }

    /// Binds IS DISTINCT FROM between row constructors.
    pub(super) fn distinct_rows(&mut self, left: &[&ast::Expr], right: &[&ast::Expr]) -> Result<Expr> {
        let (left, right) = (self.values_of_row(left)?, self.values_of_row(right)?);
        check_alike(&left, &right)?;
        let pairs = left.into_iter().zip(right);
        Ok(Expr::Or(pairs.map(|(left, right)| self.distinct_values(left, right)).collect::<Result<_>>()?))
    }
}

/// The columns of a source.
struct SourceRow {
    /// Their names and values.
    values: Vec<(String, Typed)>,
    /// Whether an outer join has no row of the source; `None`: there is always one.
    is_absent: Option<Expr>,
}

fn check_alike(left: &[Typed], right: &[Typed]) -> Result<()> {
    if left.len() != right.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"));
    }
    if left.is_empty() {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length"));
    }
    Ok(())
}

/// Whether all values of the record that is the only argument are such; NULL has none.
fn all_values(values: &[Value], is_such: impl Fn(&Value) -> bool) -> bool {
    match values {
        [Value::Record(record)] => record.values().iter().all(is_such),
        _ => true,
    }
}

/// Fails for a column that takes its type from an expression and whose values cannot be stored.
pub(crate) fn check_storable(name: &str, ty: SqlType) -> Result<()> {
    if ty.scalar != Scalar::Record {
        return Ok(());
    }
    let message = format!("column \"{name}\" has pseudo-type {}", ty.name());
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

/// Returns a column of a record by its place.
fn value_at(row: Expr, at: usize, field: &Field) -> Expr {
    if let Expr::Record(_, mut values) = row {
        return values.swap_remove(at);
    }
    let eval: Call = |values, _| match values {
        [Value::Record(record), Value::Int4(at)] => Ok(record.values()[*at as usize].clone()),
        _ => Ok(Value::Null),
    };
    let place = Expr::Constant(Value::Int4(at as i32));
    let name = format!("{}{}", hidden::COLUMN, field.name);
    Expr::Call(Function::of_operator(&name, true, field.ty, eval), vec![row, place])
}
