//! Rows that are kept until the client fetches them, or while a statement runs.

use std::{collections::VecDeque, mem};

use crate::{
    error::{Result, SqlError, SqlState},
    memory::{Held, Memory, bytes_of},
    result::RowSink,
    tape::{Place, Tape},
    types::Value,
};

/// Rows of a portal or a cursor that have not been fetched, or that a WITH query that writes returns, in their order:
/// the first ones in memory, those that do not fit there in a temporary file, if there is a place for one.
#[derive(Debug)]
pub struct RowBuffer {
    rows: VecDeque<Box<[Value]>>,
    bytes: usize,
    bytes_max: usize,
    held: Held,
    /// The share of `work_mem` that the rows may take.
    held_max: usize,
    /// The place of the temporary file; `None`: all rows have to fit into memory.
    place: Option<Place>,
    tape: Option<OnTape>,
}

/// Rows behind those in memory.
#[derive(Debug)]
struct OnTape {
    tape: Tape,
    width: usize,
    /// The rows of the chunk that was read last, and the number of the first of them.
    first: u64,
    rows: Vec<Vec<Value>>,
    /// The number of rows that have been dropped.
    dropped: u64,
}

impl Default for RowBuffer {
    fn default() -> Self {
        Self::new(Self::BYTES_MAX)
    }
}

impl RowBuffer {
    /// The bytes of rows that may be kept in memory at a time.
    pub const BYTES_MAX: usize = 256 << 20;

    /// Returns an empty set of rows with room for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let (rows, held) = (VecDeque::new(), Held::default());
        Self { rows, bytes: 0, bytes_max, held, held_max: usize::MAX, place: None, tape: None }
    }

    /// Like [`RowBuffer::new`], for rows that outlive the statement: they count against the database's budget, and
    /// `work_mem` bounds those in memory.
    pub(crate) fn counted(bytes_max: usize, memory: &Memory, place: Place) -> Self {
        Self { held: memory.hold(), held_max: place.work_mem, place: Some(place), ..Self::new(bytes_max) }
    }

    /// Returns the approximate bytes of memory that the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a row; fails if there is no room for it.
    pub fn push(&mut self, row: &[Value]) -> Result<()> {
        if self.tape.is_none() {
            match (self.take_room(self.bytes + bytes_of(row)), &self.place) {
                (Ok(()), _) => {
                    self.rows.push_back(row.into());
                    return Ok(());
                }
                (Err(error), None) => return Err(error),
                (Err(_), Some(place)) => {
                    let (tape, rows) = (Tape::alone(place)?, Vec::new());
                    self.tape = Some(OnTape { tape, width: row.len(), first: 0, rows, dropped: 0 });
                }
            }
        }
        self.tape.as_mut().map_or(Ok(()), |of| {
            // The rows that were read last may get more behind them.
            of.rows.clear();
            of.tape.push(&[], row)
        })
    }

    fn take_room(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes_max {
            let what = "too many rows would have to be kept, of a portal or a cursor that is fetched in parts";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .hint("Fetch all rows at once, or fewer by LIMIT."));
        }
        self.held.grow_to(bytes, self.held_max)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Iterates over all rows and keeps them; they are all in memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Value]> {
        debug_assert!(self.tape.is_none());
        self.rows.iter().map(|row| &**row)
    }

    /// Sends the first rows, at most `count`, and drops them; returns their number.
    pub fn fetch(&mut self, count: usize, rows: &mut dyn RowSink) -> Result<usize> {
        let mut fetched = 0;
        while fetched < count && self.len() > 0 {
            match self.rows.pop_front() {
                Some(row) => {
                    self.bytes -= bytes_of(&row);
                    self.held.shrink_to(self.bytes);
                    rows.row(&row)?;
                }
                None => {
                    rows.row(self.row(0)?)?;
                    self.drop_first(1);
                }
            }
            fetched += 1;
        }
        Ok(fetched)
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.tape.as_ref().map_or(0, |of| (of.tape.rows() - of.dropped) as usize)
    }

    /// Returns a row by its place. Rows in the file are best read in their order.
    pub(crate) fn row(&mut self, at: usize) -> Result<&[Value]> {
        match (at.checked_sub(self.rows.len()), &mut self.tape) {
            (Some(behind), Some(of)) => of.row(behind as u64),
            _ => Ok(&self.rows[at]),
        }
    }

    /// Returns a value of a row by its place.
    pub(crate) fn value(&self, at: usize, column: usize) -> Result<Value> {
        let (Some(behind), Some(of)) = (at.checked_sub(self.rows.len()), &self.tape) else {
            return Ok(self.rows[at][column].clone());
        };
        let wanted = of.dropped + behind as u64;
        let (first, mut rows) = of.tape.rows_of(of.tape.chunk_of(wanted), of.width)?;
        Ok(mem::take(&mut rows[(wanted - first) as usize][column]))
    }

    /// Drops the first rows.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let in_memory = count.min(self.rows.len());
        self.bytes -= self.rows.drain(..in_memory).map(|row| bytes_of(&row)).sum::<usize>();
        self.held.shrink_to(self.bytes);
        if let Some(of) = &mut self.tape {
            of.dropped += (count - in_memory) as u64;
        }
    }

    /// Drops all rows.
    pub fn clear(&mut self) {
        (self.rows, self.bytes, self.tape) = (VecDeque::new(), 0, None);
        self.held.shrink_to(0);
    }
}

impl OnTape {
    /// Returns the row of this number, behind those that were dropped.
    fn row(&mut self, number: u64) -> Result<&[Value]> {
        let number = self.dropped + number;
        if !(self.first..self.first + self.rows.len() as u64).contains(&number) {
            (self.first, self.rows) = self.tape.rows_of(self.tape.chunk_of(number), self.width)?;
        }
        Ok(&self.rows[(number - self.first) as usize])
    }
}
