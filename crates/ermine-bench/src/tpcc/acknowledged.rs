//! Orders that were acknowledged: written down at once, and looked up in a database that was opened again.
//!
//! One line per order: warehouse, district, order, and its number of lines, separated by spaces. An order is written
//! when its commit is acknowledged, never before, and in one write, so that a process that is killed leaves at most its
//! last line cut.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
};

use ermine::{Database, TxnOptions, prefix};

use super::{rows::Rows, schema::OrderKey, tables::Tables};
use crate::{Error, Result, verdict::Verdict};

/// An order as its customer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcknowledgedOrder {
    /// Its key.
    pub key: OrderKey,
    /// Number of its lines.
    pub lines: u8,
}

/// Sink for acknowledged orders.
#[derive(Clone)]
pub struct OrderSink(Arc<Mutex<dyn Write + Send>>);

impl OrderSink {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    /// Appends to a file; `-` is the standard output.
    pub fn to_path(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::new(io::stdout()));
        }
        let file = File::options().create(true).append(true).open(path);
        file.map(Self::new).map_err(|source| Error::File { path: path.into(), source })
    }

    fn write(&self, order: AcknowledgedOrder) -> Result<()> {
        let ((w, d, o), lines) = (order.key, order.lines);
        let line = format!("{w} {d} {o} {lines}\n");
        let mut out = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        written.map_err(|source| Error::File { path: "the acknowledged orders".into(), source })
    }

    /// Returns a function that writes an order.
    pub(super) fn writing(&self, order: AcknowledgedOrder) -> Box<dyn FnOnce() -> Result<()> + Send> {
        let sink = self.clone();
        Box::new(move || sink.write(order))
    }
}

impl fmt::Debug for OrderSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderSink")
    }
}

/// Reads the output of a sink; a last line that was cut is left out.
pub fn read_acknowledged(path: &Path) -> Result<Vec<AcknowledgedOrder>> {
    let failed = |error: &dyn fmt::Display| Error::Usage(format!("{}: {error}", path.display()));
    let mut input = BufReader::new(File::open(path).map_err(|error| failed(&error))?);
    let (mut orders, mut line) = (Vec::new(), String::new());
    while input.read_line(&mut line).map_err(|error| failed(&error))? > 0 && line.ends_with('\n') {
        let order = parse(&line).ok_or_else(|| failed(&format!("no acknowledged order: {:?}", line.trim_end())))?;
        orders.push(order);
        line.clear();
    }
    Ok(orders)
}

fn parse(line: &str) -> Option<AcknowledgedOrder> {
    let mut words = line.split_whitespace();
    let key = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let lines = words.next()?.parse().ok()?;
    words.next().is_none().then_some(AcknowledgedOrder { key, lines })
}

/// The name of the condition.
const CONDITION: &str = "acknowledged";

/// Checks that every one of `orders` exists with all its lines.
pub fn check_acknowledged<R: Rows>(
    db: &Database,
    tables: &Tables<R>,
    orders: &[AcknowledgedOrder],
) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new(CONDITION, "every acknowledged order is there with its lines");
    let txn = db.begin(TxnOptions::read_only())?;
    for order in orders {
        let row = txn.view(&tables.order, &order.key)?;
        let mut lines = 0;
        txn.scan(&tables.order_line, prefix(order.key)).for_each(|_, _| {
            lines += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let is_whole = row.is_some_and(|row| row.ol_cnt == order.lines) && lines == order.lines;
        verdict.compare(is_whole, || format!("{order:?}: found {:?} with {lines} lines", row.map(|row| row.ol_cnt)));
    }
    txn.commit()?;
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_but_for_a_line_that_was_cut() {
        let path = std::env::temp_dir().join(format!("ermine-bench-{}-acknowledged", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let orders = [(1, 2, 3), (4, 10, 3_000_000)].map(|key| AcknowledgedOrder { key, lines: 15 });
        let sink = OrderSink::to_path(&path).unwrap();
        orders.iter().for_each(|order| sink.write(*order).unwrap());
        File::options().append(true).open(&path).unwrap().write_all(b"1 2 4").unwrap();
        assert_eq!(read_acknowledged(&path).unwrap(), orders);
        std::fs::write(&path, "1 2 x 4\n").unwrap();
        assert!(read_acknowledged(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
