//! Changes as messages of PostgreSQL's plugin `pgoutput` (chapter 55.9), version 1 of its protocol, which later versions
//! contain.

use std::{collections::HashMap, sync::Arc};

use ermine_sql::{
    Result, SqlError, SqlState,
    logical::{Decoded, PublishedColumn, PublishedTable, RowChange, TableChange},
    types::{Environment, Value, user_types::UserTypes},
};

use super::replication::{is_on, quoted};
use crate::codec;

/// The newest version of the protocol that a client may ask for: PostgreSQL 15's.
const VERSION_MAX: u32 = 3;

/// The wishes of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The names of the publications.
    pub publications: Vec<String>,
    /// Whether values are sent in binary form.
    pub is_binary: bool,
}

/// Encodes the changes of a stream.
pub struct Encoder {
    environment: Environment,
    is_binary: bool,
    /// The tables that the client has been told.
    told: HashMap<u32, Arc<PublishedTable>>,
    text: String,
}

impl Options {
    /// Reads the options of START_REPLICATION.
    pub fn read(options: &[(String, Option<String>)]) -> Result<Self> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let (mut version, mut publications, mut is_binary) = (None, None, false);
        for (name, value) in options {
            let is_on = || is_on(name, value.as_deref());
            match (&**name, value) {
                ("proto_version", Some(value)) => {
                    version = Some(value.parse::<u32>().map_err(|_| invalid("invalid proto_version".into()))?);
                }
                ("publication_names", Some(value)) => {
                    publications =
                        Some(names(value).ok_or_else(|| {
                            SqlError::new(SqlState::INVALID_NAME, "invalid publication_names syntax")
                        })?);
                }
                ("binary", _) => is_binary = is_on()?,
                // Transactions are sent when they have committed, without messages of others, which these allow.
                ("streaming" | "messages", _) => {}
                ("two_phase", _) if !is_on()? => {}
                ("two_phase", _) => return Err(SqlError::unsupported("streaming of prepared transactions")),
                _ => return Err(invalid(format!("unrecognized pgoutput option: {name}"))),
            }
        }
        match version {
            None => return Err(invalid("proto_version option missing".into())),
            Some(1..=VERSION_MAX) => {}
            Some(version) => {
                let message = format!("client sent proto_version={version} but 1 to {VERSION_MAX} are supported");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        let publications = publications.ok_or_else(|| invalid("publication_names parameter missing".into()))?;
        Ok(Self { publications, is_binary })
    }
}

/// Reads a list of names, as identifiers of SQL.
fn names(list: &str) -> Option<Vec<String>> {
    let (mut names, mut rest) = (Vec::new(), list.trim());
    loop {
        let name;
        if rest.starts_with('"') {
            (name, rest) = quoted(rest, '"')?;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            name = rest[..end].trim_end().to_lowercase();
            rest = &rest[end..];
        }
        if name.is_empty() {
            return None;
        }
        names.push(name);
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

impl Encoder {
    /// Returns an encoder for a client with these settings.
    pub fn new(environment: Environment, options: &Options) -> Self {
        Self { environment, is_binary: options.is_binary, told: HashMap::new(), text: String::new() }
    }

    /// Returns the begin of a transaction. The log has no times of commits: `now` stands for it.
    pub fn begin(&self, transaction: Decoded, now: i64) -> Vec<u8> {
        let mut out = vec![b'B'];
        out.extend_from_slice(&transaction.commit.to_be_bytes());
        out.extend_from_slice(&now.to_be_bytes());
        // Commits lie at multiples of 16.
        out.extend_from_slice(&((transaction.commit >> 4) as u32).to_be_bytes());
        out
    }

    /// Returns the end of a transaction.
    pub fn commit(&self, transaction: Decoded, now: i64) -> Vec<u8> {
        let mut out = vec![b'C', 0];
        out.extend_from_slice(&transaction.commit.to_be_bytes());
        out.extend_from_slice(&transaction.end.to_be_bytes());
        out.extend_from_slice(&now.to_be_bytes());
        out
    }

    /// Passes the messages of a change to `each`, first those that describe its table, if the client does not know it.
    pub fn change(
        &mut self,
        change: &TableChange,
        types: &Arc<UserTypes>,
        each: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if !Arc::ptr_eq(&self.environment.types, types) {
            self.environment.types = types.clone();
        }
        let (table, change) = match change {
            TableChange::Row(table, change) => (table, change),
            TableChange::Truncate(tables) => {
                tables.iter().try_for_each(|table| self.describe(table, each))?;
                return each(truncation(tables));
            }
        };
        self.describe(table, each)?;
        let mut out = Vec::with_capacity(64);
        let (kind, row, values) = match change {
            RowChange::Insert(values) => (b'I', b'N', values),
            RowChange::Update(values) => (b'U', b'N', values),
            RowChange::Delete(key) => (b'D', b'K', key),
        };
        out.push(kind);
        out.extend_from_slice(&table.oid.to_be_bytes());
        out.push(row);
        self.row(&mut out, table, values);
        each(out)
    }

    /// Passes the description of a table to `each`, if the client does not know it.
    fn describe(&mut self, table: &Arc<PublishedTable>, each: &mut dyn FnMut(Vec<u8>) -> Result<()>) -> Result<()> {
        if self.told.get(&table.oid).is_some_and(|told| told == table) {
            return Ok(());
        }
        for column in table.columns.iter().filter(|column| codec::is_user_type(column.ty)) {
            self.type_of(column).map_or(Ok(()), &mut *each)?;
        }
        self.told.insert(table.oid, table.clone());
        each(relation(table))
    }

    fn row(&mut self, out: &mut Vec<u8>, table: &PublishedTable, values: &[Value]) {
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for (value, column) in values.iter().zip(&table.columns) {
            if value.is_null() {
                out.push(b'n');
                continue;
            }
            out.push(if self.is_binary { b'b' } else { b't' });
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            if self.is_binary {
                codec::write_binary(value, column.ty, &self.environment, out);
            } else {
                self.text.clear();
                codec::write_text(value, column.ty, &self.environment, &mut self.text);
                out.extend_from_slice(self.text.as_bytes());
            }
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Returns the description of a type that a statement has created.
    fn type_of(&self, column: &PublishedColumn) -> Option<Vec<u8>> {
        let element = column.ty.element().unwrap_or(column.ty);
        let ty = self.environment.types.get(codec::oid(element))?;
        let mut out = vec![b'Y'];
        out.extend_from_slice(&codec::oid(column.ty).to_be_bytes());
        text(&mut out, &ty.schema);
        let name = if column.ty == element { ty.name.clone() } else { ty.array_name() };
        text(&mut out, &name);
        Some(out)
    }
}

fn truncation(tables: &[Arc<PublishedTable>]) -> Vec<u8> {
    let mut out = vec![b'T'];
    out.extend_from_slice(&(tables.len() as u32).to_be_bytes());
    out.push(0);
    tables.iter().for_each(|table| out.extend_from_slice(&table.oid.to_be_bytes()));
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Returns the description of a table.
fn relation(table: &PublishedTable) -> Vec<u8> {
    let mut out = vec![b'R'];
    out.extend_from_slice(&table.oid.to_be_bytes());
    text(&mut out, &table.schema);
    text(&mut out, &table.name);
    // The primary key, as by default.
    out.push(b'd');
    out.extend_from_slice(&(table.columns.len() as u16).to_be_bytes());
    for column in &table.columns {
        out.push(column.is_key.into());
        text(&mut out, &column.name);
        out.extend_from_slice(&codec::oid(column.ty).to_be_bytes());
        out.extend_from_slice(&column.modifier.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use ermine_sql::types::SqlType;

    use super::*;

    #[test]
    fn options_are_checked() {
        let read = |options: &[(&str, Option<&str>)]| {
            let owned = options.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
            Options::read(&owned.collect::<Vec<_>>())
        };
        let (version, p) = (("proto_version", Some("1")), ("publication_names", Some("\"a\"\"B\", C")));
        let expected = Options { publications: vec!["a\"B".into(), "c".into()], is_binary: false };
        assert_eq!(read(&[version, p]).unwrap(), expected);
        assert_eq!(read(&[("proto_version", Some("3")), p, ("streaming", Some("on"))]).unwrap(), expected);
        assert!(read(&[version, p, ("binary", Some("true"))]).unwrap().is_binary);
        for wrong in [
            &[version][..],
            &[p],
            &[("proto_version", Some("4")), p],
            &[("proto_version", Some("0")), p],
            &[version, ("publication_names", Some("a,"))],
            &[version, ("publication_names", Some("\"a"))],
            &[version, p, ("colour", None)],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_table_is_told_once() {
        let column = |name: &str, ty, is_key| PublishedColumn { name: name.into(), ty, modifier: -1, is_key };
        let columns = vec![column("id", SqlType::INT4, true), column("name", SqlType::TEXT, false)];
        let table = PublishedTable { oid: 7, schema: "s".into(), name: "t".into(), columns, has_identity: true };
        let table = Arc::new(table);
        let options = Options { publications: Vec::new(), is_binary: false };
        let mut encoder = Encoder::new(Environment::default(), &options);
        let types = Arc::default();
        let mut encoded = |change: TableChange| {
            let mut all = Vec::new();
            let mut keep = |message| {
                all.push(message);
                Ok(())
            };
            encoder.change(&change, &types, &mut keep).unwrap();
            all
        };
        let described = b"R\0\0\0\x07s\0t\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff";
        let row = b"I\0\0\0\x07N\0\x02t\0\0\0\x011t\0\0\0\x01a";
        let inserted =
            encoded(TableChange::Row(table.clone(), RowChange::Insert(vec![Value::Int4(1), Value::text("a")])));
        assert_eq!(inserted, [&described[..], &row[..]]);
        let deleted = encoded(TableChange::Row(table.clone(), RowChange::Delete(vec![Value::Int4(1), Value::Null])));
        assert_eq!(deleted, [b"D\0\0\0\x07K\0\x02t\0\0\0\x011n"]);
        assert_eq!(encoded(TableChange::Truncate(vec![table.clone()])), [b"T\0\0\0\x01\0\0\0\0\x07"]);
    }
}
