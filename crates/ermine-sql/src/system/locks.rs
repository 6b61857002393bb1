//! What sessions have and wait for: `pg_locks`, `pg_blocking_pids`, and the events in `pg_stat_activity`.

use std::collections::BTreeSet;

use ermine::Tid;

use super::{Described, Known, NULL, PG_CATALOG, table};
use crate::{
    catalog::{
        Catalog,
        advisory::AdvisoryKey,
        conflicts::ConflictKind,
        footprint::Footprint,
        hot_conflicts::HotConflict,
        sessions::Presence,
        waits::{Need, TableNeed},
    },
    types::{Array, Scalar, Value},
};

/// A row of `pg_locks`.
struct Lock {
    need: Need,
    /// The number of the session's database; `None`: that of no session.
    database: Option<u32>,
    process: Option<i32>,
    mode: &'static str,
    /// Since when it waits; `None`: it has the lock.
    waits_since: Option<i64>,
}

impl Lock {
    fn relation(&self) -> Option<u32> {
        if let Need::Table(table, _) = self.need { Some(table) } else { None }
    }

    fn advisory(&self) -> Option<AdvisoryKey> {
        if let Need::Advisory(key, _) = self.need { Some(key) } else { None }
    }

    fn transaction(&self) -> Option<Tid> {
        if let Need::Row(tid) = self.need { Some(tid) } else { None }
    }
}

/// Returns the event for which a session waits: its type and its name, where that is not its client.
pub(super) fn event(known: Known<'_>, session: &Presence) -> Option<(&'static str, &'static str)> {
    let need = known.catalog.sessions.waits.need(session.footprint.session)?;
    Some(("Lock", need.kind()))
}

/// Returns the connections that a connection waits for; 0 stands for a prepared transaction.
pub(super) fn blocking(catalog: &Catalog, process: i32) -> Value {
    let sessions = &catalog.sessions;
    let waits = sessions.of_process(process).map(|session| session.footprint.session);
    let needs = waits.and_then(|session| Some((session, sessions.waits.need(session)?)));
    let mut blockers = BTreeSet::new();
    if let Some((session, need)) = needs {
        let all = sessions.all().into_iter().map(|other| other.footprint.clone());
        let found = sessions.waits.blockers(session, all);
        blockers.extend(found.iter().map(|one| one.process() as i32));
        if blockers.is_empty() && !matches!(need, Need::Advisory(..)) && !sessions.prepared().is_empty() {
            blockers.insert(0);
        }
    }
    Value::array(Array::new(Scalar::Int4, blockers.into_iter().map(Value::Int4).collect()))
}

fn connection(footprint: &Footprint) -> Option<i32> {
    footprint.is_connected().then(|| footprint.process() as i32)
}

fn locks(known: Known<'_>) -> impl Iterator<Item = Lock> {
    let sessions = &known.catalog.sessions;
    let had = |need: Need, mode, session: Option<&Presence>| {
        let database = session.map(|session| session.database_number);
        let process = session.and_then(Presence::process);
        Lock { need, database, process, mode, waits_since: None }
    };
    let advisory = sessions.waits.locks.all().into_iter().map(move |lock| {
        let session = sessions.numbered(lock.session);
        let need = Need::Advisory(lock.key, lock.is_shared);
        had(need, need.mode(), session.as_deref())
    });
    let tables = sessions.all().into_iter().flat_map(move |session| {
        let footprint = &session.footprint;
        let (alone, session) = (footprint.alone(), Some(&*session));
        let used = footprint.used().into_iter().filter(|table| !alone.contains(table)).collect::<Vec<_>>();
        let of = |need: TableNeed| move |table| had(Need::Table(table, need), Need::Table(table, need).mode(), session);
        let own = footprint.tid().filter(|tid| known.catalog.is_in_flight(*tid));
        let rows = own.map(|tid| had(Need::Row(tid), "ExclusiveLock", session));
        let tables = used.into_iter().map(of(TableNeed::Use)).chain(alone.into_iter().map(of(TableNeed::Alone)));
        tables.chain(rows).collect::<Vec<_>>()
    });
    let waiting = sessions.waits.all().into_iter().map(|wait| Lock {
        need: wait.need,
        database: Some(wait.footprint.database),
        process: connection(&wait.footprint),
        mode: wait.need.mode(),
        waits_since: Some(wait.since),
    });
    advisory.chain(tables).chain(waiting)
}

/// Returns the kinds of conflicts that have been lost, with their tables' names and their counts.
fn conflicts(known: Known<'_>) -> impl Iterator<Item = (ConflictKind, Option<String>, u64)> {
    known.catalog.sessions.conflicts.all().into_iter().map(move |(kind, count)| {
        let table = kind.table.and_then(|table| known.catalog.table(table));
        (kind, table.map(|table| table.name().to_owned()), count)
    })
}

/// Returns the rows over which most conflicts were lost, with their tables' names.
fn hot_conflicts(known: Known<'_>) -> impl Iterator<Item = (HotConflict, Option<String>)> {
    let may_see = known.may_see_all();
    known.catalog.sessions.hot_conflicts.all().into_iter().map(move |mut conflict| {
        let table = conflict.row.table.and_then(|table| known.catalog.table(table));
        if !may_see {
            // Keys of rows, also in the story, are data.
            (conflict.key, conflict.story) = (None, None);
        }
        (conflict, table.map(|table| table.name().to_owned()))
    })
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 ermine_stat_conflicts, known => conflicts(known), |(kind, name, count)| {
        relid OID = kind.table;
        relname NAME = name;
        statement TEXT = kind.statement;
        cause TEXT = kind.cause;
        conflicts INT8 = count as i64;
    }),
    table!(PG_CATALOG, 0 ermine_stat_hot_conflicts, known => hot_conflicts(known), |(of, name)| {
        relid OID = of.row.table;
        relname NAME = name;
        key TEXT = of.key;
        cause TEXT = of.row.cause;
        conflicts INT8 = of.count as i64;
        conflicts_min INT8 = (of.count - of.taken_over) as i64;
        last_conflict TIME = Value::TimestampTz(of.last);
        story TEXT = of.story;
    }),
    // A session that has written has all its rows by one lock, on its transaction. Tables have two: of transactions that
    // use them, and of those that have them alone.
    table!(PG_CATALOG, 0 pg_locks, known => locks(known), |lock| {
        locktype TEXT = lock.need.kind();
        database OID = lock.database.filter(|_| lock.transaction().is_none());
        relation OID = lock.relation();
        page INT4 = NULL;
        tuple INT2 = NULL;
        virtualxid TEXT = NULL;
        transactionid OID = lock.transaction().map(|tid| tid.as_u64() as u32);
        classid OID = lock.advisory().map(|key| key.halves().0);
        objid OID = lock.advisory().map(|key| key.halves().1);
        objsubid INT2 = lock.advisory().map(AdvisoryKey::numbers);
        virtualtransaction TEXT = NULL;
        pid INT4 = lock.process;
        mode TEXT = lock.mode;
        granted BOOL = lock.waits_since.is_none();
        fastpath BOOL = false;
        waitstart TIME = lock.waits_since.map(Value::TimestampTz);
    }),
];
