//! The speed of the machine at this moment, printed beside every result.
//!
//! The hosts that this runs on are shared: absolute figures move by a quarter between runs. A dependent random load
//! shows how busy memory is; an integer loop on one and on two threads shows how much of two cores is available.

use std::{fmt, hint::black_box, thread, time::Instant};

use serde::Serialize;

use crate::random::Random;

/// A build of development takes less time for measurements that mean less: the tests start many benchmarks.
const SHORTER: u32 = if cfg!(debug_assertions) { 32 } else { 1 };
/// The memory of the random loads, in MiB.
const MEMORY_MIB: u32 = 64 / SHORTER;

/// The measurements, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Calibration {
    /// One load that depends on the one before, at random within 64 MiB (2 MiB in a build of development).
    pub random_load_ns: f64,
    /// One turn of a dependent integer loop on one thread.
    pub loop_one_thread_ns: f64,
    /// The same on each of two threads at once: the slower of the two.
    pub loop_two_threads_ns: f64,
}

impl Calibration {
    /// Takes the measurements, in about a second; in a build of development, in a fraction of it.
    pub fn measure() -> Self {
        let pair = thread::scope(|scope| {
            let other = scope.spawn(integer_loop_ns);
            let own = integer_loop_ns();
            own.max(other.join().unwrap_or(f64::INFINITY))
        });
        Self {
            random_load_ns: random_load_ns((MEMORY_MIB as usize) << 20, (1 << 21) / SHORTER),
            loop_one_thread_ns: integer_loop_ns(),
            loop_two_threads_ns: pair,
        }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { random_load_ns, loop_one_thread_ns, loop_two_threads_ns } = self;
        write!(
            f,
            "random load in {MEMORY_MIB} MiB {random_load_ns:.0} ns, integer loop {loop_one_thread_ns:.2} ns on 1 thread, \
             {loop_two_threads_ns:.2} ns on 2"
        )
    }
}

/// Follows one cycle through `bytes` of memory for `loads` steps.
fn random_load_ns(bytes: usize, loads: u32) -> f64 {
    let cycle = single_cycle(bytes / size_of::<u64>());
    let mut place = 0;
    // Loads the pages and the translations that stay cached.
    for _ in 0..loads / 8 {
        place = cycle[place as usize];
    }
    let start = Instant::now();
    for _ in 0..loads {
        place = cycle[place as usize];
    }
    black_box(place);
    start.elapsed().as_nanos() as f64 / f64::from(loads)
}

/// A random permutation that is one cycle (Sattolo's shuffle): the walk cannot fall into a short loop.
fn single_cycle(length: usize) -> Vec<u64> {
    let mut random = Random::new(64, 0);
    let mut next: Vec<u64> = (0..length as u64).collect();
    for last in (1..length).rev() {
        next.swap(last, random.below(last as u64) as usize);
    }
    next
}

fn integer_loop_ns() -> f64 {
    const ITERATIONS: u32 = 100_000_000 / SHORTER;
    let start = Instant::now();
    let mut x = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..ITERATIONS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
    start.elapsed().as_nanos() as f64 / f64::from(ITERATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_every_place() {
        let next = single_cycle(1_000);
        let mut place = 0;
        let mut steps = 0;
        loop {
            place = next[place as usize];
            steps += 1;
            if place == 0 {
                break;
            }
        }
        assert_eq!(steps, 1_000);
    }
}
