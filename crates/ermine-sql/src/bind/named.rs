//! Arguments by name: `make_interval(days => 10)`.

use std::borrow::Cow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArgumentList, Ident, Value,
};

use crate::error::{Result, SqlError, SqlState};

/// The names of parameters, and the values of those that may be left out.
type Parameters = [(&'static str, Option<&'static str>)];

/// The functions whose parameters have names in PostgreSQL.
const NAMES: &[(&str, &Parameters)] = &[
    ("make_date", &[("year", None), ("month", None), ("day", None)]),
    ("make_time", &[("hour", None), ("min", None), ("sec", None)]),
    (
        "make_interval",
        &[
            ("years", Some("0")),
            ("months", Some("0")),
            ("weeks", Some("0")),
            ("days", Some("0")),
            ("hours", Some("0")),
            ("mins", Some("0")),
            ("secs", Some("0")),
        ],
    ),
    ("make_timestamp", MAKE_TIMESTAMP),
    ("make_timestamptz", MAKE_TIMESTAMP),
    ("jsonb_set", &[("jsonb_in", None), ("path", None), ("replacement", None), ("create_if_missing", Some("true"))]),
    ("jsonb_insert", &[("jsonb_in", None), ("path", None), ("replacement", None), ("insert_after", Some("false"))]),
    ("jsonb_path_exists", PATH),
    ("jsonb_path_match", PATH),
    ("jsonb_path_query", PATH),
    ("jsonb_path_query_array", PATH),
    ("jsonb_path_query_first", PATH),
    ("jsonb_path_exists_tz", PATH),
    ("jsonb_path_match_tz", PATH),
    ("jsonb_path_query_tz", PATH),
    ("jsonb_path_query_array_tz", PATH),
    ("jsonb_path_query_first_tz", PATH),
    ("parse_ident", &[("str", None), ("strict", Some("true"))]),
];

const MAKE_TIMESTAMP: &Parameters = &[
    ("year", None),
    ("month", None),
    ("mday", None),
    ("hour", None),
    ("min", None),
    ("sec", None),
    ("timezone", None),
];

const PATH: &Parameters = &[("target", None), ("path", None), ("vars", Some("{}")), ("silent", Some("false"))];

/// Returns arguments in the order of their parameters. An argument without a name is not behind one with a name.
pub(super) fn positional<'a>(function: &str, list: &'a FunctionArgumentList) -> Result<Cow<'a, FunctionArgumentList>> {
    let Some(first) = list.args.iter().position(|argument| named(argument).is_some()) else {
        return Ok(Cow::Borrowed(list));
    };
    let unknown = || {
        let message = format!("function {function} does not exist");
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
    };
    let Some((_, parameters)) = NAMES.iter().find(|(name, _)| *name == function) else {
        return Err(SqlError::unsupported(format_args!("named arguments of {function}")));
    };
    let mut places: Vec<Option<FunctionArg>> = list.args[..first].iter().cloned().map(Some).collect();
    if places.len() > parameters.len() {
        return Err(unknown());
    }
    places.resize(parameters.len(), None);
    for argument in &list.args[first..] {
        let (name, value) = named(argument)
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "positional argument cannot follow named argument"))?;
        let at = parameters.iter().position(|(own, _)| name.value.eq_ignore_ascii_case(own)).ok_or_else(unknown)?;
        if places[at].is_some() {
            let message = format!("argument name \"{}\" used more than once", name.value);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        places[at] = Some(FunctionArg::Unnamed(value));
    }
    let last = places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let usual = |(place, (_, usual)): (Option<FunctionArg>, &(&str, Option<&str>))| match (place, usual) {
        (Some(argument), _) => Ok(argument),
        (None, Some(usual)) => Ok(FunctionArg::Unnamed(FunctionArgExpr::Expr(default(usual)))),
        (None, None) => Err(unknown()),
    };
    let args = places.into_iter().take(last).zip(*parameters).map(usual).collect::<Result<_>>()?;
    Ok(Cow::Owned(FunctionArgumentList { args, ..list.clone() }))
}

/// Returns the name and the value of an argument with a name, behind `=>` or `:=`.
fn named(argument: &FunctionArg) -> Option<(&Ident, FunctionArgExpr)> {
    match argument {
        FunctionArg::Named {
            name,
            arg,
            operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
        } => Some((name, arg.clone())),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg,
            operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
        } => Some((name, arg.clone())),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Assignment, right })) => {
            match &**left {
                Expr::Identifier(name) => Some((name, FunctionArgExpr::Expr((**right).clone()))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn default(text: &str) -> Expr {
    let value = match text {
        "true" | "false" => Value::Boolean(text == "true"),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => Value::Number(text.to_owned(), false),
        text => Value::SingleQuotedString(text.to_owned()),
    };
    Expr::Value(value.into())
}
