//! Calls in which an array stands for the last arguments (VARIADIC).

use sqlparser::ast;

use super::{Binder, Typed, call::expressions_of};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    parse::VARIADIC,
    types::{SqlType, Value},
};

/// Returns the argument of VARIADIC, if an expression is one.
pub(super) fn variadic_of(expr: &ast::Expr) -> Option<&ast::Expr> {
    argument_of(expr, VARIADIC)
}

/// Returns the only argument of a call of a function, if an expression is one.
pub(super) fn argument_of<'e>(expr: &'e ast::Expr, called: &str) -> Option<&'e ast::Expr> {
    let ast::Expr::Function(function) = expr else { return None };
    let [ast::ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
    match &function.args {
        ast::FunctionArguments::List(list) if name.value == called => match &list.args[..] {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] => Some(argument),
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds a call whose last argument is an array of arguments: one that is written out, a constant, or a path of
    /// JSON.
    pub(super) fn variadic_call(&mut self, name: &str, list: &ast::FunctionArgumentList) -> Result<Typed> {
        let (arguments, _) = expressions_of(list)?;
        let (last, fixed) = arguments.split_last().expect("VARIADIC is an argument");
        let mut all = fixed.iter().map(|argument| self.expr(argument)).collect::<Result<Vec<_>>>()?;
        let array = self.expr(variadic_of(last).unwrap_or(last))?;
        let element = match array.ty {
            Some(ty) if ty.is_array => SqlType::scalar(ty.scalar),
            None => SqlType::TEXT,
            Some(_) => {
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "VARIADIC argument must be an array"));
            }
        };
        let operator = match name {
            "jsonb_extract_path" | "json_extract_path" => Some("#>"),
            "jsonb_extract_path_text" | "json_extract_path_text" => Some("#>>"),
            _ => None,
        };
        if let (Some(operator), [json]) = (operator, &all[..]) {
            let ty = if name.starts_with("jsonb") { SqlType::JSONB } else { SqlType::JSON };
            let json = Typed::new(self.coerce(json.clone(), ty)?, ty);
            return self.binary(operator, json, array);
        }
        match self.coerce(array, element.array())? {
            Expr::Constant(Value::Array(array)) if array.elements().is_empty() && name.starts_with("concat") => {
                return Ok(Typed::new(Expr::Constant(Value::text("")), SqlType::TEXT));
            }
            Expr::Constant(Value::Array(array)) if array.elements().is_empty() && name.starts_with("num_") => {
                return Ok(Typed::new(Expr::Constant(Value::Int4(0)), SqlType::INT4));
            }
            Expr::Constant(Value::Array(array)) => {
                all.extend(array.into_elements().into_iter().map(|value| Typed::new(Expr::Constant(value), element)));
            }
            Expr::Array(ty, elements) if !ty.is_array => {
                all.extend(elements.into_iter().map(|value| Typed::new(value, element)));
            }
            // NULL is as good as no arguments here.
            Expr::Constant(Value::Null) if name == "format" => {}
            Expr::Constant(Value::Null) => {
                all.push(Typed::new(Expr::Constant(Value::Null), element));
                let call = self.plain_function_of(name, all)?;
                return Ok(Typed { expr: Expr::Constant(Value::Null), ..call });
            }
            _ => return Err(SqlError::unsupported("VARIADIC before an array that is not written out")),
        }
        self.plain_function_of(name, all)
    }
}
