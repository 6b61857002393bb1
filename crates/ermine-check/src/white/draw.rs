//! Draws the graph: a walk over the transactions that committed, read by read.
//!
//! Each read draws two edges: from the writer of the version it saw, and to the writer of the next one; each row draws
//! one edge from each writer to the next. Edges that follow from these along the writers of a row are not drawn.

use super::{
    Settings,
    collect::{Collected, Discarded, Writer},
    entries::Entries,
    keys::Item,
    range::Ranges,
    sightings::Sightings,
    versions::{Resolved, State, Versions},
};
use crate::{
    anomaly::AnomalyKind,
    graph::{Drawing, Graph, Kind, Node, Told, draw_order},
    history::{Digest, History, Operation, Order, ReadVersion, Stamp, Table, Transaction},
    progress::Progress,
};

/// The graph, and the sightings made while drawing it.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) graph: Graph,
    pub(super) sightings: Sightings,
    pub(super) told: Told,
    /// Committed transactions that were promised less than real-time order.
    pub(super) unordered: u64,
    pub(super) bytes: u64,
}

/// Draws the graph.
pub(super) fn draw(
    history: &History,
    collected: &Collected,
    versions: &Versions,
    entries: &Entries,
    settings: Settings,
    progress: &mut dyn FnMut(Progress),
) -> Drawn {
    let mut pen = Pen {
        collected,
        versions,
        drawing: Drawing::new(history.committed()),
        sightings: Sightings::default(),
        seen: Seen::new(collected.keys.len()),
        discarded: None,
    };
    let mut ranges = Ranges::new(history, collected, versions, entries, settings);
    pen.overwritten();
    for (me, transaction) in history.transactions().take(history.committed()).enumerate() {
        if me.is_multiple_of(1 << 14) {
            progress(Progress::new("drawing the graph", me as u64, history.committed() as u64));
        }
        pen.transaction(me as u32, transaction, &mut ranges);
    }
    ranges.share(&mut pen.drawing);
    let context = || history.transactions().take(history.committed()).map(|transaction| transaction.context());
    let told = draw_order(&mut pen.drawing, context().map(Some));
    let unordered = context().filter(|context| context.order < Order::Realtime).count() as u64;
    let bytes = pen.drawing.bytes() + pen.seen.bytes();
    let graph = pen.drawing.finish();
    Drawn { bytes: bytes + graph.bytes(), graph, sightings: pen.sightings, told, unordered }
}

/// The reads and writes of the current transaction so far, by row.
#[derive(Debug)]
pub(super) struct Seen {
    by_row: Vec<SeenRow>,
    own_values: Vec<Option<Digest>>,
    /// Rows that it read or wrote, in order.
    pub(super) touched: Vec<Item>,
    /// Start, in `touched`, of the last run of reads of one table with nothing else in between: the reads of a range
    /// are among them.
    run: usize,
    /// The highest stamp of a version that it read.
    pub(super) highest: Stamp,
}

#[derive(Clone, Copy, Debug)]
struct SeenRow {
    read_by: u32,
    written_by: u32,
    /// The highest stamp of a version that was read.
    stamp: Stamp,
    /// Index of its own value.
    own: u32,
}

const NONE: u32 = u32::MAX;

impl Seen {
    fn new(rows: usize) -> Self {
        let unseen = SeenRow { read_by: NONE, written_by: NONE, stamp: Stamp::ZERO, own: 0 };
        Self { by_row: vec![unseen; rows], own_values: Vec::new(), touched: Vec::new(), run: 0, highest: Stamp::ZERO }
    }

    fn begin(&mut self) {
        self.own_values.clear();
        self.touched.clear();
        self.run = 0;
        self.highest = Stamp::ZERO;
    }

    fn own_value(&self, me: u32, row: Item) -> Option<Option<Digest>> {
        let seen = &self.by_row[row.at()];
        (seen.written_by == me).then(|| self.own_values[seen.own as usize])
    }

    fn wrote(&mut self, me: u32, row: Item, value: Option<Digest>) {
        self.touched.push(row);
        let seen = &mut self.by_row[row.at()];
        if seen.written_by == me {
            self.own_values[seen.own as usize] = value;
        } else {
            (seen.written_by, seen.own) = (me, self.own_values.len() as u32);
            self.own_values.push(value);
        }
    }

    fn read(&mut self, me: u32, row: Item, stamp: Stamp) {
        self.highest = self.highest.max(stamp);
        let seen = &mut self.by_row[row.at()];
        seen.stamp = if seen.read_by == me { seen.stamp.max(stamp) } else { stamp };
        seen.read_by = me;
    }

    /// Ends the run: reads from here on belong to another range, or another table.
    fn end_run(&mut self) {
        self.run = self.touched.len();
    }

    /// The last run of reads of one table.
    pub(super) fn run(&self) -> &[Item] {
        &self.touched[self.run..]
    }

    /// Whether the transaction's own write of a row hides the changes by other transactions.
    pub(super) fn hides(&self, me: u32, row: Item) -> bool {
        row != Item::NONE && self.by_row[row.at()].written_by == me
    }

    /// The stamp of the newest version of a row that this transaction has read so far.
    pub(super) fn newest_read(&self, me: u32, row: Item) -> Option<Stamp> {
        let seen = &self.by_row[row.at()];
        (seen.read_by == me).then_some(seen.stamp)
    }

    fn bytes(&self) -> u64 {
        (self.by_row.capacity() * size_of::<SeenRow>()) as u64
    }
}

struct Pen<'h> {
    collected: &'h Collected,
    versions: &'h Versions,
    drawing: Drawing,
    sightings: Sightings,
    seen: Seen,
    /// Sorted on first use.
    discarded: Option<Vec<Discarded>>,
}

impl Pen<'_> {
    /// Draws the edges between the writers of each row.
    fn overwritten(&mut self) {
        for row in (0..self.collected.keys.len() as u32).map(Item) {
            let writers = self.versions.of(row).iter().map(|version| version.writer);
            let mut before = None;
            for writer in writers.filter(|&writer| writer != Writer::INITIAL) {
                if let Some(before) = before.replace(writer)
                    && before != writer
                {
                    self.drawing.edge(Node(before.0), Node(writer.0), Kind::WriteWrite);
                }
            }
        }
        for &(row, Writer(one), Writer(other)) in &self.versions.twins {
            self.sightings.add(AnomalyKind::Duplicate, other, Some(one), row);
        }
    }

    fn transaction(&mut self, me: u32, transaction: Transaction<'_>, ranges: &mut Ranges<'_>) {
        let items = self.collected.items(me);
        let stamp = transaction.stamp().expect("it committed");
        let snapshot = transaction.context().snapshot.then_some(transaction.begin());
        self.seen.begin();
        ranges.begin(me, stamp);
        for (operation, &item) in transaction.operations().zip(items) {
            match operation {
                Operation::Read { version, value, .. } => {
                    self.read(me, stamp, snapshot, item, version, value);
                    let before = self.seen.run().last();
                    if before.is_some_and(|&before| self.table(before) != self.table(item)) {
                        self.seen.end_run();
                    }
                    self.seen.touched.push(item);
                }
                Operation::Write { value, .. } => {
                    if let Some(snapshot) = snapshot.filter(|_| self.seen.own_value(me, item).is_none()) {
                        self.overwrites_later(me, stamp, snapshot, item);
                    }
                    self.seen.wrote(me, item, value);
                    self.seen.end_run();
                }
                Operation::Entry { .. } => {}
                Operation::Range { index, lower, upper, at } => {
                    let range = ranges.range(index, lower, upper, at);
                    ranges.draw(range, &self.seen, &mut self.drawing, &mut self.sightings);
                    self.seen.end_run();
                }
            }
        }
    }

    fn table(&self, row: Item) -> Table {
        self.collected.keys.index(row).table
    }

    fn read(
        &mut self,
        me: u32,
        stamp: Stamp,
        snapshot: Option<Stamp>,
        row: Item,
        version: ReadVersion,
        value: Option<Digest>,
    ) {
        let own = self.seen.own_value(me, row);
        if version == ReadVersion::Own {
            if own != Some(value) {
                self.sightings.add(AnomalyKind::Internal, me, None, row);
            }
            return;
        }
        if own.is_some() {
            self.sightings.add(AnomalyKind::Internal, me, None, row);
        }
        let state = match self.versions.resolve(row, version) {
            Resolved::Is(state) => state,
            Resolved::Missed { seen, current } => {
                let writer = self.versions.at(row, current).map(|version| version.writer);
                let writer = writer.filter(|&writer| writer != Writer::INITIAL);
                self.sightings.add(AnomalyKind::MissedRow, me, writer.map(|writer| writer.0), row);
                seen
            }
            Resolved::Unknown => {
                let (kind, by) = self.stray_value(row, value, None);
                self.sightings.add(kind, me, by, row);
                return;
            }
        };
        if let Some(snapshot) = snapshot {
            self.held_against(me, snapshot, row, state);
        }
        let seen = self.versions.at(row, state).copied();
        if seen.and_then(|version| version.value) != value {
            let (kind, by) = self.stray_value(row, value, seen.map(|version| version.writer));
            self.sightings.add(kind, me, by, row);
        }
        self.seen.read(me, row, seen.map_or(Stamp::ZERO, |version| version.stamp));
        if let Some(writer) = seen.map(|version| version.writer)
            && writer != Writer::INITIAL
            && writer.0 != me
        {
            self.drawing.edge(Node(writer.0), Node(me), Kind::WriteRead);
        }
        if let Some(next) = self.versions.next_writer(row, state)
            && next.0 != me
        {
            self.drawing.edge(Node(me), Node(next.0), Kind::ReadWrite);
            self.overwrites_unseen(me, stamp, row, state, next);
        }
    }

    /// Checks that a read shows the newest version that was committed below the snapshot.
    fn held_against(&mut self, me: u32, snapshot: Stamp, row: Item, read: State) {
        let newest = self.versions.below(row, snapshot);
        let live = |state| self.versions.at(row, state).is_some_and(|version| version.value.is_some());
        // Which of several states without a row was read is not recorded.
        if read == newest || !live(read) && !live(newest) {
            return;
        }
        let (kind, state) = if read > newest { (AnomalyKind::GSIa, read) } else { (AnomalyKind::GSIb, newest) };
        let writer = self.versions.at(row, state).map(|version| version.writer);
        let writer = writer.filter(|&writer| writer != Writer::INITIAL && writer != Writer(me));
        self.sightings.add(kind, me, writer.map(|writer| writer.0), row);
    }

    /// Checks whether a transaction overwrote a version that was committed at or above its snapshot.
    fn overwrites_later(&mut self, me: u32, stamp: Stamp, snapshot: Stamp, row: Item) {
        let before = self.versions.written(row, stamp, Writer(me)).and_then(|mine| self.versions.before(row, mine));
        if let Some(version) = before.filter(|version| version.stamp >= snapshot) {
            self.sightings.add(AnomalyKind::GSIa, me, Some(version.writer.0), row);
        }
    }

    /// Checks whether the transaction read a version and then overwrote a newer one that it had not read.
    fn overwrites_unseen(&mut self, me: u32, stamp: Stamp, row: Item, read: State, next: Writer) {
        if self.versions.written(row, stamp, Writer(me)).is_some_and(|mine| mine > read) {
            self.sightings.add(AnomalyKind::LostUpdate, me, Some(next.0), row);
        }
    }

    /// Finds the origin of a value that is not that of its version.
    fn stray_value(&mut self, row: Item, value: Option<Digest>, writer: Option<Writer>) -> (AnomalyKind, Option<u32>) {
        let discarded = self.discarded.get_or_insert_with(|| {
            let mut discarded = self.collected.discarded.clone();
            discarded.sort_by_key(|write| write.row);
            discarded
        });
        let start = discarded.partition_point(|write| write.row < row);
        let of_row = discarded[start..].iter().take_while(|write| write.row == row);
        let mut like = of_row.filter(|write| write.value == value);
        let is_intermediate = |write: &&Discarded| !write.aborted && writer.is_none_or(|writer| writer.0 == write.by);
        match like.clone().find(|write| write.aborted) {
            Some(write) => (AnomalyKind::G1a, Some(write.by)),
            None => match like.find(is_intermediate) {
                Some(write) => (AnomalyKind::G1b, Some(write.by)),
                None => (AnomalyKind::CorruptRead, None),
            },
        }
    }
}
