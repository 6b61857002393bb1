//! Tests of the public interface, in one executable.

mod conformance;
mod engine;
#[cfg(feature = "nats")]
mod jetstream;
mod protocol;
mod simulation;
