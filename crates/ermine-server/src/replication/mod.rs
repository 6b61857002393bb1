//! A server as a node of a cluster: one node is the primary, and the others are standbys that follow it.
//!
//! The directory of a node has these entries:
//!
//! | name | contents |
//! |---|---|
//! | `database/` | the database, or a standby of it; within it the file `REPLICATION` ([`state`]) |
//! | `database.new/` | a base that is being received |
//! | `database.old/` | a standby that was left behind, while a base takes its place |
//! | `base.tmp/` | a backup that is being sent as a base |
//! | `diverged-TERM-POSITION/` | the last database that was the primary's and has parted from the stream, as it was |
//!
//! | module | contents |
//! |---|---|
//! | `node` | follows the stream, until the node becomes the primary |
//! | `readable` | a standby's copy of the database, which readers may be served from |
//! | `primary` | publishes the log, holds commits until they are replicated, renews the lease |
//! | `base` | a backup as one blob, from which standbys begin |
//! | `lease` | keeps the lease of a primary |
//! | `standbys` | how far the standbys are, as they tell the primary |
//! | `state` | what a node knows of the stream, over restarts |
//!
//! Invariants
//! 1. *A directory changes its role in one step*: a rename of `database`, or the removal of its file `STANDBY`. So a
//!    crash between any two steps leaves a node that goes on.
//! 2. *A primary has everything that is in the stream.* A standby received it, and a former primary published it: only
//!    as long as no other node has opened a term behind its own.
//! 3. *A base is not newer than the stream*: it is stored when the stream has come to its end.
//! 4. *A primary ends before its lease does*, by a fifth of the lease's lifetime, so that no other node can be the
//!    primary while it answers. This is the only place where a clock is trusted, and only for reads: writes are fenced
//!    by the stream ([`ermine_replication::publisher`]).

mod base;
mod lease;
mod node;
mod primary;
mod readable;
mod standbys;
mod state;

pub use self::{
    node::{Cluster, Lead, Node},
    primary::Primary,
    readable::{Readers, Reading},
    standbys::Standbys,
    state::forget,
};
