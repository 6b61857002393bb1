//! Log messages, line by line on the standard error.

use std::io::Write as _;

use log::{LevelFilter, Log, Metadata, Record};

struct Lines;

/// Writes messages that are logged from now on, down to a level. A logger that the process already has is kept.
pub fn start(level: LevelFilter) {
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(level);
    }
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Other crates log little that an operator of a server could use.
        metadata.target().starts_with("ermine") || metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let now = jiff::Timestamp::now();
            // A message that cannot be written is lost; there is no other place to report it.
            let _ = writeln!(std::io::stderr().lock(), "{now:.3} {:5} {}", record.level(), record.args());
        }
    }

    fn flush(&self) {}
}
