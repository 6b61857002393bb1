//! A database's log, published through a replicated log, and followed.
//!
//! The log is the database (ERMIA 3.7), so a replica is a reader of the log. The consensus is not implemented here: a
//! [`ReplicatedLog`] stores messages in one order that all readers see. This crate adds what a database needs on top:
//! one writer at a time, pieces that form a chain, and errors where the chain breaks. It does not know the engine: the
//! bodies of pieces are opaque.
//!
//! | module | contents |
//! |---|---|
//! | [`log`] | the trait of a replicated log: messages, lease, blobs |
//! | [`piece`] | a piece of a database's log, and its encoding |
//! | [`chain`] | the end of a stream, and which piece may follow it |
//! | [`candidate`] | a node that asks for the lease, and when it may serve |
//! | [`publisher`] | a primary: publishes pieces, until another primary fences it |
//! | [`follower`] | a standby: reads and verifies pieces |
//! | `jetstream` | a replicated log in NATS JetStream, with the feature `nats` |
//! | `feed` (feature `nats`) | a stream in NATS JetStream for other programs, whose writer resumes where it was |
//! | [`memory`] | a replicated log in memory, with faults from a seed |
//! | [`simulation`] | the clock, the tasks and the random numbers of a simulated cluster |
//!
//! ```
//! use ermine_replication::{
//!     End, Follower, Identity, Position, Publisher, ReplicatedLog,
//!     memory::{Faults, MemoryLog},
//!     simulation::Simulation,
//! };
//!
//! let simulation = Simulation::new(1);
//! let log = MemoryLog::new(&simulation, Faults::none());
//! let (identity, start) = (Identity([7; 16]), End::start(Position(0)));
//! simulation.block_on(async {
//!     let lease = log.acquire("node 1", None).await.unwrap();
//!     let mut publisher = Publisher::open(log.clone(), identity, lease, start).await.unwrap();
//!     publisher.publish(Position(5), b"a row").await.unwrap(); // returns once the log has acknowledged it
//!
//!     let mut follower = Follower::new(log.clone(), identity, start);
//!     assert!(follower.next().await.unwrap().is_opening()); // the publisher has begun its term
//!     assert_eq!(&follower.next().await.unwrap().body[..], b"a row");
//!     assert_eq!(follower.end(), publisher.end());
//! });
//! ```
#![forbid(unsafe_code)]

pub mod candidate;
pub mod chain;
#[cfg(feature = "nats")]
pub mod feed;
pub mod follower;
#[cfg(feature = "nats")]
pub mod jetstream;
pub mod log;
pub mod memory;
#[cfg(ermine_mutants)]
pub mod mutant;
#[cfg(not(ermine_mutants))]
mod mutant;
pub mod piece;
pub mod publisher;
pub mod simulation;

pub use candidate::Candidate;
pub use chain::{Break, End};
pub use follower::{FollowError, Follower};
pub use log::{Lease, ReplicatedLog, Sequence, Term};
pub use piece::{Hash, Identity, Piece, Position};
pub use publisher::{Fence, LeaseKeeper, OpenError, PublishError, Publisher};
