//! Expressions as SQL writes them: columns by name, values as literals. What they show can be parsed again.
//!
//! Casts that are not written are not shown.

use std::{cell::RefCell, collections::HashMap};

use super::forms::is_operator;
use crate::{
    expr::{Comparison, Elementwise, Expr, NextOf, Quantifier, Subquery, SubqueryKind, hidden},
    functions::{is_ordered_set, quote_ident},
    query::{
        AggregateCall, Body, Group, Query, Select, Source, SourceKind,
        window::{Exclusion, FrameBound, FrameUnit, Window, WindowFrame, WindowFunction},
    },
    types::{Environment, SqlType, Value, text},
};

/// Writes the expressions of a plan.
pub(super) struct Writer<'a> {
    pub(super) environment: &'a Environment,
    /// The numbers of the queries in expressions, by their addresses.
    subplans: RefCell<HashMap<*const Subquery, usize>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(environment: &'a Environment) -> Self {
        Self { environment, subplans: RefCell::default() }
    }

    /// Returns the kind of a query in an expression, and its name, whose number is that of its first mention.
    pub(super) fn subplan(&self, of: &Subquery) -> (&'static str, String) {
        let mut all = self.subplans.borrow_mut();
        let next = all.len() + 1;
        let number = *all.entry(std::ptr::from_ref(of)).or_insert(next);
        let kind = if of.is_correlated { "SubPlan" } else { "InitPlan" };
        (kind, format!("{kind} {number}"))
    }

    /// Returns conditions that must all hold, in parentheses; `None`: there are none.
    pub(super) fn conditions<'e>(&self, all: impl Iterator<Item = &'e Expr>, places: &Places<'_>) -> Option<String> {
        let sql = Sql { places, writer: self };
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
    pub(super) fn expression(&self, expr: &Expr, places: &Places<'_>) -> String {
        Sql { places, writer: self }.write(expr)
    }

    /// Returns an operand of an operator.
    pub(super) fn operand(&self, expr: &Expr, places: &Places<'_>) -> String {
        Sql { places, writer: self }.operand(expr)
    }
}

/// Returns a sort key.
pub(super) fn sort_key(text: &str, descending: bool, nulls_first: bool) -> String {
    let direction = if descending { " DESC" } else { "" };
    // The usual order of NULL is that of the greatest value.
    let nulls = match (descending, nulls_first) {
        (false, true) => " NULLS FIRST",
        (true, false) => " NULLS LAST",
        _ => "",
    };
    format!("{text}{direction}{nulls}")
}

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
    fn name(&self, level: usize, at: usize, writer: &Writer<'_>) -> Option<String> {
        let place = self.0.len().checked_sub(level + 1)?;
        let Level { select, is_above } = self.0[place];
        if is_above {
            // Expressions of a query below its groups.
            let below = Places(self.0[..place].to_vec()).within(select);
            let sql = Sql { places: &below, writer };
            if let Some(name) = sql.above(select, at) {
                return Some(name);
            }
        }
        let source = select.sources.iter().find(|source| source.has_place(at))?;
        let name = quote_ident(&column(source, at - source.first));
        let is_alone = level == 0 && self.0.len() == 1 && select.sources.len() == 1;
        let is_unnamed = is_alone || source.name.is_empty();
        Some(if is_unnamed { name } else { format!("{}.{name}", quote_ident(&source.name)) })
    }
}

fn column(source: &Source, at: usize) -> String {
    if let Some(name) = source.names.get(at) {
        return name.to_string();
    }
    let result = match &source.kind {
        SourceKind::Table(table) if at < table.table.def.columns.len() => {
            Some(table.table.def.columns[at].name.clone())
        }
        SourceKind::Table(_) => Some("tableoid".into()),
        SourceKind::System { table, .. } => table.columns().get(at).map(|column| column.name.clone()),
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

/// Returns an expression without what around it is not written.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(inner, conversion) if !conversion.is_explicit => bare(inner),
        Expr::Domain(inner, _) => bare(inner),
        Expr::Prefix(function, inner) if *function.name == *hidden::WIDENED => bare(inner),
        expr => expr,
    }
}

/// Writes expressions on some rows.
pub(super) struct Sql<'a> {
    places: &'a Places<'a>,
    pub(super) writer: &'a Writer<'a>,
}

impl Sql<'_> {
    /// Writes an operand of AND, which binds weaker than all but OR.
    fn part_of_and(&self, expr: &Expr) -> String {
        match bare(expr) {
            Expr::And(parts) if !parts.is_empty() => {
                parts.iter().map(|part| self.part_of_and(part)).collect::<Vec<_>>().join(" AND ")
            }
            Expr::Or(_) => format!("({})", self.write(expr)),
            _ => self.write(expr),
        }
    }

    /// Writes an operand of an operator.
    pub(super) fn operand(&self, expr: &Expr) -> String {
        let is_closed = match bare(expr) {
            Expr::Binary(function, _) => !is_operator(&function.name),
            Expr::Prefix(function, _) => !is_operator(&function.name),
            Expr::Call(function, arguments) => !Self::has_words(&function.name, arguments.len()),
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsBool(..) => false,
            Expr::Compare(..) | Expr::Distinct(_) | Expr::In(..) | Expr::Any { .. } | Expr::Rows(_) => false,
            Expr::Subquery(Subquery { kind: SubqueryKind::Holds { .. } | SubqueryKind::Row { .. }, .. }) => false,
            _ => true,
        };
        if is_closed { self.write(expr) } else { format!("({})", self.write(expr)) }
    }

    /// Writes an operand of an operator or function that does not decide about the type of a literal.
    pub(super) fn typed(&self, expr: &Expr) -> String {
        match bare(expr) {
            Expr::Constant(
                value @ (Value::Date(_)
                | Value::Time(_)
                | Value::TimeTz { .. }
                | Value::Timestamp(_)
                | Value::TimestampTz(_)
                | Value::Interval { .. }),
            ) => self.literal(value, true),
            _ => self.operand(expr),
        }
    }

    /// Writes an operand of a sign, or of a cast, which binds more tightly than the sign of a number.
    fn unsigned(&self, expr: &Expr) -> String {
        let text = self.operand(expr);
        if text.starts_with('-') { format!("({text})") } else { text }
    }

    /// Writes a place of the row of a group, or a result of a window function or of one that returns a set.
    fn above(&self, select: &Select, at: usize) -> Option<String> {
        // Arguments refer to the rows of the groups, if there are any.
        let above = self.places.around().above(select);
        let sql = Sql { places: &above, writer: self.writer };
        if let Some(set) = at.checked_sub(select.sets.first).filter(|_| !select.sets.is_empty()) {
            let call = select.sets.levels.iter().flatten().nth(set)?;
            return Some(sql.call(&call.name, &call.arguments, None));
        }
        for window in &select.windows.all {
            if let Some(call) = window.calls.iter().find(|call| call.at == at) {
                let function = sql.window_function(&call.function);
                return Some(format!("{function} OVER ({})", sql.window(window, &call.frame)));
            }
        }
        let group = select.group.as_ref()?;
        match group.keys.get(at) {
            Some(key @ Expr::Column(_)) => Some(self.write(key)),
            Some(key) => Some(format!("({})", self.write(key))),
            None => Some(match group.groupings.get(at - group.keys.len()) {
                Some(keys) => {
                    let keys: Vec<_> = keys.iter().map(|key| self.write(&group.keys[*key])).collect();
                    format!("GROUPING({})", keys.join(", "))
                }
                None => self.aggregate(aggregate_at(group, at)?),
            }),
        }
    }

    fn sort_keys(&self, keys: &[(Expr, bool, bool)]) -> String {
        let key =
            |(key, descending, nulls_first): &(Expr, bool, bool)| sort_key(&self.write(key), *descending, *nulls_first);
        keys.iter().map(key).collect::<Vec<_>>().join(", ")
    }

    fn aggregate(&self, call: &AggregateCall) -> String {
        let name = call.aggregate.name();
        let order =
            if call.order.is_empty() { String::new() } else { format!("ORDER BY {}", self.sort_keys(&call.order)) };
        let text = match (&call.arguments[..], call.is_distinct) {
            // The sorted value precedes the direct argument.
            ([_, direct @ ..], _) if is_ordered_set(name) => {
                format!("{name}({}) WITHIN GROUP ({order})", self.list(direct))
            }
            ([], _) => format!("{name}(*)"),
            (arguments, is_distinct) => {
                let word = if is_distinct { "DISTINCT " } else { "" };
                let blank = if order.is_empty() { "" } else { " " };
                format!("{name}({word}{}{blank}{order})", self.list(arguments))
            }
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
            F::Shift { value, offset, default, is_lead } => {
                let name = if *is_lead { "lead" } else { "lag" };
                match (offset, default) {
                    (Expr::Constant(Value::Int4(1)), Expr::Constant(Value::Null)) => of(name, value),
                    _ => format!("{name}({}, {}, {})", self.write(value), self.write(offset), self.write(default)),
                }
            }
            F::FirstValue(value) => of("first_value", value),
            F::LastValue(value) => of("last_value", value),
            F::NthValue(arguments) => format!("nth_value({})", self.list(&arguments[..])),
            F::Aggregate(call) => self.aggregate(call),
        }
    }

    fn window(&self, Window { partition, order, .. }: &Window, frame: &WindowFrame) -> String {
        let mut parts = Vec::new();
        if !partition.is_empty() {
            parts.push(format!("PARTITION BY {}", self.list(partition)));
        }
        if !order.is_empty() {
            parts.push(format!("ORDER BY {}", self.sort_keys(order)));
        }
        let bound = |bound: &FrameBound, side: &str| match bound {
            FrameBound::Unbounded => format!("UNBOUNDED {side}"),
            FrameBound::CurrentRow => "CURRENT ROW".into(),
            FrameBound::Preceding(offset) => format!("{} PRECEDING", self.typed(offset)),
            FrameBound::Following(offset) => format!("{} FOLLOWING", self.typed(offset)),
        };
        let WindowFrame { unit, start, end, exclusion } = frame;
        let is_usual = matches!(
            (unit, start, end, exclusion),
            (FrameUnit::Range, FrameBound::Unbounded, FrameBound::CurrentRow, Exclusion::NoOthers)
        );
        if !is_usual {
            let unit = match unit {
                FrameUnit::Rows => "ROWS",
                FrameUnit::Range => "RANGE",
                FrameUnit::Groups => "GROUPS",
            };
            let exclusion = match exclusion {
                Exclusion::NoOthers => "",
                Exclusion::CurrentRow => " EXCLUDE CURRENT ROW",
                Exclusion::Group => " EXCLUDE GROUP",
                Exclusion::Ties => " EXCLUDE TIES",
            };
            let (start, end) = (bound(start, "PRECEDING"), bound(end, "FOLLOWING"));
            parts.push(format!("{unit} BETWEEN {start} AND {end}{exclusion}"));
        }
        parts.join(" ")
    }

    pub(super) fn list(&self, all: &[Expr]) -> String {
        all.iter().map(|expr| self.write(expr)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn write(&self, expr: &Expr) -> String {
        let two = |operator: &str, sides: &[Expr; 2]| {
            format!("{} {operator} {}", self.operand(&sides[0]), self.operand(&sides[1]))
        };
        let unnamed = || "\"?column?\"".to_owned();
        match bare(expr) {
            Expr::Constant(value) => self.literal(value, false),
            Expr::Parameter(at) => format!("${}", at + 1),
            Expr::Column(at) => self.places.name(0, *at, self.writer).unwrap_or_else(unnamed),
            Expr::Outer(level, at) => self.places.name(*level, *at, self.writer).unwrap_or_else(unnamed),
            Expr::Binary(function, sides) if is_operator(&function.name) => self.binary(&function.name, sides),
            Expr::Binary(function, sides) => self.call(&function.name, &**sides, None),
            Expr::Prefix(function, one) if is_operator(&function.name) => {
                // Signs that follow one another would be another operator.
                let blank = if matches!(&*function.name, "-" | "+" | "~") { "" } else { " " };
                format!("{}{blank}{}", function.name, self.unsigned(one))
            }
            Expr::Prefix(function, one) => self.call(&function.name, std::slice::from_ref(&**one), None),
            Expr::Call(function, arguments) => self.call(&function.name, arguments, Some(function.result)),
            Expr::Lookup(function, arguments) => self.lookup(&function.name, arguments),
            Expr::Compare(comparison, sides) => two(comparison.name(), sides),
            Expr::Cast(inner, conversion) => {
                let ty = conversion.to;
                let name = match ty.created() {
                    Some(_) => self.type_name(ty),
                    None => ty.describe(conversion.modifier),
                };
                format!("{}::{name}", self.unsigned(inner))
            }
            Expr::And(parts) if parts.is_empty() => "true".into(),
            Expr::Or(parts) if parts.is_empty() => "false".into(),
            Expr::And(_) => self.part_of_and(expr),
            Expr::Or(parts) => parts.iter().map(|part| self.operand(part)).collect::<Vec<_>>().join(" OR "),
            Expr::Not(inner) => match bare(inner) {
                Expr::IsNull(inner) => format!("{} IS NOT NULL", self.operand(inner)),
                Expr::IsBool(inner, value) => format!("{} IS NOT {}", self.operand(inner), truth(*value)),
                Expr::Distinct(sides) => two("IS NOT DISTINCT FROM", sides),
                inner => format!("NOT {}", self.operand(inner)),
            },
            Expr::IsNull(inner) => format!("{} IS NULL", self.operand(inner)),
            Expr::IsBool(inner, value) => format!("{} IS {}", self.operand(inner), truth(*value)),
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
                let (name, collation) = hidden::collated(name);
                let word = if *all { "ALL" } else { "ANY" };
                let (operand, array) = (self.operand(&operands[0]), self.write(&operands[1]));
                format!("{operand}{collation} {name} {word} ({array})")
            }
            Expr::Array(_, all) if all.is_empty() => "'{}'".into(),
            Expr::Array(_, all) => format!("ARRAY[{}]", self.list(all)),
            Expr::Record(_, all) => format!("ROW({})", self.list(all)),
            Expr::Element(all) => match &all[..] {
                [] => "NULL".into(),
                [array, subscripts @ ..] => self.element(array, subscripts),
            },
            Expr::Subquery(subquery) => self.subquery(subquery),
            Expr::Rows(comparisons) => self.rows(comparisons),
            Expr::Next(next) => format!("nextval({})", self.sequence(next)),
            Expr::LastGiven(Some(next)) => format!("currval({})", self.sequence(next)),
            Expr::LastGiven(None) => "lastval()".into(),
            Expr::SetNext(next, operands) => format!("setval({}, {})", self.sequence(next), self.list(&**operands)),
            Expr::SetConfig(operands) => format!("set_config({})", self.list(&**operands)),
            Expr::Advisory(call, numbers) => format!("{}({})", call.name(), self.list(numbers)),
            Expr::Notify(operands) => format!("pg_notify({})", self.list(&**operands)),
            Expr::Channels => "pg_listening_channels()".into(),
            Expr::Sleep(seconds) => format!("pg_sleep({})", self.write(seconds)),
            // `bare` has taken it away.
            Expr::Domain(inner, _) => self.write(inner),
            // Places have taken the place of these.
            Expr::Aggregate(_) | Expr::OuterAggregate(..) | Expr::Grouping(_) | Expr::Window(_) | Expr::Set(_) => {
                unnamed()
            }
        }
    }

    fn sequence(&self, next: &NextOf) -> String {
        format!("'{}'", quote_ident(&next.0.def.name).replace('\'', "''"))
    }

    /// Writes a binary operator and its operands.
    fn binary(&self, name: &str, sides: &[Expr; 2]) -> String {
        let (name, collation) = hidden::collated(name);
        let [left, right] = match Comparison::parse(name) {
            Some(_) => [&sides[0], &sides[1]].map(|side| self.operand(side)),
            None => [&sides[0], &sides[1]].map(|side| self.typed(side)),
        };
        format!("{left} {name} {right}{collation}")
    }

    /// Writes an element of an array.
    pub(super) fn element(&self, array: &Expr, subscripts: &[Expr]) -> String {
        let own = match bare(array) {
            Expr::Column(_) | Expr::Outer(..) | Expr::Parameter(_) => self.write(array),
            _ => format!("({})", self.write(array)),
        };
        let subscripts: String = subscripts.iter().map(|one| format!("[{}]", self.write(one))).collect();
        own + &subscripts
    }

    fn subquery(&self, of: &Subquery) -> String {
        let (_, name) = self.writer.subplan(of);
        match &of.kind {
            SubqueryKind::Value => format!("({name})"),
            SubqueryKind::Exists => format!("EXISTS ({name})"),
            SubqueryKind::Array(_) => format!("ARRAY({name})"),
            SubqueryKind::Holds { operand, comparison, all } => {
                let word = if *all { "ALL" } else { "ANY" };
                format!("{} {} {word} ({name})", self.operand(operand), comparison.name())
            }
            SubqueryKind::Row { row, comparison, quantifier } => {
                let word = match quantifier {
                    Quantifier::Any => "ANY ",
                    Quantifier::All => "ALL ",
                    Quantifier::One => "",
                };
                format!("{} {} {word}({name})", self.operand(row), comparison.name())
            }
        }
    }

    /// Writes an ordering of rows.
    fn rows(&self, comparisons: &[Expr]) -> String {
        let pair = |comparison: &Expr| match comparison {
            Expr::Compare(comparison, sides) => {
                Some((comparison.name(), [&sides[0], &sides[1]].map(|of| self.write(of))))
            }
            Expr::Binary(function, sides) => {
                Some((Comparison::parse(&function.name)?.name(), [&sides[0], &sides[1]].map(|of| self.write(of))))
            }
            _ => None,
        };
        // Each pair but the last has two comparisons.
        let pairs: Option<Vec<_>> = comparisons.iter().step_by(2).map(pair).collect();
        match pairs.as_deref() {
            Some(pairs @ [.., (operator, _)]) => {
                let [left, right] = [0, 1].map(|side| {
                    let values: Vec<_> = pairs.iter().map(|(_, sides)| &*sides[side]).collect();
                    values.join(", ")
                });
                format!("ROW({left}) {operator} ROW({right})")
            }
            _ => comparisons.iter().map(|one| self.operand(one)).collect::<Vec<_>>().join(" OR "),
        }
    }

    /// Writes the name of a type.
    pub(super) fn type_name(&self, ty: SqlType) -> String {
        self.writer.environment.type_name(ty).into_owned()
    }

    /// Writes a value, with its type or without it.
    pub(super) fn literal(&self, value: &Value, has_type: bool) -> String {
        let mut shown = match value {
            Value::Null => return "NULL".into(),
            Value::Bool(value) => return value.to_string(),
            value => text::to_string(value, SqlType::TEXT, self.writer.environment),
        };
        let is_number =
            matches!(value, Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(_) | Value::Float8(_));
        // NaN and the infinities are no numbers in statements.
        if is_number && shown.ends_with(|last: char| last.is_ascii_digit()) {
            return shown;
        }
        if shown.len() > LITERAL_MAX {
            shown.truncate(shown.floor_char_boundary(LITERAL_MAX));
            shown += "..";
        }
        let shown = shown.replace('\'', "''");
        match value.natural_type().filter(|_| has_type || is_number) {
            Some(ty) => format!("'{shown}'::{}", self.type_name(ty)),
            None => format!("'{shown}'"),
        }
    }
}

fn truth(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

/// Longest literal that is written, in bytes: a plan is for reading.
const LITERAL_MAX: usize = 60;
