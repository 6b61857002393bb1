//! The state after a crash: one choice among all states that a [`Disk`] allows.
//!
//! The states that a journalling file system with a page cache can leave, and no others:
//! 1. The unsynced changes of names that survive are a prefix of all, in their order.
//! 2. A file's length is as it was at some moment since its last sync, independently for each file.
//! 3. Each sector of a file is as it was at some moment since the last sync, independently for each sector: the cache
//!    writes sectors back whole, at any time.
//! 4. A sector is older than a cut of the file exactly if the length is: bytes that were cut off never reappear, and
//!    bytes that were written after a cut are not on the device before it.
//! 5. Changes left behind by a failed sync (invariant 2 of `disk.rs`) may survive or not, in any order.
//!
//! The operation in progress at the crash counts as one more change that is not synced.

use std::{collections::BTreeMap, iter};

use super::{
    content::{Content, SECTOR},
    disk::{Disk, Edit, FileNumber, Names, Platter, Standing},
    trace::Operation,
};

/// Which unsynced changes survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Everything, as if only the process had died.
    Everything,
    /// The last write of each file only, and all lengths and names: the last write overtook the others.
    Last,
    /// A random choice by the seed, including the operation in progress.
    Random(u64),
}

/// Returns the names and files that exist after a crash at operation `at`, with the disk in this state.
pub(super) fn after_crash(disk: &Disk, trace: &[Operation], at: usize, keep: Keep) -> (Names, Vec<Content>) {
    let mut chance = Chance(match keep {
        Keep::Random(seed) => seed ^ (at as u64).wrapping_mul(0xd1b5_4a32_d192_ed03),
        _ => 0,
    });
    let under_way = match keep {
        Keep::Random(_) => trace.get(at).map(|_| at),
        _ => None,
    };
    let mut names = names_after(disk, trace, under_way, keep, &mut chance);
    let mut files = Vec::with_capacity(names.len());
    for file in names.values_mut() {
        // A file whose creation is in progress is not on the disk yet; it is empty.
        let content = disk.files.get(file.0).map(|platter| {
            let changes_it = |number: &usize| trace[*number].changed_file() == Some(*file);
            Choice { platter, trace, under_way: under_way.filter(changes_it), keep, chance: &mut chance }.content()
        });
        *file = FileNumber(files.len());
        files.push(content.unwrap_or_default());
    }
    (names, files)
}

/// Chooses the names: points 1 and 5.
fn names_after(disk: &Disk, trace: &[Operation], under_way: Option<usize>, keep: Keep, chance: &mut Chance) -> Names {
    let last = under_way.filter(|number| trace[*number].changes_names());
    let last = last.map(|operation| Edit { operation, standing: Standing::Pending });
    let edits = || disk.edits.iter().copied().chain(last);
    let pending = edits().filter(|edit| edit.standing == Standing::Pending).count();
    let pending_kept = match keep {
        Keep::Nothing => 0,
        Keep::Everything | Keep::Last => pending,
        Keep::Random(_) => chance.up_to(pending),
    };
    let mut names = disk.names.clone();
    let mut pending_seen = 0;
    for edit in edits() {
        let kept = match edit.standing {
            Standing::Sure => true,
            Standing::Pending => {
                pending_seen += 1;
                pending_seen <= pending_kept
            }
            Standing::Doubtful => match keep {
                Keep::Nothing => false,
                Keep::Everything | Keep::Last => true,
                Keep::Random(_) => chance.up_to(1) == 1,
            },
        };
        if kept {
            trace[edit.operation].edit(&mut names);
        }
    }
    names
}

/// The state needed to choose the content of one file.
struct Choice<'a> {
    platter: &'a Platter,
    trace: &'a [Operation],
    /// The operation in progress, if it changes this file.
    under_way: Option<usize>,
    keep: Keep,
    chance: &'a mut Chance,
}

/// A moment in the life of a file: how many of its changes have happened.
type Moment = usize;

/// A change that shortens the file.
struct Cut {
    /// The file before the cut is that of this moment, and the file after it that of the next.
    change: Moment,
    /// The length after the cut.
    length: u64,
}

impl Choice<'_> {
    fn content(mut self) -> Content {
        let changes: Vec<&Operation> =
            self.platter.changes.iter().copied().chain(self.under_way).map(|number| &self.trace[number]).collect();
        let mut content = self.platter.durable.clone();
        if changes.is_empty() {
            return content;
        }
        let (lengths, cuts) = lengths(content.length(), &changes);
        let length_moment = self.length_moment(changes.len());
        for cut in cuts.iter().filter(|cut| cut.change < length_moment) {
            content.set_length(cut.length.min(content.length()));
        }
        let often = self.chance.often();
        let last_write = changes.iter().rposition(|change| matches!(change, Operation::Write { .. }));
        let mut writes = BTreeMap::<u64, Vec<Moment>>::new();
        for (moment, change) in changes.iter().enumerate() {
            change.sectors().for_each(|sector| writes.entry(sector).or_default().push(moment));
        }
        for (sector, writes) in &writes {
            let cuts_it = |cut: &&Cut| cut.length < (sector + 1) * SECTOR;
            // Point 4.
            let after = cuts.iter().filter(cuts_it).rfind(|cut| cut.change < length_moment);
            let before = cuts.iter().filter(cuts_it).find(|cut| cut.change >= length_moment);
            let floor = self.platter.sector_floors.get(sector).copied().unwrap_or(0);
            let earliest = after.map_or(0, |cut| cut.change + 1).max(floor);
            let latest = before.map_or(changes.len(), |cut| cut.change).max(earliest);
            let possible: Vec<Moment> = iter::once(earliest)
                .chain(writes.iter().filter(|write| (earliest..latest).contains(write)).map(|write| write + 1))
                .collect();
            let newest = possible.len() - 1;
            let chosen = possible[match self.keep {
                Keep::Nothing => 0,
                Keep::Everything => newest,
                Keep::Last => newest * usize::from(writes.last() == last_write.as_ref()),
                Keep::Random(_) if self.chance.happens(often) => newest,
                Keep::Random(_) => self.chance.up_to(newest),
            }];
            if chosen > 0 {
                content.write(sector * SECTOR, &self.sector(*sector, &changes[..chosen]));
            }
        }
        content.set_length(lengths[length_moment]);
        content
    }

    /// Chooses the moment of the length: point 2.
    fn length_moment(&mut self, now: Moment) -> Moment {
        let floor = self.platter.length_floor;
        match self.keep {
            Keep::Nothing => floor,
            Keep::Everything | Keep::Last => now,
            Keep::Random(_) if self.chance.happens(128) => now,
            Keep::Random(_) => floor + self.chance.up_to(now - floor),
        }
    }

    /// Returns a sector after these changes.
    fn sector(&self, sector: u64, changes: &[&Operation]) -> [u8; SECTOR as usize] {
        let start = sector * SECTOR;
        let mut bytes = [0; SECTOR as usize];
        self.platter.durable.read(start, &mut bytes);
        for change in changes {
            match change {
                Operation::Write { offset, bytes: written, .. } => {
                    let (from, to) = (start.max(*offset), (start + SECTOR).min(offset + written.len() as u64));
                    if from < to {
                        let source = &written[(from - offset) as usize..(to - offset) as usize];
                        bytes[(from - start) as usize..(to - start) as usize].copy_from_slice(source);
                    }
                }
                Operation::SetLength { bytes: length, .. } if *length < start + SECTOR => {
                    bytes[length.saturating_sub(start) as usize..].fill(0);
                }
                _ => {}
            }
        }
        bytes
    }
}

/// Returns the length of a file at each moment, and the changes that cut it.
fn lengths(before: u64, changes: &[&Operation]) -> (Vec<u64>, Vec<Cut>) {
    let (mut lengths, mut cuts) = (vec![before], Vec::new());
    for (change, operation) in changes.iter().enumerate() {
        let length = lengths[change];
        lengths.push(match operation {
            Operation::Write { offset, bytes, .. } => length.max(offset + bytes.len() as u64),
            Operation::SetLength { bytes, .. } => {
                if *bytes < length {
                    cuts.push(Cut { change, length: *bytes });
                }
                *bytes
            }
            _ => length,
        });
    }
    (lengths, cuts)
}

impl Operation {
    fn changes_names(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Rename { .. } | Self::Remove { .. })
    }

    fn changed_file(&self) -> Option<FileNumber> {
        match self {
            Self::Write { file, .. } | Self::SetLength { file, .. } => Some(*file),
            _ => None,
        }
    }
}

/// Random numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `most`.
    fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64 + 1)) as usize
    }

    /// Returns true with a probability of `often` / 256.
    fn happens(&mut self, often: u64) -> bool {
        self.next() % 256 < often
    }

    /// Returns how often the newest state of a file survives, in 256: different for each file, so that there are
    /// crashes that lose one sector and crashes that keep one.
    fn often(&mut self) -> u64 {
        [4, 64, 128, 192, 252][self.up_to(4)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::{
            super::{Directory, File, Open},
            Fault, FaultyDirectory, Trace,
        },
        *,
    };

    const SIZE: usize = SECTOR as usize;

    fn content(directory: &FaultyDirectory, name: &str) -> Option<Vec<u8>> {
        let file = directory.open(name, Open::Read).ok()?;
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    /// Returns the possible states of a file after `at` operations.
    fn outcomes<T: Ord>(trace: &Trace, at: usize, look: impl Fn(&FaultyDirectory) -> T) -> BTreeSet<T> {
        (0..500).map(|seed| look(&trace.crash(at, Keep::Random(seed)))).collect()
    }

    /// Creates a directory with the file `a`: durable zeros.
    fn with_zeros(sectors: usize) -> (FaultyDirectory, std::sync::Arc<dyn File>) {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        file.set_length((sectors * SIZE) as u64).unwrap();
        directory.settle();
        (directory, file)
    }

    /// Returns one byte of each sector.
    fn sectors(directory: &FaultyDirectory) -> Vec<u8> {
        content(directory, "a").unwrap().chunks(SIZE).map(|sector| sector[0]).collect()
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_in_any_part() {
        let (directory, file) = with_zeros(3);
        file.write_at(0, &[1; 3 * SIZE]).unwrap();
        file.sync().unwrap();
        file.write_at(0, &[2; 2 * SIZE]).unwrap();
        file.write_at(SECTOR, &[3; 2 * SIZE]).unwrap();
        let trace = directory.trace();
        assert_eq!(sectors(&trace.crash(4, Keep::Nothing)), [1, 1, 1]);
        assert_eq!(sectors(&trace.crash(4, Keep::Everything)), [2, 3, 3]);
        assert_eq!(sectors(&trace.crash(4, Keep::Last)), [1, 3, 3]);
        // Torn, reordered, dropped: each sector is as it was at some moment.
        let all: BTreeSet<_> =
            [1, 2].iter().flat_map(|a| [1, 2, 3].iter().flat_map(move |b| [1, 3].map(|c| vec![*a, *b, c]))).collect();
        assert_eq!(outcomes(&trace, 4, sectors), all);
        assert_eq!(outcomes(&trace, 2, sectors).len(), 4, "the write under way may have happened in part");
        assert_eq!(sectors(&trace.crash(2, Keep::Everything)), [1, 1, 1]);
        assert_eq!(outcomes(&trace, 0, sectors).len(), 8);
    }

    #[test]
    fn a_sector_is_written_whole() {
        let (directory, file) = with_zeros(1);
        file.write_at(0, b"first").unwrap();
        file.write_at(5, b"second").unwrap();
        let trace = directory.trace();
        let all = outcomes(&trace, 2, |crashed| content(crashed, "a").unwrap()[..11].to_vec());
        assert_eq!(all, BTreeSet::from([[0; 11].to_vec(), b"first\0\0\0\0\0\0".to_vec(), b"firstsecond".to_vec()]));
    }

    #[test]
    fn a_length_may_be_lost() {
        let (directory, file) = with_zeros(1);
        file.set_length(2 * SECTOR).unwrap();
        file.write_at(2 * SECTOR, &[1; 100]).unwrap();
        let trace = directory.trace();
        let look = |crashed: &FaultyDirectory| content(crashed, "a").unwrap().len();
        assert_eq!(outcomes(&trace, 2, look), BTreeSet::from([SIZE, 2 * SIZE, 2 * SIZE + 100]));
        let last = |crashed: &FaultyDirectory| content(crashed, "a").unwrap().get(2 * SIZE).copied();
        assert_eq!(outcomes(&trace, 2, last), BTreeSet::from([None, Some(0), Some(1)]));
        file.sync().unwrap();
        assert_eq!(look(&directory.trace().crash(3, Keep::Nothing)), 2 * SIZE + 100);
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let (directory, file) = with_zeros(2);
        file.write_at(0, &[1; 2 * SIZE]).unwrap();
        file.sync().unwrap();
        file.set_length(100).unwrap();
        file.set_length(2 * SECTOR).unwrap();
        file.write_at(SECTOR, &[2; SIZE]).unwrap();
        let trace = directory.trace();
        let look = |crashed: &FaultyDirectory| {
            let content = content(crashed, "a").unwrap();
            assert_eq!(content[..100], [1; 100]);
            [content.get(200).copied(), content.get(SIZE).copied()]
        };
        let all = outcomes(&trace, 5, look);
        let before = [Some(1), Some(1)];
        let cut = [None, None];
        let grown = [Some(0), Some(0)];
        let written = [Some(0), Some(2)];
        assert_eq!(all, BTreeSet::from([before, cut, grown, written]));
    }

    #[test]
    fn what_stood_between_two_cuts_does_not_come_back() {
        let (directory, file) = with_zeros(1);
        for fill in [1, 2] {
            file.set_length(0).unwrap();
            file.write_at(0, &[fill; SIZE]).unwrap();
        }
        let (trace, look) = (directory.trace(), |crashed: &FaultyDirectory| sectors(crashed));
        let all = BTreeSet::from([vec![], vec![0], vec![1], vec![2]]);
        assert_eq!(outcomes(&trace, 4, look), all);
        file.set_length(0).unwrap();
        file.set_length(SECTOR).unwrap();
        file.sync().unwrap();
        let trace = directory.trace();
        assert_eq!(outcomes(&trace, 7, look), BTreeSet::from([vec![0]]));
        // If all lengths survive, nothing from before the last cut does.
        let (directory, file) = with_zeros(1);
        file.set_length(10).unwrap();
        file.write_at(0, &[1; SIZE]).unwrap();
        file.set_length(10).unwrap();
        file.set_length(SECTOR).unwrap();
        let look = |crashed: &FaultyDirectory| {
            let content = content(crashed, "a").unwrap();
            [content[9], content.get(10).copied().unwrap_or(9)]
        };
        let possible = BTreeSet::from([[0, 0], [0, 9], [1, 1], [1, 9], [1, 0]]);
        assert_eq!(outcomes(&directory.trace(), 4, look), possible);
    }

    #[test]
    fn changes_of_names_are_lost_from_the_end() {
        let directory = FaultyDirectory::new();
        let first = directory.open("first", Open::Create).unwrap();
        first.write_at(0, b"1").unwrap();
        first.sync().unwrap();
        let look = |crashed: &FaultyDirectory| crashed.list().unwrap().join(" ");
        assert_eq!(look(&directory.trace().crash(3, Keep::Nothing)), "", "a synced file whose name was not");
        directory.sync().unwrap();
        let second = directory.open("second", Open::Create).unwrap();
        second.write_at(0, b"2").unwrap();
        second.sync().unwrap();
        directory.rename("second", "first").unwrap();
        directory.remove("first").unwrap();
        let trace = directory.trace();
        assert_eq!(trace.operations(), 9);
        let all = BTreeSet::from(["first", "first second", ""].map(String::from));
        assert_eq!(outcomes(&trace, 9, look), all);
        assert_eq!(outcomes(&trace, 8, look), all, "the removal may be under way");
        assert_eq!(look(&trace.crash(9, Keep::Nothing)), "first");
        assert_eq!(look(&trace.crash(9, Keep::Last)), "");
        let first = |crashed: &FaultyDirectory| content(crashed, "first");
        assert_eq!(outcomes(&trace, 7, first), BTreeSet::from([Some(b"1".to_vec()), Some(b"2".to_vec())]));
        assert_eq!(first(&trace.crash(8, Keep::Everything)).unwrap(), b"2");
    }

    #[test]
    fn a_file_under_creation_is_there_or_not() {
        let directory = FaultyDirectory::new();
        directory.open("a", Open::Create).unwrap();
        let trace = directory.trace();
        let all = outcomes(&trace, 0, |crashed| content(crashed, "a"));
        assert_eq!(all, BTreeSet::from([None, Some(Vec::new())]));
    }

    #[test]
    fn data_comes_apart_from_a_renamed_file() {
        let (directory, _) = with_zeros(1);
        let file = directory.open("new", Open::Create).unwrap();
        file.write_at(0, b"new").unwrap();
        directory.rename("new", "a").unwrap();
        directory.sync().unwrap();
        let all = outcomes(&directory.trace(), 4, |crashed| content(crashed, "a").unwrap());
        assert_eq!(all, BTreeSet::from([Vec::new(), vec![0; 3], b"new".to_vec()]));
    }

    #[test]
    fn a_later_sync_does_not_heal_one_that_failed() {
        let (directory, file) = with_zeros(3);
        directory.fail_at(2, Fault::Broken);
        file.write_at(0, &[1; 2 * SIZE]).unwrap(); // 0
        file.write_at(2 * SECTOR, &[1; 2 * SIZE]).unwrap(); // 1
        assert!(file.sync().is_err()); // 2
        assert_eq!(sectors(&directory), [1; 4], "the running process still sees it");
        file.write_at(SECTOR, &[2; 10]).unwrap(); // 3
        file.sync().unwrap(); // 4
        file.write_at(0, &[3; 10]).unwrap(); // 5
        let trace = directory.trace();
        assert_eq!(sectors(&trace.crash(4, Keep::Nothing)), [0; 3]);
        assert_eq!(sectors(&trace.crash(5, Keep::Nothing)), [0, 2, 0, 0], "the length counts as synced");
        let second = content(&trace.crash(5, Keep::Nothing), "a").unwrap()[SIZE..2 * SIZE].to_vec();
        assert_eq!(second, [[2; 10].as_slice(), &[1; SIZE - 10]].concat(), "a sector written again is written whole");
        let all = outcomes(&trace, 5, sectors);
        assert_eq!(all.len(), 3 * 2 * 2);
        assert!(all.iter().all(|sectors| sectors[1] == 2));
        file.sync().unwrap();
        file.sync().unwrap();
        let again = directory.trace();
        assert_eq!(sectors(&again.crash(again.operations(), Keep::Nothing)), [3, 2, 0, 0]);
        assert_eq!(sectors(&again.crash(again.operations(), Keep::Everything)), [3, 2, 1, 1]);
    }

    #[test]
    fn a_later_sync_of_names_does_not_heal_one_that_failed() {
        let directory = FaultyDirectory::new();
        directory.open("a", Open::Create).unwrap(); // 0
        directory.open("b", Open::Create).unwrap(); // 1
        directory.fail_at(2, Fault::Broken);
        assert!(directory.sync().is_err()); // 2
        directory.rename("b", "c").unwrap(); // 3
        directory.sync().unwrap(); // 4
        directory.open("d", Open::Create).unwrap(); // 5
        directory.sync().unwrap(); // 6
        let look = |crashed: &FaultyDirectory| crashed.list().unwrap().join(" ");
        let trace = directory.trace();
        assert_eq!(look(&trace.crash(3, Keep::Nothing)), "");
        assert_eq!(outcomes(&trace, 7, look), BTreeSet::from(["a c d", "c d"].map(String::from)));
        assert_eq!(look(&trace.crash(7, Keep::Everything)), "a c d");
    }

    #[test]
    fn the_same_choice_gives_the_same_directory() {
        let (trace, _) = workload(&mut fastrand::Rng::with_seed(5), 300);
        for at in 0..=300 {
            for keep in [Keep::Nothing, Keep::Everything, Keep::Last, Keep::Random(at as u64)] {
                let look = |crashed: FaultyDirectory| NAMES.map(|name| content(&crashed, name));
                assert_eq!(look(trace.crash(at, keep)), look(trace.crash(at, keep)));
            }
        }
    }

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    /// All contents of a file since its last sync, including that at the sync.
    type Past = Vec<Vec<u8>>;

    /// Runs random operations; returns their trace and, before each operation and after the last, the past of every
    /// file that ever existed.
    fn workload(random: &mut fastrand::Rng, operations: usize) -> (Trace, Vec<Vec<Past>>) {
        let directory = FaultyDirectory::new();
        let mut names: BTreeMap<&str, (usize, std::sync::Arc<dyn File>)> = BTreeMap::new();
        let (mut now, mut pasts) = (Vec::<Past>::new(), Vec::new());
        while directory.operations() < operations {
            pasts.push(now.clone());
            let name = *random.choice(&NAMES).unwrap();
            let Some((number, file)) = names.get(name) else {
                names.insert(name, (now.len(), directory.open(name, Open::Create).unwrap()));
                now.push(vec![Vec::new()]);
                continue;
            };
            let past = &mut now[*number];
            let mut content = past[past.len() - 1].clone();
            match random.u8(..100) {
                0..50 => {
                    let bytes = vec![random.u8(1..); random.usize(1..3000)];
                    let offset = random.usize(..4000);
                    file.write_at(offset as u64, &bytes).unwrap();
                    content.resize(content.len().max(offset + bytes.len()), 0);
                    content[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    past.push(content);
                }
                50..65 => {
                    content.resize(random.usize(..7000), 0);
                    file.set_length(content.len() as u64).unwrap();
                    past.push(content);
                }
                65..80 => {
                    file.sync().unwrap();
                    *past = vec![content];
                }
                80..90 => directory.sync().unwrap(),
                90..95 => {
                    directory.remove(name).unwrap();
                    names.remove(name);
                }
                _ => {
                    let to = *random.choice(&NAMES).unwrap();
                    directory.rename(name, to).unwrap();
                    let file = names.remove(name).unwrap();
                    names.insert(to, file);
                }
            }
        }
        pasts.push(now);
        (directory.trace(), pasts)
    }

    /// Every choice leaves lengths and sectors that a file had since its last sync, so a file without a change since
    /// then is left completely. Checked against the whole history of contents, and so independent of the code above.
    #[test]
    fn nothing_is_left_that_never_was() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20 {
            let (trace, pasts) = workload(&mut random, 200);
            for at in 0..=200 {
                for keep in [Keep::Nothing, Keep::Everything, Keep::Last, Keep::Random(random.u64(..))] {
                    let under_way = if matches!(keep, Keep::Random(_)) { pasts.get(at + 1) } else { None };
                    let pasts = || pasts[at].iter().chain(under_way.into_iter().flatten());
                    let crashed = trace.crash(at, keep);
                    for name in crashed.list().unwrap() {
                        let left = content(&crashed, &name).unwrap();
                        assert!(pasts().any(|past| can_leave(past, &left)), "{name} at {at}, {keep:?}: {trace:?}");
                    }
                }
            }
        }
    }

    /// Whether a crash can leave this content of a file with that past.
    fn can_leave(past: &Past, left: &[u8]) -> bool {
        let had = |moment: &[u8], at: usize, sector: &[u8]| {
            sector.iter().enumerate().all(|(byte, left)| moment.get(at + byte).copied().unwrap_or(0) == *left)
        };
        past.iter().any(|moment| moment.len() == left.len())
            && left
                .chunks(SIZE)
                .enumerate()
                .all(|(number, sector)| past.iter().any(|moment| had(moment, number * SIZE, sector)))
    }

    /// Goal: tests of recovery can afford many crashes. The time is printed, not asserted.
    #[test]
    fn many_crashes_are_built() {
        let directory = FaultyDirectory::new();
        let logs = ["log.0", "log.1", "log.2"].map(|name| directory.open(name, Open::Create).unwrap());
        logs.iter().for_each(|log| log.set_length(1 << 20).unwrap());
        directory.sync().unwrap();
        for transaction in 0..900u64 {
            let log = &logs[(transaction / 300) as usize];
            log.write_at(transaction % 300 * 2000, &[transaction as u8; 2000]).unwrap();
            if transaction % 5 == 0 {
                log.sync().unwrap();
            }
            directory.mark(transaction);
        }
        let begin = std::time::Instant::now();
        let trace = directory.trace();
        println!("trace of {} operations: {:?}", trace.operations(), begin.elapsed());
        let begin = std::time::Instant::now();
        for seed in 0..10_000 {
            let at = seed as usize % (trace.operations() + 1);
            assert_eq!(trace.crash(at, Keep::Random(seed)).operations(), 0);
        }
        println!("10 000 crashes: {:?}", begin.elapsed());
    }
}
