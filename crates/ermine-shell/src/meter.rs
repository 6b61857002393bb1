//! Progress of a copy, on the standard error while it runs.

use std::{
    io::{self, IsTerminal as _, Read, Write},
    time::{Duration, Instant},
};

/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// A file that is copied from or to, with a report of its progress in the last line of the terminal.
pub struct Metered<F> {
    file: F,
    began: Instant,
    /// The time of the next report, from the beginning; `None` if nothing is reported.
    next: Option<Duration>,
    bytes: u64,
    lines: u64,
    /// Whether a report is on the terminal.
    is_shown: bool,
}

impl<F> Metered<F> {
    /// Reports to the standard error, if it is a terminal and `is_told`.
    pub fn new(file: F, is_told: bool) -> Self {
        let is_told = is_told && io::stderr().is_terminal();
        let next = is_told.then_some(INTERVAL);
        Self { file, began: Instant::now(), next, bytes: 0, lines: 0, is_shown: false }
    }

    fn count(&mut self, bytes: &[u8]) {
        let Some(next) = self.next else { return };
        self.bytes += bytes.len() as u64;
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let took = self.began.elapsed();
        if took >= next {
            self.next = Some(took + INTERVAL);
            self.is_shown = true;
            // A report that cannot be shown is not missed.
            let _ = write!(io::stderr(), "\r{}\x1b[K", report(self.lines, self.bytes, took));
        }
    }
}

impl<F> Drop for Metered<F> {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn report(lines: u64, bytes: u64, took: Duration) -> String {
    let rate = |count: u64| count as f64 / took.as_secs_f64();
    let mebi = |bytes: f64| bytes / f64::from(1 << 20);
    format!("{lines} lines, {:.1} MiB; {:.0} lines/s, {:.1} MiB/s", mebi(bytes as f64), rate(lines), mebi(rate(bytes)))
}

impl<F: Read> Read for Metered<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.count(&buffer[..length]);
        Ok(length)
    }
}

impl<F: Write> Write for Metered<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.count(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_counted() {
        let mut source = Metered::new(&b"a\nb\nc"[..], false);
        // Counts, and does not report.
        source.next = Some(Duration::MAX);
        let mut text = String::new();
        source.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, source.lines, source.bytes), ("a\nb\nc", 2, 5));
        let mut sink = Metered::new(Vec::new(), false);
        sink.next = Some(Duration::MAX);
        sink.write_all(b"\n\n").unwrap();
        assert_eq!((sink.lines, sink.bytes, sink.is_shown), (2, 2, false));
        let text = report(30_000, 3 << 20, Duration::from_secs(2));
        assert_eq!(text, "30000 lines, 3.0 MiB; 15000 lines/s, 1.5 MiB/s");
    }
}
