//! Bytes of a client, through the decoders of the protocol and of values.
#![no_main]

#[path = "../../crates/ermine-server/tests/all/server/decoder.rs"]
mod decoder;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| decoder::check(bytes));
