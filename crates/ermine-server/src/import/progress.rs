//! Progress of an import, on the standard error: a line for each table, and meanwhile how far it is.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// Time between two reports in the last line of a terminal.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two reports elsewhere, each of which is a line.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which a statement is worth a line.
const LONG: Duration = Duration::from_secs(1);

pub struct Progress {
    is_terminal: bool,
    /// Whether a report is in the last line of the terminal.
    is_shown: bool,
    /// The time of the next report.
    next: Instant,
    /// The number of tables of the source, about.
    tables: usize,
    /// The table that is being copied, or was copied last.
    table: Table,
}

struct Table {
    name: String,
    /// Its number, from 1 on.
    number: usize,
    /// The number of rows that are expected, if it is known.
    estimate: Option<u64>,
    began: Instant,
    rows: u64,
    bytes: u64,
}

impl Progress {
    pub fn new(tables: usize) -> Self {
        let now = Instant::now();
        let table = Table { name: String::new(), number: 0, estimate: None, began: now, rows: 0, bytes: 0 };
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, is_shown: false, next: now + interval(is_terminal), tables, table }
    }

    pub fn begin_table(&mut self, name: &str, estimate: Option<u64>) {
        let number = self.table.number + 1;
        let estimate = estimate.filter(|rows| *rows > 0);
        self.table = Table { name: name.to_owned(), number, estimate, began: Instant::now(), rows: 0, bytes: 0 };
    }

    pub fn count(&mut self, rows: u64, bytes: u64) {
        self.table.rows += rows;
        self.table.bytes += bytes;
        if Instant::now() >= self.next {
            self.show(&self.table.so_far(self.tables));
        }
    }

    pub fn end_table(&mut self) {
        self.line(&self.table.done());
    }

    /// Reports a statement while it runs, and its time if it was long.
    pub fn statement<T>(&mut self, text: &str, run: impl FnOnce() -> T) -> T {
        if self.is_terminal {
            self.show(text);
        }
        let began = Instant::now();
        let done = run();
        if began.elapsed() >= LONG {
            self.line(&format!("{text}: {:.1?}", began.elapsed()));
        }
        done
    }

    /// Writes a line that stays.
    fn line(&mut self, text: &str) {
        let clear = if std::mem::take(&mut self.is_shown) { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{text}");
    }

    fn show(&mut self, text: &str) {
        if self.is_terminal {
            self.is_shown = true;
            // A report that cannot be shown is not missed.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        } else {
            eprintln!("{text}");
        }
        self.next = Instant::now() + interval(self.is_terminal);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Table {
    fn so_far(&self, tables: usize) -> String {
        let Self { name, number, rows, bytes, .. } = self;
        let of = self.estimate.map_or_else(String::new, |estimate| format!(" of about {estimate}"));
        let tables = tables.max(*number);
        format!("{name} (table {number} of {tables}): {rows}{of} rows, {:.1} MiB", mebibytes(*bytes))
    }

    fn done(&self) -> String {
        let Self { name, rows, bytes, .. } = self;
        format!("{name}: {rows} rows, {:.1} MiB in {:.1?}", mebibytes(*bytes), self.began.elapsed())
    }
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn interval(is_terminal: bool) -> Duration {
    if is_terminal { INTERVAL } else { LOG_INTERVAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_say_how_far_it_is() {
        let mut progress = Progress::new(3);
        progress.begin_table("shop.tea", Some(70));
        progress.count(20, 3 << 20);
        progress.count(1, 0);
        assert_eq!(progress.table.so_far(3), "shop.tea (table 1 of 3): 21 of about 70 rows, 3.0 MiB");
        assert!(progress.table.done().starts_with("shop.tea: 21 rows, 3.0 MiB in "));
        // A table that was never analyzed, or is younger than the estimate.
        progress.begin_table("t", Some(0));
        assert_eq!(progress.table.so_far(1), "t (table 2 of 2): 0 rows, 0.0 MiB");
    }
}
