//! The place of a statement's end among its clauses, by its tokens: what may follow there.
//!
//! Statements that are being typed are incomplete, so no parser reads them; the words before the end decide.

use super::keywords::FOLLOWING;
use crate::input::split::Splitter;

/// A part of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// A keyword, name or number, as it was typed.
    Word(String),
    /// The content of `".."`.
    Name(String),
    /// A string.
    Literal,
    /// Any other character.
    Sign(char),
}

/// What may follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A statement.
    Statement,
    /// A relation whose kind, as `pg_class.relkind` has it, is among these.
    Relation(&'static str),
    /// A schema.
    Schema,
    /// A database.
    Database,
    /// A role.
    Role,
    /// A setting.
    Setting,
    /// The part of a setting behind this word and a dot.
    SettingPart(String),
    /// A part of a relation, alias or schema.
    Part(String),
    /// A column in a list.
    Column,
    /// An expression.
    Expression,
    /// A kind of object.
    Object,
    /// A word of the language; these are likely.
    Word(&'static [&'static str]),
    /// One of these words.
    Only(&'static [&'static str]),
    /// Nothing that is known, like a new name.
    Other,
}

/// Tables, views, and whatever else has rows.
pub const ROWS: &str = "rpvmf";

impl Token {
    /// Returns the word in capitals; empty for other tokens.
    fn word(&self) -> String {
        if let Self::Word(word) = self { word.to_uppercase() } else { String::new() }
    }

    /// Returns the name that the token stands for.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Word(word) => Some(word.to_lowercase()),
            Self::Name(name) => Some(name.clone()),
            Self::Literal | Self::Sign(_) => None,
        }
    }
}

/// The tokens of a text, and the name or word that its end is inside of, with the place where that begins.
pub struct Tokens {
    pub tokens: Vec<Token>,
    /// `None` inside of a string or comment, in which nothing can be completed.
    pub end: Option<usize>,
}

impl Tokens {
    /// Cuts a text into tokens. With `is_open`, the word at its end is being typed and is left out.
    pub fn of(text: &str, is_open: bool) -> Self {
        let mut tokens = Vec::new();
        let mut splitter = Splitter::default();
        let (mut at, mut begin, mut quote) = (0, 0, None);
        while at < text.len() {
            let (length, inside) = splitter.token(&text[at..]);
            let token = &text[at..at + length];
            match (quote, inside) {
                (None, None) if !token.trim().is_empty() => {
                    begin = at;
                    let is_word = token.starts_with(|first: char| first.is_alphanumeric() || first == '_');
                    tokens.extend(match token.chars().next() {
                        _ if is_word => Some(Token::Word(token.to_owned())),
                        sign => sign.map(Token::Sign),
                    });
                }
                (None, Some(kind)) => {
                    begin = at;
                    quote = Some(kind);
                }
                (Some(kind), None) => {
                    quote = None;
                    match kind {
                        '"' => tokens.push(Token::Name(text[begin + 1..at].replace("\"\"", "\""))),
                        '*' => {}
                        _ => tokens.push(Token::Literal),
                    }
                }
                _ => {}
            }
            at += length;
        }
        let is_word = matches!(tokens.last(), Some(Token::Word(word)) if text.ends_with(&**word));
        let end = match quote {
            Some('"') => Some(begin),
            Some(_) => None,
            None if is_open && is_word => {
                tokens.pop();
                Some(begin)
            }
            None => Some(text.len()),
        };
        // Statements that are complete do not matter.
        let from = tokens.iter().rposition(|token| *token == Token::Sign(';')).map_or(0, |last| last + 1);
        tokens.drain(..from);
        Self { tokens, end }
    }
}

/// Returns what may follow the tokens.
pub fn place(tokens: &[Token]) -> Place {
    let at = |index: usize| tokens.get(index).map_or(String::new(), Token::word);
    let back = |count: usize| tokens.len().checked_sub(count).map_or(String::new(), at);
    let (first, last) = (at(0), back(1));
    if tokens.is_empty() || (first == "EXPLAIN" && matches!(&*last, "EXPLAIN" | "ANALYZE" | "VERBOSE")) {
        return Place::Statement;
    }
    if let [outer @ .., before, Token::Sign('.')] = tokens {
        let is_setting = place(outer) == Place::Setting;
        return before.name().map_or(Place::Other, if is_setting { Place::SettingPart } else { Place::Part });
    }
    if let Some(place) = list_place(tokens, &first) {
        return place;
    }
    // The kind of object is named before IF EXISTS, ONLY and CONCURRENTLY.
    let object = match &*last {
        "EXISTS" if back(2) == "IF" => back(3),
        "ONLY" | "CONCURRENTLY" => back(2),
        _ => last.clone(),
    };
    object_place(tokens, &first, &at(1), &object).unwrap_or_else(|| clause_place(tokens, &first, &last))
}

/// Returns what may follow in a list that has its own words: options, modes, roles, schemas.
fn list_place(tokens: &[Token], first: &str) -> Option<Place> {
    let words: Vec<_> = tokens.iter().map(Token::word).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let is_listed = matches!(tokens.last(), Some(Token::Sign(',')));
    Some(match (first, &words[..]) {
        ("EXPLAIN", [_, "", ..]) if is_in_options(tokens) => match tokens.last()? {
            Token::Sign('(' | ',') => Place::Only(&OPTIONS_OF_EXPLAIN),
            Token::Sign(')') => Place::Statement,
            _ if words.ends_with(&["FORMAT"]) => Place::Only(&["TEXT", "JSON"]),
            Token::Word(word) if OPTIONS_OF_EXPLAIN.contains(&&*word.to_uppercase()) => Place::Only(&["ON", "OFF"]),
            _ => return None,
        },
        (_, [.., "ISOLATION", "LEVEL"]) => Place::Only(&LEVELS),
        ("BEGIN", ["BEGIN"] | ["BEGIN", "TRANSACTION" | "WORK"])
        | ("START", ["START", "TRANSACTION"])
        | ("SET", ["SET", "TRANSACTION"] | ["SET", "SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) => {
            Place::Word(&MODES)
        }
        ("SET" | "ALTER", [.., "SEARCH_PATH", "TO" | ""]) => Place::Schema,
        ("SET" | "ALTER", _) if is_listed && words.contains(&"SEARCH_PATH") => Place::Schema,
        ("SET", ["SET", "ROLE"] | ["SET", "SESSION", "AUTHORIZATION"])
        | ("ALTER" | "DROP", [_, "ROLE" | "USER"])
        | ("DROP", [_, "ROLE" | "USER", "IF", "EXISTS"])
        | ("DROP" | "REASSIGN", [_, "OWNED", "BY"] | [_, "OWNED", "BY", _, "TO"])
        | ("ALTER", [.., "OWNER", "TO"])
        | ("GRANT", [.., "TO"])
        | ("REVOKE", [.., "FROM"]) => Place::Role,
        ("GRANT" | "REVOKE", _) if is_listed && has_grantees(first, &words) => Place::Role,
        ("DROP", ["DROP", "ROLE" | "USER", ..]) if is_listed => Place::Role,
        ("GRANT", ["GRANT"]) | ("REVOKE", ["REVOKE"]) => Place::Word(&PRIVILEGES),
        ("GRANT", [.., last]) if has_grantees(first, &words) && !matches!(*last, "" | "WITH" | "GRANT") => {
            Place::Word(&["WITH GRANT OPTION"])
        }
        _ => return None,
    })
}

/// Whether the tokens of an EXPLAIN end in its options in parentheses, or right behind them.
fn is_in_options(tokens: &[Token]) -> bool {
    let is_query = tokens.get(2).is_some_and(|token| matches!(&*token.word(), "SELECT" | "VALUES" | "WITH"));
    let end = tokens.iter().position(|token| *token == Token::Sign(')'));
    tokens[1] == Token::Sign('(') && !is_query && end.is_none_or(|end| end + 1 == tokens.len())
}

/// Whether the roles of GRANT or REVOKE have begun.
fn has_grantees(first: &str, words: &[&str]) -> bool {
    words.contains(if first == "GRANT" { &"TO" } else { &"FROM" })
}

const OPTIONS_OF_EXPLAIN: [&str; 9] =
    ["ANALYZE", "BUFFERS", "COSTS", "FORMAT", "SETTINGS", "SUMMARY", "TIMING", "VERBOSE", "WAL"];

const LEVELS: [&str; 4] = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"];

const MODES: [&str; 4] = ["ISOLATION LEVEL", "READ ONLY", "READ WRITE", "DEFERRABLE"];

const PRIVILEGES: [&str; 9] =
    ["ALL", "SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "USAGE", "EXECUTE"];

/// Returns what may follow a word behind which objects of some kind are named.
fn object_place(tokens: &[Token], first: &str, second: &str, object: &str) -> Option<Place> {
    let is_changed = matches!(first, "DROP" | "ALTER" | "COMMENT" | "REINDEX" | "REFRESH" | "TRUNCATE" | "LOCK");
    let is_short = tokens.len() == 1;
    Some(match (object, first) {
        ("SET" | "RESET" | "SHOW", "SET" | "RESET" | "SHOW") => Place::Setting,
        ("LOCAL" | "SESSION", "SET") if tokens.len() == 2 => Place::Setting,
        ("SET" | "RESET", "ALTER") if matches!(second, "SYSTEM" | "ROLE" | "USER" | "DATABASE") => Place::Setting,
        ("TO", "SET") => Place::Word(&["DEFAULT", "ON", "OFF"]),
        ("CREATE" | "ALTER" | "DROP", _) if is_short => Place::Object,
        ("ON", "INSERT") => Place::Only(&["CONFLICT"]),
        ("ON", "COMMENT") => Place::Object,
        ("TABLE", _) if is_changed || is_short => Place::Relation("rp"),
        ("VIEW", _) if is_changed => Place::Relation("vm"),
        ("INDEX", _) if is_changed => Place::Relation("iI"),
        ("SEQUENCE", _) if is_changed => Place::Relation("S"),
        ("SCHEMA", _) if first != "CREATE" => Place::Schema,
        ("DATABASE", _) if is_changed || matches!(first, "GRANT" | "REVOKE") => Place::Database,
        ("FROM" | "TO", "COPY") => Place::Word(&["STDIN", "STDOUT"]),
        ("FROM", _) if tokens.len() > 1 && tokens[tokens.len() - 2].word() == "DISTINCT" => Place::Expression,
        ("FROM" | "JOIN" | "INTO" | "REFERENCES", _) => Place::Relation(ROWS),
        ("COPY" | "VACUUM" | "ANALYZE" | "TRUNCATE" | "LOCK" | "UPDATE", _) if is_short => Place::Relation(ROWS),
        ("ON", "CREATE" | "GRANT" | "REVOKE") => Place::Relation(ROWS),
        ("USING", "DELETE") => Place::Relation(ROWS),
        _ => return None,
    })
}

/// Returns what may follow in the clause that the tokens end in.
fn clause_place(tokens: &[Token], first: &str, last: &str) -> Place {
    let clause = clause(tokens);
    match (tokens.last(), clause) {
        (Some(Token::Sign(',')), Some("FROM")) => Place::Relation(ROWS),
        (Some(Token::Sign(',')), Some("TABLE")) if first != "CREATE" => Place::Relation(ROWS),
        (Some(Token::Sign('(' | ',')), Some("INTO" | "COPY")) => Place::Column,
        (Some(Token::Sign('=')), _) if first == "SET" => Place::Word(&["DEFAULT", "ON", "OFF"]),
        (Some(Token::Sign(sign)), _) if *sign != ')' => Place::Expression,
        _ if first == "SET" => Place::Word(&["TO"]),
        _ if last == "SET" => Place::Column,
        _ if EXPECTANT.contains(&last) => Place::Expression,
        _ if matches!(last, "TABLE" | "VIEW" | "INDEX" | "SCHEMA" | "DATABASE" | "AS") => Place::Other,
        (_, Some("TABLE")) if first == "CREATE" => Place::Word(&[]),
        _ => Place::Word(following(clause)),
    }
}

/// Words behind which an expression begins.
const EXPECTANT: [&str; 17] = [
    "SELECT",
    "DISTINCT",
    "WHERE",
    "ON",
    "HAVING",
    "BY",
    "AND",
    "OR",
    "NOT",
    "RETURNING",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "LIKE",
    "BETWEEN",
    "USING",
];

/// Returns the word of the innermost clause that the end is in.
fn clause(tokens: &[Token]) -> Option<&'static str> {
    let mut depth = 0usize;
    for token in tokens.iter().rev() {
        match token {
            Token::Sign(')') => depth += 1,
            // Lists in parentheses belong to the clause before them.
            Token::Sign('(') => depth = depth.saturating_sub(1),
            Token::Word(_) if depth == 0 => {
                let word = token.word();
                let known = FOLLOWING.iter().map(|(clause, _)| *clause).chain(["RETURNING"]);
                if let Some(clause) = known.into_iter().find(|clause| *clause == word) {
                    return Some(clause);
                }
            }
            _ => {}
        }
    }
    None
}

fn following(clause: Option<&str>) -> &'static [&'static str] {
    FOLLOWING.iter().find(|(known, _)| Some(*known) == clause).map_or(&[], |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_tokens() {
        let word = |text: &str| Token::Word(text.into());
        let of = |text: &str, is_open| {
            let Tokens { tokens, end } = Tokens::of(text, is_open);
            (tokens, end)
        };
        assert_eq!(of("select a.na", true), (vec![word("select"), word("a"), Token::Sign('.')], Some(9)));
        assert_eq!(of("select a ", true), (vec![word("select"), word("a")], Some(9)));
        assert_eq!(
            of("a;b 'x''y' \"C d\"", true).0,
            [word("b"), Token::Literal, Token::Literal, Token::Name("C d".into())]
        );
        assert_eq!(of("a \"Te", true), (vec![word("a")], Some(2)));
        assert_eq!(of("/* a */ b -- c\nd", false).0, [word("b"), word("d")]);
        for text in ["a 'b", "$$ a", "-- a", "/* a", "e'\\'"] {
            assert_eq!(of(text, true).1, None, "{text}");
        }
        assert_eq!(of("", true), (vec![], Some(0)));
    }

    #[test]
    fn places_are_known() {
        let of = |text: &str| place(&Tokens::of(text, true).tokens);
        for text in ["", "sel", "SELECT 1; ", "EXPLAIN ANALYZE "] {
            assert_eq!(of(text), Place::Statement, "{text}");
        }
        for text in [
            "SELECT * FROM ",
            "SELECT * FROM te",
            "INSERT INTO ",
            "UPDATE ",
            "DELETE FROM ",
            "SELECT 1 FROM a x, ",
            "SELECT (SELECT 1 FROM a WHERE b) FROM (SELECT 1 WHERE c) d, ",
            "SELECT * FROM a LEFT JOIN ",
            "CREATE INDEX ON ",
            "GRANT SELECT ON ",
            "TRUNCATE ",
            "COPY ",
            "VACUUM ",
            "SELECT 1 FROM ONLY ",
        ] {
            assert_eq!(of(text), Place::Relation(ROWS), "{text}");
        }
        for text in [
            "SELECT ",
            "SELECT a, ",
            "SELECT count(",
            "SELECT a FROM t WHERE ",
            "SELECT a FROM t WHERE a = ",
            "SELECT a FROM t ORDER BY ",
            "SELECT 1 FROM a JOIN b ON ",
            "UPDATE t SET a = ",
            "DELETE FROM t WHERE a IS \
             DISTINCT FROM ",
            "INSERT INTO t VALUES (",
            "EXPLAIN (COSTS OFF) SELECT count(",
            "EXPLAIN (SELECT a, ",
        ] {
            assert_eq!(of(text), Place::Expression, "{text}");
        }
        for (text, wanted) in [
            ("DROP TABLE ", Place::Relation("rp")),
            ("DROP TABLE IF EXISTS ", Place::Relation("rp")),
            ("DROP INDEX CONCURRENTLY ", Place::Relation("iI")),
            ("ALTER VIEW ", Place::Relation("vm")),
            ("DROP SCHEMA ", Place::Schema),
            ("DROP DATABASE ", Place::Database),
            ("DROP DATABASE IF EXISTS ", Place::Database),
            ("ALTER DATABASE sh", Place::Database),
            ("CREATE DATABASE ", Place::Other),
            ("GRANT CONNECT ON DATABASE ", Place::Database),
            ("GRANT ", Place::Word(&PRIVILEGES)),
            ("GRANT SELECT ON t TO ", Place::Role),
            ("GRANT SELECT ON t TO ann, ", Place::Role),
            ("GRANT SELECT, ", Place::Expression),
            ("REVOKE ALL ON t FROM ", Place::Role),
            ("ALTER TABLE t OWNER TO ", Place::Role),
            ("DROP USER ", Place::Role),
            ("SET ROLE ", Place::Role),
            ("SET search_path TO ", Place::Schema),
            ("SET LOCAL search_path = a, ", Place::Schema),
            ("SHOW ermine.", Place::SettingPart("ermine".into())),
            ("ALTER SYSTEM SET ermine.mem", Place::SettingPart("ermine".into())),
            ("SET LOCAL ermine.", Place::SettingPart("ermine".into())),
            ("BEGIN ISOLATION LEVEL ", Place::Only(&LEVELS)),
            ("SET TRANSACTION ISOLATION LEVEL rep", Place::Only(&LEVELS)),
            ("START TRANSACTION ", Place::Word(&MODES)),
            ("EXPLAIN (", Place::Only(&OPTIONS_OF_EXPLAIN)),
            ("EXPLAIN (ANALYZE, ", Place::Only(&OPTIONS_OF_EXPLAIN)),
            ("EXPLAIN (COSTS ", Place::Only(&["ON", "OFF"])),
            ("EXPLAIN (FORMAT ", Place::Only(&["TEXT", "JSON"])),
            ("EXPLAIN (FORMAT JSON, ANALYZE OFF) ", Place::Statement),
            ("SET ", Place::Setting),
            ("SET LOCAL wo", Place::Setting),
            ("SHOW ", Place::Setting),
            ("ALTER SYSTEM SET ", Place::Setting),
            ("SET work_mem = ", Place::Word(&["DEFAULT", "ON", "OFF"])),
            ("CREATE ", Place::Object),
            ("CREATE TABLE ", Place::Other),
            ("CREATE TABLE a (b ", Place::Word(&[])),
            ("SELECT a.", Place::Part("a".into())),
            ("SELECT \"A b\".", Place::Part("A b".into())),
            ("INSERT INTO t (", Place::Column),
            ("INSERT INTO t (a, ", Place::Column),
            ("UPDATE t SET ", Place::Column),
            ("INSERT INTO t VALUES (1) ON ", Place::Only(&["CONFLICT"])),
            ("UPDATE t ", Place::Word(&["SET"])),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
        let Place::Word(words) = of("SELECT * FROM tea ") else { panic!() };
        assert!(words.contains(&"WHERE"));
    }
}
