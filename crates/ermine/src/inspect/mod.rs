//! Inspection of the files of a database without opening it: their content, and their damage.
//!
//! Nothing is written and nothing is locked, so a database that is in use can be inspected: its log then ends at some
//! arbitrary point. No content of a file causes a panic, or an allocation of more memory than a block may have.
//!
//! [`Log`] lists the segments of a log; [`Blocks`] iterates over one of them and continues behind damage.
//! [`ParallelLog`] does the same for databases of single-version schemes.
//!
//! ```
//! # use ermine::{Database, Options, inspect::{Found, Log}};
//! # let path = std::env::temp_dir().join(format!("ermine-inspect-{}", std::process::id()));
//! # let db = Database::open(&path, Options::default())?;
//! # db.table::<u64, i64>("accounts")?;
//! let log = Log::open(&path)?;
//! for segment in log.segments() {
//!     for found in log.blocks(segment)? {
//!         match found? {
//!             Found::Block(block) => println!("{} at {}: {} rows", block.kind.name(), block.position, block.rows),
//!             Found::Hole(hole) => println!("nothing at {} for {} bytes", hole.position, hole.bytes),
//!         }
//!     }
//! }
//! # drop(db);
//! # std::fs::remove_dir_all(&path).unwrap();
//! # Ok::<_, ermine::Error>(())
//! ```

mod blocks;
mod log;
mod parallel;

pub use self::{
    blocks::{Block, BlockKind, Blocks, Found, Hole, Reason, Record},
    log::{Log, Segment},
    parallel::{LogFile, LogRecord, LogRecords, ParallelCheckpoint, ParallelLog, RowsOfCheckpoint},
};
