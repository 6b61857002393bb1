//! A log of one commit block, which is valid except for its descriptors and payloads: they are arbitrary bytes.
#![no_main]

#[path = "../../crates/ermine/tests/damage/mutation.rs"]
#[allow(dead_code)]
mod mutation;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    mutation::check(&mutation::log_of_records(bytes));
});
