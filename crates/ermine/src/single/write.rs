//! Insert, update, upsert and delete.
//!
//! The transaction buffers a write until it commits. A key that is not in the index is inserted at once, row first,
//! index entry second, with a record that says that there is no row; so later readers of the range find the entry, and
//! the leaf's version informs the earlier ones.

use super::{
    pending::Write,
    running::{Operation, RecordOf, TableOf, Txn},
    savepoints::Replaced,
    worker::State,
};
use crate::{
    access::Put,
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, TableId},
    index::{Insert, Lookup},
    platform::budget::Need,
    rows::{
        copies::Copied,
        in_place::{RecordPtr, TidWord},
    },
    scheme::{
        ConflictSite,
        in_place::{InPlace, Ranges, Read, stale},
    },
    sync::Spin,
    table::{IndexSet, NewEntries},
    txn::check_key,
};

/// One write in progress.
pub(super) struct Request<'a, P: InPlace> {
    pub(super) table: &'a TableOf<P>,
    pub(super) key: &'a [u8],
    /// `None`: a deletion.
    pub(super) value: Option<&'a [u8]>,
    pub(super) how: Put,
    pub(super) site: ConflictSite,
    /// The table's indexes as of the beginning of the write.
    pub(super) indexes: IndexSet,
}

/// The outcome of one try of a write.
pub(super) enum Tried {
    Done(bool),
    Again,
}

impl<P: InPlace> Txn<'_, P> {
    /// Writes a value; returns whether a row was written.
    pub(crate) fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
        if value.len() > crate::MAX_VALUE_BYTES {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        self.write(table, key, Some(value), how)
    }

    /// Deletes a row; returns whether there was one.
    pub(crate) fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
        self.write(table, key, None, Put::Update)
    }

    fn write(&self, table: TableId, key: &[u8], value: Option<&[u8]>, how: Put) -> Result<bool> {
        check_key(key)?;
        let mut operation = self.writing_operation()?;
        let table = self.engine.tables.live(table)?;
        let indexes = table.check_writable()?;
        operation.provide(value)?;
        let written = operation.write_key(table, indexes, key, value, how).map_err(|error| operation.fail_write(error));
        operation.state.arena.give_back_provided();
        written
    }
}

impl<P: InPlace> Operation<'_, P> {
    /// Checks that there is memory for a write that is buffered until the commit. Indexes may use the part of the
    /// reserve that reads have.
    fn provide(&mut self, value: Option<&[u8]>) -> Result<()> {
        let need = if value.is_some() { Need::Work } else { Need::Shrink };
        self.engine.budget.check(value.map_or(0, |value| value.len() as u64), need)?;
        if self.state.kept.is_write_due() { self.count_kept(need) } else { Ok(()) }
    }

    /// Checks that there is memory for the value that a record gets at the commit.
    fn reserve(&mut self, record: RecordOf<P>, request: &Request<'_, P>) -> Result<()> {
        let need = request.table.need();
        let Some(value) = request.value.filter(|value| !record.has_room(value.len())) else { return Ok(()) };
        let bytes = RecordPtr::<P::Control>::outgrown_bytes_for(value.len()) as u64;
        self.engine.budget.check(bytes, need)?;
        self.state.reserved += bytes;
        let kept = self.state.kept_bytes();
        self.state.kept.grow(kept, &self.engine.budget, need)
    }

    fn write_key(
        &mut self,
        table: &TableOf<P>,
        indexes: IndexSet,
        key: &[u8],
        value: Option<&[u8]>,
        how: Put,
    ) -> Result<bool> {
        let site = self.state.sets.keep(table.id, key)?;
        self.reach_key(table, key, true, site)?;
        self.write(&Request { table, key, value, how, site, indexes })
    }

    fn write(&mut self, request: &Request<'_, P>) -> Result<bool> {
        let Request { table, key, how, site, .. } = *request;
        // The key of an insert is mostly new: this saves one descent.
        if how == Put::Insert
            && table.secondaries().all(|(_, secondary)| !secondary.uniqueness.is_unique())
            && let Tried::Done(written) = self.insert_fresh(request)?
        {
            return Ok(written);
        }
        if let Some(row) = self.state.sets.find(table.id, key)
            && let Tried::Done(written) = self.write_row(request, row)?
        {
            return Ok(written);
        }
        let mut spin = Spin::default();
        loop {
            let at = self.observed_from();
            let Lookup { row, seen } = table.primary.get(&self.nodes, key);
            let tried = match row {
                Some(row) => self.write_row(request, row)?,
                None if P::DECLARES && !P::is_declared(&self.state.scheme, None, true) => {
                    self.check_declared(table, Some(key), None, true)?;
                    Tried::Again
                }
                None if how == Put::Update => Tried::Done(false),
                None => self.insert_fresh(request)?,
            };
            match tried {
                Tried::Done(true) => return Ok(true),
                Tried::Done(false) => {
                    if self.saw_leaf(IndexOrdinal::PRIMARY, &seen, site)? {
                        if row.is_none() && self.is_observed() {
                            self.trace_missing(table, key, at);
                        }
                        return Ok(false);
                    }
                }
                Tried::Again => spin.wait(),
            }
        }
    }

    /// Writes a row that is in the index, even if its record says that there is none.
    fn write_row(&mut self, request: &Request<'_, P>, row: RowId) -> Result<Tried> {
        let Request { table, how, site, .. } = *request;
        let Some(record) = table.rows.slot(row).record() else { return Ok(Tried::Again) };
        self.check_declared(table, Some(request.key), Some(record), true)?;
        if let Some(at) = self.state.positions.find(&self.state.sets.writes, record) {
            return self.rewrite(request, at);
        }
        if how == Put::Insert {
            let (word, _) = self.look(request, record)?;
            if !word.is_absent() {
                return Err(key_exists(request));
            }
        }
        self.reserve(record, request)?;
        let claimed = P::claim(&self.engine.shared, &mut self.state.scheme, record, site);
        claimed.map_err(|conflict| self.lose(conflict))?;
        // After the claim: a removal of the key checks in the opposite order.
        if record.want().is_gone() {
            return Ok(Tried::Again);
        }
        let (word, before) = match how {
            Put::Update => self.look(request, record)?,
            _ if table.has_secondaries() => record.read(Some(&mut self.state.copies)),
            _ => (TidWord::UNBORN, None),
        };
        match how {
            Put::Update if word.is_gone() => return Ok(Tried::Again),
            Put::Update if word.is_absent() => return Ok(Tried::Done(false)),
            _ => {}
        }
        let entries = self.new_entries(request, before)?;
        self.check_unique(table, Some(row), &entries)?;
        let moves = !entries.is_empty() || request.value.is_none();
        if self.is_observed() {
            self.trace_write(table, request.key, before, request.value)?;
        }
        self.add_write(request, record, row, word, moves);
        self.add_entries(table, row, &entries, false)?;
        Ok(Tried::Done(true))
    }

    /// Calls [`Self::depend_on`] and notes the read for an observer.
    fn look(&mut self, request: &Request<'_, P>, record: RecordOf<P>) -> Result<Read> {
        let at = self.observed_from();
        let (word, value) = self.depend_on(request, record)?;
        if self.is_observed() && !word.is_gone() {
            self.trace_read(request.table, request.key, at, word, value);
        }
        Ok((word, value))
    }

    /// Makes the transaction depend on whether there is a row. The row's bytes are read only if they are needed: for
    /// index entries, or for an observer.
    fn depend_on(&mut self, request: &Request<'_, P>, record: RecordOf<P>) -> Result<Read> {
        let wants_bytes = request.table.has_secondaries() || self.is_observed();
        self.read_record(record, request.site, wants_bytes)
    }

    /// Reads a record that the transaction writes.
    pub(super) fn read_record(&mut self, record: RecordOf<P>, site: ConflictSite, wants_bytes: bool) -> Result<Read> {
        let State { scheme, copies, last_tid, .. } = &mut *self.state;
        let copies = wants_bytes.then_some(copies);
        let (word, value) = match P::read(&self.engine.shared, scheme, record, site, copies) {
            Ok(read) => read,
            Err(conflict) => return Err(self.lose(conflict)),
        };
        *last_tid = (*last_tid).max(word.tid());
        Ok((word, value))
    }

    /// Returns the entries that the write needs and the row does not have.
    fn new_entries(&self, request: &Request<'_, P>, before: Option<Copied>) -> Result<NewEntries> {
        request.table.new_entries(request.key, before.map(|value| value.bytes(&self.nodes)), request.value)
    }

    /// Replaces a value that the transaction has written before.
    fn rewrite(&mut self, request: &Request<'_, P>, at: usize) -> Result<Tried> {
        let Request { table, key, how, .. } = *request;
        let Write { row, record, value: before, .. } = self.state.sets.writes[at];
        self.reserve(record, request)?;
        match how {
            Put::Insert if before.is_some() => return Err(key_exists(request)),
            Put::Update if before.is_none() => {
                if self.is_observed() {
                    self.trace_own(table, key, None);
                }
                return Ok(Tried::Done(false));
            }
            _ => {}
        }
        let entries = self.new_entries(request, before)?;
        self.check_unique(table, Some(row), &entries)?;
        self.replace_value(request, at, &entries)?;
        // The key is stored with the first write of the row.
        self.state.sets.forget(request.site);
        Ok(Tried::Done(true))
    }

    /// Writes a value that the row had before.
    pub(super) fn write_back(&mut self, request: &Request<'_, P>, at: usize) -> Result<()> {
        let entries = self.new_entries(request, self.state.sets.writes[at].value)?;
        self.replace_value(request, at, &entries)
    }

    fn replace_value(&mut self, request: &Request<'_, P>, at: usize, entries: &NewEntries) -> Result<()> {
        let Request { table, key, value, .. } = *request;
        let Write { row, value: before, .. } = self.state.sets.writes[at];
        if self.is_observed() {
            self.trace_write(table, key, before, value)?;
        }
        let value = value.map(|value| self.state.copies.push_bytes(value));
        let write = &mut self.state.sets.writes[at];
        write.moves |= !entries.is_empty() || value.is_none();
        write.value = value;
        if self.state.savepoints.any() {
            self.state.savepoints.replaced(Replaced { write: at, value: before });
        }
        self.add_entries(table, row, entries, true)
    }

    /// Inserts a key that the index does not have.
    fn insert_fresh(&mut self, request: &Request<'_, P>) -> Result<Tried> {
        let Request { table, key, value, how, site, .. } = *request;
        // If a transaction declares its accesses, all its keys exist.
        if P::DECLARES && !P::is_declared(&self.state.scheme, None, true) {
            return Ok(Tried::Again);
        }
        let entries = self.new_entries(request, None)?;
        self.check_unique(table, None, &entries)?;
        let State { scheme, garbage, arena, sets, .. } = &mut *self.state;
        let room = value.map_or(0, <[u8]>::len);
        arena.provide(RecordPtr::<P::Control>::bytes_for(room), table.need())?;
        let row = garbage.row_ids(table.id).take(&table.rows)?;
        let control = P::born(&self.engine.shared, scheme);
        let record = RecordPtr::create(arena, room, control);
        let slot = table.rows.slot(row);
        slot.set(Some(record));
        match table.primary.insert_near(&self.nodes, sets.near(table.id), key, row) {
            Insert::Exists(..) => {
                slot.set(None);
                // SAFETY: no entry led to the row, so no thread has found the record.
                unsafe { record.destroy(arena) };
                garbage.row_ids(table.id).give(row);
                Ok(Tried::Again)
            }
            Insert::Done(inserted) => {
                // First, so that a rollback finds it.
                self.add_write(request, record, row, TidWord::UNBORN, true);
                self.state.sets.entered(table.id, &inserted);
                let adopted = P::adopt(&self.engine.shared, &mut self.state.scheme, record, inserted.gap, site);
                adopted.map_err(|conflict| self.lose(conflict))?;
                if self.is_observed() {
                    self.trace_write(table, key, None, value)?;
                }
                self.inserted(IndexOrdinal::PRIMARY, &inserted, site)?;
                // The transaction's own insert does not invalidate its reads of the leaf. From now on, the absence of
                // the row is stated by the record, which other transactions find and write, too.
                if how == Put::Insert || P::RANGES == Ranges::AtCommit {
                    let (word, _) = self.depend_on(request, record)?;
                    if !word.is_unborn() {
                        return Err(self.lose(stale(site)));
                    }
                }
                self.add_entries(table, row, &entries, false)?;
                Ok(Tried::Done(true))
            }
        }
    }

    /// Adds a write to the write set.
    fn add_write(&mut self, request: &Request<'_, P>, record: RecordOf<P>, row: RowId, word: TidWord, moves: bool) {
        let State { sets, positions, copies, .. } = &mut *self.state;
        let value = request.value.map(|value| copies.push_bytes(value));
        let Request { site, indexes, .. } = *request;
        sets.writes.push(Write { record, row, site, value, word, indexes, moves });
        positions.added(&sets.writes);
    }
}

fn key_exists<P: InPlace>(request: &Request<'_, P>) -> Error {
    Error::KeyExists { table: request.table.name_of_keys(), index: None, key: request.key.into() }
}
