//! The state that a client has made of a database, as statements show it.

use std::collections::{BTreeMap, BTreeSet};

use ermine_sql::{Session, SqlState};

use crate::sessions::{ask, run};

/// The table that both clients write.
pub const SHARED: &str = "shared";

/// Attempts to read a table; each takes at least the 10 ms of `lock_timeout`.
const ATTEMPTS_MAX: u32 = 2000;

/// A table, and the `id` of a row.
pub type Place = (String, String);

/// The state that a client has made. Two states are equal if no statement can distinguish them.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The contents of the catalog, line by line.
    pub definitions: Vec<String>,
    pub rows: BTreeMap<Place, String>,
    /// Tables that a prepared transaction has alone; `rows` has the rows that were in them before.
    pub hidden: BTreeSet<String>,
    pub in_doubt: BTreeMap<String, InDoubt>,
    /// For each sequence, by its oid, the last number that a session was told.
    pub given: BTreeMap<String, i64>,
}

/// A prepared transaction.
#[derive(Clone, Debug, Default)]
pub struct InDoubt {
    /// The effect of a commit on each row that it has written.
    pub effects: BTreeMap<Place, Option<String>>,
    /// Rows that it has locked and left as they are.
    pub locked: Vec<Place>,
    /// Tables in which no row may be inserted into the ranges that it has read.
    pub holds: Vec<String>,
}

/// The client that looks at the database; it determines what is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Makes all definitions; has rows in all tables.
    Definer,
    /// Has rows in the shared table.
    Writer,
}

const DEFINITIONS: [&str; 8] = [
    "SELECT 'table', tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 2",
    "SELECT 'column', table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns \
     WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
    "SELECT 'index', indexdef, indisvalid FROM pg_indexes JOIN pg_class ON relname = indexname JOIN pg_index ON \
     indexrelid = oid WHERE schemaname = 'public' ORDER BY indexname",
    "SELECT 'constraint', relname, conname, contype, conbin FROM pg_constraint JOIN pg_class c ON c.oid = conrelid \
     ORDER BY relname, conname",
    "SELECT 'sequence', sequencename, start_value, increment_by FROM pg_sequences ORDER BY sequencename",
    "SELECT 'label', typname, enumlabel FROM pg_enum JOIN pg_type t ON t.oid = enumtypid ORDER BY 2, enumsortorder",
    "SELECT 'comment', relname, objsubid, description FROM pg_description JOIN pg_class c ON c.oid = objoid \
     WHERE classoid = 'pg_class'::regclass ORDER BY relname, objsubid, description",
    "SELECT 'role', rolname, rolpassword FROM pg_authid WHERE rolname LIKE 'r%' ORDER BY rolname",
];

impl Owner {
    pub fn name(self) -> &'static str {
        match self {
            Self::Definer => "definer",
            Self::Writer => "writer",
        }
    }

    /// Returns the client's current state; `before`: its state before, for rows that no session can read now.
    pub fn look(self, session: &mut Session, before: &World) -> World {
        let mut world = World { given: before.given.clone(), ..World::default() };
        let gids = format!("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE '{}%'", self.name());
        for gid in ask(session, &gids) {
            let known = before.in_doubt.get(&gid).cloned().unwrap_or_default();
            world.in_doubt.insert(gid, known);
        }
        if self == Self::Definer {
            world.definitions = DEFINITIONS.iter().flat_map(|text| ask(session, text)).collect();
        }
        for table in self.tables(session) {
            match self.rows(session, &table) {
                Some(rows) => world.rows.extend(rows.into_iter().map(|(id, row)| ((table.clone(), id), row))),
                None => {
                    let known = before.rows.iter().filter(|((known, _), _)| *known == table);
                    world.rows.extend(known.map(|(place, row)| (place.clone(), row.clone())));
                    world.hidden.insert(table);
                }
            }
        }
        let sequences = ask(session, "SELECT seqrelid FROM pg_sequence");
        world.given.retain(|sequence, _| sequences.contains(sequence));
        world
    }

    pub fn tables(self, session: &mut Session) -> Vec<String> {
        let mut tables = ask(session, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
        tables.retain(|table| self == Self::Definer || table == SHARED);
        tables
    }

    /// Returns the client's rows of a table, by their ids; `None`: a transaction has the table alone.
    pub fn rows(self, session: &mut Session, table: &str) -> Option<BTreeMap<String, String>> {
        let columns = if self == Self::Definer { "*" } else { "id, owner, a, u, g, v" };
        let text = format!("SELECT {columns} FROM {table} WHERE owner = '{}'", self.name());
        let mut attempts = 0;
        let rows = loop {
            match run(session, &text) {
                Ok(rows) => break rows,
                Err(SqlState::LOCK_NOT_AVAILABLE) if self == Self::Definer => return None,
                // The definer is changing the table, and has it alone; or the statement has met rows that the other
                // client is writing, again and again until the end of `lock_timeout`.
                Err(SqlState::LOCK_NOT_AVAILABLE | SqlState::SERIALIZATION_FAILURE) => {
                    attempts += 1;
                    assert!(attempts < ATTEMPTS_MAX, "{table} cannot be read");
                }
                Err(error) => panic!("{text}: {error:?}"),
            }
        };
        let count = rows.len();
        let rows: BTreeMap<_, _> =
            rows.into_iter().map(|row| (row.split(',').next().unwrap_or_default().to_owned(), row)).collect();
        assert_eq!(rows.len(), count, "an id twice in {table}");
        Some(rows)
    }
}

impl World {
    /// Returns the rows of one table.
    pub fn rows_of(&self, table: &str) -> BTreeMap<String, String> {
        let own = self.rows.iter().filter(|((known, _), _)| known == table);
        own.map(|((_, id), row)| (id.clone(), row.clone())).collect()
    }

    /// Whether `found`, read without knowledge of earlier states, may be this state.
    pub fn is(&self, found: &Self) -> bool {
        let visible = |rows: &BTreeMap<Place, String>| -> BTreeMap<Place, String> {
            let all = rows.iter().filter(|((table, _), _)| !self.hidden.contains(table));
            all.map(|(place, row)| (place.clone(), row.clone())).collect()
        };
        self.definitions == found.definitions
            && self.hidden == found.hidden
            && self.in_doubt.keys().eq(found.in_doubt.keys())
            && visible(&self.rows) == visible(&found.rows)
    }

    /// Applies the end of a prepared transaction.
    pub fn end(&mut self, gid: &str, commits: bool) {
        let Some(ended) = self.in_doubt.remove(gid) else { return };
        for (place, row) in ended.effects.into_iter().filter(|_| commits) {
            match row {
                Some(row) => self.rows.insert(place, row),
                None => self.rows.remove(&place),
            };
        }
    }

    /// Describes how `found` differs.
    pub fn difference(&self, found: &Self) -> String {
        let lines = |own: &[String], other: &[String]| -> Vec<String> {
            own.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        let rows = |own: &Self, other: &Self| -> Vec<String> {
            let all = own.rows.iter().filter(|(place, row)| other.rows.get(*place) != Some(row));
            all.map(|((table, _), row)| format!("{table}: {row}")).take(20).collect()
        };
        format!(
            "expected, and not found: {:?} {:?}\n  found, and not expected: {:?} {:?}\n  in doubt {:?} and {:?}, \
             hidden {:?} and {:?}",
            lines(&self.definitions, &found.definitions),
            rows(self, found),
            lines(&found.definitions, &self.definitions),
            rows(found, self),
            self.in_doubt.keys(),
            found.in_doubt.keys(),
            self.hidden,
            found.hidden,
        )
    }
}
