//! Names of the catalog.

use std::io;

use crate::statements::{Ends, Failure, Reply, Standing, Statements};

/// The names that statements may have.
#[derive(Default, Debug)]
pub struct Names {
    pub relations: Vec<Relation>,
    pub schemas: Vec<String>,
    pub databases: Vec<String>,
    pub roles: Vec<String>,
    /// Functions that are not the system's.
    pub functions: Vec<String>,
    pub settings: Vec<String>,
}

/// A table, view, index or sequence.
#[derive(Default, Debug)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    /// As `pg_class.relkind` has it.
    pub kind: char,
    /// Whether it is found without its schema.
    pub is_visible: bool,
    /// The columns in their order; empty for indexes.
    pub columns: Vec<String>,
}

/// All names in one text, so that a server is asked once.
const QUERIES: &str = "\
SELECT n.nspname, c.relname, c.relkind, pg_catalog.pg_table_is_visible(c.oid), a.attname FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_attribute a ON \
    a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I') \
    ORDER BY n.nspname, c.relname, a.attnum;
SELECT nspname FROM pg_catalog.pg_namespace ORDER BY 1;
SELECT datname FROM pg_catalog.pg_database ORDER BY 1;
SELECT rolname FROM pg_catalog.pg_roles WHERE rolname !~ '^pg_' ORDER BY 1;
SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1;
SELECT name FROM pg_catalog.pg_settings ORDER BY 1";

impl Names {
    /// Reads the names, if the session has no open transaction: a failure would end it, and waiting for another
    /// transaction would hold it up.
    pub fn read(statements: &mut dyn Statements) -> Option<Self> {
        if statements.standing() != Standing::Idle {
            return None;
        }
        Self::query(statements).ok()
    }

    fn query(statements: &mut dyn Statements) -> Result<Self, Box<Failure>> {
        let mut replies = Vec::new();
        statements.run(QUERIES, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut replies)?;
        let mut tables = replies.into_iter().filter_map(|reply| match reply {
            Reply::Done { table, .. } => table.map(|table| table.rows),
            Reply::CopiedOut { .. } | Reply::Notice(_) => None,
        });
        let mut next = || tables.next().unwrap_or_default().into_iter();
        let mut relations = Vec::<Relation>::new();
        for row in next() {
            let mut values = row.into_iter();
            let mut value = || values.next().flatten();
            let (schema, name) = (value().unwrap_or_default(), value().unwrap_or_default());
            let kind = value().and_then(|kind| kind.chars().next()).unwrap_or_default();
            let is_visible = value().as_deref() == Some("t");
            let column = value();
            match relations.last_mut().filter(|last| last.schema == schema && last.name == name) {
                Some(last) => last.columns.extend(column),
                None => {
                    relations.push(Relation { schema, name, kind, is_visible, columns: column.into_iter().collect() })
                }
            }
        }
        let [schemas, databases, roles, functions, settings] =
            std::array::from_fn(|_| next().flatten().flatten().collect());
        relations.extend(of_system());
        Ok(Self { relations, schemas, databases, roles, functions, settings })
    }

    /// Returns the relation of a name, whose schema may be left out if it is visible.
    pub fn relation(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        self.relations.iter().find(|relation| {
            relation.name == name && schema.map_or(relation.is_visible, |schema| relation.schema == schema)
        })
    }
}

/// Returns the tables of the system, which `pg_class` does not list: those of this version, also on a server.
fn of_system() -> impl Iterator<Item = Relation> {
    ermine_sql::system_tables().map(|(schema, name, columns)| Relation {
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: 'v',
        is_visible: schema == "pg_catalog",
        columns: columns.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ermine_sql::SqlDatabase;

    use super::*;
    use crate::local::Local;

    #[test]
    fn names_are_read_outside_of_transactions() {
        let database = ermine::Database::open_in_memory(ermine::Options::default()).unwrap();
        let mut local = Local::new(&SqlDatabase::open(Arc::new(database)).unwrap(), "ann", "shop", "memory");
        let run = |local: &mut Local, text| {
            local.run(text, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut Vec::new())
        };
        let text =
            "CREATE SCHEMA other; CREATE TABLE other.cup (a int); CREATE TABLE tea (id int PRIMARY KEY, name text)";
        run(&mut local, text).unwrap();
        let names = Names::read(&mut local).unwrap();
        let tea = names.relation(None, "tea").unwrap();
        assert_eq!((&*tea.schema, tea.kind, &*tea.columns), ("public", 'r', &["id".to_owned(), "name".to_owned()][..]));
        assert_eq!(names.relation(None, "tea_pkey").map(|index| (index.kind, index.columns.len())), Some(('i', 0)));
        assert!(names.relation(None, "cup").is_none() && names.relation(Some("other"), "cup").is_some());
        assert!(names.schemas.contains(&"other".to_owned()) && names.settings.contains(&"work_mem".to_owned()));
        assert!(names.databases.contains(&"shop".to_owned()) && names.roles.contains(&"ann".to_owned()));
        let activity = names.relation(None, "pg_stat_activity").unwrap();
        assert!(activity.columns.contains(&"state".to_owned()) && names.relation(None, "ermine_stat_log").is_some());
        assert!(names.relation(Some("information_schema"), "tables").is_some());
        run(&mut local, "BEGIN").unwrap();
        assert!(Names::read(&mut local).is_none());
        run(&mut local, "SELECT 1/0").unwrap_err();
        assert!(Names::read(&mut local).is_none());
        assert_eq!(local.standing(), Standing::Failed);
    }
}
