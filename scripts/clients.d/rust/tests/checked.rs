//! sqlx: queries whose types the compiler has asked the server for.

use std::env::var;

use bigdecimal::BigDecimal;
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

/// Another server is another reason to check the queries.
const _: Option<&str> = option_env!("DATABASE_URL");

#[derive(Clone, Copy, Debug, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

#[derive(Debug, PartialEq)]
struct Pet {
    id: i64,
    name: String,
    feels: Option<Mood>,
    tags: Vec<String>,
}

#[tokio::test]
async fn queries_have_the_types_that_the_server_told() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&var("DATABASE_URL")?).await?;
    let weight: BigDecimal = "51.250".parse()?;
    let tags = ["a,b".to_string(), String::new()];
    let id: i64 = sqlx::query_scalar!(
        "INSERT INTO pets (owner_id, name, feels, tags, extra, weight, code) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        1,
        "Rex 🐕",
        Mood::Happy as Mood,
        &tags,
        json!({"a": [1, null]}),
        weight.clone(),
        Uuid::from_u128(7),
    )
    .fetch_one(&pool)
    .await?;
    // Columns that can be NULL are options; those that cannot are none.
    let row =
        sqlx::query!(r#"SELECT name, tags, extra, weight, code, feels AS "feels: Mood" FROM pets WHERE id = $1"#, id)
            .fetch_one(&pool)
            .await?;
    let name: String = row.name;
    let read: (Vec<String>, Option<serde_json::Value>, Option<BigDecimal>) = (row.tags, row.extra, row.weight);
    assert_eq!((name.as_str(), read), ("Rex 🐕", (tags.to_vec(), Some(json!({"a": [1, null]})), Some(weight))));
    assert_eq!((row.code, row.feels), (Some(Uuid::from_u128(7)), Some(Mood::Happy)));
    let pet = sqlx::query_as!(Pet, r#"SELECT id, name, feels AS "feels: _", tags FROM pets"#).fetch_one(&pool).await?;
    assert_eq!(pet.id, id);
    // The plan tells that columns of the right side of a left join can be NULL.
    let rows = sqlx::query!(
        "SELECT o.name, p.name AS pet, o.since FROM owners o LEFT JOIN pets p ON p.owner_id = o.id ORDER BY o.id"
    )
    .fetch_all(&pool)
    .await?;
    let names: Vec<(&str, Option<&str>)> = rows.iter().map(|row| (row.name.as_str(), row.pet.as_deref())).collect();
    assert_eq!(names, [("Anna;", Some("Rex 🐕")), ("Ben", None)]);
    let since: DateTime<Utc> = rows[0].since;
    assert!(since <= Utc::now() + chrono::TimeDelta::minutes(1));
    let count: Option<i64> =
        sqlx::query_scalar!("SELECT count(*) FROM pets WHERE name = ANY($1)", &["Rex 🐕".to_string()])
            .fetch_one(&pool)
            .await?;
    assert_eq!(count, Some(1));
    let heavy: Vec<Option<String>> = sqlx::query_scalar!("SELECT name FROM heavy").fetch_all(&pool).await?;
    assert_eq!(heavy, [Some("Rex 🐕".into())]);
    let changed = sqlx::query!("UPDATE pets SET weight = weight + 1 WHERE owner_id < $1", 2).execute(&pool).await?;
    assert_eq!(changed.rows_affected(), 1);
    Ok(())
}
