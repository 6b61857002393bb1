//! Checks that a database after a crash is in a state that clients may expect, and continues to work.

use std::collections::BTreeMap;

use ermine_sql::{Session, SqlDatabase, SqlState};
use fastrand::Rng;

use super::{
    Life,
    client::{Past, Progress, last},
    sessions::{ask, run},
    world::{InDoubt, Owner, Place, World},
};

/// The number of rows of a prepared transaction that are tried: each may take as long as the client waits for locks.
const CHECKED: usize = 2;

/// The state of each client.
pub type Worlds = BTreeMap<&'static str, (Owner, World)>;

fn session(sql: &SqlDatabase) -> Session {
    let mut session = sql.session("tester", "test");
    ask(&mut session, "SET lock_timeout = '2ms'");
    session
}

/// Determines the state of a database: for each client, the state after one of the steps that are possible.
pub fn find(life: &Life, sql: &SqlDatabase, marks: &[u64]) -> Worlds {
    let mut session = session(sql);
    let found = life.pasts.iter().map(|past| (past.owner.name(), (past.owner, find_one(past, &mut session, marks))));
    let found = found.collect();
    assert_eq!(session.disagreements().unwrap(), [""; 0]);
    found
}

fn find_one(past: &Past, session: &mut Session, marks: &[u64]) -> World {
    let found = past.owner.look(session, &World::default());
    let [durable, begun] = [Progress::Durable, Progress::Begun].map(|progress| last(marks, past.owner, progress));
    let Some(step) = (durable..=begun).rev().find(|step| past.worlds[*step].is(&found)) else {
        let differences = (durable..=begun).map(|step| {
            let difference = past.worlds[step].difference(&found);
            format!("after step {step}, {:?}\n  {difference}\n", past.said[step])
        });
        let said = if past.worlds.iter().any(|world| world.is(&found)) { "of another time" } else { "of no time" };
        let differences: String = differences.collect();
        panic!("{:?}: {durable} steps are durable, {begun} begun; what is there is {said}\n{differences}", past.owner);
    };
    past.worlds[step].clone()
}

/// Checks that the states are the expected ones.
pub fn see(sql: &SqlDatabase, expected: &Worlds) {
    let mut session = session(sql);
    for (owner, world) in expected.values() {
        let found = owner.look(&mut session, &World::default());
        assert!(world.is(&found), "{owner:?}: {}", world.difference(&found));
    }
    assert_eq!(session.disagreements().unwrap(), [""; 0]);
}

/// Uses a database after a crash; returns the states afterwards.
pub fn go_on(life: &Life, sql: &SqlDatabase, mut worlds: Worlds, marks: &[u64], rng: &mut Rng) -> Worlds {
    let mut session = session(sql);
    check_tables(&mut session, &worlds);
    check_sequences(life, &mut session, marks);
    for (owner, world) in worlds.values_mut() {
        for (gid, in_doubt) in world.in_doubt.clone() {
            check_locks(&mut session, world, &in_doubt);
            let commits = rng.bool();
            let end = if commits { "COMMIT" } else { "ROLLBACK" };
            ask(&mut session, &format!("{end} PREPARED '{gid}'"));
            world.end(&gid, commits);
            assert_eq!(run(&mut session, &format!("COMMIT PREPARED '{gid}'")), Err(SqlState::UNDEFINED_OBJECT));
            check_free(&mut session, &in_doubt);
        }
        world.hidden.clear();
        let found = owner.look(&mut session, &World::default());
        assert!(world.is(&found), "{owner:?}: {}", world.difference(&found));
    }
    check_tables(&mut session, &worlds);
    assert_eq!(session.disagreements().unwrap(), [""; 0]);
    worlds
}

/// Checks that rows that a prepared transaction has written or locked cannot be changed by others.
fn check_locks(session: &mut Session, world: &World, in_doubt: &InDoubt) {
    let written = in_doubt.effects.keys().chain(&in_doubt.locked);
    for place in written.filter(|place| world.rows.contains_key(*place)).take(CHECKED) {
        assert!(update(session, place).is_err(), "{place:?} is not locked");
    }
    let inserted = in_doubt.effects.iter().filter(|(place, row)| row.is_some() && !world.rows.contains_key(*place));
    for ((table, _), row) in inserted.take(CHECKED) {
        let u = row.iter().flat_map(|row| row.split(',')).nth(3).expect("its fourth value");
        let same = format!("INSERT INTO {table} (owner, a, u) VALUES ('tester', 1, '{u}')");
        assert!(run(session, &same).is_err(), "{u} can be inserted into {table}");
    }
}

/// Checks that a transaction that has ended holds nothing.
fn check_free(session: &mut Session, in_doubt: &InDoubt) {
    for place in in_doubt.effects.keys().chain(&in_doubt.locked).take(CHECKED) {
        ask(session, "BEGIN");
        update(session, place).unwrap_or_else(|error| panic!("{place:?}: {error:?}"));
        ask(session, "ROLLBACK");
    }
}

fn update(session: &mut Session, (table, id): &Place) -> Result<Vec<String>, SqlState> {
    run(session, &format!("UPDATE {table} SET g = g WHERE id = {id}"))
}

/// Checks that sequence numbers that a client was told before are not returned again.
fn check_sequences(life: &Life, session: &mut Session, marks: &[u64]) {
    for past in &life.pasts {
        let [done, begun] = [Progress::Done, Progress::Begun].map(|progress| last(marks, past.owner, progress));
        for (oid, told) in &past.worlds[done].given {
            // The sequence may just then be set to another number.
            let told = past.worlds[begun].given.get(oid).map_or(*told, |later| *told.min(later));
            let names = ask(session, &format!("SELECT relname FROM pg_class WHERE oid = {oid}"));
            for name in names {
                let next: i64 = ask(session, &format!("SELECT nextval('{name}')"))[0].parse().expect("a number");
                assert!(next > told, "{name} gives {next} after {told}");
            }
        }
    }
}

/// Checks that tables keep their constraints, and that new rows get numbers that no row has or had. No row may be
/// inserted where a prepared transaction has searched.
fn check_tables(session: &mut Session, worlds: &Worlds) {
    let (_, definer) = &worlds[Owner::Definer.name()];
    for table in Owner::Definer.tables(session) {
        if definer.hidden.contains(&table) {
            continue;
        }
        let insert = |values: &str| format!("INSERT INTO {table} (owner, a, u, g, v) VALUES ({values}) RETURNING id");
        let broken = run(session, &insert("'tester', -1, 'new', 7, ''"));
        assert_eq!(broken, Err(SqlState::CHECK_VIOLATION), "{table}");
        assert_eq!(run(session, &insert("NULL, 900, 'new', 7, ''")), Err(SqlState::NOT_NULL_VIOLATION), "{table}");
        // In a snapshot, where nothing is retried.
        ask(session, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        let mut prepared = worlds.values().flat_map(|(_, world)| world.in_doubt.values());
        let ids = match run(session, &insert("'tester', 900, 'new', 7, ''")) {
            Err(SqlState::SERIALIZATION_FAILURE) if prepared.any(|own| own.holds.contains(&table)) => {
                ask(session, "ROLLBACK");
                continue;
            }
            ids => ids.unwrap_or_else(|error| panic!("{table}: {error:?}")),
        };
        assert_eq!(ask(session, &format!("SELECT id FROM {table} WHERE u = 'new'")), ids);
        let place = (table.clone(), ids[0].clone());
        let has = |world: &World| {
            world.rows.contains_key(&place) || world.in_doubt.values().any(|own| own.effects.contains_key(&place))
        };
        assert!(!worlds.values().any(|(_, world)| has(world)), "{place:?} is there already");
        let twice = run(session, &insert("'tester', 900, 'new', 7, ''"));
        assert_eq!(twice, Err(SqlState::UNIQUE_VIOLATION), "{table}");
        ask(session, "ROLLBACK");
    }
    // Dropped objects do not exist.
    ask(session, "BEGIN");
    ask(session, "CREATE TABLE fresh (id serial PRIMARY KEY, a integer UNIQUE)");
    assert_eq!(ask(session, "SELECT * FROM fresh"), [""; 0]);
    ask(session, "INSERT INTO fresh (a) SELECT n FROM generate_series(1, 20) n");
    ask(session, "ROLLBACK");
}
