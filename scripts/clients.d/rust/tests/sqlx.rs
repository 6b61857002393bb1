//! sqlx: values, migrations, transactions, streams, pools, listeners.

use std::env::var;

use bigdecimal::BigDecimal;
use chrono::{DateTime, Utc};
use futures_util::{FutureExt, TryStreamExt};
use serde_json::json;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Error, Executor, FromRow, PgConnection, PgPool, Row, raw_sql};
use uuid::Uuid;

type Done = Result<(), Box<dyn std::error::Error>>;

static MIGRATIONS: Migrator = sqlx::migrate!("./sqlx");

#[derive(Clone, Copy, Debug, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

#[derive(Debug, PartialEq, FromRow)]
struct Pet {
    id: i64,
    name: String,
    feels: Option<Mood>,
    tags: Vec<String>,
}

async fn pool(schema: &str) -> Result<PgPool, Error> {
    let options: PgConnectOptions = var("DATABASE_URL").unwrap().parse()?;
    PgPoolOptions::new().max_connections(4).connect_with(options.options([("search_path", schema)])).await
}

/// A schema of a test's own, which the migrations have filled.
async fn migrated(schema: &str) -> Result<PgPool, Box<dyn std::error::Error>> {
    let pool = pool(schema).await?;
    let text = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
    raw_sql(AssertSqlSafe(text)).execute(&pool).await?;
    MIGRATIONS.run(&pool).await?;
    Ok(pool)
}

async fn drop_schema(pool: &PgPool, schema: &str) -> Result<(), Error> {
    raw_sql(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(pool).await?;
    Ok(())
}

fn code(error: &Error) -> String {
    error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned()
}

#[tokio::test]
async fn values_come_back_as_they_went() -> Done {
    let pool = migrated("s_values").await?;
    macro_rules! same {
        ($($name:literal: $type:ty = $value:expr;)*) => {$(
            let value: $type = $value;
            let row = sqlx::query(concat!("SELECT $1::", $name, ", NULL::", $name)).bind(value.clone()).fetch_one(&pool).await?;
            assert_eq!(row.try_get::<$type, _>(0)?, value, $name);
            assert_eq!(row.try_get::<Option<$type>, _>(1)?, None, $name);
        )*};
    }
    same! {
        "int2": i16 = i16::MIN; "int8": i64 = i64::MAX; "float8": f64 = f64::INFINITY; "bool": bool = true;
        "text": String = "grüner Tee 🍵".into(); "bytea": Vec<u8> = vec![0, 255, 39]; "uuid": Uuid = Uuid::from_u128(7);
        "numeric": BigDecimal = "-12345678901234567890.0100".parse()?;
        "timestamptz": DateTime<Utc> = DateTime::from_timestamp(1_709_209_800, 123_456_000).unwrap();
        "jsonb": serde_json::Value = json!({"a": [1, null]}); "int4[]": Vec<i32> = vec![1, 2];
    }
    drop_schema(&pool, "s_values").await?;
    Ok(())
}

#[tokio::test]
async fn enumerations_are_looked_up() -> Done {
    let pool = migrated("s_enumerations").await?;
    let id: i64 =
        sqlx::query_scalar("INSERT INTO pets (owner_id, name, feels, tags) VALUES (1, 'Rex', $1, $2) RETURNING id")
            .bind(Mood::Happy)
            .bind(vec!["a,b".to_string()])
            .fetch_one(&pool)
            .await?;
    let pet: Pet = sqlx::query_as("SELECT * FROM pets WHERE feels = ANY($1)")
        .bind(vec![Mood::Happy, Mood::Sad])
        .fetch_one(&pool)
        .await?;
    assert_eq!(pet, Pet { id, name: "Rex".into(), feels: Some(Mood::Happy), tags: vec!["a,b".into()] });
    drop_schema(&pool, "s_enumerations").await?;
    Ok(())
}

#[tokio::test]
async fn migrations_go_forward_and_back() -> Done {
    let pool = migrated("s_migrations").await?;
    MIGRATIONS.run(&pool).await?;
    let versions: Vec<i64> =
        sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success ORDER BY 1").fetch_all(&pool).await?;
    assert_eq!(versions, [1, 2, 3]);
    MIGRATIONS.undo(&pool, 1).await?;
    assert_eq!(code(&pool.execute("SELECT * FROM heavy").await.unwrap_err()), "42P01");
    // Several at once: each waits for the other's lock.
    let others = futures_util::future::join_all((0..3).map(|_| MIGRATIONS.run(&pool))).await;
    assert!(others.iter().all(Result::is_ok), "{others:?}");
    MIGRATIONS.undo(&pool, 0).await?;
    assert_eq!(code(&pool.execute("SELECT * FROM owners").await.unwrap_err()), "42P01");
    drop_schema(&pool, "s_migrations").await?;
    Ok(())
}

#[tokio::test]
async fn transactions_errors_and_streams() -> Done {
    let pool = migrated("s_transactions").await?;
    let mut transaction = pool.begin().await?;
    transaction
        .execute("INSERT INTO pets (owner_id, name) SELECT 1, 'pet ' || n FROM generate_series(1, 1000) n")
        .await?;
    let mut nested = transaction.begin().await?;
    let error = sqlx::query("INSERT INTO pets (owner_id, name) VALUES ($1, 'x')")
        .bind(7)
        .execute(&mut *nested)
        .await
        .unwrap_err();
    let told = error.as_database_error().unwrap();
    assert!(
        told.is_foreign_key_violation()
            && told.constraint() == Some("pets_owner_id_fkey")
            && told.table() == Some("pets")
    );
    nested.rollback().await?;
    transaction.commit().await?;
    let mut dropped = pool.begin().await?;
    dropped.execute("DELETE FROM pets").await?;
    drop(dropped);

    let mut sum = 0;
    let mut rows = sqlx::query_scalar::<_, i32>("SELECT length(name) FROM pets").fetch(&pool);
    while let Some(row) = rows.try_next().await? {
        sum += row;
    }
    drop(rows);
    assert_eq!(sum, 4000 + 9 + 180 + 2700 + 4);
    let names: Vec<String> = vec!["a".into(), "b".into()];
    let inserted = sqlx::query("INSERT INTO pets (owner_id, name) SELECT 2, * FROM unnest($1::text[])")
        .bind(&names)
        .execute(&pool)
        .await?;
    assert_eq!(inserted.rows_affected(), 2);
    let mut conn = pool.acquire().await?;
    let mut copy = conn.copy_in_raw("COPY pets (owner_id, name) FROM STDIN (FORMAT csv)").await?;
    copy.send("2,\"c,d\"\n2,e\n".as_bytes()).await?;
    assert_eq!(copy.finish().await?, 2);
    let rows = raw_sql("SELECT 1 AS a; SELECT 'two' AS b").fetch_all(&mut *conn).await?;
    assert_eq!((rows[0].get::<i32, _>("a"), rows[1].get::<&str, _>("b")), (1, "two"));
    drop(conn);
    let error = sqlx::query("SELECT nothing FROM pets").fetch_all(&pool).await.unwrap_err();
    assert_eq!(code(&error), "42703");
    drop_schema(&pool, "s_transactions").await?;
    Ok(())
}

#[tokio::test]
async fn pools_and_listeners() -> Done {
    let pool = migrated("s_pool").await?;
    sqlx::query("INSERT INTO pets (owner_id, name, weight) VALUES (1, 'Rex', 0)").execute(&pool).await?;
    let adding = (0..40).map(|_| async {
        let mut transaction = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        sqlx::query("UPDATE pets SET weight = weight + 1").execute(&mut *transaction).await?;
        transaction.commit().await
    });
    futures_util::future::try_join_all(adding).await?;
    let weight = sqlx::query_scalar::<_, i32>("SELECT weight::int FROM pets").fetch_one(&pool).await?;
    assert_eq!(weight, 40);
    assert!(pool.size() <= 4);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all(["news", "Other"]).await?;
    sqlx::query("SELECT pg_notify('news', $1)").bind("first").execute(&pool).await?;
    let notification = listener.recv().await?;
    assert_eq!((notification.channel(), notification.payload()), ("news", "first"));
    drop(listener);
    let mut conn = PgConnection::connect(&var("DATABASE_URL")?).await?;
    conn.ping().await?;
    // A statement is begun, and given up.
    assert!(conn.execute("SELECT pg_sleep(60)").now_or_never().is_none());
    conn.close_hard().await?;
    let described =
        pool.describe(sqlx::SqlStr::from_static("SELECT id, weight, $1::text FROM pets WHERE name = $2")).await?;
    assert_eq!((0..3).map(|at| described.nullable(at)).collect::<Vec<_>>(), [Some(false), Some(true), None]);
    drop_schema(&pool, "s_pool").await?;
    Ok(())
}
