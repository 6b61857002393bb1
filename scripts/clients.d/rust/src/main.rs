//! Makes the schema, named by DATABASE_URL, with which the compiler checks the queries of `tests/checked.rs`.

use sqlx::{Connection, PgConnection, raw_sql};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut conn = PgConnection::connect(&std::env::var("DATABASE_URL")?).await?;
    raw_sql("DROP SCHEMA IF EXISTS checked CASCADE; CREATE SCHEMA checked").execute(&mut conn).await?;
    sqlx::migrate!("./sqlx").run(&mut conn).await?;
    Ok(())
}
