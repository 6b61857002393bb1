//! Typical work of programs, through `tokio-postgres`.

use std::{sync::atomic::Ordering, time::Duration};

use tokio_postgres::{SimpleQueryMessage, error::SqlState, types::Type};

use super::support::{Running, start};

#[tokio::test]
async fn simple_and_prepared() {
    let server = start();
    let client = server.client().await;
    let rows = client.simple_query("SELECT 1; SELECT 'a'").await.unwrap();
    let texts = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["1", "a"]);

    let statement = client.prepare("SELECT $1,$2,null").await.unwrap();
    assert_eq!(statement.params(), [Type::INT4, Type::INT4]);
    let row = client.query_one(&statement, &[&7, &None::<i32>]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, Option<i32>>(1), row.get::<_, Option<i32>>(2)), (7, None, None));
    let typed = client.prepare_typed("SELECT $1", &[Type::TEXT]).await.unwrap();
    assert_eq!(client.query_one(&typed, &[&"ä"]).await.unwrap().get::<_, &str>(0), "ä");
    assert_eq!(client.execute("INSERT", &[]).await.unwrap(), 1);
    assert_eq!(client.query("ROWS 2000", &[]).await.unwrap().len(), 2000);
}

#[tokio::test]
async fn errors_and_recovery() {
    let server = start();
    let mut client = server.client().await;
    let error = client.query("FAIL", &[]).await.unwrap_err();
    let report = error.as_db_error().unwrap();
    assert_eq!((report.code(), report.hint()), (&SqlState::DIVISION_BY_ZERO, Some("Do not.")));
    assert_eq!(client.query("SELECT 1", &[]).await.unwrap().len(), 1);

    let transaction = client.transaction().await.unwrap();
    assert!(transaction.query("FAIL", &[]).await.is_err());
    let error = transaction.query("SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    transaction.rollback().await.unwrap();
    assert_eq!(client.query("SELECT 1", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn portals() {
    let server = start();
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("ROWS 25", &[]).await.unwrap();
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(transaction.query_portal(&portal, 10).await.unwrap().len());
    }
    assert_eq!(counts, [10, 10, 5, 0]);
}

#[tokio::test]
async fn pipelines() {
    let server = start();
    let client = server.client().await;
    let statement = client.prepare("POINT $1").await.unwrap();
    let (statement, client) = (&statement, &client);
    let all = (0..50).map(|key| async move { client.query_one(statement, &[&key]).await.unwrap().get::<_, i32>(0) });
    let mut handles = Vec::new();
    for one in all {
        handles.push(Box::pin(one));
    }
    // Each future is polled once before any is waited for, which sends its message.
    std::future::poll_fn(|context| {
        handles.iter_mut().for_each(|handle| assert!(handle.as_mut().poll(context).is_pending()));
        std::task::Poll::Ready(())
    })
    .await;
    for (key, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await, key as i32);
    }
}

#[tokio::test]
async fn cancellation() {
    let server = start();
    let client = server.client().await;
    let token = client.cancel_token();
    let (slept, ()) = tokio::join!(client.simple_query("SLEEP 3600000"), async {
        long(&server, 1).await;
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    });
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    // A cancellation that arrives while no statement runs cancels nothing.
    token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(client.query("ROWS 3", &[]).await.unwrap().len(), 3);
}

/// Waits until so many statements that take their time have begun.
async fn long(server: &Running, count: usize) {
    let mut waits = 0;
    while server.counts.long.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(2)).await;
        waits += 1;
        assert!(waits < 100_000, "the statements do not begin");
    }
}

/// While `count` connections run a statement of a minute, others are served.
async fn stops_nobody(count: usize, statement: &'static str, is_simple: bool) {
    let server = start();
    let (mut running, mut tokens) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let client = server.client().await;
        tokens.push(client.cancel_token());
        running.push(tokio::spawn(async move {
            match is_simple {
                true => client.simple_query(statement).await.map(|_| ()),
                false => client.query(statement, &[]).await.map(|_| ()),
            }
        }));
    }
    long(&server, count).await;
    let client = server.client().await;
    for _ in 0..20 {
        client.query("SELECT 1", &[]).await.unwrap();
    }
    assert!(running.iter().all(|running| !running.is_finished()), "the queries waited for {statement}");
    for (running, token) in running.into_iter().zip(tokens) {
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        let ended = running.await.unwrap().unwrap_err();
        assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED), "{ended}");
    }
}

#[tokio::test]
async fn long_statements_stop_nobody() {
    stops_nobody(12, "SLEEP 60000", false).await;
}

#[tokio::test]
async fn statements_that_turn_out_to_be_long_stop_nobody() {
    stops_nobody(12, "SPIN 60000", true).await;
}

#[tokio::test]
async fn a_statement_that_never_pauses_stops_nobody() {
    stops_nobody(1, "SLEEP 60000", true).await;
    stops_nobody(3, "SLEEP 60000", true).await;
}
