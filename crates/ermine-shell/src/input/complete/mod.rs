//! Completion with Tab: the words, names and commands that may follow what has been typed.
//!
//! Names are read from the catalog with the first Tab of a line, and only outside of transactions: inside of one, the
//! names that were read last are used. So completion neither ends the user's transaction nor waits inside of it.

mod context;
mod keywords;
mod names;

use ermine_sql::{function_names, types::functions::quote_ident};

pub use self::names::{Names, Relation};
use self::{
    context::{Place, ROWS, Token, Tokens, place},
    keywords::{BEHIND_RELATIONS, CLAUSES, EXPRESSIONS, OBJECTS, STATEMENTS, TYPES},
};

/// What can be inserted instead of the end of a line.
#[derive(PartialEq, Eq, Debug)]
pub enum Completion {
    /// One of the texts, from a byte of the line on.
    Texts(usize, Vec<String>),
    /// The name of a file.
    File,
}

/// Schemas whose relations are left out, unless they are asked for.
const SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];
/// How names begin that ask for them.
const SYSTEM_PREFIXES: [&str; 2] = ["pg_", "ermine_"];

/// Completes the line at a place in it; `before` has the lines of the statement before it, `commands` the names of the
/// commands.
pub fn complete(before: &str, line: &str, at: usize, names: &Names, commands: &[&str]) -> Completion {
    let text = format!("{before}\n{}", &line[..at]);
    let offset = before.len() + 1;
    let Tokens { tokens, end } = Tokens::of(&text, true);
    let none = Completion::Texts(at, Vec::new());
    if tokens.contains(&Token::Sign('\\')) {
        return command_of(&line[..at]).map_or(none, |(name, rest)| command(name, rest, at, names, commands));
    }
    let Some(begin) = end.filter(|begin| *begin >= offset) else { return none };
    let all = Tokens::of(&format!("{text}{}", &line[at..]), false).tokens;
    let choice = Choice { typed: &text[begin..], names, before: &tokens, all: &all };
    Completion::Texts(begin - offset, single(choice.texts(&place(&tokens))))
}

/// Returns the command at the end of a line, and the text behind its name, if there is any.
fn command_of(line: &str) -> Option<(&str, Option<&str>)> {
    let (_, command) = line.split_once('\\')?;
    Some(match command.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, Some(rest)),
        None => (command, None),
    })
}

/// Completes a command or its argument, which ends at a place of the line.
fn command(name: &str, rest: Option<&str>, at: usize, names: &Names, commands: &[&str]) -> Completion {
    let Some(rest) = rest else {
        let known = commands.iter().filter(|known| known.starts_with(name)).map(|known| (*known).to_owned());
        return Completion::Texts(at - name.len(), single(known.collect()));
    };
    let (typed, before) = match rest.rsplit_once(char::is_whitespace) {
        Some((before, typed)) => (typed, before.trim()),
        None => (rest, ""),
    };
    let choice = Choice { typed, names, before: &[], all: &[] };
    let texts = match (name, before) {
        ("i" | "include" | "o" | "out" | "e" | "edit" | "g" | "gx", "") => return Completion::File,
        ("copy", before) => {
            let last = before.rsplit(char::is_whitespace).next().unwrap_or_default();
            if ["from", "to"].iter().any(|known| last.eq_ignore_ascii_case(known)) {
                return Completion::File;
            }
            match before {
                "" => choice.texts(&Place::Relation("rp")),
                _ => choice.of(["from", "to"]),
            }
        }
        ("d", "") => choice.texts(&Place::Relation("rpvmfSiI")),
        ("dt", "") => choice.texts(&Place::Relation("rp")),
        ("di", "") => choice.texts(&Place::Relation("iI")),
        ("ds", "") => choice.texts(&Place::Relation("S")),
        ("dn", "") => choice.texts(&Place::Schema),
        ("x", "") | ("pset", "expanded") => choice.of(["on", "off", "auto"]),
        ("t" | "timing", "") | ("pset", "tuples_only") => choice.of(["on", "off"]),
        ("pset", "") => choice.of(["columns", "expanded", "format", "null", "pager", "tuples_only"]),
        ("pset", "format") => choice.of(["aligned", "csv", "unaligned"]),
        ("pset", "pager") => choice.of(["on", "off", "always"]),
        _ => Vec::new(),
    };
    Completion::Texts(at - typed.len(), single(texts))
}

/// Adds a blank to a text that is the only one, where a blank may follow.
fn single(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts.dedup();
    if let [text] = &mut *texts
        && !text.ends_with(['(', '.'])
    {
        text.push(' ');
    }
    texts
}

/// The texts among which a user may choose.
struct Choice<'c> {
    /// The beginning of the text.
    typed: &'c str,
    names: &'c Names,
    /// The tokens of the statement before it.
    before: &'c [Token],
    /// The tokens of the whole statement, as far as it has been typed.
    all: &'c [Token],
}

impl Choice<'_> {
    /// Returns the texts that begin as typed, and may stand at a place.
    fn texts(&self, place: &Place) -> Vec<String> {
        match place {
            Place::Statement => self.words([STATEMENTS]),
            Place::Object => self.words([OBJECTS]),
            Place::Relation(kinds) => self.relations(kinds),
            Place::Schema => self.names(self.names.schemas.iter()),
            Place::Database => self.names(self.names.databases.iter()),
            Place::Role => {
                let is_granted = ["GRANT", "REVOKE"].iter().any(|word| self.begins_with(word));
                let others = if is_granted { "CURRENT_USER, PUBLIC" } else { "CURRENT_USER" };
                [self.names(self.names.roles.iter()), self.words([others])].concat()
            }
            Place::Setting => {
                let settings = self.names.settings.iter().map(String::as_str);
                [self.of(settings), self.words(["LOCAL, SESSION, TRANSACTION, ALL"])].concat()
            }
            Place::SettingPart(outer) => {
                let inner = |setting: &'_ String| {
                    let (own, inner) = setting.split_once('.')?;
                    own.eq_ignore_ascii_case(outer).then(|| inner.to_owned())
                };
                let inner: Vec<_> = self.names.settings.iter().filter_map(inner).collect();
                self.of(inner.iter().map(String::as_str))
            }
            Place::Part(qualifier) => self.parts(qualifier),
            Place::Column => self.columns(),
            Place::Expression => {
                let own = self.names.functions.iter().filter(|name| quote_ident(name) == **name).map(String::as_str);
                let functions = own.chain(function_names().map(|name| name as &str));
                let functions = self.of(functions).into_iter().map(|name| name + "(");
                let functions = functions.filter(|_| !self.typed.is_empty());
                [self.columns(), functions.collect(), self.language(&[EXPRESSIONS, TYPES])].concat()
            }
            Place::Only(words) => self.words(words.iter().copied()),
            Place::Word(likely) => match self.continued() {
                rest if !rest.is_empty() => rest,
                _ if self.typed.is_empty() => likely.iter().map(|word| (*word).to_owned()).collect(),
                _ => {
                    // Some are likely only here, and are in no list.
                    let likely = self.words(likely.iter().copied());
                    [likely, self.language(&[CLAUSES, OBJECTS, STATEMENTS, TYPES])].concat()
                }
            },
            Place::Other => self.words(["IF NOT EXISTS, SELECT"]),
        }
    }

    /// Returns words of lists, if the beginning of one has been typed: there are too many otherwise.
    fn language(&self, lists: &[&str]) -> Vec<String> {
        if self.typed.is_empty() { Vec::new() } else { self.words(lists.iter().copied()) }
    }

    /// Returns the rest of the phrases that the words before have begun: LEVEL behind ISOLATION.
    fn continued(&self) -> Vec<String> {
        let phrases = [CLAUSES, OBJECTS, STATEMENTS].into_iter().flat_map(|list| list.split(", "));
        let rests = phrases.flat_map(|phrase| {
            let ends = phrase.match_indices(' ').map(|(at, _)| at);
            ends.filter(|at| self.ends_with(&phrase[..*at])).map(|at| &phrase[at + 1..])
        });
        self.words(rests.collect::<Vec<_>>())
    }

    /// Whether the statement begins with a word.
    fn begins_with(&self, word: &str) -> bool {
        matches!(self.before.first(), Some(Token::Word(first)) if first.eq_ignore_ascii_case(word))
    }

    /// Whether the words before end with these.
    fn ends_with(&self, words: &str) -> bool {
        let words: Vec<_> = words.split(' ').collect();
        let is = |(token, word): (&Token, &&str)| matches!(token, Token::Word(own) if own.eq_ignore_ascii_case(word));
        self.before.len() >= words.len() && self.before[self.before.len() - words.len()..].iter().zip(&words).all(is)
    }

    /// Returns words of lists, in small letters if they were begun so.
    fn words<'l>(&self, lists: impl IntoIterator<Item = &'l str>) -> Vec<String> {
        let typed = self.typed.to_uppercase();
        let is_small = self.typed.starts_with(char::is_lowercase);
        let words = lists.into_iter().flat_map(|list| list.split(", ")).map(str::to_uppercase);
        let words = words.filter(|word| word.starts_with(&typed));
        words.map(|word| if is_small { word.to_lowercase() } else { word }).collect()
    }

    /// Returns texts that are written as they are.
    fn of<'l>(&self, texts: impl IntoIterator<Item = &'l str>) -> Vec<String> {
        let typed = self.typed.to_lowercase();
        let texts = texts.into_iter().filter(|text| text.to_lowercase().starts_with(&typed));
        texts.map(str::to_owned).collect()
    }

    /// Returns names, in quotes where they need them or were begun with one.
    fn names<'n>(&self, names: impl Iterator<Item = &'n String>) -> Vec<String> {
        // The terminal would obey them.
        let names = names.filter(|name| !name.contains(char::is_control));
        let matching = names.filter_map(|name| match self.typed.strip_prefix('"') {
            Some(typed) => {
                name.starts_with(&typed.replace("\"\"", "\"")).then(|| format!("\"{}\"", name.replace('"', "\"\"")))
            }
            None => name.starts_with(&self.typed.to_lowercase()).then(|| quote_ident(name)),
        });
        matching.collect()
    }

    /// Returns relations of some kinds, and schemas that have others.
    fn relations(&self, kinds: &str) -> Vec<String> {
        let typed = self.typed.trim_start_matches('"').to_lowercase();
        let wants_system = SYSTEM_PREFIXES.iter().any(|prefix| typed.starts_with(prefix));
        let is_shown = |schema: &str| wants_system || !SYSTEM.contains(&schema);
        let visible = self
            .names
            .relations
            .iter()
            .filter(|relation| relation.is_visible && kinds.contains(relation.kind) && is_shown(&relation.schema));
        let mut texts = self.names(visible.map(|relation| &relation.name));
        let schemas = self.names.schemas.iter().filter(|_| !self.typed.is_empty());
        texts.extend(self.names(schemas).into_iter().map(|schema| schema + "."));
        texts
    }

    /// Returns the columns of a relation or alias, and the relations of a schema.
    fn parts(&self, qualifier: &str) -> Vec<String> {
        let named = self.named();
        let columns = named.iter().filter(|(relation, alias)| match alias {
            Some(alias) => alias == qualifier,
            None => relation.name == qualifier,
        });
        let columns = columns.flat_map(|(relation, _)| &relation.columns);
        let relations = self.names.relations.iter().filter(|relation| relation.schema == qualifier);
        let relations = relations.filter(|relation| ROWS.contains(relation.kind)).map(|relation| &relation.name);
        self.names(columns.chain(relations))
    }

    /// Returns the columns of all relations that the statement names.
    fn columns(&self) -> Vec<String> {
        let named = self.named();
        self.names(named.iter().flat_map(|(relation, _)| &relation.columns))
    }

    /// Returns the relations that the statement names, with their aliases.
    fn named(&self) -> Vec<(&Relation, Option<String>)> {
        const BEFORE: [&str; 9] = ["FROM", "JOIN", "INTO", "UPDATE", "ONLY", "TABLE", "ON", "USING", "COPY"];
        let name = |at: usize| self.all.get(at).and_then(Token::name);
        let mut named = Vec::new();
        for (at, before) in self.all.iter().enumerate() {
            let begins = match before {
                Token::Word(word) => BEFORE.contains(&&*word.to_uppercase()),
                sign => *sign == Token::Sign(','),
            };
            let Some(first) = name(at + 1).filter(|_| begins) else { continue };
            let (relation, mut next) = match name(at + 3).filter(|_| self.all[at + 2] == Token::Sign('.')) {
                Some(second) => (self.names.relation(Some(&first), &second), at + 4),
                None => (self.names.relation(None, &first), at + 2),
            };
            next += usize::from(name(next).is_some_and(|word| word == "as"));
            let is_alias = match self.all.get(next) {
                Some(Token::Word(word)) => BEHIND_RELATIONS.split(", ").all(|other| !word.eq_ignore_ascii_case(other)),
                token => token.is_some(),
            };
            named.extend(relation.map(|relation| (relation, name(next).filter(|_| is_alias))));
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let relation = |schema: &str, name: &str, kind, columns: &[&str]| Relation {
            schema: schema.into(),
            name: name.into(),
            kind,
            is_visible: schema != "other",
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Names {
            relations: vec![
                relation("public", "tea", 'r', &["id", "name", "Price"]),
                relation("public", "tea_view", 'v', &["id"]),
                relation("public", "tea_pkey", 'i', &[]),
                relation("public", "Odd One", 'r', &["a"]),
                relation("other", "cup", 'r', &["size", "name"]),
                relation("pg_catalog", "pg_class", 'r', &["relname"]),
                relation("pg_catalog", "ermine_stat_log", 'v', &["flushes"]),
            ],
            schemas: texts(&["other", "public", "pg_catalog"]),
            databases: texts(&["shop", "Old Shop"]),
            roles: texts(&["ann", "reader"]),
            functions: texts(&["notice_of"]),
            settings: texts(&["work_mem", "TimeZone", "ermine.memory_limit", "ermine.wait_max"]),
        }
    }

    /// Returns the completed line for each choice; `|` in the line is the cursor.
    fn completed(before: &str, line: &str) -> Vec<String> {
        let at = line.find('|').unwrap();
        let line = line.replace('|', "");
        match complete(before, &line, at, &names(), &["d", "dt", "timing", "watch"]) {
            Completion::Texts(begin, texts) => {
                texts.iter().map(|text| format!("{}{text}{}", &line[..begin], &line[at..])).collect()
            }
            Completion::File => vec!["FILE".to_owned()],
        }
    }

    #[test]
    fn names_and_words_are_completed() {
        for (line, wanted) in [
            ("SEL|", &["SELECT "][..]),
            ("sel|", &["select "]),
            ("SELECT * FROM |", &["SELECT * FROM \"Odd One\"", "SELECT * FROM tea", "SELECT * FROM tea_view"]),
            ("SELECT * FROM cl|", &[]),
            ("SELECT * FROM pg_cl|", &["SELECT * FROM pg_class "]),
            ("SELECT * FROM tea_|", &["SELECT * FROM tea_view "]),
            ("SELECT * FROM \"O|", &["SELECT * FROM \"Odd One\" "]),
            ("SELECT * FROM oth|", &["SELECT * FROM other."]),
            ("SELECT * FROM other.|", &["SELECT * FROM other.cup "]),
            ("DROP TABLE te|", &["DROP TABLE tea "]),
            ("DROP INDEX te|", &["DROP INDEX tea_pkey "]),
            ("SELECT na| FROM tea", &["SELECT name FROM tea", "SELECT namesend( FROM tea"]),
            ("SELECT | FROM tea", &["SELECT \"Price\" FROM tea", "SELECT id FROM tea", "SELECT name FROM tea"]),
            ("SELECT t.n| FROM tea t", &["SELECT t.name  FROM tea t"]),
            ("SELECT tea.n| FROM tea t", &[]),
            ("SELECT * FROM other.cup AS c WHERE c.s|", &["SELECT * FROM other.cup AS c WHERE c.size "]),
            ("SELECT * FROM tea WHERE tea.n|", &["SELECT * FROM tea WHERE tea.name "]),
            ("UPDATE tea SET id = 1 WHERE tea.n|", &["UPDATE tea SET id = 1 WHERE tea.name "]),
            (
                "SELECT * FROM tea_view v JOIN tea ON v.id = tea.i|",
                &["SELECT * FROM tea_view v JOIN tea ON v.id = tea.id "],
            ),
            ("SELECT * FROM ermine_st|", &["SELECT * FROM ermine_stat_log "]),
            ("SELECT flush| FROM ermine_stat_log", &["SELECT flushes  FROM ermine_stat_log"]),
            ("INSERT INTO tea (na|", &["INSERT INTO tea (name "]),
            ("UPDATE tea SET na|", &["UPDATE tea SET name "]),
            ("SET wo|", &["SET work_mem "]),
            ("SHOW time|", &["SHOW TimeZone "]),
            ("SHOW ermine.|", &["SHOW ermine.memory_limit", "SHOW ermine.wait_max"]),
            ("ALTER SYSTEM SET ermine.mem|", &["ALTER SYSTEM SET ermine.memory_limit "]),
            ("ALTER SYSTEM SET erm|", &["ALTER SYSTEM SET ermine.memory_limit", "ALTER SYSTEM SET ermine.wait_max"]),
            ("SET search_path TO pu|", &["SET search_path TO public "]),
            ("begin isolation le|", &["begin isolation level "]),
            ("begin isolation level rep|", &["begin isolation level repeatable read "]),
            ("SELECT * FROM tea GROUP |", &["SELECT * FROM tea GROUP BY "]),
            ("explain (ana|", &["explain (analyze "]),
            (
                "GRANT SELECT ON tea TO |",
                &[
                    "GRANT SELECT ON tea TO CURRENT_USER",
                    "GRANT SELECT ON tea TO PUBLIC",
                    "GRANT SELECT ON tea TO ann",
                    "GRANT SELECT ON tea TO reader",
                ],
            ),
            ("drop database |", &["drop database \"Old Shop\"", "drop database shop"]),
            ("alter database sh|", &["alter database shop "]),
            ("SELECT * FROM tea WHER|", &["SELECT * FROM tea WHERE "]),
            ("SELECT 'te|", &[]),
            ("-- SEL|", &[]),
            ("SELECT 1; SEL|", &["SELECT 1; SELECT "]),
            ("SELECT regr_sl|", &["SELECT regr_slope("]),
            ("SELECT jsonb_path_query_first_|", &["SELECT jsonb_path_query_first_tz("]),
            ("SELECT nth|", &["SELECT nth_value("]),
            ("SELECT pg_get_indexd|", &["SELECT pg_get_indexdef("]),
            ("SELECT coal|", &["SELECT coalesce("]),
            ("SELECT nextv|", &["SELECT nextval("]),
            ("SELECT extr|", &["SELECT extract("]),
        ] {
            assert_eq!(completed("", line), wanted, "{line}");
        }
        assert_eq!(completed("", "SELECT no|"), ["SELECT not", "SELECT notice_of(", "SELECT now("]);
        assert_eq!(completed("SELECT *\nFROM tea", "WHERE na|"), ["WHERE name", "WHERE namesend("]);
        assert_eq!(completed("SELECT '", "SEL|"), [""; 0]);
    }

    #[test]
    fn commands_are_completed() {
        for (line, wanted) in [
            ("\\|", &["\\d", "\\dt", "\\timing", "\\watch"][..]),
            ("\\ti|", &["\\timing "]),
            ("SELECT 1 \\wa|", &["SELECT 1 \\watch "]),
            ("\\d |", &["\\d \"Odd One\"", "\\d tea", "\\d tea_pkey", "\\d tea_view"]),
            ("\\d ermine_|", &["\\d ermine_stat_log "]),
            ("\\x a|", &["\\x auto "]),
            ("\\pset pager al|", &["\\pset pager always "]),
            ("\\copy te|", &["\\copy tea "]),
            ("\\copy tea fr|", &["\\copy tea from "]),
            ("\\copy tea from |", &["FILE"]),
            ("\\copy tea from '/tm|", &["FILE"]),
            ("\\i a|", &["FILE"]),
            ("\\nothing a|", &[]),
        ] {
            assert_eq!(completed("", line), wanted, "{line}");
        }
    }
}
