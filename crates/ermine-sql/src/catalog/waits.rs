//! The graph of the sessions that wait for others: for rows, tables and advisory locks. It finds deadlocks, and
//! shows which session blocks which.
//!
//! A session that waits is a node, with what it needs; its edges lead to the waiting sessions that have this, by their
//! footprints ([`super::footprint`]), or by the table of advisory locks. Sessions that do not wait are no nodes: they
//! are in no circle. What a waiting session has does not change while it waits, so edges for tables and advisory locks
//! are exact. An edge for a row may be outdated: the other transaction may have undone, with its statement, the write
//! that the wait was for. But a statement that waits for a row tries again after a moment, and meets a transaction or
//! succeeds. So a circle is real if all that wait for rows in it have met the others again since it was first seen.
//!
//! Of a circle, the session that began to wait last gives up. So a session looks for circles through itself among
//! sessions that began before it.
//!
//! No session waits forever: (1) a session whose obstacle is gone goes on: it looks for itself, at the latest after a
//! fixed time ([`super::row_queues`], [`super::latch`], [`super::advisory`]); waking it earlier is a matter of speed
//! only. (2) If it never goes on, following the edges from it leads to a session that does not wait, and so ends at its
//! client's pleasure, or into a circle, all of whose members are nodes, with their edges. Its last member looks again
//! and again (1), and all others meet again and again (1), so at one of its looks the circle is real, and it gives up.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use ermine::Tid;

use super::{
    advisory::{AdvisoryKey, AdvisoryLocks},
    definition::ObjectId,
    footprint::{Footprint, Hold},
    sessions::now,
};
use crate::error::{Result, SqlError, SqlState};

/// The thing that a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The end of the transaction that has a row.
    Row(Tid),
    Table(ObjectId, TableNeed),
    /// A lock, and whether shared.
    Advisory(AdvisoryKey, bool),
}

/// The way in which a session needs a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableNeed {
    /// To use it.
    Use,
    /// The right to change it.
    Change,
    /// To have it alone: it has the right to change it.
    Alone,
    /// The end of all transactions that use it: it has the right to change it.
    Outlast,
}

/// The sessions that wait.
#[derive(Default)]
pub(crate) struct Waits {
    graph: Mutex<Graph>,
    pub(crate) locks: AdvisoryLocks,
}

#[derive(Default)]
struct Graph {
    by_session: BTreeMap<u64, Node>,
    /// Waits that began so far.
    begun: u64,
}

struct Node {
    footprint: Arc<Footprint>,
    need: Need,
    /// The number of this wait, in the order in which waits began.
    number: u64,
    /// When the session last found that it has to wait.
    met: Instant,
    /// Microseconds since 2000-01-01.
    since: i64,
}

/// A session that waits, as others are shown it.
pub(crate) struct ShownWait {
    pub(crate) footprint: Arc<Footprint>,
    pub(crate) need: Need,
    pub(crate) since: i64,
}

/// A wait of a session, for one thing after another, until this is dropped.
pub(crate) struct Waiting {
    waits: Arc<Waits>,
    footprint: Arc<Footprint>,
    number: u64,
    /// Microseconds since 2000-01-01.
    since: i64,
    /// When the session began to need what it needs.
    needed: Option<Instant>,
    /// When a circle was first seen in which this session is to give up.
    circle: Option<Instant>,
}

impl Waits {
    /// Begins a wait of a session.
    pub(crate) fn begin(self: &Arc<Self>, footprint: &Arc<Footprint>) -> Waiting {
        let mut graph = self.graph();
        graph.begun += 1;
        let (number, since) = (graph.begun, now());
        Waiting { waits: self.clone(), footprint: footprint.clone(), number, since, needed: None, circle: None }
    }

    /// Returns all sessions that wait.
    pub(crate) fn all(&self) -> Vec<ShownWait> {
        let shown = |node: &Node| ShownWait { footprint: node.footprint.clone(), need: node.need, since: node.since };
        self.graph().by_session.values().map(shown).collect()
    }

    /// Returns what a session needs, if it waits.
    pub(crate) fn need(&self, session: u64) -> Option<Need> {
        self.graph().by_session.get(&session).map(|node| node.need)
    }

    /// Returns which of some sessions block one, if it waits.
    pub(crate) fn blockers(&self, session: u64, among: impl Iterator<Item = Arc<Footprint>>) -> Vec<Arc<Footprint>> {
        let graph = self.graph();
        let Some(node) = graph.by_session.get(&session) else { return Vec::new() };
        let obstacles = self.obstacles(session, node.need);
        let blocks = |other: &Arc<Footprint>| {
            let need = graph.by_session.get(&other.session).map(|node| node.need);
            other.session != session && (obstacles.contains(&other.session) || is_blocked(node.need, other, need))
        };
        among.filter(blocks).collect()
    }

    /// Returns the sessions that have an advisory lock that a session needs.
    fn obstacles(&self, session: u64, need: Need) -> Vec<u64> {
        match need {
            Need::Advisory(key, is_shared) => self.locks.obstacles(session, key, is_shared),
            Need::Row(_) | Need::Table(..) => Vec::new(),
        }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a session keeps another one from what it needs, advisory locks aside; `others` is what it needs itself.
fn is_blocked(need: Need, by: &Footprint, others: Option<Need>) -> bool {
    match need {
        Need::Row(holder) => by.has_rows_of(holder),
        // Those that come after a session that waits for the table alone wait for it.
        Need::Table(table, TableNeed::Use) => {
            by.has(table, Hold::Alone) || others == Some(Need::Table(table, TableNeed::Alone))
        }
        Need::Table(table, TableNeed::Change) => by.has(table, Hold::Change),
        Need::Table(table, TableNeed::Alone | TableNeed::Outlast) => by.uses(table),
        Need::Advisory(..) => false,
    }
}

impl Waiting {
    /// Records that the session has to wait for something, or for nothing just now; fails if it is the one that gives
    /// up in a circle of sessions that wait for one another.
    pub(crate) fn needs(&mut self, need: Option<Need>) -> Result<()> {
        let (now, own) = (Instant::now(), self.footprint.session);
        let mut graph = self.waits.graph();
        let Some(need) = need else {
            graph.by_session.remove(&own);
            self.circle = None;
            self.needed.take().into_iter().for_each(|since| self.footprint.add_wait(since.elapsed()));
            return Ok(());
        };
        self.needed.get_or_insert(now);
        let node = Node { footprint: self.footprint.clone(), need, number: self.number, met: now, since: self.since };
        graph.by_session.insert(own, node);
        if graph.circle(&self.waits, own, None).is_none() {
            self.circle = None;
            return Ok(());
        }
        let first = *self.circle.get_or_insert(now);
        match graph.circle(&self.waits, own, Some(first)) {
            Some(circle) => Err(graph.deadlock(&circle)),
            None => Ok(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.needed.take().into_iter().for_each(|since| self.footprint.add_wait(since.elapsed()));
        let by_session = &mut self.waits.graph().by_session;
        // A statement that waits for a row may wait for something else when it tries again.
        if by_session.get(&self.footprint.session).is_some_and(|node| node.number == self.number) {
            by_session.remove(&self.footprint.session);
        }
    }
}

impl Graph {
    /// Returns a circle of sessions, from `own` on, of which `own` began to wait last; with `after`, one in which all
    /// others that wait for rows have met the transactions they wait for after that time.
    fn circle(&self, waits: &Waits, own: u64, after: Option<Instant>) -> Option<Vec<u64>> {
        let (mut seen, mut path) = (BTreeSet::new(), vec![(own, self.edges(waits, own, own, after))]);
        while let Some((_, edges)) = path.last_mut() {
            match edges.pop() {
                Some(next) if next == own => return Some(path.into_iter().map(|(session, _)| session).collect()),
                Some(next) if seen.insert(next) => path.push((next, self.edges(waits, next, own, after))),
                Some(_) => {}
                None => _ = path.pop(),
            }
        }
        None
    }

    /// Returns the sessions for which one waits, as far as they may be in such a circle.
    fn edges(&self, waits: &Waits, from: u64, own: u64, after: Option<Instant>) -> Vec<u64> {
        let (Some(node), Some(last)) = (self.by_session.get(&from), self.by_session.get(&own)) else {
            return Vec::new();
        };
        let obstacles = waits.obstacles(from, node.need);
        let may_be_in = |(session, other): &(&u64, &Node)| {
            let is_exact = !matches!(other.need, Need::Row(_)) || after.is_none_or(|after| other.met > after);
            **session == own || other.number < last.number && is_exact
        };
        let is_next = |(session, other): &(&u64, &Node)| {
            **session != from
                && (obstacles.contains(session) || is_blocked(node.need, &other.footprint, Some(other.need)))
        };
        self.by_session.iter().filter(|one| may_be_in(one) && is_next(one)).map(|(session, _)| *session).collect()
    }

    /// Returns the error of the session that gives up.
    fn deadlock(&self, circle: &[u64]) -> SqlError {
        let nodes: Vec<_> = circle.iter().filter_map(|session| self.by_session.get(session)).collect();
        let line = |(at, node): (usize, &&Node)| {
            let (process, by) = (node.footprint.process(), nodes[(at + 1) % nodes.len()].footprint.process());
            let need = Described(node.need, node.footprint.database);
            format!("Process {process} waits for {need}; blocked by process {by}.")
        };
        let detail: Vec<_> = nodes.iter().enumerate().map(line).collect();
        SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .detail(detail.join("\n"))
            .hint("This session began to wait last, and has given up. The transaction might succeed if retried.")
    }
}

impl Need {
    /// The name of the lock in PostgreSQL.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Row(_) | Self::Advisory(_, true) | Self::Table(_, TableNeed::Outlast) => "ShareLock",
            Self::Advisory(_, false) => "ExclusiveLock",
            Self::Table(_, TableNeed::Use) => "AccessShareLock",
            Self::Table(_, TableNeed::Change | TableNeed::Alone) => "AccessExclusiveLock",
        }
    }

    /// The kind of the lock in PostgreSQL.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Row(_) => "transactionid",
            Self::Table(..) => "relation",
            Self::Advisory(..) => "advisory",
        }
    }
}

/// A need, as PostgreSQL describes it, and the number of the database.
struct Described(Need, ObjectId);

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(need, database) = self;
        write!(f, "{} on ", need.mode())?;
        match need {
            Need::Row(holder) => write!(f, "transaction {}", holder.as_u64() as u32),
            Need::Table(table, _) => write!(f, "relation {table} of database {database}"),
            Need::Advisory(key, _) => {
                let (first, second) = key.halves();
                write!(f, "advisory lock [{database},{first},{second},{}]", key.numbers())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprints<const N: usize>() -> [Arc<Footprint>; N] {
        std::array::from_fn(|at| Arc::new(Footprint::new(at as u64 + 1, 5)))
    }

    fn is_deadlock(done: Result<()>) -> bool {
        done.is_err_and(|error| error.state() == SqlState::DEADLOCK_DETECTED)
    }

    /// Each waits for the next; circles of every combination of things are found, by the last one only.
    #[test]
    fn circles_of_rows_tables_and_advisory_locks_are_found() {
        type Give = fn(&Waits, &Footprint) -> Need;
        let row: Give = |_, of| {
            of.set_tid(Tid::from_u64(of.session));
            Need::Row(Tid::from_u64(of.session))
        };
        let used: Give = |_, of| {
            of.adds(of.session as u32);
            Need::Table(of.session as u32, TableNeed::Alone)
        };
        let alone: Give = |_, of| {
            of.holds(of.session as u32, Hold::Alone);
            Need::Table(of.session as u32, TableNeed::Use)
        };
        let changed: Give = |_, of| {
            of.holds(of.session as u32, Hold::Change);
            Need::Table(of.session as u32, TableNeed::Change)
        };
        let advisory: Give = |waits, of| {
            let key = AdvisoryKey::One(5, of.session as i64);
            let mode = super::super::advisory::AdvisoryMode { is_shared: false, transaction: None };
            assert!(waits.locks.try_take(of.session, key, mode).unwrap());
            Need::Advisory(key, false)
        };
        let kinds = [row, used, alone, changed, advisory];
        for case in 0..kinds.len().pow(3) {
            let waits = Arc::new(Waits::default());
            let all = footprints::<3>();
            let gives = |at: usize| kinds[case / kinds.len().pow(at as u32) % kinds.len()];
            let needs: Vec<_> = (0..3).map(|at| gives(at)(&waits, &all[at])).collect();
            let mut waiting = all.each_ref().map(|one| waits.begin(one));
            // Each needs what the one before has; the first what the last has.
            for at in 0..2 {
                waiting[at].needs(Some(needs[(at + 2) % 3])).unwrap();
            }
            let mut found = waiting[2].needs(Some(needs[1]));
            if found.is_ok() {
                // Those that wait for rows have to meet again, and none but the last gives up.
                for at in 0..2 {
                    waiting[at].needs(Some(needs[(at + 2) % 3])).unwrap();
                }
                found = waiting[2].needs(Some(needs[1]));
            }
            assert!(is_deadlock(found), "case {case}");
            drop(waiting);
            assert!(waits.all().is_empty());
        }
    }

    /// A wait for a row that the other session has undone since is no edge of a circle.
    #[test]
    fn an_outdated_wait_makes_no_circle() {
        let waits = Arc::new(Waits::default());
        let [one, other] = footprints();
        one.set_tid(Tid::from_u64(1));
        other.set_tid(Tid::from_u64(2));
        let (mut first, mut last) = (waits.begin(&one), waits.begin(&other));
        first.needs(Some(Need::Row(Tid::from_u64(2)))).unwrap();
        for _ in 0..3 {
            last.needs(Some(Need::Row(Tid::from_u64(1)))).unwrap();
        }
        first.needs(None).unwrap();
        last.needs(Some(Need::Row(Tid::from_u64(1)))).unwrap();
        first.needs(Some(Need::Row(Tid::from_u64(2)))).unwrap();
        last.needs(Some(Need::Row(Tid::from_u64(1)))).unwrap();
        first.needs(Some(Need::Row(Tid::from_u64(2)))).unwrap();
        assert!(is_deadlock(last.needs(Some(Need::Row(Tid::from_u64(1))))));
    }

    #[test]
    fn those_behind_a_session_that_waits_for_a_table_are_blocked_by_it() {
        let waits = Arc::new(Waits::default());
        let all = footprints::<3>();
        let [user, changer, reader] = &all;
        user.adds(7);
        let (mut change, mut read) = (waits.begin(changer), waits.begin(reader));
        change.needs(Some(Need::Table(7, TableNeed::Alone))).unwrap();
        read.needs(Some(Need::Table(7, TableNeed::Use))).unwrap();
        let blockers = |session| -> Vec<u64> {
            waits.blockers(session, all.iter().cloned()).iter().map(|one| one.session).collect()
        };
        assert_eq!([blockers(1), blockers(2), blockers(3)], [vec![], vec![1], vec![2]]);
        user.ends();
        assert_eq!(blockers(2), [0; 0]);
    }
}
