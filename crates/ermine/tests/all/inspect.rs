//! Goal: the log can be read without opening the database, whatever has happened to it; the format is the one that
//! docs/design/log.md describes.
//! Method: logs of a few transactions, bytes of them changed on purpose or at random (from a printed seed;
//! `ERMINE_TEST_SEED=n` runs it again). Blocks and holes together must cover each segment.

use std::{env, sync::Arc};

use ermine::{
    Database, Error, Options, Until,
    files::{Directory, Open},
    inspect::{Block, Found, Hole, Log, Reason, Record, Segment},
    restore_in,
};
use ermine_testing::faulty::FaultyDirectory;

/// Returns the blocks and holes of a segment.
fn found(log: &Log, segment: &Segment) -> (Vec<Block>, Vec<Hole>) {
    let (mut blocks, mut holes) = (Vec::new(), Vec::new());
    let mut at = segment.start;
    for found in log.blocks(segment).unwrap() {
        let (offset, bytes) = match found.unwrap() {
            Found::Block(block) => {
                let place = (block.offset, block.bytes);
                blocks.push(block);
                place
            }
            Found::Hole(hole) => {
                let place = (hole.offset, hole.bytes);
                holes.push(hole);
                place
            }
        };
        assert_eq!(offset, at, "nothing is left out");
        at = (offset + bytes).min(segment.end);
    }
    assert!(segment.end - at < 32, "{} bytes are left out", segment.end - at);
    (blocks, holes)
}

fn log_of(directory: &FaultyDirectory) -> Log {
    Log::open_in(Arc::new(directory.clone())).unwrap()
}

/// Returns a closed database with some rows, and its only segment.
fn filled() -> (FaultyDirectory, Segment) {
    let directory = FaultyDirectory::new();
    let options = Options::default().log_buffer_bytes(1 << 20).segment_bytes(1 << 20);
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let table = db.table::<u64, String>("t").unwrap();
    for key in 0..50u64 {
        db.run(|txn| txn.put(&table, &(key % 40), &"value ".repeat(key as usize))).unwrap();
    }
    db.run(|txn| txn.delete(&table, &7)).unwrap();
    drop(db);
    let segment = log_of(&directory).segments()[0].clone();
    (directory, segment)
}

fn change(directory: &FaultyDirectory, segment: &Segment, position: u64) {
    let file = directory.open(&segment.file, Open::Write).unwrap();
    let mut byte = [0];
    file.read_at(position, &mut byte).unwrap();
    file.write_at(position, &[byte[0] ^ 0x10]).unwrap();
}

fn reopen(directory: &FaultyDirectory) -> Result<Vec<(u64, String)>, Error> {
    let db = Database::open_in(Arc::new(directory.clone()), Options::default())?;
    let table = db.table::<u64, String>("t")?;
    db.run(|txn| txn.scan(&table, ..).collect())
}

#[test]
fn a_log_is_shown_as_it_was_written() {
    let (directory, segment) = filled();
    let log = log_of(&directory);
    let (blocks, holes) = found(&log, &segment);
    assert!(blocks.iter().all(|block| block.is_right) && !segment.is_cut());
    let commits: Vec<_> = blocks.iter().filter(|block| block.kind.name() == "commit").collect();
    // One of the rows is the catalog's.
    assert_eq!(commits.iter().map(|block| block.rows).sum::<u64>(), 52);
    assert!(blocks.iter().any(|block| block.clock_us.is_some_and(|clock| clock > 1_600_000_000_000_000)));
    let records: Vec<_> = commits.iter().flat_map(|block| block.records()).collect();
    // The row that a key gets depends on the worker that the transaction found free.
    let inserted = |key: usize| match &records[1 + key] {
        Record::Insert { table: 1, row, key: found, value_bytes, .. }
            if **found == (key as u64).to_be_bytes() && *value_bytes == 6 * key as u64 =>
        {
            *row
        }
        other => panic!("{other:?}"),
    };
    let (first, deleted) = (inserted(0), inserted(7));
    assert!(matches!(records[41], Record::Update { table: 1, row, value_bytes: 240, diverted: false } if row == first));
    assert!(matches!(records[51], Record::Delete { table: 1, row } if row == deleted));
    assert_eq!((holes.len(), holes[0].reason), (1, Reason::Blank));
    assert!(!log.is_damage(holes[0].offset).unwrap(), "that is where the log ends");
    assert!(log.segment("log-1").is_err());
}

#[test]
fn what_is_behind_damage_is_found_and_what_is_before_it_is_saved_by_a_restore() {
    let (directory, segment) = filled();
    let (whole, _) = found(&log_of(&directory), &segment);
    let hit = whole.iter().filter(|block| block.rows == 1).nth(30).unwrap();
    // A byte of a descriptor.
    change(&directory, &segment, hit.position + 33);
    let log = log_of(&directory);
    let (blocks, holes) = found(&log, &segment);
    assert_eq!(blocks.len(), whole.len() - 1);
    let expected = Hole { position: hit.position, offset: hit.offset, bytes: hit.bytes, reason: Reason::Damaged };
    assert_eq!((&holes[0], holes.len()), (&expected, 2));
    assert!(log.is_damage(hit.offset).unwrap());
    match reopen(&directory) {
        Err(Error::Corrupt { file, offset, .. }) => assert_eq!((file, offset), (segment.file.clone(), hit.position)),
        other => panic!("{other:?}"),
    }
    // As docs/design/log.md says.
    let (from, saved) = (Arc::new(directory) as Arc<dyn Directory>, FaultyDirectory::new());
    let to = Arc::new(saved.clone()) as Arc<dyn Directory>;
    restore_in(&from, None, &to, Until::Lsn(hit.offset - 1), &mut |_| ()).unwrap();
    let rows = reopen(&saved).unwrap();
    // The first of the blocks is the catalog's.
    assert_eq!(rows.len(), 29);
    assert_eq!(rows.last().unwrap(), &(28, "value ".repeat(28)));
}

#[test]
fn a_wrong_payload_is_told() {
    let (directory, segment) = filled();
    let (whole, _) = found(&log_of(&directory), &segment);
    let hit = whole.iter().filter(|block| block.rows == 1).nth(30).unwrap();
    change(&directory, &segment, hit.position + hit.bytes - 17);
    let log = log_of(&directory);
    let (blocks, holes) = found(&log, &segment);
    assert_eq!((blocks.len(), holes.len()), (whole.len(), 1));
    let wrong: Vec<_> = blocks.iter().filter(|block| !block.is_right).map(|block| block.offset).collect();
    assert_eq!(wrong, [hit.offset]);
    assert!(log.is_damage(hit.offset).unwrap());
    assert!(matches!(reopen(&directory), Err(Error::Corrupt { offset, .. }) if offset == hit.position));
}

#[test]
fn no_content_makes_it_panic() {
    let seed = env::var("ERMINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let (directory, segment) = filled();
        let file = directory.open(&segment.file, Open::Write).unwrap();
        for _ in 0..random.usize(1..40) {
            let bytes: Vec<u8> = (0..random.usize(1..100)).map(|_| random.u8(..)).collect();
            file.write_at(random.u64(..20_000), &bytes).unwrap();
        }
        if random.bool() {
            file.set_length(random.u64(..20_000)).unwrap();
        }
        let log = log_of(&directory);
        let (blocks, holes) = found(&log, &log.segments()[0]);
        blocks.iter().for_each(|block| drop(block.records()));
        assert!(holes.iter().all(|hole| log.is_damage(hole.offset).is_ok()));
        if let Err(error) = reopen(&directory) {
            assert!(matches!(error, Error::Corrupt { .. } | Error::Storage(_) | Error::Decode { .. }), "{error}");
        }
    }
}

#[test]
fn names_that_are_no_segments_are_left_alone() {
    let directory = FaultyDirectory::new();
    for name in ["LOCK", "log-", "log-0000000000000000-0000000000000011-0000000000001000"] {
        directory.open(name, Open::Create).unwrap();
    }
    directory.open("log-0000000000000000-ffffffffffffff00-ffffffffffffffff", Open::Create).unwrap();
    let far = "log-ffffffffffffffff-1ffffffffffffe00-1ffffffffffffff0";
    directory.open(far, Open::Create).unwrap();
    let log = log_of(&directory);
    assert_eq!(log.segments().iter().map(|segment| &segment.file[..]).collect::<Vec<_>>(), [far]);
    assert!(log.segments()[0].is_cut());
    let (blocks, holes) = found(&log, &log.segments()[0]);
    assert_eq!((blocks.len(), holes.len()), (0, 1));
}

#[test]
fn the_block_of_the_description_is_read() {
    let description = include_str!("../../../../docs/design/log.md");
    let example = description.split("## One block, byte by byte").nth(1).unwrap();
    let example = example.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let of_line = |line: &str| -> Vec<u8> {
        let digits = line.split("   ").next().unwrap().split_whitespace();
        digits.map_while(|byte| (byte.len() == 2).then(|| u8::from_str_radix(byte, 16).ok()).flatten()).collect()
    };
    let bytes: Vec<u8> = example.lines().flat_map(of_line).collect();
    assert_eq!(bytes.len(), 48, "{bytes:02x?}");
    // The block is built by hand, as the document describes it.
    let payload = b"hello\0\0\0\0\0";
    let descriptors = [0x10, 7, 5, 2, b'k', b'1'];
    let mut rest = [&16u64.to_le_bytes()[..], &3u32.to_le_bytes(), &6u32.to_le_bytes()].concat();
    rest.extend(crc32c::crc32c(payload).to_le_bytes());
    rest.extend(0u32.to_le_bytes());
    let front = [0x2e, 0xe1, 1, 1];
    let checksum = crc32c::crc32c(&[&front[..], &rest, &descriptors].concat());
    let by_hand = [&front[..], &checksum.to_le_bytes(), &rest, &descriptors, payload].concat();
    assert_eq!(bytes, by_hand);

    let directory = FaultyDirectory::new();
    let file = directory.open("log-0000000000000000-0000000000000010-0000000000001010", Open::Create).unwrap();
    file.write_at(16, &bytes).unwrap();
    file.set_length(8192).unwrap();
    let log = log_of(&directory);
    let (blocks, holes) = found(&log, &log.segments()[0]);
    let block = &blocks[0];
    assert_eq!((block.kind.name(), block.position, block.offset, block.segment), ("commit", 16, 16, 0));
    assert_eq!((block.bytes, block.descriptor_bytes, block.payload_bytes(), block.rows), (48, 6, 10, 1));
    assert_eq!((block.durable_to, block.is_right, blocks.len()), (16, true, 1));
    let record = Record::Insert { table: 1, row: 7, key: b"k1".to_vec(), value_bytes: 5, diverted: false };
    assert_eq!(block.records(), [record]);
    assert_eq!(holes, [Hole { position: 64, offset: 64, bytes: 4112 - 64, reason: Reason::Blank }]);
}
