//! The content of a database: `\d` and its relatives, by queries of the catalog, so that they are the same in process
//! and on a server.

use std::io;

use crate::{
    output::Frame,
    shell::Shell,
    statements::{Failure, Table},
};

/// The kind of description that a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Relations of these kinds, as `pg_class.relkind` has them.
    Relations(&'static str),
    /// Relations of a name, with their columns and indexes.
    Details,
    Schemas,
    Databases,
    Roles,
}

impl Kind {
    /// Returns the kind that a command asks for.
    pub fn of(command: &str) -> Option<Self> {
        Some(match command {
            "d" => Self::Details,
            "dt" => Self::Relations("'r','p'"),
            "di" => Self::Relations("'i','I'"),
            "ds" => Self::Relations("'S'"),
            "dn" => Self::Schemas,
            "l" => Self::Databases,
            "du" => Self::Roles,
            _ => return None,
        })
    }
}

/// Shows a description; with a pattern, only of the objects that it matches.
pub fn describe(shell: &mut Shell, kind: Kind, pattern: Option<&str>) -> io::Result<Result<(), Box<Failure>>> {
    match (kind, pattern) {
        (Kind::Details, Some(pattern)) => details(shell, pattern),
        (Kind::Details, None) => relations(shell, "'r','p','v','m','S','f'", None),
        (Kind::Relations(kinds), pattern) => relations(shell, kinds, pattern),
        (Kind::Schemas, pattern) => {
            let condition = match pattern {
                Some(pattern) => fits("nspname", &Pattern::new(pattern).name),
                None => "nspname !~ '^pg_' AND nspname <> 'information_schema'".to_owned(),
            };
            let text = format!("SELECT nspname AS \"Name\" FROM pg_catalog.pg_namespace WHERE {condition} ORDER BY 1");
            listed(shell, "List of schemas", &text)
        }
        (Kind::Databases, _) => {
            listed(shell, "List of databases", "SELECT datname AS \"Name\" FROM pg_catalog.pg_database ORDER BY 1")
        }
        (Kind::Roles, _) => listed(
            shell,
            "List of roles",
            "SELECT rolname AS \"Role name\" FROM pg_catalog.pg_roles WHERE rolname !~ '^pg_' ORDER BY 1",
        ),
    }
}

fn listed(shell: &mut Shell, title: &str, query: &str) -> io::Result<Result<(), Box<Failure>>> {
    match shell.query(query) {
        Ok(table) => shell.table(&table, &Frame { title: Some(title.to_owned()), footers: None }).map(Ok),
        Err(failure) => Ok(Err(failure)),
    }
}

/// Kinds of relations by their letters, in SQL.
const KIND: &str = "CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' \
    WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'I' THEN 'partitioned index' WHEN 'S' THEN 'sequence' \
    WHEN 'f' THEN 'foreign table' END";

fn relations(shell: &mut Shell, kinds: &str, pattern: Option<&str>) -> io::Result<Result<(), Box<Failure>>> {
    let has_indexes = kinds.contains('i');
    let (column, join) = if has_indexes {
        let join =
            "JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid JOIN pg_catalog.pg_class t ON t.oid = i.indrelid";
        (", t.relname AS \"Table\"", join)
    } else {
        ("", "")
    };
    let text = format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", {KIND} AS \"Type\"{column} \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace {join} \
         WHERE c.relkind IN ({kinds}) AND {} ORDER BY 1, 2",
        Pattern::condition(pattern)
    );
    let table = match shell.query(&text) {
        Ok(table) => table,
        Err(failure) => return Ok(Err(failure)),
    };
    if table.rows.is_empty() {
        return Ok(Err(missing(pattern)));
    }
    shell.table(&table, &Frame { title: Some("List of relations".to_owned()), footers: None }).map(Ok)
}

fn missing(pattern: Option<&str>) -> Box<Failure> {
    Failure::of_shell(match pattern {
        Some(pattern) => format!("Did not find any relation named \"{pattern}\"."),
        None => "Did not find any relations.".to_owned(),
    })
}

fn details(shell: &mut Shell, pattern: &str) -> io::Result<Result<(), Box<Failure>>> {
    let found = shell.query(&format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, {KIND} FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {} ORDER BY 2, 3",
        Pattern::condition(Some(pattern))
    ));
    let found = match found {
        Ok(found) if found.rows.is_empty() => return Ok(Err(missing(Some(pattern)))),
        Ok(found) => found,
        Err(failure) => return Ok(Err(failure)),
    };
    for row in &found.rows {
        let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let relation = Relation { oid: text(0), schema: text(1), name: text(2), letter: text(3), kind: text(4) };
        let (table, footers) = match relation.look(shell) {
            Ok(looked) => looked,
            Err(failure) => return Ok(Err(failure)),
        };
        let Relation { schema, name, kind, .. } = &relation;
        let title = format!("{}{} \"{schema}.{name}\"", kind[..1].to_uppercase(), &kind[1..]);
        shell.table(&table, &Frame { title: Some(title), footers: Some(footers) })?;
    }
    Ok(Ok(()))
}

/// A relation that was found.
struct Relation {
    oid: String,
    schema: String,
    name: String,
    letter: String,
    kind: String,
}

impl Relation {
    /// Returns the relation's columns, and the lines below them.
    fn look(&self, shell: &mut Shell) -> Result<(Table, Vec<String>), Box<Failure>> {
        let oid = &self.oid;
        if self.letter == "S" {
            let (schema, name) = (literal(&self.schema), literal(&self.name));
            return Ok((shell.query(&format!("SELECT {schema} AS \"Schema\", {name} AS \"Name\""))?, Vec::new()));
        }
        let columns = "SELECT a.attname AS \"Column\", pg_catalog.format_type(a.atttypid, a.atttypmod) AS \"Type\"";
        let from = format!(
            "FROM pg_catalog.pg_attribute a WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY \
             a.attnum"
        );
        if self.letter == "i" {
            let columns = shell.query(&format!("{columns} {from}"))?;
            let texts = "SELECT 'for table \"' || n.nspname || '.' || t.relname || '\"' FROM pg_catalog.pg_index i \
                JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
                t.relnamespace";
            return Ok((columns, texts_of(shell, &format!("{texts} WHERE i.indexrelid = {oid}"))?));
        }
        let columns = shell.query(&format!(
            "{columns}, CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS \"Nullable\", \
             CASE WHEN a.attidentity = 'a' THEN 'generated always as identity' \
             WHEN a.attidentity = 'd' THEN 'generated by default as identity' ELSE coalesce((SELECT \
             pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
             WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum), '') END AS \"Default\" {from}"
        ))?;
        let indexes = format!(
            "SELECT '    \"' || c.relname || '\"' || CASE WHEN i.indisprimary THEN ' PRIMARY KEY,' WHEN i.indisunique \
             THEN ' UNIQUE,' ELSE '' END || split_part(pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), ' USING', 2) \
             FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             WHERE i.indrelid = {oid} ORDER BY i.indisprimary DESC, c.relname"
        );
        let checks = format!(
            "SELECT '    \"' || conname || '\" ' || pg_catalog.pg_get_constraintdef(oid, true) \
             FROM pg_catalog.pg_constraint WHERE conrelid = {oid} AND contype = 'c' ORDER BY conname"
        );
        let mut footers = Vec::new();
        for (title, query) in [("Indexes:", indexes), ("Check constraints:", checks)] {
            let texts = texts_of(shell, &query)?;
            if !texts.is_empty() {
                footers.push(title.to_owned());
                footers.extend(texts);
            }
        }
        Ok((columns, footers))
    }
}

/// Returns the values of a query of texts.
fn texts_of(shell: &mut Shell, query: &str) -> Result<Vec<String>, Box<Failure>> {
    Ok(shell.query(query)?.rows.into_iter().flatten().flatten().collect())
}

/// A pattern for names, as in psql: `*` and `?` are wildcards, a dot separates schema and name, text in double quotes
/// is literal, and the rest is folded to lower case. Stored as regular expressions.
#[derive(PartialEq, Eq, Debug)]
struct Pattern {
    schema: Option<String>,
    name: String,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let (mut schema, mut name) = (None, String::new());
        let mut is_quoted = false;
        for character in text.chars() {
            match character {
                '"' => is_quoted = !is_quoted,
                '*' if !is_quoted => name.push_str(".*"),
                '?' if !is_quoted => name.push('.'),
                '.' if !is_quoted => schema = Some(std::mem::take(&mut name)),
                _ if character.is_alphanumeric() || character == '_' => {
                    if is_quoted {
                        name.push(character);
                    } else {
                        name.extend(character.to_lowercase());
                    }
                }
                _ => name.extend(['\\', character]),
            }
        }
        Self { schema, name }
    }

    /// Returns the condition that relations `c` of schemas `n` match; without a pattern, that they are not the
    /// system's.
    fn condition(pattern: Option<&str>) -> String {
        let Some(pattern) = pattern.map(Self::new) else {
            return "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'".to_owned();
        };
        let name = fits("c.relname", &pattern.name);
        pattern.schema.map_or(name.clone(), |schema| format!("{} AND {name}", fits("n.nspname", &schema)))
    }
}

/// Returns the condition that the whole of a column matches a regular expression.
fn fits(column: &str, expression: &str) -> String {
    format!("{column} ~ {}", literal(&format!("^({expression})$")))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_regular_expressions() {
        let pattern = |text| {
            let Pattern { schema, name } = Pattern::new(text);
            (schema, name)
        };
        assert_eq!(pattern("Tea"), (None, "tea".into()));
        assert_eq!(pattern("\"Tea.A*\""), (None, "Tea\\.A\\*".into()));
        assert_eq!(pattern("pub*.t?_a$"), (Some("pub.*".into()), "t._a\\$".into()));
        assert_eq!(Pattern::condition(Some("s.it's")), "n.nspname ~ '^(s)$' AND c.relname ~ '^(it\\''s)$'",);
    }
}
