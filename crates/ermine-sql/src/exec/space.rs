//! The temporary file of a run of a statement, and rows in it that are divided by their keys.

use std::{cell::OnceCell, hash::BuildHasher, path::Path, sync::Arc};

use ermine::Database;
use hashbrown::DefaultHashBuilder;

use crate::{
    error::Result,
    memory::{Kept, Memory},
    tape::{Next, Place, Tape, TempCounts, TempFile},
    types::{Environment, Value},
};

/// The number of batches into which rows are divided by their keys.
const BATCHES: usize = 16;

/// What a run of a statement needs to gather rows: its memory, and its temporary file, which is made when it is needed.
pub(super) struct Space<'r> {
    environment: &'r Environment,
    database: Option<&'r Arc<Database>>,
    counts: &'r Arc<TempCounts>,
    file: OnceCell<Arc<TempFile>>,
}

impl<'r> Space<'r> {
    pub(super) fn new(
        environment: &'r Environment,
        database: Option<&'r Arc<Database>>,
        counts: &'r Arc<TempCounts>,
    ) -> Self {
        Self { environment, database, counts, file: OnceCell::new() }
    }

    pub(super) fn memory(&self) -> &'r Memory {
        &self.environment.memory
    }

    pub(super) fn place(&self) -> Place {
        Place {
            directory: self.database.and_then(|database| database.path()).map(Path::to_path_buf),
            counts: self.counts.clone(),
            bytes_max: self.environment.temp_file_limit,
            work_mem: self.memory().work_mem(),
        }
    }

    /// Returns an empty tape.
    pub(super) fn tape(&self) -> Result<Tape> {
        let file = match self.file.get() {
            Some(file) => {
                // No tape is left. All of them, and their clones of the file, are in the thread that runs the statement.
                if Arc::strong_count(file) == 1 {
                    file.begin_again();
                }
                file
            }
            None => {
                let made = TempFile::new(self.place())?;
                self.file.get_or_init(|| made)
            }
        };
        Ok(Tape::new(file))
    }

    /// Returns a tape with these rows, whose keys are empty.
    pub(super) fn tape_of<'v>(&self, rows: impl Iterator<Item = &'v [Value]>) -> Result<Tape> {
        let mut tape = self.tape()?;
        for row in rows {
            tape.push(&[], row)?;
        }
        tape.end()?;
        Ok(tape)
    }

    /// Returns batches without rows. Each such set divides keys in its own way.
    pub(super) fn batches(&self) -> Result<Batches> {
        Batches::new(DefaultHashBuilder::default(), || self.tape())
    }

    /// Begins to read all rows of a tape. Several readers may read a tape.
    pub(super) fn read<'t>(&self, tape: &'t Tape) -> Reader<'t, 'r> {
        Reader { tape, next: Next::default(), environment: self.environment, kept: Kept::new(self.memory()) }
    }
}

/// Reads the rows of a tape for a statement.
pub(super) struct Reader<'t, 'r> {
    tape: &'t Tape,
    next: Next,
    environment: &'r Environment,
    kept: Kept<'r>,
}

impl Reader<'_, '_> {
    /// Works as [`Tape::next`]; fails if the statement has to end.
    pub(super) fn next(&mut self, row: &mut [Value]) -> Result<Option<&[u8]>> {
        let Self { tape, next, environment, kept } = self;
        let is_there = tape.load(next, &mut |bytes| {
            environment.check()?;
            kept.add(bytes.saturating_sub(kept.bytes()))
        })?;
        if is_there { tape.read_row(next, row).map(Some) } else { Ok(None) }
    }
}

/// Rows that do not fit into memory, in batches: rows with equal keys are in one batch.
pub(super) struct Batches {
    hasher: DefaultHashBuilder,
    /// The batch that got such a row last (`push_alone`).
    alone: usize,
    tapes: Vec<Tape>,
}

impl Batches {
    fn new(hasher: DefaultHashBuilder, tape: impl Fn() -> Result<Tape>) -> Result<Self> {
        Ok(Self { hasher, alone: 0, tapes: (0..BATCHES).map(|_| tape()).collect::<Result<_>>()? })
    }

    /// Returns batches without rows, in which keys are in the same places as here.
    pub(super) fn alike(&self) -> Self {
        let tapes = self.tapes.iter().map(|tape| Tape::new(&tape.file)).collect();
        Self { hasher: self.hasher.clone(), alone: 0, tapes }
    }

    pub(super) fn push<'v>(&mut self, key: &[u8], row: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        let batch = self.hasher.hash_one(key) as usize % BATCHES;
        self.tapes[batch].push(key, row)
    }

    /// Adds a row whose key no other equals, and no row of other batches.
    pub(super) fn push_alone<'v>(&mut self, key: &[u8], row: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        self.alone = (self.alone + 1) % BATCHES;
        self.tapes[self.alone].push(key, row)
    }

    /// Adds all rows of a tape, each of this many values.
    pub(super) fn add_all(&mut self, mut reader: Reader<'_, '_>, width: usize) -> Result<()> {
        let mut row = vec![Value::Null; width];
        while let Some(key) = reader.next(&mut row)? {
            self.push(key, &row)?;
        }
        Ok(())
    }

    /// Returns the batches, which are all in the file now.
    pub(super) fn end(mut self) -> Result<Vec<Tape>> {
        self.tapes.iter_mut().try_for_each(Tape::end)?;
        Ok(self.tapes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{error::SqlState, memory::Budget};

    /// A budget that refuses nothing.
    #[derive(Debug)]
    struct Endless;

    impl Budget for Endless {
        fn take(&self, _bytes: u64, _frees: bool) -> Result<()> {
            Ok(())
        }

        fn give(&self, _bytes: u64) {}

        fn left(&self) -> u64 {
            u64::MAX
        }
    }

    /// Returns the environment of a statement that may take so many bytes.
    pub(in super::super) fn limited(work_mem: usize) -> Environment {
        let memory = Memory::new(&(Arc::new(Endless) as Arc<dyn Budget>));
        memory.begin(work_mem);
        Environment { memory, ..Environment::default() }
    }

    #[test]
    fn rows_come_back_in_order_and_batches_have_all_of_a_key() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100 {
            let (environment, counts) = (limited([64 << 10, 1 << 20][random.usize(..2)]), Arc::default());
            let space = Space::new(&environment, None, &counts);
            let (mut tape, mut batches) = (space.tape().unwrap(), space.batches().unwrap());
            let long = random.usize(..3000);
            let rows: Vec<_> = (0..random.i64(0..400))
                .map(|number| {
                    let key: Vec<u8> = (0..random.usize(..3)).map(|_| random.u8(..4)).collect();
                    (key, [Value::Int8(number), Value::text("x".repeat(random.usize(..=long)))])
                })
                .collect();
            for (key, row) in &rows {
                tape.push(key, row).unwrap();
                batches.push(key, row).unwrap();
            }
            assert_eq!(tape.rows(), rows.len() as u64);
            let mut row = [Value::Null, Value::Null];
            for _ in 0..2 {
                let mut reader = space.read(&tape);
                for (key, written) in &rows {
                    assert_eq!(reader.next(&mut row).unwrap(), Some(&key[..]));
                    assert_eq!(row, *written);
                }
                assert_eq!(reader.next(&mut row).unwrap(), None);
                assert_eq!(reader.next(&mut row).unwrap(), None);
            }
            let mut left = rows.clone();
            for batch in batches.end().unwrap() {
                let mut reader = space.read(&batch);
                let mut keys = Vec::new();
                while let Some(key) = reader.next(&mut row).unwrap() {
                    keys.push(key.to_vec());
                    let of_key = left.iter().position(|(own, _)| own == key);
                    assert_eq!(left.remove(of_key.unwrap()).1, row, "in the order of each key");
                }
                assert!(left.iter().all(|(key, _)| !keys.contains(key)));
            }
            assert!(left.is_empty());
        }
    }

    #[test]
    fn a_limit_ends_the_statement() {
        let environment = Environment { temp_file_limit: Some(8 << 10), ..limited(64 << 10) };
        let counts = Arc::<TempCounts>::default();
        let space = Space::new(&environment, None, &counts);
        let (mut tape, row) = (space.tape().unwrap(), [Value::text("x".repeat(500))]);
        let error = (0..100).find_map(|_| tape.push(&[], &row).err()).unwrap();
        assert_eq!(error.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        assert!(counts.bytes.load(Ordering::Relaxed) <= 8 << 10);
    }
}
