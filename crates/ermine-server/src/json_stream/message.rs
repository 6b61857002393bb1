//! Changes of rows as messages: objects of JSON.
//!
//! Invariant: the messages of a transaction, and their numbers, depend on the log only. So a message that is encoded
//! again is the same.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use ermine_sql::{
    Result,
    logical::{Decoded, PublishedTable, RowChange, TableChange, lsn, parse_lsn},
    types::{Environment, Value, functions::write_json, user_types::UserTypes},
};

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub subject: Arc<str>,
    /// The place of the message that may follow.
    pub next: Place,
    pub payload: String,
    /// The position behind its transaction, of which it is the last message.
    pub end: Option<u64>,
}

/// The place of a message among all: the position of its transaction's commit, and its number in the transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub commit: u64,
    pub index: u64,
}

impl Place {
    /// The place of the first message of what commits at or above a position.
    pub fn from(commit: u64) -> Self {
        Self { commit, index: 0 }
    }
}

/// The mark of a message: whose it is, and where to go on behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The database's number, as IDENTIFY_SYSTEM shows it.
    pub database: u64,
    /// The replication slot of its writer.
    pub slot: String,
    pub next: Place,
}

impl Mark {
    pub fn text(&self) -> String {
        format!("{} {} {} {}", self.database, self.slot, lsn(self.next.commit), self.next.index)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut part = || parts.next();
        let (database, slot) = (part()?.parse().ok()?, part()?.to_owned());
        let next = Place { commit: parse_lsn(part()?)?, index: part()?.parse().ok()? };
        part().is_none().then_some(Self { database, slot, next })
    }
}

/// Encodes the changes of a stream.
pub struct Encoder {
    /// The beginning of all subjects.
    subject: String,
    environment: Environment,
    tables: HashMap<u32, Arc<Shown>>,
    /// The place of the next message.
    next: Place,
    /// The last message: whether another one follows in its transaction is not known yet. Its object is open.
    held: Option<Message>,
}

/// A table as its messages name it.
struct Shown {
    table: Arc<PublishedTable>,
    subject: Arc<str>,
    /// The members that name it.
    members: String,
    /// The names of its columns, as JSON.
    columns: Vec<String>,
}

impl Encoder {
    /// Returns an encoder; `subject` is the beginning of all subjects.
    pub fn new(subject: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            environment: Environment::default(),
            tables: HashMap::new(),
            next: Place::from(0),
            held: None,
        }
    }

    /// Begins a transaction.
    pub fn begin(&mut self, transaction: Decoded) {
        self.next = Place::from(transaction.commit);
    }

    /// Encodes a change; `each` receives the message before it.
    pub fn change(
        &mut self,
        change: &TableChange,
        types: &Arc<UserTypes>,
        each: &mut impl FnMut(Message),
    ) -> Result<()> {
        if !Arc::ptr_eq(&self.environment.types, types) {
            self.environment.types = types.clone();
        }
        match change {
            TableChange::Truncate(tables) => {
                for table in tables {
                    let shown = self.shown(table);
                    self.add("truncate", &shown, None, each)?;
                }
                Ok(())
            }
            TableChange::Row(table, change) => {
                let shown = self.shown(table);
                match change {
                    RowChange::Insert(row) => self.add("insert", &shown, Some(("row", row)), each),
                    RowChange::Update(row) => self.add("update", &shown, Some(("row", row)), each),
                    RowChange::Delete(key) => self.add("delete", &shown, Some(("key", key)), each),
                }
            }
        }
    }

    /// Ends a transaction; returns its last message.
    pub fn commit(&mut self, transaction: Decoded) -> Option<Message> {
        let mut message = self.held.take()?;
        message.payload.push_str(",\"last\":true}");
        message.end = Some(transaction.end);
        Some(message)
    }

    fn add(
        &mut self,
        kind: &str,
        shown: &Shown,
        values: Option<(&str, &[Value])>,
        each: &mut impl FnMut(Message),
    ) -> Result<()> {
        let (Place { commit, index }, members) = (self.next, &shown.members);
        let mut payload = format!("{{\"kind\":\"{kind}\",{members},\"commit\":\"{}\",\"index\":{index}", lsn(commit));
        if let Some((name, values)) = values {
            // Writing to a string does not fail.
            let _ = write!(payload, ",\"{name}\":{{");
            let mut separator = "";
            for ((value, column), quoted) in values.iter().zip(&shown.table.columns).zip(&shown.columns) {
                if name == "row" || column.is_key {
                    payload.extend([separator, quoted, ":"]);
                    write_json(value, &self.environment, &mut payload)?;
                    separator = ",";
                }
            }
            payload.push('}');
        }
        self.next.index += 1;
        let message = Message { subject: shown.subject.clone(), next: self.next, payload, end: None };
        if let Some(mut before) = self.held.replace(message) {
            before.payload.push_str(",\"last\":false}");
            each(before);
        }
        Ok(())
    }

    fn shown(&mut self, table: &Arc<PublishedTable>) -> Arc<Shown> {
        if let Some(shown) = self.tables.get(&table.oid)
            && (Arc::ptr_eq(&shown.table, table) || shown.table == *table)
        {
            return shown.clone();
        }
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let shown = Arc::new(Shown {
            table: table.clone(),
            subject: format!("{}.{}.{}", self.subject, token(&table.schema), token(&table.name)).into(),
            members: format!("\"schema\":{},\"table\":{}", json(&table.schema), json(&table.name)),
            columns: table.columns.iter().map(|column| json(&column.name)).collect(),
        });
        self.tables.insert(table.oid, shown.clone());
        shown
    }
}

/// Returns the message that says that changes are missing.
pub fn gap(subject: &str, from: u64, to: u64) -> Message {
    Message {
        subject: subject.into(),
        next: Place::from(to),
        payload: format!("{{\"kind\":\"gap\",\"from\":\"{}\",\"to\":\"{}\"}}", lsn(from), lsn(to)),
        end: None,
    }
}

/// Returns a name as one token of a subject: bytes that subjects do not have are written as `%XX`.
fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for character in name.chars() {
        let is_special = matches!(character, '.' | '*' | '>' | '%') || character.is_whitespace();
        if is_special || character.is_control() {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string does not fail.
                let _ = write!(token, "%{byte:02X}");
            }
        } else {
            token.push(character);
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use ermine_sql::{
        logical::PublishedColumn,
        types::{Array, Scalar, SqlType, Value},
    };

    use super::*;

    fn table(name: &str, columns: &[(&str, SqlType, bool)]) -> Arc<PublishedTable> {
        let column = |(name, ty, is_key): &(&str, SqlType, bool)| PublishedColumn {
            name: (*name).into(),
            ty: *ty,
            modifier: -1,
            is_key: *is_key,
        };
        let columns = columns.iter().map(column).collect();
        Arc::new(PublishedTable { oid: 7, schema: "public".into(), name: name.into(), columns, has_identity: true })
    }

    #[test]
    fn names_become_one_token_each() {
        for (name, expected) in [
            ("tea", "tea"),
            ("A b", "A%20b"),
            ("a.b*>%\t", "a%2Eb%2A%3E%25%09"),
            ("größe", "größe"),
            ("\u{a0}", "%C2%A0"),
            ("100%", "100%25"),
            ("100%25", "100%2525"),
        ] {
            assert_eq!(token(name), expected);
        }
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mark = Mark { database: 77, slot: "json_a_0".into(), next: Place { commit: 0x16_B374_D848, index: 9 } };
        assert_eq!(mark.text(), "77 json_a_0 16/B374D848 9");
        assert_eq!(Mark::parse(&mark.text()), Some(mark));
        for text in ["", "77", "77 a 0/1", "77 a 0/1 x", "x a 0/1 2", "77 a 0/1 2 3"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }

    #[test]
    fn changes_of_all_kinds_become_objects() {
        let tea = table("my \"tea\"", &[("id", SqlType::INT4, true), ("the name", SqlType::TEXT, false)]);
        let (types, mut encoder, mut sent) = (Arc::default(), Encoder::new("ermine.json.p"), Vec::new());
        let transaction = Decoded { commit: 0x100, end: 0x180 };
        encoder.begin(transaction);
        for change in [
            TableChange::Truncate(vec![tea.clone(), table("b", &[])]),
            TableChange::Row(tea.clone(), RowChange::Insert(vec![Value::Int4(1), "a \"b\" \n".into()])),
            TableChange::Row(tea.clone(), RowChange::Update(vec![Value::Int4(1), Value::Null])),
            TableChange::Row(tea, RowChange::Delete(vec![Value::Int4(1), Value::Null])),
        ] {
            encoder.change(&change, &types, &mut |message| sent.push(message)).unwrap();
        }
        sent.extend(encoder.commit(transaction));
        assert_eq!(encoder.commit(transaction), None);
        let named = r#""schema":"public","table":"my \"tea\"","commit":"0/100""#;
        let expected = [
            format!(r#"{{"kind":"truncate",{named},"index":0,"last":false}}"#),
            r#"{"kind":"truncate","schema":"public","table":"b","commit":"0/100","index":1,"last":false}"#.into(),
            format!(r#"{{"kind":"insert",{named},"index":2,"row":{{"id":1,"the name":"a \"b\" \n"}},"last":false}}"#),
            format!(r#"{{"kind":"update",{named},"index":3,"row":{{"id":1,"the name":null}},"last":false}}"#),
            format!(r#"{{"kind":"delete",{named},"index":4,"key":{{"id":1}},"last":true}}"#),
        ];
        assert_eq!(
            sent.iter().map(|message| &message.payload).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
        assert_eq!(&*sent[0].subject, "ermine.json.p.public.my%20\"tea\"");
        assert_eq!(sent.iter().map(|message| message.next.index).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(sent.iter().map(|message| message.end).collect::<Vec<_>>(), [None, None, None, None, Some(0x180)]);
        assert!(sent.iter().all(|message| serde_json::from_str::<serde_json::Value>(&message.payload).is_ok()));
        assert_eq!(gap("s", 0x10, 0x20).payload, r#"{"kind":"gap","from":"0/10","to":"0/20"}"#);
    }

    #[test]
    fn values_are_those_of_to_json() {
        let values = [
            (SqlType::INT8, Value::Int8(-9), "-9"),
            (SqlType::NUMERIC, Value::Numeric("1.50".parse().unwrap()), "1.50"),
            (SqlType::FLOAT8, Value::Float8(f64::INFINITY), "\"Infinity\""),
            (SqlType::BOOL, Value::Bool(true), "true"),
            (SqlType::JSONB, Value::json("{\"b\": [1, null]}".parse().unwrap()), "{\"b\": [1, null]}"),
            (SqlType::JSON, Value::Json("{\"b\":1}".into()), "{\"b\":1}"),
            (
                SqlType::INT4.array(),
                Value::array(Array::new(Scalar::Int4, vec![Value::Int4(1), Value::Null])),
                "[1,null]",
            ),
            (SqlType::TIMESTAMP, Value::Timestamp(1), "\"2000-01-01T00:00:00.000001\""),
            (SqlType::TIMESTAMPTZ, Value::TimestampTz(0), "\"2000-01-01T00:00:00+00:00\""),
            (SqlType::DATE, Value::Date(1), "\"2000-01-02\""),
            (SqlType::BYTEA, Value::Bytea([1, 255].into()), "\"\\\\x01ff\""),
            (SqlType::TEXT, Value::Null, "null"),
        ];
        let columns: Vec<_> = values.iter().map(|(ty, ..)| ("c", *ty, false)).collect();
        let expected: Vec<_> = values.iter().map(|(.., json)| format!("\"c\":{json}")).collect();
        let row = values.into_iter().map(|(_, value, _)| value).collect();
        let (mut encoder, transaction) = (Encoder::new("s"), Decoded { commit: 1, end: 2 });
        encoder.begin(transaction);
        let change = TableChange::Row(table("t", &columns), RowChange::Insert(row));
        encoder.change(&change, &Arc::default(), &mut |_| unreachable!()).unwrap();
        let payload = encoder.commit(transaction).unwrap().payload;
        assert!(payload.contains(&format!("\"row\":{{{}}}", expected.join(","))), "{payload}");
    }
}
