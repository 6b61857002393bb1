//! Calls of functions and aggregates.

use std::cmp::Ordering;

use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
};

use super::{Binder, Typed, collation::Derived, named, names, variadic::variadic_of, window};
use crate::{
    catalog::{Relation, rights::Rights},
    error::{Result, SqlError, SqlState},
    expr::{AdvisoryAction, AdvisoryCall, Expr, Function, NextOf, SubqueryKind, hidden},
    functions,
    parse::CURRENT_OF,
    query::AggregateCall,
    system::{self, INFORMATION},
    types::{Environment, SqlType, Value, cast::Context},
};

/// The only function of `information_schema` here.
const EXPANDARRAY: &str = "_pg_expandarray";

/// Functions that are no rows of tables: [`Binder::plain_function_of`] binds them.
const BOUND_HERE: [&str; 11] = [
    "coalesce",
    "currval",
    "greatest",
    "lastval",
    "least",
    "nextval",
    "nullif",
    "pg_notify",
    "pg_sleep",
    "set_config",
    "setval",
];

/// Returns the names of all functions that statements can call, those of advisory locks apart.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    let of_tables = functions::names().chain(system::functions::names());
    of_tables.chain(window::WINDOW_FUNCTIONS).chain(BOUND_HERE).filter(|name| !name.contains('.'))
}

impl Binder<'_> {
    /// Binds a call of a function by name, with expressions as arguments.
    pub(super) fn call_with(&mut self, name: &str, arguments: &[&ast::Expr]) -> Result<Typed> {
        let arguments = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<_>>()?;
        self.call_of(name, arguments)
    }

    /// Binds a call of a function by name, with bound values as arguments.
    pub(super) fn call_of(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
        if let Some(resolved) = system::functions::resolve(name, &types)? {
            return self.look_up(name, arguments, resolved);
        }
        let resolved = functions::resolve(name, &types)?;
        let mut values = Vec::new();
        for (at, (argument, ty)) in arguments.into_iter().zip(&resolved.arguments).enumerate() {
            values.push(match resolved.untyped.contains(&at) {
                true => self.leave(argument)?,
                false => self.coerce(argument, *ty)?,
            });
        }
        let (name, eval) = match resolved.in_c.filter(|_| self.is_in_c()) {
            Some(eval) => (hidden::in_c(name), eval),
            None => (name.to_owned(), resolved.function),
        };
        let function = Function {
            grows: functions::grows(&name),
            name: name.into(),
            is_strict: resolved.is_strict,
            is_immutable: resolved.volatility == functions::Volatility::Immutable,
            is_volatile: resolved.volatility == functions::Volatility::Volatile,
            eval,
            result: resolved.result,
        };
        Ok(Typed::new(Expr::Call(function, values), resolved.result))
    }

    /// Binds a function that reads the catalog.
    pub(super) fn look_up(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        resolved: system::functions::Resolved,
    ) -> Result<Typed> {
        let values = arguments.into_iter().zip(&resolved.arguments).map(|(argument, ty)| self.coerce(argument, *ty));
        let values = values.collect::<Result<_>>()?;
        let function = Function {
            name: name.into(),
            is_strict: resolved.is_strict,
            is_immutable: false,
            is_volatile: false,
            grows: false,
            eval: resolved.function,
            result: resolved.result,
        };
        Ok(Typed { expr: Expr::Lookup(function, values), ty: Some(resolved.result), modifier: resolved.modifier })
    }

    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Typed> {
        let (schema, name) = names::relation_of(&function.name)?;
        if name == CURRENT_OF {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"OF\""));
        }
        let is_known = |schema: &String| schema == "pg_catalog" || (schema == INFORMATION && name == EXPANDARRAY);
        if let Some(schema) = schema.filter(|schema| !is_known(schema)) {
            // The arguments first, as PostgreSQL does it, which shows in errors.
            if let FunctionArguments::List(list) = &function.args {
                for argument in &list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                        self.expr(argument)?;
                    }
                }
            }
            if schema != INFORMATION && self.catalog.schema(&schema).is_none() {
                let message = format!("schema \"{schema}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {} does not exist", function.name),
            ));
        }
        if let Some(nulls) = function.null_treatment {
            return Err(SqlError::unsupported(nulls));
        }
        if function.uses_odbc_syntax || function.parameters != FunctionArguments::None {
            return Err(SqlError::unsupported(format_args!("the call {function}")));
        }
        if let FunctionArguments::List(list) = &function.args
            && !function.within_group.is_empty()
        {
            return self.ordered_aggregate(&name, function, list);
        }
        if let Some(over) = &function.over {
            return self.window_call(&name, function, over);
        }
        let list = match &function.args {
            FunctionArguments::None => return self.plain_function(&name, &[]),
            FunctionArguments::Subquery(query) if name == "array" => {
                let (subquery, columns) = self.subquery(query, SubqueryKind::Exists)?;
                let [column] = &columns[..] else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
                };
                let Expr::Subquery(subquery) = subquery else { unreachable!("a query gives a query") };
                self.set_collation(Derived::Implicit(column.collation));
                let kind = SubqueryKind::Array(column.ty);
                return Ok(Typed::new(Expr::Subquery(crate::expr::Subquery { kind, ..subquery }), column.ty.array()));
            }
            FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("a query as an argument")),
            FunctionArguments::List(list) => list,
        };
        let list = &*named::positional(&name, list)?;
        let (arguments, is_star) = expressions_of(list)?;
        if arguments.last().is_some_and(|last| variadic_of(last).is_some()) {
            return self.variadic_call(&name, list);
        }
        if name == "grouping" {
            return self.grouping(&arguments);
        }
        if functions::is_aggregate(&name) {
            return self.aggregate(&name, function, list, &arguments, is_star);
        }
        if window::is_window_function(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if is_star || list.duplicate_treatment.is_some() || !list.clauses.is_empty() || function.filter.is_some() {
            let message = format!("{name} is not an aggregate function");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        match &*name {
            name if functions::is_set_returning(name) => self.set(name, &arguments),
            "aclexplode" => self.exploded_record(&arguments),
            "coalesce" => self.without_sets("COALESCE", |this| this.plain_function("coalesce", &arguments)),
            name => self.plain_function(name, &arguments),
        }
    }

    pub(super) fn plain_function(&mut self, name: &str, arguments: &[&ast::Expr]) -> Result<Typed> {
        let all = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<_>>()?;
        self.plain_function_of(name, all)
    }

    /// Binds a call of a function that is no aggregate, with bound values as arguments.
    pub(super) fn plain_function_of(&mut self, name: &str, all: Vec<Typed>) -> Result<Typed> {
        match (name, &all[..]) {
            ("coalesce", [_, ..]) => {
                let (all, ty) = self.common(all, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(all), ty))
            }
            ("greatest", [_, ..]) => {
                let (all, ty) = self.common(all, "GREATEST")?;
                Ok(Typed::new(extreme(Ordering::Greater, all, ty), ty))
            }
            ("least", [_, ..]) => {
                let (all, ty) = self.common(all, "LEAST")?;
                Ok(Typed::new(extreme(Ordering::Less, all, ty), ty))
            }
            ("nullif", [left, right]) => {
                // The result has the type that `=` compares: NULLIF(1, 2.2) is numeric.
                let (equal, operands, [ty, _]) = self.operator("=", left.clone(), right.clone())?;
                Ok(Typed::new(Expr::NullIf(equal, operands), ty))
            }
            ("nextval", [of]) => {
                let sequence = self.sequence(of, Rights::USAGE | Rights::UPDATE)?;
                Ok(Typed::new(Expr::Next(sequence), SqlType::INT8))
            }
            ("currval", [of]) => {
                let sequence = self.sequence(of, Rights::USAGE | Rights::SELECT)?;
                Ok(Typed::new(Expr::LastGiven(Some(sequence)), SqlType::INT8))
            }
            ("lastval", []) => Ok(Typed::new(Expr::LastGiven(None), SqlType::INT8)),
            ("setval", [of, ..]) if matches!(all.len(), 2 | 3) => {
                let sequence = self.sequence(of, Rights::UPDATE)?;
                let is_called = match all.get(2) {
                    Some(is_called) => self.coerce(is_called.clone(), SqlType::BOOL)?,
                    None => Expr::TRUE,
                };
                let number = self.coerce(all[1].clone(), SqlType::INT8)?;
                Ok(Typed::new(Expr::SetNext(sequence, Box::new([number, is_called])), SqlType::INT8))
            }
            ("set_config", [name, value, is_local]) => {
                let (name, value) = (name.clone(), value.clone());
                let texts = [self.coerce(name, SqlType::TEXT)?, self.coerce(value, SqlType::TEXT)?];
                let [name, value] = texts;
                let is_local = self.coerce(is_local.clone(), SqlType::BOOL)?;
                Ok(Typed::new(Expr::SetConfig(Box::new([name, value, is_local])), SqlType::TEXT))
            }
            (name, numbers)
                if let Some(call) = AdvisoryCall::of(name)
                    && matches!(
                        (call.action, numbers.len()),
                        (AdvisoryAction::ReleaseAll, 0)
                            | (AdvisoryAction::Take | AdvisoryAction::Try | AdvisoryAction::Release, 1 | 2)
                    ) =>
            {
                let of = if numbers.len() == 1 { SqlType::INT8 } else { SqlType::INT4 };
                let numbers = numbers.iter().map(|number| self.coerce(number.clone(), of)).collect::<Result<_>>()?;
                // The others return void.
                let returns = match call.action {
                    AdvisoryAction::Try | AdvisoryAction::Release => SqlType::BOOL,
                    AdvisoryAction::Take | AdvisoryAction::ReleaseAll => SqlType::TEXT,
                };
                Ok(Typed::new(Expr::Advisory(call, numbers), returns))
            }
            ("pg_notify", [channel, payload]) => {
                let (channel, payload) = (channel.clone(), payload.clone());
                let texts = [self.coerce(channel, SqlType::TEXT)?, self.coerce(payload, SqlType::TEXT)?];
                Ok(Typed::new(Expr::Notify(Box::new(texts)), SqlType::TEXT))
            }
            ("pg_sleep", [seconds]) => {
                let seconds = self.coerce(seconds.clone(), SqlType::FLOAT8)?;
                // In PostgreSQL its type is void, whose text is empty.
                Ok(Typed::new(Expr::Sleep(Box::new(seconds)), SqlType::TEXT))
            }
            (name, all)
                if !self.environment.types.is_empty()
                    && let Some(call) = self.enumeration_call(name, all)? =>
            {
                Ok(call)
            }
            (name, [left, right]) if let Some((operator, types)) = operator_of(name) => {
                let (mut left, mut right) = (left.clone(), right.clone());
                if let Some((first, second)) = types {
                    left = Typed::new(self.coerce(left, first)?, first);
                    right = Typed::new(self.coerce(right, second)?, second);
                }
                self.binary(operator, left, right)
            }
            // In PostgreSQL they are defined by the cast for other types than texts.
            ("quote_literal" | "quote_nullable", [Typed { ty: Some(ty), .. }]) if !ty.is_text() => {
                let text = self.convert(all[0].clone(), SqlType::TEXT, -1, Context::Explicit)?;
                self.call_of(name, vec![Typed::new(text, SqlType::TEXT)])
            }
            // The name of a type is a cast, if there is no such function.
            (name, [value]) if let Some(ty) = SqlType::of_function(name) => match self.call_of(name, all.clone()) {
                Err(error) if error.state() == SqlState::UNDEFINED_FUNCTION => {
                    let cast = self.convert(value.clone(), ty, -1, Context::Explicit).map_err(|_| error)?;
                    Ok(Typed::new(cast, ty))
                }
                done => done,
            },
            _ => self.call_of(name, all),
        }
    }

    /// Returns the sequence that an argument names; the statement needs one of some rights to it.
    fn sequence(&mut self, argument: &Typed, rights: Rights) -> Result<NextOf> {
        let found = match &argument.expr {
            Expr::Constant(Value::Text(name)) => {
                let object = crate::parse::object_name(name)?;
                self.relation(&object)?.ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
                })?
            }
            Expr::Constant(Value::Oid(id)) => match self.catalog.sequence(*id) {
                Some(sequence) => Relation::Sequence(sequence.clone()),
                None => return Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("there is no sequence {id}"))),
            },
            _ => return Err(SqlError::unsupported("a sequence whose name is no literal")),
        };
        match found {
            Relation::Sequence(sequence) => {
                self.needs_sequence(sequence.def.id, rights);
                Ok(NextOf(sequence, SqlType::INT8))
            }
            Relation::Table(_) | Relation::View(_) | Relation::Index(..) => {
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "the relation is not a sequence"))
            }
        }
    }

    fn aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        arguments: &[&ast::Expr],
        is_star: bool,
    ) -> Result<Typed> {
        let call = self.aggregate_call(name, function, list, arguments, is_star)?;
        let result = call.aggregate.result;
        Ok(Typed::new(self.place_aggregate(call)?, result))
    }

    /// Binds the call of an aggregate, of groups or over a window.
    pub(super) fn aggregate_call(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        arguments: &[&ast::Expr],
        is_star: bool,
    ) -> Result<AggregateCall> {
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.expr(argument)?);
        }
        let filter = function.filter.as_deref().map(|filter| self.condition(filter, "FILTER")).transpose()?;
        if is_star && name != "count" {
            let message = format!("function {name}() does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        if name == "count" {
            // Any type will do: the value is only checked for NULL, or compared as a text.
            let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for value in &mut values {
                let ty = value.ty.unwrap_or(SqlType::TEXT);
                let expr = if is_distinct { self.settle(value.clone())?.0 } else { self.leave(value.clone())? };
                *value = Typed::new(expr, ty);
            }
        }
        let types: Vec<_> = values.iter().map(|value| value.ty).collect();
        let aggregate = functions::aggregate(name, &types)?;
        let mut bound = Vec::new();
        for (value, ty) in values.into_iter().zip(&aggregate.arguments) {
            bound.push(self.coerce(value, *ty)?);
        }
        let mut order = Vec::new();
        for clause in &list.clauses {
            let FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(SqlError::unsupported(format_args!("{clause} in an aggregate")));
            };
            for key in keys {
                let typed = self.apart(|this| this.expr(&key.expr))?;
                let descending = super::select::is_descending(&key.options)?;
                let (expr, ty) = self.settle(typed)?;
                super::check_equality(ty)?;
                order.push((expr, descending, key.options.nulls_first.unwrap_or(descending)));
            }
        }
        let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if is_distinct {
            aggregate.arguments.iter().try_for_each(|ty| super::check_equality(*ty))?;
        }
        Ok(AggregateCall { aggregate, arguments: bound, is_distinct, filter, order })
    }
}

/// Returns the arguments of a call, and whether it has a star among them.
pub(super) fn expressions_of(list: &ast::FunctionArgumentList) -> Result<(Vec<&ast::Expr>, bool)> {
    let mut arguments = Vec::new();
    let mut is_star = false;
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => is_star = true,
            other => return Err(SqlError::unsupported(format_args!("the argument {other}"))),
        }
    }
    Ok((arguments, is_star))
}

/// Returns the operator that a function of PostgreSQL implements, and the types of its operands, for those that programs
/// call by their names; without types: those of the arguments.
fn operator_of(function: &str) -> Option<(&'static str, Option<(SqlType, SqlType)>)> {
    use SqlType as T;
    let (jsonb, texts) = (T::JSONB, T::TEXT.array());
    let matching = Some((T::TEXT, T::TEXT));
    Some(match function {
        "jsonb_exists" => ("?", Some((jsonb, T::TEXT))),
        "jsonb_exists_any" => ("?|", Some((jsonb, texts))),
        "jsonb_exists_all" => ("?&", Some((jsonb, texts))),
        "jsonb_contains" => ("@>", Some((jsonb, jsonb))),
        "jsonb_contained" => ("<@", Some((jsonb, jsonb))),
        "jsonb_concat" => ("||", Some((jsonb, jsonb))),
        "jsonb_delete" => ("-", None),
        "jsonb_delete_path" => ("#-", Some((jsonb, texts))),
        "jsonb_object_field" => ("->", Some((jsonb, T::TEXT))),
        "jsonb_object_field_text" => ("->>", Some((jsonb, T::TEXT))),
        "jsonb_array_element" => ("->", Some((jsonb, T::INT4))),
        "jsonb_array_element_text" => ("->>", Some((jsonb, T::INT4))),
        "json_object_field" => ("->", Some((T::JSON, T::TEXT))),
        "json_object_field_text" => ("->>", Some((T::JSON, T::TEXT))),
        "json_array_element" => ("->", Some((T::JSON, T::INT4))),
        "json_array_element_text" => ("->>", Some((T::JSON, T::INT4))),
        "arraycontains" => ("@>", None),
        "arraycontained" => ("<@", None),
        "arrayoverlap" => ("&&", None),
        "textcat" => ("||", matching),
        "like" | "textlike" => ("~~", matching),
        "notlike" | "textnlike" => ("!~~", matching),
        "texticlike" => ("~~*", matching),
        "texticnlike" => ("!~~*", matching),
        "textregexeq" => ("~", matching),
        "textregexne" => ("!~", matching),
        "texticregexeq" => ("~*", matching),
        "texticregexne" => ("!~*", matching),
        _ => return None,
    })
}

/// Returns GREATEST or LEAST. That values of a type have no order comes up only after all types are checked.
fn extreme(wanted: Ordering, all: Vec<Expr>, ty: SqlType) -> Expr {
    if ty.is_ordered() {
        return Expr::Extreme(wanted, all);
    }
    let no_order: fn(&[Value], &Environment) -> Result<Value> = |_, _| {
        let message = "could not identify a comparison function for type json";
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    };
    let function = Function {
        name: if wanted.is_gt() { "greatest" } else { "least" }.into(),
        is_strict: false,
        is_immutable: true,
        is_volatile: false,
        grows: false,
        eval: no_order,
        result: ty,
    };
    Expr::Call(function, all)
}
