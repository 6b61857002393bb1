//! A discrete event simulator of concurrency control, after section 7 of the paper on the Serial Safety Net.
//!
//! It compares schemes by the transactions that they let commit, not by their speed: an access takes the same time
//! under every scheme, and all that differs is waiting and aborting. Clients submit at times of their own
//! ([`Options`]); with the same seed, every scheme is offered the same transactions at the same times. After each
//! simulation, the graph of the committed transactions is searched for cycles, whichever scheme it was.
//!
//! Start reading at `world.rs` (the base that all schemes share) and `control/` (one file a scheme).
#![forbid(unsafe_code)]

mod control;
mod cycles;
mod database;
mod figure;
mod history;
mod offers;
mod options;
mod outcome;
mod scheme;
mod simulation;
mod table;
mod transaction;
mod world;

pub use self::{
    cycles::Cycles,
    figure::{Curve, Drawing, Figure, FigureOptions, Panel, Point, draw},
    options::{Group, Options, Usage, Writes},
    outcome::{Aborts, GroupOutcome, Latency, Outcome},
    scheme::Scheme,
    simulation::simulate,
};
