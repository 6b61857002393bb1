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

#[tokio::test]
async fn limits_of_roles_hold() {
    let directory = Directory::new("sql-limits");
    let options = ["--max-connections", "4", "--superuser-reserved-connections", "2", "--auth-delay", "0"];
    let serving = Serving::start(&directory.0, &options);
    let root = login(&serving, "root", "").await.unwrap();
    root.batch_execute("CREATE USER chief SUPERUSER PASSWORD 'c'; CREATE USER one PASSWORD 'o' CONNECTION LIMIT 1")
        .await
        .unwrap();
    root.batch_execute("CREATE USER zero PASSWORD 'n' CONNECTION LIMIT 0; CREATE USER two PASSWORD 't'").await.unwrap();
    let one = login(&serving, "one", "o").await.unwrap();
    assert_eq!(login(&serving, "one", "o").await.err(), Some(SqlState::TOO_MANY_CONNECTIONS));
    // Two sessions are taken, and the other two are for superusers.
    assert_eq!(login(&serving, "two", "t").await.err(), Some(SqlState::TOO_MANY_CONNECTIONS));
    let chief = login(&serving, "chief", "c").await.unwrap();
    drop((root, one));
    until(&chief, "SELECT count(*) = 1 FROM pg_stat_activity").await;
    assert_eq!(login(&serving, "zero", "n").await.err(), Some(SqlState::TOO_MANY_CONNECTIONS));
    drop(login(&serving, "one", "o").await.unwrap());
    chief.batch_execute("ALTER USER two VALID UNTIL '2001-01-01'").await.unwrap();
    until(&chief, "SELECT count(*) = 1 FROM pg_stat_activity").await;
    assert!(refused(&serving, "two", "t").await, "the password counts no more");
    chief.batch_execute("ALTER USER two VALID UNTIL 'infinity'").await.unwrap();
    drop(login(&serving, "two", "t").await.unwrap());
}

/// Waits until a query is true: connections that were closed end at their own pace.
async fn until(client: &Client, query: &str) {
    while !client.query_one(query, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
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
