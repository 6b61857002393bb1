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
    simple::is_empty,
    statements::{Portal, Prepared},
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
        self.statements.check_new(name)?;
        if name.is_empty() {
            self.statements.remove(name);
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
        let statement = if is_empty(text) {
            None
        } else {
            Some(self.session.prepare(text, &types).inspect_err(|_| self.failing = Some(text.to_owned()))?)
        };
        self.statements.add(name, Prepared::new(statement, self.parent_of(text)));
        backend::parse_complete(self.output.bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<()> {
        let prepared = self.statements.statement(bind.statement)?.clone();
        let parameters = match &prepared.statement {
            Some(statement) => statement.parameters(),
            None => &[],
        };
        if bind.parameter_count != parameters.len() {
            let what = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameter_count,
                bind.statement.escape_ascii(),
                parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        let columns = prepared.columns().map_or(0, <[_]>::len);
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
        let portal = match &prepared.statement {
            Some(statement) => Some(self.session.bind(statement, values)?),
            None => None,
        };
        let portal = Portal { prepared, portal, formats: bind.result_formats.clone(), is_done: false };
        self.statements.add_portal(bind.portal, portal)?;
        backend::bind_complete(self.output.bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn describe(&mut self, target: Target<'_>) -> Result<()> {
        let (prepared, formats) = match target {
            Target::Statement(name) => {
                let prepared = self.statements.statement(name)?;
                let parameters = prepared.statement.as_ref().map_or(&[][..], Statement::parameters);
                backend::parameter_description(self.output.bytes(), parameters.iter().map(|&ty| codec::oid(ty)));
                // The formats are not known before `Bind`.
                (prepared, &Formats::default())
            }
            Target::Portal(name) => match self.statements.portal(name) {
                Ok(portal) => (&portal.prepared, &portal.formats),
                Err(missing) => {
                    let columns = codec::utf8(name).ok().and_then(|name| self.session.cursor(name)).ok_or(missing)?;
                    describe(self.output.bytes(), columns, &Formats::default());
                    return Ok(());
                }
            },
        };
        match prepared.columns() {
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
        let Some(inner) = &mut portal.portal else {
            backend::empty_query(self.output.bytes());
            return Ok(());
        };
        if portal.is_done {
            // A portal with rows has no more of them; any other would be run twice.
            if portal.prepared.columns().is_none() {
                let what = format!("portal \"{}\" cannot be run", name.escape_ascii());
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
            }
            backend::command_complete(self.output.bytes(), "SELECT 0");
            return Ok(());
        }
        self.output.begin_group();
        let limit = u32::try_from(rows_max).ok().and_then(NonZeroU32::new);
        let was_open = self.session.status() != Status::Idle;
        let is_long = portal.prepared.is_long() || self.shared.backend.waits();
        let mut sink = Sink::portal(&mut self.output, &mut self.environment, &portal.formats, &mut self.scratch);
        let fetched = self.shared.watch.run(is_long, began, || self.session.execute(inner, limit, is_last, &mut sink));
        self.has_set |= sink.has_set;
        let took = began.elapsed();
        portal.prepared.took(took > LONG);
        if let Ok(Fetched::Complete(_)) = fetched {
            portal.is_done = true;
        }
        let is_durable = !matches!(&fetched, Ok(Fetched::Complete(Completion { receipt: Some(_) })));
        if self.session.is_copying() {
            let prepared = portal.prepared.clone();
            self.copying = Some(Copying::begin(began, prepared.parent, Some(prepared)));
        } else if portal.prepared.parent.is_some() || self.session.slow_after().is_some() {
            let prepared = portal.prepared.clone();
            let (parent, failure) = (prepared.parent, fetched.as_ref().err());
            let ended = Ended { began, took, client: Duration::ZERO, failure, parent };
            self.ended(ended, is_durable, Some(prepared));
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
            Target::Statement(name) => self.statements.remove(name),
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
