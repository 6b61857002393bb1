//! The free RowIds of a table that no worker has, as bits: a 64th of what their slots take, and nothing for stretches
//! that are free as a whole.
//!
//! RowIds are held by their positions in the array's ranges, in chunks whose slots are as long as a huge page. Ranges of
//! that size and more begin at a chunk.

use std::{collections::BTreeMap, ops::Range};

/// Positions in a chunk.
pub(super) const CHUNK: u64 = (2 << 20) / 8;

/// A set of positions.
#[derive(Default)]
pub(super) struct FreeRows {
    chunks: BTreeMap<u64, Chunk>,
    count: u64,
}

struct Chunk {
    free: u64,
    /// Words below this one have no bit.
    lowest: usize,
    /// A bit for each position, up to the last one that is free. None at all: the chunk is free as a whole.
    words: Vec<u64>,
}

/// A chunk that is free as a whole, or has just ceased to be, by the positions in it.
pub(super) type Whole = Range<u64>;

impl FreeRows {
    /// Returns how many positions there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the chunks that are free as a whole.
    pub(super) fn whole(&self) -> impl Iterator<Item = Whole> {
        self.chunks.iter().filter(|(_, chunk)| chunk.words.is_empty()).map(|(&number, _)| whole(number))
    }

    /// Adds a position that is not in the set; returns its chunk if that is free as a whole now.
    pub(super) fn add(&mut self, position: u64) -> Option<Whole> {
        let chunk = self.chunks.entry(position / CHUNK).or_insert(Chunk { free: 0, lowest: 0, words: Vec::new() });
        let (word, bit) = ((position % CHUNK / 64) as usize, 1 << (position % 64));
        if chunk.words.len() <= word {
            chunk.words.resize(word + 1, 0);
        }
        debug_assert_eq!(chunk.words[word] & bit, 0, "the position is in the set");
        chunk.words[word] |= bit;
        chunk.lowest = if chunk.free == 0 { word } else { chunk.lowest.min(word) };
        chunk.free += 1;
        self.count += 1;
        (chunk.free == CHUNK).then(|| {
            *chunk = Chunk::whole();
            whole(position / CHUNK)
        })
    }

    /// Adds positions that are not in the set; returns the chunks of them that are free as a whole now.
    pub(super) fn add_run(&mut self, run: Range<u64>) -> Vec<Whole> {
        let (mut found, mut next) = (Vec::new(), run.start);
        while next < run.end {
            let number = next / CHUNK;
            let end = whole(number).end;
            if next == whole(number).start && end <= run.end {
                self.chunks.insert(number, Chunk::whole());
                self.count += CHUNK;
                found.push(whole(number));
                next = end;
            } else {
                found.extend(self.add(next));
                next += 1;
            }
        }
        found
    }

    /// Moves the lowest positions, at most that many and of one chunk, to `into`, in ascending order; returns the chunk
    /// if it was free as a whole.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<u64>) -> Option<Whole> {
        let mut entry = self.chunks.first_entry()?;
        let (number, chunk) = (*entry.key(), entry.get_mut());
        let was_whole = chunk.words.is_empty();
        if was_whole {
            chunk.words = vec![u64::MAX; (CHUNK / 64) as usize];
        }
        let mut left = most;
        while left > 0 && chunk.free > 0 {
            let word = &mut chunk.words[chunk.lowest];
            if *word == 0 {
                chunk.lowest += 1;
                continue;
            }
            into.push(number * CHUNK + chunk.lowest as u64 * 64 + u64::from(word.trailing_zeros()));
            *word &= *word - 1;
            (left, chunk.free, self.count) = (left - 1, chunk.free - 1, self.count - 1);
        }
        if chunk.free == 0 {
            entry.remove();
        }
        was_whole.then(|| whole(number))
    }

    /// Returns the positions of a range that are not in the set, in ascending order.
    pub(super) fn others(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let is_whole = |number: &u64| self.chunks.get(number).is_some_and(|chunk| chunk.words.is_empty());
        chunks.filter(move |number| !is_whole(number)).flat_map(move |number| {
            let inside = range.start.max(whole(number).start)..range.end.min(whole(number).end);
            let chunk = self.chunks.get(&number);
            inside.filter(move |position| !chunk.is_some_and(|chunk| chunk.has(position % CHUNK)))
        })
    }
}

impl Chunk {
    fn whole() -> Self {
        Self { free: CHUNK, lowest: 0, words: Vec::new() }
    }

    fn has(&self, position: u64) -> bool {
        self.words.get((position / 64) as usize).is_some_and(|word| word & 1 << (position % 64) != 0)
    }
}

fn whole(number: u64) -> Whole {
    number * CHUNK..(number + 1) * CHUNK
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set_that_tells_of_whole_chunks() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut rows, mut model) = (FreeRows::default(), BTreeSet::new());
        let count_in = |model: &BTreeSet<u64>, chunk: &Whole| model.range(chunk.clone()).count() as u64;
        for _ in 0..400 {
            match random.u8(..4) {
                0 => {
                    let start = random.u64(..3 * CHUNK);
                    let run = start..start + random.u64(..CHUNK / 2);
                    // Only what is not free yet.
                    let (mut told, others) = (Vec::new(), rows.others(run.clone()).collect::<Vec<_>>());
                    if others.len() as u64 == run.end - run.start {
                        told = rows.add_run(run.clone());
                    } else {
                        others.iter().for_each(|position| told.extend(rows.add(*position)));
                    }
                    model.extend(others);
                    assert!(told.iter().all(|chunk| count_in(&model, chunk) == CHUNK));
                }
                _ => {
                    let (mut taken, most) = (Vec::new(), random.usize(1..90_000));
                    let before = model.clone();
                    let told = rows.take(most, &mut taken);
                    let first = model.first().map_or(0, |first| first / CHUNK);
                    let expected: Vec<_> = model.range(whole(first)).take(most).copied().collect();
                    assert_eq!(taken, expected);
                    taken.iter().for_each(|position| assert!(model.remove(position)));
                    assert_eq!(told, Some(whole(first)).filter(|chunk| count_in(&before, chunk) == CHUNK));
                }
            }
            assert_eq!(rows.count(), model.len() as u64);
        }
        let all = 0..4 * CHUNK;
        assert!(rows.others(all.clone()).eq(all.filter(|position| !model.contains(position))));
    }
}
