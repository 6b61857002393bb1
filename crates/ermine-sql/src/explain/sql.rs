//! Expressions as SQL writes them, as far as that is known: columns by name, values as literals.

use crate::{
    expr::{Elementwise, Expr, Subquery, SubqueryKind},
    query::{AggregateCall, Body, Group, Query, Select, Source, SourceKind, window::WindowFunction},
    types::{Environment, SqlType, Value, text},
};

/// The rows that expressions refer to: those of a query and of the queries around it, the outermost first.
#[derive(Clone, Default)]
pub(super) struct Places<'q>(Vec<Level<'q>>);

/// The rows of a query.
#[derive(Clone, Copy)]
struct Level<'q> {
    select: &'q Select,
    /// They are those of its groups, or of its windows, and not those of its sources.
    is_above: bool,
}

impl<'q> Places<'q> {
    /// Returns the places of expressions on the rows of the sources of a query inside.
    pub(super) fn within(&self, select: &'q Select) -> Places<'q> {
        self.and(Level { select, is_above: false })
    }

    /// Returns the places of expressions on the rows of the groups and windows of a query inside.
    pub(super) fn above(&self, select: &'q Select) -> Places<'q> {
        self.and(Level { select, is_above: true })
    }

    /// Returns the places of the queries around.
    pub(super) fn around(&self) -> Places<'q> {
        Places(self.0.split_last().map_or(Vec::new(), |(_, around)| around.to_vec()))
    }

    fn and(&self, level: Level<'q>) -> Places<'q> {
        Places(self.0.iter().copied().chain([level]).collect())
    }

    /// Returns the name of a column of the row of the query that is this number of levels up.
    fn name(&self, level: usize, at: usize, environment: &Environment) -> Option<String> {
        let place = self.0.len().checked_sub(level + 1)?;
        let Level { select, is_above } = self.0[place];
        if is_above {
            // Expressions of a query below its groups.
            let below = Places(self.0[..place].to_vec()).within(select);
            let sql = Sql { places: &below, environment };
            if let Some(name) = sql.above(select, at) {
                return Some(name);
            }
        }
        let source = select.sources.iter().find(|source| source.has_place(at))?;
        let name = column(source, at - source.first);
        let is_alone = level == 0 && self.0.len() == 1 && select.sources.len() == 1;
        Some(if is_alone || source.name.is_empty() { name } else { format!("{}.{name}", source.name) })
    }
}

fn column(source: &Source, at: usize) -> String {
    let result = match &source.kind {
        SourceKind::Table(table) if at < table.table.def.columns.len() => Some(table.table.def.part(at).to_owned()),
        SourceKind::Table(_) => Some("tableoid".into()),
        SourceKind::System(table) => table.columns().get(at).map(|column| column.name.clone()),
        SourceKind::Derived(query)
        | SourceKind::Once(query)
        | SourceKind::Lateral(Expr::Subquery(Subquery { query, .. })) => result(query, at),
        SourceKind::Function { calls, .. } if at < calls.len() => Some((*calls[at].name).to_owned()),
        _ => None,
    };
    // As a list of column aliases would name it.
    result.unwrap_or_else(|| format!("column{}", at + 1))
}

/// Returns the name that a result of a query has by itself.
fn result(query: &Query, at: usize) -> Option<String> {
    match &query.body {
        Body::Select(select) => result_of(select, select.output.get(at)?),
        Body::Set { sides, .. } => result(&sides[0], at),
        Body::Values(_) | Body::WorkTable(_) | Body::Returned(_) => None,
    }
}

fn result_of(select: &Select, expr: &Expr) -> Option<String> {
    let of_source = |at: usize| {
        let source = select.sources.iter().find(|source| source.has_place(at))?;
        Some(column(source, at - source.first))
    };
    match (expr, &select.group) {
        (Expr::Column(at), Some(group)) => match group.keys.get(*at) {
            Some(Expr::Column(key)) => of_source(*key),
            Some(_) => None,
            None => Some(aggregate_at(group, *at)?.aggregate.name().into()),
        },
        (Expr::Column(at), None) => of_source(*at),
        (Expr::Cast(inner, _), _) => result_of(select, inner),
        (Expr::Call(function, _), _) => Some((*function.name).to_owned()),
        _ => None,
    }
}

/// Returns the aggregate at a place of the row of a group.
fn aggregate_at(group: &Group, at: usize) -> Option<&AggregateCall> {
    group.aggregates.get(at.checked_sub(group.keys.len() + group.groupings.len())?)
}

/// Returns conditions that must all hold, in parentheses; `None`: there are none.
pub(super) fn conditions<'e>(
    all: impl Iterator<Item = &'e Expr>,
    places: &Places<'_>,
    environment: &Environment,
) -> Option<String> {
    let sql = Sql { places, environment };
    let all: Vec<_> = all.collect();
    match &all[..] {
        [] => None,
        [one] => Some(format!("({})", sql.write(one))),
        several => {
            let parts: Vec<_> = several.iter().map(|expr| sql.part_of_and(expr)).collect();
            Some(format!("({})", parts.join(" AND ")))
        }
    }
}

/// Returns an expression.
pub(super) fn expression(expr: &Expr, places: &Places<'_>, environment: &Environment) -> String {
    Sql { places, environment }.write(expr)
}

struct Sql<'a> {
    places: &'a Places<'a>,
    environment: &'a Environment,
}

impl Sql<'_> {
    /// Writes an operand of AND, which binds weaker than all but OR.
    fn part_of_and(&self, expr: &Expr) -> String {
        match expr {
            Expr::And(parts) => parts.iter().map(|part| self.part_of_and(part)).collect::<Vec<_>>().join(" AND "),
            Expr::Or(_) => format!("({})", self.write(expr)),
            _ => self.write(expr),
        }
    }

    /// Writes an operand of an operator.
    fn operand(&self, expr: &Expr) -> String {
        let is_closed = match expr {
            Expr::Binary(function, _) | Expr::NullIf(function, _) => !is_operator(&function.name),
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsBool(..) => false,
            Expr::Compare(..) | Expr::Distinct(_) | Expr::In(..) | Expr::Any { .. } | Expr::Rows(_) => false,
            _ => true,
        };
        if is_closed { self.write(expr) } else { format!("({})", self.write(expr)) }
    }

    /// Writes a place of the row of a group, or a result of a window function or of one that returns a set.
    fn above(&self, select: &Select, at: usize) -> Option<String> {
        if let Some(set) = at.checked_sub(select.sets.first).filter(|_| !select.sets.is_empty()) {
            let call = select.sets.levels.iter().flatten().nth(set)?;
            return Some(format!("{}(..)", call.name));
        }
        let mut calls = select.windows.all.iter().flat_map(|window| &window.calls);
        if let Some(call) = calls.find(|call| call.at == at) {
            // Its arguments refer to the rows of the groups, if there are any.
            let above = self.places.around().above(select);
            let sql = Sql { places: &above, environment: self.environment };
            return Some(format!("{} OVER (..)", sql.window_function(&call.function)));
        }
        let group = select.group.as_ref()?;
        match group.keys.get(at) {
            Some(key @ Expr::Column(_)) => Some(self.write(key)),
            Some(key) => Some(format!("({})", self.write(key))),
            None => Some(aggregate_at(group, at).map_or_else(|| "GROUPING(..)".into(), |call| self.aggregate(call))),
        }
    }

    fn aggregate(&self, call: &AggregateCall) -> String {
        let name = call.aggregate.name();
        let text = match (&call.arguments[..], call.is_distinct) {
            ([], _) => format!("{name}(*)"),
            (arguments, false) => format!("{name}({})", self.list(arguments)),
            (arguments, true) => format!("{name}(DISTINCT {})", self.list(arguments)),
        };
        match &call.filter {
            Some(filter) => format!("{text} FILTER (WHERE {})", self.write(filter)),
            None => text,
        }
    }

    fn window_function(&self, function: &WindowFunction) -> String {
        use WindowFunction as F;
        let of = |name: &str, argument: &Expr| format!("{name}({})", self.write(argument));
        match function {
            F::RowNumber => "row_number()".into(),
            F::Rank => "rank()".into(),
            F::DenseRank => "dense_rank()".into(),
            F::PercentRank => "percent_rank()".into(),
            F::CumeDist => "cume_dist()".into(),
            F::Ntile(number) => of("ntile", number),
            F::Shift { value, is_lead, .. } => of(if *is_lead { "lead" } else { "lag" }, value),
            F::FirstValue(value) => of("first_value", value),
            F::LastValue(value) => of("last_value", value),
            F::NthValue(arguments) => format!("nth_value({})", self.list(&arguments[..])),
            F::Aggregate(call) => self.aggregate(call),
        }
    }

    fn list(&self, all: &[Expr]) -> String {
        all.iter().map(|expr| self.write(expr)).collect::<Vec<_>>().join(", ")
    }

    fn write(&self, expr: &Expr) -> String {
        let two = |operator: &str, sides: &[Expr; 2]| {
            format!("{} {operator} {}", self.operand(&sides[0]), self.operand(&sides[1]))
        };
        match expr {
            Expr::Constant(value) => literal(value, self.environment),
            Expr::Parameter(at) => format!("${}", at + 1),
            Expr::Column(at) => self.places.name(0, *at, self.environment).unwrap_or_else(|| "a result".into()),
            Expr::Outer(level, at) => {
                self.places.name(*level, *at, self.environment).unwrap_or_else(|| "an outer result".into())
            }
            Expr::Binary(function, sides) if is_operator(&function.name) => two(&function.name, sides),
            Expr::Binary(function, sides) => format!("{}({})", function.name, self.list(&**sides)),
            Expr::Prefix(function, one) if is_operator(&function.name) => {
                format!("{}{}", function.name, self.operand(one))
            }
            Expr::Prefix(function, one) => format!("{}({})", function.name, self.write(one)),
            Expr::Call(function, arguments) => format!("{}({})", function.name, self.list(arguments)),
            Expr::Lookup(function, arguments) => format!("{}({})", function.name, self.list(arguments)),
            Expr::Compare(comparison, sides) => two(comparison.name(), sides),
            // Those that are not written are most of them.
            Expr::Cast(inner, conversion) if !conversion.is_explicit => self.write(inner),
            Expr::Cast(inner, conversion) => format!("{}::{}", self.operand(inner), conversion.to.name()),
            Expr::Domain(inner, _) => self.write(inner),
            Expr::And(_) => self.part_of_and(expr),
            Expr::Or(parts) => parts.iter().map(|part| self.operand(part)).collect::<Vec<_>>().join(" OR "),
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) => format!("{} IS NOT NULL", self.operand(inner)),
                inner => format!("NOT {}", self.operand(inner)),
            },
            Expr::IsNull(inner) => format!("{} IS NULL", self.operand(inner)),
            Expr::IsBool(inner, value) => {
                format!("{} IS {}", self.operand(inner), if *value { "TRUE" } else { "FALSE" })
            }
            Expr::Distinct(sides) => two("IS DISTINCT FROM", sides),
            Expr::Case(cases, otherwise) => {
                let when = |(condition, result): &(Expr, Expr)| {
                    format!("WHEN {} THEN {} ", self.write(condition), self.write(result))
                };
                format!("CASE {}ELSE {} END", cases.iter().map(when).collect::<String>(), self.write(otherwise))
            }
            Expr::Coalesce(all) => format!("COALESCE({})", self.list(all)),
            Expr::NullIf(_, sides) => format!("NULLIF({})", self.list(&**sides)),
            Expr::Extreme(ordering, all) => {
                format!("{}({})", if ordering.is_gt() { "GREATEST" } else { "LEAST" }, self.list(all))
            }
            Expr::In(one, list) => format!("{} IN ({})", self.operand(one), self.list(list)),
            Expr::Any { operator, operands, all } => {
                let name = match operator {
                    Elementwise::Compare(comparison) => comparison.name(),
                    Elementwise::Binary(function) => &function.name,
                };
                let word = if *all { "ALL" } else { "ANY" };
                format!("{} {name} {word} ({})", self.operand(&operands[0]), self.write(&operands[1]))
            }
            Expr::Array(_, all) => format!("ARRAY[{}]", self.list(all)),
            Expr::Record(_, all) => format!("ROW({})", self.list(all)),
            Expr::Element(all) => {
                let subscripts = all.iter().skip(1).map(|one| format!("[{}]", self.write(one)));
                format!(
                    "{}{}",
                    all.first().map(|array| self.operand(array)).unwrap_or_default(),
                    subscripts.collect::<String>()
                )
            }
            Expr::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Exists => "EXISTS (subquery)".into(),
                SubqueryKind::Holds { operand, comparison, all } => {
                    let word = if *all { "ALL" } else { "ANY" };
                    format!("{} {} {word} (subquery)", self.operand(operand), comparison.name())
                }
                _ => "(subquery)".into(),
            },
            Expr::Next(next) => format!("nextval('{}')", next.0.def.name),
            Expr::Rows(_) => "a comparison of rows".into(),
            _ => "an expression".into(),
        }
    }
}

/// Whether the function of this name is written as an operator.
fn is_operator(name: &str) -> bool {
    !name.is_empty() && (name.chars().all(|one| "+-*/<>=~!@#%^&|`?".contains(one)) || name.contains("LIKE"))
}

/// Longest literal that is written, in bytes: a plan is for reading.
const LITERAL_MAX: usize = 60;

fn literal(value: &Value, environment: &Environment) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(_) | Value::Float8(_) => {
            text::to_string(value, SqlType::TEXT, environment)
        }
        other => {
            let mut shown = text::to_string(other, SqlType::TEXT, environment).replace('\'', "''");
            if shown.len() > LITERAL_MAX {
                let end = (0..=LITERAL_MAX).rev().find(|&at| shown.is_char_boundary(at)).unwrap_or(0);
                shown.truncate(end);
                shown += "..";
            }
            format!("'{shown}'")
        }
    }
}
