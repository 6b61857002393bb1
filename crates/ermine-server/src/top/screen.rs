//! Two samples of a server as lines of text: rates between them, and sizes as of the second one. A sample alone is
//! compared with the start of the server.

use std::collections::HashMap;

use super::{
    sample::{APPLICATION, HotConflict, Sample, Session, Standby, Statement},
    text::{bytes, line, milliseconds, number, seconds, width},
};

/// The columns of the names of figures.
const LABEL: usize = 14;
/// Lines of a table where the number of rows does not matter.
const TABLE_LINES: usize = 24;
/// From so many columns on, the story of a conflict stands beside it.
const WIDE: usize = 120;
/// Statements that the server shows at most.
const STATEMENTS_MAX: usize = 50;

/// The room for a screen.
#[derive(Clone, Copy)]
pub struct Size {
    pub columns: usize,
    /// `None`: any number.
    pub rows: Option<usize>,
}

/// What happened between two samples.
struct Change<'s> {
    now: &'s Sample,
    before: Option<&'s Sample>,
    seconds: f64,
}

/// Returns a screen; `place` names the server.
pub fn lines(place: &str, now: &Sample, before: Option<&Sample>, size: Size) -> Vec<String> {
    let began = before.map_or(now.database.since, |before| before.now);
    let change = Change { now, before, seconds: (now.now - began).max(1e-3) };
    let mut lines = figures(place, &change, size.columns);
    let tables = [
        sessions(&now.sessions, size.columns),
        statements(&change, size.columns),
        hot_conflicts(&change, size.columns),
    ];
    let needs = tables.each_ref().map(|table| if table.len() > 1 { table.len() + 1 } else { 0 });
    let shares = match size.rows {
        Some(rows) => shares(needs, rows.saturating_sub(lines.len())),
        None => needs.map(|need| need.min(TABLE_LINES)),
    };
    for (table, share) in tables.into_iter().zip(shares).filter(|(_, share)| *share > 2) {
        lines.push(String::new());
        lines.extend(table.into_iter().take(share - 1));
    }
    lines.truncate(size.rows.unwrap_or(usize::MAX));
    lines
}

/// Divides room: what one does not need, the others get.
fn shares<const N: usize>(needs: [usize; N], mut room: usize) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|at| at);
    order.sort_by_key(|at| needs[*at]);
    let mut shares = [0; N];
    for (done, at) in order.into_iter().enumerate() {
        shares[at] = needs[at].min(room / (N - done));
        room -= shares[at];
    }
    shares
}

impl Change<'_> {
    /// Returns how fast a counter has grown.
    fn rate(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        (of(self.now) - self.before.map_or(0.0, of)).max(0.0) / self.seconds
    }

    fn per_second(&self, of: impl Fn(&Sample) -> f64) -> String {
        format!("{}/s", number(self.rate(of)))
    }

    /// Returns the longest times of the buckets in which statements have ended, with their numbers.
    fn times(&self) -> Vec<(f64, f64)> {
        let before: HashMap<u64, f64> =
            self.before.iter().flat_map(|before| &before.times).map(|(end, count)| (end.to_bits(), *count)).collect();
        let grown = |(end, count): &(f64, f64)| (*end, count - before.get(&end.to_bits()).unwrap_or(&0.0));
        self.now.times.iter().map(grown).filter(|(_, count)| *count > 0.0).collect()
    }
}

/// Returns the time within which a share of all statements has ended.
fn quantile(times: &[(f64, f64)], share: f64) -> Option<f64> {
    let rank = (times.iter().map(|(_, count)| count).sum::<f64>() * share).ceil();
    let mut up_to = 0.0;
    let reaches = |(end, count): &(f64, f64)| {
        up_to += count;
        (up_to >= rank).then_some(*end)
    };
    times.iter().find_map(reaches)
}

fn figures(place: &str, change: &Change<'_>, columns: usize) -> Vec<String> {
    let Sample { now, version, database, memory, transactions, log, .. } = change.now;
    let version = version.split_once('(').map_or(&**version, |(_, own)| own.trim_end_matches(')'));
    let period = match change.before {
        Some(_) => format!("rates of the last {}", seconds(change.seconds)),
        None => "rates since its start".into(),
    };
    let times = change.times();
    let quantile = |name: &str, share| format!("{name} {}", milliseconds(quantile(&times, share)));
    let (commits, lost) = (change.rate(|of| of.database.commits), change.rate(|of| of.transactions.aborts));
    let of_attempts = if lost > 0.0 { format!(" ({:.1} %)", 100.0 * lost / (commits + lost)) } else { String::new() };
    let parts = memory.versions + memory.versions_free + memory.row_arrays + memory.indexes;
    let others = memory.memory_taken - parts;
    let mut entries = vec![
        (
            "Transactions",
            vec![
                change.per_second(|of| of.database.commits) + " committed",
                change.per_second(|of| of.database.rollbacks) + " rolled back",
                change.per_second(|of| of.transactions.aborts) + " lost conflicts" + &of_attempts,
            ],
        ),
        (
            "Statements",
            vec![
                change.per_second(|of| of.times.iter().map(|(_, count)| count).sum()),
                quantile("p50", 0.5),
                quantile("p90", 0.9),
                quantile("p99", 0.99),
                quantile("p99.9", 0.999),
                quantile("max", 1.0),
            ],
        ),
        ("Conflicts", causes(change)),
        (
            "Log",
            vec![
                bytes(change.rate(|of| of.log.bytes)) + "/s",
                change.per_second(|of| of.log.flushes) + " flushes",
                format!("p99 of all flushes {}", milliseconds(log.flush_p99_time)),
                format!("{} checkpoints", number(log.checkpoints)),
            ],
        ),
        (
            "Memory",
            vec![
                format!("{} of {}", bytes(memory.memory_taken), bytes(memory.memory_limit)),
                format!("versions {}", bytes(memory.versions)),
                format!("free for versions {}", bytes(memory.versions_free)),
                format!("row arrays {}", bytes(memory.row_arrays)),
                format!("indexes {}", bytes(memory.indexes)),
                format!("others {}", bytes(others.max(0.0))),
                format!("{} rows with garbage", number(memory.garbage_versions)),
                format!("{} rows in files", number(memory.rows_in_files)),
            ],
        ),
        (
            "Sessions",
            vec![
                number(shown(&change.now.sessions).count() as f64),
                format!("{} active", shown(&change.now.sessions).filter(|session| session.state == "active").count()),
            ],
        ),
    ];
    let oldest = transactions.oldest_pid.zip(transactions.oldest_seconds);
    let oldest = oldest.filter(|(pid, _)| shown(&change.now.sessions).any(|session| session.pid == *pid));
    entries[5].1.extend(oldest.map(|(pid, age)| format!("oldest transaction {} (process {pid})", seconds(age))));
    let behind = |of: &Standby| format!("{} {} behind", line(&of.name, 30), bytes(of.lag_bytes));
    let standbys: Vec<_> = change.now.standbys.iter().map(behind).collect();
    entries.extend((!standbys.is_empty()).then_some(("Standbys", standbys)));
    entries.extend(log.checkpoint_failure.iter().map(|why| ("Checkpoints", vec![format!("fail: {why}")])));
    let about = format!("{version}, up {}, {period}", seconds((now - database.since).max(0.0)));
    let mut lines = vec![line(&about, columns), line(place, columns)];
    lines.extend(entries.iter().flat_map(|(label, items)| wrapped(label, items, columns)));
    lines
}

/// Returns the causes for which conflicts were lost, and how often.
fn causes(change: &Change<'_>) -> Vec<String> {
    let count =
        |of: &Sample, cause: &str| of.aborts.iter().find(|one| one.cause == cause).map_or(0.0, |one| one.aborts);
    let causes = change.now.aborts.iter().map(|one| (&one.cause, change.rate(|of| count(of, &one.cause))));
    let mut causes: Vec<_> = causes.filter(|(_, rate)| *rate > 0.0).collect();
    causes.sort_by(|one, other| other.1.total_cmp(&one.1));
    match &causes[..] {
        [] => vec!["none".into()],
        causes => causes.iter().map(|(cause, rate)| format!("{cause} {}/s", number(*rate))).collect(),
    }
}

/// Returns a name and items, with commas between them, in as many lines as they take.
fn wrapped(label: &str, items: &[String], columns: usize) -> Vec<String> {
    let mut lines = vec![format!("{label:LABEL$}")];
    for (at, item) in items.iter().enumerate() {
        let item = format!("{item}{}", if at + 1 < items.len() { "," } else { "" });
        let last = lines.last_mut().expect("there is one");
        let is_first = last.len() == LABEL;
        if !is_first && width(last) + 1 + width(&item) > columns {
            lines.push(format!("{:LABEL$}{item}", ""));
        } else {
            *last += if is_first { "" } else { " " };
            *last += &item;
        }
    }
    lines
        .iter()
        .map(|text| format!("{}{}", &text[..LABEL], line(&text[LABEL..], columns.saturating_sub(LABEL))))
        .collect()
}

/// Returns the sessions of others.
fn shown(sessions: &[Session]) -> impl Iterator<Item = &Session> {
    sessions.iter().filter(|session| session.application != APPLICATION)
}

fn sessions(sessions: &[Session], columns: usize) -> Vec<String> {
    let row = |session: &Session| {
        let state = match &*session.state {
            "idle in transaction" => "in transaction",
            "idle in transaction (aborted)" => "failed",
            state => state,
        };
        vec![
            session.pid.to_string(),
            line(&session.user, 12),
            state.to_owned(),
            line(session.waits.as_deref().unwrap_or_default(), 20),
            session.transaction_seconds.map(seconds).unwrap_or_default(),
            session.query.clone(),
        ]
    };
    table(&[">PID", "USER", "STATE", "WAITS FOR", ">AGE", "STATEMENT"], shown(sessions).map(row).collect(), columns)
}

/// Returns the statements that took most time, those of one text together.
fn statements(change: &Change<'_>, columns: usize) -> Vec<String> {
    let by_text = |statements: &[Statement]| {
        let mut all = HashMap::<String, [f64; 4]>::new();
        for Statement { query, calls, total_ms, errors, conflicts } in statements {
            let sums = all.entry(query.clone()).or_default();
            sums.iter_mut().zip([calls, total_ms, errors, conflicts]).for_each(|(sum, more)| *sum += more);
        }
        all
    };
    let before = change.before.map(|before| (by_text(&before.statements), before.statements.len()));
    let grown = |(query, now): (String, [f64; 4])| {
        let then = match &before {
            None => [0.0; 4],
            // What the server has not shown before may be older.
            Some((before, shown)) => *before.get(&query).or((*shown < STATEMENTS_MAX).then_some(&[0.0; 4]))?,
        };
        Some((query, std::array::from_fn(|at| now[at] - then[at])))
    };
    let mut all: Vec<(String, [f64; 4])> = by_text(&change.now.statements).into_iter().filter_map(grown).collect();
    all.retain(|(_, [calls, ..])| *calls > 0.0);
    all.sort_by(|one, other| other.1[1].total_cmp(&one.1[1]).then_with(|| one.0.cmp(&other.0)));
    let total: f64 = all.iter().map(|(_, [_, total_ms, ..])| total_ms).sum();
    let row = |(query, [calls, total_ms, errors, conflicts]): (String, [f64; 4])| {
        let per_second = |count: f64| number(count / change.seconds);
        vec![
            format!("{:.0} %", 100.0 * total_ms / total.max(f64::MIN_POSITIVE)),
            per_second(calls),
            milliseconds(Some(total_ms / calls)),
            per_second(errors),
            per_second(conflicts),
            query,
        ]
    };
    let headers = [">TIME", ">CALLS/S", ">MEAN", ">FAILED/S", ">LOST/S", "STATEMENT"];
    table(&headers, all.into_iter().map(row).collect(), columns)
}

fn hot_conflicts(change: &Change<'_>, columns: usize) -> Vec<String> {
    let is_wide = columns >= WIDE;
    let of = |sample: &Sample, row: &HotConflict| {
        let is_same = |one: &&HotConflict| (&one.table, &one.key, &one.cause) == (&row.table, &row.key, &row.cause);
        sample.hot_conflicts.iter().find(is_same).map_or(0.0, |one| one.conflicts)
    };
    let row = |conflict: &HotConflict| {
        let place = [&conflict.table, &conflict.key].into_iter().flatten().map(|part| &**part).collect::<Vec<_>>();
        let mut cells = vec![
            number(change.rate(|sample| of(sample, conflict))),
            number(conflict.conflicts),
            seconds(conflict.last_seconds),
            conflict.cause.clone(),
            place.join(" "),
        ];
        if is_wide {
            cells[4] = line(&cells[4], 40);
            cells.push(conflict.story.clone().unwrap_or_default());
        }
        cells
    };
    let rows = change.now.hot_conflicts.iter().map(row).collect();
    let headers = [">LOST/S", ">ALL", ">AGO", "CAUSE", "ROW", "WHAT HAPPENED"];
    let headers = if is_wide { &headers[..] } else { &headers[..5] };
    let lines = table(headers, rows, columns);
    if is_wide {
        return lines;
    }
    let indented = |conflict: &HotConflict| {
        conflict.story.as_ref().map(|story| format!("    {}", line(story, columns.saturating_sub(4))))
    };
    let stories = std::iter::once(None).chain(change.now.hot_conflicts.iter().map(indented));
    lines.into_iter().zip(stories).flat_map(|(line, story)| [Some(line), story]).flatten().collect()
}

/// Returns rows below their headers; those of columns whose header begins with `>` end at the right. The last column
/// gets the room that is left.
fn table(headers: &[&str], rows: Vec<Vec<String>>, columns: usize) -> Vec<String> {
    let names: Vec<String> = headers.iter().map(|header| header.trim_start_matches('>').to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
    let last = headers.len() - 1;
    let widths: Vec<usize> = (0..last).map(|at| all.iter().map(|cells| width(&cells[at])).max().unwrap_or(0)).collect();
    let shown = |cells: &Vec<String>| {
        let mut text = String::new();
        for (at, wide) in widths.iter().enumerate() {
            let gap = " ".repeat(wide - width(&cells[at]));
            let (before, after) = if headers[at].starts_with('>') { (&*gap, "") } else { ("", &*gap) };
            text += &format!("{before}{}{after}  ", cells[at]);
        }
        // A screen that is too narrow for the other columns cuts those.
        let text = text + &line(&cells[last], columns.saturating_sub(widths.iter().map(|wide| wide + 2).sum()));
        cut(text.trim_end(), columns)
    };
    all.iter().map(shown).collect()
}

/// Returns the beginning of a line that may have gaps.
fn cut(text: &str, columns: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if width(&shown) + width(character.encode_utf8(&mut [0; 4])) > columns {
            break;
        }
        shown.push(character);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of a server that has run for so many seconds.
    fn sample(age: f64, commits: f64, sessions: &str, statements: &str, conflicts: &str) -> Sample {
        let text = format!(
            r#"{{"now": {}, "version": "PostgreSQL 15.0 (Ermine 0.1.0)", "user": "ann",
            "database": {{"commits": {commits}, "rollbacks": 7, "since": 1000}},
            "memory": {{"memory_limit": 1073741824, "memory_taken": 104857600, "versions": 52428800,
                "versions_free": 1048576, "row_arrays": 2048, "indexes": 4096, "garbage_versions": 5, "rows_in_files": 0}},
            "transactions": {{"aborts": {}, "oldest_pid": 3, "oldest_seconds": 12.5}},
            "log": {{"bytes": 4096, "flushes": 10, "flush_p99_time": 1.5, "checkpoints": 2, "checkpoint_failure": null}},
            "standbys": [{{"name": "b", "lag_bytes": 0}}, {{"name": "c", "lag_bytes": 2097152}}],
            "aborts": [{{"cause": "write-conflict", "aborts": {}}}],
            "sessions": {sessions}, "statements": {statements}, "hot_conflicts": {conflicts}}}"#,
            1000.0 + age,
            commits / 10.0,
            commits / 10.0
        );
        let mut sample: Sample = serde_json::from_str(&text).unwrap();
        sample.times = vec![(0.1, commits), (5.0, commits / 50.0)];
        sample
    }

    const SESSIONS: &str = r#"[{"pid": 3, "user": "ann", "application": "", "state": "idle in transaction",
        "waits": null, "transaction_seconds": 12.5, "query": "UPDATE t\n  SET v = 1"},
        {"pid": 4, "user": "a_user_with_a_long_name", "application": "", "state": "active",
        "waits": "Lock: transactionid", "transaction_seconds": 0.5,
        "query": "SELECT a, b, c, d FROM a_table WHERE x = 1 AND y = 2 AND z = 3 FOR UPDATE OF a_table"},
        {"pid": 9, "user": "ann", "application": "ermined top", "state": "active", "waits": null,
        "transaction_seconds": 0.1, "query": "SELECT json_build_object()"}]"#;
    const STATEMENTS: &str = r#"[{"query": "UPDATE t SET v = $1", "calls": 100, "total_ms": 300, "errors": 0, "conflicts": 5},
        {"query": "SELECT 1", "calls": 1000, "total_ms": 100, "errors": 10, "conflicts": 0}]"#;
    const CONFLICTS: &str = r#"[{"table": "t", "key": "(id)=(1)", "cause": "write-conflict", "conflicts": 5,
        "last_seconds": 0.4, "story": "You write t (id)=(1), which process 3 has written since you began, and much more of it."}]"#;

    fn shown(columns: usize, rows: Option<usize>) -> Vec<String> {
        let before = sample(8.0, 100.0, "null", "null", "null");
        let now = sample(10.0, 300.0, SESSIONS, STATEMENTS, CONFLICTS);
        let lines = lines("database \"shop\" on 127.0.0.1:5432", &now, Some(&before), Size { columns, rows });
        lines.iter().for_each(|line| assert!(width(line) <= columns, "{columns}: {line}"));
        lines
    }

    #[test]
    fn a_screen_has_rates_sizes_and_tables() {
        let wanted = "\
Ermine 0.1.0, up 10 s, rates of the last 2.0 s
database \"shop\" on 127.0.0.1:5432
Transactions  100/s committed, 0/s rolled back, 10/s lost conflicts (9.1 %)
Statements    102/s, p50 100 us, p90 100 us, p99 5.0 ms, p99.9 5.0 ms,
              max 5.0 ms
Conflicts     write-conflict 10/s
Log           0 B/s, 0/s flushes, p99 of all flushes 1.5 ms, 2 checkpoints
Memory        100.0 MiB of 1.00 GiB, versions 50.0 MiB,
              free for versions 1.0 MiB, row arrays 2 KiB, indexes 4 KiB,
              others 49.0 MiB, 5 rows with garbage, 0 rows in files
Sessions      2, 1 active, oldest transaction 12 s (process 3)
Standbys      b 0 B behind, c 2.0 MiB behind

PID  USER          STATE           WAITS FOR              AGE  STATEMENT
  3  ann           in transaction                        12 s  UPDATE t SET v =…
  4  a_user_with…  active          Lock: transactionid  0.5 s  SELECT a, b, c, …

TIME  CALLS/S    MEAN  FAILED/S  LOST/S  STATEMENT
75 %       50  3.0 ms         0     2.5  UPDATE t SET v = $1
25 %      500  100 us         5       0  SELECT 1

LOST/S  ALL    AGO  CAUSE           ROW
   2.5    5  0.4 s  write-conflict  t (id)=(1)
    You write t (id)=(1), which process 3 has written since you began, and much…";
        assert_eq!(shown(80, None).join("\n"), wanted);
        let wide = shown(150, None);
        let row = wide.last().unwrap();
        assert!(row.contains("t (id)=(1)  You write t (id)=(1), which process 3 has written since you began"), "{row}");
        assert!(wide.contains(&"PID  USER          STATE           WAITS FOR              AGE  STATEMENT".into()));
        // Without a sample before, all is since the start.
        let now = sample(10.0, 300.0, "null", "null", "null");
        let first = lines("", &now, None, Size { columns: 80, rows: None });
        assert_eq!(first[0], "Ermine 0.1.0, up 10 s, rates since its start");
        assert!(first[2].contains(" 30/s committed, 0.7/s rolled back") && first.len() == 12, "{first:?}");
    }

    #[test]
    fn screens_fit_any_size() {
        for columns in [0, 1, 14, 20, 40, 79, 80, 119, 120, 150, 1000] {
            for rows in [0, 1, 5, 12, 15, 20, 24, 50] {
                assert!(shown(columns.max(LABEL), Some(rows)).len() <= rows);
            }
        }
        // Every table gets its part.
        let lines = shown(80, Some(21));
        for header in ["PID", "TIME", "LOST/S"] {
            assert!(lines.iter().any(|line| line.trim_start().starts_with(header)), "{lines:?}");
        }
        assert_eq!(shares([9, 2, 9], 12), [5, 2, 5]);
        assert_eq!(shares([1, 2, 3], 100), [1, 2, 3]);
    }
}
