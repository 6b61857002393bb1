//! Hash joins: the rows of a source are read once, and found by a hash of some of their values.
//!
//! The hash is made when the source's rows are needed for the first time. If they are the same for all rows of the
//! queries around ([`Hash::is_fixed`]), it stays until the statement ends: a query in an expression that compares an
//! outer value with a column without index costs one lookup a row instead of one scan. Where there may be one row before
//! it ([`Hash::is_lazy`]), the first run scans, without memory, and the second one makes the hash.
//!
//! All rows are in memory, at most `work_mem`.

use std::{
    cell::{Cell, RefCell},
    ops::ControlFlow,
    rc::Rc,
};

use ermine::KeyBuffer;

use super::{
    EachJoined, Run,
    instrumentation::{OneRun, Step},
    key_set::KeySet,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    key::write_key,
    memory::Kept,
    query::{Hash, Join, Source, SourceKind},
    types::Value,
};

/// The hashes of a run, by the address of their source.
#[derive(Default)]
pub(super) struct Hashes<'r>(RefCell<hashbrown::HashMap<usize, State<'r>>>);

enum State<'r> {
    /// The source has been scanned once, for one outer row.
    Scanned,
    Built(Rc<HashedRows<'r>>),
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

impl<'r> HashedRows<'r> {
    fn new(source: &Source, kept: Kept<'r>) -> Self {
        let places = match &source.kind {
            SourceKind::Table(table) => {
                table.needed.iter().map(|column| source.first + column).chain(table.key_at).collect()
            }
            _ => (source.first..source.first + source.width).collect(),
        };
        Self {
            places,
            values: Vec::new(),
            keys: KeySet::default(),
            chains: Vec::new(),
            next: Vec::new(),
            met: RefCell::default(),
            current: Cell::new(0),
            kept,
        }
    }

    /// Adds the row of the source in `row`.
    fn push(&mut self, key: &[u8], row: &[Value]) -> Result<()> {
        let number = u32::try_from(self.next.len())
            .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a hash join of more than 2^32 rows"))?;
        let bytes: usize = self.places.iter().map(|at| row[*at].bytes()).sum();
        // Lists that grow have room for twice as much.
        let own = self.places.len() * size_of::<Value>() + size_of::<(u32, u32)>() + size_of::<u32>();
        self.kept.add(bytes + 2 * own)?;
        self.values.extend(self.places.iter().map(|at| row[*at].clone()));
        self.next.push(number);
        let (at, is_new) = self.keys.add(key, &mut self.kept)?;
        if is_new {
            self.chains.push((number, number));
        } else {
            let (_, last) = &mut self.chains[at];
            self.next[*last as usize] = number;
            *last = number;
        }
        Ok(())
    }

    /// Returns the numbers of the rows with a key, in the order in which they were added.
    fn find(&self, key: &[u8]) -> impl Iterator<Item = u32> {
        let mut at = self.keys.number(key).map(|key| self.chains[key].0);
        std::iter::from_fn(move || {
            let number = at?;
            at = Some(self.next[number as usize]).filter(|next| *next != number);
            Some(number)
        })
    }

    /// Puts a row of the source into its places.
    fn show(&self, number: u32, row: &mut [Value]) {
        let width = self.places.len();
        let values = &self.values[number as usize * width..][..width];
        for (at, value) in self.places.iter().zip(values) {
            row[*at].clone_from(value);
        }
    }
}

impl<'r> Run<'r> {
    /// Emits the rows of a source that match the rows before it, each put into `row`.
    #[inline(never)]
    pub(super) fn hashed_rows(
        &self,
        (source, hash): (&Source, &Hash),
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut wanted = KeyBuffer::new();
        let rows = match self.hashed(source, hash, row, outer)? {
            Some(rows) => rows,
            None => return self.scanned_rows((source, hash), row, outer, each),
        };
        if !self.write_keys(hash.keys.iter().map(|(before, _)| before), row, outer, &mut wanted)? {
            return Ok(ControlFlow::Continue(()));
        }
        for number in rows.find(&wanted) {
            self.check_cancelled()?;
            rows.show(number, row);
            if source.join == Join::Full {
                rows.current.set(number as usize);
            }
            if each(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
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

    /// Returns the hash of a source, which is made if it is missing; `None` if a scan is better.
    #[inline(never)]
    fn hashed(
        &self,
        source: &Source,
        hash: &Hash,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Option<Rc<HashedRows<'r>>>> {
        let address = std::ptr::from_ref(source) as usize;
        let is_first = match self.hashes.0.borrow().get(&address) {
            Some(State::Built(rows)) => return Ok(Some(rows.clone())),
            Some(State::Scanned) => false,
            None => true,
        };
        if is_first && hash.is_lazy {
            self.hashes.0.borrow_mut().insert(address, State::Scanned);
            return Ok(None);
        }
        let mut rows = HashedRows::new(source, Kept::new(&self.environment.memory));
        let (mut key, mark) = (KeyBuffer::new(), self.environment.memory.mark());
        let mut run = self.instrumentation.as_ref().map(|_| OneRun::begin());
        let _ = self.source_rows(source, row, outer, &mut |row| {
            self.next_row(mark);
            key.clear();
            let is_kept = self.all_hold(&hash.filter, row, outer)?;
            run.iter_mut().for_each(|run| run.count(u64::from(is_kept)));
            // A row without a key meets no other.
            let has_key = is_kept && self.write_keys(hash.keys.iter().map(|(_, own)| own), row, outer, &mut key)?;
            if has_key || source.join == Join::Full {
                rows.push(if has_key { &key } else { UNMATCHED }, row)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if source.join == Join::Full {
            rows.met = RefCell::new(vec![false; rows.next.len()]);
        }
        if let (Some(instrumentation), Some(run)) = (&self.instrumentation, &run) {
            instrumentation.holds(source, Step::Whole, rows.kept.bytes());
            instrumentation.record(source, Step::Hashed, run);
        }
        let rows = Rc::new(rows);
        self.hashes.0.borrow_mut().insert(address, State::Built(rows.clone()));
        Ok(Some(rows))
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
        let Some(rows) = self.hashed(source, hash, row, outer)? else { return Ok(ControlFlow::Continue(())) };
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

    /// Drops the hashes that hold for the current outer row only.
    pub(super) fn drop_hashes(&self, sources: &[Source]) {
        for source in sources.iter().filter(|source| source.hash.as_ref().is_some_and(|hash| !hash.is_fixed)) {
            self.hashes.0.borrow_mut().remove(&(std::ptr::from_ref(source) as usize));
        }
    }
}

/// The key of rows that meet no other: no value has such bytes.
const UNMATCHED: &[u8] = &[];
