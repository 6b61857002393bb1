//! The free RowIds of a table that no worker has, as bits: a 64th of what their slots take, and nothing for stretches
//! that are free as a whole.
//!
//! RowIds are held by their positions in the array's ranges, in chunks whose slots are as long as a huge page. Ranges
//! of that size and more begin at a chunk.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Positions in a chunk.
pub(super) const CHUNK: u64 = (2 << 20) / 8;

/// A set of positions.
#[derive(Default)]
pub(super) struct FreeRows {
    /// The chunks that are free in part.
    parts: BTreeMap<u64, Part>,
    /// Those that are free as a whole.
    whole: BTreeSet<u64>,
    count: u64,
}

#[derive(Default)]
struct Part {
    free: u64,
    /// Words below this one have no bit.
    lowest: usize,
    /// A bit for each position, up to the last one that is free.
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
        self.whole.iter().map(|&number| chunk(number))
    }

    /// Adds a position that is not in the set; returns its chunk if that is free as a whole now.
    pub(super) fn add(&mut self, position: u64) -> Option<Whole> {
        let number = position / CHUNK;
        let part = self.parts.entry(number).or_default();
        let (word, bit) = ((position % CHUNK / 64) as usize, 1 << (position % 64));
        if part.words.len() <= word {
            part.words.resize(word + 1, 0);
        }
        debug_assert_eq!(part.words[word] & bit, 0, "the position is in the set");
        part.words[word] |= bit;
        part.lowest = if part.free == 0 { word } else { part.lowest.min(word) };
        part.free += 1;
        self.count += 1;
        if part.free < CHUNK {
            return None;
        }
        self.parts.remove(&number);
        self.whole.insert(number);
        Some(chunk(number))
    }

    /// Adds positions that are not in the set; returns the chunks of them that are free as a whole now.
    pub(super) fn add_run(&mut self, run: Range<u64>) -> Vec<Whole> {
        let (mut found, mut next) = (Vec::new(), run.start);
        while next < run.end {
            let Range { start, end } = chunk(next / CHUNK);
            if next == start && end <= run.end {
                self.whole.insert(next / CHUNK);
                self.count += CHUNK;
                found.push(start..end);
                next = end;
            } else {
                found.extend(self.add(next));
                next += 1;
            }
        }
        found
    }

    /// Moves some positions, at most that many, to `into`: the lowest ones of a chunk, in ascending order. Chunks that
    /// are free as a whole come last; returns the chunk if it was one.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<u64>) -> Option<Whole> {
        let was_whole = if self.parts.is_empty() { self.whole.pop_first() } else { None };
        if let Some(number) = was_whole {
            self.parts.insert(number, Part { free: CHUNK, lowest: 0, words: vec![u64::MAX; (CHUNK / 64) as usize] });
        }
        let mut entry = self.parts.first_entry()?;
        let (number, part) = (*entry.key(), entry.get_mut());
        let mut left = most;
        while left > 0 && part.free > 0 {
            let word = &mut part.words[part.lowest];
            if *word == 0 {
                part.lowest += 1;
                continue;
            }
            into.push(number * CHUNK + part.lowest as u64 * 64 + u64::from(word.trailing_zeros()));
            *word &= *word - 1;
            (left, part.free, self.count) = (left - 1, part.free - 1, self.count - 1);
        }
        if part.free == 0 {
            entry.remove();
        }
        was_whole.map(chunk)
    }

    /// Returns the positions of a range that are not in the set, in ascending order.
    pub(super) fn others(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        chunks.filter(|number| !self.whole.contains(number)).flat_map(move |number| {
            let inside = range.start.max(chunk(number).start)..range.end.min(chunk(number).end);
            let part = self.parts.get(&number);
            inside.filter(move |position| !part.is_some_and(|part| part.has(position % CHUNK)))
        })
    }
}

impl Part {
    fn has(&self, position: u64) -> bool {
        self.words.get((position / 64) as usize).is_some_and(|word| word & 1 << (position % 64) != 0)
    }
}

fn chunk(number: u64) -> Whole {
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
                    let all = |number: &u64| count_in(&before, &chunk(*number)) == CHUNK;
                    let numbers: BTreeSet<_> = before.iter().map(|position| position / CHUNK).collect();
                    let part = numbers.iter().find(|number| !all(number)).copied();
                    let from = part.or(numbers.first().copied()).map_or(0..0, chunk);
                    let expected: Vec<_> = model.range(from.clone()).take(most).copied().collect();
                    assert_eq!(taken, expected);
                    taken.iter().for_each(|position| assert!(model.remove(position)));
                    assert_eq!(told, Some(from).filter(|_| part.is_none() && !numbers.is_empty()));
                }
            }
            assert_eq!(rows.count(), model.len() as u64);
        }
        let all = 0..4 * CHUNK;
        assert!(rows.others(all.clone()).eq(all.filter(|position| !model.contains(position))));
    }
}
