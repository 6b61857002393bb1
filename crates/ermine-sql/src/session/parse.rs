//! From text to trees.

use sqlparser::{
    ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Statement},
    dialect::PostgreSqlDialect,
    parser::{Parser, ParserError},
};

use crate::error::{Result, SqlError, SqlState};

/// Longer texts are refused.
const TEXT_MAX: usize = 64 << 20;
/// How deep a text may be nested.
const DEPTH: usize = 100;

/// The statements of a text.
pub(crate) fn statements(text: &str) -> Result<Vec<Statement>> {
    if text.len() > TEXT_MAX {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the query is too long"));
    }
    check_chains(text)?;
    // Whatever is to be vacuumed, and how: the engine does that by itself, and the grammar has one form of it only.
    let first = text.split_whitespace().next().unwrap_or_default();
    let text = if first.eq_ignore_ascii_case("vacuum") && !text.trim_end().trim_end_matches(';').contains(';') {
        "VACUUM"
    } else {
        text
    };
    let two_phase = two_phase(text);
    let text = two_phase.as_deref().unwrap_or(text);
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH);
    parser.try_with_sql(text).and_then(|mut parser| parser.parse_statements()).map_err(|error| failure(text, &error))
}

/// Statements about prepared transactions, which the grammar does not have, as calls of procedures that nobody can name otherwise.
fn two_phase(text: &str) -> Option<String> {
    let mut words = text.trim_start().splitn(3, char::is_whitespace);
    let (first, second, rest) = (words.next()?, words.next()?, words.next()?.trim());
    let name = match (&*first.to_ascii_lowercase(), &*second.to_ascii_lowercase()) {
        ("prepare", "transaction") => PREPARE_TRANSACTION,
        ("commit", "prepared") => COMMIT_PREPARED,
        ("rollback", "prepared") => ROLLBACK_PREPARED,
        _ => return None,
    };
    let gid = rest.trim_end_matches(|end: char| end == ';' || end.is_whitespace());
    let inside = gid.strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "");
    (!inside.contains('\'')).then(|| format!("CALL \"{name}\"({gid})"))
}

pub(super) const PREPARE_TRANSACTION: &str = "PREPARE TRANSACTION";
pub(super) const COMMIT_PREPARED: &str = "COMMIT PREPARED";
pub(super) const ROLLBACK_PREPARED: &str = "ROLLBACK PREPARED";

/// Of such a call, which of them it is, and the name of the transaction.
pub(super) fn of_two_phase(statement: &Statement) -> Option<(&str, String)> {
    let Statement::Call(call) = statement else { return None };
    let [ObjectNamePart::Identifier(name)] = &call.name.0[..] else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(gid)))] = &list.args[..] else { return None };
    let is_one = [PREPARE_TRANSACTION, COMMIT_PREPARED, ROLLBACK_PREPARED].contains(&&*name.value);
    if is_one { Some((&name.value, gid.value.clone().into_string()?)) } else { None }
}

/// An expression that the catalog keeps.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH);
    parser.try_with_sql(text).and_then(|mut parser| parser.parse_expr()).map_err(|error| failure(text, &error))
}

/// The name of an object, in a literal.
pub(crate) fn object_name(text: &str) -> Result<ObjectName> {
    let dialect = PostgreSqlDialect {};
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_object_name(false));
    parsed.map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid name syntax: \"{text}\"")))
}

/// Fails for texts that tie too many expressions or queries together: trees are as deep as chains are long, and so is the stack that
/// looks at them.
fn check_chains(text: &str) -> Result<()> {
    /// Words, and how many of them a statement may have.
    const CHAINS: [(&[&str], usize); 2] =
        [(&["and", "or"], 2000), (&["select", "union", "intersect", "except", "join"], 400)];
    const SHORT: usize = 2000;
    if text.len() < SHORT {
        return Ok(());
    }
    // Each statement by itself may have as many.
    let statements = text.matches(';').count() + 1;
    for (chain, most) in CHAINS {
        // What is in quotes is every other part.
        let parts = text.split('\'').step_by(2);
        let words =
            parts.flat_map(|part| part.split(|character: char| !character.is_ascii_alphanumeric() && character != '_'));
        let count = words.filter(|word| chain.iter().any(|known| word.eq_ignore_ascii_case(known))).count();
        if count > most * statements {
            let message = format!("a statement with more than {most} of {}", chain.join(", "));
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
    }
    Ok(())
}

fn failure(text: &str, error: &ParserError) -> SqlError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply");
        }
    };
    // The parser tells the place at the end of its message.
    let (what, place) = match message.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, Some(place)),
        None => (&**message, None),
    };
    let position = place.and_then(|place| {
        let (line, column) = place.split_once(", Column: ")?;
        let location =
            sqlparser::tokenizer::Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? };
        crate::bind::names::position(text, location)
    });
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {}", what.trim())).at(position)
}
