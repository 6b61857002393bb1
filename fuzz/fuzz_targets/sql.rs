//! A text, parsed, bound and run on a small database with a time limit.
#![no_main]

#[path = "../../crates/ermine-sql/tests/texts/front.rs"]
mod front;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

thread_local! {
    static FRONT: RefCell<front::Front> = RefCell::new(front::Front::new(Vec::new()));
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        FRONT.with_borrow_mut(|front| front.check(text));
    }
});
