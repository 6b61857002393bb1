//! What makes a database out of files: recovery, loading, checkpoints.
//!
//! The log is the database (ERMIA 3.7): a row's newest durable version stands in the log block of the transaction that wrote
//! it, or in the cold store if the cleaner has moved it there. Recovery therefore restores the indirection arrays, which
//! then hold addresses, and the indexes; values are read when somebody asks for them, and by a loader in the background.
//!
//! | file | what |
//! |---|---|
//! | `store` | reads a row by its address |
//! | `replay` | goes through the log behind the checkpoint |
//! | `rebuild` | indexes from what replay and checkpoint know |
//! | `recovery` | the whole, from the names of files to a database |

mod rebuild;
pub(crate) mod recovery;
mod replay;
pub(crate) mod store;
