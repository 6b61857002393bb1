//! Users and their passwords, made by statements.

use tokio_postgres::{Client, NoTls, error::SqlState};

use super::{Directory, Serving};

async fn login(serving: &Serving, user: &str, password: &str) -> Result<Client, SqlState> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user(user).password(password).dbname("shop");
    let (client, connection) =
        config.connect(NoTls).await.map_err(|error| error.code().cloned().unwrap_or_else(|| panic!("{error:?}")))?;
    tokio::spawn(connection);
    Ok(client)
}

async fn refused(serving: &Serving, user: &str, password: &str) -> bool {
    login(serving, user, password).await.err() == Some(SqlState::INVALID_PASSWORD)
}

#[tokio::test]
async fn passwords_let_in_as_long_as_they_last() {
    let directory = Directory::new("sql-users");
    let mut serving = Serving::start(&directory.0, &[]);
    let root = login(&serving, "root", "").await.unwrap();
    // A user without a password does not end trust in all clients.
    root.batch_execute("CREATE USER idle").await.unwrap();
    drop(login(&serving, "anybody", "").await.unwrap());
    root.batch_execute("BEGIN; CREATE USER ann PASSWORD 'pencil'").await.unwrap();
    drop(login(&serving, "ann", "anything").await.unwrap());
    root.batch_execute("ROLLBACK").await.unwrap();
    drop(login(&serving, "ann", "anything").await.unwrap());
    root.batch_execute("CREATE USER ann SUPERUSER PASSWORD 'pencil'").await.unwrap();
    let ann = login(&serving, "ann", "pencil").await.unwrap();
    for (user, password) in [("ann", "pen"), ("idle", ""), ("idle", "x"), ("anybody", "pencil")] {
        assert!(refused(&serving, user, password).await, "{user}");
    }
    ann.batch_execute("ALTER USER ann PASSWORD 'pen'; CREATE USER bob PASSWORD 'brush'").await.unwrap();
    serving.signal("KILL");
    serving.child.wait().unwrap();
    serving = Serving::start(&directory.0, &[]);
    let ann = login(&serving, "ann", "pen").await.unwrap();
    assert!(refused(&serving, "ann", "pencil").await);
    let bob = login(&serving, "bob", "brush").await.unwrap();
    ann.batch_execute("ALTER USER bob RENAME TO rob").await.unwrap();
    drop(login(&serving, "rob", "brush").await.unwrap());
    assert!(refused(&serving, "bob", "brush").await);
    let error = ann.batch_execute("DROP USER rob, ann").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::OBJECT_IN_USE));
    drop(login(&serving, "rob", "brush").await.unwrap());
    ann.batch_execute("DROP USER rob").await.unwrap();
    assert!(refused(&serving, "rob", "brush").await);
    // An open session stays.
    bob.batch_execute("SELECT 1").await.unwrap();
    // As a prepared statement, too.
    ann.execute("ALTER USER ann PASSWORD NULL", &[]).await.unwrap();
    drop(login(&serving, "anybody", "").await.unwrap());
}

/// Statements about one name at the same time: each works with the other's result, or says that it may be tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_taken_once() {
    for scheme in ["si-ssn", "rc", "silo", "2pl-nowait", "tso"] {
        race(scheme).await;
    }
}

async fn race(scheme: &str) {
    let directory = Directory::new(&format!("sql-users-race-{scheme}"));
    let serving = Serving::start(&directory.0, &["--scheme", scheme]);
    let (one, two) = (serving.client().await, serving.client().await);
    for round in 0..20 {
        let create = format!("CREATE USER a{round}");
        let (first, second) = tokio::join!(one.batch_execute(&create), two.batch_execute(&create));
        let lost = if first.is_err() { (first, second) } else { (second, first) };
        let (Err(lost), Ok(())) = lost else { panic!("{lost:?}") };
        let expected = [&SqlState::DUPLICATE_OBJECT, &SqlState::T_R_SERIALIZATION_FAILURE];
        assert!(lost.code().is_some_and(|code| expected.contains(&code)), "{lost:?}");
        let rename = format!("ALTER USER a{round} RENAME TO b{round}");
        let change = format!("ALTER USER a{round} PASSWORD NULL");
        let (renamed, changed) = tokio::join!(one.batch_execute(&rename), two.batch_execute(&change));
        let expected = [&SqlState::UNDEFINED_OBJECT, &SqlState::T_R_SERIALIZATION_FAILURE];
        for error in [&renamed, &changed].into_iter().filter_map(|done| done.as_ref().err()) {
            assert!(error.code().is_some_and(|code| expected.contains(&code)), "{error:?}");
        }
        let text = format!("SELECT rolname::text FROM pg_roles WHERE rolname ~ '^.{round}$'");
        let names: Vec<String> = two.query(&text, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(names, [format!("{}{round}", if renamed.is_ok() { "b" } else { "a" })]);
    }
}
