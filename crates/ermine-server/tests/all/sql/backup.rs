//! Backups of a running server, and restores of its database.
//!
//! Goal: a backup that a client asks for, with the archive of the log, restores every moment from its end on, and
//! refusals say what to do.
//! Method: transfers between two rows of two tables, whose sum and count reveal half a transaction; the server is
//! killed or asked to end, the database is restored to moments between batches of transfers, verified, and served
//! again.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ermine::{Options, Until};
use tokio_postgres::{Client, error::SqlState};

use super::{Directory, Serving};

fn arguments<'a>(scheme: &'a str, archive: &'a str, backups: &'a str) -> Vec<&'a str> {
    vec!["--scheme", scheme, "--archive", archive, "--backup-dir", backups, "--checkpoint-after", "65536"]
}

async fn transfer(client: &Client, times: i64) {
    for _ in 0..times {
        client
            .batch_execute(
                "BEGIN; UPDATE a SET v = v - 1 WHERE id = 1; UPDATE b SET v = v + 1 WHERE id = 1;
                 INSERT INTO l (t) VALUES (repeat('x', 500)); COMMIT",
            )
            .await
            .unwrap();
    }
}

/// Returns the number of transfers so far; fails if it finds half of one.
async fn transfers(client: &Client) -> i64 {
    let text = "SELECT (SELECT sum(v) FROM a)::bigint, (SELECT sum(v) FROM b)::bigint, count(*) FROM l";
    let row = client.query_one(text, &[]).await.unwrap();
    let (a, b, count): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!((-a, b), (count, count));
    count
}

/// Restores, verifies and serves the result.
async fn restored(scheme: &str, backup: &Path, archive: &Path, target: PathBuf, until: Until) -> i64 {
    ermine::restore(backup, Some(archive), &target, until, &mut |_| ()).unwrap();
    let verification = ermine::verify(&target, &Options::default(), &mut |_| ()).unwrap();
    assert!(verification.is_right(), "{verification:?}");
    let serving = Serving::start(&target, &["--scheme", scheme]);
    let client = serving.client().await;
    let found = transfers(&client).await;
    transfer(&client, 1).await;
    assert_eq!(transfers(&client).await, found + 1);
    found
}

async fn is_restored_to_moments(scheme: &str) {
    let directory = Directory::new(&format!("sql-backup-{scheme}"));
    let (db, archive, backups) = (directory.0.join("db"), directory.0.join("archive"), directory.0.join("backups"));
    let arguments = arguments(scheme, archive.to_str().unwrap(), backups.to_str().unwrap());
    let mut moments = Vec::new();
    let settle = || std::thread::sleep(Duration::from_millis(120));
    for life in 0..3i64 {
        let mut serving = Serving::start(&db, &arguments);
        let client = serving.client().await;
        if life == 0 {
            client
                .batch_execute(
                    "CREATE TABLE a (id int PRIMARY KEY, v bigint); CREATE TABLE b (id int PRIMARY KEY, v bigint);
                     CREATE TABLE l (id serial PRIMARY KEY, t text); INSERT INTO a VALUES (1, 0); INSERT INTO b VALUES \
                     (1, 0)",
                )
                .await
                .unwrap();
            transfer(&client, 50).await;
            let row = client.query_one("BACKUP TO 'monday'", &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), backups.join("monday").to_str().unwrap());
            assert!(row.get::<_, i64>("from_lsn") <= row.get::<_, i64>("to_lsn") && row.get::<_, i64>("files") > 1);
        }
        for _ in 0..3 {
            transfer(&client, 40).await;
            settle();
            moments.push((SystemTime::now(), transfers(&client).await));
            settle();
            client.batch_execute("CHECKPOINT").await.unwrap();
        }
        drop(client);
        // The last life ends in good order, so that the archive has all of it.
        serving.signal(if life < 2 { "KILL" } else { "TERM" });
        serving.child.wait().unwrap();
    }
    let monday = backups.join("monday");
    for (number, (moment, found)) in moments.iter().enumerate() {
        let target = directory.0.join(format!("moment-{number}"));
        assert_eq!(restored(scheme, &monday, &archive, target, Until::Time(*moment)).await, *found, "moment {number}");
    }
    let end = restored(scheme, &monday, &archive, directory.0.join("end"), Until::End).await;
    assert_eq!(end, moments[moments.len() - 1].1);
    // The backup alone is a database as well.
    let serving = Serving::start(&monday, &["--scheme", scheme]);
    assert_eq!(transfers(&serving.client().await).await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_database_is_restored_to_moments() {
    is_restored_to_moments("si-ssn").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_database_of_a_single_version_scheme_is_restored_to_moments() {
    is_restored_to_moments("silo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_that_cannot_be_are_refused() {
    let directory = Directory::new("sql-backup-refused");
    let (db, backups) = (directory.0.join("db"), directory.0.join("backups"));
    let refused = async |client: &Client, text: &str, state: &SqlState, words: &str| {
        let error = client.batch_execute(text).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), state, "{text}: {error}");
        let told = format!("{} {}", error.message(), error.hint().unwrap_or_default());
        assert!(told.contains(words), "{text}: {told}");
    };
    {
        let serving = Serving::start(&db, &[]);
        let client = serving.client().await;
        refused(&client, "BACKUP TO '/tmp/x'", &SqlState::INSUFFICIENT_PRIVILEGE, "--backup-dir").await;
    }
    let serving = Serving::start(&db, &["--backup-dir", backups.to_str().unwrap()]);
    let client = serving.client().await;
    for outside in ["/tmp/x", "../x", "a/../../x", ".", "/"] {
        refused(&client, &format!("BACKUP TO '{outside}'"), &SqlState::INSUFFICIENT_PRIVILEGE, "is not below").await;
    }
    refused(&client, "BACKUP TO ''", &SqlState::INVALID_PARAMETER_VALUE, "name of a directory").await;
    refused(&client, "BACKUP monday", &SqlState::SYNTAX_ERROR, "TO").await;
    for text in ["BACKUP TO 'x'", "CHECKPOINT"] {
        client.batch_execute("BEGIN").await.unwrap();
        refused(&client, text, &SqlState::ACTIVE_SQL_TRANSACTION, "transaction block").await;
        client.batch_execute("ROLLBACK").await.unwrap();
        refused(&client, &format!("SELECT 1; {text}"), &SqlState::ACTIVE_SQL_TRANSACTION, "transaction block").await;
    }
    client.batch_execute("CREATE TABLE t (a int); BEGIN; INSERT INTO t VALUES (1); COMMIT").await.unwrap();
    client.batch_execute("BACKUP TO 'first'").await.unwrap();
    refused(&client, "BACKUP TO 'first'", &SqlState::IO_ERROR, "is not empty").await;
    // An absolute path below the directory.
    let second = backups.join("second");
    client.batch_execute(&format!("BACKUP TO '{}'", second.display())).await.unwrap();
    // A file in the place of a directory.
    std::fs::write(backups.join("file"), "x").unwrap();
    refused(&client, "BACKUP TO 'file/x'", &SqlState::IO_ERROR, "file").await;
    // No backup is in progress.
    let watched =
        client.query("SELECT pid, phase, backup_streamed FROM pg_stat_progress_basebackup", &[]).await.unwrap();
    assert!(watched.is_empty());
}
