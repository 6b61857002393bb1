//! Functions that take long: they end when they are cancelled, and hold up no other client.

use tokio_postgres::{Client, SimpleQueryMessage, error::SqlState};

use super::{Directory, Serving};

/// Each takes minutes, or longer.
const LONG: [&str; 5] = [
    "SELECT repeat('a', 20000000) LIKE '%' || repeat('a', 20000) || 'b'",
    "SELECT regexp_replace(repeat('ab', 10000000), '(a|b|ab)(a|b)*?', '\\2\\1', 'g')",
    "SELECT (SELECT array_agg(n) FROM generate_series(1, 500000) n) <@ (SELECT array_agg(500001 - n) FROM \
     generate_series(1, 500000) n)",
    "SELECT (SELECT jsonb_agg(n) FROM generate_series(1, 500000) n) <@ (SELECT jsonb_agg(500001 - n) FROM \
     generate_series(1, 500000) n)",
    "SELECT (SELECT jsonb_agg(n) FROM generate_series(1, 500000) n) - (SELECT array_agg(n::text) FROM \
     generate_series(1, 500000) n)",
];

async fn active(client: &Client) -> i64 {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
    client.query_one(text, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn clients_in_long_functions_hold_up_no_other() {
    let directory = Directory::new("functions");
    let serving = Serving::start(&directory.0, &[]);
    let other = serving.client().await;
    let mut long = Vec::new();
    for number in 0..9 {
        let client = serving.client().await;
        let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let ended =
            tokio::spawn(
                async move { client.simple_query(LONG[number % LONG.len()]).await.unwrap_err().code().cloned() },
            );
        long.push((process, ended));
    }
    while active(&other).await < 9 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        let newcomer = serving.client().await;
        assert_eq!(newcomer.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    }
    assert_eq!(active(&other).await, 9, "what was answered was answered beside them");
    for (process, ended) in long {
        other.query("SELECT pg_cancel_backend($1)", &[&process]).await.unwrap();
        assert_eq!(ended.await.unwrap(), Some(SqlState::QUERY_CANCELED));
    }
}

#[tokio::test]
async fn time_limits_end_functions() {
    let directory = Directory::new("functions-limits");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    client.batch_execute("SET statement_timeout = 50").await.unwrap();
    for text in LONG {
        let error = client.simple_query(text).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{text}");
    }
}

#[tokio::test]
async fn settings_count_from_the_next_statement_of_a_text_on() {
    let directory = Directory::new("functions-settings");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    let moment = "SELECT '2020-01-01 00:00+00'::timestamptz";
    let text = format!("SET timezone = 'America/New_York'; {moment}; SET timezone = 'Asia/Tokyo'; {moment}");
    let messages = client.simple_query(&text).await.unwrap();
    let shown: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["2019-12-31 19:00:00-05", "2020-01-01 09:00:00+09"]);
}
