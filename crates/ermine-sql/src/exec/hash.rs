//! Hash joins: the rows of a source are read once, and found by a hash of some of their values.
//!
//! The hash is made when the source's rows are needed for the first time. If they are the same for all rows of the
//! queries around ([`Hash::is_fixed`]), it stays until the statement ends: a query in an expression that compares an
//! outer value with a column without index costs one lookup a row instead of one scan. Where there may be one row before
//! it ([`Hash::is_lazy`]), the first run scans, without memory, and the second one makes the hash.
//!
//! A hash that does not fit into memory goes to batches in a temporary file. Then the rows before it go to batches,
//! too, each to that of its key. When all of them have come ([`Run::join_batches`]), the hash of one batch after the
//! other is made, and the loops go on for the rows of that batch. A batch that is too large is divided again; rows with
//! one key have to fit into `work_mem`. Where the order of the rows before has to stay, the whole hash has to.

use std::{
    cell::{Cell, RefCell},
    mem,
    ops::ControlFlow,
    rc::Rc,
};

use ermine::KeyBuffer;

use super::{
    EachJoined, Emit, Run,
    instrumentation::{OneRun, Step},
    key_set::KeySet,
    space::Batches,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    key::write_key,
    memory::{Kept, Memory},
    query::{Hash, Join, Source, SourceKind},
    tape::Tape,
    types::Value,
};

/// The hashes of a run, by the address of their source.
#[derive(Default)]
pub(super) struct Hashes<'r>(RefCell<hashbrown::HashMap<usize, State<'r>>>);

enum State<'r> {
    /// The source has been scanned once, for one outer row.
    Scanned,
    Built(Rc<HashedRows<'r>>),
    Spilled(Rc<SpilledRows>),
}

/// How the rows of a source are found.
enum Found<'r> {
    /// By a scan.
    Scan,
    Rows(Rc<HashedRows<'r>>),
    /// Later.
    Batches(Rc<SpilledRows>),
}

/// The rows of a source, in batches.
struct SpilledRows {
    batches: Vec<Rc<Tape>>,
    /// The rows before it that wait, each behind its key, in batches of the same keys.
    waiting: RefCell<Batches>,
}

/// The rows of a source, by their hash.
struct HashedRows<'r> {
    /// The places in the joined row that a row of the source fills.
    places: Vec<usize>,
    /// The values of all rows, one after the other.
    values: Vec<Value>,
    keys: KeySet,
    /// The first and the last row of each key, by its number.
    chains: Vec<(u32, u32)>,
    /// For each row, the next one with the same key; itself: none.
    next: Vec<u32>,
    /// Of a full join: whether a row has met another.
    met: RefCell<Vec<bool>>,
    /// Of a full join: the row that is being emitted.
    current: Cell<usize>,
    kept: Kept<'r>,
}

/// Returns the places in the joined row that a row of a source fills.
fn places_of(source: &Source) -> Vec<usize> {
    match &source.kind {
        SourceKind::Table(table) => {
            table.needed.iter().map(|column| source.first + column).chain(table.key_at).collect()
        }
        _ => (source.first..source.first + source.width).collect(),
    }
}

/// Adds a row to the batch of its key; one that meets no other, to any.
fn put<'v>(batches: &mut Batches, key: &[u8], row: impl IntoIterator<Item = &'v Value>) -> Result<()> {
    if key == UNMATCHED { batches.push_alone(key, row) } else { batches.push(key, row) }
}

impl SpilledRows {
    /// Returns the rows that wait; after that, none wait.
    fn take_waiting(&self) -> Batches {
        let mut waiting = self.waiting.borrow_mut();
        let none = waiting.alike();
        mem::replace(&mut waiting, none)
    }
}

impl<'r> HashedRows<'r> {
    fn new(source: &Source, memory: &'r Memory) -> Self {
        Self {
            places: places_of(source),
            values: Vec::new(),
            keys: KeySet::default(),
            chains: Vec::new(),
            next: Vec::new(),
            met: RefCell::default(),
            current: Cell::new(0),
            kept: Kept::new(memory),
        }
    }

    /// Adds a row of the source, unless there is no room for it; returns whether it has.
    fn push<'v>(&mut self, key: &[u8], row: impl Iterator<Item = &'v Value> + Clone, has_to_fit: bool) -> Result<bool> {
        let number = u32::try_from(self.next.len())
            .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a hash join of more than 2^32 rows"))?;
        let bytes: usize = row.clone().map(Value::bytes).sum();
        // Lists that grow have room for twice as much.
        let own = self.places.len() * size_of::<Value>() + size_of::<(u32, u32)>() + size_of::<u32>();
        let bytes = bytes + 2 * own;
        let (at, is_new) = match self.keys.number(key) {
            _ if has_to_fit => {
                self.kept.add(bytes)?;
                self.keys.add(key, &mut self.kept)?
            }
            Some(_) if !self.kept.try_add(bytes) => return Ok(false),
            Some(at) => (at, false),
            None => match self.keys.try_add(key, || bytes, &mut self.kept)? {
                Some(added) => added,
                None => return Ok(false),
            },
        };
        self.values.extend(row.cloned());
        self.next.push(number);
        if is_new {
            self.chains.push((number, number));
        } else {
            let (_, last) = &mut self.chains[at];
            self.next[*last as usize] = number;
            *last = number;
        }
        Ok(true)
    }

    /// Returns the hash when all rows have been added.
    fn complete(mut self, source: &Source) -> Rc<Self> {
        if source.join == Join::Full {
            self.met = RefCell::new(vec![false; self.next.len()]);
        }
        Rc::new(self)
    }

    /// Moves all rows to batches.
    fn spill(self, batches: &mut Batches) -> Result<()> {
        for (key, (first, _)) in self.chains.iter().enumerate() {
            for number in self.chain(*first) {
                put(batches, self.keys.key(key), self.values_of(number))?;
            }
        }
        Ok(())
    }

    /// Returns the numbers of the rows with a key, in the order in which they were added.
    fn find(&self, key: &[u8]) -> impl Iterator<Item = u32> {
        self.keys.number(key).into_iter().flat_map(|key| self.chain(self.chains[key].0))
    }

    /// Returns the numbers of the rows of a chain.
    fn chain(&self, first: u32) -> impl Iterator<Item = u32> {
        let mut at = Some(first);
        std::iter::from_fn(move || {
            let number = at?;
            at = Some(self.next[number as usize]).filter(|next| *next != number);
            Some(number)
        })
    }

    /// Puts a row of the source into its places.
    fn show(&self, number: u32, row: &mut [Value]) {
        for (at, value) in self.places.iter().zip(self.values_of(number)) {
            row[*at].clone_from(value);
        }
    }

    fn values_of(&self, number: u32) -> &[Value] {
        let width = self.places.len();
        &self.values[number as usize * width..][..width]
    }
}

impl<'r> Run<'r> {
    /// Emits the rows of a source that match the rows before it, each put into `row`; `None`: that is done later.
    #[inline(never)]
    pub(super) fn hashed_rows(
        &self,
        (source, hash): (&Source, &Hash),
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<Option<ControlFlow<()>>> {
        let mut wanted = KeyBuffer::new();
        let found = match self.hashed(source, hash, row, outer)? {
            Found::Scan => return self.scanned_rows((source, hash), row, outer, each).map(Some),
            found => found,
        };
        if !self.write_keys(hash.keys.iter().map(|(before, _)| before), row, outer, &mut wanted)? {
            return Ok(Some(ControlFlow::Continue(())));
        }
        let rows = match found {
            Found::Rows(rows) => rows,
            Found::Scan => return Ok(Some(ControlFlow::Continue(()))),
            Found::Batches(spilled) => {
                spilled.waiting.borrow_mut().push(&wanted, &row[..])?;
                return Ok(None);
            }
        };
        for number in rows.find(&wanted) {
            self.check_cancelled()?;
            rows.show(number, row);
            if source.join == Join::Full {
                rows.current.set(number as usize);
            }
            if each(row)?.is_break() {
                return Ok(Some(ControlFlow::Break(())));
            }
        }
        Ok(Some(ControlFlow::Continue(())))
    }

    /// Emits the same rows as `hashed_rows` without a hash.
    #[inline(never)]
    fn scanned_rows(
        &self,
        (source, hash): (&Source, &Hash),
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let (mut wanted, mut own) = (KeyBuffer::new(), KeyBuffer::new());
        if !self.write_keys(hash.keys.iter().map(|(before, _)| before), row, outer, &mut wanted)? {
            return Ok(ControlFlow::Continue(()));
        }
        let mark = self.environment.memory.mark();
        let mut run = self.instrumentation.as_ref().map(|_| OneRun::begin());
        let flow = self.source_rows(source, row, outer, &mut |row| {
            self.next_row(mark);
            own.clear();
            let is_kept = self.all_hold(&hash.filter, row, outer)?;
            let is_met = is_kept
                && self.write_keys(hash.keys.iter().map(|(_, own)| own), row, outer, &mut own)?
                && own[..] == wanted[..];
            match &mut run {
                Some(run) if is_met => run.show(|| each(row)),
                _ if is_met => each(row),
                run => {
                    run.iter_mut().for_each(|run| run.count(u64::from(is_kept)));
                    Ok(ControlFlow::Continue(()))
                }
            }
        })?;
        if let (Some(instrumentation), Some(run)) = (&self.instrumentation, &run) {
            instrumentation.record(source, Step::Hashed, run);
        }
        Ok(flow)
    }

    /// Returns the hash of a source, which is made if it is missing, unless a scan is better.
    #[inline(never)]
    fn hashed(
        &self,
        source: &Source,
        hash: &Hash,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Found<'r>> {
        let address = std::ptr::from_ref(source) as usize;
        let is_first = match self.hashes.0.borrow().get(&address) {
            Some(State::Built(rows)) => return Ok(Found::Rows(rows.clone())),
            Some(State::Spilled(spilled)) => return Ok(Found::Batches(spilled.clone())),
            Some(State::Scanned) => false,
            None => true,
        };
        if is_first && hash.is_lazy {
            self.hashes.0.borrow_mut().insert(address, State::Scanned);
            return Ok(Found::Scan);
        }
        let mut rows = HashedRows::new(source, &self.environment.memory);
        let (mut batches, places): (Option<Batches>, _) = (None, rows.places.clone());
        let (mut key, mark) = (KeyBuffer::new(), self.environment.memory.mark());
        // Without keys all rows match.
        let (mut held, has_to_fit) = (0, hash.has_to_fit || hash.keys.is_empty());
        let mut run = self.instrumentation.as_ref().map(|_| OneRun::begin());
        let _ = self.source_rows(source, row, outer, &mut |row| {
            self.next_row(mark);
            key.clear();
            let is_kept = self.all_hold(&hash.filter, row, outer)?;
            run.iter_mut().for_each(|run| run.count(u64::from(is_kept)));
            // A row without a key meets no other.
            let has_key = is_kept && self.write_keys(hash.keys.iter().map(|(_, own)| own), row, outer, &mut key)?;
            if has_key || source.join == Join::Full {
                let (key, values) = (if has_key { &key[..] } else { UNMATCHED }, places.iter().map(|at| &row[*at]));
                match &mut batches {
                    Some(batches) => put(batches, key, values)?,
                    None if rows.push(key, values.clone(), has_to_fit)? => {}
                    None => {
                        let batches = batches.insert(self.space.batches()?);
                        let full = mem::replace(&mut rows, HashedRows::new(source, &self.environment.memory));
                        held = full.kept.bytes();
                        full.spill(batches)?;
                        put(batches, key, values)?;
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let (Some(instrumentation), Some(run)) = (&self.instrumentation, &run) {
            instrumentation.holds(source, Step::Whole, held.max(rows.kept.bytes()), 0);
            instrumentation.record(source, Step::Hashed, run);
        }
        let (state, found) = match batches {
            None => {
                let rows = rows.complete(source);
                (State::Built(rows.clone()), Found::Rows(rows))
            }
            Some(batches) => {
                // The rows that wait are written as a whole.
                places.iter().for_each(|at| row[*at] = Value::Null);
                let waiting = RefCell::new(batches.alike());
                let batches = batches.end()?.into_iter().map(Rc::new).collect();
                let spilled = Rc::new(SpilledRows { batches, waiting });
                (State::Spilled(spilled.clone()), Found::Batches(spilled))
            }
        };
        self.hashes.0.borrow_mut().insert(address, state);
        Ok(found)
    }

    /// Makes the hash of a source, if it is missing.
    pub(super) fn make_hash(
        &self,
        source: &Source,
        hash: &Hash,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
    ) -> Result<()> {
        self.hashed(source, hash, row, outer).map(drop)
    }

    /// Goes on with the rows that wait for the batches of the first of these sources.
    #[inline(never)]
    pub(super) fn join_batches(
        &self,
        sources: &[Source],
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let address = std::ptr::from_ref(&sources[0]) as usize;
        let spilled = match self.hashes.0.borrow().get(&address) {
            Some(State::Spilled(spilled)) => spilled.clone(),
            _ => return Ok(ControlFlow::Continue(())),
        };
        let source = &sources[0];
        let waiting = spilled.take_waiting().end()?.into_iter().map(Rc::new);
        let mut pairs: Vec<_> = spilled.batches.iter().cloned().zip(waiting).collect();
        let bytes = |pairs: &[(Rc<Tape>, Rc<Tape>)]| pairs.iter().map(|(own, other)| own.bytes() + other.bytes()).sum();
        let mut written: u64 = bytes(&pairs);
        let flow = loop {
            // Drops the hash of the batch before.
            self.hashes.0.borrow_mut().insert(address, State::Spilled(spilled.clone()));
            let Some((batch, waiting)) = pairs.pop() else { break ControlFlow::Continue(()) };
            let has_rows = match source.join {
                Join::Inner => batch.rows() > 0 && waiting.rows() > 0,
                Join::Left => waiting.rows() > 0,
                Join::Full => true,
            };
            if !has_rows {
                continue;
            }
            let mut rows = self.hash_of_batch(source, &batch, false)?;
            if rows.is_none() && !self.has_one_key(source, &batch)? {
                let divided = self.divide((source, &batch), (&waiting, row.len()))?;
                written += bytes(&divided);
                pairs.extend(divided);
                continue;
            }
            if rows.is_none() {
                rows = self.hash_of_batch(source, &batch, true)?;
            }
            let Some(rows) = rows else { continue };
            if self.join_batch(sources, rows, &waiting, row, outer, emit)?.is_break() {
                break ControlFlow::Break(());
            }
        };
        self.hashes.0.borrow_mut().insert(address, State::Spilled(spilled));
        self.instrumentation.iter().for_each(|of| of.holds(source, Step::Whole, 0, written));
        Ok(flow)
    }

    /// Goes on with the rows that wait for one batch.
    fn join_batch(
        &self,
        sources: &[Source],
        rows: Rc<HashedRows<'r>>,
        waiting: &Tape,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let address = std::ptr::from_ref(&sources[0]) as usize;
        self.hashes.0.borrow_mut().insert(address, State::Built(rows));
        let (mut reader, mark) = (self.space.read(waiting), self.environment.memory.mark());
        while reader.next(row)?.is_some() {
            self.next_row(mark);
            if self.loop_over(sources, row, outer, emit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match (&sources[0], &sources[0].hash) {
            (source, Some(hash)) if source.join == Join::Full => {
                self.unmet_rows((source, hash), row, outer, &mut |row| emit(row))
            }
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    /// Divides a batch, and the rows that wait for it.
    fn divide(
        &self,
        (source, batch): (&Source, &Tape),
        (waiting, width): (&Tape, usize),
    ) -> Result<Vec<(Rc<Tape>, Rc<Tape>)>> {
        let mut own = self.space.batches()?;
        let mut others = own.alike();
        let (mut values, mut reader) = (vec![Value::Null; places_of(source).len()], self.space.read(batch));
        while let Some(key) = reader.next(&mut values)? {
            put(&mut own, key, &values)?;
        }
        others.add_all(self.space.read(waiting), width)?;
        Ok(own.end()?.into_iter().map(Rc::new).zip(others.end()?.into_iter().map(Rc::new)).collect())
    }

    /// Whether all rows of a batch have the same key, so that dividing it is no use.
    fn has_one_key(&self, source: &Source, batch: &Tape) -> Result<bool> {
        let (mut values, mut reader) = (vec![Value::Null; places_of(source).len()], self.space.read(batch));
        let mut first: Option<Vec<u8>> = None;
        while let Some(key) = reader.next(&mut values)? {
            if key == UNMATCHED || first.as_ref().is_some_and(|first| first != key) {
                return Ok(false);
            }
            first.get_or_insert_with(|| key.to_vec());
        }
        Ok(true)
    }

    /// Makes the hash of a batch; `None`: it does not fit into memory.
    fn hash_of_batch(&self, source: &Source, batch: &Tape, has_to_fit: bool) -> Result<Option<Rc<HashedRows<'r>>>> {
        let mut rows = HashedRows::new(source, &self.environment.memory);
        let (mut values, mut reader) = (vec![Value::Null; rows.places.len()], self.space.read(batch));
        while let Some(key) = reader.next(&mut values)? {
            if !rows.push(key, values.iter(), has_to_fit)? {
                return Ok(None);
            }
        }
        Ok(Some(rows.complete(source)))
    }

    /// Appends the key of some values; returns `false` if one of them is NULL.
    fn write_keys<'x>(
        &self,
        exprs: impl Iterator<Item = &'x Expr>,
        row: &[Value],
        outer: Option<&Frame<'_>>,
        key: &mut KeyBuffer,
    ) -> Result<bool> {
        let frame = Frame { row, outer };
        for expr in exprs {
            let value = expr.eval(&frame, self)?;
            if value.is_null() {
                return Ok(false);
            }
            write_key(&value, false, key);
        }
        Ok(true)
    }

    /// Notes that the row of a full join's source that is being emitted has met another.
    #[inline(never)]
    pub(super) fn note_met(&self, source: &Source) {
        if let Some(State::Built(rows)) = self.hashes.0.borrow().get(&(std::ptr::from_ref(source) as usize)) {
            rows.met.borrow_mut()[rows.current.get()] = true;
        }
    }

    /// Emits the rows of a full join's source that have met no other, with NULL in all other places.
    #[inline(never)]
    pub(super) fn unmet_rows(
        &self,
        (source, hash): (&Source, &Hash),
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        // Those of batches have been emitted with these.
        let Found::Rows(rows) = self.hashed(source, hash, row, outer)? else { return Ok(ControlFlow::Continue(())) };
        let mark = self.environment.memory.mark();
        for number in 0..rows.next.len() {
            if rows.met.borrow()[number] {
                continue;
            }
            self.check_cancelled()?;
            self.next_row(mark);
            row.fill(Value::Null);
            rows.show(number as u32, row);
            if each(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Drops the hashes that hold for the current outer row only, and rows that wait for batches although no more are
    /// wanted.
    pub(super) fn drop_hashes(&self, sources: &[Source]) {
        let mut hashes = self.hashes.0.borrow_mut();
        for (source, hash) in sources.iter().filter_map(|source| Some((source, source.hash.as_ref()?))) {
            let address = std::ptr::from_ref(source) as usize;
            if !hash.is_fixed {
                hashes.remove(&address);
            } else if let Some(State::Spilled(spilled)) = hashes.get(&address) {
                drop(spilled.take_waiting());
            }
        }
    }
}

/// The key of rows that meet no other: no value has such bytes.
const UNMATCHED: &[u8] = &[];
