//! Goal: after every crash, everything that a client of SQL was told exists, complete; anything else exists as a whole,
//! or not at all. This covers definitions, rows, indexes, prepared transactions with their locks, and sequences.
//!
//! Method: that of the engine's test `crash`, with its directory, which records every operation. Clients run statements
//! ([`client`]); after each, statements read the resulting state ([`world`]). For points between two operations, and
//! for choices of the unsynced writes that survive, the database is opened as a crash has left it. Its state must be
//! that after one of the steps that are possible then, and it must continue to work ([`judge`]).
//!
//! The long form: `ERMINE_TEST_POINTS=10000 cargo test -p ermine-sql --test all crash:: -- --nocapture`.
//! `ERMINE_TEST_SEED=n` runs the workload of a failure again, `ERMINE_TEST_SCHEME=name` those of one scheme.

#[path = "../../../../ermine/tests/all/crash/case.rs"]
mod case;
mod client;
mod judge;
mod world;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, SqlDatabase};
use ermine_testing::faulty::{FaultyDirectory, Keep, Trace};
use fastrand::Rng;

use crate::sessions::{self, ask};
use case::{Case, POINTS, keeps, points, seed};
use client::{Client, Past};
use world::Owner;

/// The options of a database.
#[derive(Clone, Debug)]
struct Setting {
    /// The number of steps of each client.
    steps: usize,
    /// The percentage of steps that wait for the device.
    durable: u32,
    scheme: Scheme,
    segment_bytes: u64,
}

impl Setting {
    fn random(rng: &mut Rng, clients: usize) -> Self {
        let asked = std::env::var("ERMINE_TEST_SCHEME").map(|name| name.parse().expect("a scheme"));
        // Schemes with versions have prepared transactions.
        let has_versions = rng.u8(..4) > 0;
        let schemes: Vec<_> = Scheme::ALL
            .into_iter()
            .filter(|scheme| scheme.has_versions() == has_versions && SqlDatabase::serves(*scheme))
            .collect();
        let scheme = schemes[rng.usize(..schemes.len())];
        Self {
            steps: 100 / clients,
            durable: [100, 80, 30][rng.usize(..3)],
            scheme: asked.unwrap_or(scheme),
            segment_bytes: [64 << 10, 70_001, 128 << 10][rng.usize(..3)],
        }
    }

    fn open(&self, directory: &FaultyDirectory) -> (Arc<Database>, SqlDatabase) {
        let options = Options::default().scheme(self.scheme).log_buffer_bytes(64 << 10);
        // Locks of a prepared transaction are not waited for: nothing ends it in the meantime.
        let options = options.segment_bytes(self.segment_bytes).wait_max(Duration::from_millis(1));
        let engine = Database::open_in(Arc::new(directory.clone()), options);
        let engine = Arc::new(engine.unwrap_or_else(|error| panic!("it does not open: {error}")));
        let sql = SqlDatabase::open(engine.clone()).unwrap_or_else(|error| panic!("SQL does not open: {error}"));
        (engine, sql)
    }
}

/// One database from its creation to its end, in a directory of its own.
struct Life {
    seed: u64,
    setting: Setting,
    pasts: Vec<Past>,
    trace: Trace,
}

impl Life {
    fn run(seed: u64, owners: &'static [Owner]) -> Self {
        let mut rng = Rng::with_seed(seed);
        let setting = Setting::random(&mut rng, owners.len());
        let directory = FaultyDirectory::new();
        let _case = Case::new(seed, format!("{setting:?}"), &directory);
        let (engine, sql) = setting.open(&directory);
        let client = |owner: &Owner| {
            let session = sql.session(owner.name(), "test");
            Client::new(&engine, &directory, *owner, session, rng.fork())
        };
        let mut clients: Vec<_> = owners.iter().map(client).collect();
        clients[0].begin();
        let pasts = std::thread::scope(|scope| {
            let run = |client: Client<'_>| client.run(setting.steps, setting.durable);
            let running: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || run(client))).collect();
            let joined = running.into_iter().map(|client| client.join());
            joined.map(|past| past.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        assert_eq!(sql.session("tester", "test").disagreements().unwrap(), [""; 0]);
        drop((sql, engine));
        let trace = directory.trace();
        Self { seed, setting, pasts, trace }
    }

    fn case(&self, directory: &FaultyDirectory, what: String) -> Case {
        Case::new(self.seed, format!("{:?}, {} operations\n{what}", self.setting, self.trace.operations()), directory)
    }
}

/// Checks crash points of several lives.
fn enumerate(otherwise: usize, owners: &'static [Owner]) {
    let mut left = points(otherwise);
    let (began, checked) = (Instant::now(), left);
    while left > 0 {
        let life = Life::run(seed(), owners);
        let mut rng = Rng::with_seed(life.seed);
        let mut all: Vec<_> =
            (0..=life.trace.operations()).flat_map(|at| keeps(&mut rng).map(|keep| (at, keep))).collect();
        rng.shuffle(&mut all);
        // In the short form, lives of several schemes.
        all.truncate(left.min((checked / 4).max(15)));
        left -= all.len();
        for (at, keep) in all {
            recover_and_go_on(&life, at, keep, &mut rng);
        }
    }
    let took = began.elapsed();
    eprintln!("{checked} points in {took:.1?}, {:.0} a second", checked as f64 / took.as_secs_f64());
}

/// Recovers from a crash at one point, and goes on.
fn recover_and_go_on(life: &Life, at: usize, keep: Keep, rng: &mut Rng) {
    let directory = life.trace.crash(at, keep);
    let _case = life.case(&directory, format!("crash at {at}, {keep:?}"));
    let marks = life.trace.marks_before(at);
    let (engine, sql) = life.setting.open(&directory);
    let found = judge::find(life, &sql, marks);
    let recovered = directory.operations();
    let told = judge::go_on(life, &sql, found.clone(), marks, rng);
    drop((sql, engine));
    // The database was closed properly.
    let (engine, sql) = life.setting.open(&directory);
    judge::see(&sql, &told);
    drop((sql, engine));
    let trace = directory.trace();
    // The recovery might have crashed, too.
    let (again_at, again_keep) = (rng.usize(..=recovered), keeps(rng)[rng.usize(..6)]);
    let again = trace.crash(again_at, again_keep);
    let _case =
        life.case(&again, format!("crash at {at}, {keep:?}, and of its recovery at {again_at}, {again_keep:?}"));
    let (engine, sql) = life.setting.open(&again);
    judge::see(&sql, &found);
    drop((sql, engine));
    // Or later: what a client was told after recovery lasts, too.
    let again = trace.crash(trace.operations(), Keep::Nothing);
    let _case = life.case(&again, format!("crash at {at}, {keep:?}, and at the end"));
    judge::see(&life.setting.open(&again).1, &told);
}

#[test]
fn what_one_client_was_told_survives_every_crash() {
    enumerate(POINTS / 2, &[Owner::Definer]);
}

#[test]
fn what_two_clients_were_told_survives_every_crash() {
    enumerate(POINTS / 3, &[Owner::Definer, Owner::Writer]);
}

/// A session that sees a table may report that it exists, though the client that created it was not told yet.
#[test]
fn what_others_are_shown_of_definitions_survives() {
    let setting = Setting { scheme: Scheme::SiSsn, ..Setting::random(&mut Rng::with_seed(1), 1) };
    for _ in 0..20 {
        let directory = FaultyDirectory::new();
        let (_engine, sql) = setting.open(&directory);
        let (mut one, mut other) = (sql.session("one", "test"), sql.session("other", "test"));
        let created = one.simple_query("CREATE TABLE t (id integer)", &mut RowSet::default()).unwrap();
        assert_eq!(ask(&mut other, "SELECT id FROM t"), [""; 0]);
        let trace = directory.trace();
        drop(created);
        let (_engine, sql) = setting.open(&trace.crash(trace.operations(), Keep::Nothing));
        assert_eq!(ask(&mut sql.session("other", "test"), "SELECT id FROM t"), [""; 0]);
    }
}
