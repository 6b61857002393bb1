//! Statements from random numbers: a schema, rows for it, queries and changes.

use fastrand::Rng;

use crate::templates::{
    AGGREGATES, DATE_FIELDS, EXPRESSIONS, FIELDS, NUMBER_FORMATS, ORDERED, PATTERNS, TEMPLATES, TIME_FIELDS,
    TIME_FORMATS, TYPES, literals, strange,
};

/// A statement, and the way in which its results are compared.
pub struct Statement {
    pub text: String,
    pub kind: Kind,
    pub order: Order,
    /// Types of the parameters, for which values are made.
    pub parameters: Vec<&'static str>,
}

/// The parts of a statement's outcome that depend on the plan, or do not.
#[derive(Clone, Copy, Default)]
pub struct Order {
    /// Whether the statement orders its rows, down to the last column.
    pub is_total: bool,
    /// Whether a word is missing or repeated.
    pub is_garbled: bool,
    /// Whether that is one of an ORDER BY: the order of the rows may not be total any more, and a
    /// limit then keeps any of several.
    pub is_broken: bool,
    /// Whether it reads rows: if several fail, the plan decides which does first.
    pub reads_rows: bool,
    /// Whether an expression of another type is cast on rows: which rows, and so whether it fails, depends on the plan.
    pub casts_rows: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Query,
    /// Changes rows of this table.
    Change(usize),
}

/// A table of the schema.
pub struct Table {
    pub name: String,
    columns: Vec<(String, &'static str)>,
    key: Vec<usize>,
    unique: Vec<Vec<usize>>,
}

/// A column that an expression may use.
#[derive(Clone)]
struct Known {
    text: String,
    ty: &'static str,
}

/// The parts that an expression may use.
#[derive(Clone, Default)]
struct Scope {
    columns: Vec<Known>,
    /// Columns of enclosing queries.
    outer: Vec<Known>,
    /// Whether it may fail on values.
    may_fail: bool,
    /// Whether it may contain queries.
    may_ask: bool,
}

pub struct Generator {
    random: Rng,
    pub tables: Vec<Table>,
    aliases: usize,
    /// Types of parameters, where they may be used.
    parameters: Option<Vec<&'static str>>,
    /// Whether the statement may still get an expression of a type that does not fit: only one, so that only one error
    /// can be reported.
    may_misfit: bool,
}

fn type_name(ty: &str) -> &'static str {
    TYPES.iter().find(|(name, _)| *name == ty).map_or("text", |(_, full)| full)
}

/// Returns the name of a type in the form that this module's tables use.
fn known_type(ty: &str) -> &'static str {
    TYPES.iter().find(|(name, _)| *name == ty).map_or("t", |(name, _)| name)
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), tables: Vec::new(), aliases: 0, parameters: None, may_misfit: false }
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.random.usize(..of.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    fn any_type(&mut self) -> &'static str {
        TYPES[self.random.usize(..TYPES.len())].0
    }

    fn ordered_type(&mut self) -> &'static str {
        self.one(ORDERED)
    }

    /// Returns the statements that create the schema and fill it.
    pub fn schema(&mut self) -> Vec<String> {
        let mut statements = Vec::new();
        for number in 0..3 {
            let mut columns: Vec<(String, &'static str)> = vec![("id".into(), "i4")];
            for at in 0..self.random.usize(3..8) {
                let ty = self.any_type();
                columns.push((format!("{}{at}", (b'a' + number as u8) as char), ty));
            }
            // A column that all tables have, for USING and NATURAL.
            columns.push(("k".into(), "i4"));
            let mut table = Table { name: format!("t{number}"), columns, key: Vec::new(), unique: Vec::new() };
            let mut parts = Vec::new();
            for (name, ty) in &table.columns {
                let mut part = format!("{name} {}", type_name(ty));
                if name != "id" && self.random.u32(..100) < 10 {
                    part += " not null";
                }
                if self.random.u32(..100) < 15 && name != "id" {
                    part += &format!(" default '{}'", literals(ty)[0]);
                }
                parts.push(part);
            }
            let ordered: Vec<usize> =
                (1..table.columns.len()).filter(|at| ORDERED.contains(&table.columns[*at].1)).collect();
            match self.random.u32(..10) {
                0 => {}
                1 if !ordered.is_empty() => {
                    table.key = vec![0, ordered[self.random.usize(..ordered.len())]];
                    parts.push(format!("primary key (id, {})", table.columns[table.key[1]].0));
                }
                _ => {
                    table.key = vec![0];
                    parts.push("primary key (id)".into());
                }
            }
            if self.chance(40) && !ordered.is_empty() {
                let column = ordered[self.random.usize(..ordered.len())];
                let all = if self.chance(50) { vec![column] } else { vec![0, column] };
                let names: Vec<_> = all.iter().map(|at| table.columns[*at].0.clone()).collect();
                parts.push(format!("unique ({})", names.join(", ")));
                table.unique.push(all);
            }
            if self.chance(50) {
                parts.push("check (k < 1000)".into());
            }
            if self.chance(20) {
                parts.push("check (id + k > -500)".into());
            }
            statements.push(format!("create table {} ({})", table.name, parts.join(", ")));
            for _ in 0..self.random.usize(..3) {
                if ordered.is_empty() {
                    break;
                }
                let column = ordered[self.random.usize(..ordered.len())];
                let order = if self.chance(30) { " desc" } else { "" };
                let more = if self.chance(30) { ", k" } else { "" };
                let more = if table.columns[column].0 == "k" { "" } else { more };
                statements.push(format!("create index on {} ({}{order}{more})", table.name, table.columns[column].0));
            }
            self.tables.push(table);
        }
        for number in 0..3 {
            for id in 0..self.random.i32(0..12) {
                let values: Vec<_> = (0..self.tables[number].columns.len())
                    .map(|at| match at {
                        0 => id.to_string(),
                        at => self.literal(self.tables[number].columns[at].1, false),
                    })
                    .collect();
                // Both systems refuse duplicates and the like.
                statements.push(format!("insert into {} values ({})", self.tables[number].name, values.join(", ")));
            }
        }
        statements
    }

    /// Returns a literal: sometimes without a type, sometimes NULL.
    fn literal(&mut self, ty: &'static str, may_fail: bool) -> String {
        if self.chance(8) {
            return if self.chance(50) { "NULL".into() } else { format!("NULL::{}", type_name(ty)) };
        }
        let all = literals(ty);
        let text = match may_fail && self.chance(10) {
            true => self.one(strange(ty)),
            false => self.one(all),
        };
        let quoted = format!("'{}'", text.replace('\'', "''"));
        let is_number =
            matches!(ty, "i2" | "i4" | "i8" | "n" | "f" | "r") && text.parse::<f64>().is_ok_and(f64::is_finite);
        match ty {
            "i4" | "n" if is_number && self.chance(75) => text.trim().into(),
            "b" if matches!(text, "true" | "false") => text.into(),
            "t" if self.chance(60) => quoted,
            _ if self.chance(15) => quoted,
            _ => match self.random.u32(..3) {
                0 if !matches!(ty, "ia" | "ta" | "c" | "v") => format!("{} {quoted}", type_name(ty)),
                1 => format!("cast({quoted} as {})", type_name(ty)),
                _ => format!("{quoted}::{}", type_name(ty)),
            },
        }
    }

    /// Returns an expression of a type.
    fn expr(&mut self, ty: &'static str, scope: &Scope, depth: u32) -> String {
        // Now and then of another type: an expression that does not fit is refused, or cast.
        let ty = if self.may_misfit && self.chance(4) {
            self.may_misfit = false;
            self.any_type()
        } else {
            ty
        };
        let columns: Vec<_> =
            scope.columns.iter().filter(|known| known.ty == ty).map(|known| known.text.clone()).collect();
        let outer: Vec<_> = scope.outer.iter().filter(|known| known.ty == ty).map(|known| known.text.clone()).collect();
        if let Some(parameters) = &mut self.parameters
            && self.random.u32(..100) < 12
            && parameters.len() < 4
        {
            parameters.push(ty);
            let number = parameters.len();
            return if self.chance(60) { format!("${number}::{}", type_name(ty)) } else { format!("${number}") };
        }
        if depth == 0 || self.chance(20) {
            return match self.random.u32(..10) {
                0..6 if !columns.is_empty() => columns[self.random.usize(..columns.len())].clone(),
                0..8 if !outer.is_empty() => outer[self.random.usize(..outer.len())].clone(),
                _ => self.literal(ty, scope.may_fail),
            };
        }
        if scope.may_ask && self.chance(6) {
            return self.scalar_query(ty, scope);
        }
        let templates = TEMPLATES.iter().find(|(own, _)| *own == ty).map_or(&[][..], |(_, templates)| templates);
        let templates: Vec<&str> =
            templates.iter().copied().filter(|template| scope.may_fail || !template.starts_with('!')).collect();
        if templates.is_empty() {
            return self.literal(ty, scope.may_fail);
        }
        let template = self.one(&templates).trim_start_matches('!');
        let text = match self.chance(20) {
            true => self.fill(&without_blanks(template), scope, depth - 1),
            false => self.fill(template, scope, depth - 1),
        };
        if self.chance(90) { format!("({text})") } else { text }
    }

    /// Returns a template with its places filled.
    fn fill(&mut self, template: &str, scope: &Scope, depth: u32) -> String {
        let mut out = String::new();
        let mut rest = template;
        let mut last = String::new();
        while let Some((before, inside)) = rest.split_once('{') {
            let Some((name, after)) = inside.split_once('}') else { break };
            out += before;
            let is_place = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_place || name == "a" || name == "b0" {
                // A literal with braces of its own.
                out += &format!("{{{name}}}");
                rest = after;
                continue;
            }
            let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
            let filled = match name {
                "cmp" => self.one(&["=", "<>", "<", "<=", ">", ">=", "!="]).to_owned(),
                "pat" => quoted(self.one(PATTERNS)),
                "re" => quoted(self.one(EXPRESSIONS)),
                "field" => self.one(FIELDS).to_owned(),
                "dfield" => self.one(DATE_FIELDS).to_owned(),
                "tmfield" => self.one(TIME_FIELDS).to_owned(),
                "unit" => quoted(self.one(FIELDS)),
                "nf" => self.format(NUMBER_FORMATS),
                "tf" => self.format(TIME_FORMATS),
                "same" => last.clone(),
                "any" => {
                    let ty = self.any_type();
                    self.expr(ty, scope, depth)
                }
                ty => self.expr(known_type(ty), scope, depth),
            };
            // Two minus signs begin a comment, and other signs would belong to the operator.
            let is_sign = |sign: char| "+*/<>=~!@#%^&|".contains(sign);
            let is_one = filled.starts_with(is_sign) && out.ends_with(|end| end == '-' || is_sign(end));
            if is_one || filled.starts_with('-') && (out.ends_with('-') || out.ends_with("!=")) {
                out.push(' ');
            }
            out += &filled;
            last = filled;
            rest = after;
        }
        out + rest
    }

    fn format(&mut self, pieces: &[&'static str]) -> String {
        let text: String = (0..self.random.usize(1..5)).map(|_| self.one(pieces)).collect();
        format!("'{}'", text.replace('\'', "''"))
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    fn columns_of(&self, table: usize, alias: &str) -> Vec<Known> {
        self.tables[table].columns.iter().map(|(name, ty)| Known { text: format!("{alias}.{name}"), ty }).collect()
    }

    /// Returns a query with one value, which may or may not use rows around it.
    fn scalar_query(&mut self, ty: &'static str, scope: &Scope) -> String {
        let (table, alias) = (self.random.usize(..self.tables.len()), self.alias());
        let mut inside =
            Scope { columns: self.columns_of(table, &alias), may_fail: false, may_ask: false, ..Scope::default() };
        if self.chance(70) {
            inside.outer = scope.columns.iter().chain(&scope.outer).cloned().collect();
        }
        let condition = self.expr("b", &inside, 2);
        let name = self.tables[table].name.clone();
        if ty == "b" && self.chance(70) {
            let operand = self.expr("i4", scope, 1);
            let value = self.expr("i4", &inside, 1);
            let not = if self.chance(30) { "not " } else { "" };
            return match self.random.u32(..4) {
                0 => format!("({not}exists (select 1 from {name} {alias} where {condition}))"),
                1 => format!("({operand} {not}in (select {value} from {name} {alias} where {condition}))"),
                2 => format!("({operand} > all (select {value} from {name} {alias} where {condition}))"),
                _ => format!("({operand} = any (select {value} from {name} {alias} where {condition}))"),
            };
        }
        if ty == "ia" && self.chance(50) {
            return format!("array(select {alias}.id from {name} {alias} where {condition} order by {alias}.id)");
        }
        let aggregates: Vec<&str> = AGGREGATES.iter().filter(|(own, _)| *own == ty).map(|(_, text)| *text).collect();
        if !aggregates.is_empty() && self.chance(70) {
            let template = self.one(&aggregates);
            let value = self.fill(template, &inside, 1);
            return format!("(select {value} from {name} {alias} where {condition})");
        }
        let value = self.expr(ty, &inside, 1);
        match self.tables[table].key[..] {
            [0] => format!("(select {value} from {name} {alias} where {alias}.id = {})", self.random.i32(0..8)),
            _ => format!("(select {value})").replace(&format!("{alias}."), "t_."),
        }
    }

    /// Returns the sources of a query: the text behind FROM, and the columns.
    fn sources(&mut self) -> (String, Vec<Known>) {
        let (table, alias) = (self.random.usize(..self.tables.len()), self.alias());
        let mut text = format!("{} {alias}", self.tables[table].name);
        let mut columns = self.columns_of(table, &alias);
        let more = match self.random.u32(..10) {
            0..4 => 0,
            4..7 => 1,
            7..9 => 2,
            _ => 3,
        };
        for _ in 0..more {
            let (table, alias) = (self.random.usize(..self.tables.len()), self.alias());
            let name = self.tables[table].name.clone();
            match self.random.u32(..12) {
                0 => {
                    text += &format!(", {name} {alias}");
                    columns.extend(self.columns_of(table, &alias));
                }
                1 => {
                    text += &format!(" cross join {name} {alias}");
                    columns.extend(self.columns_of(table, &alias));
                }
                2 => {
                    // Values without queries in them.
                    let scope = Scope { may_ask: false, ..Scope::default() };
                    let rows: Vec<_> = (0..self.random.usize(1..4))
                        .map(|_| format!("({}, {})", self.expr("i4", &scope, 1), self.expr("t", &scope, 1)))
                        .collect();
                    text += &format!(" join (values {}) {alias}(p, q) on true", rows.join(", "));
                    columns.push(Known { text: format!("{alias}.p"), ty: "i4" });
                    columns.push(Known { text: format!("{alias}.q"), ty: "t" });
                }
                3 => {
                    text += &format!(
                        " left join generate_series(1, {}) {alias}(s) on {alias}.s = {}",
                        self.random.u32(..5),
                        columns[0].text
                    );
                    columns.push(Known { text: format!("{alias}.s"), ty: "i4" });
                }
                4 => {
                    let own = self.columns_of(table, "z");
                    let inside = Scope { columns: own, outer: columns.clone(), ..Scope::default() };
                    let (lateral, inside) = match self.chance(50) {
                        true => ("lateral ", inside),
                        false => ("", Scope { outer: Vec::new(), ..inside }),
                    };
                    let ty = self.ordered_type();
                    let value = self.expr(ty, &inside, 2);
                    let condition = self.expr("b", &inside, 2);
                    let kind = self.one(&["join", "left join"]);
                    text += &format!(
                        " {kind} {lateral}(select z.id as p, {value} as q from {name} z where {condition}) {alias} on \
                         true"
                    );
                    columns.push(Known { text: format!("{alias}.p"), ty: "i4" });
                    columns.push(Known { text: format!("{alias}.q"), ty });
                }
                5 => {
                    let kind = self.one(&["join", "left join", "right join", "full join"]);
                    text += &format!(" {kind} {name} {alias} using (k)");
                    // The common column has two names with a source, and one without.
                    columns.retain(|known| !known.text.ends_with(".k"));
                    columns
                        .extend(self.columns_of(table, &alias).into_iter().filter(|known| !known.text.ends_with(".k")));
                    columns.push(Known { text: "k".into(), ty: "i4" });
                    return (text, columns);
                }
                _ => {
                    let kind =
                        self.one(&["join", "inner join", "left join", "left outer join", "right join", "full join"]);
                    let own = self.columns_of(table, &alias);
                    let pairs: Vec<_> = columns
                        .iter()
                        .flat_map(|one| {
                            own.iter()
                                .filter(|other| other.ty == one.ty && ORDERED.contains(&one.ty))
                                .map(|other| (one.text.clone(), other.text.clone()))
                        })
                        .collect();
                    columns.extend(own);
                    let mut condition = if pairs.is_empty() || self.chance(10) {
                        let scope = Scope { columns: columns.clone(), ..Scope::default() };
                        self.expr("b", &scope, 2)
                    } else {
                        let (one, other) = &pairs[self.random.usize(..pairs.len())];
                        format!("{one} = {other}")
                    };
                    if self.chance(20) {
                        let scope = Scope { columns: columns.clone(), ..Scope::default() };
                        condition = format!("{condition} and {}", self.expr("b", &scope, 1));
                    }
                    text += &format!(" {kind} {name} {alias} on {condition}");
                }
            }
        }
        (text, columns)
    }

    /// Returns the next statement.
    pub fn statement(&mut self) -> Statement {
        self.aliases = 0;
        let may_misfit = self.chance(25);
        self.may_misfit = may_misfit;
        self.parameters = if self.chance(20) { Some(Vec::new()) } else { None };
        let (text, kind, is_total, reads_rows) = match self.random.u32(..100) {
            0..30 => {
                let text = self.plain_expressions();
                (text, Kind::Query, true, false)
            }
            30..55 => {
                let (text, is_ordered) = self.select();
                (text, Kind::Query, is_ordered, true)
            }
            55..70 => {
                let (text, is_ordered) = self.grouped();
                (text, Kind::Query, is_ordered, true)
            }
            70..78 => {
                let (text, is_ordered) = self.set_operation();
                (text, Kind::Query, is_ordered, true)
            }
            78..82 => {
                let (text, is_ordered) = self.with_query();
                (text, Kind::Query, is_ordered, true)
            }
            _ => {
                let (text, table, reads_rows) = self.change();
                (text, Kind::Change(table), false, reads_rows)
            }
        };
        let has_misfit = may_misfit && !self.may_misfit;
        let is_garbled = self.chance(2);
        let (text, is_broken) = if is_garbled { self.broken(&text) } else { (text, false) };
        let parameters = self.parameters.take().unwrap_or_default();
        let order = Order { is_total, is_garbled, is_broken, reads_rows, casts_rows: reads_rows && has_misfit };
        Statement { text, kind, order, parameters }
    }

    /// Returns a statement with a word left out or repeated, and whether the word belongs to an ORDER BY.
    fn broken(&mut self, text: &str) -> (String, bool) {
        let mut words: Vec<_> = text.split(' ').collect();
        let at = self.random.usize(..words.len());
        let clause = words[..=at].iter().rev().map(|word| word.trim_start_matches('('));
        let clause = clause.into_iter().find(|word| ["order", "select", "from", "where", "group"].contains(word));
        let is_of_order = clause == Some("order");
        if self.chance(60) {
            words.remove(at);
        } else {
            words.insert(at, words[at]);
        }
        // PostgreSQL takes IS at the end for a label; the grammar here does not.
        words.pop_if(|last| *last == "is");
        (words.join(" "), is_of_order)
    }

    /// Returns values without sources: all of them are evaluated, so they may fail.
    fn plain_expressions(&mut self) -> String {
        let scope = Scope { may_fail: true, ..Scope::default() };
        let values: Vec<_> = (0..self.random.usize(1..3))
            .map(|_| {
                let ty = self.any_type();
                self.expr(ty, &scope, 3)
            })
            .collect();
        format!("select {}", values.join(", "))
    }

    /// Orders by all results, by number, and may limit the result to a part.
    fn order_and_limit(&mut self, types: &[&'static str]) -> (String, bool) {
        if types.iter().any(|ty| !ORDERED.contains(ty)) || self.chance(40) {
            return (String::new(), false);
        }
        let mut keys = Vec::new();
        for at in 1..=types.len() {
            let order = self.one(&["", "", " desc", " asc", " nulls first", " desc nulls last"]);
            keys.push(format!("{at}{order}"));
        }
        self.random.shuffle(&mut keys);
        let mut text = format!(" order by {}", keys.join(", "));
        match self.random.u32(..10) {
            0..2 => text += &format!(" limit {}", self.random.u32(..6)),
            2 => text += &format!(" limit {} offset {}", self.random.u32(..6), self.random.u32(..4)),
            3 => text += &format!(" offset {}", self.random.u32(..4)),
            4 => text += &format!(" fetch first {} rows only", self.random.u32(1..5)),
            _ => {}
        }
        (text, true)
    }

    fn select(&mut self) -> (String, bool) {
        let (sources, columns) = self.sources();
        let has_filter = self.chance(70);
        let mut scope = Scope { columns, may_ask: true, ..Scope::default() };
        let condition = has_filter.then(|| self.expr("b", &scope, 3));
        let mut types = Vec::new();
        let mut values = Vec::new();
        // Without a condition and a limit all rows are computed.
        scope.may_fail = false;
        for _ in 0..self.random.usize(1..5) {
            let ty = self.any_type();
            values.push(self.expr(ty, &scope, 3));
            types.push(ty);
        }
        if self.chance(15) {
            let (value, ty) = self.set(&scope);
            values.push(value);
            types.push(ty);
        }
        let filter = condition.map_or_else(String::new, |condition| format!(" where {condition}"));
        let distinct = match self.random.u32(..10) {
            0 if types.iter().all(|ty| ORDERED.contains(ty)) => "distinct ",
            _ => "",
        };
        let (order, is_ordered) = self.order_and_limit(&types);
        (format!("select {distinct}{} from {sources}{filter}{order}", values.join(", ")), is_ordered)
    }

    /// Returns a call of a set-returning function, and its type.
    fn set(&mut self, scope: &Scope) -> (String, &'static str) {
        match self.random.u32(..4) {
            0 => (format!("generate_series(1, {})", self.random.u32(..4)), "i4"),
            1 => (format!("generate_series(1, generate_series(1, {}))", self.random.u32(..4)), "i4"),
            2 => (format!("unnest({})", self.expr("ia", scope, 2)), "i4"),
            _ => (format!("regexp_split_to_table({}, ',')", self.expr("t", scope, 2)), "t"),
        }
    }

    fn grouped(&mut self) -> (String, bool) {
        let (sources, columns) = self.sources();
        let scope = Scope { columns: columns.clone(), may_ask: false, ..Scope::default() };
        let mut keys = Vec::new();
        let mut inside = Scope { may_ask: true, ..Scope::default() };
        for _ in 0..self.random.usize(..3) {
            let (key, ty) = if self.chance(60) {
                let known = columns[self.random.usize(..columns.len())].clone();
                (known.text, known.ty)
            } else {
                let ty = self.ordered_type();
                (self.expr(ty, &scope, 2), ty)
            };
            // A literal would be the number of a column, or no key at all.
            if !key.contains("x") {
                continue;
            }
            inside.columns.push(Known { text: key.clone(), ty });
            keys.push(key);
        }
        let (mut values, mut types) = (Vec::new(), Vec::new());
        for known in inside.columns.clone() {
            values.push(known.text);
            types.push(known.ty);
        }
        for _ in 0..self.random.usize(1..4) {
            let (ty, template) = AGGREGATES[self.random.usize(..AGGREGATES.len())];
            let value = self.fill(template, &scope, 2);
            inside.columns.push(Known { text: value.clone(), ty: known_type(ty) });
            values.push(value);
            types.push(known_type(ty));
        }
        if self.chance(40) {
            let ty = self.any_type();
            values.push(self.expr(ty, &inside, 2));
            types.push(ty);
        }
        if self.chance(3) {
            values.push(columns[self.random.usize(..columns.len())].text.clone());
            types.push("t");
        }
        let filter = if self.chance(40) { format!(" where {}", self.expr("b", &scope, 2)) } else { String::new() };
        let group = if keys.is_empty() { String::new() } else { format!(" group by {}", keys.join(", ")) };
        let having = if self.chance(30) { format!(" having {}", self.expr("b", &inside, 2)) } else { String::new() };
        let (order, is_ordered) = self.order_and_limit(&types);
        (format!("select {} from {sources}{filter}{group}{having}{order}", values.join(", ")), is_ordered)
    }

    fn set_operation(&mut self) -> (String, bool) {
        let types: Vec<_> = (0..self.random.usize(1..4)).map(|_| self.ordered_type()).collect();
        let sides: Vec<_> = (0..2 + usize::from(self.chance(20)))
            .map(|_| {
                if self.chance(15) {
                    let scope = Scope::default();
                    let values: Vec<_> = types.iter().map(|ty| self.expr(ty, &scope, 1)).collect();
                    return format!("select {}", values.join(", "));
                }
                let (sources, columns) = self.sources();
                let scope = Scope { columns, may_ask: false, ..Scope::default() };
                let values: Vec<_> = types.iter().map(|ty| self.expr(ty, &scope, 2)).collect();
                let condition = self.expr("b", &scope, 2);
                format!("select {} from {sources} where {condition}", values.join(", "))
            })
            .collect();
        let mut text = sides[0].clone();
        for side in &sides[1..] {
            let operator = self.one(&["union", "union all", "intersect", "except", "intersect all", "except all"]);
            text += &format!(" {operator} {side}");
        }
        let (order, is_ordered) = self.order_and_limit(&types);
        (text + &order, is_ordered)
    }

    fn with_query(&mut self) -> (String, bool) {
        let (inner, _) = if self.chance(50) { self.select_of("i4", "t") } else { self.select_of("n", "d") };
        let alias = self.alias();
        match self.random.u32(..4) {
            0 => (format!("with w(p, q) as ({inner}) select * from w where p is not null"), false),
            1 => (format!("with w(p, q) as ({inner}) select count(*), max(p), min(q) from w"), true),
            2 => (
                format!("with w(p, q) as ({inner}) select {alias}.p, w.q from w join w {alias} on {alias}.p = w.p"),
                false,
            ),
            _ => (format!("select p, max(q), count(*) from ({inner}) {alias}(p, q) group by p order by p"), true),
        }
    }

    fn select_of(&mut self, one: &'static str, other: &'static str) -> (String, bool) {
        let (sources, columns) = self.sources();
        let scope = Scope { columns, may_ask: true, ..Scope::default() };
        let (one, other, condition) =
            (self.expr(one, &scope, 2), self.expr(other, &scope, 2), self.expr("b", &scope, 2));
        (format!("select {one}, {other} from {sources} where {condition}"), false)
    }

    /// Returns a statement that writes, its table, and whether it reads rows.
    fn change(&mut self) -> (String, usize, bool) {
        let number = self.random.usize(..self.tables.len());
        let name = self.tables[number].name.clone();
        let columns = self.columns_of(number, &name);
        let scope = Scope { columns: columns.clone(), may_ask: true, ..Scope::default() };
        let returning = match self.random.u32(..4) {
            0 => {
                let ty = self.any_type();
                let inside = Scope { may_ask: false, ..scope.clone() };
                format!(" returning {}.id, {}", name, self.expr(ty, &inside, 2))
            }
            1 => " returning *".into(),
            _ => String::new(),
        };
        let plain = Scope { may_fail: true, ..Scope::default() };
        let all = self.tables[number].columns.clone();
        let way = self.random.u32(..10);
        let text = match way {
            0..5 => {
                let mut chosen: Vec<_> = (0..all.len()).filter(|at| *at == 0 || self.random.u32(..100) < 80).collect();
                if self.chance(10) {
                    self.random.shuffle(&mut chosen);
                }
                let names: Vec<_> = chosen.iter().map(|at| all[*at].0.clone()).collect();
                let value = |this: &mut Self, at: usize| match at {
                    0 => this.random.i32(0..14).to_string(),
                    _ if this.chance(5) => "default".into(),
                    at => this.expr(all[at].1, &plain, 1),
                };
                let values: Vec<_> = chosen.iter().map(|at| value(self, *at)).collect();
                let conflict = match self.random.u32(..5) {
                    0 => " on conflict do nothing".to_owned(),
                    1 if self.tables[number].key.len() == 1 => " on conflict (id) do nothing".to_owned(),
                    2 if self.tables[number].key.len() == 1 => {
                        let (column, ty) = all[self.random.usize(1..all.len())].clone();
                        let mut inside = scope.clone();
                        inside.may_ask = false;
                        inside.columns.push(Known { text: format!("excluded.{column}"), ty });
                        let value = self.expr(ty, &inside, 1);
                        let filter = if self.chance(30) {
                            format!(" where {}", self.expr("b", &inside, 1))
                        } else {
                            String::new()
                        };
                        format!(" on conflict (id) do update set {column} = {value}{filter}")
                    }
                    3 if self.chance(10) => " on conflict (k) do nothing".to_owned(),
                    _ => String::new(),
                };
                format!("insert into {name} ({}) values ({}){conflict}{returning}", names.join(", "), values.join(", "))
            }
            5 => {
                let (sources, columns) = self.sources();
                let inside = Scope { columns, may_ask: false, ..Scope::default() };
                let (at, id) = (self.random.usize(1..all.len()), self.random.i32(20..40));
                let value = self.expr(all[at].1, &inside, 2);
                let condition = self.expr("b", &inside, 2);
                format!(
                    "insert into {name} (id, {}) select {id}, max({value}::text)::{} from {sources} where \
                     {condition}{returning}",
                    all[at].0,
                    type_name(all[at].1)
                )
            }
            6..8 => {
                let (column, ty) = all[self.random.usize(1..all.len())].clone();
                let value = self.expr(ty, &scope, 2);
                let filter = match self.chance(60) {
                    true => format!("{name}.id = {}", self.random.i32(0..12)),
                    false => self.expr("b", &scope, 2),
                };
                format!("update {name} set {column} = {value} where {filter}{returning}")
            }
            8 => {
                let filter = self.expr("b", &scope, 2);
                format!("delete from {name} where {name}.id > 8 and {filter}{returning}")
            }
            _ => {
                let (other, alias) = (self.random.usize(..self.tables.len()), self.alias());
                let other_name = self.tables[other].name.clone();
                // Where several rows have the number any of them may be the one whose value is taken.
                if self.tables[other].key != [0] || self.chance(50) {
                    format!(
                        "delete from {name} using {other_name} {alias} where {name}.id = {alias}.id + 5 and \
                         {alias}.k > 3"
                    )
                } else {
                    format!(
                        "update {name} set k = {alias}.k from {other_name} {alias} where {name}.id = {alias}.id and \
                         {alias}.id < 5"
                    )
                }
            }
        };
        (text, number, way >= 5)
    }
}

/// Returns a template without the blanks around its operators, where an operator may stand beside a sign.
fn without_blanks(template: &str) -> String {
    let mut out = template.replace(" {cmp} ", "{cmp}");
    for operator in ["+", "-", "*", "/", "<", ">", "=", "<=", ">=", "<>"] {
        out = out.replace(&format!(" {operator} "), operator);
    }
    out
}
