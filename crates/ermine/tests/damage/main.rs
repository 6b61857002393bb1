//! Goal: whatever the files of a database hold, opening and using it works or ends with an error that explains itself;
//! nothing panics, and no number in a file makes it take memory that it does not fill.
//! Method: small databases are changed at random from a printed seed, mostly so that the checksums are right again, and
//! opened (`mutation.rs`, which the fuzz targets share). `ERMINE_TEST_SEED=n` runs the one change of a failure again,
//! and `ERMINE_TEST_ROUNDS=n` runs n rounds.
//!
//! The allocator and the count of panics are those of the process, so the test has a process of its own.

mod mutation;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use mutation::{Files, Source, change, check, log_of, log_of_records, seeds};

/// An allocator that refuses sizes which no small database needs.
struct Bounded;

const BYTES_MAX: usize = 512 << 20;
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > BYTES_MAX {
            // The process ends with a message that names the size.
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

struct Random(fastrand::Rng);

impl Source for Random {
    fn number(&mut self) -> u64 {
        self.0.u64(..)
    }
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// The round that is running, and how many threads have panicked so far, those of the database included.
static SEED: AtomicU64 = AtomicU64::new(0);
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics, and ends the process if a round does not end.
fn watch() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        print(panic);
    }));
    std::thread::spawn(|| {
        let mut last = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let seed = SEED.load(Ordering::SeqCst);
            if seed != last.0 {
                last = (seed, Instant::now());
            } else if last.1.elapsed() > Duration::from_secs(60) {
                eprintln!("ERMINE_TEST_SEED={seed} takes for ever");
                std::process::abort();
            }
        }
    });
}

fn bytes_of(random: &mut Random) -> Vec<u8> {
    (0..random.below(300)).map(|_| random.number() as u8 & 0x1f).collect()
}

fn round(seeds: &[Files], seed: u64) -> bool {
    SEED.store(seed, Ordering::SeqCst);
    let mut random = Random(fastrand::Rng::with_seed(seed));
    let mut files = seeds[random.below(seeds.len())].clone();
    match random.below(10) {
        0 => files = log_of(&bytes_of(&mut random)),
        1 => files = log_of_records(&bytes_of(&mut random)),
        _ => (0..1 + random.below(3)).for_each(|_| change(&mut files, &mut random)),
    }
    let opened = std::panic::catch_unwind(|| check(&files)).unwrap_or(false);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "ERMINE_TEST_SEED={seed}");
    opened
}

#[test]
fn damaged_files_are_told_or_do_no_harm() {
    let seeds = seeds();
    assert!(seeds.iter().all(check), "what is not damaged can be used");
    watch();
    if let Some(seed) = variable("ERMINE_TEST_SEED") {
        round(&seeds, seed);
        return;
    }
    let rounds = variable("ERMINE_TEST_ROUNDS").unwrap_or(500);
    let (first, began) = (fastrand::u64(..1 << 48), Instant::now());
    let opened = (first..first + rounds).filter(|&seed| round(&seeds, seed)).count() as u64;
    println!("{opened} of {rounds} could be opened; {:?} from seed {first}", began.elapsed());
    assert!(
        rounds < 100 || (rounds / 10..rounds).contains(&opened),
        "{opened} of {rounds}: too few, or harmless changes"
    );
}

/// Writes initial inputs for a fuzzer to the directory `FUZZ_SEEDS`.
#[test]
fn seeds_are_written() {
    let Some(directory) = env::var_os("FUZZ_SEEDS") else { return };
    std::fs::create_dir_all(&directory).unwrap();
    for (at, (name, bytes)) in seeds().into_iter().flat_map(|files| files.0).enumerate() {
        if name.starts_with("log-") {
            // In the form that `log_of` expects: without the bytes in front of the first block.
            std::fs::write(std::path::Path::new(&directory).join(format!("{at}-{name}")), &bytes[16..]).unwrap();
        }
    }
}
