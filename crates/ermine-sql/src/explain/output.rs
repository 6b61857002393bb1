//! The tree of a plan as text or JSON. Keys of JSON are PostgreSQL's where they mean the same.

use std::{fmt::Write as _, time::Duration};

use ermine::Work;

use super::{Explained, Measured, Node, nodes};
use crate::exec::Actual;

/// What a run of the statement came to: its tag, its work in the transaction, and its time.
pub(crate) struct Facts {
    pub(crate) tag: String,
    pub(crate) work: Work,
    pub(crate) took: Duration,
}

impl Facts {
    fn numbers(&self) -> [(&'static str, u64); 4] {
        let Work { rows_read, versions_walked, tracked_reads, log_bytes } = self.work;
        [
            ("Rows Read", rows_read),
            ("Versions Walked", versions_walked),
            ("Tracked Reads", tracked_reads),
            ("Log Bytes", log_bytes),
        ]
    }
}

/// Returns the lines of a plan, and of its run.
pub(crate) fn lines(of: &Explained<'_>, facts: Option<&Facts>) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, node) in nodes(of).into_iter().enumerate() {
        // A part of WITH stands below the main one.
        let depth = if at == 0 { 0 } else { 1 };
        if let Some((_, name)) = node.about.iter().find(|(name, _)| *name == "Subplan Name") {
            lines.push(format!("{INDENT}{name}"));
        }
        add_lines(&node, depth, !of.how.has_no_times, &mut lines);
    }
    if let Some(facts) = facts {
        lines.push(format!("Result: {}", facts.tag));
        lines.extend(facts.numbers().map(|(name, number)| format!("{name}: {number}")));
    }
    lines.extend(times(of, facts).map(|(name, time)| format!("{name}: {time} ms")));
    lines
}

/// Returns the times of the summary, in milliseconds.
fn times(of: &Explained<'_>, facts: Option<&Facts>) -> impl Iterator<Item = (&'static str, String)> {
    let all = [("Planning Time", Some(of.planned)), ("Execution Time", facts.map(|facts| facts.took))];
    let shown = all.into_iter().filter(|_| of.how.has_summary());
    shown.filter_map(|(name, time)| Some((name, format!("{:.3}", millis(time?)))))
}

const INDENT: &str = "      ";

fn add_lines(node: &Node, depth: usize, has_times: bool, lines: &mut Vec<String>) {
    let mut line = match depth {
        0 => String::new(),
        _ => format!("{}  ->  ", INDENT.repeat(depth - 1)),
    };
    line += &node.title;
    if let Some(rows) = node.estimate {
        // Writing to a string does not fail.
        let _ = write!(line, " (rows={rows:.0})");
    }
    match &node.measured {
        None => {}
        Some(Measured::Never) => line += " (never executed)",
        Some(Measured::Was(Actual { runs, rows, took, .. })) => {
            let (each, rows) = (millis(*took / *runs), *rows as f64 / f64::from(*runs));
            let time = if has_times { format!("time={each:.3} ") } else { String::new() };
            let _ = write!(line, " (actual {time}rows={rows:.0} loops={runs})");
        }
    }
    lines.push(line);
    let memory = memory(node).map(|bytes| format!("{} kB", bytes.div_ceil(1024)));
    let disk = disk(node).map(|bytes| format!("{} kB", bytes.div_ceil(1024)));
    let space = memory.iter().map(|of| ("Memory", of)).chain(disk.iter().map(|of| ("Disk", of)));
    let details = node.details.iter().map(|(name, text)| (*name, text)).chain(space);
    lines.extend(details.map(|(name, text)| format!("{}{name}: {text}", INDENT.repeat(depth + 1))));
    for inner in &node.inner {
        if let Some((_, name)) = inner.about.iter().find(|(name, _)| *name == "Subplan Name") {
            lines.push(format!("{}  {name}", INDENT.repeat(depth)));
        }
        add_lines(inner, depth + 1, has_times, lines);
    }
}

fn memory(node: &Node) -> Option<usize> {
    match &node.measured {
        Some(Measured::Was(Actual { memory, .. })) if *memory > 0 => Some(*memory),
        _ => None,
    }
}

fn disk(node: &Node) -> Option<u64> {
    match &node.measured {
        Some(Measured::Was(Actual { disk, .. })) if *disk > 0 => Some(*disk),
        _ => None,
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns a plan and its run as a document of JSON.
pub(crate) fn json(of: &Explained<'_>, facts: Option<&Facts>) -> String {
    let mut fields = Vec::new();
    let mut all = nodes(of).into_iter();
    if let Some(mut main) = all.next() {
        main.inner.extend(all);
        fields.push(("Plan", object_of(&main, 2, !of.how.has_no_times)));
    }
    if let Some(facts) = facts {
        fields.push(("Result", quoted(&facts.tag)));
        fields.extend(facts.numbers().map(|(name, number)| (name, number.to_string())));
    }
    fields.extend(times(of, facts));
    format!("[\n  {}\n]", object(fields, 1))
}

fn object_of(node: &Node, depth: usize, has_times: bool) -> String {
    let mut fields = vec![("Node Type", quoted(&node.kind))];
    fields.extend(node.about.iter().map(|(name, text)| (*name, quoted(text))));
    fields.extend(node.estimate.map(|rows| ("Plan Rows", format!("{rows:.0}"))));
    match &node.measured {
        None => {}
        Some(Measured::Never) => fields.extend([("Actual Rows", "0".into()), ("Actual Loops", "0".into())]),
        Some(Measured::Was(Actual { runs, rows, took, .. })) => {
            fields.extend(has_times.then(|| ("Actual Total Time", format!("{:.3}", millis(*took / *runs)))));
            fields.extend([
                ("Actual Rows", format!("{:.0}", *rows as f64 / f64::from(*runs))),
                ("Actual Loops", runs.to_string()),
            ]);
        }
    }
    fields.extend(memory(node).map(|bytes| ("Peak Memory Usage", bytes.div_ceil(1024).to_string())));
    fields.extend(disk(node).map(|bytes| ("Disk Usage", bytes.div_ceil(1024).to_string())));
    fields.extend(node.details.iter().map(|(name, text)| (*name, quoted(text))));
    if !node.inner.is_empty() {
        let pad = "  ".repeat(depth + 1);
        let inner: Vec<_> =
            node.inner.iter().map(|inner| format!("{pad}{}", object_of(inner, depth + 1, has_times))).collect();
        fields.push(("Plans", format!("[\n{}\n{}]", inner.join(",\n"), "  ".repeat(depth))));
    }
    object(fields, depth)
}

fn object(fields: Vec<(&str, String)>, depth: usize) -> String {
    let pad = "  ".repeat(depth + 1);
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("{pad}{}: {value}", quoted(name))).collect();
    format!("{{\n{}\n{}}}", fields.join(",\n"), "  ".repeat(depth))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted + "\""
}
