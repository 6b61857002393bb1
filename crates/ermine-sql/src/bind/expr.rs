//! Expressions.

use sqlparser::ast::{self, BinaryOperator, CeilFloorKind, DateTimeField, UnaryOperator};

use super::{
    Binder, DEPTH_MAX, ScopeColumn, Typed,
    collation::Derived,
    names::{collation_of, interval_modifier, name_of, relation_of, type_of},
    row::items_of,
    sets::refuse_set_operand,
    variadic::argument_of,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{self, Comparison, Elementwise, Expr, Function, Quantifier, Subquery, SubqueryKind, hidden},
    functions::resolution::no_array_of,
    operators,
    parse::{SYMMETRIC, place},
    system::reg::{Reg, shown},
    types::{
        Array, Environment, Numeric, SqlType, Value,
        cast::{self, Context},
        text,
    },
};

/// The function of an operator, its operands, and their types.
type Operation = (Function<expr::Binary>, Box<[Expr; 2]>, [SqlType; 2]);

/// The columns that tables of PostgreSQL have about the versions of rows.
const SYSTEM_COLUMNS: [&str; 5] = ["ctid", "xmin", "xmax", "cmin", "cmax"];

impl Binder<'_> {
    /// Binds an expression.
    pub(crate) fn expr(&mut self, expr: &ast::Expr) -> Result<Typed> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the expression is nested too deeply"));
        }
        let bound = self.collated(|this| this.expr_inside(expr));
        self.depth -= 1;
        match bound {
            Ok((typed, _)) => Ok(typed),
            Err(error) => Err(place::in_expr(error, expr)),
        }
    }

    /// Binds a condition.
    pub(crate) fn condition(&mut self, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        let typed = match clause {
            "WHERE" | "HAVING" | "FILTER" => self.without_rows(clause, |this| this.expr(expr))?,
            "JOIN/ON" => self.without_rows("JOIN conditions", |this| this.expr(expr))?,
            _ => self.expr(expr)?,
        };
        match typed.ty {
            Some(SqlType::BOOL) | None => {
                refuse_set_operand(&typed, clause)?;
                self.coerce(typed, SqlType::BOOL)
            }
            Some(ty) => {
                let message = format!("argument of {clause} must be type boolean, not type {}", ty.name());
                Err(place::at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), expr))
            }
        }
    }

    fn expr_inside(&mut self, expr: &ast::Expr) -> Result<Typed> {
        let boolean = |expr| Ok(Typed::new(expr, SqlType::BOOL));
        let negate = |expr, negated| if negated { Expr::Not(Box::new(expr)) } else { expr };
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner),
            ast::Expr::Identifier(ident) => self.column(None, &name_of(ident)),
            ast::Expr::CompoundIdentifier(idents) => {
                let mut parts: Vec<_> = idents.iter().map(name_of).collect();
                let own = parts.pop().unwrap_or_default();
                self.column(parts.pop().as_deref(), &own)
            }
            ast::Expr::Value(value) => self.literal(&value.value),
            ast::Expr::TypedString(typed) => {
                let literal = self.literal(&typed.value.value)?;
                match typed.data_type {
                    // A constant is as long as it is written.
                    ast::DataType::Bit(None) => {
                        Ok(Typed::new(self.convert(literal, SqlType::BIT, -1, Context::Explicit)?, SqlType::BIT))
                    }
                    _ => self.cast(literal, &typed.data_type),
                }
            }
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => self.cast_of(expr, data_type),
            ast::Expr::Interval(interval) => self.interval(interval),
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            ast::Expr::BinaryOp { left, op, right } => self.binary_op(left, op, right),
            ast::Expr::IsNull(_)
            | ast::Expr::IsNotNull(_)
            | ast::Expr::IsUnknown(_)
            | ast::Expr::IsNotUnknown(_)
            | ast::Expr::IsTrue(_)
            | ast::Expr::IsNotTrue(_)
            | ast::Expr::IsFalse(_)
            | ast::Expr::IsNotFalse(_)
            | ast::Expr::IsDistinctFrom(..)
            | ast::Expr::IsNotDistinctFrom(..) => boolean(self.is_test(expr)?),
            ast::Expr::InList { expr, list, negated } => boolean(negate(self.in_list(expr, list)?, *negated)),
            ast::Expr::Between { expr, negated, low, high } => {
                boolean(negate(self.between(expr, low, high)?, *negated))
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~" } else { "~~" }, expr, pattern, escape_char.as_deref())
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~*" } else { "~~*" }, expr, pattern, escape_char.as_deref())
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let pattern = [Some(&**pattern), escape_char.as_deref()].into_iter().flatten().collect::<Vec<_>>();
                let (operand, pattern) = (self.expr(expr)?, self.call_with("similar_to_escape", &pattern)?);
                self.binary(if *negated { "!~" } else { "~" }, operand, pattern)
            }
            ast::Expr::AnyOp { left, compare_op, right, .. } => self.any_of(left, compare_op, right, false),
            ast::Expr::AllOp { left, compare_op, right } => self.any_of(left, compare_op, right, true),
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.without_sets("CASE", |this| this.case(operand.as_deref(), conditions, else_result.as_deref()))
            }
            ast::Expr::Exists { subquery, negated } => {
                let (subquery, _) = self.subquery(subquery, SubqueryKind::Exists)?;
                boolean(negate(subquery, *negated))
            }
            ast::Expr::Subquery(query) => {
                let (subquery, columns) = self.subquery(query, SubqueryKind::Value)?;
                let [column] = &columns[..] else { return Err(one_column()) };
                self.set_collation(Derived::Implicit(column.collation));
                Ok(Typed { expr: subquery, ty: Some(column.ty), modifier: column.modifier })
            }
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let holds = self.holds(expr, Comparison::Equal, subquery, false)?;
                boolean(negate(holds, *negated))
            }
            ast::Expr::Array(array) => self.array(&array.elem),
            ast::Expr::Collate { expr, collation } => self.collate(expr, collation),
            row if let Some(items) = items_of(row) => self.row(&items),
            ast::Expr::Function(function) => self.function(function),
            ast::Expr::QualifiedWildcard(source, _) => self.row_of_source(&relation_of(source)?.1),
            ast::Expr::CompoundFieldAccess { root, access_chain } => self.element(root, access_chain),
            other => self.call_in_words(other),
        }
    }

    fn between(&mut self, expr: &ast::Expr, low: &ast::Expr, high: &ast::Expr) -> Result<Expr> {
        if let Some(first) = argument_of(low, SYMMETRIC) {
            let (one, other) = (self.between(expr, first, high)?, self.between(expr, high, first)?);
            return Ok(Expr::Or(vec![one, other]));
        }
        if let (Some(row), Some(low), Some(high)) = (items_of(expr), items_of(low), items_of(high)) {
            let lower = self.compare_rows(">=", &row, &low)?;
            let upper = self.compare_rows("<=", &row, &high)?;
            return Ok(Expr::And(vec![lower.expr, upper.expr]));
        }
        let (operand, low) = (self.expr(expr)?, self.expr(low)?);
        let lower = self.compare(Comparison::GreaterOrEqual, operand.clone(), low)?;
        // The cast has given the parameter its type.
        let ty = match operand.expr {
            Expr::Parameter(at) => self.parameters[at],
            _ => operand.ty,
        };
        let high = self.expr(high)?;
        let upper = self.compare(Comparison::LessOrEqual, Typed { ty, ..operand }, high)?;
        Ok(Expr::And(vec![lower, upper]))
    }

    fn collate(&mut self, expr: &ast::Expr, collation: &ast::ObjectName) -> Result<Typed> {
        let collation = collation_of(collation)?;
        let operand = self.apart(|this| this.expr(expr))?;
        self.set_collation(Derived::Explicit(collation));
        match operand.ty {
            Some(ty) if !SqlType::scalar(ty.scalar).is_text() => {
                let message = format!("collations are not supported by type {}", ty.name());
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
            _ => Ok(operand),
        }
    }

    fn cast_of(&mut self, expr: &ast::Expr, data_type: &ast::DataType) -> Result<Typed> {
        let operand = match (unnested(expr), type_of(data_type, self.environment)?.0) {
            (ast::Expr::Array(array), ty) if ty.is_array && !array.elem.is_empty() => {
                self.array_of(&array.elem, SqlType::scalar(ty.scalar))?
            }
            _ => self.expr(expr)?,
        };
        self.cast(operand, data_type)
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Typed> {
        let name = |field: &Option<ast::DateTimeField>| field.as_ref().map(ToString::to_string);
        let (first, last) = (name(&interval.leading_field), name(&interval.last_field));
        let is_second = first.as_deref() == Some("SECOND");
        // That of a first field which is not the last has no meaning in PostgreSQL.
        if interval.leading_precision.is_some() && !is_second {
            return Err(SqlError::unsupported(format_args!("the fields of {interval}")));
        }
        let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
        let modifier = interval_modifier(first.as_deref().unwrap_or_default(), last.as_deref(), precision)?;
        let literal = self.expr(&interval.value)?;
        Ok(Typed {
            expr: self.convert(literal, SqlType::INTERVAL, modifier, Context::Explicit)?,
            ty: Some(SqlType::INTERVAL),
            modifier,
        })
    }

    /// Binds a test with IS.
    fn is_test(&mut self, expr: &ast::Expr) -> Result<Expr> {
        let null = |operand| Expr::IsNull(Box::new(operand));
        let truth = |operand, wanted| Expr::IsBool(Box::new(operand), wanted);
        let not = |operand| Expr::Not(Box::new(operand));
        Ok(match expr {
            ast::Expr::IsNull(operand) => self.null_test(operand, true)?,
            ast::Expr::IsNotNull(operand) => self.null_test(operand, false)?,
            ast::Expr::IsUnknown(operand) => null(self.condition(operand, "IS UNKNOWN")?),
            ast::Expr::IsNotUnknown(operand) => not(null(self.condition(operand, "IS NOT UNKNOWN")?)),
            ast::Expr::IsTrue(operand) => truth(self.condition(operand, "IS TRUE")?, true),
            ast::Expr::IsNotTrue(operand) => not(truth(self.condition(operand, "IS NOT TRUE")?, true)),
            ast::Expr::IsFalse(operand) => truth(self.condition(operand, "IS FALSE")?, false),
            ast::Expr::IsNotFalse(operand) => not(truth(self.condition(operand, "IS NOT FALSE")?, false)),
            ast::Expr::IsDistinctFrom(left, right) => self.distinct(left, right)?,
            ast::Expr::IsNotDistinctFrom(left, right) => not(self.distinct(left, right)?),
            other => return Err(SqlError::unsupported(format_args!("the expression {other}"))),
        })
    }

    /// Binds a call that is written with words between its arguments.
    fn call_in_words(&mut self, expr: &ast::Expr) -> Result<Typed> {
        match expr {
            ast::Expr::AtTimeZone { timestamp, time_zone } => self.call_with("timezone", &[time_zone, timestamp]),
            ast::Expr::Extract { field, expr, .. } => {
                let field = Typed::new(text_constant(&field.to_string().to_lowercase()), SqlType::TEXT);
                let operand = self.expr(expr)?;
                self.call_of("extract", vec![field, operand])
            }
            ast::Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.call_with("ceil", &[expr])
            }
            ast::Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.call_with("floor", &[expr])
            }
            ast::Expr::Position { expr, r#in } => self.call_with("position", &[r#in, expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expr(expr)?];
                match substring_from {
                    Some(from) => arguments.push(self.expr(from)?),
                    None => arguments.push(Typed::new(Expr::Constant(Value::Int4(1)), SqlType::INT4)),
                }
                if let Some(length) = substring_for {
                    arguments.push(self.expr(length)?);
                }
                self.call_of("substring", arguments)
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut arguments = vec![self.expr(expr)?];
                for characters in trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten()) {
                    arguments.push(self.expr(characters)?);
                }
                self.call_of(name, arguments)
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![&**expr, overlay_what, overlay_from];
                arguments.extend(overlay_for.as_deref());
                self.call_with("overlay", &arguments)
            }
            other => Err(SqlError::unsupported(format_args!("the expression {other}"))),
        }
    }

    /// Binds an expression of any type.
    fn any(&mut self, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.expr(expr)?;
        self.leave(typed)
    }

    fn literal(&mut self, value: &ast::Value) -> Result<Typed> {
        Ok(match value {
            ast::Value::Number(digits, _) => number(digits)?,
            ast::Value::Boolean(truth) => Typed::new(Expr::Constant(Value::Bool(*truth)), SqlType::BOOL),
            ast::Value::Null => Typed { expr: Expr::Constant(Value::Null), ty: None, modifier: -1 },
            ast::Value::Placeholder(name) => self.parameter(name)?,
            ast::Value::HexStringLiteral(digits) => bits('x', digits)?,
            ast::Value::SingleQuotedByteStringLiteral(digits) => bits('b', digits)?,
            ast::Value::DollarQuotedString(quoted) => untyped(&quoted.value),
            other => match other.clone().into_string() {
                Some(text) => untyped(&text),
                None => return Err(SqlError::unsupported(format_args!("the literal {other}"))),
            },
        })
    }

    fn parameter(&mut self, name: &str) -> Result<Typed> {
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some(at) = number.filter(|number| (1..=65535).contains(number)).map(|number| number - 1) else {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")));
        };
        if self.parameters.len() <= at {
            self.parameters.resize(at + 1, None);
        }
        Ok(Typed { expr: Expr::Parameter(at), ty: self.parameters[at], modifier: -1 })
    }

    /// Whether a name without a source refers to a column.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let mut columns = self.scopes.iter().flat_map(|scope| &scope.columns[scope.hidden..]);
        columns.any(|column| column.name == name && !column.is_merged)
    }

    /// Returns the column that a name refers to.
    pub(super) fn column(&mut self, source: Option<&str>, name: &str) -> Result<Typed> {
        for level in 0..self.scopes.len() {
            let at = self.scopes.len() - 1 - level;
            let scope = &mut self.scopes[at];
            let is_meant = |column: &ScopeColumn| {
                column.name == name
                    && match source {
                        None => !column.is_merged,
                        Some(source) => scope.sources[column.source] == source,
                    }
            };
            let all = &scope.columns[scope.hidden..];
            let mut found = all.iter().filter(|column| is_meant(column));
            let Some(column) = found.next().cloned() else {
                if let Some(source) = source
                    && scope.columns[..scope.hidden].iter().any(is_meant)
                {
                    let message = format!("invalid reference to FROM-clause entry for table \"{source}\"");
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
                continue;
            };
            if found.next().is_some() {
                let message = format!("column reference \"{name}\" is ambiguous");
                return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
            }
            self.note_use(column.origin);
            let expr = if level == 0 { Expr::Column(column.at) } else { Expr::Outer(level, column.at) };
            self.set_collation(Derived::Implicit(column.collation));
            return Ok(Typed { expr, ty: Some(column.ty), modifier: column.modifier });
        }
        Err(match source {
            _ if SYSTEM_COLUMNS.contains(&name) => SqlError::unsupported(format_args!("the system column {name}")),
            Some(source) if !self.is_source(source) => {
                SqlError::new(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{source}\""))
            }
            Some(source) => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {source}.{name} does not exist")),
            None if matches!(
                name,
                "current_user"
                    | "session_user"
                    | "user"
                    | "current_date"
                    | "current_timestamp"
                    | "current_time"
                    | "localtime"
                    | "localtimestamp"
                    | "current_schema"
                    | "current_catalog"
                    | "current_role"
            ) =>
            {
                return self.call_of(name, Vec::new());
            }
            None if self.is_source(name) => return self.row_of_source(name),
            None => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
        })
    }

    pub(super) fn cast(&mut self, operand: Typed, to: &ast::DataType) -> Result<Typed> {
        if let Some(cast) = self.cast_to_domain(&operand, to)? {
            return Ok(cast);
        }
        let (ty, modifier) = type_of(to, self.environment)?;
        if let Some(reg) = Reg::of(ty, modifier) {
            return self.cast_to_reg(operand, reg);
        }
        let shown = operand.ty.and_then(|own| shown(own, operand.modifier)).filter(|_| ty.is_text());
        let operand = match shown {
            Some(text) => self.look_up("text", vec![operand], text)?,
            None => operand,
        };
        let expr = self.convert(operand, ty, modifier, Context::Explicit)?;
        Ok(Typed { expr, ty: Some(ty), modifier })
    }

    /// Binds a cast of a name to the number of the named object.
    fn cast_to_reg(&mut self, operand: Typed, reg: Reg) -> Result<Typed> {
        if operand.ty.is_some_and(|ty| !ty.is_text()) {
            let expr = self.convert(operand, SqlType::OID, -1, Context::Explicit)?;
            return Ok(Typed { expr, ty: Some(SqlType::OID), modifier: reg.modifier() });
        }
        let numbers = reg.numbers();
        if let Expr::Constant(name @ Value::Text(_)) = &operand.expr {
            let number = (numbers.function)(std::slice::from_ref(name), self.catalog, self.environment)?;
            return Ok(Typed { expr: Expr::Constant(number), ty: Some(SqlType::OID), modifier: reg.modifier() });
        }
        self.look_up(reg.name(), vec![operand], numbers)
    }

    fn unary(&mut self, operator: UnaryOperator, operand: &ast::Expr) -> Result<Typed> {
        let name = match operator {
            UnaryOperator::Not => {
                let operand = self.condition(operand, "NOT")?;
                return Ok(Typed::new(Expr::Not(Box::new(operand)), SqlType::BOOL));
            }
            UnaryOperator::Minus => {
                // The sign belongs to the number, as do signs before it: the least numbers can only be written with it.
                if let Some((digits, is_negative)) = signed(operand) {
                    return number(&if is_negative { digits.to_owned() } else { format!("-{digits}") });
                }
                "-"
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            other => return Err(SqlError::unsupported(format_args!("the operator {other}"))),
        };
        let operand = self.expr(operand)?;
        let resolved = operators::resolve_prefix(name, operand.ty)?;
        let operand = self.coerce(operand, resolved.operand)?;
        let function = Function::of_operator(name, true, resolved.result, resolved.function);
        Ok(Typed::new(Expr::Prefix(function, Box::new(operand)), resolved.result))
    }

    fn binary_op(&mut self, left: &ast::Expr, operator: &BinaryOperator, right: &ast::Expr) -> Result<Typed> {
        match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                // A long chain becomes one list, not a deep tree.
                let mut operands = Vec::new();
                let mut rest = left;
                operands.push(right);
                while let ast::Expr::BinaryOp { left, op, right } = rest
                    && op == operator
                {
                    operands.push(right);
                    rest = left;
                }
                operands.push(rest);
                let name = if *operator == BinaryOperator::And { "AND" } else { "OR" };
                let bound = operands
                    .into_iter()
                    .rev()
                    .map(|operand| self.condition(operand, name))
                    .collect::<Result<Vec<_>>>()?;
                let all = if *operator == BinaryOperator::And { Expr::And(bound) } else { Expr::Or(bound) };
                Ok(Typed::new(all, SqlType::BOOL))
            }
            operator => {
                let name = match operator {
                    BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
                    BinaryOperator::NotEq => "<>".to_owned(),
                    other => other.to_string(),
                };
                if let (Some(left), Some(right)) = (items_of(left), items_of(right)) {
                    if *operator == BinaryOperator::Overlaps {
                        return self.overlaps(&left, &right);
                    }
                    return self.compare_rows(&name, &left, &right);
                }
                if let (Some(row), ast::Expr::Subquery(query)) = (items_of(left), unnested(right))
                    && let Some(comparison) = Comparison::parse(&name)
                {
                    let holds = self.row_holds(&row, comparison, query, Quantifier::One)?;
                    return Ok(Typed::new(holds, SqlType::BOOL));
                }
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.binary(&name, left, right)
            }
        }
    }

    fn each(&mut self, exprs: &[ast::Expr]) -> Result<Vec<Typed>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    /// Binds an operator between two values.
    pub(super) fn binary(&mut self, name: &str, left: Typed, right: Typed) -> Result<Typed> {
        if let Some(comparison) = Comparison::parse(name) {
            return Ok(Typed::new(self.compare(comparison, left, right)?, SqlType::BOOL));
        }
        let (function, operands, types) = self.operator(name, left, right)?;
        let result = function.result;
        if name == "||" && result.is_array {
            return self.join_arrays(*operands, types);
        }
        Ok(Typed::new(Expr::Binary(function, operands), result))
    }

    /// Binds `||` of arrays and elements, which takes NULL for an empty array, or for an element.
    fn join_arrays(&mut self, operands: [Expr; 2], types: [SqlType; 2]) -> Result<Typed> {
        let name = match types {
            [SqlType { is_array: false, .. }, _] => "array_prepend",
            [_, SqlType { is_array: false, .. }] => "array_append",
            _ => "array_cat",
        };
        let operands = operands.into_iter().zip(types).map(|(operand, ty)| {
            // The elements' type is known here, but not later if both operands are NULL.
            let empty = || Expr::Constant(Value::array(Array::new(ty.scalar, Vec::new())));
            let operand = match ty.is_array && name != "array_cat" {
                true => Expr::Coalesce(vec![operand, empty()]),
                false => operand,
            };
            Typed::new(operand, ty)
        });
        let operands = operands.collect();
        self.call_of(name, operands)
    }

    /// Returns the function of an operator, its operands after coercion, and their types.
    pub(super) fn operator(&mut self, name: &str, left: Typed, right: Typed) -> Result<Operation> {
        let mut resolved = operators::resolve_binary(name, left.ty, right.ty)?;
        let mut operands = [left, right];
        // PostgreSQL's `integer + date` is a function in SQL: it evaluates `date + integer`.
        if (name, resolved.left, resolved.right) == ("+", SqlType::INT4, SqlType::DATE) {
            operands.swap(0, 1);
            resolved = operators::resolve_binary(name, Some(SqlType::DATE), Some(SqlType::INT4))?;
        }
        let [left, right] = operands;
        let operands = Box::new([self.coerce(left, resolved.left)?, self.coerce(right, resolved.right)?]);
        Ok((self.function_of(name, &resolved), operands, [resolved.left, resolved.right]))
    }

    /// Returns the function of an operator under the collation of its operands.
    fn function_of(&self, name: &str, operator: &operators::BinaryOperator) -> Function<expr::Binary> {
        let (is_immutable, result) = (operator.is_immutable, operator.result);
        match operator.in_c.filter(|_| self.is_in_c()) {
            Some(eval) => Function::of_operator(&hidden::in_c(name), is_immutable, result, eval),
            None => Function::of_operator(name, is_immutable, result, operator.function),
        }
    }

    /// Binds a comparison between two values.
    pub(super) fn compare(&mut self, comparison: Comparison, left: Typed, right: Typed) -> Result<Expr> {
        let resolved = operators::resolve_binary(comparison.name(), left.ty, right.ty)?;
        let (left, right) = (self.coerce(left, resolved.left)?, self.coerce(right, resolved.right)?);
        let operands = Box::new([left, right]);
        if resolved.left == resolved.right && is_plain(resolved.left) {
            return Ok(Expr::Compare(comparison, operands));
        }
        if resolved.left.is_integer() && resolved.right.is_integer() {
            // Compare in the wider type: paths recognize a column that was widened.
            let wider =
                if [resolved.left, resolved.right].contains(&SqlType::INT8) { SqlType::INT8 } else { SqlType::INT4 };
            let [left, right] = *operands;
            let left = self.coerce(Typed::new(left, resolved.left), wider)?;
            let right = self.coerce(Typed::new(right, resolved.right), wider)?;
            return Ok(Expr::Compare(comparison, Box::new([left, right])));
        }
        if let Some(wider) = operators::compared_in(resolved.left, resolved.right) {
            let [left, right] = *operands;
            let left = self.widened(left, resolved.left, wider)?;
            let right = self.widened(right, resolved.right, wider)?;
            return Ok(Expr::Compare(comparison, Box::new([left, right])));
        }
        let function =
            Function::of_operator(comparison.name(), resolved.is_immutable, resolved.result, resolved.function);
        Ok(Expr::Binary(function, operands))
    }

    /// Converts an operand of a comparison to the type in which it is compared; unlike a cast, this fails for no value
    /// that the comparison takes.
    fn widened(&mut self, operand: Expr, from: SqlType, to: SqlType) -> Result<Expr> {
        match operators::widening(from, to) {
            None => self.coerce(Typed::new(operand, from), to),
            Some(eval) => {
                let is_immutable = to != SqlType::TIMESTAMPTZ;
                Ok(Expr::Prefix(Function::of_operator(hidden::WIDENED, is_immutable, to, eval), Box::new(operand)))
            }
        }
    }

    fn distinct(&mut self, left: &ast::Expr, right: &ast::Expr) -> Result<Expr> {
        fn is_null(operand: &ast::Expr) -> bool {
            match operand {
                ast::Expr::Nested(operand) => is_null(operand),
                ast::Expr::Value(value) => value.value == ast::Value::Null,
                _ => false,
            }
        }
        if is_null(left) || is_null(right) {
            let other = if is_null(left) { right } else { left };
            return Ok(Expr::Not(Box::new(Expr::IsNull(Box::new(self.any(other)?)))));
        }
        if let (Some(left), Some(right)) = (items_of(left), items_of(right)) {
            return self.distinct_rows(&left, &right);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        self.distinct_values(left, right)
    }

    pub(super) fn distinct_values(&mut self, left: Typed, right: Typed) -> Result<Expr> {
        let ty = left.ty;
        match self.compare(Comparison::Equal, left, right)? {
            Expr::Compare(_, operands) => Ok(Expr::Distinct(operands)),
            Expr::Binary(_, operands) if ty == Some(SqlType::RECORD) => Ok(Expr::Distinct(operands)),
            _ => {
                ty.map_or(Ok(()), super::check_equality)?;
                Err(SqlError::unsupported("IS DISTINCT FROM between these types"))
            }
        }
    }

    fn in_list(&mut self, operand: &ast::Expr, list: &[ast::Expr]) -> Result<Expr> {
        if let Some(left) = items_of(operand)
            && let Some(rows) = list.iter().map(items_of).collect::<Option<Vec<_>>>()
        {
            let left = self.values_of_row(&left)?;
            let rows = rows.iter().map(|right| self.values_of_row(right)).collect::<Result<Vec<_>>>()?;
            let any = rows.into_iter().map(|right| Ok(self.rows("=", left.clone(), right)?.expr));
            return any.collect::<Result<_>>().map(Expr::Or);
        }
        let operand = self.expr(operand)?;
        let list = self.each(list)?;
        // Several values of a common type that refer to no column form a list; each of the others becomes a comparison.
        let calls = self.scopes.last().and_then(|scope| scope.aggregates.as_deref()).unwrap_or_default();
        let is_column = |inner: &Expr| matches!(inner, Expr::Column(_));
        let uses_column = |inner: &Expr| match inner {
            Expr::Aggregate(at) => calls[*at].exprs().any(|expr| expr.has(&is_column)),
            inner => is_column(inner),
        };
        let (fixed, mut each): (Vec<_>, Vec<_>) = list.iter().cloned().partition(|typed| !typed.expr.has(&uses_column));
        let types: Vec<_> = [&operand].into_iter().chain(&fixed).filter_map(|typed| typed.ty).collect();
        let fits =
            |ty: SqlType| types.iter().all(|from| *from == ty || cast::context(*from, ty) == Some(Context::Implicit));
        let has_type = types.is_empty() || cast::common_type(types.iter().copied()).is_some_and(fits);
        let mut any = Vec::new();
        if fixed.len() > 1 && has_type && !types.contains(&SqlType::RECORD) {
            let ty = cast::common_type(types.iter().copied()).unwrap_or(SqlType::TEXT);
            let list = fixed.into_iter().map(|element| Ok(Typed::new(self.coerce(element, ty)?, ty)));
            let list = list.collect::<Result<Vec<_>>>()?;
            let resolved = operators::resolve_binary("=", operand.ty, Some(ty))?;
            // Between types that are alike, the values are compared in the common one.
            let compared = if resolved.left == resolved.right { resolved.right } else { ty };
            super::check_equality(compared)?;
            let list = list.into_iter().map(|element| self.coerce(element, compared)).collect::<Result<_>>()?;
            any.push(Expr::In(Box::new(self.coerce(operand.clone(), compared)?), list));
        } else {
            each = list;
        }
        for element in each {
            any.push(self.compare(Comparison::Equal, operand.clone(), element)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expr::Or(any) })
    }

    /// Binds a test whether two periods overlap.
    fn overlaps(&mut self, left: &[&ast::Expr], right: &[&ast::Expr]) -> Result<Typed> {
        for (side, items) in [("left", left), ("right", right)] {
            if items.len() != 2 {
                let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        self.call_with("overlaps", &[left, right].concat())
    }

    fn like(
        &mut self,
        name: &str,
        operand: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let (operand, mut pattern) = (self.expr(operand)?, self.expr(pattern)?);
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            pattern = self.call_of("like_escape", vec![pattern, escape])?;
        }
        self.binary(name, operand, pattern)
    }

    fn any_of(&mut self, left: &ast::Expr, operator: &BinaryOperator, right: &ast::Expr, all: bool) -> Result<Typed> {
        let name = operator.to_string();
        let comparison = Comparison::parse(&name);
        if let ast::Expr::Subquery(query) = right {
            let comparison = comparison.ok_or_else(|| SqlError::unsupported("this operator over a query"))?;
            return Ok(Typed::new(self.holds(left, comparison, query, all)?, SqlType::BOOL));
        }
        let (left, array) = (self.expr(left)?, self.expr(right)?);
        let element = match (array.ty, left.ty) {
            (Some(ty), _) if ty.is_array => ty.element(),
            (None, Some(left)) if left.is_array => return Err(no_array_of(left)),
            (None, left) => left,
            (Some(_), _) => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let resolved = operators::resolve_binary(&name, left.ty, element)?;
        let left = self.coerce(left, resolved.left)?;
        let array = self.coerce(array, resolved.right.array())?;
        let operator = match comparison {
            Some(comparison) if resolved.left == resolved.right && is_plain(resolved.left) => {
                Elementwise::Compare(comparison)
            }
            _ => Elementwise::Binary(self.function_of(&name, &resolved)),
        };
        Ok(Typed::new(Expr::Any { operator, operands: Box::new([left, array]), all }, SqlType::BOOL))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.apart(|this| this.expr(operand))).transpose()?;
        // An operand without a type is a text, whatever it is compared with.
        let operand = match operand {
            Some(untyped @ Typed { ty: None, .. }) => Some(Typed::new(self.settle(untyped)?.0, SqlType::TEXT)),
            operand => operand,
        };
        let (mut tests, mut results) = (Vec::new(), Vec::new());
        for ast::CaseWhen { condition, result } in conditions {
            tests.push(match &operand {
                None => self.condition(condition, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.apart(|this| this.expr(condition))?;
                    self.compare(Comparison::Equal, operand.clone(), value)?
                }
            });
            results.push(self.expr(result)?);
        }
        // ELSE comes first when the common type is determined.
        let otherwise = match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Typed { expr: Expr::Constant(Value::Null), ty: None, modifier: -1 },
        };
        results.insert(0, otherwise);
        let (mut results, ty) = self.common(results, "CASE")?;
        let otherwise = results.remove(0);
        Ok(Typed::new(Expr::Case(tests.into_iter().zip(results).collect(), Box::new(otherwise)), ty))
    }

    fn array(&mut self, elements: &[ast::Expr]) -> Result<Typed> {
        let elements = elements.iter().map(|element| self.expr(element)).collect::<Result<Vec<_>>>()?;
        if elements.is_empty() {
            return Ok(Typed { expr: text_constant("{}"), ty: None, modifier: -1 });
        }
        let (elements, ty) = self.common(elements, "ARRAY")?;
        if ty.is_array {
            return Ok(array_of_arrays(elements, ty));
        }
        Ok(Typed::new(Expr::Array(ty, elements), ty.array()))
    }

    /// Binds an array whose elements are cast to a type, as a cast of the array demands.
    fn array_of(&mut self, elements: &[ast::Expr], ty: SqlType) -> Result<Typed> {
        let elements = elements.iter().map(|element| self.expr(element)).collect::<Result<Vec<_>>>()?;
        if elements.iter().any(|typed| typed.ty.is_some_and(|ty| ty.is_array)) {
            let arrays = elements.into_iter().map(|typed| self.convert(typed, ty.array(), -1, Context::Explicit));
            return Ok(array_of_arrays(arrays.collect::<Result<_>>()?, ty.array()));
        }
        let elements = elements.into_iter().map(|typed| self.convert(typed, ty, -1, Context::Explicit));
        Ok(Typed::new(Expr::Array(ty, elements.collect::<Result<_>>()?), ty.array()))
    }

    /// Binds a subscript of an array.
    fn element(&mut self, array: &ast::Expr, places: &[ast::AccessExpr]) -> Result<Typed> {
        // The grammar takes the column of `t.a[1]` for a field of `t`.
        let dots = places.iter().take_while(|place| matches!(place, ast::AccessExpr::Dot(ast::Expr::Identifier(_))));
        let (names, places) = places.split_at(dots.count());
        let names = names.iter().filter_map(|name| match name {
            ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(name),
            _ => None,
        });
        let array = match array {
            row if places.is_empty() => return self.column_of_row(row, &names.collect::<Vec<_>>()),
            ast::Expr::Identifier(first) => {
                let mut parts: Vec<_> = [first].into_iter().chain(names).map(name_of).collect();
                let own = parts.pop().unwrap_or_default();
                self.column(parts.pop().as_deref(), &own)?
            }
            row => self.column_of_row(row, &names.collect::<Vec<_>>())?,
        };
        if array.ty == Some(SqlType::JSONB) {
            return self.element_of_json(array, places);
        }
        if let (Some(SqlType::NAME), [ast::AccessExpr::Subscript(ast::Subscript::Index { index })]) = (array.ty, places)
        {
            let index = self.expr(index)?;
            return self.call_of(hidden::NAME_ELEMENT, vec![array, index]);
        }
        let Some(element) = array.ty.and_then(SqlType::element) else {
            let name = array.ty.map_or("unknown".into(), SqlType::name);
            let message = format!("cannot subscript type {name} because it does not support subscripting");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        };
        let mut operands = vec![array.expr];
        for place in places {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = place else {
                return Err(SqlError::unsupported(format_args!("{place} behind an expression")));
            };
            let typed = self.expr(index)?;
            let place = self.convert(typed, SqlType::INT4, -1, Context::Assignment);
            operands.push(place.map_err(|error| match error.state() {
                SqlState::CANNOT_COERCE => {
                    SqlError::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer")
                }
                _ => error,
            })?);
        }
        Ok(Typed::new(Expr::Element(operands), element))
    }

    /// Binds subscripts of a jsonb value: the keys and numbers of a path.
    fn element_of_json(&mut self, json: Typed, places: &[ast::AccessExpr]) -> Result<Typed> {
        let mut path = Vec::new();
        for place in places {
            let index = match place {
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => index,
                ast::AccessExpr::Subscript(_) => {
                    let message = "jsonb subscript does not support slices";
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
                }
                place => return Err(SqlError::unsupported(format_args!("{place} behind an expression"))),
            };
            let typed = self.expr(index)?;
            let is_key = typed.ty.is_none_or(|ty| ty.is_text() || matches!(ty, SqlType::INT2 | SqlType::INT4));
            if !is_key {
                let name = typed.ty.map_or("unknown".into(), SqlType::name);
                let message = format!("subscript type {name} is not supported");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("jsonb subscript must be coercible to either integer or text."));
            }
            path.push(self.convert(typed, SqlType::TEXT, -1, Context::Explicit)?);
        }
        let path = Typed::new(Expr::Array(SqlType::TEXT, path), SqlType::TEXT.array());
        self.binary("#>", json, path)
    }
}

/// Whether values of a type are compared by their order alone. Records may differ in their columns, for which their
/// operators fail.
fn is_plain(ty: SqlType) -> bool {
    ty.is_ordered() && ty != SqlType::RECORD
}

/// Returns an expression without the parentheses around it.
pub(crate) fn unnested(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unnested(inner),
        expr => expr,
    }
}

/// Returns the digits of a number after any number of minus signs, and whether these make it negative.
fn signed(expr: &ast::Expr) -> Option<(&str, bool)> {
    match unnested(expr) {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. }) => Some((digits, false)),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            signed(expr).map(|(digits, is_negative)| (digits, !is_negative))
        }
        _ => None,
    }
}

pub(super) fn with_kind(subquery: Expr, kind: SubqueryKind) -> Expr {
    match subquery {
        Expr::Subquery(subquery) => Expr::Subquery(Subquery { kind, ..subquery }),
        other => other,
    }
}

pub(super) fn one_column() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

pub(super) fn text_constant(text: &str) -> Expr {
    Expr::Constant(Value::Text(text.into()))
}

/// Returns an array of arrays, which all have one type.
fn array_of_arrays(arrays: Vec<Expr>, ty: SqlType) -> Typed {
    let nest: expr::Call = |arguments, environment| {
        environment.memory.check(arguments.iter().map(Value::bytes).sum())?;
        Array::nested(arguments).map(Value::array)
    };
    let function = Function { is_strict: false, ..Function::of_operator(hidden::ARRAYS, true, ty, nest) };
    Typed::new(Expr::Call(function, arrays), ty)
}

/// Returns a string of bits by its digits.
fn bits(prefix: char, digits: &str) -> Result<Typed> {
    let value = text::parse(SqlType::BIT, -1, &format!("{prefix}{digits}"), &Environment::default())?;
    Ok(Typed::new(Expr::Constant(value), SqlType::BIT))
}

/// Returns a quoted literal, which has no type yet.
fn untyped(text: &str) -> Typed {
    Typed { expr: text_constant(text), ty: None, modifier: -1 }
}

/// Returns a number in the smallest of integer, bigint and numeric.
fn number(digits: &str) -> Result<Typed> {
    if let Ok(number) = digits.parse::<i32>() {
        return Ok(Typed::new(Expr::Constant(Value::Int4(number)), SqlType::INT4));
    }
    if let Ok(number) = digits.parse::<i64>() {
        return Ok(Typed::new(Expr::Constant(Value::Int8(number)), SqlType::INT8));
    }
    let invalid = |_| SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid number: {digits}"));
    let number: Numeric = digits.parse().map_err(invalid)?;
    Ok(Typed::new(Expr::Constant(Value::Numeric(number)), SqlType::NUMERIC))
}
