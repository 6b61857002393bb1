//! Ermine's index beside foreign ones: inserts, lookups, scans of 100 and bytes per key.
//!
//! Every line is measured in a process of its own, so that one engine's memory is not another's; engines take turns
//! within each repetition, so that other load on the machine affects all alike. Keys are computed, not stored: random
//! keys are a bijection of 0, 1, 2 ..; every lookup and every scan checks its result.
#![forbid(unsafe_code)]

#[path = "../report.rs"]
mod report;

use clap::{Parser, ValueEnum};
use crossbeam_skiplist::SkipMap;
use ermine::bench_index;
use ermine_bench::report::Setting;
use std::{
    error::Error,
    fs,
    hint::black_box,
    process::Command,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::report::{Comparison, Figure, Measured, Output};

#[derive(Clone, Parser)]
struct Options {
    /// Keys in the index.
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Number of threads; runs are made with one thread, and with this number.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds of lookups, and of scans.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Counts the time that the threads were running instead of the time that passed: for a shared machine.
    #[arg(long)]
    cpu_time: bool,
    #[arg(long, value_delimiter = ',', default_values = ["random"])]
    kinds: Vec<Kind>,
    #[arg(long, value_delimiter = ',', default_values = ["ermine", "ferntree", "congee", "skiplist"])]
    engines: Vec<Engine>,
    #[command(flatten)]
    output: Output,
    /// Measures one line in this process: the first engine, the first kind, all threads.
    #[arg(long, hide = true)]
    one: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Ermine,
    /// Ermine's index, built by bulk load instead of inserts.
    ErmineBulk,
    Ferntree,
    Congee,
    Skiplist,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Eight random bytes.
    Random,
    /// Eight bytes, ascending, drawn by all threads from one counter.
    Ascending,
    /// Warehouse, district, order, line: ten bytes, orders ascending in each district.
    Composite,
    /// 64 bytes: one of 1000 prefixes of 56 bytes, then eight random ones.
    Long,
}

/// A key of number `n`, and its bytes, which have the same order.
trait Key: Copy + Ord + Send + Sync + 'static {
    type Bytes: AsRef<[u8]>;
    /// The key in a form for ferntree, which does not support arrays.
    type Fern: Ord + Clone + Send + Sync + ferntree::OptimisticRead;
    fn nth(n: u64, kind: Kind) -> Self;
    fn bytes(self) -> Self::Bytes;
    fn fern(self) -> Self::Fern;
    fn last_byte(key: &Self::Fern) -> u64;
}

/// splitmix64's finalizer: a bijection.
fn mix(n: u64) -> u64 {
    let mut mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Key for u64 {
    type Bytes = [u8; 8];
    type Fern = Self;

    fn nth(n: u64, kind: Kind) -> Self {
        if kind == Kind::Random { mix(n) } else { n }
    }

    fn bytes(self) -> [u8; 8] {
        self.to_be_bytes()
    }

    fn fern(self) -> Self {
        self
    }

    fn last_byte(key: &Self) -> u64 {
        key & 0xff
    }
}

impl Key for [u8; 10] {
    type Bytes = Self;
    type Fern = Vec<u8>;

    fn nth(n: u64, _: Kind) -> Self {
        let (line, rest) = (n % 10, n / 10);
        let (district, rest) = (rest % 10, rest / 10);
        let (warehouse, order) = (rest % 20, rest / 20);
        let mut key = [0; 10];
        key[..4].copy_from_slice(&(warehouse as u32).to_be_bytes());
        key[4] = district as u8;
        key[5..9].copy_from_slice(&(order as u32).to_be_bytes());
        key[9] = line as u8;
        key
    }

    fn bytes(self) -> Self {
        self
    }

    fn fern(self) -> Vec<u8> {
        self.to_vec()
    }

    fn last_byte(key: &Vec<u8>) -> u64 {
        last_byte(key)
    }
}

impl Key for [u8; 64] {
    type Bytes = Self;
    type Fern = Vec<u8>;

    fn nth(n: u64, _: Kind) -> Self {
        let mixed = mix(n);
        let mut key = [b'.'; 64];
        key[..8].copy_from_slice(format!("user{:04}", mixed % 1000).as_bytes());
        key[56..].copy_from_slice(&mixed.to_be_bytes());
        key
    }

    fn bytes(self) -> Self {
        self
    }

    fn fern(self) -> Vec<u8> {
        self.to_vec()
    }

    fn last_byte(key: &Vec<u8>) -> u64 {
        last_byte(key)
    }
}

/// An index under test.
trait Contender<K: Key>: Sync {
    type Session<'c>
    where
        Self: 'c;
    fn session(&self) -> Self::Session<'_>;
    fn insert(session: &mut Self::Session<'_>, key: K, row: u64);
    fn get(session: &Self::Session<'_>, key: K) -> Option<u64>;
    /// Reads 100 keys and rows; returns their number, and a value computed from all of them.
    fn scan(session: &mut Self::Session<'_>, from: K) -> (usize, u64);
}

const SCAN: usize = 100;

impl<K: Key> Contender<K> for bench_index::Index {
    type Session<'c> = bench_index::Session<'c>;

    fn session(&self) -> Self::Session<'_> {
        self.session()
    }

    fn insert(session: &mut Self::Session<'_>, key: K, row: u64) {
        assert!(session.insert(key.bytes().as_ref(), row));
    }

    fn get(session: &Self::Session<'_>, key: K) -> Option<u64> {
        session.get(key.bytes().as_ref())
    }

    fn scan(session: &mut Self::Session<'_>, from: K) -> (usize, u64) {
        let mut sum = 0;
        let count = session.scan(from.bytes().as_ref(), SCAN, |key, row| sum ^= row ^ last_byte(key));
        (count, sum)
    }
}

fn last_byte(key: &[u8]) -> u64 {
    key.last().copied().unwrap_or(0).into()
}

struct Ferntree<K: Key>(ferntree::Tree<K::Fern, u64>);

impl<K: Key> Contender<K> for Ferntree<K> {
    type Session<'c> = &'c ferntree::Tree<K::Fern, u64>;

    fn session(&self) -> Self::Session<'_> {
        &self.0
    }

    fn insert(tree: &mut Self::Session<'_>, key: K, row: u64) {
        assert!(tree.insert(key.fern(), row).is_none());
    }

    fn get(tree: &Self::Session<'_>, key: K) -> Option<u64> {
        tree.lookup_optimistic(&key.fern(), |&row| row)
    }

    fn scan(tree: &mut Self::Session<'_>, from: K) -> (usize, u64) {
        let mut scan = tree.raw_iter();
        scan.seek(&from.fern());
        let (mut count, mut sum) = (0, 0);
        while count < SCAN
            && let Some((key, row)) = scan.next()
        {
            sum ^= row ^ K::last_byte(key);
            count += 1;
        }
        (count, sum)
    }
}

impl Contender<u64> for congee::U64Congee<usize> {
    type Session<'c> = &'c Self;

    fn session(&self) -> Self::Session<'_> {
        self
    }

    fn insert(tree: &mut Self::Session<'_>, key: u64, row: u64) {
        let before = congee::U64Congee::insert(tree, key, row as usize, &congee::epoch::pin());
        assert!(before.expect("memory suffices").is_none());
    }

    fn get(tree: &Self::Session<'_>, key: u64) -> Option<u64> {
        congee::U64Congee::get(tree, key, &congee::epoch::pin()).map(|row| row as u64)
    }

    fn scan(tree: &mut Self::Session<'_>, from: u64) -> (usize, u64) {
        let mut entries = [([0; 8], 0); SCAN];
        let count = tree.range(from, u64::MAX, &mut entries, &congee::epoch::pin());
        (count, entries[..count].iter().fold(0, |sum, (key, row)| sum ^ *row as u64 ^ last_byte(key)))
    }
}

impl<K: Key> Contender<K> for SkipMap<K, u64> {
    type Session<'c> = &'c Self;

    fn session(&self) -> Self::Session<'_> {
        self
    }

    fn insert(map: &mut Self::Session<'_>, key: K, row: u64) {
        SkipMap::insert(map, key, row);
    }

    fn get(map: &Self::Session<'_>, key: K) -> Option<u64> {
        SkipMap::get(map, &key).map(|entry| *entry.value())
    }

    fn scan(map: &mut Self::Session<'_>, from: K) -> (usize, u64) {
        let (mut count, mut sum) = (0, 0);
        for entry in map.range(from..).take(SCAN) {
            sum ^= entry.value() ^ last_byte(entry.key().bytes().as_ref());
            count += 1;
        }
        (count, sum)
    }
}

/// The results of one line.
struct Line {
    insert: f64,
    get: f64,
    scan: f64,
    bytes: f64,
}

fn measure<K: Key, C: Contender<K>>(build: impl FnOnce() -> (C, u64), kind: Kind, options: &Options) -> Line {
    let resident_before = resident_bytes();
    let begin = Instant::now();
    let (contender, preloaded) = build();
    let preload = begin.elapsed();
    let drawn = AtomicU64::new(preloaded);
    let inserting = on_threads(options, || {
        let mut session = contender.session();
        // Small blocks, so that the threads work next to each other where keys ascend.
        let block = 16;
        loop {
            let from = drawn.fetch_add(block, Ordering::Relaxed);
            if from >= options.keys {
                return 0;
            }
            for n in from..(from + block).min(options.keys) {
                C::insert(&mut session, K::nth(n, kind), n);
            }
        }
    });
    let seconds = if preloaded > 0 { preload.as_secs_f64() } else { inserting.1.as_secs_f64() };
    let bytes = (resident_bytes() - resident_before) / options.keys as f64;
    let (gets, elapsed) = for_a_while(options, |mut random| {
        let session = contender.session();
        move || {
            for _ in 0..64 {
                let n = random() % options.keys;
                assert_eq!(C::get(&session, K::nth(n, kind)), Some(n));
            }
            64
        }
    });
    let get = gets as f64 / elapsed.as_secs_f64() / 1e6;
    let (scans, elapsed) = for_a_while(options, |mut random| {
        let mut session = contender.session();
        move || {
            for _ in 0..16 {
                let (count, sum) = C::scan(&mut session, K::nth(random() % options.keys, kind));
                assert!((1..=SCAN).contains(&count));
                black_box(sum);
            }
            16
        }
    });
    Line { insert: options.keys as f64 / seconds / 1e6, get, scan: scans as f64 / elapsed.as_secs_f64() / 1e6, bytes }
}

/// Runs the closure that `make` returns on every thread until the time is over; returns how much was done and how long
/// it took.
fn for_a_while<F: FnMut() -> u64>(
    options: &Options,
    make: impl Fn(Box<dyn FnMut() -> u64>) -> F + Sync,
) -> (u64, Duration) {
    let seeds = AtomicU64::new(1);
    on_threads(options, || {
        let mut state = mix(seeds.fetch_add(1, Ordering::Relaxed));
        let random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        };
        let mut step = make(Box::new(random));
        let (begin, mut done) = (Instant::now(), 0);
        while begin.elapsed().as_secs_f64() < options.seconds {
            done += step();
        }
        done
    })
}

/// Runs `run` on all threads; returns how much they did together and how long that took.
fn on_threads(options: &Options, run: impl Fn() -> u64 + Sync) -> (u64, Duration) {
    let barrier = Barrier::new(options.threads + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..options.threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let begin = time_running();
                    let done = run();
                    (done, time_running().saturating_sub(begin))
                })
            })
            .collect();
        barrier.wait();
        let begin = Instant::now();
        let (done, ran) = running
            .into_iter()
            .map(|thread| thread.join().expect("workers do not panic"))
            .fold((0, Duration::ZERO), |(done, ran), (more, longer)| (done + more, ran + longer));
        let threads = u32::try_from(options.threads).expect("few threads");
        (done, if options.cpu_time { ran / threads } else { begin.elapsed() })
    })
}

/// Returns how long this thread has had a core.
fn time_running() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").expect("this benchmark runs on Linux");
    let nanoseconds = statistics.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the kernel tells"))
}

fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("this benchmark runs on Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("the kernel tells");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number of KiB") * 1024.0
}

fn measure_kind<K: Key>(engine: Engine, kind: Kind, options: &Options) -> Option<Line> {
    let keys = options.keys;
    Some(match engine {
        Engine::Ermine => measure::<K, _>(|| (bench_index::Index::default(), 0), kind, options),
        Engine::ErmineBulk => {
            let mut sorted: Vec<_> = (0..keys).map(|n| (K::nth(n, kind), n)).collect();
            sorted.sort_unstable();
            let build = || (bench_index::Index::bulk_load(sorted.iter().map(|(key, n)| (key.bytes(), *n))), keys);
            measure::<K, _>(build, kind, options)
        }
        Engine::Ferntree => measure::<K, _>(|| (Ferntree::<K>(ferntree::Tree::default()), 0), kind, options),
        Engine::Skiplist => measure::<K, _>(|| (SkipMap::<K, u64>::new(), 0), kind, options),
        Engine::Congee => return None,
    })
}

fn one(options: &Options) -> Option<Line> {
    let (engine, kind) = (options.engines[0], options.kinds[0]);
    match kind {
        Kind::Random | Kind::Ascending if engine == Engine::Congee => {
            Some(measure::<u64, _>(|| (congee::U64Congee::<usize>::new(), 0), kind, options))
        }
        Kind::Random | Kind::Ascending => measure_kind::<u64>(engine, kind, options),
        Kind::Composite => measure_kind::<[u8; 10]>(engine, kind, options),
        Kind::Long => measure_kind::<[u8; 64]>(engine, kind, options),
    }
}

/// Returns the nanoseconds of a load that depends on the one before, over 64 MiB: a measure of the machine's current
/// speed.
fn calibrate() -> f64 {
    const WORDS: usize = 8 << 20;
    // One cycle through all places (Sattolo).
    let mut next: Vec<u32> = (0..WORDS as u32).collect();
    for i in (1..WORDS).rev() {
        next.swap(i, (mix(i as u64) % i as u64) as usize);
    }
    let next: Vec<u64> = next.into_iter().map(u64::from).collect();
    let (steps, mut at) = (2_000_000, 0);
    let begin = Instant::now();
    for _ in 0..steps {
        at = next[at as usize];
    }
    black_box(at);
    begin.elapsed().as_nanos() as f64 / f64::from(steps)
}

fn name<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().expect("every value has a name").get_name().to_owned()
}

/// The quantities of a line, in the order in which they are printed.
const QUANTITIES: [&str; 4] = [
    "Millions of inserts per second",
    "Millions of lookups per second",
    "Millions of scans per second",
    "Bytes per key",
];

/// Adds the numbers of a line to the figures; each input has one figure for each quantity.
fn add(figures: &mut Vec<Figure>, input: &str, engine: &str, line: &str) {
    for (quantity, number) in QUANTITIES.into_iter().zip(line.split_whitespace()) {
        let number = number.parse().expect("a number");
        let at = figures.iter().position(|figure| (figure.quantity, &*figure.input) == (quantity, input));
        let at = at.unwrap_or_else(|| {
            figures.push(Figure { quantity, input: input.into(), results: Vec::new() });
            figures.len() - 1
        });
        let results = &mut figures[at].results;
        match results.iter_mut().find(|measured| measured.name == engine) {
            Some(measured) => measured.rounds.push(number),
            None => results.push(Measured { name: engine.into(), rounds: vec![number] }),
        }
    }
}

/// Measures a line in a process of its own; empty if the engine does not have such keys.
fn in_a_process(engine: &str, kind: &str, threads: usize, options: &Options) -> String {
    let [keys, threads, seconds] = [options.keys.to_string(), threads.to_string(), options.seconds.to_string()];
    let child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--one", "--keys", &keys, "--threads", &threads, "--seconds", &seconds])
        .args(["--kinds", kind, "--engines", engine])
        .args(options.cpu_time.then_some("--cpu-time"))
        .output()
        .expect("this program starts");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    String::from_utf8_lossy(&child.stdout).trim_end().to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.one {
        if let Some(line) = one(&options) {
            println!("{:8.2} {:8.2} {:8.3} {:8.1}", line.insert, line.get, line.scan, line.bytes);
        }
        return Ok(());
    }
    let setting = Setting::here();
    let mut thread_counts = vec![1, options.threads];
    thread_counts.dedup();
    let mut figures = Vec::new();
    for repetition in 0..options.repeat {
        println!("# {} keys, repetition {repetition}, a dependent load takes {:.0} ns", options.keys, calibrate());
        println!("{:12} {:10} threads   insert      get  scan100  bytes/key   (M/s)", "engine", "keys");
        for &kind in &options.kinds {
            for &threads in &thread_counts {
                for &engine in &options.engines {
                    let (engine, kind) = (name(engine), name(kind));
                    let line = in_a_process(&engine, &kind, threads, &options);
                    if !line.is_empty() {
                        println!("{engine:12} {kind:10} {threads:>7} {line}");
                        add(&mut figures, &format!("{kind} keys, {threads} threads"), &engine, &line);
                    }
                }
            }
        }
    }
    // Stable: the inputs of a quantity stay in their order.
    figures.sort_by_key(|figure| QUANTITIES.iter().position(|&quantity| quantity == figure.quantity));
    let Options { keys, seconds, repeat, .. } = options;
    let text = format!("{keys} keys, {seconds} s of lookups and of scans, {repeat} rounds");
    let title = "Ermine's index beside foreign ones";
    options.output.write(&Comparison { title, setting, options: text, figures })
}
