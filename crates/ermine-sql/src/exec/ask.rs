//! Expressions that query the database or the session.

use std::time::Instant;

use super::{Run, SetConfig};
use crate::{
    catalog::{
        advisory::{AdvisoryKey, AdvisoryMode},
        sessions::Party,
        waits::Need,
    },
    error::{Result, SqlError, SqlState},
    expr::{AdvisoryAction, AdvisoryCall, Evaluator, Expr, Frame, NextOf, arguments_of},
    failure::EngineResult as _,
    transaction::lock_timeout,
    types::{Array, Environment, Scalar, SqlType, Value, cast::cast},
};

/// Calls of `set_config` in one statement.
const SET_CONFIG_MAX: usize = 1000;

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
            Expr::SetConfig(operands) => {
                let [name, value, is_local] = &**operands;
                let Value::Text(name) = &*name.eval(frame, self)? else {
                    let message = "SET requires parameter name";
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                };
                let shown = value.eval(frame, self)?.into_owned();
                let value = match &shown {
                    Value::Text(value) => Some(value.to_string()),
                    _ => None,
                };
                let is_local = *is_local.eval(frame, self)? == Value::Bool(true);
                if self.given.borrow().settings.len() >= SET_CONFIG_MAX {
                    let message = format!("a statement can set {SET_CONFIG_MAX} settings");
                    return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
                }
                self.given.borrow_mut().settings.push(SetConfig { name: name.to_string(), value, is_local });
                shown
            }
            Expr::Advisory(call, numbers) => self.advisory(*call, numbers, frame)?,
            Expr::Notify(operands) => {
                let [channel, payload] = &**operands;
                let (channel, payload) = (channel.eval(frame, self)?, payload.eval(frame, self)?);
                let text = |value: &Value| match value {
                    Value::Text(text) => text.clone(),
                    _ => "".into(),
                };
                let (channel, payload) = (text(&channel), text(&payload));
                if self.catalog.is_standby() {
                    return Err(SqlError::during_recovery("NOTIFY"));
                }
                self.given.borrow_mut().notes.send(&channel, &payload, &self.environment.memory)?;
                Value::text("")
            }
            Expr::Channels => {
                let channels = self
                    .session
                    .map(|(party, _)| self.catalog.sessions.notifications.channels(party.footprint.session));
                let channels = channels.into_iter().flatten().map(|channel| (&*channel).into());
                Value::array(Array::new(Scalar::Text, channels.collect()))
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

impl Run<'_> {
    fn advisory<'a>(&'a self, call: AdvisoryCall, numbers: &'a [Expr], frame: &Frame<'a>) -> Result<Value> {
        let AdvisoryCall { action, is_shared, of_transaction } = call;
        let Some((party, transaction)) = self.session else {
            return Err(SqlError::unsupported("an advisory lock in a definition"));
        };
        let (locks, session) = (&party.waits.locks, party.footprint.session);
        let mode = AdvisoryMode { is_shared, transaction: of_transaction.then_some(transaction) };
        if action == AdvisoryAction::ReleaseAll {
            locks.release_all(session);
            self.given.borrow_mut().locks.clear();
            return Ok(Value::text(""));
        }
        let mut values = Vec::new();
        for number in numbers {
            values.push(number.eval(frame, self)?.into_owned());
        }
        let key = match values[..] {
            [Value::Int8(number)] => AdvisoryKey::One(self.catalog.number, number),
            [Value::Int4(first), Value::Int4(second)] => AdvisoryKey::Two(self.catalog.number, first, second),
            _ => return Ok(Value::Null),
        };
        let took = || {
            if !of_transaction {
                self.given.borrow_mut().locks.push((key, is_shared));
            }
        };
        Ok(match action {
            AdvisoryAction::Try => {
                let done = locks.try_take(session, key, mode)?;
                if done {
                    took();
                }
                Value::Bool(done)
            }
            AdvisoryAction::Release => {
                let taken = &mut self.given.borrow_mut().locks;
                if let Some(at) = taken.iter().position(|own| *own == (key, is_shared)) {
                    taken.swap_remove(at);
                }
                Value::Bool(locks.release(session, key, is_shared))
            }
            AdvisoryAction::Take | AdvisoryAction::ReleaseAll => {
                if !locks.try_take(session, key, mode)? {
                    self.wait_for_lock(party, key, mode)?;
                }
                took();
                Value::text("")
            }
        })
    }

    fn wait_for_lock(&self, party: &Party, key: AdvisoryKey, mode: AdvisoryMode) -> Result<()> {
        if let Some(tid) = self.txn.tid().sql()? {
            party.footprint.set_tid(tid);
        }
        let Environment { interrupt, .. } = self.environment;
        let (began, mut waiting) = (Instant::now(), party.waits.begin(&party.footprint));
        let mut goes_on = || {
            interrupt.check()?;
            if self.lock_timeout.is_some_and(|limit| began.elapsed() >= limit) {
                return Err(lock_timeout());
            }
            waiting.needs(Some(Need::Advisory(key, mode.is_shared)))
        };
        let (locks, mut taken) = (&party.waits.locks, Ok(()));
        (interrupt.aside)(&mut || taken = locks.wait(party.footprint.session, key, mode, &mut goes_on));
        taken
    }
}
