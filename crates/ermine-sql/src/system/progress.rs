//! How far long statements are: PostgreSQL's `pg_stat_progress_..`, with NULL for what is not counted here.
//!
//! As in PostgreSQL, every role sees that there is such a statement, and a role that may not see the statements of its
//! user sees no more.

use std::sync::Arc;

use super::{Described, Known, NULL, PG_CATALOG, table};
use crate::catalog::{
    progress::{Command, Phase, Reached},
    sessions::Presence,
};

/// A statement, and how far it is, if the role of the session may see that.
struct Shown {
    session: Arc<Presence>,
    reached: Option<Reached>,
}

impl Shown {
    fn number(&self, of: fn(Reached) -> u64) -> Option<i64> {
        self.reached.map(|reached| i64::try_from(of(reached)).unwrap_or(i64::MAX))
    }

    fn command(&self) -> Option<&'static str> {
        self.reached.map(|reached| match reached.command {
            Command::CopyFrom => "COPY FROM",
            Command::CopyTo => "COPY TO",
            Command::CreateIndex => "CREATE INDEX",
        })
    }

    fn phase(&self) -> Option<&'static str> {
        self.reached.map(|reached| match reached.phase {
            Phase::Initializing => "initializing",
            Phase::Waiting => "waiting for writers before build",
            Phase::Purging => "building index: removing outdated entries",
            Phase::Scanning => "building index: scanning table",
        })
    }
}

fn statements<'k>(known: Known<'k>, is_shown: fn(Command) -> bool) -> impl Iterator<Item = Shown> + use<'k> {
    known.catalog.sessions.all().into_iter().filter_map(move |session| {
        let reached = session.footprint.progress.reached().filter(|reached| is_shown(reached.command))?;
        Some(Shown { reached: known.may_see(session.role).then_some(reached), session })
    })
}

/// Returns the backups in progress.
fn backups(known: Known<'_>) -> impl Iterator<Item = (Arc<Presence>, Option<ermine::Progress>)> {
    known.catalog.sessions.all().into_iter().filter_map(move |session| {
        let progress = session.doing().backup?;
        let may_see = known.may_see(session.role);
        Some((session, may_see.then_some(progress)))
    })
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 pg_stat_progress_copy, known =>
        statements(known, |command| command != Command::CreateIndex), |of| {
        pid INT4 = of.session.process();
        datid OID = of.session.database_number;
        datname NAME = &*of.session.database;
        relid OID = of.reached.map(|reached| reached.relation);
        command TEXT = of.command();
        type TEXT = of.reached.map(|_| "PIPE");
        bytes_processed INT8 = of.number(|reached| reached.bytes);
        bytes_total INT8 = of.number(|_| 0);
        tuples_processed INT8 = of.number(|reached| reached.rows);
        tuples_excluded INT8 = of.number(|reached| reached.rows_excluded);
    }),
    table!(PG_CATALOG, 0 pg_stat_progress_create_index, known =>
        statements(known, |command| command == Command::CreateIndex), |of| {
        pid INT4 = of.session.process();
        datid OID = of.session.database_number;
        datname NAME = &*of.session.database;
        relid OID = of.reached.map(|reached| reached.relation);
        index_relid OID = of.reached.map(|reached| reached.index);
        command TEXT = of.command();
        phase TEXT = of.phase();
        lockers_total INT8 = NULL;
        lockers_done INT8 = NULL;
        current_locker_pid INT8 = NULL;
        blocks_total INT8 = NULL;
        blocks_done INT8 = NULL;
        tuples_total INT8 = of.number(|reached| reached.rows_total);
        tuples_done INT8 = of.number(|reached| reached.rows);
        partitions_total INT8 = of.number(|_| 0);
        partitions_done INT8 = of.number(|_| 0);
    }),
    table!(PG_CATALOG, 0 pg_stat_progress_basebackup, known => backups(known), |(session, progress)| {
        pid INT4 = session.process();
        phase TEXT = progress.map(|progress| progress.step);
        backup_total INT8 = progress.filter(|progress| progress.total > 0).map(|progress| progress.total as i64);
        backup_streamed INT8 = progress.map(|progress| progress.done as i64);
        tablespaces_total INT4 = progress.map(|_| 1i32);
        tablespaces_streamed INT4 = progress.map(|_| 0i32);
    }),
];
