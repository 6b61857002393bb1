//! A log of one file, which holds arbitrary bytes.
#![no_main]

#[path = "../../crates/ermine/tests/damage/mutation.rs"]
#[allow(dead_code)]
mod mutation;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    mutation::check(&mutation::log_of(bytes));
});
