//! Rows and rules: those of TPC-C, or the smaller ones of the benchmark that Silo was measured with.
//!
//! Silo's public benchmark (Tu and others, "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013) takes
//! liberties, and a comparison with it takes the same:
//!
//! | | [`StandardRows`] | [`SiloRows`] |
//! |---|---|---|
//! | STOCK | one row of 312 bytes | 16 bytes that New-Order rewrites; the notes in a table that nothing reads |
//! | ORDER_LINE | 56 bytes | 32 bytes, without the stock's note for the district |
//! | New-Order | one in a hundred is rolled back; looks at the brands | all commit; brands are not looked at |
//! | Order-Status, Stock-Level | like all others | read a safe snapshot, where the scheme has them |
//!
//! All else is the same: the other rows (Silo cuts texts to their length, here they have their full size), the mix, the
//! draws, retries, and the conditions that are checked afterwards.

use ermine::{Scheme, TxnOptions, Value};
use serde::Serialize;

use super::schema::{OrderLine, ShortLine, Stock, StockCounts, StockNotes, Text};
use crate::trial::MEASURED;

/// The choice of rows and rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowChoice {
    /// Those of TPC-C.
    #[default]
    Standard,
    /// Those of Silo's benchmark.
    Silo,
}

impl RowChoice {
    /// How many of a hundred new orders their users roll back.
    pub(super) const fn mistakes_percent(self) -> u64 {
        match self {
            Self::Standard => 1,
            Self::Silo => 0,
        }
    }
}

/// The rows that differ, and the rules that go with them.
pub trait Rows: Copy + Send + Sync + 'static {
    /// The choice that these rows stand for.
    const CHOICE: RowChoice;
    /// The schemes for which the transactions are compiled separately.
    const SCHEMES: &'static [Scheme];
    /// A row of STOCK.
    type Stock: StockRow;
    /// A row of ORDER_LINE.
    type Line: LineRow;

    /// Returns the options of Order-Status and Stock-Level.
    fn read_options(scheme: Scheme) -> TxnOptions {
        match Self::CHOICE == RowChoice::Silo && scheme.has_snapshots() {
            true => TxnOptions::snapshot(),
            false => TxnOptions::default(),
        }
    }
}

/// A row of STOCK.
pub trait StockRow: Copy + PartialEq + for<'a> Value<View<'a> = &'a Self> {
    /// Makes a row; notes that it has no room for are left out.
    fn new(counts: StockCounts, notes: &StockNotes) -> Self;

    /// Its counts.
    fn counts(&self) -> StockCounts;

    /// Replaces the counts.
    fn with_counts(self, counts: StockCounts) -> Self;

    /// The note for a district; empty if the row has no notes.
    fn note(&self, d_id: u8) -> Text<24>;

    /// The brand; empty if the row has no notes.
    fn brand(&self) -> &[u8];
}

/// A row of ORDER_LINE.
pub trait LineRow: Copy + for<'a> Value<View<'a> = &'a Self> {
    /// Makes a row; a note that it has no room for is left out.
    fn new(line: ShortLine, note: Text<24>) -> Self;

    /// The line without the note.
    fn short(&self) -> ShortLine;

    /// Sets the time of delivery.
    fn delivered(self, delivery_d: u64) -> Self;
}

/// The rows of TPC-C.
#[derive(Clone, Copy, Debug)]
pub struct StandardRows;

impl Rows for StandardRows {
    const CHOICE: RowChoice = RowChoice::Standard;
    const SCHEMES: &'static [Scheme] = MEASURED;
    type Stock = Stock;
    type Line = OrderLine;
}

impl StockRow for Stock {
    fn new(counts: StockCounts, notes: &StockNotes) -> Self {
        let StockCounts { ytd, quantity, order_cnt, remote_cnt } = counts;
        let &StockNotes { dist, data, data_len, padding } = notes;
        Self { ytd, quantity, order_cnt, remote_cnt, data_len, dist, data, padding }
    }

    fn counts(&self) -> StockCounts {
        let &Self { ytd, quantity, order_cnt, remote_cnt, .. } = self;
        StockCounts { ytd, quantity, order_cnt, remote_cnt }
    }

    fn with_counts(self, counts: StockCounts) -> Self {
        let StockCounts { ytd, quantity, order_cnt, remote_cnt } = counts;
        Self { ytd, quantity, order_cnt, remote_cnt, ..self }
    }

    fn note(&self, d_id: u8) -> Text<24> {
        self.dist[usize::from(d_id) - 1]
    }

    fn brand(&self) -> &[u8] {
        &self.data.0[..usize::from(self.data_len)]
    }
}

impl LineRow for OrderLine {
    fn new(line: ShortLine, dist_info: Text<24>) -> Self {
        let ShortLine { delivery_d, amount, i_id, supply_w_id, quantity, padding } = line;
        Self { delivery_d, amount, i_id, supply_w_id, quantity, dist_info, padding }
    }

    fn short(&self) -> ShortLine {
        let &Self { delivery_d, amount, i_id, supply_w_id, quantity, padding, .. } = self;
        ShortLine { delivery_d, amount, i_id, supply_w_id, quantity, padding }
    }

    fn delivered(self, delivery_d: u64) -> Self {
        Self { delivery_d, ..self }
    }
}

/// The rows of Silo's benchmark.
#[derive(Clone, Copy, Debug)]
pub struct SiloRows;

impl Rows for SiloRows {
    const CHOICE: RowChoice = RowChoice::Silo;
    const SCHEMES: &'static [Scheme] = &[Scheme::Si, Scheme::SiSsn, Scheme::Silo];
    type Stock = StockCounts;
    type Line = ShortLine;
}

impl StockRow for StockCounts {
    fn new(counts: StockCounts, _: &StockNotes) -> Self {
        counts
    }

    fn counts(&self) -> StockCounts {
        *self
    }

    fn with_counts(self, counts: StockCounts) -> Self {
        counts
    }

    fn note(&self, _: u8) -> Text<24> {
        Text([0; 24])
    }

    fn brand(&self) -> &[u8] {
        &[]
    }
}

impl LineRow for ShortLine {
    fn new(line: ShortLine, _: Text<24>) -> Self {
        line
    }

    fn short(&self) -> ShortLine {
        *self
    }

    fn delivered(self, delivery_d: u64) -> Self {
        Self { delivery_d, ..self }
    }
}
