//! The cold store: rows that have been moved out of the log, so that its oldest segments can be freed.
//!
//! The store consists of files of blocks, `cold-START` in hexadecimal digits, in an address space of their own. The
//! first block of a file is a label with the database's identity. A file is written by one run of the cleaner and never
//! changed; the checkpoint that first refers to it makes it count, and a file to which no checkpoint refers is removed.
//! When most of a file's rows are dead, the next checkpoint moves the live ones, and the file is removed.
//!
//! A checkpoint that fails removes its files, except those in which rows already have their home: these may not be
//! durable. The next checkpoint makes them durable.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::Result,
    ids::{RowId, TableId},
    log::{
        block::{BlockKind, Body, HEADER_BYTES},
        draft::Draft,
        identity::Identity,
        lsn::{Address, GRANULE, Lsn, OFFSET_MAX, Space},
        record::{Payload, Record},
        scan::{Extent, read_block},
    },
    mutant::Mutant,
    platform::file::{Directory, File, Open, write_again},
};

const PREFIX: &str = "cold-";

/// Bytes of the label at the beginning of a file.
const LABEL_BYTES: u64 = (HEADER_BYTES + Identity::BYTES) as u64;
const _: () = assert!(LABEL_BYTES.is_multiple_of(GRANULE));

/// Approximate bytes of a file.
const FILE_BYTES: u64 = 256 << 20;

/// Bytes between two syncs while a file is written, so that the last one is short (SiloR 3.3.2).
const SYNC_BYTES: u64 = 32 << 20;

/// Description of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ColdFile {
    /// Start and end in the space of the cold store.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Rows in the file, and the number of them that were live at the last checkpoint that counts.
    pub(crate) rows: u64,
    pub(crate) live: u64,
}

impl ColdFile {
    /// Its place in the space of the cold store.
    pub(crate) fn extent(&self) -> Extent {
        Extent { base: self.start, start: self.start, end: self.end, segment: 0 }
    }

    /// Whether most of the rows are dead.
    pub(crate) fn is_waste(&self) -> bool {
        self.live < self.rows.div_ceil(2)
    }

    /// Whether the description is plausible: it may have been read from a file.
    pub(crate) fn is_sound(&self) -> bool {
        let is_place = |offset: u64| offset.is_multiple_of(GRANULE) && offset <= OFFSET_MAX;
        is_place(self.start) && is_place(self.end) && self.start < self.end
    }
}

/// The name of the file that begins at `start`.
pub(crate) fn name_of(start: u64) -> String {
    format!("{PREFIX}{start:016x}")
}

/// The start of the file of that name, if it belongs to the cold store.
pub(crate) fn start_of(name: &str) -> Option<u64> {
    let start = u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (name_of(start) == name).then_some(start)
}

/// Files by their start.
type OpenFiles = BTreeMap<u64, (ColdFile, Arc<dyn File>)>;

/// The files of the cold store.
pub(crate) struct ColdStore {
    directory: Arc<dyn Directory>,
    identity: Identity,
    files: Mutex<OpenFiles>,
    /// Starts of the files that are not durable.
    unsynced: Mutex<BTreeSet<u64>>,
    /// Above all files that ever existed: no name is used twice, even while its file has still to be removed.
    next: AtomicU64,
}

impl ColdStore {
    /// Opens the store with the files that a checkpoint names. `others` exist as well, and are about to be removed.
    pub(crate) fn open(
        directory: Arc<dyn Directory>,
        identity: Identity,
        files: &[ColdFile],
        others: &[String],
    ) -> io::Result<Self> {
        let opened = files.iter().map(|file| {
            let open = directory.open(&name_of(file.start), Open::Read)?;
            Ok((file.start, (*file, open)))
        });
        let files = opened.collect::<io::Result<BTreeMap<_, _>>>()?;
        let end = files.values().next_back().map_or(GRANULE, |(file, _): &(ColdFile, _)| file.end);
        // No name is used twice, whatever files exist; but an implausibly distant name must not push the next one
        // beyond the reach of addresses.
        let others = others.iter().filter_map(|name| start_of(name)).filter(|start| *start < end + (1 << 46));
        let next = others.map(|start| (start + 1).next_multiple_of(GRANULE)).fold(end, u64::max);
        Ok(Self {
            directory,
            identity,
            files: Mutex::new(files),
            unsynced: Mutex::default(),
            next: AtomicU64::new(next),
        })
    }

    fn files(&self) -> MutexGuard<'_, OpenFiles> {
        self.files.lock().expect("no code panics while it holds the files")
    }

    fn unsynced(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.unsynced.lock().expect("no code panics while it holds the files")
    }

    /// Makes the files that a failed checkpoint left durable.
    pub(crate) fn mend(&self) -> io::Result<()> {
        let left = self.unsynced().clone();
        for start in left {
            let file = self.files().get(&start).cloned();
            if let Some((info, file)) = file {
                write_again(&*file, 0, info.end - info.start)?;
                file.sync()?;
            }
            self.unsynced().remove(&start);
        }
        Ok(())
    }

    /// All files, in order.
    pub(crate) fn list(&self) -> Vec<(ColdFile, Arc<dyn File>)> {
        self.files().values().cloned().collect()
    }

    /// Start of the store's space, for the addresses into it.
    pub(crate) fn start(&self) -> u64 {
        // Relaxed: the value matters only to the writer. While there is no file, no other thread has an address to look
        // up.
        let next = self.next.load(Ordering::Relaxed);
        self.files().keys().next().copied().unwrap_or(next)
    }

    /// The file that contains an offset.
    pub(crate) fn file_at(&self, offset: u64) -> Option<(ColdFile, Arc<dyn File>)> {
        let files = self.files();
        let (_, found) = files.range(..=offset).next_back()?;
        (offset < found.0.end).then(|| found.clone())
    }

    /// Start of the newest file.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.files().keys().next_back().copied()
    }

    /// Sets the numbers of live rows that a checkpoint has counted, by the start of each file. Those of a failed
    /// checkpoint do not count: a row that is in the log as well is live only where that checkpoint would have put it,
    /// so that each failure would make waste of the file that the last one left.
    pub(crate) fn set_live(&self, live: &[(u64, u64)]) {
        let mut files = self.files();
        for (start, rows) in live {
            if let Some((file, _)) = files.get_mut(start) {
                file.live = *rows;
            }
        }
    }

    /// Forgets files to which no checkpoint and no address refers any more; returns their names.
    pub(crate) fn forget(&self, starts: &[u64]) -> Vec<String> {
        let mut files = self.files();
        starts.iter().filter(|start| files.remove(start).is_some()).map(|start| name_of(*start)).collect()
    }

    /// Begins to write new files.
    pub(crate) fn writer(&self) -> ColdWriter<'_> {
        // Relaxed: there is one writer at a time.
        let next = self.next.load(Ordering::Relaxed);
        let (made, referred) = (BTreeSet::new(), BTreeSet::new());
        ColdWriter { store: self, draft: Draft::of_cold_store(), next, current: None, made, referred }
    }
}

/// Writes rows to new files.
pub(crate) struct ColdWriter<'s> {
    store: &'s ColdStore,
    draft: Draft,
    /// Position of the block in the making.
    next: u64,
    current: Option<Current>,
    /// Starts of the files that this writer has made, and of those to which something in memory refers.
    made: BTreeSet<u64>,
    referred: BTreeSet<u64>,
}

struct Current {
    info: ColdFile,
    file: Arc<dyn File>,
    synced: u64,
}

impl ColdWriter<'_> {
    /// Adds a row; returns its address, which can be read once its block has been [written](Self::flush).
    pub(crate) fn add(
        &mut self,
        table: TableId,
        row: RowId,
        stamp: u64,
        value: Payload,
        bytes: &[u8],
    ) -> Result<Address> {
        // A new file begins with its label.
        let label = if self.current.is_none() { LABEL_BYTES } else { 0 };
        let record = self.draft.rows();
        let record = if Mutant::ShortRecordNumber.is_on() { record & 0xff } else { record };
        let address = Address::new(Space::Cold, Lsn::new(self.next + label, 0), record)?;
        self.draft.add(&Record::Moved { table, row, stamp, value }, bytes);
        Ok(address)
    }

    /// Whether a block is full.
    pub(crate) fn is_full(&self) -> bool {
        self.draft.is_full()
    }

    /// Writes the block in the making.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let rows = self.draft.rows() as u64;
        if rows == 0 {
            return Ok(());
        }
        if self.current.is_none() {
            let name = name_of(self.next);
            // A file of this name that got no block may exist.
            if self.store.directory.list()?.contains(&name) {
                self.store.directory.remove(&name)?;
            }
            let file = self.store.directory.open(&name, Open::Create)?;
            self.made.insert(self.next);
            let (start, identity) = (self.next, self.store.identity.bytes());
            let label = Body::of(BlockKind::Label, &identity, &[]);
            file.write_at(0, &whole_block(label, start))?;
            self.next += LABEL_BYTES;
            let info = ColdFile { start, end: self.next, rows: 0, live: 0 };
            self.current = Some(Current { info, file, synced: start });
        }
        let current = self.current.as_mut().expect("made above");
        let body = self.draft.body(BlockKind::Cold);
        let block = whole_block(body, self.next);
        current.file.write_at(self.next - current.info.start, &block)?;
        self.next += block.len() as u64;
        // Relaxed: as in `writer`.
        self.store.next.store(self.next, Ordering::Relaxed);
        current.info.end = self.next;
        // All of them are live until the next checkpoint that counts.
        current.info.rows += rows;
        current.info.live += rows;
        self.draft.begin(false);
        if self.next - current.synced >= SYNC_BYTES {
            current.file.sync()?;
            current.synced = self.next;
        }
        self.store.unsynced().insert(current.info.start);
        // At once: the addresses may be looked up.
        self.store.files().insert(current.info.start, (current.info, current.file.clone()));
        if self.next - current.info.start >= FILE_BYTES { self.finish() } else { Ok(()) }
    }

    /// Makes everything durable except the names, for which the directory is to be synced.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush_rest()?;
        let Some(current) = self.current.take() else { return Ok(()) };
        current.file.sync()?;
        self.store.unsynced().remove(&current.info.start);
        Ok(())
    }

    /// Notes that something in memory refers to the address of a row that has been written.
    pub(crate) fn refer(&mut self, address: Address) {
        let at = address.lsn(self.store.start()).offset();
        let file = self.made.range(..=at).next_back();
        self.referred.extend(file);
    }

    /// Removes the files that this writer has made and to which nothing refers, as far as possible.
    pub(crate) fn abandon(&mut self) {
        self.current = None;
        self.draft.begin(false);
        for start in std::mem::take(&mut self.made).difference(&self.referred) {
            self.store.forget(&[*start]);
            self.store.unsynced().remove(start);
            // A file that stays is removed when the database is opened next.
            let _ = self.store.directory.remove(&name_of(*start));
        }
    }

    fn flush_rest(&mut self) -> io::Result<()> {
        if self.draft.rows() > 0 { self.flush() } else { Ok(()) }
    }
}

/// The identity in the label of a file; `None`: it has no label.
pub(super) fn identity_in(file: &dyn File, info: &ColdFile) -> io::Result<Option<Identity>> {
    let first = read_block(file, info.extent(), Lsn::new(info.start, 0))?.ok();
    let label = first.filter(|(header, _)| header.kind == BlockKind::Label);
    Ok(label.and_then(|(header, block)| Identity::read(&block[HEADER_BYTES..header.payload_at() as usize])))
}

/// A block as it is stored in a file at `offset` of a space without segments.
pub(crate) fn whole_block(body: Body<'_>, offset: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(body.size() as usize);
    block.extend_from_slice(&body.seal().place(body.descriptors, Lsn::new(offset, 0), offset));
    block.extend_from_slice(body.descriptors);
    block.extend_from_slice(body.payload);
    block.extend_from_slice(body.padding());
    block
}
