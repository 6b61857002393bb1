//! COPY over the wire: through `tokio-postgres`, and message by message.

use bytes::Bytes;
use futures_util::{SinkExt as _, TryStreamExt as _, pin_mut};
use tokio_postgres::{
    Client,
    binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream},
    error::SqlState,
    types::Type,
};

use super::{
    Directory, Serving,
    raw::{Raw, bind, execute, message, parse, query, sync},
};

async fn copy_in(client: &Client, text: &str, pieces: &[&str]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(text).await?;
    pin_mut!(sink);
    for piece in pieces {
        sink.send(Bytes::copy_from_slice(piece.as_bytes())).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, text: &str) -> String {
    let rows: Vec<Bytes> = client.copy_out(text).await.unwrap().try_collect().await.unwrap();
    String::from_utf8(rows.concat()).unwrap()
}

#[tokio::test]
async fn drivers_copy_in_and_out() {
    let directory = Directory::new("copy");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    client.batch_execute("CREATE TABLE t (a integer PRIMARY KEY, b text)").await.unwrap();
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &["1\tone\n2\t", "\\N\n"]).await.unwrap(), 2);
    assert_eq!(copy_out(&client, "COPY t TO STDOUT (FORMAT csv, HEADER)").await, "a,b\n1,one\n2,\n");

    let sink = client.copy_in("COPY t FROM STDIN BINARY").await.unwrap();
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT4, Type::TEXT]);
    pin_mut!(writer);
    for number in 100..10_000_i32 {
        writer.as_mut().write(&[&number, &(number % 7 > 0).then(|| format!("number {number}"))]).await.unwrap();
    }
    assert_eq!(writer.finish().await.unwrap(), 9900);
    let rows = client.copy_out("COPY (SELECT a, b FROM t WHERE a >= 100) TO STDOUT (FORMAT binary)").await.unwrap();
    let rows: Vec<_> = BinaryCopyOutStream::new(rows, &[Type::INT4, Type::TEXT]).try_collect().await.unwrap();
    assert_eq!(rows.len(), 9900);
    assert!(rows.iter().all(|row| {
        let number = row.get::<i32>(0);
        row.get::<Option<String>>(1) == (number % 7 > 0).then(|| format!("number {number}"))
    }));

    let error = copy_in(&client, "COPY t FROM STDIN", &["3\tx\n", "four\tx\n", "5\tx\n"]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INVALID_TEXT_REPRESENTATION));
    assert_eq!(error.as_db_error().unwrap().where_(), Some("COPY t, line 2, column a: \"four\""));
    let error = client.copy_in::<_, Bytes>("COPY t FROM '/etc/passwd'").await.err().unwrap();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    // The sink is dropped before it is finished.
    drop(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap());
    assert_eq!(count(&client).await, 9902);
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_copy_in_a_transaction_ends_with_it() {
    let directory = Directory::new("copy-block");
    let serving = Serving::start(&directory.0, &[]);
    let (mut client, other) = (serving.client().await, serving.client().await);
    client.batch_execute("CREATE TABLE t (a integer PRIMARY KEY)").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let sink = transaction.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"1\n2\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 2);
    assert_eq!(count(&other).await, 0);
    transaction.commit().await.unwrap();
    assert_eq!(count(&other).await, 2);

    // A client that disconnects in the middle has copied nothing.
    {
        let gone = serving.client().await;
        let sink = gone.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from_static(b"3\n4\n")).await.unwrap();
        sink.flush().await.unwrap();
        drop(gone);
    }
    assert_eq!(count(&other).await, 2);
}

#[test]
fn messages_follow_the_protocol() {
    let directory = Directory::new("copy-raw");
    let serving = Serving::start(&directory.0, &[]);
    let mut raw = Raw::connect(serving.address);
    raw.query("CREATE TABLE t (a integer PRIMARY KEY)");
    let data = |text: &str| message(b'd', text.as_bytes());
    let (done, fail) = (message(b'c', b""), message(b'f', b"why not\0"));
    let copying = "CopyInResponse(CopyInResponse { format: 0, columns: 1, column_formats: [0] })";

    // Statements behind the copy in its text are run when it has ended.
    raw.send(&[
        query("INSERT INTO t VALUES (1); COPY t FROM STDIN; SELECT count(*) FROM t"),
        data("2\n"),
        data("3"),
        done.clone(),
    ]);
    assert_eq!(raw.until_ready()[..3], ["INSERT 0 1", copying, "COPY 2"]);
    raw.send(&[query("COPY t FROM STDIN"), fail.clone()]);
    assert_eq!(raw.until_ready(), [copying, "ERROR 57014", "ready Idle"]);
    // The rest of a copy that has failed is dropped.
    raw.send(&[query("COPY t FROM STDIN"), data("x\n"), data("4\n"), done.clone(), query("SELECT 1 WHERE false")]);
    assert_eq!(raw.until_ready(), [copying, "ERROR 22P02", "ready Idle"]);
    assert_eq!(raw.until_ready(), ["columns ?column?", "SELECT 0", "ready Idle"]);
    // In a transaction, which fails with the copy.
    raw.query("BEGIN");
    raw.send(&[query("COPY t FROM STDIN"), query("SELECT 1")]);
    assert_eq!(raw.until_ready(), [copying, "ERROR 08P01", "ready Error"]);
    raw.query("ROLLBACK");

    // Extended: `Sync` is passed over until the copy has ended, and after a failure messages are skipped until the next
    // one.
    let begin = || [parse("", "COPY t FROM STDIN"), bind("", "", &[]), execute("", 0), sync()].concat();
    raw.send(&[begin(), data("5\n6\n"), done.clone(), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "bound", copying, "COPY 2", "ready Idle"]);
    raw.send(&[begin(), data("7\n"), fail, sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "bound", copying, "ERROR 57014", "ready Idle"]);
    raw.send(&[begin(), data("8\n5\n"), data("9\n"), done, sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "bound", copying, "ERROR 23505", "ready Idle"]);

    assert_eq!(
        raw.query("COPY (SELECT a FROM t ORDER BY a) TO STDOUT")[..3],
        [
            "CopyOutResponse(CopyOutResponse { format: 0, columns: 1, column_formats: [0] })",
            "CopyData(CopyData { data: b\"1\\n\" })",
            "CopyData(CopyData { data: b\"2\\n\" })",
        ]
    );
    raw.send(&[query("COPY (SELECT a FROM t WHERE a > 5) TO STDOUT; SELECT 1 WHERE false")]);
    let seen = raw.until_ready();
    assert_eq!(seen[2..], ["CopyDone(CopyDone)", "COPY 1", "columns ?column?", "SELECT 0", "ready Idle"]);
}
