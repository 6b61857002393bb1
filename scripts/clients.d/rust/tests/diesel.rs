//! Diesel on libpq: migrations, queries, relations, upserts, locks, a pool; what its command finds in a schema.

use std::env::var;
use std::process::Command;

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, Utc};
use diesel::associations::HasTable;
use diesel::connection::SimpleConnection;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::upsert::excluded;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use std::io::Write;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!();

mod schema {
    pub mod sql_types {
        #[derive(diesel::query_builder::QueryId, diesel::sql_types::SqlType)]
        #[diesel(postgres_type(name = "mood"))]
        pub struct Mood;
    }

    diesel::table! {
        owners (id) {
            id -> Int4,
            name -> Varchar,
            since -> Timestamptz,
        }
    }

    diesel::table! {
        pets (id) {
            id -> Int8,
            owner_id -> Int4,
            name -> Text,
            born -> Nullable<Date>,
            tags -> Array<Nullable<Text>>,
            extra -> Nullable<Jsonb>,
            weight -> Nullable<Numeric>,
            code -> Nullable<Uuid>,
        }
    }

    diesel::table! {
        owner_notes (owner_id, number) {
            owner_id -> Int4,
            number -> Int2,
            note -> Text,
            raw -> Nullable<Bytea>,
        }
    }

    diesel::joinable!(pets -> owners (owner_id));
    diesel::allow_tables_to_appear_in_same_query!(owners, pets);
}
use schema::{owner_notes, owners, pets};

#[derive(Debug, PartialEq, Identifiable, Queryable, Selectable)]
struct Owner {
    id: i32,
    name: String,
    since: DateTime<Utc>,
}

#[derive(Debug, Default, PartialEq, Insertable, Queryable, Selectable, Associations, AsChangeset)]
#[diesel(table_name = pets, belongs_to(Owner))]
struct Pet {
    owner_id: i32,
    name: String,
    born: Option<NaiveDate>,
    tags: Vec<Option<String>>,
    extra: Option<serde_json::Value>,
    weight: Option<BigDecimal>,
    code: Option<uuid::Uuid>,
}

/// Its key is not among the fields.
impl HasTable for Pet {
    type Table = pets::table;

    fn table() -> pets::table {
        pets::table
    }
}

#[derive(Debug, Clone, Copy, PartialEq, AsExpression, FromSqlRow)]
#[diesel(sql_type = schema::sql_types::Mood)]
enum Mood {
    Sad,
    Happy,
}

impl ToSql<schema::sql_types::Mood, Pg> for Mood {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(if *self == Mood::Sad { b"sad" } else { b"happy" })?;
        Ok(IsNull::No)
    }
}

impl FromSql<schema::sql_types::Mood, Pg> for Mood {
    fn from_sql(bytes: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(if bytes.as_bytes() == b"sad" { Mood::Sad } else { Mood::Happy })
    }
}

const LEVEL: &str = "%20-c%20default_transaction_isolation%3Dread%5C%20committed";

fn url(schema: &str) -> String {
    let [user, host, port, database] = ["PGUSER", "PGHOST", "PGPORT", "PGDATABASE"].map(|name| var(name).unwrap());
    format!("postgres://{user}@{host}:{port}/{database}?options=-c%20search_path%3D{schema}{LEVEL}")
}

/// Runs a test in a schema of its own, which the migrations have filled.
fn migrated(schema: &str, test: impl FnOnce(&mut PgConnection)) {
    let mut conn = PgConnection::establish(&url(schema)).unwrap();
    conn.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")).unwrap();
    assert_eq!(conn.run_pending_migrations(MIGRATIONS).unwrap().len(), 2);
    test(&mut conn);
    conn.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).unwrap();
}

fn pet(owner_id: i32, name: &str) -> Pet {
    Pet { owner_id, name: name.into(), ..Pet::default() }
}

#[test]
fn migrations_go_forward_and_back() {
    migrated("d_migrations", |conn| {
        assert!(!conn.has_pending_migration(MIGRATIONS).unwrap());
        conn.revert_last_migration(MIGRATIONS).unwrap();
        assert!(pets::table.select(pets::weight).execute(conn).is_err());
        assert_eq!(conn.applied_migrations().unwrap().len(), 1);
        conn.run_next_migration(MIGRATIONS).unwrap();
        assert_eq!(pets::table.select(pets::weight).execute(conn), Ok(0));
        assert_eq!(conn.revert_all_migrations(MIGRATIONS).unwrap().len(), 2);
        assert!(owners::table.count().execute(conn).is_err());
    });
}

#[test]
fn rows_are_stored_and_read() {
    migrated("d_rows", |conn| {
        let all = Pet {
            born: NaiveDate::from_ymd_opt(2024, 2, 29),
            tags: vec![Some("a,b".into()), None],
            extra: Some(serde_json::json!({"a": [1, null]})),
            weight: Some("-12.340".parse().unwrap()),
            code: Some(uuid::Uuid::from_u128(7)),
            ..pet(1, "Rex 🐕")
        };
        let id: i64 = diesel::insert_into(pets::table).values(&all).returning(pets::id).get_result(conn).unwrap();
        assert_eq!(pets::table.find(id).select(Pet::as_select()).first(conn).as_ref(), Ok(&all));
        let many: Vec<Pet> = (0..50).map(|number| pet(2, &format!("pet {number}"))).collect();
        assert_eq!(diesel::insert_into(pets::table).values(&many).execute(conn), Ok(50));

        let owners = owners::table.order(owners::id).select(Owner::as_select()).load(conn).unwrap();
        let counts: Vec<usize> = Pet::belonging_to(&owners)
            .select(Pet::as_select())
            .load(conn)
            .unwrap()
            .grouped_by(&owners)
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(counts, [1, 50]);
        assert!(owners[0].since <= Utc::now() + chrono::TimeDelta::minutes(1));
        let joined: Vec<(String, Option<String>)> = owners::table
            .left_join(pets::table.on(pets::owner_id.eq(owners::id).and(pets::name.ilike("REX%"))))
            .order(owners::name.desc())
            .select((owners::name, pets::name.nullable()))
            .load(conn)
            .unwrap();
        assert_eq!(joined, [("Ben".into(), None), ("Anna;".into(), Some("Rex 🐕".into()))]);
        let grouped: Vec<(i32, i64, Option<NaiveDate>)> = pets::table
            .group_by(pets::owner_id)
            .having(diesel::dsl::count_star().gt(1))
            .select((pets::owner_id, diesel::dsl::count_star(), diesel::dsl::max(pets::born)))
            .load(conn)
            .unwrap();
        assert_eq!(grouped, [(2, 50, None)]);
        let found: i64 = pets::table
            .filter(pets::tags.contains(vec!["a,b"]).or(pets::name.eq_any(["pet 1", "pet 2"])))
            .count()
            .get_result(conn)
            .unwrap();
        assert_eq!(found, 3);
        let first: Vec<String> = pets::table
            .distinct_on(pets::owner_id)
            .order((pets::owner_id, pets::name.desc()))
            .select(pets::name)
            .load(conn)
            .unwrap();
        assert_eq!(first, ["Rex 🐕", "pet 9"]);
        let changed = diesel::update(pets::table.filter(pets::owner_id.eq(2)))
            .set((pets::weight.eq(BigDecimal::from(3)), pets::name.eq(pets::name.concat("!"))))
            .returning(pets::name)
            .get_results::<String>(conn)
            .unwrap();
        assert!(changed.len() == 50 && changed.contains(&"pet 7!".into()));
        assert_eq!(diesel::delete(owners::table.find(2)).execute(conn), Ok(1));
        assert_eq!(pets::table.count().get_result(conn), Ok(1_i64));

        let mood: (Mood, Mood) = diesel::select((
            Mood::Happy.into_sql::<schema::sql_types::Mood>(),
            diesel::dsl::sql::<schema::sql_types::Mood>("'sad'::mood"),
        ))
        .first(conn)
        .unwrap();
        assert_eq!(mood, (Mood::Happy, Mood::Sad));
        // In parts.
        let rows = pets::table.select(pets::name).load_iter::<String, diesel::pg::PgRowByRowLoadingMode>(conn).unwrap();
        assert_eq!(rows.count(), 1);
    });
}

#[test]
fn rows_are_upserted_and_errors_told() {
    migrated("d_errors", |conn| {
        let note = |text: &str| {
            (
                owner_notes::owner_id.eq(1),
                owner_notes::number.eq(1_i16),
                owner_notes::note.eq(text.to_owned()),
                owner_notes::raw.eq(vec![0_u8, 255]),
            )
        };
        for text in ["first", "second"] {
            diesel::insert_into(owner_notes::table)
                .values(note(text))
                .on_conflict((owner_notes::owner_id, owner_notes::number))
                .do_update()
                .set(owner_notes::note.eq(excluded(owner_notes::note)))
                .execute(conn)
                .unwrap();
        }
        let ignored =
            diesel::insert_into(owner_notes::table).values(note("third")).on_conflict_do_nothing().execute(conn);
        assert_eq!(ignored, Ok(0));
        let stored: (String, Option<Vec<u8>>) =
            owner_notes::table.select((owner_notes::note, owner_notes::raw)).first(conn).unwrap();
        assert_eq!(stored, ("second".into(), Some(vec![0, 255])));

        let failed = diesel::insert_into(owners::table).values(owners::name.eq("Ben")).execute(conn);
        let Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, told)) = failed else { panic!("{failed:?}") };
        assert_eq!((told.table_name(), told.constraint_name()), (Some("owners"), Some("owners_name_key")));
        let failed = diesel::insert_into(pets::table).values(pet(7, "x")).execute(conn);
        assert!(matches!(failed, Err(Error::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _))));
        let failed: QueryResult<()> = conn.transaction(|conn| {
            diesel::delete(owner_notes::table).execute(conn)?;
            let inner: QueryResult<()> = conn.transaction(|conn| {
                diesel::insert_into(owners::table).values(owners::name.eq("Ben")).execute(conn)?;
                Ok(())
            });
            assert!(inner.is_err());
            assert_eq!(owner_notes::table.count().get_result(conn), Ok(0_i64));
            Err(Error::RollbackTransaction)
        });
        assert_eq!(failed, Err(Error::RollbackTransaction));
        assert_eq!(owner_notes::table.count().get_result(conn), Ok(1_i64));
        let failed = conn
            .build_transaction()
            .read_only()
            .repeatable_read()
            .run(|conn| diesel::delete(pets::table).execute(conn));
        assert!(matches!(failed, Err(Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))), "{failed:?}");
    });
}

#[test]
fn a_pool_and_locks() {
    migrated("d_pool", |conn| {
        let pool = Pool::builder().max_size(3).build(ConnectionManager::<PgConnection>::new(url("d_pool"))).unwrap();
        diesel::insert_into(pets::table).values(pet(1, "0")).execute(conn).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let add = |conn: &mut PgConnection| {
                            let name: String = pets::table.select(pets::name).for_update().first(conn)?;
                            let next = (name.parse::<i32>().unwrap() + 1).to_string();
                            diesel::update(pets::table).set(pets::name.eq(next)).execute(conn)
                        };
                        pool.get().unwrap().build_transaction().read_committed().run(add).unwrap();
                    }
                });
            }
        });
        assert_eq!(pets::table.select(pets::name).first(conn), Ok("60".to_string()));
        let free = conn.build_transaction().read_committed().run(|conn| {
            pets::table.select(pets::id).for_update().load::<i64>(conn)?;
            let mut other = pool.get().unwrap();
            let free = other
                .build_transaction()
                .read_committed()
                .run(|other| pets::table.select(pets::id).for_update().skip_locked().load::<i64>(other))?;
            let taken = other
                .build_transaction()
                .read_committed()
                .run(|other| pets::table.select(pets::id).for_update().no_wait().load::<i64>(other));
            assert!(taken.is_err());
            Ok::<_, Error>(free.len())
        });
        assert_eq!(free, Ok(0));
    });
}

/// If Diesel's command is there.
#[test]
fn the_schema_is_found() {
    if Command::new("diesel").arg("--version").output().is_err() {
        return;
    }
    migrated("d_schema", |_| {
        let done = Command::new("diesel")
            .args(["print-schema", "--database-url", &url("d_schema"), "--schema", "d_schema", "--with-docs"])
            .output()
            .unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
        for part in [
            "pub mod d_schema {",
            "d_schema.owner_notes (owner_id, number) {",
            "/// What was said",
            "#[max_length = 40]\n            name -> Varchar,",
            "id -> Int8,\n",
            "born -> Nullable<Date>,",
            "tags -> Array<Nullable<Text>>,",
            "extra -> Nullable<Jsonb>,",
            "weight -> Nullable<Numeric>,",
            "raw -> Nullable<Bytea>,",
            "diesel::joinable!(pets -> owners (owner_id));",
            "diesel::joinable!(owner_notes -> owners (owner_id));",
        ] {
            assert!(text.replace("/// Representation", "").contains(part), "no {part} in\n{text}");
        }
    });
}
