//! Privileges as PostgreSQL's tables show them: none is ever granted or revoked here, so these are the initial ones.

use super::{NULL, server::role_name};
use crate::{
    catalog::Catalog,
    error::{Result, SqlError, SqlState},
    functions::quote_ident,
    system::Known,
    types::{Array, Environment, Scalar, Value},
};

/// The privileges of everyone and of the owner for a kind of object.
const INITIAL: [(&str, &str, &str); 13] = [
    ("c", "", ""),
    ("r", "", "arwdDxt"),
    ("s", "", "rwU"),
    ("d", "Tc", "CTc"),
    ("f", "X", "X"),
    ("l", "U", "U"),
    ("L", "", "rw"),
    ("n", "", "UC"),
    ("p", "", "sA"),
    ("t", "", "C"),
    ("F", "", "U"),
    ("S", "", "U"),
    ("T", "U", "U"),
];

/// `acldefault(kind, owner)`
pub(super) fn initial(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Text(kind), Value::Oid(owner)] = values else { return Ok(NULL) };
    let known = INITIAL.iter().find(|(known, ..)| *known == &**kind);
    let Some((_, of_all, of_owner)) = known else {
        let message = format!("unrecognized object type abbreviation: {kind}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let owner = match role_name(Known::new(catalog, environment), *owner) {
        Some(name) => quote_ident(name),
        None => owner.to_string(),
    };
    Ok(list(&[("", *of_all), (&owner, *of_owner)], &owner))
}

/// Returns a list of privileges: of each role its letters, all granted by `owner`.
pub(super) fn list(granted: &[(&str, &str)], owner: &str) -> Value {
    let held = granted.iter().filter(|(_, letters)| !letters.is_empty());
    let items = held.map(|(role, letters)| format!("{role}={letters}/{owner}").into());
    Value::array(Array::new(Scalar::Text, items.collect()))
}
