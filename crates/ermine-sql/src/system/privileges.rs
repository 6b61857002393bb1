//! Rights as PostgreSQL's tables show them: lists of texts `receiver=letters/grantor`, where a star behind a letter is
//! the option to grant the right.

use super::NULL;
use crate::{
    catalog::{
        Catalog,
        definition::{Grant, ObjectId},
        rights::{EVERYONE, Kind, Object, Rights},
    },
    error::{Result, SqlError, SqlState},
    system::Known,
    types::{Array, Environment, Scalar, SqlType, Value},
};

/// The rights of all roles and of the owner, for kinds of objects that have none here.
const OTHERS: [(&str, &str, &str); 8] = [
    ("f", "X", "X"),
    ("l", "U", "U"),
    ("L", "", "rw"),
    ("p", "", "sA"),
    ("t", "", "C"),
    ("F", "", "U"),
    ("S", "", "U"),
    ("c", "", ""),
];

/// Returns the kind of a letter.
fn kind_of(letter: &str) -> Option<Kind> {
    Some(match letter {
        "r" => Kind::Table,
        "s" => Kind::Sequence,
        "d" => Kind::Database,
        "n" => Kind::Schema,
        "T" => Kind::Type,
        _ => return None,
    })
}

/// `acldefault(kind, owner)`
pub(super) fn initial(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Text(letter), Value::Oid(owner)] = values else { return Ok(NULL) };
    let known = Known::new(catalog, environment);
    if let Some(kind) = kind_of(letter) {
        return Ok(list(known, &kind.initial(*owner)));
    }
    let Some((_, of_all, of_owner)) = OTHERS.iter().find(|(other, ..)| *other == &**letter) else {
        let message = format!("unrecognized object type abbreviation: {letter}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let owner = name(known, *owner);
    let items = [("", of_all), (&*owner, of_owner)].into_iter().filter(|(_, letters)| !letters.is_empty());
    Ok(texts(items.map(|(role, letters)| format!("{role}={letters}/{owner}"))))
}

fn texts(items: impl Iterator<Item = String>) -> Value {
    Value::array(Array::new(Scalar::Text, items.map(Value::from).collect()))
}

/// Returns the name of a role in a list.
fn name(known: Known<'_>, role: ObjectId) -> String {
    match known.catalog.role_name(role, known.environment) {
        _ if role == EVERYONE => String::new(),
        Some(name) if name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => name.to_owned(),
        Some(name) => format!("\"{}\"", name.replace('"', "\"\"")),
        None => role.to_string(),
    }
}

/// Returns a list of rights.
pub(super) fn list(known: Known<'_>, granted: &[Grant]) -> Value {
    texts(granted.iter().map(|grant| {
        let mut letters = String::new();
        for (right, letter, _) in Rights::ALL.iter().filter(|(right, ..)| grant.rights.has(*right)) {
            letters.push(*letter);
            if grant.options.has(*right) {
                letters.push('*');
            }
        }
        format!("{}={letters}/{}", name(known, grant.role), name(known, grant.grantor))
    }))
}

/// Returns the rights to an object as its table shows them: NULL if they are those from the beginning.
pub(super) fn of_object(known: Known<'_>, object: Object) -> Value {
    let stored = known.catalog.rights(object).and_then(|rights| rights.granted.as_ref());
    let is_public = known.catalog.schema(crate::catalog::PUBLIC) == Some(object.id) && object.kind == Kind::Schema;
    match stored {
        Some(granted) => list(known, granted),
        None if is_public => list(known, &known.catalog.granted(object)),
        None => NULL,
    }
}

/// Returns the rights to a column.
pub(super) fn of_column(known: Known<'_>, relation: ObjectId, number: i16) -> Value {
    let Ok(at) = usize::try_from(i32::from(number) - 1) else { return NULL };
    match known.catalog.granted_of_column(relation, at) {
        [] => NULL,
        granted => list(known, granted),
    }
}

/// The columns of `aclexplode`, and their types.
pub(crate) const EXPLODED: [(&str, SqlType); 4] = [
    ("grantor", SqlType::OID),
    ("grantee", SqlType::OID),
    ("privilege_type", SqlType::TEXT),
    ("is_grantable", SqlType::BOOL),
];

/// Returns one of the columns of `aclexplode`: a value for each right of a list.
pub(super) fn exploded(values: &[Value], catalog: &Catalog, environment: &Environment, column: usize) -> Result<Value> {
    let [Value::Array(items)] = values else { return Ok(NULL) };
    let scalar = EXPLODED[column].1.scalar;
    let mut found = Vec::new();
    for item in items.elements() {
        let Value::Text(item) = item else { continue };
        let (role, letters, grantor) = parse_item(item, catalog, environment)?;
        let mut letters = letters.chars().peekable();
        while let Some(letter) = letters.next() {
            let has_option = letters.next_if_eq(&'*').is_some();
            let known = Rights::ALL.iter().find(|(_, known, _)| *known == letter);
            let word = known.map_or("EXECUTE", |(.., word)| word);
            found.push(match column {
                0 => Value::Oid(grantor),
                1 => Value::Oid(role),
                2 => word.into(),
                _ => Value::Bool(has_option),
            });
        }
    }
    Ok(Value::array(Array::new(scalar, found)))
}

/// Splits an entry of a list into the receiver, the letters, and the grantor.
fn parse_item<'i>(
    item: &'i str,
    catalog: &Catalog,
    environment: &Environment,
) -> Result<(ObjectId, &'i str, ObjectId)> {
    let invalid = || {
        let message = format!("invalid input syntax for type aclitem: \"{item}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    };
    let number = |name: &str| {
        let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_owned(),
        };
        if name.is_empty() {
            return Ok(EVERYONE);
        }
        let known = catalog.role_number(&name, environment).or_else(|| name.parse().ok());
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        known.ok_or_else(missing)
    };
    // Names in quotes may have the signs that separate the parts.
    let mut in_quotes = false;
    let mut signs = item.char_indices().filter(|(_, letter)| {
        in_quotes ^= *letter == '"';
        !in_quotes && matches!(letter, '=' | '/')
    });
    let (equal, slash) = match (signs.next(), signs.next()) {
        (Some((equal, '=')), Some((slash, '/'))) => (equal, slash),
        _ => return Err(invalid()),
    };
    Ok((number(&item[..equal])?, &item[equal + 1..slash], number(&item[slash + 1..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_written() {
        let (catalog, environment) = (Catalog::default(), Environment::default());
        let parse = |item| parse_item(item, &catalog, &environment);
        assert_eq!(parse("=r*w/ermine").unwrap(), (0, "r*w", 10));
        assert_eq!(parse("\"ermine\"=a/pg_database_owner").unwrap(), (10, "a", 6171));
        assert_eq!(parse("99999=a/10").unwrap(), (99999, "a", 10));
        for wrong in ["", "r", "ermine=r", "ermine/r=ermine", "\"=r/ermine"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("nobody=r/ermine").unwrap_err().state(), SqlState::UNDEFINED_OBJECT);
    }
}
