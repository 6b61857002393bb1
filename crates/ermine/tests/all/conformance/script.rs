//! The scripts' language, which `scripts/anomalies/README.md` describes, parsed into tables, steps and verdicts.
//!
//! Nothing here depends on the engine. A mistake in a script is a panic that names file and line.

use std::{collections::BTreeMap, fmt, ops::Bound, path::Path};

/// One script, with its variants written out.
#[derive(Clone, Debug)]
pub struct Script {
    /// File name without extension, and the variant where there are several.
    pub name: String,
    pub tables: Vec<TableSpec>,
    /// Names of the transactions, in the order of their columns.
    pub transactions: Vec<String>,
    pub steps: Vec<Step>,
    /// By the scheme's name.
    pub verdicts: BTreeMap<String, Verdict>,
}

#[derive(Clone, Debug)]
pub struct TableSpec {
    pub name: String,
    pub rows: Vec<(String, i64)>,
    pub index: IndexSpec,
}

/// The secondary index over the value, where a script has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSpec {
    None,
    ByValue,
    UniqueByValue,
}

/// A cell of the schedule.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the column.
    pub transaction: usize,
    pub line: usize,
    pub op: Op,
    pub expect: Expect,
}

/// The outcome that a cell expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The operation succeeds.
    Done,
    /// The outcome is the same under every scheme.
    Is(String),
    /// A name that the verdicts refer to.
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Begin { read_only: bool },
    Get { table: usize, key: String },
    Scan(Range),
    Insert { table: usize, key: String, value: i64 },
    Update { table: usize, key: String, value: i64 },
    Put { table: usize, key: String, value: i64 },
    Delete { table: usize, key: String },
    Commit,
    Rollback,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub table: usize,
    pub bounds: Bounds,
    pub backward: bool,
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bounds {
    Keys(Bound<String>, Bound<String>),
    Values(Bound<i64>, Bound<i64>),
}

/// The outcome that a schedule must have under one scheme.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub class: Class,
    pub claims: Vec<Claim>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Everything commits and no serial order explains it: the anomaly happens.
    Permits,
    /// A serial order explains the transactions that committed, and at least one did.
    Prevents,
    /// Everything commits and a serial order explains it: no operation may be refused.
    Accepts,
}

#[derive(Clone, Debug)]
pub enum Claim {
    Commits(usize),
    /// The transaction aborts, with the name of the kind, where the script gives one.
    Aborts(usize, Option<String>),
    /// At least one of them aborts.
    OneAborts(Vec<usize>),
    Observed(String, String),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin { read_only: false } => f.write_str("begin"),
            Self::Begin { read_only: true } => f.write_str("begin read-only"),
            Self::Get { table, key } => write!(f, "get {table}/{key}"),
            Self::Scan(range) => write!(f, "scan {range:?}"),
            Self::Insert { table, key, value } => write!(f, "insert {table}/{key} {value}"),
            Self::Update { table, key, value } => write!(f, "update {table}/{key} {value}"),
            Self::Put { table, key, value } => write!(f, "put {table}/{key} {value}"),
            Self::Delete { table, key } => write!(f, "delete {table}/{key}"),
            Self::Commit => f.write_str("commit"),
            Self::Rollback => f.write_str("rollback"),
        }
    }
}

/// Returns every variant of every script in a folder, by name.
pub fn load(folder: &Path) -> Vec<Script> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let name = file.file_stem().unwrap().to_string_lossy();
            parse(&name, &std::fs::read_to_string(file).unwrap())
        })
        .collect()
}

/// Returns all variants of one script: a line `let WORD = this, that` stands for one script with `this` in place of
/// `WORD` and one with `that`.
pub fn parse(name: &str, text: &str) -> Vec<Script> {
    let Some((at, definition)) = text.lines().enumerate().find(|(_, line)| line.starts_with("let ")) else {
        return vec![Parser::new(name).parse(text)];
    };
    let (word, choices) = definition["let ".len()..]
        .split_once('=')
        .unwrap_or_else(|| panic!("{name}, line {}: expected `let WORD = this, that`", at + 1));
    choices
        .split(',')
        .flat_map(|choice| {
            let choice = choice.trim();
            let lines = text.lines().enumerate().map(|(line, written)| match line == at {
                true => String::new(),
                false => written.replace(word.trim(), choice),
            });
            parse(&format!("{name} [{choice}]"), &lines.collect::<Vec<_>>().join("\n"))
        })
        .collect()
}

struct Parser {
    script: Script,
    line: usize,
    /// The scheme whose verdict an indented line continues.
    verdict: Option<String>,
}

impl Parser {
    fn new(name: &str) -> Self {
        let script = Script {
            name: name.to_owned(),
            tables: Vec::new(),
            transactions: Vec::new(),
            steps: Vec::new(),
            verdicts: BTreeMap::new(),
        };
        Self { script, line: 0, verdict: None }
    }

    fn fail(&self, why: impl fmt::Display) -> ! {
        panic!("{}, line {}: {why}", self.script.name, self.line)
    }

    fn parse(mut self, text: &str) -> Script {
        for (at, line) in text.lines().enumerate() {
            self.line = at + 1;
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.chars().all(|c| c == '-' || c == '|') {
                continue;
            }
            if trimmed.contains('|') {
                self.row(trimmed);
            } else if line.starts_with(' ') && self.script.steps.is_empty() {
                self.initial(trimmed);
            } else if line.starts_with(' ') {
                self.claims(trimmed);
            } else if self.script.steps.is_empty() {
                self.table(trimmed);
            } else {
                self.verdict(trimmed);
            }
        }
        self.check();
        self.script
    }

    /// Parses `table NAME [, indexed by value | , unique by value]`.
    fn table(&mut self, line: &str) {
        let (head, index) = line.split_once(',').map_or((line, ""), |(head, index)| (head, index.trim()));
        let Some(name) = head.strip_prefix("table ") else { self.fail(format!("expected a table, found `{line}`")) };
        let index = match index {
            "" => IndexSpec::None,
            "indexed by value" => IndexSpec::ByValue,
            "unique by value" => IndexSpec::UniqueByValue,
            _ => self.fail(format!("expected `indexed by value` or `unique by value`, found `{index}`")),
        };
        self.script.tables.push(TableSpec { name: name.trim().to_owned(), rows: Vec::new(), index });
    }

    /// Parses `key = value` under a table.
    fn initial(&mut self, line: &str) {
        let row = line.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().parse()));
        let Some((key, Ok(value))) = row else { self.fail(format!("expected `key = value`, found `{line}`")) };
        match self.script.tables.last_mut() {
            Some(table) => table.rows.push((key, value)),
            None => self.fail("a row without a table"),
        }
    }

    /// Parses a row of the schedule: the names of the transactions first, then one cell or more.
    fn row(&mut self, line: &str) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if self.script.transactions.is_empty() {
            self.script.transactions = cells.iter().map(|&cell| cell.to_owned()).collect();
            return;
        }
        if cells.len() > self.script.transactions.len() {
            self.fail("more cells than transactions");
        }
        for (transaction, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let (op, expect) = if let Some((op, name)) = cell.split_once("->") {
                (op, Expect::Named(name.trim().to_owned()))
            } else if let Some((op, outcome)) = cell.rsplit_once(" = ") {
                (op, Expect::Is(outcome.trim().to_owned()))
            } else {
                (*cell, Expect::Done)
            };
            let op = self.op(op.trim());
            if expect == Expect::Done && matches!(op, Op::Get { .. } | Op::Scan(_)) {
                self.fail("a read says what it sees: `= outcome` or `-> name`");
            }
            self.script.steps.push(Step { transaction, line: self.line, op, expect });
        }
    }

    fn op(&self, text: &str) -> Op {
        let words: Vec<_> = text.split_whitespace().collect();
        match words[..] {
            ["begin"] => Op::Begin { read_only: false },
            ["begin", "read-only"] => Op::Begin { read_only: true },
            ["commit"] => Op::Commit,
            ["rollback"] => Op::Rollback,
            ["get", at] => {
                let (table, key) = self.key(at);
                Op::Get { table, key }
            }
            ["delete", at] => {
                let (table, key) = self.key(at);
                Op::Delete { table, key }
            }
            [verb @ ("insert" | "update" | "put"), at, value] => {
                let (table, key) = self.key(at);
                let value = value.parse().unwrap_or_else(|_| self.fail(format!("`{value}` is not a number")));
                match verb {
                    "insert" => Op::Insert { table, key, value },
                    "update" => Op::Update { table, key, value },
                    _ => Op::Put { table, key, value },
                }
            }
            ["scan", ref rest @ ..] => Op::Scan(self.range(rest)),
            _ => self.fail(format!("unknown operation `{text}`")),
        }
    }

    /// Parses `key`, in the only table, or `table/key`.
    fn key(&self, text: &str) -> (usize, String) {
        match text.split_once('/') {
            Some((table, key)) => (self.table_named(table), key.to_owned()),
            None if self.script.tables.len() == 1 => (0, text.to_owned()),
            None => self.fail(format!("which table is `{text}` in? write table/key")),
        }
    }

    fn table_named(&self, name: &str) -> usize {
        let found = self.script.tables.iter().position(|table| table.name == name);
        found.unwrap_or_else(|| self.fail(format!("no table `{name}`")))
    }

    /// Parses `[table] all | a..c | a..=c | by value 1..=9 | by value 5`, then `[backward] [limit n]`.
    fn range(&self, mut words: &[&str]) -> Range {
        let mut table = 0;
        if let Some(found) = self.script.tables.iter().position(|table| Some(&table.name.as_str()) == words.first()) {
            (table, words) = (found, &words[1..]);
        } else if self.script.tables.len() > 1 {
            self.fail("scan which table?");
        }
        let bounds = match *words {
            ["all", ..] => Bounds::Keys(Bound::Unbounded, Bound::Unbounded),
            ["by", "value", range, ..] => {
                words = &words[2..];
                let number = |text: &str| -> i64 {
                    text.parse().unwrap_or_else(|_| self.fail(format!("`{text}` is not a number")))
                };
                let (lower, upper) = bounds(range);
                Bounds::Values(lower.map(number), upper.map(number))
            }
            [range, ..] => {
                let (lower, upper) = bounds(range);
                Bounds::Keys(lower.map(str::to_owned), upper.map(str::to_owned))
            }
            [] => self.fail("scan what?"),
        };
        words = &words[1..];
        let backward = words.first() == Some(&"backward");
        if backward {
            words = &words[1..];
        }
        let limit = match *words {
            [] => None,
            ["limit", rows] => Some(rows.parse().unwrap_or_else(|_| self.fail("limit how many?"))),
            _ => self.fail(format!("`{}` after a range", words.join(" "))),
        };
        Range { table, bounds, backward, limit }
    }

    /// Parses `scheme class [claim; claim ..]`.
    fn verdict(&mut self, line: &str) {
        let (scheme, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let (class, claims) = rest.split_once(' ').unwrap_or((rest, ""));
        let class = match class {
            "permits" => Class::Permits,
            "prevents" => Class::Prevents,
            "accepts" => Class::Accepts,
            _ => self.fail(format!("expected `permits`, `prevents` or `accepts`, found `{class}`")),
        };
        let verdict = Verdict { class, claims: Vec::new() };
        if self.script.verdicts.insert(scheme.to_owned(), verdict).is_some() {
            self.fail(format!("a second verdict for {scheme}"));
        }
        self.verdict = Some(scheme.to_owned());
        self.claims(claims);
    }

    /// Parses `T1 T2 commit; T3 aborts exclusion; T1 or T2 aborts; name = outcome`.
    fn claims(&mut self, text: &str) {
        let mut claims = Vec::new();
        for claim in text.split(';').map(str::trim).filter(|claim| !claim.is_empty()) {
            if let Some((name, outcome)) = claim.split_once('=') {
                claims.push(Claim::Observed(name.trim().to_owned(), outcome.trim().to_owned()));
                continue;
            }
            let words: Vec<_> = claim.split_whitespace().collect();
            match words[..] {
                [ref names @ .., "commit" | "commits"] => {
                    claims.extend(names.iter().map(|name| Claim::Commits(self.transaction(name))));
                }
                [ref names @ .., "aborts"] if names.contains(&"or") => {
                    let names = names.iter().filter(|&&name| name != "or").map(|name| self.transaction(name));
                    claims.push(Claim::OneAborts(names.collect()));
                }
                [name, "aborts"] => claims.push(Claim::Aborts(self.transaction(name), None)),
                [name, "aborts", kind] => claims.push(Claim::Aborts(self.transaction(name), Some(kind.to_owned()))),
                _ => self.fail(format!("unknown claim `{claim}`")),
            }
        }
        match &self.verdict {
            Some(scheme) => self.script.verdicts.get_mut(scheme).unwrap().claims.extend(claims),
            None => self.fail("a claim before the first verdict"),
        }
    }

    fn transaction(&self, name: &str) -> usize {
        let found = self.script.transactions.iter().position(|transaction| transaction == name);
        found.unwrap_or_else(|| self.fail(format!("no transaction `{name}`")))
    }

    /// Checks the rules for scripts that go beyond the grammar.
    fn check(&self) {
        for (transaction, name) in self.script.transactions.iter().enumerate() {
            let mut steps = self.script.steps.iter().filter(|step| step.transaction == transaction);
            if !matches!(steps.next_back().map(|step| &step.op), Some(Op::Commit | Op::Rollback)) {
                self.fail(format!("{name} neither commits nor rolls back"));
            }
        }
        let named = |name: &str| self.script.steps.iter().any(|step| step.expect == Expect::Named(name.to_owned()));
        for (scheme, verdict) in &self.script.verdicts {
            for claim in &verdict.claims {
                if let Claim::Observed(name, _) = claim
                    && !named(name)
                {
                    self.fail(format!("{scheme} speaks of `{name}`, which nothing observes"));
                }
            }
        }
    }
}

/// Parses `a..c`, `a..=c`, `a..`, `..c`, or a single `a`.
fn bounds(text: &str) -> (Bound<&str>, Bound<&str>) {
    let Some((lower, upper)) = text.split_once("..") else { return (Bound::Included(text), Bound::Included(text)) };
    let lower = if lower.is_empty() { Bound::Unbounded } else { Bound::Included(lower) };
    let upper = match upper.strip_prefix('=') {
        Some(upper) => Bound::Included(upper),
        None if upper.is_empty() => Bound::Unbounded,
        None => Bound::Excluded(upper),
    };
    (lower, upper)
}
