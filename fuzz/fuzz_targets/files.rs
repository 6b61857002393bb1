//! The files of a small database after some changes; the bytes choose them.
#![no_main]

#[path = "../../crates/ermine/tests/damage/mutation.rs"]
#[allow(dead_code)]
mod mutation;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mutation::{Files, Source, change, check, seeds};

static SEEDS: LazyLock<Vec<Files>> = LazyLock::new(seeds);

struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn number(&mut self) -> u64 {
        let (taken, rest) = self.0.split_at(self.0.len().min(8));
        self.0 = rest;
        taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let mut files = SEEDS[bytes.below(SEEDS.len())].clone();
    while !bytes.0.is_empty() {
        change(&mut files, &mut bytes);
    }
    check(&files);
});
