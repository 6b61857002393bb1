//! Tests of the judge, in one executable: every executable links the engine.

mod anomalies;
mod elle;
mod engine;
mod files;
mod million;
