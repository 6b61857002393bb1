//! Ordered-set aggregates: calls with WITHIN GROUP.

use sqlparser::ast;

use super::{Binder, Typed, check_equality, select::is_descending};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions,
    query::AggregateCall,
    types::SqlType,
};

impl Binder<'_> {
    /// Binds a call with WITHIN GROUP.
    pub(super) fn ordered_aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
    ) -> Result<Typed> {
        let wrong = |message: String| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        if ["rank", "dense_rank", "percent_rank", "cume_dist"].contains(&name) {
            return Err(SqlError::unsupported(format_args!("the hypothetical-set aggregate {name}")));
        }
        if !functions::is_aggregate(name) {
            return wrong(format!("WITHIN GROUP specified, but {name} is not an aggregate function"));
        }
        if !functions::is_ordered_set(name) {
            return wrong(format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"));
        }
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            let message = "cannot use DISTINCT or ORDER BY with WITHIN GROUP";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (arguments, is_star) = super::call::expressions_of(list)?;
        let mut direct = Vec::new();
        for argument in arguments {
            direct.push(self.apart(|this| this.expr(argument))?);
        }
        let mut sorted = Vec::new();
        for key in &function.within_group {
            let typed = self.expr(&key.expr)?;
            if typed.ty.is_none() {
                let message = "could not determine polymorphic type because input has type unknown";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            sorted.push((typed, key));
        }
        let types: Vec<_> = direct.iter().map(|argument| argument.ty).collect();
        let by: Vec<_> = sorted.iter().filter_map(|(value, _)| value.ty).collect();
        let aggregate = functions::ordered_set_aggregate(name, &types, &by)?;
        let (Some((value, key)), false) = (sorted.pop(), is_star) else {
            return wrong(format!("{name}(*) specified, but {name} is not an aggregate function of all rows"));
        };
        if function.over.is_some() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let filter = function.filter.as_deref().map(|filter| self.condition(filter, "FILTER")).transpose()?;
        let value = self.coerce(value, aggregate.arguments[0])?;
        check_equality(aggregate.arguments[0])?;
        let mut bound = vec![value.clone()];
        for (argument, ty) in direct.into_iter().zip(&aggregate.arguments[1..]) {
            let argument = self.coerce(argument, *ty)?;
            // It would have to be a key of the groups.
            if argument.has(&|inner| matches!(inner, Expr::Column(_))) {
                return Err(SqlError::unsupported(format_args!("a column as a direct argument of {name}")));
            }
            bound.push(argument);
        }
        let descending = is_descending(&key.options)?;
        let order = vec![(value, descending, key.options.nulls_first.unwrap_or(descending))];
        let result: SqlType = aggregate.result;
        let call = AggregateCall { aggregate, arguments: bound, is_distinct: false, filter, order };
        Ok(Typed::new(self.place_aggregate(call)?, result))
    }
}
