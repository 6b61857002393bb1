//! Extended queries: statements that are prepared once, bound to parameters and executed, in groups that end with
//! `Sync`.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use ermine_sql::{Completion, Result, SqlError, SqlState, Status, types::Value};

use super::{
    Connection,
    aside::LONG,
    copy::Copying,
    logged::Ended,
    rows::{Sink, describe},
    statements::Portal,
};
use crate::{
    backend::{Backend, Fetched, Session, Statement},
    codec,
    protocol::{
        Format, Formats, backend,
        frontend::{Bind, Target},
    },
};

impl<B: Backend> Connection<'_, B> {
    pub(super) fn parse(&mut self, name: &[u8], text: &[u8], types: &[u8]) -> Result<()> {
        self.forget_cancellation();
        let name = codec::utf8(name)?;
        if name.is_empty() {
            self.statements.unnamed = None;
        } else {
            self.session.check_new_statement(name)?;
        }
        let text = codec::utf8(text)?;
        if !types.is_empty() {
            self.environment.types = self.session.types();
        }
        let types = types
            .chunks_exact(4)
            .map(|oid| match u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]) {
                // The type unknown, that of literals: the parameter's type is inferred as if it were not given.
                0 | 705 => Ok(None),
                oid => codec::type_of(oid, &self.environment).map(Some).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
                }),
            })
            .collect::<Result<Vec<_>>>()?;
        let prepared = self.session.prepare(text, &types, self.parent_of(text));
        let statement = prepared.inspect_err(|_| self.failing = Some(text.to_owned()))?;
        if name.is_empty() {
            self.statements.unnamed = Some(statement);
        } else {
            self.session.name_statement(name, statement);
        }
        backend::parse_complete(self.output.bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<()> {
        let statement = self.statements.statement(bind.statement, &self.session)?.clone();
        let parameters = statement.parameters();
        if bind.parameter_count != parameters.len() {
            let what = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameter_count,
                bind.statement.escape_ascii(),
                parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        let columns = statement.columns().map_or(0, <[_]>::len);
        if !bind.result_formats.fits(columns) && columns > 0 {
            let (formats, what) = (bind.result_formats.count(), "result formats but query has");
            let what = format!("bind message has {formats} {what} {columns} columns");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        let bytes: usize = bind.parameters().flatten().map(<[u8]>::len).sum();
        self.environment.check_room(bytes)?;
        if parameters.iter().any(|ty| codec::is_user_type(*ty)) {
            self.environment.types = self.session.types();
        }
        let mut values = Vec::with_capacity(parameters.len());
        for (index, (value, &ty)) in bind.parameters().zip(parameters).enumerate() {
            values.push(match (value, bind.parameter_formats.of(index)) {
                (None, _) => Value::Null,
                (Some(bytes), Format::Binary) => codec::read_binary(ty, bytes, &self.environment)?,
                (Some(bytes), Format::Text) => codec::parse_text(ty, bytes, &self.environment)?,
            });
        }
        let portal = self.session.bind(&statement, values)?;
        let portal = Portal { statement, portal, formats: bind.result_formats.clone(), is_done: false };
        self.statements.add_portal(bind.portal, portal)?;
        backend::bind_complete(self.output.bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn describe(&mut self, target: Target<'_>) -> Result<()> {
        let (statement, formats) = match target {
            Target::Statement(name) => {
                let statement = self.statements.statement(name, &self.session)?;
                let oids = statement.parameters().iter().map(|&ty| codec::oid(ty));
                backend::parameter_description(self.output.bytes(), oids);
                // The formats are not known before `Bind`.
                (statement, &Formats::default())
            }
            Target::Portal(name) => match self.statements.portal(name) {
                Ok(portal) => (&portal.statement, &portal.formats),
                Err(missing) => {
                    let columns = codec::utf8(name).ok().and_then(|name| self.session.cursor(name)).ok_or(missing)?;
                    describe(self.output.bytes(), columns, &Formats::default());
                    return Ok(());
                }
            },
        };
        match statement.columns() {
            Some(columns) => describe(self.output.bytes(), columns, formats),
            None => backend::no_data(self.output.bytes()),
        }
        Ok(())
    }

    #[inline]
    pub(super) fn execute(&mut self, name: &[u8], rows_max: i32, is_last: bool) -> Result<()> {
        self.forget_cancellation();
        let (began, from) = (Instant::now(), self.output.bytes().len());
        let portal = self.statements.portal(name)?;
        if portal.statement.is_empty() {
            backend::empty_query(self.output.bytes());
            return Ok(());
        }
        if portal.is_done {
            // A portal with rows has no more of them; any other would be run twice.
            if portal.statement.columns().is_none() {
                let what = format!("portal \"{}\" cannot be run", name.escape_ascii());
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
            }
            backend::command_complete(self.output.bytes(), "SELECT 0");
            return Ok(());
        }
        self.output.begin_group();
        let limit = u32::try_from(rows_max).ok().and_then(NonZeroU32::new);
        let was_open = self.session.status() != Status::Idle;
        let is_long = portal.statement.is_long() || self.shared.backend.waits();
        let mut sink = Sink::portal(&mut self.output, &mut self.environment, &portal.formats, &mut self.scratch);
        let run = || self.session.execute(&mut portal.portal, limit, is_last, &mut sink);
        let fetched = self.shared.watch.run(is_long, began, run);
        self.has_set |= sink.has_set;
        let took = began.elapsed();
        portal.statement.took(took > LONG);
        if let Ok(Fetched::Complete(_)) = fetched {
            portal.is_done = true;
        }
        let is_durable = !matches!(&fetched, Ok(Fetched::Complete(Completion { receipt: Some(_) })));
        if self.session.is_copying() {
            let statement = portal.statement.clone();
            self.copying = Some(Copying::begin(began, statement.parent(), Some(statement)));
        } else if portal.statement.parent().is_some() || self.session.slow_after().is_some() {
            let statement = portal.statement.clone();
            let (parent, failure) = (statement.parent(), fetched.as_ref().err());
            let ended = Ended { began, took, client: Duration::ZERO, failure, parent };
            self.ended(ended, is_durable, Some(statement));
        }
        match fetched? {
            Fetched::Suspended => backend::portal_suspended(self.output.bytes()),
            Fetched::Complete(completion) => self.output.completed(from, completion),
        }
        if was_open && self.session.status() == Status::Idle {
            self.statements.end_portals();
        }
        Ok(())
    }

    pub(super) fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement([]) => self.statements.unnamed = None,
            Target::Statement(name) => self.session.remove_statement(name),
            Target::Portal(name) => self.statements.remove_portal(name),
        }
        backend::close_complete(self.output.bytes());
    }

    #[inline]
    pub(super) fn sync(&mut self) {
        self.is_skipping = false;
        match self.session.sync() {
            Ok(completion) => self.output.end_group(completion),
            Err(error) => self.report(&error),
        }
        self.ready();
    }
}
