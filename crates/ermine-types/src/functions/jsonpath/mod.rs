//! Functions of SQL/JSON paths.

mod eval;

use std::ops::ControlFlow;

use self::eval::{Evaluation, Failure, path};
use super::{Table, arguments};
use crate::{
    Environment, Json, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

/// Evaluates a path, and passes its items on; returns false if an error was suppressed.
fn run(
    values: &[Value],
    is_silent: bool,
    environment: &Environment,
    each: &mut dyn FnMut(&Json) -> Result<ControlFlow<()>>,
) -> Result<bool> {
    let (Some(Value::Jsonb(root)), Some(Value::Jsonpath(text))) = (values.first(), values.get(1)) else {
        return Err(crate::operators::mismatch());
    };
    let variables = match values.get(2) {
        Some(Value::Jsonb(variables)) if !matches!(**variables, Json::Object(_)) => {
            let message = "\"vars\" argument is not an object";
            let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(detail));
        }
        Some(Value::Jsonb(variables)) => Some(&**variables),
        _ => None,
    };
    let is_silent = is_silent || values.get(3) == Some(&Value::Bool(true));
    let path = path(text)?;
    let evaluation = Evaluation { path: &path, root, variables, environment };
    match evaluation.run(&mut |item| Ok(each(item)?)) {
        Ok(_) => Ok(true),
        Err(Failure { is_silent: true, .. }) if is_silent => Ok(false),
        Err(Failure { error, .. }) => Err(error),
    }
}

/// Whether a path has any item; NULL: an error was suppressed.
fn exists(values: &[Value], is_silent: bool, environment: &Environment) -> Result<Value> {
    let is_strict = matches!(values.get(1), Some(Value::Jsonpath(text)) if text.starts_with("strict "));
    let mut is_found = false;
    let is_whole = run(values, is_silent, environment, &mut |_| {
        is_found = true;
        // In strict mode all items have to be free of errors.
        Ok(if is_strict { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(if is_whole { Value::Bool(is_found) } else { Value::Null })
}

/// Returns the only item, if it is a truth value.
fn matches(values: &[Value], is_silent: bool, environment: &Environment) -> Result<Value> {
    let mut all = Vec::new();
    let is_whole = run(values, is_silent, environment, &mut |item| {
        all.push(item.clone());
        // Two are as wrong as more.
        Ok(if all.len() > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    match &all[..] {
        _ if !is_whole => Ok(Value::Null),
        [Json::Bool(holds)] => Ok(Value::Bool(*holds)),
        [Json::Null] => Ok(Value::Null),
        _ if is_silent || values.get(3) == Some(&Value::Bool(true)) => Ok(Value::Null),
        _ => Err(SqlError::new(SqlState("22038"), "single boolean result is expected")),
    }
}

/// Returns all items; none if an error is suppressed.
pub(super) fn query(values: &[Value], environment: &Environment) -> Result<Vec<Json>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    let is_whole = run(values, false, environment, &mut |item| {
        bytes += size_of::<Json>() + item.text_bytes();
        environment.memory.check(bytes)?;
        all.push(item.clone());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(if is_whole { all } else { Vec::new() })
}

/// `@?`
pub(crate) fn path_exists(json: &Value, path: &Value, environment: &Environment) -> Result<Value> {
    exists(&[json.clone(), path.clone()], true, environment)
}

/// `@@`
pub(crate) fn path_matches(json: &Value, path: &Value, environment: &Environment) -> Result<Value> {
    matches(&[json.clone(), path.clone()], true, environment)
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let parameters = [T::JSONB, T::JSONPATH, T::JSONB, T::BOOL];
    // Those with `_tz` differ in the method `datetime` only.
    for name in ["jsonb_path_exists", "jsonb_path_exists_tz"] {
        table.add(name, &parameters, T::BOOL, |values, environment| exists(values, false, environment)).optional(2);
    }
    for name in ["jsonb_path_match", "jsonb_path_match_tz"] {
        table.add(name, &parameters, T::BOOL, |values, environment| matches(values, false, environment)).optional(2);
    }
    for name in ["jsonb_path_query_array", "jsonb_path_query_array_tz"] {
        table
            .add(name, &parameters, T::JSONB, |values, environment| {
                Ok(Value::json(Json::Array(query(values, environment)?).check_depth()?))
            })
            .optional(2);
    }
    for name in ["jsonb_path_query_first", "jsonb_path_query_first_tz"] {
        table
            .add(name, &parameters, T::JSONB, |values, environment| {
                Ok(query(values, environment)?.into_iter().next().map_or(Value::Null, Value::json))
            })
            .optional(2);
    }
    table.add(
        "jsonb_path_exists_opr",
        &parameters[..2],
        T::BOOL,
        |values, environment| arguments!(values, [json, path] => path_exists(json, path, environment)),
    );
    table.add(
        "jsonb_path_match_opr",
        &parameters[..2],
        T::BOOL,
        |values, environment| arguments!(values, [json, path] => path_matches(json, path, environment)),
    );
}

#[cfg(test)]
mod tests {
    use crate::{SqlType, functions::tests::call};

    #[test]
    fn paths_find_items() {
        let (json, path) = (SqlType::JSONB, SqlType::JSONPATH);
        for (document, text, expected) in [
            (r#"{"a": [1, 2, {"b": 3}]}"#, "$.a[*]", r#"[1, 2, {"b": 3}]"#),
            (r#"{"a": [1, 2, {"b": 3}]}"#, "$.a.b", "[3]"),
            (r#"{"a": [1, 2, 3]}"#, "$.a[*] ? (@ > 1)", "[2, 3]"),
            ("[1, 2, 3]", "$[last, 0 to 1]", "[3, 1, 2]"),
            ("[1, [2, {\"a\": 3}]]", "$.**{last}", "[1, 2, 3]"),
            ("[1, 2]", "$[*] + 1 > 2", "[null]"),
            ("{\"a\": 5}", "-$.a * 2", "[-10]"),
            ("\"abc\"", "$ like_regex \"^B\" flag \"i\"", "[false]"),
            ("[{\"a\": 1}, {\"b\": 2}]", "$[*].keyvalue().key", r#"["a", "b"]"#),
        ] {
            let found = call("jsonb_path_query_array", &[(json, document), (path, text)]);
            assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{document} {text}");
        }
        assert!(call("jsonb_path_query_array", &[(json, "{}"), (path, "strict $.a")]).is_err());
        assert_eq!(
            call("jsonb_path_exists", &[(json, "{}"), (path, "strict $.a"), (json, "{}"), (SqlType::BOOL, "t")])
                .unwrap(),
            "NULL"
        );
    }
}
