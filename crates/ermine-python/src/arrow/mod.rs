//! Arrow: results as streams of record batches, and tables filled from such streams.
//!
//! Streams are exchanged by the Arrow PyCapsule interface (`__arrow_c_stream__`), which pyarrow, pandas, polars and
//! duckdb have; this package depends on none of them.

pub mod export;
pub mod import;

/// Days and microseconds from 1970, where Arrow's times begin, to 2000, where SQL's begin.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
