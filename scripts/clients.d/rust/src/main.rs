//! Makes the schema, named by DATABASE_URL, with which the compiler checks the queries of `tests/checked.rs`, and tells
//! the server's version.

use sqlx::{Connection, PgConnection, raw_sql};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut conn = PgConnection::connect(&std::env::var("DATABASE_URL")?).await?;
    raw_sql("DROP SCHEMA IF EXISTS checked CASCADE; CREATE SCHEMA checked").execute(&mut conn).await?;
    sqlx::migrate!("./sqlx").run(&mut conn).await?;
    println!("{}", sqlx::query_scalar::<_, String>("SELECT version()").fetch_one(&mut conn).await?);
    Ok(())
}
