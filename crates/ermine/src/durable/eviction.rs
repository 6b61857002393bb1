//! Eviction: rows that no transaction accesses leave memory, and their slots hold their addresses again (ERMIA 3.1, 3.5:
//! anti-caching).
//!
//! A row can leave when its chain is one committed version that every snapshot sees and that the log or the cold store
//! has durably. Those go first that were accessed least (`heat`): from time to time a round marks all rows in memory as
//! *idle*, and when memory is short the coldest of those that are still idle are marked as *cooling*
//! ([`RowSlot::cool`]); an access takes the marks off; a row that is still cooling when all operations have ended that
//! ran while the marks were set, and that no running transaction knows from before, is evicted. A hot row costs its
//! readers nothing: they look at the word of its slot anyway, and write it only after a round has begun.
//!
//! Invariants
//! 1. *No running transaction knows an evicted version.* An operation that began before the marks were set has ended,
//!    and if it found the version and its transaction keeps it (in a read set, as a lent value, as a bit in the version),
//!    the version is among those that the transaction may know ([`Known`](crate::rows::known::Known)), which are
//!    looked at after that; an operation that began later found the mark, and took it off before it used the version.
//!    Between the marks of one batch and its end no slot is marked a second time. An overwriter knows a version below
//!    its own, which is the newest of the row until it ends.
//! 2. *What certifiers know stays.* The stamps of those of the version's readers that have ended are raised in the table
//!    ([`TableReaders::outlive`]) before the slot is changed; the others know it, or are found at the table, which they
//!    read as a whole. The stamp of the version itself is in its record.
//! 3. *No other thread changes the row.* Its latch is held: no garbage collector is between the removal of a version and
//!    that of its entries, so the entries of an evicted row are those of its version.
//! 4. *The address stays valid*: it is durable, and not in a file that a checkpoint is about to free ([`Leaving`]).
//! 5. *Memory is freed through the epoch of operations*: work in the background looks at versions without taking the
//!    mark off ([`RowSlot::peek`](crate::rows::chain::RowSlot::peek)).
//!
//! So a transaction that stays open keeps the rows in memory that it knows, and, as for any garbage, those that others
//! have written since it began.
//!
//! [`TableReaders::outlive`]: crate::scheme::escalation::TableReaders::outlive

use std::{
    ops::{DerefMut, Range},
    time::Duration,
};

use super::{
    heat::{Coldest, ColdestOf, Heat, Survey},
    store::{Leaving, Store},
};
use crate::{
    engine::{Engine, collect},
    epoch::{Epoch, Limbo},
    error::{Error, Result},
    ids::{RowId, Stamp, TableId},
    log::{
        Log,
        lsn::{Address, Space},
    },
    mutant::Mutant,
    platform::budget::{Budget, Kept, Need},
    rows::{
        arena::{Arena, Pool},
        chain::{AT_HOME, Below, CertifierStamps, Kind, Origin, RowSlot, VersionPtr},
        known::KnownToAny,
        snapshots::Horizon,
    },
    scheme::{Certifier, Scheme, StampsOf},
    sync::{AtomicU64, Instant, Mutex, Ordering},
    table::TableStore,
    worker::Pins,
};

/// Rows that are processed at a time.
const STEP_ROWS: u64 = 256;
/// Upper bound of the number of rows that are marked at a time, as long as it is not a small part of those in memory.
const BATCH_ROWS_MAX: u64 = 1 << 20;

/// Slots that a transaction looks at when rows have to be chosen. Where there are more, it waits for the helper.
const HELPED_SURVEY: u64 = 1 << 16;
/// Rows of a batch that a transaction processes at a time.
const HELPED_ROWS: u64 = 1024;
/// Pause between sweeps for requests that were refused, and after one that was in vain.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);
/// Pause when no row can leave.
const REST: Duration = Duration::from_secs(1);
/// The pause between sweeps from which on they count as being in vain: several were, one after another.
const VAIN_PAUSE: Duration = SWEEP_PAUSE.saturating_mul(8);

/// The state of eviction, and its counts.
pub(crate) struct Eviction<H> {
    evictor: Mutex<Evictor<H>>,
    rows: AtomicU64,
    /// How often it was found that no more memory can be freed for now.
    vain: AtomicU64,
}

struct Evictor<H> {
    pins: Option<Pins>,
    heat: Heat,
    /// The budget's count of it.
    kept: Kept,
    /// The least memory that rows have taken since the last round began, and how many have left.
    round_at: u64,
    left: u64,
    batch: Option<Batch>,
    /// Evicted versions that operations may still look at.
    versions: Limbo<VersionPtr<H>>,
    horizon: Horizon,
    arena: Option<Arena>,
    /// Memory is being freed until the low mark is reached.
    is_due: bool,
    /// Hardly any room is left: also versions leave that were read since the oldest snapshot was taken.
    is_pressed: bool,
    /// The batch is to empty granules; how many rows have left with it; when one was in vain, and the pause after that.
    /// They are to be swept now.
    is_clearing: bool,
    cleared: u64,
    cleared_none_at: Option<Instant>,
    clearing_pause: Duration,
    is_sweeping: bool,
    /// Refused requests for memory, as of the last batch.
    refused: u64,
    /// Searches for rows that can leave: without and with [`Evictor::is_pressed`]. Rows that stay in one may leave in
    /// the other, which must not rest because the first one does.
    searches: [Search; 2],
    /// Some of them can leave as soon as the log is durable up to them, or a checkpoint has ended that moves them.
    is_held_up: bool,
    /// When granules were swept because a request was refused.
    swept_at: Option<Instant>,
}

/// How long no row has been found that can leave.
#[derive(Clone, Copy, Default)]
struct Search {
    /// Rows that were wanted since the last one was evicted.
    fruitless: u64,
    rests_since: Option<Instant>,
}

/// Slots that have been marked.
struct Batch {
    /// The epoch of operations in which the last mark was set.
    epoch: Epoch,
    rows: Vec<(TableId, Range<u64>)>,
}

/// The marks between which the memory in use is kept: (low, high).
fn marks(budget: &Budget) -> (u64, u64) {
    let grow = budget.bound(Need::Grow);
    (grow - grow / 8, grow - grow / 16)
}

/// Bytes of versions, and of the free blocks that workers keep.
fn taken_by_rows(memory: &Pool) -> u64 {
    memory.bytes().saturating_sub(memory.free_bytes())
}

/// Bytes of the budget that are in use, and not free for new rows.
fn in_use(budget: &Budget, memory: &Pool) -> u64 {
    budget.taken().saturating_sub(memory.free_bytes())
}

impl<H: CertifierStamps> Eviction<H> {
    pub(crate) fn new() -> Self {
        let evictor = Evictor {
            pins: None,
            heat: Heat::default(),
            kept: Kept::default(),
            round_at: 0,
            left: 0,
            batch: None,
            versions: Limbo::new(),
            horizon: Horizon::default(),
            arena: None,
            is_due: false,
            is_pressed: false,
            is_clearing: false,
            cleared: 0,
            cleared_none_at: None,
            clearing_pause: SWEEP_PAUSE,
            is_sweeping: false,
            refused: 0,
            searches: [Search::default(); 2],
            is_held_up: false,
            swept_at: None,
        };
        Self { evictor: Mutex::new(evictor), rows: AtomicU64::new(0), vain: AtomicU64::new(0) }
    }

    /// Rows evicted since the database was opened.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// How often it was found that no more memory can be freed, whatever the device and checkpoints do, until
    /// transactions end.
    pub(crate) fn vain(&self) -> u64 {
        // Relaxed: a count, whose reader only waits a little longer for its next value.
        self.vain.load(Ordering::Relaxed)
    }
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// There is enough memory.
    Idle,
    /// Little memory is left, or operations have to end first.
    Waiting,
    /// A batch was ended.
    Evicted,
}

impl<S: Scheme> Engine<S> {
    /// Whether rows are evicted when memory is short.
    pub(crate) fn evicts(&self) -> bool {
        let is_limited = self.budget.limit() < u64::MAX || self.options.evict_always;
        self.log.is_some() && self.store.is_some() && is_limited && !self.budget.fails()
    }

    /// Whether there is hardly any room left for rows: transactions that begin then help to make some.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        // One word, which is written by the chunk, in the usual case.
        self.budget.is_tight(0) && (!self.evicts() || self.lacks_room())
    }

    /// Whether there are hardly any free blocks, or indexes have grown far into the reserve.
    fn lacks_room(&self) -> bool {
        let (grow, work) = (self.budget.bound(Need::Grow), self.budget.bound(Need::Work));
        self.budget.is_tight(self.memory.free_bytes()) || self.budget.taken() > grow + (work - grow) / 2
    }

    /// Collects garbage, and evicts rows, so that the memory of rows that were deleted or that are not accessed serves
    /// others. Waits a moment for operations that may have found them.
    #[cold]
    pub(crate) fn make_room(&self) {
        /// Number of pauses at most, and their length.
        const PAUSES: usize = 40;
        const PAUSE: Duration = Duration::from_micros(250);
        collect(|| self.maintain());
        for _ in 0..if self.evicts() { PAUSES } else { 0 } {
            match self.evict_some(false) {
                _ if !self.lacks_room() => break,
                Progress::Idle => break,
                Progress::Waiting => std::thread::sleep(PAUSE),
                Progress::Evicted => {}
            }
        }
    }

    /// Fails if what cannot be evicted, indexes above all, takes so much memory that no more rows should be added: the
    /// rows in use need some, and recovery, which notes keys while it builds the indexes. `own`: bytes that the
    /// transaction keeps for itself, and gives back at its end.
    pub(crate) fn check_fixed(&self, need: Need, own: u64) -> Result<()> {
        let (taken, limit) = (self.budget.taken(), self.budget.limit());
        let fixed = taken.saturating_sub(self.memory.bytes() + own);
        if need == Need::Grow && fixed > limit / 8 * 5 && self.evicts() {
            return Err(Error::OutOfMemory { needed: 0, taken, limit });
        }
        Ok(())
    }

    /// Whether so much memory is in use that rows should not be loaded ahead.
    pub(crate) fn is_filled(&self) -> bool {
        in_use(&self.budget, &self.memory) > marks(&self.budget).0
    }

    /// Does a part of the work: evicts from the batch that was begun, if its time has come, and begins one if memory is
    /// short. A `helper` does so much at a time as it does best; a transaction does little, and leaves long work to it.
    pub(crate) fn evict_some(&self, helper: bool) -> Progress {
        let (Some(log), Some(store)) = (&self.log, &self.store) else { return Progress::Idle };
        let Some(mut evictor) = self.eviction.evictor(helper) else { return Progress::Waiting };
        evictor.free(self);
        if evictor.batch.is_some() {
            self.versions.advance();
            let most = if helper { u64::MAX } else { HELPED_ROWS };
            evictor.is_pressed = self.lacks_room() || self.options.evict_always;
            let evicted = evictor.end_if_closed(self, log, store, most);
            evictor.cleared += evicted.unwrap_or(0);
            if evictor.batch.is_none() {
                evictor.is_sweeping = std::mem::take(&mut evictor.is_clearing);
                if evictor.is_sweeping {
                    let is_vain = evictor.cleared == 0;
                    evictor.clearing_pause = if is_vain { REST.min(2 * evictor.clearing_pause) } else { SWEEP_PAUSE };
                    evictor.cleared_none_at = is_vain.then(Instant::now);
                }
            }
            return if evicted.is_some() { Progress::Evicted } else { Progress::Waiting };
        }
        if evictor.is_sweeping && helper {
            if evictor.versions.len() > 0 {
                return Progress::Waiting;
            }
            evictor.is_sweeping = false;
            self.memory.sweep();
        }
        let (low, high) = marks(&self.budget);
        let (used, refused) = (in_use(&self.budget, &self.memory), self.memory.refused());
        evictor.is_due = used > if evictor.is_due { low } else { high };
        let over = self.budget.taken().saturating_sub(self.budget.bound(Need::Grow));
        // While granules are swept, free blocks are out of sight for a moment, and requests are refused for that.
        let is_lacking = evictor.refused != refused && evictor.swept_at.is_none_or(|at| at.elapsed() > SWEEP_PAUSE);
        let (rows, taken) = (self.tables.rows(), taken_by_rows(&self.memory));
        let in_memory = rows.saturating_sub(store.unloaded()).max(1);
        evictor.round_at = evictor.round_at.min(taken);
        if helper {
            evictor.refused = refused;
            let left_max = if evictor.is_due { in_memory / 16 } else { 0 };
            if used > low / 2 && (taken - evictor.round_at >= high - low || evictor.left > left_max) {
                evictor.begin_round(self);
                evictor.round_at = taken;
            }
        }
        if !evictor.is_due && over == 0 && !is_lacking {
            if self.options.evict_always {
                evictor.begin(self, |table| cool(table, |_, _| true));
                return Progress::Waiting;
            }
            // When rows have just left, others come soon.
            return if used > low - (high - low) { Progress::Waiting } else { Progress::Idle };
        }
        let pressed = usize::from(self.lacks_room() || self.options.evict_always);
        if evictor.searches[pressed].fruitless > 4 * in_memory {
            evictor.searches[pressed].fruitless = 0;
            if std::mem::take(&mut evictor.is_held_up) {
                return Progress::Waiting;
            }
            // Whatever takes the memory is no row that could leave. Later again.
            evictor.searches[pressed].rests_since = Some(Instant::now());
            self.eviction.vain.fetch_add(1, Ordering::Relaxed);
        }
        if evictor.searches[pressed].rests_since.is_some_and(|since| since.elapsed() < REST) {
            return Progress::Idle;
        }
        if !helper && (evictor.is_sweeping || !evictor.is_due || rows > HELPED_SURVEY) {
            return Progress::Waiting;
        }
        if evictor.is_due {
            let of_row = (taken / in_memory).max(1);
            let search = &mut evictor.searches[pressed];
            // More and more, while none of them can leave: each time all slots are looked at.
            let wanted = ((used - low) / of_row).max(search.fruitless);
            let wanted = wanted.clamp(in_memory.div_ceil(256), BATCH_ROWS_MAX.max(in_memory / 16));
            search.fruitless += wanted;
            evictor.cool_coldest(self, wanted);
        } else if evictor.cleared_none_at.is_none_or(|at| at.elapsed() > evictor.clearing_pause) {
            // Free blocks are there, and not where memory is wanted: for other sizes, or for indexes.
            let wanted = over + self.budget.limit() / 32;
            evictor.swept_at = Some(Instant::now());
            let (swept, free) = self.memory.sweep();
            if swept < wanted {
                // Of those that are nearly empty, some hold nothing but what workers keep: they would be tried in vain.
                let mut candidates = free.emptiest(8 * (wanted - swept));
                evictor.for_each_table(self, |heat, table| {
                    for (row, heat) in (0..table.rows.count()).zip(heat.of(table)) {
                        if let Some(address) = table.rows.slot(RowId(row)).address() {
                            candidates.count_row(address, *heat);
                        }
                    }
                });
                let granules = candidates.cheapest(2 * (wanted - swept));
                evictor.is_held_up = false;
                let is_there = |_, slot: &RowSlot<_>| slot.address().is_some_and(|at| granules.contains(at));
                evictor.begin(self, |table| cool(table, is_there));
                (evictor.is_clearing, evictor.cleared) = (true, 0);
            }
        } else if !evictor.is_held_up && evictor.clearing_pause >= VAIN_PAUSE {
            self.eviction.vain.fetch_add(1, Ordering::Relaxed);
        }
        Progress::Waiting
    }

    /// Does a part of the work, for tests: ends the batch that was begun before, if the operations of then have ended;
    /// otherwise begins one with all rows of which `choose` says so. Returns the number of rows that were evicted.
    pub(crate) fn evict_chosen(&self, choose: impl Fn(u64) -> bool) -> u64 {
        let (Some(log), Some(store)) = (&self.log, &self.store) else { return 0 };
        let Some(mut evictor) = self.eviction.evictor(true) else { return 0 };
        evictor.free(self);
        if evictor.batch.is_none() {
            evictor.begin(self, |table| cool(table, |row, _| choose(row)));
        }
        for _ in 0..3 {
            self.versions.advance();
        }
        // Histories with both rules: those that keep no rows evict under pressure.
        evictor.is_pressed = self.options.uncached_after == 0;
        evictor.end_if_closed(self, log, store, u64::MAX).unwrap_or(0)
    }
}

impl<H: CertifierStamps> Eviction<H> {
    /// Returns the evictor; `None`: another thread has it, and the caller does not wait.
    fn evictor(&self, waits: bool) -> Option<impl DerefMut<Target = Evictor<H>>> {
        if waits {
            return Some(self.evictor.lock().expect("no code panics while it evicts rows"));
        }
        self.evictor.try_lock().ok()
    }
}

impl<H: CertifierStamps> Evictor<H> {
    fn pins<S: Scheme>(&mut self, engine: &Engine<S>) -> &Pins {
        self.pins.get_or_insert_with(|| Pins {
            versions: engine.versions.join_as("eviction"),
            nodes: engine.nodes.join_as("eviction"),
        })
    }

    /// Has `mark` mark rows of each table, and remembers those in the ranges that it returns as the batch.
    fn begin<S: Scheme>(&mut self, engine: &Engine<S>, mut mark: impl FnMut(&TableStore<H>) -> Vec<Range<u64>>)
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        let mut rows = Vec::new();
        self.for_each_table(engine, |_, table| rows.extend(mark(table).into_iter().map(|range| (table.id, range))));
        self.batch = Some(Batch { epoch: engine.versions.retirement_epoch(), rows });
    }

    /// Marks the coldest rows, `wanted` of them if there are as many, and remembers them as the batch.
    fn cool_coldest<S: Scheme>(&mut self, engine: &Engine<S>, wanted: u64)
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        let mut coldest = self.coldest(engine, wanted);
        if coldest.is_none() {
            // The others were accessed since the round began.
            self.begin_round(engine);
            coldest = self.coldest(engine, wanted);
        }
        let mut rows = Vec::new();
        self.for_each_table(engine, |heat, table| {
            let heat = heat.of(table);
            let mut coldest = coldest.as_ref().map_or(ColdestOf::ALL, |coldest| coldest.of(table.id));
            let takes = |row, slot: &RowSlot<H>| {
                slot.is_idle() && heat.get(row as usize).is_some_and(|heat| coldest.takes(*heat))
            };
            rows.extend(cool(table, takes).into_iter().map(|range| (table.id, range)));
        });
        self.batch = Some(Batch { epoch: engine.versions.retirement_epoch(), rows });
    }

    fn coldest<S: Scheme>(&mut self, engine: &Engine<S>, wanted: u64) -> Option<Coldest>
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        let mut survey = Survey::default();
        self.for_each_table(engine, |heat, table| heat.count(table, &mut survey));
        survey.coldest(wanted)
    }

    /// Begins a round: marks the rows in memory as idle.
    fn begin_round<S: Scheme>(&mut self, engine: &Engine<S>)
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        self.heat.retain(|table| !engine.tables.is_gone(table));
        self.for_each_table(engine, |heat, table| heat.begin_round(table));
        self.left = 0;
    }

    /// Calls `visit` with the tables whose rows may leave memory. Their slots need no protection: the tables are held,
    /// and no version is looked at.
    fn for_each_table<S: Scheme>(&mut self, engine: &Engine<S>, mut visit: impl FnMut(&mut Heat, &TableStore<H>))
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        let tables = engine.tables.held();
        let tables = tables.iter().filter(|table| !table.is_kept_in_memory());
        tables.for_each(|table| visit(&mut self.heat, table));
        self.kept.set(self.heat.bytes(), &engine.budget);
    }

    /// Evicts from the batch, if all operations have ended that ran while it was marked, up to `most` rows of it; returns
    /// the number of rows that were evicted.
    fn end_if_closed<S: Scheme>(&mut self, engine: &Engine<S>, log: &Log, store: &Store, most: u64) -> Option<u64>
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        let mut batch = self.batch.take()?;
        if !engine.versions.is_closed(batch.epoch) && !Mutant::EvictedEarly.is_on() {
            self.batch = Some(batch);
            return None;
        }
        let mut part = Vec::new();
        let mut left = most;
        while left > 0
            && let Some((table, rows)) = batch.rows.pop()
        {
            let end = rows.end.min(rows.start.saturating_add(left));
            left -= end - rows.start;
            if end < rows.end {
                batch.rows.push((table, end..rows.end));
            }
            part.push((table, rows.start..end));
        }
        if !batch.rows.is_empty() {
            self.batch = Some(batch);
        }
        Some(self.end(engine, log, store, &part))
    }

    /// Evicts those of some rows that are still cooling; returns their number.
    fn end<S: Scheme>(&mut self, engine: &Engine<S>, log: &Log, store: &Store, rows: &[(TableId, Range<u64>)]) -> u64
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        /// Looks at the snapshots before a batch is given up: a thread is about to take one.
        const LOOKS: usize = 100;
        for _ in 0..LOOKS {
            let slots = || engine.snapshots.iter().map(|(_, slot)| &**slot);
            self.horizon.refresh(&engine.shared.clock, engine.safe.holder(), slots);
            if self.horizon.oldest() > Stamp::ZERO {
                break;
            }
            std::thread::yield_now();
        }
        let (oldest, durable) = (self.horizon.oldest(), Stamp(log.durable()));
        let is_pressed = self.is_pressed;
        let mut known = KnownToAny::new();
        if !Mutant::EvictedEarly.is_on() {
            engine.snapshots.iter().for_each(|(_, slot)| slot.known.add_to(&mut known));
        }
        let (mut evicted, mut staying, mut is_held_up) = (Vec::new(), Vec::new(), self.is_held_up);
        for (table, rows) in rows {
            for first in rows.clone().step_by(STEP_ROWS as usize) {
                let step = first..rows.end.min(first + STEP_ROWS);
                let pins = self.pins(engine);
                let (_versions, _nodes) = (pins.versions.enter(), pins.nodes.enter());
                let Some(table) = engine.find_table(*table) else { break };
                let leaving = store.leaving();
                let mut places =
                    Places { log, leaving: &leaving, store, oldest, durable, known: &known, is_pressed, is_held_up };
                step.clone().for_each(|row| table.rows.slot(RowId(row)).prefetch_cooling());
                for row in step.map(RowId) {
                    let Some(version) = table.rows.slot(row).cooling() else { continue };
                    if evict(engine, table, row, version, &mut places) {
                        evicted.push(version);
                    } else {
                        // The next batch must find it without a mark, or one that is older than the batch.
                        let _ = table.rows.slot(row).head();
                        staying.push((table.id, row));
                    }
                }
                is_held_up |= places.is_held_up;
            }
        }
        self.is_held_up = is_held_up;
        staying.into_iter().for_each(|(table, row)| self.heat.discount(table, row));
        let count = evicted.len() as u64;
        self.left += count;
        if Mutant::EvictedEarly.is_on() {
            // The fault is to be found by what the transactions that know them do, not by what they crash on.
            evicted.clear();
        }
        // Neighbours become neighbours in the lists of free blocks: those that a worker has in hand lie in few granules.
        evicted.sort_unstable_by_key(|version| version.address());
        self.versions.push_all(&engine.versions, evicted);
        if count > 0 {
            self.searches.iter_mut().for_each(|search| search.fruitless = 0);
            self.is_held_up = false;
        }
        engine.eviction.rows.fetch_add(count, Ordering::Relaxed);
        count
    }

    /// Frees the versions that no operation can look at any more, for all workers.
    fn free<S: Scheme>(&mut self, engine: &Engine<S>) {
        if self.versions.len() == 0 {
            return;
        }
        engine.versions.advance();
        let arena = self.arena.get_or_insert_with(|| engine.memory.arena());
        while let Some(version) = self.versions.pop_closed(&engine.versions) {
            // SAFETY: no transaction knows the version (invariant 1), and all operations have ended that may have
            // looked at it (invariant 5).
            unsafe { version.destroy(arena) };
        }
        arena.give_everything();
    }
}

/// Marks those rows of a table that `choose` accepts, by their number and slot, as cooling; returns the ranges, of
/// [`STEP_ROWS`] each or several of them, in which they are.
fn cool<H: CertifierStamps>(
    table: &TableStore<H>,
    mut choose: impl FnMut(u64, &RowSlot<H>) -> bool,
) -> Vec<Range<u64>> {
    let (mut ranges, count) = (Vec::<Range<u64>>::new(), table.rows.count());
    for row in 0..count {
        let slot = table.rows.slot(RowId(row));
        if !choose(row, slot) {
            continue;
        }
        slot.cool();
        let start = row - row % STEP_ROWS;
        let end = count.min(start + STEP_ROWS);
        match ranges.last_mut() {
            Some(range) if range.end >= start => range.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// What decides whether a row can leave, and about its address.
struct Places<'a> {
    log: &'a Log,
    leaving: &'a Leaving,
    store: &'a Store,
    /// The oldest snapshot in use.
    oldest: Stamp,
    /// Everything below is durable.
    durable: Stamp,
    /// The versions that running transactions may know.
    known: &'a KnownToAny,
    /// As [`Evictor::is_pressed`].
    is_pressed: bool,
    /// As [`Evictor::is_held_up`].
    is_held_up: bool,
}

impl Places<'_> {
    /// The address of the version of a row that can be evicted; `None`: it has none that stays.
    fn address<H: CertifierStamps>(
        &self,
        table: &TableStore<H>,
        row: RowId,
        version: VersionPtr<H>,
        stamp: Stamp,
    ) -> Option<Address> {
        let home = || table.rows.home(row).filter(|home| self.stays(*home));
        if version.write() == AT_HOME {
            return home();
        }
        let number = u64::from(version.write());
        let (lsn, number) = match self.log.chains.find(stamp, number) {
            Some(place) => place,
            None => match self.log.lsn_at(stamp.0) {
                Some(lsn) => (lsn, number),
                None => return home(),
            },
        };
        if lsn.offset() < self.leaving.log_below {
            // A home would be that of a checkpoint that does not count yet, or has failed.
            return None;
        }
        Address::new(Space::Log, lsn, number as usize).ok()
    }

    fn stays(&self, home: Address) -> bool {
        let offset = home.lsn(self.store.cold.start()).offset();
        self.leaving.cold.iter().all(|file| !(file.start..file.end).contains(&offset))
    }
}

/// Evicts a row that is cooling, if it can leave; returns whether it has left.
fn evict<S: Scheme>(
    engine: &Engine<S>,
    table: &TableStore<StampsOf<S>>,
    row: RowId,
    version: VersionPtr<StampsOf<S>>,
    places: &mut Places<'_>,
) -> bool {
    let Origin::At(stamp) = version.origin().load() else { return false };
    let is_known = places.known.may_have(version.address());
    if is_known || version.kind() != Kind::Live || stamp >= places.oldest {
        return false;
    }
    if stamp >= places.durable {
        places.is_held_up = true;
        return false;
    }
    let Some(_latched) = engine.latches.try_lock(table.id, row) else { return false };
    let certifier = version.certifier();
    let last_reader = certifier.last_reader(&engine.shared.readers);
    if matches!(version.below(), Below::Older(_))
        || certifier.is_overwritten()
        || certifier.last_read() >= places.oldest && !places.is_pressed
    {
        return false;
    }
    let Some(address) = places.address(table, row, version, stamp) else {
        places.is_held_up = true;
        return false;
    };
    let home = table.rows.home(row);
    table.beside.readers.outlive(last_reader);
    // Checkpoint, invariant 6.
    table.rows.forget_home(row);
    // Before it can be read again, and counted as read.
    places.store.evicted();
    let is_evicted = table.rows.slot(row).evict(version, address);
    if !is_evicted {
        places.store.forget_unloaded(1);
        home.into_iter().for_each(|home| table.rows.set_first_home(row, home));
    }
    is_evicted
}
