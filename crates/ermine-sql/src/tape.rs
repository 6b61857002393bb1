//! Rows beyond `work_mem`: in a temporary file, to be read later in the order in which they came.
//!
//! A statement has one temporary file at most, and so has a cursor or a portal: in the directory of the database,
//! without a name (where the file system has no such files, it has one for a moment), so nothing is left of it. Rows go
//! to it in chunks, each of which is one write and one read; a chunk has whole rows. The places of the chunks are in
//! memory, and so are the types of the values: only its statement can read the file. Its space is used again when no rows are
//! left in it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::{Result, SqlError, SqlState},
    types::{Value, spilled::SpilledTypes},
};

/// The temporary files since the database was opened.
#[derive(Default, Debug)]
pub(crate) struct TempCounts {
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The place of temporary files, and their limits.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The directory of the database; `None`: it is in memory, and temporary files are where the system has them.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) counts: Arc<TempCounts>,
    /// Bytes that a file may have; `None`: any.
    pub(crate) bytes_max: Option<u64>,
    pub(crate) work_mem: usize,
}

/// A temporary file.
#[derive(Debug)]
pub(crate) struct TempFile {
    place: Place,
    file: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    file: File,
    /// The end of what is used.
    end: u64,
}

impl TempFile {
    pub(crate) fn new(place: Place) -> Result<Arc<Self>> {
        let made = place.directory.as_ref().map_or_else(tempfile::tempfile, tempfile::tempfile_in);
        let file = made.map_err(|error| file_error("made", place.directory.as_deref(), &error))?;
        // Relaxed: counts, which order nothing.
        place.counts.files.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { place, file: Mutex::new(Written { file, end: 0 }) }))
    }

    fn written_file(&self) -> MutexGuard<'_, Written> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the space again, when no tape has rows there.
    pub(crate) fn begin_again(&self) {
        self.written_file().end = 0;
    }

    /// Returns the bytes of a chunk: the chunks that are filled or read at a time take a small part of `work_mem`.
    fn chunk_bytes(&self) -> usize {
        (self.place.work_mem / 256).clamp(1 << 10, 64 << 10)
    }

    /// Writes a chunk; returns its place.
    fn append(&self, chunk: &[u8]) -> Result<u64> {
        let mut written = self.written_file();
        let Written { file, end } = &mut *written;
        let (at, bytes) = (*end, chunk.len() as u64);
        if let Some(limit) = self.place.bytes_max.filter(|limit| at + bytes > *limit) {
            let message = format!("temporary file size exceeds temp_file_limit ({}kB)", limit >> 10);
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .hint("Let the statement gather fewer rows at a time, or raise work_mem or temp_file_limit."));
        }
        let done = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(chunk));
        done.map_err(|error| file_error("written", self.place.directory.as_deref(), &error))?;
        *end += bytes;
        self.place.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(at)
    }

    fn read(&self, at: u64, chunk: &mut [u8]) -> Result<()> {
        let file = &mut self.written_file().file;
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(chunk));
        read.map_err(|error| file_error("read", self.place.directory.as_deref(), &error))
    }
}

fn file_error(what: &str, directory: Option<&Path>, error: &io::Error) -> SqlError {
    let state = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    let place = directory.map_or_else(std::env::temp_dir, Path::to_path_buf);
    SqlError::new(state, format!("a temporary file in {} cannot be {what}: {error}", place.display()))
        .hint("Let the statement gather fewer rows at a time, raise work_mem, or make room on the device.")
}

/// Rows of one width, each behind a key, which may be empty.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) file: Arc<TempFile>,
    types: SpilledTypes,
    chunks: Vec<Chunk>,
    /// The chunk that is being filled.
    last: Vec<u8>,
    rows: u64,
}

/// A chunk in the file.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: u64,
    bytes: usize,
    /// The number of the first row that is not in it or in one before.
    rows: u64,
}

/// The place of the next row in a tape.
#[derive(Default, Debug)]
pub(crate) struct Next {
    /// The number of the chunk behind the one that is being read.
    chunk: usize,
    /// The place in the chunk that is being read.
    at: usize,
    /// That chunk, if it was read from the file.
    loaded: Vec<u8>,
}

impl Tape {
    /// Returns an empty tape.
    pub(crate) fn new(file: &Arc<TempFile>) -> Self {
        let (types, chunks, last) = (SpilledTypes::default(), Vec::new(), Vec::new());
        Self { file: file.clone(), types, chunks, last, rows: 0 }
    }

    /// Returns an empty tape in a file of its own.
    pub(crate) fn alone(place: &Place) -> Result<Self> {
        Ok(Self::new(&TempFile::new(place.clone())?))
    }

    pub(crate) fn push<'v>(&mut self, key: &[u8], row: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        self.last.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.last.extend_from_slice(key);
        row.into_iter().for_each(|value| self.types.write(value, &mut self.last));
        self.rows += 1;
        if self.last.len() >= self.file.chunk_bytes() { self.end_chunk() } else { Ok(()) }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes of the largest chunk in the file.
    pub(crate) fn widest(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).max().unwrap_or(0)
    }

    /// Returns the bytes of the chunks in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes as u64).sum()
    }

    fn end_chunk(&mut self) -> Result<()> {
        let at = self.file.append(&self.last)?;
        self.chunks.push(Chunk { at, bytes: self.last.len(), rows: self.rows });
        // What a large row took is given back.
        self.last.clear();
        self.last.shrink_to(2 * self.file.chunk_bytes());
        Ok(())
    }

    /// Writes the last rows, too; then the tape takes no more memory than its list of chunks.
    pub(crate) fn end(&mut self) -> Result<()> {
        if !self.last.is_empty() {
            self.end_chunk()?;
        }
        self.last = Vec::new();
        Ok(())
    }

    /// Reads the next row into `row`, which is as wide; returns its key, or `None` behind the last row.
    fn next<'n>(&'n self, next: &'n mut Next, row: &mut [Value]) -> Result<Option<&'n [u8]>> {
        if !self.load(next, &mut |_| Ok(()))? { Ok(None) } else { self.read_row(next, row).map(Some) }
    }

    /// Returns the number of the chunk that has a row.
    pub(crate) fn chunk_of(&self, row: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.rows <= row)
    }

    /// Reads all rows of a chunk; returns the number of the first, and the rows.
    pub(crate) fn rows_of(&self, chunk: usize, width: usize) -> Result<(u64, Vec<Vec<Value>>)> {
        let first = chunk.checked_sub(1).map_or(0, |before| self.chunks[before].rows);
        let end = self.chunks.get(chunk).map_or(self.rows, |chunk| chunk.rows);
        let (mut next, mut rows) = (Next { chunk, ..Next::default() }, Vec::new());
        while rows.len() < (end - first) as usize {
            let mut row = vec![Value::Null; width];
            self.next(&mut next, &mut row)?;
            rows.push(row);
        }
        Ok((first, rows))
    }

    /// Loads the chunk of the next row, unless it is loaded; returns whether there is one. `before` is called with the
    /// bytes of a chunk that is loaded.
    pub(crate) fn load(&self, next: &mut Next, before: &mut dyn FnMut(usize) -> Result<()>) -> Result<bool> {
        while next.at == self.chunk(next).len() {
            if next.chunk > self.chunks.len() {
                return Ok(false);
            }
            (next.chunk, next.at) = (next.chunk + 1, 0);
            if let Some(Chunk { at, bytes, .. }) = self.chunks.get(next.chunk - 1) {
                before(*bytes)?;
                next.loaded.resize(*bytes, 0);
                self.file.read(*at, &mut next.loaded)?;
            }
        }
        Ok(true)
    }

    pub(crate) fn read_row<'n>(&'n self, next: &'n mut Next, row: &mut [Value]) -> Result<&'n [u8]> {
        let damaged = || SqlError::new(SqlState::DATA_CORRUPTED, "a temporary file is damaged");
        let (start, chunk) = (next.at, self.chunk(next));
        let (length, rest) = chunk[start..].split_first_chunk().ok_or_else(damaged)?;
        let key_bytes = u32::from_le_bytes(*length) as usize;
        let mut values = rest.get(key_bytes..).ok_or_else(damaged)?;
        self.types.read(&mut values, row)?;
        next.at = chunk.len() - values.len();
        Ok(&self.chunk(next)[start + size_of::<u32>()..][..key_bytes])
    }

    /// Returns the bytes of the chunk that is being read: of none before the first.
    fn chunk<'n>(&'n self, next: &'n Next) -> &'n [u8] {
        match next.chunk.checked_sub(1) {
            None => &[],
            Some(at) if at < self.chunks.len() => &next.loaded,
            Some(_) => &self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_directory() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = file_error("written", Some(Path::new("/data")), &full);
        assert_eq!(error.state(), SqlState::DISK_FULL);
        assert!(error.report().message.contains("/data"));
    }
}
