//! Damaged files of a database, and the allowed outcomes of opening them. Shared by the test `damage` and by the fuzz
//! targets.
//!
//! A change that a checksum finds is reported at once; code behind the checksums is reached by changes after which the
//! checksums are corrected. So this code knows the headers of blocks (docs/design/log.md), and nothing else of the
//! format.

use std::sync::Arc;

use ermine::{
    Database, Error, Options, Table, Uniqueness, Verification,
    files::{Directory, Open},
    inspect, verify_in,
};
use ermine_testing::faulty::FaultyDirectory;

const HEADER: usize = 32;
const PAGE: u64 = 4096;

/// A source of the numbers for changes: a generator, or the bytes of a fuzzer.
pub trait Source {
    /// Returns any number.
    fn number(&mut self) -> u64;

    /// Returns a number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }
}

/// The files of a directory.
#[derive(Clone)]
pub struct Files(pub Vec<(String, Vec<u8>)>);

fn options() -> Options {
    Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn read(directory: &FaultyDirectory) -> Files {
    Files(directory.contents().into_iter().collect())
}

fn length_of(_: &u64, value: &str) -> u64 {
    value.len() as u64
}

/// Returns small databases: a short log with every kind of record that a log may have, and the same behind a
/// checkpoint.
pub fn seeds() -> Vec<Files> {
    let directory = FaultyDirectory::new();
    let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
    let rows: Table<u64, String> = db.table("rows").unwrap();
    let numbers: Table<u64, u64> = db.table("numbers").unwrap();
    db.index(&rows, "by length", Uniqueness::NonUnique, length_of).unwrap();
    let change = |round: u64| {
        for key in 0..20 {
            db.run(|txn| txn.put(&rows, &key, &"x".repeat((key * round) as usize % 90))).unwrap();
        }
        db.run(|txn| (0..10u64).step_by(3).try_for_each(|key| txn.delete(&rows, &key).map(drop))).unwrap();
        db.run(|txn| txn.put(&rows, &100, &"long".repeat(4000))).unwrap();
        // This takes several blocks.
        db.run(|txn| (0..4000u64).try_for_each(|key| txn.put(&numbers, &key, &(key * round)))).unwrap();
    };
    change(1);
    let mut seeds = Vec::new();
    change(2);
    db.sync().unwrap();
    seeds.push(read(&directory));
    db.checkpoint().unwrap();
    change(3);
    drop(db);
    seeds.push(read(&directory));
    seeds
}

/// Returns the numbers in a file's name, in hexadecimal digits.
fn numbers_of(name: &str) -> Vec<u64> {
    name.split('-').skip(1).filter_map(|part| u64::from_str_radix(part, 16).ok()).collect()
}

/// Returns the place in the log of the first byte of a file, if the file has one, with the segment in the low bits.
fn base_of(name: &str) -> Option<(u64, u64)> {
    let numbers = numbers_of(name);
    match name.split('-').next()? {
        "log" if numbers.len() == 3 => Some((numbers[1] / PAGE * PAGE, numbers[0] % 16)),
        "cold" if numbers.len() == 1 => Some((numbers[0], 0)),
        "checkpoint" => Some((0, 0)),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// Returns where blocks begin in a file: wherever a header says so.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let is_header = |&at: &usize| bytes[at..at + 2] == [0x2e, 0xe1] && word(bytes, at + 16) > 0;
    (0..bytes.len().saturating_sub(HEADER)).step_by(16).filter(is_header).collect()
}

/// Corrects the checksums of the block at `at`, whatever its header says, as far as the block lies in the file.
pub fn mend(bytes: &mut [u8], at: usize) {
    let end = (at as u64 + u64::from(word(bytes, at + 16)) * 16).min(bytes.len() as u64) as usize;
    let payload = (at + HEADER).saturating_add(word(bytes, at + 20) as usize);
    if payload > end {
        return;
    }
    let checksum = crc32c::crc32c(&bytes[payload..end]);
    // A skip has no payload that is read.
    put(bytes, at + 24, checksum);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 4]), &bytes[at + 8..payload]);
    put(bytes, at + 4, checksum);
}

/// Returns a number that is likely to be wrong.
fn odd_number(source: &mut impl Source) -> u64 {
    let any = source.number();
    match source.below(6) {
        0 => any % 8,
        1 => u64::MAX - any % 4,
        2 => 1 << (any % 64),
        3 => (1 << (any % 64)) - 1,
        4 => any % 70_000,
        _ => any,
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns descriptors that are well formed now and then.
fn odd_descriptors(source: &mut impl Source, room: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + source.below(5) {
        let table = if source.below(3) == 0 { odd_number(source) } else { source.below(4) as u64 };
        out.push(source.below(8) as u8 | (table.min(15) as u8) << 4 | if source.below(8) == 0 { 8 } else { 0 });
        if table >= 15 {
            put_varint(&mut out, table);
        }
        for _ in 0..1 + source.below(3) {
            let number = if source.below(2) == 0 { odd_number(source) } else { source.below(40) as u64 };
            put_varint(&mut out, number);
        }
        for _ in 0..source.below(12) {
            out.push(source.number() as u8);
        }
    }
    out.truncate(room);
    out
}

/// Makes one change.
pub fn change(files: &mut Files, source: &mut impl Source) {
    let at = source.below(files.0.len());
    let (name, bytes) = &mut files.0[at];
    if source.below(40) == 0 {
        // Gives the file another name.
        let mut numbers = numbers_of(name);
        if !numbers.is_empty() {
            let which = source.below(numbers.len());
            numbers[which] = odd_number(source);
            let kind = name.split('-').next().unwrap_or_default();
            *name = numbers.iter().fold(kind.to_string(), |name, number| format!("{name}-{number:016x}"));
        }
        return;
    }
    if bytes.is_empty() {
        return;
    }
    let starts = blocks(bytes);
    if starts.is_empty() || source.below(8) == 0 {
        match source.below(3) {
            0 => bytes.truncate(source.below(bytes.len())),
            1 => {
                let from = source.below(bytes.len());
                bytes[from..].fill(0);
            }
            _ => {
                let place = source.below(bytes.len());
                bytes[place] ^= 1 << source.below(8);
            }
        }
        return;
    }
    let block = starts[source.below(starts.len())];
    let end = (block as u64 + u64::from(word(bytes, block + 16)) * 16).min(bytes.len() as u64) as usize;
    if end < block + HEADER {
        // The block's header is cut off.
        return;
    }
    match source.below(10) {
        0 => bytes[block + 3] = source.below(12) as u8,
        1 => {
            let size = odd_number(source) as u32;
            put(bytes, block + 16, size);
        }
        2 => {
            let descriptors = odd_number(source) as u32;
            put(bytes, block + 20, descriptors);
        }
        3 => {
            let undurable = odd_number(source) as u32;
            put(bytes, block + 28, undurable);
        }
        4 | 5 => {
            let descriptors = odd_descriptors(source, end - block - HEADER);
            bytes[block + HEADER..][..descriptors.len()].copy_from_slice(&descriptors);
            put(bytes, block + 20, descriptors.len() as u32);
            if source.below(4) == 0 {
                bytes[block + 3] = 1;
            }
        }
        6 => {
            // Puts another block in its place.
            let other = starts[source.below(starts.len())];
            let bytes_of = (end - block).min(bytes.len() - other);
            let copy = bytes[other..other + bytes_of].to_vec();
            bytes[block..block + bytes_of].copy_from_slice(&copy);
            if let Some((base, segment)) = base_of(name) {
                let lsn = base.wrapping_add(block as u64) | segment;
                bytes[block + 8..block + 16].copy_from_slice(&lsn.to_le_bytes());
            }
        }
        _ => {
            for _ in 0..1 + source.below(4) {
                let place = block + HEADER + source.below((end - block - HEADER).max(1));
                if place < bytes.len() {
                    bytes[place] = odd_number(source) as u8;
                }
            }
        }
    }
    if source.below(10) != 0 {
        mend(bytes, block);
    }
}

/// The place at which the first log begins.
const FROM: u64 = 16;

/// Returns a log of one segment that holds these bytes.
pub fn log_of(bytes: &[u8]) -> Files {
    let end = FROM + (bytes.len() as u64).max(32).next_multiple_of(16);
    let mut file = vec![0; FROM as usize];
    file.extend_from_slice(bytes);
    Files(vec![(format!("log-{:016x}-{FROM:016x}-{end:016x}", 0), file)])
}

/// Returns a log of one commit block. The bytes are its descriptors and payloads; the first two give the place where
/// the payloads begin.
pub fn log_of_records(bytes: &[u8]) -> Files {
    let (front, rest) = bytes.split_at(bytes.len().min(2));
    let descriptors = front.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)).min(rest.len());
    let mut block = vec![0; HEADER];
    block[..4].copy_from_slice(&[0x2e, 0xe1, 1, 1]);
    block[8..16].copy_from_slice(&FROM.to_le_bytes());
    block.extend_from_slice(rest);
    block.resize(block.len().next_multiple_of(16), 0);
    let granules = (block.len() / 16) as u32;
    put(&mut block, 16, granules);
    put(&mut block, 20, descriptors as u32);
    mend(&mut block, 0);
    log_of(&block)
}

/// Returns a directory with these files.
fn directory_of(files: &Files) -> Option<FaultyDirectory> {
    let directory = FaultyDirectory::new();
    for (name, bytes) in &files.0 {
        // Fails if two files have one name, or a name is invalid.
        let file = directory.open(name, Open::Create).ok()?;
        file.write_at(0, bytes).unwrap();
    }
    directory.settle();
    Some(directory)
}

fn tell(error: &Error) {
    assert!(!matches!(error, Error::Abort(_)), "{error}");
    let text = error.to_string();
    assert!(text.len() > 10 && text.len() < 2000, "not a clear error: {text}");
}

/// Uses as much of a database as possible. Errors are permitted, with a message.
fn use_it(db: &Database) -> Result<(), Error> {
    let rows = db.table::<u64, String>("rows")?;
    let numbers = db.table::<u64, u64>("numbers")?;
    let index = db.index(&rows, "by length", Uniqueness::NonUnique, length_of)?;
    db.run(|txn| txn.scan_by(&index, ..).collect())?;
    db.run(|txn| txn.scan(&rows, ..).collect())?;
    db.run(|txn| txn.scan(&numbers, ..).collect())?;
    db.run(|txn| (0..30).try_for_each(|key| txn.put(&rows, &key, "again")))?;
    db.run(|txn| (0..8).try_for_each(|key| txn.put(&numbers, &(1 << (8 * key)), &key)))
}

/// Opens the files, inspects them and uses the database. Nothing may panic; files that can be opened once can be opened
/// again. Returns whether they could be opened.
pub fn check(files: &Files) -> bool {
    let Some(directory) = directory_of(files) else { return false };
    let directory: Arc<dyn Directory> = Arc::new(directory);
    match inspect::Log::open_in(directory.clone()) {
        Err(error) => tell(&error),
        Ok(log) => {
            for segment in log.segments() {
                match log.blocks(segment) {
                    Err(error) => tell(&error),
                    Ok(blocks) => blocks.filter_map(Result::err).for_each(|error| tell(&error)),
                }
            }
        }
    }
    let verified = verify_in(&directory, &Options::default(), &mut |_| ());
    let is_right = verified.as_ref().is_ok_and(Verification::is_right);
    if let Err(error) = &verified {
        tell(error);
    }
    match Database::open_in(directory.clone(), options()) {
        Err(error) => {
            tell(&error);
            assert!(!is_right, "verified, and cannot be opened: {error}");
            false
        }
        Ok(db) => {
            if let Err(error) = use_it(&db) {
                tell(&error);
            }
            drop(db);
            let again = Database::open_in(directory, options());
            assert!(again.is_ok(), "opened once, and not again: {}", again.err().unwrap());
            true
        }
    }
}
