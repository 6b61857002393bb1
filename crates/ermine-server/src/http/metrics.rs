//! Counters and sizes in Prometheus's text format (version 0.0.4).

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use ermine::{Latencies, MetricValue};
use ermine_sql::SqlDatabase;

/// Boundaries of a histogram: each is one of the buckets of [`Latencies`].
const PER_BOUNDARY: usize = 4;

/// Returns all metrics; `up` is how long the server has been running.
pub(super) fn text(database: &SqlDatabase, up: Duration) -> String {
    let mut page = Page::default();
    let engine = database.engine();
    let (version, scheme) = (env!("CARGO_PKG_VERSION"), engine.scheme().to_string());
    page.family("ermine_build_info", "gauge", "The version of the server and the scheme of the database.");
    page.value("ermine_build_info", &[("version", version), ("scheme", &scheme)], 1);
    page.up(up);
    let statistics = engine.statistics();
    for metric in statistics.metrics() {
        let labels: Vec<_> = metric.label.into_iter().collect();
        match metric.value {
            MetricValue::Counter(count) => {
                page.family(metric.name, "counter", metric.help);
                page.value(metric.name, &labels, count);
            }
            MetricValue::Gauge(value) => {
                page.family(metric.name, "gauge", metric.help);
                page.value(metric.name, &labels, value);
            }
            MetricValue::Latencies(times) => page.times(metric.name, metric.help, times),
            _ => {}
        }
    }
    let standbys = database.standbys();
    if !standbys.is_empty() {
        let help = "Log that is published and that a standby has not received.";
        page.family("ermine_standby_lag_bytes", "gauge", help);
        for standby in standbys {
            let lag = standby.sent - standby.received;
            page.value("ermine_standby_lag_bytes", &[("standby", &standby.name)], lag);
        }
    }
    let sql = database.statistics();
    page.family("ermine_sql_transactions_total", "counter", "Transactions of sessions, by their end.");
    page.value("ermine_sql_transactions_total", &[("end", "commit")], sql.commits);
    page.value("ermine_sql_transactions_total", &[("end", "rollback")], sql.rollbacks);
    page.family("ermine_sql_retries_total", "counter", "Statements that were run again after a lost conflict.");
    page.value("ermine_sql_retries_total", &[], sql.retries);
    page.times("ermine_sql_statement_seconds", "Time of a statement, until its result is computed.", &sql.statements);
    page.family("ermine_sql_sessions", "gauge", "Sessions with a client.");
    page.value("ermine_sql_sessions", &[], sql.sessions);
    page.family("ermine_sql_sessions_active", "gauge", "Sessions that run a statement.");
    page.value("ermine_sql_sessions_active", &[], sql.active);
    let help = "Age of the oldest transaction that is open; 0 if there is none.";
    page.family("ermine_sql_oldest_transaction_seconds", "gauge", help);
    page.value("ermine_sql_oldest_transaction_seconds", &[], sql.oldest_transaction.unwrap_or(0.0));
    page.family("ermine_sql_conflicts_total", "counter", "Conflicts that statements lost, by table and cause.");
    for (table, cause, count) in &sql.conflicts {
        let table = table.as_deref().unwrap_or_default();
        page.value("ermine_sql_conflicts_total", &[("table", table), ("cause", cause)], count);
    }
    page.text
}

/// Returns the metrics of a standby.
pub(super) fn text_of_standby(position: u64, up: Duration) -> String {
    let mut page = Page::default();
    page.up(up);
    let help = "The position in the log up to which a standby has everything.";
    page.family("ermine_standby_position_bytes", "gauge", help);
    page.value("ermine_standby_position_bytes", &[], position);
    page.text
}

/// A page of metrics; those of one family are added one after the other.
#[derive(Default)]
struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// Begins a family, unless the last metric was of the same one.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        if self.family != name {
            self.family = name;
            writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a text can be written");
        }
    }

    fn up(&mut self, up: Duration) {
        self.family("ermine_up_seconds", "gauge", "How long the server has been running.");
        self.value("ermine_up_seconds", &[], up.as_secs_f64());
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            write!(self.text, "{}{label}=\"{value}\"", if at == 0 { '{' } else { ',' }).expect("a text can be written");
        }
        writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" }).expect("a text can be written");
    }

    fn times(&mut self, name: &'static str, help: &str, times: &Latencies) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (end, up_to) in times.up_to().skip(PER_BOUNDARY - 1).step_by(PER_BOUNDARY) {
            // A bucket ends before the next power of two of microseconds.
            let boundary = (end + Duration::from_micros(1)).as_secs_f64();
            self.value(&bucket, &[("le", &boundary.to_string())], up_to);
        }
        self.value(&bucket, &[("le", "+Inf")], times.count());
        self.value(&format!("{name}_sum"), &[], times.total().as_secs_f64());
        self.value(&format!("{name}_count"), &[], times.count());
    }
}

#[cfg(test)]
mod tests {
    use ermine::LatencyRecorder;

    use super::*;

    #[test]
    fn values_are_written_with_their_labels() {
        let mut page = Page::default();
        page.family("a_total", "counter", "All.");
        page.value("a_total", &[("table", "a\"b\\c\nd"), ("cause", "x")], 3);
        page.family("a_total", "counter", "All.");
        page.value("a_total", &[], 0.5);
        let expected = "# HELP a_total All.\n# TYPE a_total counter\na_total{table=\"a\\\"b\\\\c\\nd\",cause=\"x\"} 3\n\
            a_total 0.5\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn the_buckets_of_times_add_up() {
        let recorder = LatencyRecorder::new();
        for micros in [0, 3, 4, 100, 1_000_000, u64::MAX / 4] {
            recorder.record(Duration::from_micros(micros));
        }
        let mut page = Page::default();
        page.times("t_seconds", "Times.", &recorder.read());
        for line in [
            "t_seconds_bucket{le=\"0.000004\"} 2",
            "t_seconds_bucket{le=\"0.000008\"} 3",
            "t_seconds_bucket{le=\"0.000128\"} 4",
            "t_seconds_bucket{le=\"1.048576\"} 5",
            "t_seconds_bucket{le=\"+Inf\"} 6",
            "t_seconds_count 6",
        ] {
            assert!(page.text.lines().any(|one| one == line), "{line}: {}", page.text);
        }
    }
}
