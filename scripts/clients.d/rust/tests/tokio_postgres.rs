//! tokio-postgres: values, pipelines, transactions, copies, cursors, notifications, cancelling, errors.
#![allow(clippy::float_cmp)]

use std::collections::HashMap;
use std::env::var;
use std::future::poll_fn;
use std::net::IpAddr;

use chrono::{DateTime, NaiveDate, Utc};
use futures_util::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use tokio::sync::mpsc;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Json, Kind, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};
use uuid::Uuid;

mod known_gap;
use known_gap::known_gap;

type Done = Result<(), Box<dyn std::error::Error>>;

/// The server that the environment names, as for libpq.
fn config(schema: &str) -> Config {
    let mut config = Config::new();
    config.host(var("PGHOST").unwrap()).port(var("PGPORT").unwrap().parse().unwrap()).user(var("PGUSER").unwrap());
    config.dbname(var("PGDATABASE").unwrap()).application_name("tests").options(format!("-c search_path={schema}"));
    config
}

async fn connect(schema: &str) -> Result<Client, Error> {
    let (client, connection) = config(schema).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A client in an empty schema of this test's own.
async fn in_schema(name: &str, text: &str) -> Result<Client, Error> {
    let client = connect(name).await?;
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await?;
    client.batch_execute(text).await?;
    Ok(client)
}

async fn drop_schema(client: &Client, name: &str) -> Result<(), Error> {
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await
}

fn code(error: &Error) -> Option<&SqlState> {
    error.code()
}

known_gap!(values_come_back_as_they_went, "parameters for columns of a domain are described with its base type");
async fn values_come_back_as_they_went() -> Done {
    let client = in_schema(
        "t_values",
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN small AS int CHECK (VALUE < 10)",
    )
    .await?;
    macro_rules! same {
        ($($name:literal: $type:ty = $value:expr;)*) => {$(
            let value: $type = $value;
            let row = client.query_one(concat!("SELECT $1::", $name, ", NULL::", $name), &[&value]).await?;
            assert_eq!(row.get::<_, $type>(0), value, $name);
            assert_eq!(row.get::<_, Option<$type>>(1), None, $name);
        )*};
    }
    same! {
        "int2": i16 = i16::MIN; "int4": i32 = 7; "int8": i64 = i64::MAX; "oid": u32 = 4_000_000_000;
        "float4": f32 = 1.5; "float8": f64 = f64::INFINITY; "bool": bool = true;
        "text": String = "grüner Tee 🍵".into(); "varchar(9)": String = String::new();
        "bytea": Vec<u8> = vec![0, 255, 39]; "uuid": Uuid = Uuid::from_u128(7);
        "date": NaiveDate = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
        "timestamptz": DateTime<Utc> = DateTime::from_timestamp(1_709_209_800, 123_456_000).unwrap();
        "int4[]": Vec<Option<i32>> = vec![Some(1), None]; "text[]": Vec<String> = vec!["a".into(), "\"{,".into()];
        "inet": IpAddr = "10.1.2.3".parse()?; "jsonb": serde_json::Value = serde_json::json!({"a": [1, null]});
        "json": serde_json::Value = serde_json::json!("x");
    }
    let row = client.query_one("SELECT $1::jsonb -> 'a'", &[&Json(HashMap::from([("a", 1)]))]).await?;
    assert_eq!(row.get::<_, Json<i32>>(0).0, 1);

    // Types that are looked up in the catalog.
    let statement = client.prepare("SELECT $1::mood, $2::small, ARRAY[$1::mood]").await?;
    let Kind::Enum(labels) = statement.params()[0].kind() else { panic!("{:?}", statement.params()) };
    assert_eq!(labels, &["sad", "happy"]);
    assert!(matches!(statement.params()[1].kind(), Kind::Domain(base) if *base == Type::INT4));
    assert!(matches!(statement.columns()[2].type_().kind(), Kind::Array(member) if member.name() == "mood"));
    assert_eq!(statement.columns()[0].type_().schema(), "t_values");
    drop_schema(&client, "t_values").await?;
    Ok(())
}

#[tokio::test]
async fn requests_are_sent_together() -> Done {
    let client = in_schema("t_together", "CREATE TABLE pets (id int PRIMARY KEY, name text NOT NULL)").await?;
    let insert = client.prepare("INSERT INTO pets VALUES ($1, $2)").await?;
    let inserts = (0..100).map(|id: i32| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[&id, &format!("pet {id}")]).await }
    });
    let counts = futures_util::future::try_join_all(inserts).await?;
    assert_eq!(counts.iter().sum::<u64>(), 100);
    // One that fails takes no other along.
    let (good, bad, after) = futures_util::future::join3(
        client.execute(&insert, &[&100, &"new"]),
        client.execute(&insert, &[&7, &"twice"]),
        client.query_one("SELECT count(*) FROM pets", &[]),
    )
    .await;
    assert_eq!(good?, 1);
    let bad = bad.unwrap_err();
    let detail = bad.as_db_error().unwrap();
    assert_eq!(detail.code(), &SqlState::UNIQUE_VIOLATION);
    assert_eq!(
        [detail.schema(), detail.table(), detail.constraint()],
        [Some("t_together"), Some("pets"), Some("pets_pkey")]
    );
    assert_eq!(after?.get::<_, i64>(0), 101);
    // Parameters with types, and a statement without a name.
    let rows = client.query_typed("SELECT name FROM pets WHERE id = $1", &[(&7, Type::INT4)]).await?;
    assert_eq!(rows[0].get::<_, &str>("name"), "pet 7");
    let error = client.query_one("SELECT nothing FROM pets", &[]).await.unwrap_err();
    assert_eq!(code(&error), Some(&SqlState::UNDEFINED_COLUMN));
    let messages =
        client.simple_query("SELECT 1 AS a; INSERT INTO pets VALUES (200, 'x'); SELECT 'b' WHERE false").await?;
    let told: Vec<String> = messages
        .iter()
        .map(|message| match message {
            SimpleQueryMessage::Row(row) => format!("row {}", row.get(0).unwrap()),
            SimpleQueryMessage::CommandComplete(count) => format!("done {count}"),
            SimpleQueryMessage::RowDescription(columns) => format!("columns {}", columns[0].name()),
            _ => String::new(),
        })
        .collect();
    assert_eq!(told, ["columns a", "row 1", "done 1", "done 1", "columns ?column?", "done 0"]);
    drop_schema(&client, "t_together").await?;
    Ok(())
}

#[tokio::test]
async fn transactions_have_savepoints_and_portals() -> Done {
    let mut client = in_schema("t_transactions", "CREATE TABLE numbers (n int PRIMARY KEY)").await?;
    let mut transaction = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await?;
    transaction.execute("INSERT INTO numbers SELECT generate_series(1, 100)", &[]).await?;
    let savepoint = transaction.savepoint("here").await?;
    let error = savepoint.execute("INSERT INTO numbers VALUES (1)", &[]).await.unwrap_err();
    assert_eq!(code(&error), Some(&SqlState::UNIQUE_VIOLATION));
    savepoint.rollback().await?;
    let nested = transaction.transaction().await?;
    nested.execute("DELETE FROM numbers WHERE n > $1", &[&90]).await?;
    nested.commit().await?;
    let portal = transaction.bind("SELECT n FROM numbers ORDER BY n", &[]).await?;
    let mut parts = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 40).await?;
        if rows.is_empty() {
            break;
        }
        parts.push((rows.len(), rows[0].get::<_, i32>(0)));
    }
    assert_eq!(parts, [(40, 1), (40, 41), (10, 81)]);
    transaction.commit().await?;
    // One that is dropped is rolled back.
    let transaction = client.transaction().await?;
    transaction.execute("DELETE FROM numbers", &[]).await?;
    drop(transaction);
    assert_eq!(client.query_one("SELECT count(*) FROM numbers", &[]).await?.get::<_, i64>(0), 90);
    let transaction = client.build_transaction().read_only(true).start().await?;
    let error = transaction.execute("DELETE FROM numbers", &[]).await.unwrap_err();
    assert_eq!(code(&error), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    transaction.rollback().await?;
    let rows = client.query_raw("SELECT n FROM numbers WHERE n < $1", [5]).await?;
    assert_eq!(rows.try_collect::<Vec<_>>().await?.len(), 4);
    drop_schema(&client, "t_transactions").await?;
    Ok(())
}

#[tokio::test]
async fn tables_are_copied() -> Done {
    let client = in_schema("t_copies", "CREATE TABLE pets (id int PRIMARY KEY, name text, born timestamptz)").await?;
    let sink = client.copy_in("COPY pets (id, name) FROM STDIN").await?;
    pin_mut!(sink);
    sink.send("1\tit's\n2\t\\N\n".as_bytes()).await?;
    assert_eq!(sink.finish().await?, 2);
    let types = [Type::INT4, Type::TEXT, Type::TIMESTAMPTZ];
    let writer = BinaryCopyInWriter::new(client.copy_in("COPY pets FROM STDIN (FORMAT binary)").await?, &types);
    pin_mut!(writer);
    let born: DateTime<Utc> = DateTime::from_timestamp(1_709_209_800, 0).unwrap();
    for id in 10..1000_i32 {
        writer.as_mut().write(&[&id, &format!("pet {id}"), &born]).await?;
    }
    assert_eq!(writer.finish().await?, 990);
    let rows = BinaryCopyOutStream::new(client.copy_out("COPY pets TO STDOUT (FORMAT binary)").await?, &types);
    let rows = rows.try_collect::<Vec<_>>().await?;
    assert_eq!(rows.len(), 992);
    assert_eq!(rows.iter().filter(|row| row.get::<Option<DateTime<Utc>>>(2) == Some(born)).count(), 990);
    let text = client.copy_out("COPY (SELECT id, name FROM pets ORDER BY id LIMIT 2) TO STDOUT").await?;
    let text: Vec<u8> = text.try_collect::<Vec<_>>().await?.concat();
    assert_eq!(text, b"1\tit's\n2\t\\N\n");
    let sink = client.copy_in("COPY pets (id) FROM STDIN").await?;
    pin_mut!(sink);
    sink.send("3000\n1\n".as_bytes()).await?;
    assert_eq!(code(&sink.finish().await.unwrap_err()), Some(&SqlState::UNIQUE_VIOLATION));
    // A sink that is dropped ends the copy with an error.
    let sink = client.copy_in::<_, &[u8]>("COPY pets (id) FROM STDIN").await?;
    drop(sink);
    assert_eq!(client.query_one("SELECT count(*) FROM pets", &[]).await?.get::<_, i64>(0), 992);
    drop_schema(&client, "t_copies").await?;
    Ok(())
}

#[tokio::test]
async fn notices_and_notifications_arrive() -> Done {
    let (client, mut connection) = config("public").connect(NoTls).await?;
    let (sender, mut messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            let _ = sender.send(match message {
                AsyncMessage::Notice(notice) => format!("{} {}", notice.code().code(), notice.severity()),
                AsyncMessage::Notification(sent) => format!("{} {}", sent.channel(), sent.payload()),
                _ => String::new(),
            });
        }
    });
    let other = connect("public").await?;
    client.batch_execute("DROP TABLE IF EXISTS nothing; LISTEN news").await?;
    other.execute("SELECT pg_notify('news', $1)", &[&"first"]).await?;
    for expected in ["00000 NOTICE", "news first"] {
        assert_eq!(messages.recv().await.as_deref(), Some(expected));
    }
    Ok(())
}

#[tokio::test]
async fn statements_are_cancelled() -> Done {
    let (client, other) = (connect("public").await?, connect("public").await?);
    let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let token = client.cancel_token();
    let (slept, cancelled) = futures_util::future::join(client.batch_execute("SELECT pg_sleep(60)"), async {
        // A request to cancel ends a statement that runs, not one that comes later. Other sessions may run the same text.
        let runs = "SELECT count(*) FROM pg_stat_activity
            WHERE pid = $1 AND state = 'active' AND query = 'SELECT pg_sleep(60)'";
        while other.query_one(runs, &[&own]).await.unwrap().get::<_, i64>(0) == 0 {}
        token.cancel_query(NoTls).await
    })
    .await;
    cancelled?;
    assert_eq!(code(&slept.unwrap_err()), Some(&SqlState::QUERY_CANCELED));
    // Rows that the program does not read are passed over.
    let mut stream = Box::pin(client.query_raw("SELECT generate_series(1, 100000)", [0_i32; 0]).await?);
    assert_eq!(stream.next().await.unwrap()?.get::<_, i32>(0), 1);
    drop(stream);
    assert_eq!(client.query_one("SELECT current_setting('application_name')", &[]).await?.get::<_, &str>(0), "tests");
    client.check_connection().await?;
    Ok(())
}

#[tokio::test]
async fn statements_are_forgotten() -> Done {
    let client = in_schema("t_statements", "CREATE TABLE changing AS SELECT 1 AS a").await?;
    let statement = client.prepare("SELECT * FROM changing").await?;
    assert_eq!(client.query_one(&statement, &[]).await?.get::<_, i32>(0), 1);
    client.batch_execute("ALTER TABLE changing ADD b text").await?;
    let error = client.query_one(&statement, &[]).await.unwrap_err();
    assert_eq!(code(&error), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    client.batch_execute("DEALLOCATE ALL").await?;
    let error = client.query_one(&statement, &[]).await.unwrap_err();
    assert_eq!(code(&error), Some(&SqlState::INVALID_SQL_STATEMENT_NAME));
    assert_eq!(client.prepare("SELECT * FROM changing").await?.columns().len(), 2);
    drop_schema(&client, "t_statements").await?;
    Ok(())
}
