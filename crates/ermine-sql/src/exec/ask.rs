//! Expressions that query the database or the session.

use super::Run;
use crate::{
    error::Result,
    expr::{Evaluator, Expr, Frame, NextOf, arguments_of},
    types::{Environment, SqlType, Value, cast::cast},
};

impl Evaluator for Run<'_> {
    #[inline]
    fn environment(&self) -> &Environment {
        self.environment
    }

    #[inline]
    fn parameter(&self, at: usize) -> &Value {
        self.parameters.get(at).unwrap_or(&Value::Null)
    }

    fn ask<'a>(&'a self, expr: &'a Expr, frame: &Frame<'a>) -> Result<Value> {
        Ok(match expr {
            Expr::Lookup(function, arguments) => match arguments_of(arguments, function.is_strict, frame, self)? {
                Some(values) => (function.eval)(&values, self.catalog, self.environment)?,
                None => Value::Null,
            },
            Expr::Subquery(subquery) => self.subquery(subquery, frame)?,
            Expr::Next(NextOf(sequence, ty)) => {
                let number = self.next_of(sequence)?;
                cast(Value::Int8(number), SqlType::INT8, *ty, -1, false, self.environment)?
            }
            Expr::LastGiven(sequence) => {
                Value::Int8(self.last_given(sequence.as_ref().map(|NextOf(sequence, _)| &**sequence))?)
            }
            Expr::SetNext(NextOf(sequence, _), operands) => {
                let [number, is_called] = &**operands;
                match (&*number.eval(frame, self)?, &*is_called.eval(frame, self)?) {
                    (Value::Int8(number), Value::Bool(is_called)) => {
                        self.check_writes("setval()")?;
                        sequence.set(*number, *is_called)?;
                        Value::Int8(*number)
                    }
                    _ => Value::Null,
                }
            }
            Expr::Sleep(seconds) => match &*seconds.eval(frame, self)? {
                Value::Float8(seconds) => {
                    self.sleep(*seconds)?;
                    Value::text("")
                }
                _ => Value::Null,
            },
            _ => unreachable!("any other expression is evaluated by itself"),
        })
    }
}
