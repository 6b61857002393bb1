//! A server, and its answers.

use std::{error::Error, fmt};

use bytes::BytesMut;
use futures_util::TryStreamExt;
use tokio_postgres::{
    Client, NoTls, SimpleQueryMessage,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

use crate::templates::literals;

pub struct Server {
    client: Client,
    configuration: String,
}

/// The outcome of a statement.
pub enum Outcome {
    Rows {
        /// Names, and in the extended protocol types, of the columns.
        columns: Vec<(String, u32)>,
        rows: Vec<Vec<Option<Vec<u8>>>>,
        tag: u64,
    },
    Error {
        code: String,
        message: String,
        /// Schema, table, column and constraint, for a violated constraint.
        about: Vec<Option<String>>,
    },
}

impl Outcome {
    pub fn is_internal_error(&self) -> bool {
        matches!(self, Self::Error { code, .. } if code.starts_with("XX"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message, about } => {
                let about: Vec<_> = about.iter().flatten().map(String::as_str).collect();
                write!(f, "{code} {message} {}", about.join(" "))
            }
            Self::Rows { columns, rows, tag } => {
                write!(f, "{tag} rows, columns {columns:?}")?;
                let mut rows: Vec<_> = rows.iter().collect();
                rows.sort();
                for row in rows.iter().take(12) {
                    let values = row.iter().map(|value| match value {
                        None => "NULL".into(),
                        Some(bytes) => String::from_utf8(bytes.clone()).unwrap_or_else(|_| format!("{bytes:02x?}")),
                    });
                    write!(f, "\n          {}", values.collect::<Vec<_>>().join(" | "))?;
                }
                Ok(())
            }
        }
    }
}

/// A value in the form in which it was received.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A parameter that is sent as text.
#[derive(Debug)]
struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> tokio_postgres::types::Format {
        tokio_postgres::types::Format::Text
    }

    to_sql_checked!();
}

impl Server {
    pub async fn connect(configuration: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(configuration, NoTls).await.expect("a server that answers");
        tokio::spawn(connection);
        Self { client, configuration: configuration.to_owned() }
    }

    /// Runs a text by the simple protocol.
    pub async fn simple(&mut self, text: &str) -> Outcome {
        match self.client.simple_query(text).await {
            Ok(messages) => {
                let (mut columns, mut rows, mut tag) = (Vec::new(), Vec::new(), 0);
                for message in messages {
                    match message {
                        SimpleQueryMessage::RowDescription(described) => {
                            columns = described.iter().map(|column| (column.name().to_owned(), 0)).collect();
                        }
                        SimpleQueryMessage::Row(row) => rows
                            .push((0..row.len()).map(|at| row.get(at).map(|text| text.as_bytes().to_vec())).collect()),
                        SimpleQueryMessage::CommandComplete(count) => tag = count,
                        _ => {}
                    }
                }
                Outcome::Rows { columns, rows, tag }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Runs a prepared statement with parameters; results are fetched in binary.
    pub async fn extended(&mut self, text: &str, parameters: &[&'static str]) -> Outcome {
        let done = async {
            let statement = self.client.prepare(text).await?;
            let columns: Vec<_> =
                statement.columns().iter().map(|column| (column.name().to_owned(), column.type_().oid())).collect();
            let mut types: Vec<(String, u32)> =
                statement.params().iter().map(|ty| (format!("parameter {ty}"), ty.oid())).collect();
            let mut values: Vec<Text> = Vec::new();
            for (at, _) in statement.params().iter().enumerate() {
                let all = literals(parameters.get(at).copied().unwrap_or("t"));
                // The same value in both systems: it is chosen by the statement's text.
                let value = all[(text.len() + at) % all.len()];
                values.push(Text((!(text.len() + 3 * at).is_multiple_of(11)).then(|| value.to_owned())));
            }
            let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
            let stream = self.client.query_raw(&statement, values).await?;
            let mut stream = std::pin::pin!(stream);
            let mut rows = Vec::new();
            while let Some(row) = stream.try_next().await? {
                rows.push((0..row.len()).map(|at| row.get::<_, Option<Raw>>(at).map(|raw| raw.0)).collect());
            }
            types.extend(columns);
            let tag = stream.rows_affected().unwrap_or(0);
            Ok::<_, tokio_postgres::Error>(Outcome::Rows { columns: types, rows, tag })
        };
        match done.await {
            Ok(outcome) => outcome,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &tokio_postgres::Error) -> Outcome {
        let Some(error) = error.as_db_error() else {
            panic!("{} is gone: {error}", self.configuration);
        };
        let code = error.code().code().to_owned();
        let mut about = Vec::new();
        if code.starts_with("23") {
            about = vec![error.schema(), error.table(), error.column(), error.constraint()]
                .into_iter()
                .map(|name| name.map(str::to_owned))
                .collect();
        }
        Outcome::Error { code, message: error.message().to_owned(), about }
    }
}
