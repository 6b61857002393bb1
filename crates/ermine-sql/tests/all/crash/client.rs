//! The steps of the clients, and the state after each step.
//!
//! A step is a statement or a transaction of several. It is begun, then done, and then maybe durable; marks in the
//! directory record this. A step that fails, or is rolled back, leaves everything as it was; so does one that is
//! prepared, until it is told to commit.

use std::collections::BTreeSet;

use ermine::Database;
use ermine_sql::{Session, SqlState};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

use super::{
    sessions::{ask, run},
    world::{InDoubt, Owner, SHARED, World},
};

/// The progress of a step that a mark records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    Begun,
    Done,
    Durable,
}

const STEPS_MAX: u64 = 1_000_000;

/// The mark of a client's step.
fn mark(owner: Owner, progress: Progress, step: usize) -> u64 {
    (owner as u64 * 3 + progress as u64) * STEPS_MAX + step as u64
}

/// Returns the last step whose mark records this progress.
pub fn last(marks: &[u64], owner: Owner, progress: Progress) -> usize {
    let first = mark(owner, progress, 0);
    let own = marks.iter().filter(|mark| (first..first + STEPS_MAX).contains(*mark));
    own.max().map_or(0, |mark| (mark - first) as usize)
}

/// A client.
pub struct Client<'a> {
    engine: &'a Database,
    directory: &'a FaultyDirectory,
    owner: Owner,
    session: Session,
    rng: Rng,
    past: Past,
}

/// The past of a client.
#[derive(Clone, Debug)]
pub struct Past {
    pub owner: Owner,
    /// The state after each step.
    pub worlds: Vec<World>,
    /// The statements of each step, and the numbers that it was told.
    pub said: Vec<Vec<String>>,
}

/// The outcome of a step.
enum Ended {
    Changed,
    /// The step left no effects.
    Undone,
    Prepared(String, InDoubt),
    /// The transaction was prepared before.
    Over {
        gid: String,
        commits: bool,
    },
}

/// Errors that a step may fail with.
const EXPECTED: &[SqlState] = &[
    SqlState::CHECK_VIOLATION,
    SqlState::DEADLOCK_DETECTED,
    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
    SqlState::DUPLICATE_COLUMN,
    SqlState::DUPLICATE_OBJECT,
    SqlState::DUPLICATE_TABLE,
    SqlState::FEATURE_NOT_SUPPORTED,
    SqlState::INVALID_TABLE_DEFINITION,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::NOT_NULL_VIOLATION,
    SqlState::SERIALIZATION_FAILURE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_OBJECT,
    SqlState::UNDEFINED_TABLE,
    SqlState::UNIQUE_VIOLATION,
];

const TABLES: [&str; 4] = ["t1", "t2", "t3", "t4"];

impl<'a> Client<'a> {
    pub fn new(
        engine: &'a Database,
        directory: &'a FaultyDirectory,
        owner: Owner,
        mut session: Session,
        rng: Rng,
    ) -> Self {
        ask(&mut session, "SET lock_timeout = '10ms'");
        let past = Past { owner, worlds: vec![World::default()], said: vec![vec![]] };
        Self { engine, directory, owner, session, rng, past }
    }

    /// Creates the table that both clients write.
    pub fn begin(&mut self) {
        let text = self.table(SHARED);
        self.step(true, |client| client.say(&text).map(|_| Ended::Changed));
    }

    pub fn run(mut self, steps: usize, durable: u32) -> Past {
        for _ in 0..steps {
            let is_durable = self.rng.u32(..100) < durable;
            self.step(is_durable, Self::something);
        }
        self.past
    }

    /// Runs a step, and records the state after it.
    fn step(&mut self, is_durable: bool, body: impl FnOnce(&mut Self) -> Result<Ended, SqlState>) {
        let number = self.past.worlds.len();
        let mut before = self.past.worlds[number - 1].clone();
        self.past.said.push(Vec::new());
        ask(&mut self.session, &format!("SET synchronous_commit = {}", if is_durable { "on" } else { "off" }));
        self.mark(Progress::Begun, number);
        let ended = body(self);
        self.mark(Progress::Done, number);
        let ended = ended.unwrap_or_else(|error| {
            assert!(EXPECTED.contains(&error), "{error:?}: {:?}", self.past.said[number]);
            run(&mut self.session, "ROLLBACK").expect("a block can be rolled back");
            Ended::Undone
        });
        let (was, given) = (before.clone(), self.told_numbers(number));
        before.given.extend(given);
        match &ended {
            Ended::Over { gid, commits } => before.end(gid, *commits),
            Ended::Prepared(gid, in_doubt) => _ = before.in_doubt.insert(gid.clone(), in_doubt.clone()),
            Ended::Changed | Ended::Undone => {}
        }
        let world = self.owner.look(&mut self.session, &before);
        before.hidden.clone_from(&world.hidden);
        let is_as_told = matches!(ended, Ended::Changed) || before.is(&world);
        assert!(is_as_told, "{:?}\n  {}", self.past.said[number], before.difference(&world));
        let may_hide = matches!(ended, Ended::Prepared(..) | Ended::Over { .. });
        assert!(may_hide || was.hidden == world.hidden, "{:?} and {:?}", was.hidden, world.hidden);
        // A step that has changed nothing makes nothing durable that was not durable before.
        if is_durable && !was.is(&world) {
            self.mark(Progress::Durable, number);
        }
        self.past.worlds.push(world);
    }

    fn mark(&self, progress: Progress, step: usize) {
        self.directory.mark(mark(self.owner, progress, step));
    }

    /// Returns the numbers of sequences that a step was told, according to its statements.
    fn told_numbers(&self, step: usize) -> Vec<(String, i64)> {
        let told = self.past.said[step].iter().filter_map(|said| said.strip_prefix("given "));
        let numbers = told.filter_map(|said| said.split_once(' '));
        numbers.map(|(sequence, number)| (sequence.to_owned(), number.parse().expect("a number"))).collect()
    }

    fn world(&self) -> &World {
        self.past.worlds.last().expect("there is one from the beginning")
    }

    fn say(&mut self, text: &str) -> Result<Vec<String>, SqlState> {
        let done = run(&mut self.session, text);
        let mut short: String = text.chars().take(300).collect();
        if let Err(error) = &done {
            short += &format!(" -- {}", error.0);
        }
        self.past.said.last_mut().expect("a step has begun").push(short);
        done
    }

    /// Notes a number that a sequence has returned, by the oid of the sequence, which is never reused.
    fn told(&mut self, sequence: &str, number: i64) {
        let oid = ask(&mut self.session, &format!("SELECT '{sequence}'::regclass::oid")).remove(0);
        self.past.said.last_mut().expect("a step has begun").push(format!("given {oid} {number}"));
    }

    fn something(&mut self) -> Result<Ended, SqlState> {
        let in_doubt = self.world().in_doubt.len();
        let kinds = if self.owner == Owner::Writer { 64 } else { 100 };
        match self.rng.u8(..kinds) {
            _ if in_doubt > 0 && self.rng.u8(..4) == 0 => self.end_prepared(),
            30..44 => self.block(),
            44..60 if self.engine.scheme().has_versions() => self.prepare(),
            60..62 => self.checkpoint(),
            64..92 => {
                let mut texts = self.definition();
                self.say(&texts.remove(0)).map(|_| Ended::Changed)
            }
            92..95 => self.sequence(),
            95.. => self.definitions(),
            _ => self.change().map(|()| Ended::Changed),
        }
    }

    fn checkpoint(&mut self) -> Result<Ended, SqlState> {
        self.past.said.last_mut().expect("a step has begun").push("checkpoint".into());
        self.engine.checkpoint().expect("nothing fails");
        Ok(Ended::Undone)
    }

    /// Returns any existing table.
    fn any_table(&mut self) -> String {
        let tables: Vec<_> = self.owner.tables(&mut self.session);
        tables.get(self.rng.usize(..tables.len().max(1))).cloned().unwrap_or_else(|| SHARED.into())
    }

    /// Inserts, updates or deletes rows of any table.
    fn change(&mut self) -> Result<(), SqlState> {
        let table = self.any_table();
        self.change_of(&table)
    }

    fn change_of(&mut self, table: &str) -> Result<(), SqlState> {
        let (owner, group) = (self.owner.name(), self.rng.u8(..6));
        match self.rng.u8(..10) {
            0..6 => {
                let count = [1, 1, 2, 5, 30][self.rng.usize(..5)];
                let rows: Vec<_> = (0..count).map(|_| self.row()).collect();
                let text = format!("INSERT INTO {table} (owner, a, u, g, v) VALUES {} RETURNING id", rows.join(", "));
                let ids = self.say(&text)?;
                let highest = ids.iter().map(|id| id.parse().expect("a number")).max().expect("rows were inserted");
                self.told(&format!("{table}_id_seq"), highest);
            }
            6..8 => {
                _ = self.say(&format!(
                    "UPDATE {table} SET a = a + 1, u = u || 'x' WHERE g = {group} AND owner = '{owner}'"
                ))?
            }
            8 => _ = self.say(&format!("UPDATE {table} SET g = {group} WHERE a < 20 AND owner = '{owner}'"))?,
            _ => _ = self.say(&format!("DELETE FROM {table} WHERE g = {group} AND owner = '{owner}'"))?,
        }
        Ok(())
    }

    fn row(&mut self) -> String {
        let rng = &mut self.rng;
        let a = if rng.u8(..60) == 0 { -1 } else { rng.i32(0..100) };
        // Now and then a value that another row may have.
        let u = if rng.u8(..60) == 0 { rng.u32(..20) } else { rng.u32(..) };
        let g = if rng.u8(..8) == 0 { "NULL".into() } else { rng.u8(..6).to_string() };
        // Longer values are stored in files of their own.
        let v = "v".repeat([3, 3, 3, 3, 100, 1000, 9000][rng.usize(..7)] * usize::from(rng.u8(..3) == 0));
        format!("('{}', {a}, '{}{u}', {g}, '{v}')", self.owner.name(), self.owner.name())
    }

    /// Runs a transaction of several statements.
    fn block(&mut self) -> Result<Ended, SqlState> {
        let levels = if self.engine.scheme().is_serializable() { 3 } else { 2 };
        let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][self.rng.usize(..levels)];
        self.say(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        for _ in 0..self.rng.u8(1..5) {
            if self.rng.u8(..4) == 0 {
                self.say("SAVEPOINT s")?;
                self.change()?;
                self.say("ROLLBACK TO s")?;
            }
            self.change()?;
        }
        self.end_block()
    }

    fn end_block(&mut self) -> Result<Ended, SqlState> {
        if self.rng.u8(..3) == 0 {
            return self.say("ROLLBACK").map(|_| Ended::Undone);
        }
        self.say("COMMIT").map(|_| Ended::Changed)
    }

    /// Prepares a transaction.
    fn prepare(&mut self) -> Result<Ended, SqlState> {
        let mut tables = self.owner.tables(&mut self.session);
        let can_be_serializable = self.owner == Owner::Definer && self.engine.scheme().is_serializable();
        let is_serializable = can_be_serializable && self.rng.u8(..4) == 0;
        // The transaction will hold its reads of the tables.
        tables.retain(|table| !is_serializable || table != SHARED);
        self.rng.shuffle(&mut tables);
        tables.truncate(2);
        let level = match is_serializable {
            true => "SERIALIZABLE",
            false => ["READ COMMITTED", "REPEATABLE READ"][self.rng.usize(..2)],
        };
        self.say(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        let holds = if is_serializable { tables.clone() } else { Vec::new() };
        let mut in_doubt = InDoubt { holds, ..InDoubt::default() };
        for table in &tables {
            for _ in 0..self.rng.u8(1..3) {
                self.change_of(table)?;
            }
            let (owner, group) = (self.owner.name(), self.rng.u8(..6));
            let text = format!("SELECT id FROM {table} WHERE g = {group} AND owner = '{owner}' FOR UPDATE");
            let locked = self.say(&text)?;
            let (before, after) = (self.world().rows_of(table), self.owner.rows(&mut self.session, table));
            let after = after.expect("its own transaction can read it");
            for id in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                if before.get(id) != after.get(id) {
                    in_doubt.effects.insert((table.clone(), id.clone()), after.get(id).cloned());
                } else if locked.contains(id) {
                    in_doubt.locked.push((table.clone(), id.clone()));
                }
            }
        }
        let gid = format!("{}{}", self.owner.name(), self.past.worlds.len());
        self.say(&format!("PREPARE TRANSACTION '{gid}'"))?;
        Ok(Ended::Prepared(gid, in_doubt))
    }

    fn end_prepared(&mut self) -> Result<Ended, SqlState> {
        let gids: Vec<_> = self.world().in_doubt.keys().cloned().collect();
        let (gid, commits) = (gids[self.rng.usize(..gids.len())].clone(), self.rng.bool());
        self.say(&format!("{} PREPARED '{gid}'", if commits { "COMMIT" } else { "ROLLBACK" }))?;
        Ok(Ended::Over { gid, commits })
    }

    /// Returns the text that creates a table.
    fn table(&mut self, name: &str) -> String {
        let key = if name == SHARED || self.rng.bool() { "PRIMARY KEY" } else { "" };
        format!(
            "CREATE TABLE {name} (id serial {key}, owner text NOT NULL, a integer CONSTRAINT {name}_a CHECK (a >= 0), \
             u text UNIQUE, g integer, v text)"
        )
    }

    /// Returns texts that change definitions: one that can be run alone, and others that may follow in a transaction.
    fn definition(&mut self) -> Vec<String> {
        let (table, n) = (self.any_table(), self.rng.u8(1..4));
        let rng = &mut self.rng;
        match rng.u8(..23) {
            0..4 => {
                let name = TABLES[rng.usize(..TABLES.len())];
                let row = format!("INSERT INTO {name} (owner, a, u, g) VALUES ('definer', 1, 'first', 1)");
                vec![self.table(name), format!("CREATE INDEX {name}_i1 ON {name} (g)"), row]
            }
            4..7 => {
                let columns = ["(g, a DESC)", "(a)", "(g) WHERE a > 50", "(u)", "(c1)"][rng.usize(..5)];
                let unique = if columns != "(c1)" && rng.u8(..4) == 0 { "UNIQUE " } else { "" };
                vec![
                    format!("CREATE {unique}INDEX {table}_i{n} ON {table} {columns}"),
                    format!("DROP INDEX {table}_i{n}"),
                ]
            }
            7 => vec![format!("DROP INDEX {table}_i{n}")],
            8 | 9 => vec![
                format!("ALTER TABLE {table} ADD COLUMN c{n} integer DEFAULT {} NOT NULL", rng.u8(..9)),
                format!("UPDATE {table} SET c{n} = a WHERE owner = 'definer'"),
            ],
            10 => vec![format!("ALTER TABLE {table} DROP COLUMN c{n}")],
            11 => vec![
                format!("ALTER TABLE {table} ADD CONSTRAINT {table}_k{n} CHECK (a < {}000)", rng.u8(1..9)),
                format!("ALTER TABLE {table} DROP CONSTRAINT {table}_k{n}"),
            ],
            12 => vec![format!("ALTER TABLE {table} ADD CONSTRAINT {table}_n{n} UNIQUE (u, g)")],
            13 => {
                let what = [
                    "ALTER COLUMN g SET NOT NULL",
                    "ALTER COLUMN v SET NOT NULL",
                    "ALTER COLUMN v DROP NOT NULL",
                    "ADD PRIMARY KEY (id)",
                    "ALTER COLUMN g TYPE bigint",
                    "ALTER COLUMN g TYPE integer",
                ];
                vec![format!("ALTER TABLE {table} {}", what[rng.usize(..what.len())])]
            }
            14 if table != SHARED => {
                vec![format!("TRUNCATE {table}"), format!("INSERT INTO {table} (owner, a) VALUES ('definer', 2)")]
            }
            15 if rng.bool() => vec![
                format!("COMMENT ON TABLE {table} IS 'comment {n}'"),
                format!("COMMENT ON COLUMN {table}.g IS {}", ["'of g'", "NULL"][rng.usize(..2)]),
            ],
            15 => vec![format!("CREATE USER r{n} PASSWORD 'x'"), format!("ALTER USER r{n} PASSWORD NULL")],
            16 => match rng.u8(..3) {
                0 => vec![format!("DROP USER r{n}")],
                1 => vec![format!("ALTER USER r{n} RENAME TO r{}", rng.u8(1..4))],
                _ => vec![format!("ALTER USER r{n} PASSWORD 'y'")],
            },
            // Each row refers to itself, so that the rows of a client do not depend on those of the other one.
            17 | 18 => {
                let when = ["", " DEFERRABLE INITIALLY DEFERRED", " ON UPDATE CASCADE"][rng.usize(..3)];
                vec![
                    format!(
                        "ALTER TABLE {table} ADD CONSTRAINT {table}_f{n} FOREIGN KEY (u) REFERENCES {table} (u){when}"
                    ),
                    format!("ALTER TABLE {table} DROP CONSTRAINT {table}_f{n}"),
                ]
            }
            19 => vec![
                format!("CREATE TYPE m{n} AS ENUM ('a', 'b')"),
                format!("ALTER TABLE {table} ADD COLUMN e{n} m{n} DEFAULT 'b'"),
                format!("ALTER TYPE m{n} ADD VALUE 'c{}' BEFORE 'b'", rng.u8(..9)),
            ],
            20 => vec![format!("ALTER TYPE m{n} ADD VALUE 'd{}' AFTER 'a'", rng.u8(..9))],
            21 => vec![format!("DROP TYPE m{n} CASCADE")],
            _ if table != SHARED => vec![format!("DROP TABLE {table}")],
            _ => vec![format!("ALTER TABLE {table} ADD CONSTRAINT {table}_k{n} CHECK (g IS NULL OR g < 9)")],
        }
    }

    /// Runs a transaction that changes definitions.
    fn definitions(&mut self) -> Result<Ended, SqlState> {
        self.say("BEGIN")?;
        for _ in 0..self.rng.u8(1..3) {
            for text in self.definition() {
                self.say(&text)?;
            }
            if self.rng.u8(..4) == 0 {
                self.say("SAVEPOINT d")?;
                for text in self.definition() {
                    self.say(&text)?;
                }
                self.say("ROLLBACK TO d")?;
            }
            self.change()?;
        }
        self.end_block()
    }

    fn sequence(&mut self) -> Result<Ended, SqlState> {
        let name = ["s1", "s2"][self.rng.usize(..2)];
        match self.rng.u8(..12) {
            0..4 => _ = self.say(&format!("CREATE SEQUENCE {name} INCREMENT BY 3"))?,
            4 => _ = self.say(&format!("DROP SEQUENCE {name}"))?,
            5 => {
                let set = self.rng.u8(1..200);
                let number = self.say(&format!("SELECT setval('{name}', {set})"))?;
                self.told(name, number[0].parse().expect("a number"));
            }
            _ => {
                for _ in 0..self.rng.u8(1..20) {
                    let number = self.say(&format!("SELECT nextval('{name}')"))?;
                    self.told(name, number[0].parse().expect("a number"));
                }
            }
        }
        Ok(Ended::Changed)
    }
}
