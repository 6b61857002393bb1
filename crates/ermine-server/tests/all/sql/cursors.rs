//! Cursors over the wire: through `tokio-postgres`, and message by message.

use tokio_postgres::error::SqlState;

use super::{
    Directory, Serving,
    raw::{Raw, bind, describe, execute, parse, sync},
};

#[tokio::test]
async fn drivers_fetch_from_cursors() {
    let directory = Directory::new("cursors");
    let serving = Serving::start(&directory.0, &[]);
    let mut client = serving.client().await;
    client.batch_execute("CREATE TABLE t (a integer PRIMARY KEY, b text)").await.unwrap();
    client.batch_execute("INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 10) AS i").await.unwrap();
    let txn = client.transaction().await.unwrap();
    txn.execute("DECLARE c CURSOR FOR SELECT a, b FROM t WHERE a > $1 ORDER BY a", &[&4]).await.unwrap();
    let fetch = txn.prepare("FETCH 2 FROM c").await.unwrap();
    for first in [5, 7, 9] {
        let rows = txn.query(&fetch, &[]).await.unwrap();
        let rows: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(rows, [(first, format!("row {first}")), (first + 1, format!("row {}", first + 1))]);
    }
    assert!(txn.query(&fetch, &[]).await.unwrap().is_empty());
    // The name now means another cursor, with other columns than those the driver was told of.
    txn.batch_execute("CLOSE c; DECLARE c CURSOR FOR SELECT true").await.unwrap();
    let error = txn.query(&fetch, &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    txn.rollback().await.unwrap();
    let error = client.execute("DECLARE c CURSOR FOR SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION));
}

#[test]
fn a_cursor_is_a_portal_to_those_who_ask() {
    let directory = Directory::new("cursor-portals");
    let serving = Serving::start(&directory.0, &[]);
    let mut raw = Raw::connect(serving.address);
    raw.query("BEGIN; DECLARE c BINARY CURSOR FOR SELECT 7 AS seven, 'x' AS text FROM generate_series(1, 2)");
    raw.send(&[describe('P', "c"), sync()]);
    assert_eq!(raw.until_ready(), ["columns seven text", "ready Transaction"]);
    // Binary where the client does not specify a format.
    let row = |seven: &str| format!("row \\x00\\x00\\x00{seven}\\x00\\x00\\x00\\x01x");
    let expected = ["columns seven text", &row("\\x04\\x00\\x00\\x00\\x07"), "FETCH 1", "ready Transaction"];
    assert_eq!(raw.query("FETCH c"), expected);
    raw.send(&[parse("", "FETCH c"), bind("", "", &[]), describe('P', ""), execute("", 0), sync()]);
    let expected = ["parsed", "bound", "columns seven text", &row("\\x017"), "FETCH 1", "ready Transaction"];
    assert_eq!(raw.until_ready(), expected);
    assert_eq!(raw.query("SELECT 7 AS seven")[1], "row \\x00\\x00\\x00\\x017");
    raw.query("COMMIT");
    raw.send(&[describe('P', "c"), sync()]);
    assert_eq!(raw.until_ready(), ["ERROR 34000", "ready Idle"]);
}
