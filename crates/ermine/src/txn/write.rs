//! Insert, update, upsert and delete.
//!
//! A write puts a version with the transaction's TID in front of the row's chain with one compare-and-swap; from then
//! on that version is the row's write lock (ERMIA 3.5). A transaction that reads a snapshot and meets such a version,
//! or one committed after its snapshot, loses: first updater wins. Under read committed it waits until the other
//! transaction has ended, and then overwrites the committed version; it loses if the other transaction itself waits
//! (wait-depth limiting, SSN 7.1), so that no transactions wait in a circle. A new key is inserted row first, index
//! entry second, so that a reader that finds the entry finds the row.

use std::{ops::Range, time::Duration};

use super::{
    commit_order::Write,
    read::check_key,
    running::{Operation, Txn},
    trace::LookupKey,
    visible::{Seen, Standing, standing},
};
use crate::{
    access::{Put, RowLock},
    durable::eviction::Progress,
    error::{AbortKind, Error, Result},
    ids::{IndexOrdinal, RowId, Stamp, TableId, Tid},
    index::{Insert, Lookup},
    mutant::Mutant,
    platform::budget::Need,
    rows::chain::{Below, CertifierStamps, Kind, NewVersion, SlotContent, VersionPtr},
    scheme::{Certifier, Conflict, ConflictSite, Scheme, Shared, StampsOf},
    sync::{Instant, Spin},
    table::TableStore,
    txn::table::Inquiry,
    worker::State,
};

/// The wait of a write for rows to leave memory, before it fails for want of memory: as long as more can leave, since
/// the device may be slow, or this thread faster than the one that evicts.
#[derive(Default)]
struct WaitForRoom {
    pauses: u32,
    /// How often eviction had been in vain when the wait began.
    vain: Option<u64>,
    /// It is of no use to wait on.
    is_over: bool,
}

impl WaitForRoom {
    const PAUSE: Duration = Duration::from_micros(500);
    /// The numbers of pauses that it takes at least, and at most.
    const PAUSES: Range<u32> = 40..10_000;
    /// What was in vain once may have begun before the wait.
    const VAIN: u64 = 2;
}

/// The content that a write puts under a key.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Value(&'a [u8]),
    Nothing,
}

impl<'a> Content<'a> {
    fn kind(self) -> Kind {
        match self {
            Self::Value(_) => Kind::Live,
            Self::Nothing => Kind::Tombstone,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Value(bytes) => bytes,
            Self::Nothing => &[],
        }
    }

    /// Returns the value, if the write leaves one.
    pub(super) fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(bytes) => Some(bytes),
            Self::Nothing => None,
        }
    }
}

/// The head of a chain, as a writer finds it.
enum Head<H> {
    /// The transaction's own version.
    Own(VersionPtr<H>),
    /// The newest committed version, which the transaction may overwrite.
    Committed(VersionPtr<H>, Stamp),
    /// Another thread is about to change the head: look again.
    Moving,
    /// The version of a running transaction, which has to end first.
    Held(Tid),
}

/// The competition for a row.
enum Contest {
    /// None: the newest version is the transaction's own.
    Own,
    /// None: the newest version was committed at this stamp, and the transaction sees it.
    Open(Stamp),
    /// Another transaction, which is running, or has committed since the snapshot.
    With(Option<Tid>),
    /// An aborted transaction whose version is about to be unlinked: look again.
    Moving,
}

/// A write that is being executed.
struct Request<'a, H: CertifierStamps> {
    table: &'a TableStore<H>,
    key: &'a [u8],
    content: Content<'a>,
    site: ConflictSite,
    tid: Tid,
    /// The position in the transaction's write set, if the write is the first of its row.
    write: u32,
}

/// Rows that are visited between two questions whether to go on.
const ROWS_BETWEEN: u64 = 4096;

/// The result of a write.
enum Written {
    /// Finished; whether a row was written.
    Done(bool),
    /// Not written yet: to be tried again when this transaction, which has written the row at this place, has ended.
    After(Tid, ConflictSite),
}

/// The result of one try of a write.
enum Tried {
    Done(bool),
    Again,
    /// To be tried again when this transaction has ended.
    After(Tid),
}

impl<S: Scheme> Txn<'_, S> {
    /// Writes a value; returns whether a row was written.
    pub(crate) fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
        if value.len() > crate::MAX_VALUE_BYTES {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        self.write(table, key, Content::Value(value), how)
    }

    /// Deletes a row; returns whether there was one.
    pub(crate) fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
        self.write(table, key, Content::Nothing, Put::Update)
    }

    /// Returns the obstacle that a write of a row would meet.
    pub(crate) fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock> {
        let operation = self.operation()?;
        let table = self.engine.live_table(table)?;
        if operation.prepared_reader(table.id, key).is_some() {
            return Ok(RowLock::Held);
        }
        let row = table.primary.get(&operation.entered.nodes, key).row;
        Ok(row.map_or(RowLock::Free, |row| operation.obstacle(table, row)))
    }

    /// Whether the transaction sees the newest committed versions of all rows of a table; gives up when `goes_on` says
    /// so.
    pub(crate) fn sees_newest(&self, table: TableId, goes_on: &mut dyn FnMut() -> bool) -> Result<bool> {
        let table = self.engine.live_table(table)?;
        let mut next = 0;
        while next < table.rows.count() && goes_on() {
            let operation = self.operation()?;
            let rows = next..table.rows.count().min(next + ROWS_BETWEEN);
            next = rows.end;
            if rows.map(RowId).any(|row| matches!(operation.obstacle(table, row), RowLock::Outdated)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(&self, table: TableId, key: &[u8], content: Content<'_>, how: Put) -> Result<bool> {
        check_key(key)?;
        let mut wait = WaitForRoom::default();
        loop {
            let mut operation = self.writing_operation(table)?;
            let live = self.engine.live_table(table)?;
            live.check_writable()?;
            // Before any change.
            match operation.provide(live, content, wait.is_over) {
                // A transaction that writes much is faster than eviction.
                Err(Error::OutOfMemory { .. }) if !wait.is_over && self.engine.evicts() => {
                    drop(operation);
                    self.wait_for_room(live, &mut wait);
                    continue;
                }
                provided => provided?,
            }
            let (other, site) = match operation.write(live, key, content, how) {
                Ok(Written::Done(written)) => return Ok(written),
                Ok(Written::After(other, site)) => (other, site),
                Err(error) => return Err(operation.fail_write(error)),
            };
            // Waits outside of the epochs: the table is looked up again afterwards.
            drop(operation);
            self.outwait(other, site)?;
        }
    }

    /// Waits a moment for rows of others to leave memory, outside of the epoch of operations.
    #[cold]
    fn wait_for_room(&self, table: &TableStore<StampsOf<S>>, wait: &mut WaitForRoom) {
        // No row leaves memory while the visitor of a scan is called, and indexes do not.
        let is_nested = self.worker().pins.versions.depth() > u32::from(self.pinned);
        if is_nested || self.engine.check_fixed(table.need(), self.worker().state.borrow().kept_bytes()).is_err() {
            wait.is_over = true;
            return;
        }
        let vain = || self.engine.eviction.vain();
        let before = *wait.vain.get_or_insert_with(vain);
        self.rest();
        // Also if nothing is due: memory that is free for rows may be on its way back to the budget.
        let progress = self.engine.evict_some(false);
        std::thread::sleep(WaitForRoom::PAUSE);
        self.rest();
        wait.pauses += 1;
        let is_vain = progress == Progress::Idle || vain() - before >= WaitForRoom::VAIN;
        let Range { start: least, end: most } = WaitForRoom::PAUSES;
        wait.is_over = wait.pauses >= if is_vain { least } else { most };
    }

    /// Waits until another transaction has ended that has written the row at `place`. The wait is outside of the
    /// epochs.
    #[cold]
    fn outwait(&self, other: Tid, site: ConflictSite) -> Result<()> {
        let (Shared { tids, prepared, .. }, wait_max) = (&self.engine.shared, self.engine.options.wait_max);
        let state = self.worker().state.borrow();
        let waiting = state.tids.begin_waiting();
        let (mut spin, since) = (Spin::default(), Instant::now());
        let lost = if tids.waits(other) || wait_max.is_zero() {
            Some(AbortKind::WriteConflict)
        } else {
            loop {
                if !matches!(tids.inquire(other), Inquiry::InFlight | Inquiry::Committing(_)) {
                    break None;
                }
                // A prepared transaction may stay prepared for long.
                if prepared.any() && prepared.has(other) {
                    break Some(AbortKind::WriteConflict);
                }
                if since.elapsed() >= wait_max {
                    break Some(AbortKind::Timeout);
                }
                self.rest();
                spin.wait();
            }
        };
        drop(waiting);
        drop(state);
        match lost {
            None => Ok(()),
            Some(kind) => {
                Err(self.last_operation(self.enter()).lose(Conflict { kind, ..Conflict::write(site, Some(other)) }))
            }
        }
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Provides memory for a write: for its version, and for its place in the write set. `hurries`: it is not to wait for
    /// rows to leave memory.
    #[inline]
    fn provide(&mut self, table: &TableStore<StampsOf<S>>, content: Content<'_>, hurries: bool) -> Result<()> {
        let State { arena, kept, .. } = &mut *self.state;
        if arena.has_room(VersionPtr::<StampsOf<S>>::bytes(content.bytes().len())) && !kept.is_write_due() {
            return Ok(());
        }
        self.provide_anew(table, content, hurries)
    }

    /// Indexes may grow into the part of the reserve that is for reads.
    fn provide_anew(&mut self, table: &TableStore<StampsOf<S>>, content: Content<'_>, hurries: bool) -> Result<()> {
        let need = content.value().map_or(Need::Shrink, |_| table.need());
        let State { arena, absences, savepoints, .. } = &mut *self.state;
        // Where rows can be evicted, what is taken from the reserve is given back to it: a transaction that begins waits
        // for that, and one that runs goes on when it has waited.
        let evicts = self.engine.evicts();
        let mut provide = |bytes| {
            let provided = arena.provide(VersionPtr::<StampsOf<S>>::bytes(bytes), need);
            if provided.is_err() && evicts && hurries {
                arena.provide(VersionPtr::<StampsOf<S>>::bytes(bytes), Need::Work)
            } else {
                provided
            }
        };
        provide(content.bytes().len())?;
        if let Content::Value(_) = content {
            if S::Certifier::TRACKS && absences.current(table.id, savepoints.last_writes()).is_none() {
                provide(0)?;
            }
            self.engine.budget.check(0, Need::Work)?;
            self.engine.check_fixed(need, self.state.kept_bytes())?;
        }
        self.count_kept(need).or_else(|error| if evicts { self.count_kept(Need::Work) } else { Err(error) })
    }

    /// Writes a row; memory for it has been provided.
    fn write(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        key: &[u8],
        content: Content<'_>,
        how: Put,
    ) -> Result<Written> {
        let site = self.state.sets.keep(table.id, key)?;
        if self.state.prepared_as.is_none()
            && let Some(holder) = self.prepared_reader(table.id, key)
        {
            // The transaction would lose at its commit, if the holder has not ended by then.
            return Err(self.lose(Conflict::prepared(site, holder)));
        }
        let written = self.write_key(table, key, site, content, how);
        self.state.arena.give_back_provided();
        written
    }

    fn write_key(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        key: &[u8],
        site: ConflictSite,
        content: Content<'_>,
        how: Put,
    ) -> Result<Written> {
        let tid = self.tid()?;
        let write = u32::try_from(self.state.sets.writes.len());
        let write = write.map_err(|_| Error::Limit("4 Gi rows that one transaction writes"))?;
        let request = Request { table, key, content, site, tid, write };
        // Inserted keys mostly do not exist yet: this saves one descent.
        if how == Put::Insert
            && table.secondaries().all(|(_, secondary)| !secondary.uniqueness.is_unique())
            && let Tried::Done(written) = self.insert_fresh(&request)?
        {
            return Ok(Written::Done(written));
        }
        let mut spin = Spin::default();
        loop {
            match self.try_write(&request, how)? {
                Tried::Done(written) => return Ok(Written::Done(written)),
                Tried::After(other) => return Ok(Written::After(other, site)),
                Tried::Again => spin.wait(),
            }
        }
    }

    fn try_write(&mut self, request: &Request<'_, StampsOf<S>>, how: Put) -> Result<Tried> {
        let Request { table, key, site, .. } = *request;
        if let Some(row) = self.state.sets.find(table.id, key)
            && let Some(done) = self.try_rewrite(request, row, how)?
        {
            return Ok(done);
        }
        let at = self.observed_from();
        let Lookup { row, seen } = table.primary.get(&self.entered.nodes, key);
        let Some(row) = row else {
            if how == Put::Update {
                if self.is_observed() {
                    self.trace_missing(table, LookupKey::primary(key), at)?;
                }
                self.missed(&seen, site, key)?;
                return Ok(Tried::Done(false));
            }
            return self.insert_fresh(request);
        };
        let head = match self.head(table, row, request)? {
            Head::Moving => return Ok(Tried::Again),
            Head::Held(other) => return Ok(Tried::After(other)),
            head => head,
        };
        let (Head::Own(version) | Head::Committed(version, _)) = head else { unreachable!("handled above") };
        let live = version.kind() == Kind::Live;
        match how {
            Put::Insert if live => {
                if let Head::Committed(version, created) = head {
                    self.read_head(request, version, created, at)?;
                }
                Err(Error::KeyExists { table: table.name_of_keys(), index: None, key: key.into() })
            }
            Put::Update if !live => {
                if let Head::Committed(version, created) = head {
                    self.read_head(request, version, created, at)?;
                    self.missed(&seen, site, key)?;
                }
                Ok(Tried::Done(false))
            }
            _ => match head {
                Head::Own(own) => self.replace_own(request, row, own),
                Head::Committed(old, created) => self.overwrite(request, row, old, created),
                Head::Moving | Head::Held(_) => unreachable!("handled above"),
            },
        }
    }

    /// Returns another transaction that is prepared and has read the key.
    fn prepared_reader(&self, table: TableId, key: &[u8]) -> Option<Tid> {
        let prepared = &self.engine.shared.prepared;
        if prepared.any() { prepared.holder(table, key, self.state.tid) } else { None }
    }

    /// Tracks the read of a row's head that decided that nothing is written.
    fn read_head(
        &mut self,
        request: &Request<'_, StampsOf<S>>,
        version: VersionPtr<StampsOf<S>>,
        created: Stamp,
        at: Stamp,
    ) -> Result<()> {
        if self.is_observed() {
            self.trace_read(request.table, LookupKey::primary(request.key), version, at, &Seen::At(version, created))?;
        }
        self.track(request.table, version, created, request.site)
    }

    /// Overwrites a row that the transaction has just read, where the row can still be overwritten.
    fn try_rewrite(&mut self, request: &Request<'_, StampsOf<S>>, row: RowId, how: Put) -> Result<Option<Tried>> {
        let head = self.head(request.table, row, request)?;
        let (Head::Own(version) | Head::Committed(version, _)) = head else { return Ok(None) };
        if how == Put::Insert || version.kind() != Kind::Live {
            return Ok(None);
        }
        match head {
            Head::Own(own) => self.replace_own(request, row, own).map(Some),
            Head::Committed(old, created) => self.overwrite(request, row, old, created).map(Some),
            Head::Moving | Head::Held(_) => Ok(None),
        }
    }

    /// Returns the head of a row, if the transaction may overwrite it.
    fn head(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        request: &Request<'_, StampsOf<S>>,
    ) -> Result<Head<StampsOf<S>>> {
        let Some(head) = table.rows.slot(row).head() else {
            let need = if request.content.value().is_some() { Need::Work } else { Need::Shrink };
            self.bring_in(table, row, need)?;
            return Ok(Head::Moving);
        };
        match self.contest(head, Some(request.tid)) {
            Contest::Own => Ok(Head::Own(head)),
            Contest::Open(stamp) => Ok(Head::Committed(head, stamp)),
            Contest::Moving => Ok(Head::Moving),
            Contest::With(Some(other)) if !self.reads_snapshot() => Ok(Head::Held(other)),
            Contest::With(other) => Err(self.lose(Conflict::write(request.site, other))),
        }
    }

    /// Returns the obstacle that a write of a row would meet, prepared readers aside.
    fn obstacle(&self, table: &TableStore<StampsOf<S>>, row: RowId) -> RowLock {
        let mut spin = Spin::default();
        loop {
            // An empty slot: the row is in its file only, or is being removed from the table.
            let SlotContent::Head(head) = table.rows.slot(row).peek() else { return RowLock::Free };
            match self.contest(head, self.state.tid) {
                Contest::Own | Contest::Open(_) => return RowLock::Free,
                Contest::With(Some(_)) => return RowLock::Held,
                Contest::With(None) => return RowLock::Outdated,
                Contest::Moving => spin.wait(),
            }
        }
    }

    /// Determines which other transaction competes for a row, whose newest version is `head`.
    fn contest(&self, head: VersionPtr<StampsOf<S>>, tid: Option<Tid>) -> Contest {
        let begin = self.state.begin;
        // A writer whose outcome cannot cause a conflict is waited for; the wait is short.
        let snapshot = self.reads_snapshot();
        let wait_below = if snapshot { begin } else { Stamp::INFINITY };
        match standing(&self.engine.shared, tid, wait_below, head) {
            Standing::Own => Contest::Own,
            Standing::Committed(stamp) if stamp < begin || !snapshot || Mutant::LostUpdate.is_on() => {
                Contest::Open(stamp)
            }
            Standing::Void => Contest::Moving,
            Standing::Unfinished(other) => Contest::With(Some(other)),
            Standing::Committed(_) => Contest::With(None),
        }
    }

    /// Puts a version in front of a committed one.
    fn overwrite(
        &mut self,
        request: &Request<'_, StampsOf<S>>,
        row: RowId,
        old: VersionPtr<StampsOf<S>>,
        created: Stamp,
    ) -> Result<Tried> {
        let Request { table, key, content, site, tid, write } = *request;
        let before = (old.kind() == Kind::Live).then_some(old);
        let entries = self.new_entries(table, key, before, content)?;
        self.check_unique(table, Some(row), &entries)?;
        let below = Below::Older(old);
        let new = NewVersion { kind: content.kind(), tid, below, write, payload: content.bytes() };
        let Some(new) = table.rows.slot(row).push(&mut self.state.arena, Some(old), new) else {
            return Ok(Tried::Again);
        };
        self.wrote(Write { row, new, old: Some(old), fresh: false, site }, content);
        self.need_entries(table, row, &entries)?;
        let overwritten = self.state.certifier.overwrite(tid, old, created, site);
        overwritten.map_err(|conflict| self.lose(conflict))?;
        if self.is_observed() {
            self.trace_write(table, key, before, content)?;
        }
        self.add_entries(table, row, &entries, self.state.begin)?;
        Ok(Tried::Done(true))
    }

    /// Replaces one of the transaction's own versions.
    fn replace_own(
        &mut self,
        request: &Request<'_, StampsOf<S>>,
        row: RowId,
        own: VersionPtr<StampsOf<S>>,
    ) -> Result<Tried> {
        let Request { table, key, content, tid, site, .. } = *request;
        let before = (own.kind() == Kind::Live).then_some(own);
        let entries = self.new_entries(table, key, before, content)?;
        self.check_unique(table, Some(row), &entries)?;
        let (below, write) = (own.below(), own.write());
        let new = NewVersion { kind: content.kind(), tid, below, write, payload: content.bytes() };
        let new = table.rows.slot(row).replace(&mut self.state.arena, own, new);
        self.state.replaced(own);
        self.state.sets.writes[write as usize].new = new;
        self.need_entries(table, row, &entries)?;
        if self.is_observed() {
            self.trace_write(table, key, before, content)?;
        }
        self.add_entries(table, row, &entries, self.state.begin)?;
        // The key is kept with the first write of the row.
        self.state.sets.forget(site);
        Ok(Tried::Done(true))
    }

    /// Inserts a key that the index does not contain.
    fn insert_fresh(&mut self, request: &Request<'_, StampsOf<S>>) -> Result<Tried> {
        let Request { table, key, content, site, tid, write } = *request;
        let entries = self.new_entries(table, key, None, content)?;
        self.check_unique(table, None, &entries)?;
        let row = self.state.row_ids(table.id).take(&table.rows)?;
        let slot = table.rows.slot(row);
        let below = if S::Certifier::TRACKS { Below::Absence(self.absent_version(tid, site)) } else { Below::Nothing };
        let new = NewVersion { kind: content.kind(), tid, below, write, payload: content.bytes() };
        let new = slot.push(&mut self.state.arena, None, new).expect("no other transaction knows the row yet");
        match table.primary.insert_near(&self.entered.nodes, self.state.sets.near(table.id), key, row) {
            Insert::Exists(..) => {
                slot.install(Some(new), None);
                self.state.row_ids(table.id).give(row);
                self.state.retire_version(self.engine, new);
                if let Some(absent) = self.state.absences.pop_from(write as usize) {
                    self.state.retire_version(self.engine, absent);
                }
                Ok(Tried::Again)
            }
            Insert::Done(inserted) => {
                let old = self.state.absences.begun_at(write as usize);
                self.wrote(Write { row, new, old, fresh: true, site }, content);
                self.need_entries(table, row, &entries)?;
                self.state.sets.entered(table.id, &inserted);
                self.inserted(IndexOrdinal::PRIMARY, &inserted, site)?;
                if self.is_observed() {
                    self.trace_write(table, key, None, content)?;
                }
                self.add_entries(table, row, &entries, self.state.begin)?;
                Ok(Tried::Done(true))
            }
        }
    }

    /// Returns the absent version for an insert; the first one creates it.
    #[inline]
    fn absent_version(&mut self, tid: Tid, site: ConflictSite) -> VersionPtr<StampsOf<S>> {
        let State { absences, arena, certifier, sets, savepoints, .. } = &mut *self.state;
        if let Some(version) = absences.current(site.table, savepoints.last_writes()) {
            return version;
        }
        let version = VersionPtr::absent(arena);
        // The mark is set before another transaction can find the row. Nothing depends on a version that was never
        // seen; a conflict that keeps this transaction from writing at all shows when the entry is inserted
        // (`inserted`).
        let _ = certifier.overwrite(tid, version, Stamp::ZERO, site);
        absences.push(version, site.table, sets.writes.len());
        version
    }

    /// Adds a write to the write set.
    fn wrote(&mut self, write: Write<StampsOf<S>>, content: Content<'_>) {
        /// Bytes of a record's header in the log.
        const RECORD_BYTES: u64 = 32;
        if !write.site.table.is_unlogged() {
            self.state.sets.log_bytes += RECORD_BYTES + content.bytes().len() as u64 + u64::from(write.site.length);
        }
        self.state.sets.writes.push(write);
    }
}
