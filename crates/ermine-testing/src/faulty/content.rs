//! The bytes of a file, shared between the many states of a disk that one trace produces.
//!
//! 1. A clone copies nothing; a write copies the chunks that it touches, if they are shared.
//! 2. Chunks that were never written do not exist, and read as zeros.
//! 3. Everything behind the length is zero.

use std::sync::Arc;

/// The unit that a device writes completely or not at all.
pub(super) const SECTOR: u64 = 512;
/// The unit of copying.
const CHUNK: usize = 4096;

type Chunk = Arc<[u8; CHUNK]>;

#[derive(Clone, Default)]
pub(super) struct Content {
    chunks: Arc<Vec<Option<Chunk>>>,
    length: u64,
}

/// Splits the range of `bytes` bytes at `offset` by chunks: which chunk, where in it, where in the range.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < bytes).then(|| {
            let at = usize::try_from(offset).expect("a small file") + done;
            let part = done..bytes.min(done + CHUNK - at % CHUNK);
            done = part.end;
            (at / CHUNK, at % CHUNK, part)
        })
    })
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `into` from `offset` up to the end of the file; returns the number of bytes filled.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let bytes = self.length.saturating_sub(offset).min(into.len() as u64) as usize;
        for (chunk, at, part) in parts(offset, bytes) {
            match self.chunks.get(chunk).and_then(Option::as_ref) {
                Some(chunk) => into[part.clone()].copy_from_slice(&chunk[at..at + part.len()]),
                None => into[part].fill(0),
            }
        }
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let chunks = Arc::make_mut(&mut self.chunks);
        for (chunk, at, part) in parts(offset, bytes.len()) {
            if chunks.len() <= chunk {
                chunks.resize(chunk + 1, None);
            }
            let chunk = chunks[chunk].get_or_insert_with(|| Arc::new([0; CHUNK]));
            Arc::make_mut(chunk)[at..at + part.len()].copy_from_slice(&bytes[part]);
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            let chunks = Arc::make_mut(&mut self.chunks);
            chunks.truncate(length.div_ceil(CHUNK as u64) as usize);
            // Invariant 3, for the chunk that is cut through.
            let (last, rest) = ((length / CHUNK as u64) as usize, (length % CHUNK as u64) as usize);
            if let Some(Some(chunk)) = chunks.get_mut(last) {
                Arc::make_mut(chunk)[rest..].fill(0);
            }
        }
        self.length = length;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_vector_of_bytes() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for _ in 0..2000 {
            let offset = random.usize(..20_000);
            if random.u8(..4) == 0 {
                content.set_length(offset as u64);
                model.resize(offset, 0);
            } else {
                let bytes: Vec<u8> = (0..random.usize(1..9000)).map(|_| random.u8(1..)).collect();
                content.write(offset as u64, &bytes);
                model.resize(model.len().max(offset + bytes.len()), 0);
                model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            let mut read = vec![9; 30_000];
            let bytes = content.read(offset as u64, &mut read);
            assert_eq!(content.length(), model.len() as u64);
            assert_eq!(read[..bytes], model[offset.min(model.len())..]);
        }
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut content = Content::default();
        content.write(0, &[1; 10_000]);
        let clone = content.clone();
        content.write(5000, &[2; 10]);
        content.set_length(6000);
        let mut read = vec![0; 10_000];
        assert_eq!(clone.read(0, &mut read), 10_000);
        assert!(read.iter().all(|byte| *byte == 1));
    }
}
