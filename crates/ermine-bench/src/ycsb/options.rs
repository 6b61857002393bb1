//! The options of the workload.

use std::fmt;

use serde::Serialize;

use super::{
    mix::{Distribution, Mix},
    record::Shape,
};
use crate::{
    Error, Result,
    report::{grouped, listed},
    zipf::Choice,
};

/// Options of the workload.
#[derive(Clone, Debug, Serialize)]
pub struct Ycsb {
    /// The workloads to measure, in this order.
    pub mixes: Vec<Mix>,
    /// Records loaded.
    pub records: u64,
    /// Fields of a record.
    pub fields: usize,
    /// Length of a field.
    pub field_bytes: usize,
    /// Distribution of the records drawn; if not set, that of the workload's definition.
    pub distribution: Option<Distribution>,
    /// Skew of the distributions other than uniform.
    pub theta: f64,
    /// Maximum number of records of a scan; the least is one.
    pub scan_max: u32,
    /// Operations of a transaction.
    pub operations: u32,
}

/// Maximum number of operations of a transaction, and of records of a scan.
const OPERATIONS_MAX: u32 = 100_000;

impl Ycsb {
    /// Fails if the numbers cannot work.
    pub(super) fn check_numbers(&self) -> Result<()> {
        let usage = |why: String| Err(Error::Usage(why));
        let Self { mixes, records, fields, field_bytes, theta, scan_max, operations, .. } = self;
        if mixes.is_empty() {
            return usage("give at least one of the workloads A to F".into());
        }
        if !(1..=Choice::RECORDS_MAX).contains(records) {
            return usage(format!("the number of records lies between 1 and {}", Choice::RECORDS_MAX));
        }
        let longest = ermine::MAX_VALUE_BYTES;
        if *fields == 0
            || *field_bytes < Shape::FIELD_BYTES_MIN
            || fields.saturating_mul(*field_bytes) > longest - Shape::HEADER_BYTES
        {
            return usage(format!(
                "a record has at least one field, a field at least {} bytes, and both together at most {} bytes",
                Shape::FIELD_BYTES_MIN,
                longest - Shape::HEADER_BYTES
            ));
        }
        if !(0.0..1.0).contains(theta) {
            return usage("theta lies between 0 (uniform) and 1 (not included); YCSB has 0.99".into());
        }
        if !(1..=OPERATIONS_MAX).contains(operations) || !(1..=OPERATIONS_MAX).contains(scan_max) {
            return usage(format!("a transaction has 1 to {OPERATIONS_MAX} operations, and a scan as many records"));
        }
        Ok(())
    }

    /// The shape of a record.
    pub(super) fn shape(&self) -> Shape {
        Shape { fields: self.fields, field_bytes: self.field_bytes }
    }
}

impl fmt::Display for Ycsb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mixes, records, fields, field_bytes, distribution, theta, scan_max, operations } = self;
        let (mixes, records) = (listed(mixes), grouped(*records));
        write!(f, "workloads {mixes}, {records} records of {fields} x {field_bytes} bytes, ")?;
        match distribution {
            None => f.write_str("the workloads' distributions")?,
            Some(distribution) => write!(f, "{distribution}")?,
        }
        write!(f, ", theta {theta}, scans up to {scan_max}, {operations} operations a transaction")
    }
}
