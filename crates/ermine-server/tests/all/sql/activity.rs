//! Effects of sessions on one another: `pg_stat_activity`, `pg_cancel_backend`, `pg_terminate_backend`.

use std::time::Duration;

use tokio_postgres::{Client, error::SqlState};

use super::{Directory, Serving};
use crate::raw::{Raw, query};

async fn process(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Returns the state of a session, whether it is in a transaction, and its last query.
async fn seen(client: &Client, process: i32) -> (String, bool, String) {
    let text = "SELECT state, xact_start IS NOT NULL, query FROM pg_stat_activity WHERE pid = $1";
    let row = client.query_one(text, &[&process]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[tokio::test]
async fn who_waits_for_its_client_in_a_transaction_says_so() {
    let directory = Directory::new("activity");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE t (a integer); SET application_name = 'till'").await.unwrap();
    let number = process(&one).await;
    assert_eq!(seen(&two, number).await, ("idle".into(), false, "SELECT pg_backend_pid()".into()));
    one.batch_execute("BEGIN").await.unwrap();
    one.query("SELECT a FROM t", &[]).await.unwrap();
    assert_eq!(seen(&two, number).await, ("idle in transaction".into(), true, "SELECT a FROM t".into()));
    one.query("SELECT nothing", &[]).await.unwrap_err();
    assert_eq!(seen(&two, number).await.0, "idle in transaction (aborted)");
    one.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(seen(&two, number).await, ("idle".into(), false, "ROLLBACK".into()));
    let own = seen(&two, process(&two).await).await;
    assert_eq!((&*own.0, own.1), ("active", true));
    let text = "SELECT usename::text, datname::text, application_name, host(client_addr), client_port > 0 FROM \
        pg_stat_activity WHERE pid = $1";
    let row = two.query_one(text, &[&number]).await.unwrap();
    let shown: Vec<&str> = (0..4).map(|at| row.get(at)).collect();
    assert_eq!((shown, row.get(4)), (vec!["ann", "shop", "till", "127.0.0.1"], true));
    drop(one);
    let gone = async {
        while two.query("SELECT 1 FROM pg_stat_activity WHERE pid = $1", &[&number]).await.unwrap().len() == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), gone).await.unwrap();
}

#[tokio::test]
async fn sessions_cancel_and_end_others() {
    let directory = Directory::new("cancel");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    let number = process(&one).await;
    let long = tokio::spawn(async move {
        let failed = one.query("SELECT count(*) FROM generate_series(1, 10000000000)", &[]).await.unwrap_err();
        (one, failed.code().cloned())
    });
    while seen(&two, number).await.0 != "active" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(two.query_one("SELECT pg_cancel_backend($1)", &[&number]).await.unwrap().get::<_, bool>(0));
    let (one, code) = tokio::time::timeout(Duration::from_secs(600), long).await.unwrap().unwrap();
    assert_eq!(code, Some(SqlState::QUERY_CANCELED));
    assert!(!two.query_one("SELECT pg_cancel_backend(0)", &[]).await.unwrap().get::<_, bool>(0));

    one.batch_execute("BEGIN; CREATE TABLE t (a integer)").await.unwrap();
    assert!(two.query_one("SELECT pg_terminate_backend($1)", &[&number]).await.unwrap().get::<_, bool>(0));
    let ended = async {
        while !one.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), ended).await.unwrap();
    // The transaction has ended with its session.
    two.batch_execute("CREATE TABLE t (a integer)").await.unwrap();
}

/// Looks at a session until it waits for an event.
async fn until_it_waits(client: &Client, query: &str, wanted: &str) {
    let text = "SELECT concat_ws(' ', state, wait_event_type, wait_event) FROM pg_stat_activity WHERE query = $1";
    for _ in 0..200_000 {
        let seen: Option<String> = client.query_opt(text, &[&query]).await.unwrap().map(|row| row.get(0));
        if seen.as_deref() == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{query} has not waited for {wanted}");
}

#[tokio::test]
async fn sessions_wait_for_their_clients_and_the_log() {
    let directory = Directory::new("events");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE t (a integer)").await.unwrap();
    until_it_waits(&two, "CREATE TABLE t (a integer)", "idle Client ClientRead").await;
    let insert = "INSERT INTO t VALUES (1)";
    let writing = tokio::spawn(async move {
        loop {
            one.batch_execute(insert).await.unwrap();
        }
    });
    until_it_waits(&two, insert, "active IO WALSync").await;
    writing.abort();
    // Two clients that neither read nor write any more.
    let (mut copying, mut reading) = (Raw::connect(serving.address), Raw::connect(serving.address));
    copying.send(&[query("COPY t FROM STDIN")]);
    until_it_waits(&two, "COPY t FROM STDIN", "active Client ClientRead").await;
    let much = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)";
    reading.send(&[query(much)]);
    until_it_waits(&two, much, "active Client ClientWrite").await;
}
