//! Tests of the workloads, in one executable: every executable links the engine.

mod certifiers;
mod compared;
mod tpcc;
