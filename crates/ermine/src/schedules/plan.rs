//! The work of the threads of a schedule: few transactions on few rows, in shapes that are hard for some scheme.

use std::collections::BTreeMap;

use ermine::{IndexKind, Isolation, Scheme, TxnOptions};
use fastrand::Rng;

use super::history::{self, Operation, Shape, State, Thresholds, Through, value_of};

/// The transactions of every thread.
#[derive(Debug)]
pub struct Plan {
    pub shape: Shape,
    pub initial: State,
    pub threads: Vec<Vec<Script>>,
    /// Rounds of maintenance beside the threads.
    pub maintenance: usize,
}

/// A transaction.
#[derive(Debug)]
pub struct Script {
    pub options: TxnOptions,
    pub operations: Vec<Operation>,
    pub end: End,
    /// Whether it declares beforehand what it will touch, under a scheme that asks for that, where it can.
    pub declares: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    /// Fails with an error that follows from what was read.
    Fail,
    /// Is prepared first, if possible.
    PrepareAndCommit,
    Rollback {
        dropped: bool,
    },
}

impl Script {
    fn of(operations: Vec<Operation>) -> Self {
        Self { options: TxnOptions::default(), operations, end: End::Commit, declares: false }
    }
}

impl Plan {
    pub fn random(rng: &mut Rng) -> Self {
        let maintenance = if rng.bool() { 0 } else { rng.usize(1..8) };
        let mut draft = Draft { rng, number: 1000 };
        let (shape, initial, mut threads) = match draft.rng.u8(..17) {
            0 | 1 => draft.hot_rows(),
            2 => draft.write_skew(),
            3 => draft.read_only_anomaly(),
            4 => draft.inserts_into_scanned_ranges(),
            5 => draft.keys_that_come_back(),
            6 => draft.aborts_between_reads(),
            7 => draft.one_slot_again_and_again(),
            8 => draft.rows_that_change_their_group(),
            9 => draft.misses_of_removed_keys(),
            11 => draft.ring(),
            12 => draft.misses_among_other_reads(),
            13 | 14 => draft.writes_taken_back(),
            15 => draft.reports_on_what_is_closed(),
            10 => draft.a_reader_before_its_overwriter_in_one_slot(),
            _ => draft.anything(),
        };
        if draft.rng.u8(..4) == 0 {
            threads.iter_mut().flatten().for_each(|script| script.options.order = history::random_order(draft.rng));
        }
        let mut plan = Self { shape, initial, threads, maintenance };
        if draft.rng.u8(..4) == 0 {
            plan.fail_some(draft.rng);
        }
        if draft.rng.bool() {
            plan.threads.iter_mut().flatten().for_each(|script| script.declares = draft.rng.u8(..4) > 0);
        }
        plan
    }

    /// Makes some of the transactions that commit fail instead.
    fn fail_some(&mut self, rng: &mut Rng) {
        let scripts = self.threads.iter_mut().flatten();
        scripts
            .filter(|script| matches!(script.end, End::Commit) && rng.bool())
            .for_each(|script| script.end = End::Fail);
    }

    /// One transaction scans a group, one puts a row into it, and one does the same and rolls back; the first two form
    /// a cycle.
    pub fn entry_of_an_aborted_writer() -> Self {
        let rng = &mut Rng::with_seed(0);
        let (shape, _) = Draft { rng, number: 0 }.table(2, 2, 0);
        let shape = Shape { thresholds: Thresholds::default(), ..shape };
        let initial = vec![BTreeMap::from([(0, value_of(0, 1)), (1, value_of(0, 2))])];
        let (table, through) = (0, Through::ByGroup);
        let put = |key, group, number| Operation::Put { table, key, value: value_of(group, number) };
        let scan = Operation::Scan { table, through, lower: 1, upper: 1, backward: false, limit: usize::MAX };
        let rolled_back = Script { end: End::Rollback { dropped: true }, ..Script::of(vec![put(1, 1, 5)]) };
        let threads = vec![
            vec![Script::of(vec![Operation::Get { table, key: 0 }, put(1, 1, 3)])],
            vec![Script::of(vec![scan, put(0, 0, 4)])],
            vec![rolled_back],
        ];
        Self { shape, initial, threads, maintenance: 0 }
    }
}

type Parts = (Shape, State, Vec<Vec<Script>>);

/// A plan in the making: all values differ.
struct Draft<'r> {
    rng: &'r mut Rng,
    number: u64,
}

impl Draft<'_> {
    fn value(&mut self, groups: u64) -> u64 {
        self.number += 1;
        value_of(self.rng.u64(..groups), self.number)
    }

    /// Returns a table of `keys` keys, each with a row with a probability of `there` in four.
    fn table(&mut self, keys: u64, groups: u64, there: u8) -> (Shape, State) {
        let thresholds = Thresholds::random(self.rng);
        let shape = Shape {
            tables: 1,
            keys: (0..keys).collect(),
            fillers: Vec::new(),
            groups,
            unique: false,
            operations: 3,
            thresholds,
            index: if self.rng.bool() { IndexKind::BTree } else { IndexKind::Art },
        };
        let mut rows = BTreeMap::new();
        for key in 0..keys {
            if self.rng.u8(..4) < there {
                rows.insert(key, self.value(groups));
            }
        }
        (shape, vec![rows])
    }

    fn get(&mut self, shape: &Shape) -> Operation {
        Operation::Get { table: 0, key: shape.keys[self.rng.usize(..shape.keys.len())] }
    }

    fn put(&mut self, shape: &Shape) -> Operation {
        let (table, key) = (0, shape.keys[self.rng.usize(..shape.keys.len())]);
        Operation::Put { table, key, value: self.value(shape.groups) }
    }

    fn scan(&mut self, shape: &Shape) -> Operation {
        let by_group = self.rng.u8(..3) == 0;
        let (through, end) = match by_group {
            true => (Through::ByGroup, shape.groups - 1),
            false => (Through::Primary, *shape.keys.last().unwrap()),
        };
        let whole = self.rng.bool();
        let lower = if whole { 0 } else { self.rng.u64(..=end) };
        let upper = if whole { end } else { self.rng.u64(lower..=end) };
        let limit = if self.rng.u8(..6) == 0 { 1 } else { usize::MAX };
        Operation::Scan { table: 0, through, lower, upper, backward: self.rng.bool(), limit }
    }

    /// Returns a transaction that only reads, of any kind.
    fn reader(&mut self, operations: Vec<Operation>) -> Script {
        let options = match self.rng.u8(..3) {
            0 => TxnOptions::default(),
            1 => TxnOptions::read_only(),
            _ => TxnOptions::snapshot(),
        };
        Script { options, operations, end: End::Commit, declares: false }
    }

    fn threads(&mut self, most: usize, each: usize, mut script: impl FnMut(&mut Self) -> Script) -> Vec<Vec<Script>> {
        let threads = self.rng.usize(2..=most);
        (0..threads).map(|_| (0..self.rng.usize(1..=each)).map(|_| script(self)).collect()).collect()
    }

    /// Two or three rows that all transactions read and write.
    fn hot_rows(&mut self) -> Parts {
        let keys = self.rng.u64(2..=3);
        let (shape, initial) = self.table(keys, 2, 4);
        let threads = self.threads(4, 3, |draft| {
            let mut operations: Vec<_> = (0..draft.rng.usize(1..=2)).map(|_| draft.get(&shape)).collect();
            operations.extend((0..draft.rng.usize(..=2)).map(|_| draft.put(&shape)));
            if draft.rng.bool() {
                draft.rng.shuffle(&mut operations);
            }
            if draft.rng.u8(..8) == 0 { draft.reader(vec![draft_get_all(&shape)]) } else { Script::of(operations) }
        });
        (shape, initial, threads)
    }

    /// Every transaction reads all rows and writes one.
    fn write_skew(&mut self) -> Parts {
        let keys = self.rng.u64(2..=3);
        let (shape, initial) = self.table(keys, 2, 4);
        let threads = self.threads(3, 2, |draft| {
            let mut operations: Vec<_> = shape.keys.iter().map(|&key| Operation::Get { table: 0, key }).collect();
            draft.rng.shuffle(&mut operations);
            operations.push(draft.put(&shape));
            Script::of(operations)
        });
        (shape, initial, threads)
    }

    /// One transaction looks for several keys at once, of which some are missing, and another inserts one of those.
    fn misses_among_other_reads(&mut self) -> Parts {
        let (shape, _) = self.table(3, 2, 4);
        let initial = vec![BTreeMap::from([(0, self.value(2)), (1, self.value(2))])];
        let (first, second) = (self.value(2), self.value(2));
        let keys = if self.rng.bool() { vec![0, 1, 2] } else { vec![2, 0, 1] };
        let reader = vec![Operation::GetMany { table: 0, keys }, Operation::Put { table: 0, key: 0, value: first }];
        let inserter = vec![Operation::Get { table: 0, key: 0 }, Operation::Put { table: 0, key: 2, value: second }];
        let mut inserters = vec![Script::of(inserter)];
        if self.rng.bool() {
            let gone =
                vec![Operation::Put { table: 0, key: 2, value: self.value(2) }, Operation::Delete { table: 0, key: 2 }];
            inserters.insert(0, Script::of(gone));
        }
        (shape, initial, vec![vec![Script::of(reader)], inserters])
    }

    /// Each transaction reads a row and writes the one that the next transaction read: together they form a cycle.
    fn ring(&mut self) -> Parts {
        let keys = self.rng.u64(3..=4);
        let (shape, initial) = self.table(keys, 2, 4);
        let threads = (0..keys).map(|at| {
            let put = Operation::Put { table: 0, key: (at + 1) % keys, value: self.value(2) };
            let mut operations = vec![Operation::Get { table: 0, key: at }, put];
            if self.rng.u8(..4) == 0 {
                operations.swap(0, 1);
            }
            vec![Script::of(operations)]
        });
        let threads = threads.collect();
        (shape, initial, threads)
    }

    /// Two writers that are serializable without the readers (Fekete et al. 2004), and readers.
    fn read_only_anomaly(&mut self) -> Parts {
        let (shape, initial) = self.table(2, 2, 4);
        let get = |key| Operation::Get { table: 0, key };
        let (first, second) = (self.value(2), self.value(2));
        let (last, between) = (self.value(2), self.rng.bool());
        let put = |key, value| Operation::Put { table: 0, key, value };
        let mut both = Script::of(vec![get(0), get(1), put(0, first)]);
        if between {
            both.operations.swap(0, 1);
        }
        let one = vec![Script::of(vec![get(1), put(1, second)]), Script::of(vec![get(1), put(1, last)])];
        let mut threads = vec![vec![both], one];
        for _ in 0..self.rng.usize(1..=2) {
            let scripts = (0..self.rng.usize(1..=3)).map(|_| {
                let mut keys = [0, 1];
                self.rng.shuffle(&mut keys);
                self.reader(keys.map(get).into())
            });
            threads.push(scripts.collect());
        }
        (shape, initial, threads)
    }

    /// Scans and misses, then a write into what another transaction has scanned.
    fn inserts_into_scanned_ranges(&mut self) -> Parts {
        let keys = self.rng.u64(2..=5);
        let (shape, initial) = self.table(keys, 2, 1);
        let threads = self.threads(3, 2, |draft| {
            let look = if draft.rng.u8(..4) == 0 { draft.get(&shape) } else { draft.scan(&shape) };
            let key = shape.keys[draft.rng.usize(..shape.keys.len())];
            let value = draft.value(shape.groups);
            let write = match draft.rng.u8(..6) {
                0 => Operation::Delete { table: 0, key },
                1 => Operation::Put { table: 0, key, value },
                _ => Operation::Insert { table: 0, key, value },
            };
            match draft.rng.u8(..8) {
                0 => draft.reader(vec![look]),
                1 => Script::of(vec![write, look]),
                _ => Script::of(vec![look, write]),
            }
        });
        (shape, initial, threads)
    }

    /// Keys are deleted and inserted again, under maintenance that takes them out of the index.
    fn keys_that_come_back(&mut self) -> Parts {
        let keys = self.rng.u64(1..=2);
        let (shape, initial) = self.table(keys, 2, 2);
        let threads = self.threads(3, 4, |draft| {
            let key = shape.keys[draft.rng.usize(..shape.keys.len())];
            let (insert, put) = (draft.value(shape.groups), draft.value(shape.groups));
            let insert = Operation::Insert { table: 0, key, value: insert };
            let delete = Operation::Delete { table: 0, key };
            match draft.rng.u8(..8) {
                0 | 1 => Script::of(vec![delete]),
                2 => Script::of(vec![insert]),
                3 => Script::of(vec![delete, insert]),
                4 => Script::of(vec![insert, delete]),
                5 => Script::of(vec![draft.get(&shape), Operation::Put { table: 0, key, value: put }]),
                6 => Script::of(vec![draft.scan(&shape), draft.put(&shape)]),
                _ => {
                    let operations = vec![draft.get(&shape), draft.scan(&shape)];
                    draft.reader(operations)
                }
            }
        });
        (shape, initial, threads)
    }

    /// Writers that roll back between the reads of others.
    fn aborts_between_reads(&mut self) -> Parts {
        let (shape, initial) = self.table(2, 2, 3);
        let mut threads = self.threads(3, 2, |draft| {
            let operations = vec![draft.get(&shape), draft.scan(&shape), draft.put(&shape)];
            Script::of(operations)
        });
        let rolled_back = (0..self.rng.usize(1..=3)).map(|_| {
            let key = shape.keys[self.rng.usize(..shape.keys.len())];
            let mut operations = vec![self.put(&shape)];
            if self.rng.bool() {
                operations.push(Operation::Delete { table: 0, key });
            }
            if self.rng.bool() {
                operations.push(self.put(&shape));
            }
            let end = End::Rollback { dropped: self.rng.bool() };
            Script { end, ..Script::of(operations) }
        });
        threads.push(rolled_back.collect());
        (shape, initial, threads)
    }

    /// Writers that roll back to a savepoint, and then go on with what the undone writes have told them.
    fn writes_taken_back(&mut self) -> Parts {
        let (mut shape, initial) = self.table(3, 2, 2);
        let relaxed = self.rng.u8(..3);
        shape.unique = self.rng.u8(..4) == 0 && initial[0].len() < 2;
        let threads = self.threads(3, 2, |draft| {
            let mut operations = Vec::new();
            for _ in 0..draft.rng.usize(..=1) {
                operations.push(draft.any(&shape));
            }
            operations.push(Operation::Savepoint);
            for _ in 0..draft.rng.usize(1..=3) {
                operations.push(draft.any(&shape));
            }
            operations.push(Operation::GoBack);
            for _ in 0..draft.rng.usize(..=2) {
                operations.push(draft.any(&shape));
            }
            let mut script = Script::of(operations);
            if draft.rng.u8(..3) < relaxed {
                script.options = script.options.isolation(Isolation::Snapshot);
            }
            script
        });
        (shape, initial, threads)
    }

    fn any(&mut self, shape: &Shape) -> Operation {
        let key = shape.keys[self.rng.usize(..shape.keys.len())];
        let (table, value) = (0, self.value(shape.groups));
        match self.rng.u8(..8) {
            0 => self.get(shape),
            1 => self.scan(shape),
            2 | 3 => Operation::Insert { table, key, value },
            4 => Operation::Update { table, key, value },
            5 => Operation::Delete { table, key },
            _ => Operation::Put { table, key, value },
        }
    }

    /// One thread runs short transactions, in the same reader slot, while others that depend on them commit.
    fn one_slot_again_and_again(&mut self) -> Parts {
        let (shape, initial) = self.table(3, 2, 4);
        let short = (0..self.rng.usize(3..=6)).map(|_| match self.rng.u8(..6) {
            0 => Script::of(vec![self.get(&shape)]),
            1..=3 => Script::of(vec![self.put(&shape)]),
            _ => {
                let operations = vec![self.get(&shape), self.put(&shape)];
                Script::of(operations)
            }
        });
        let mut threads = vec![short.collect()];
        for _ in 0..self.rng.usize(1..=2) {
            let operations = vec![self.get(&shape), self.get(&shape), self.put(&shape), self.put(&shape)];
            threads.push(vec![Script::of(operations)]);
        }
        (shape, initial, threads)
    }

    /// A transaction overwrites what an earlier one in the same reader slot has read, and is part of a cycle with it:
    /// only the slot may record that reader. Another thread's transaction lasts from before the first to after the last
    /// began.
    fn a_reader_before_its_overwriter_in_one_slot(&mut self) -> Parts {
        let (shape, initial) = self.table(4, 2, 4);
        let get = |key| Operation::Get { table: 0, key };
        let values: Vec<_> = (0..4).map(|_| self.value(2)).collect();
        let put = |key| Operation::Put { table: 0, key, value: values[key as usize] };
        let long = Script::of(vec![get(0), put(1)]);
        let mut reader = vec![get(0), get(2)];
        reader.extend(self.rng.bool().then(|| put(3)));
        let one_slot = vec![Script::of(vec![put(0)]), Script::of(reader), Script::of(vec![get(1), put(2)])];
        (shape, initial, vec![vec![long], one_slot])
    }

    /// Entries of a secondary index, unique or not, that move under scans of it.
    fn rows_that_change_their_group(&mut self) -> Parts {
        let groups = self.rng.u64(2..=3);
        let (mut shape, mut initial) = self.table(3, groups, 2);
        if self.rng.bool() {
            shape.unique = true;
            initial = vec![BTreeMap::from([(0, value_of(0, 1))])];
        }
        let threads = self.threads(3, 2, |draft| {
            let group = draft.rng.u64(..groups);
            let (table, through) = (0, Through::ByGroup);
            let backward = draft.rng.bool();
            let scan = Operation::Scan { table, through, lower: group, upper: group, backward, limit: usize::MAX };
            let key = shape.keys[draft.rng.usize(..shape.keys.len())];
            let value = draft.value(groups);
            let write = match draft.rng.u8(..6) {
                0 => Operation::Delete { table, key },
                1 | 2 => Operation::Insert { table, key, value },
                3 => Operation::Update { table, key, value },
                _ => Operation::Put { table, key, value },
            };
            match draft.rng.u8(..5) {
                0 => draft.reader(vec![scan]),
                1 => Script::of(vec![write, scan]),
                _ => Script::of(vec![scan, write]),
            }
        });
        (shape, initial, threads)
    }

    /// R -rw-> U -rw-> W -wr-> D -wr-> R, where R misses a key that D deleted and that is out of the index by then
    /// (docs/design/ssn.md, "Removed stamps").
    fn misses_of_removed_keys(&mut self) -> Parts {
        let (shape, initial) = self.table(3, 2, 4);
        let get = |key| Operation::Get { table: 0, key };
        let values: Vec<_> = (0..4).map(|_| self.value(2)).collect();
        let put = |key, at: usize| Operation::Put { table: 0, key, value: values[at] };
        let miss = match self.rng.bool() {
            true => get(2),
            false => Operation::Scan {
                table: 0,
                through: Through::Primary,
                lower: 2,
                upper: 2,
                backward: self.rng.bool(),
                limit: usize::MAX,
            },
        };
        let mut reads = vec![get(0), miss];
        self.rng.shuffle(&mut reads);
        let mut reader = Script::of(reads);
        if self.rng.bool() {
            // So that the reader does not commit below its snapshot.
            reader.operations.push(Operation::Put { table: 0, key: 3, value: values[3] });
        }
        let delete = Script::of(vec![get(1), Operation::Delete { table: 0, key: 2 }]);
        let mut shape = shape;
        shape.keys.push(3);
        let threads = vec![
            vec![Script::of(vec![get(1), put(0, 0)])],
            vec![Script::of(vec![put(1, 1)]), delete, Script::of(vec![put(1, 2)])],
            vec![reader],
        ];
        (shape, initial, threads)
    }

    /// One transaction reads whether a batch is open and adds to it. Meanwhile a client closes the batch, the close is
    /// acknowledged, and the client reports on the batch: the content that it reports must not change any more, though
    /// the report reads nothing of the closing.
    fn reports_on_what_is_closed(&mut self) -> Parts {
        let there = if self.rng.bool() { 4 } else { 2 };
        let (shape, initial) = self.table(3, 2, there);
        let get = |key| Operation::Get { table: 0, key };
        let put = |draft: &mut Self, key| Operation::Put { table: 0, key, value: draft.value(2) };
        let mut add = vec![get(0), put(self, 1)];
        if self.rng.u8(..4) == 0 {
            add.swap(0, 1);
        }
        let look = match self.rng.bool() {
            true => get(1),
            false => Operation::Scan {
                table: 0,
                through: Through::Primary,
                lower: 1,
                upper: 1,
                backward: false,
                limit: usize::MAX,
            },
        };
        let mut report = self.reader(vec![look]);
        if self.rng.bool() {
            let note = put(self, 2);
            report = Script::of(vec![report.operations.remove(0), note]);
        }
        let mut client = Vec::new();
        if self.rng.bool() {
            // A snapshot that might be handed out again.
            client.push(Script { options: TxnOptions::snapshot(), ..Script::of(vec![get(0)]) });
        }
        client.push(Script::of(vec![put(self, 0)]));
        let mut threads = vec![vec![Script::of(add)]];
        if self.rng.bool() {
            client.push(report);
            threads.push(client);
        } else {
            threads.extend([client, vec![report]]);
        }
        (shape, initial, threads)
    }

    /// Random operations on a random shape.
    fn anything(&mut self) -> Parts {
        let shape = Shape { operations: 3, ..Shape::random(self.rng) };
        let initial = shape.initial(self.rng);
        let threads = self.threads(3, 3, |draft| {
            let options = history::random_options(draft.rng, Scheme::default());
            let operations = (0..draft.rng.usize(1..=shape.operations)).map(|_| {
                draft.number += 1;
                Operation::random(draft.rng, &shape, options.read_only, draft.number)
            });
            let operations = operations.collect();
            let end = match draft.rng.u8(..11) {
                0 => End::Rollback { dropped: draft.rng.bool() },
                1 => End::PrepareAndCommit,
                _ => End::Commit,
            };
            Script { options, end, ..Script::of(operations) }
        });
        (shape, initial, threads)
    }
}

fn draft_get_all(shape: &Shape) -> Operation {
    Operation::GetMany { table: 0, keys: shape.keys.clone() }
}
