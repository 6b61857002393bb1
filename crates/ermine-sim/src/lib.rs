//! A discrete event simulator of concurrency control, after section 7 of the paper on the Serial Safety Net, and
//! section VI of the paper on hardware transactional memory.
//!
//! It compares schemes by the transactions that they let commit, not by their speed: an access takes the same time
//! under every scheme, and all that differs is waiting and aborting. There are two kinds of simulations. In one
//! ([`simulate`]), clients submit at times of their own ([`Options`]); with the same seed, every scheme is offered the
//! same transactions at the same times. In the other one ([`simulate_cores`]), the cores of a machine run recorded
//! transactions ([`Trace`]) until they commit. After each simulation, the graph of the committed transactions is
//! searched for cycles, whichever scheme it was.
//!
//! Beside these, hardware transactions are simulated without a scheme ([`draw_sizes`], [`draw_durations`],
//! [`draw_restarts`]).
//!
//! Start reading at `world/` (the base that all schemes share) and `control/` (a file for each kind of scheme).
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

mod agenda;
mod control;
mod cores;
mod cycles;
mod database;
mod figure;
mod history;
mod htm;
mod offers;
mod options;
mod outcome;
mod scheme;
mod simulation;
mod steps;
mod table;
mod trace;
mod transaction;
mod world;

pub use self::{
    cores::{CoresOptions, CoresOutcome, Homes, simulate_cores},
    cycles::Cycles,
    figure::{Curve, Drawing, Figure, FigureOptions, Panel, Point, draw},
    htm::{Samples, draw_durations, draw_restarts, draw_sizes},
    options::{Group, Options, Usage, Writes},
    outcome::{Aborts, GroupOutcome, Latency, Outcome},
    scheme::Scheme,
    simulation::simulate,
    trace::{Kind, Touch, Trace},
};
