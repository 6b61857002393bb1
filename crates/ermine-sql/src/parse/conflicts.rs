//! Expressions of indexes, in CREATE INDEX and in ON CONFLICT; the grammar lacks the latter, and those of INCLUDE, which
//! PostgreSQL refuses with a reason.

use sqlparser::{
    ast::{CastKind, Expr, Ident},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

use crate::error::{Result, SqlError, SqlState};

/// The beginning of the name of a column that stands for an expression; its text follows.
const EXPRESSION: &str = "\u{1}expression ";

/// Replaces each expression in the list of ON CONFLICT by a column.
pub(super) fn mark_conflicts(tokens: &mut [TokenWithSpan]) {
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let next = |tokens: &[TokenWithSpan], from: usize| {
        (from..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
    };
    let mut at = 0;
    while at < tokens.len() {
        at += 1;
        if is(&tokens[at - 1].token, Keyword::ON)
            && let Some(word) = next(tokens, at).filter(|word| is(&tokens[*word].token, Keyword::CONFLICT))
            && let Some(open) = next(tokens, word + 1).filter(|open| tokens[*open].token == Token::LParen)
        {
            at = mark_list(tokens, open + 1);
        }
    }
}

/// Replaces the expressions of a list; returns the place behind it.
fn mark_list(tokens: &mut [TokenWithSpan], first: usize) -> usize {
    let (mut begin, mut depth) = (first, 0_usize);
    for at in first..tokens.len() {
        match tokens[at].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::Comma if depth == 0 => {
                mark_part(&mut tokens[begin..at]);
                if tokens[at].token == Token::RParen {
                    return at + 1;
                }
                begin = at + 1;
            }
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    tokens.len()
}

fn mark_part(tokens: &mut [TokenWithSpan]) {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    if tokens.iter().filter(|token| !is_blank(token)).count() < 2 {
        return;
    }
    let text: String = tokens.iter().map(|token| text_of(&token.token)).collect();
    for token in tokens.iter_mut() {
        token.token = Token::Whitespace(Whitespace::Space);
    }
    tokens[0].token = Token::make_word(&format!("{EXPRESSION}{text}"), Some('"'));
}

/// Returns the text from which a token was cut.
pub(super) fn text_of(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Token::Word(word) if word.quote_style.is_some() => format!("\"{}\"", word.value.replace('"', "\"\"")),
        Token::Whitespace(_) => " ".into(),
        token => token.to_string(),
    }
}

/// Returns the expression that a column of ON CONFLICT stands for.
pub(crate) fn conflict_expression(name: &Ident) -> Result<Option<Expr>> {
    let Some(text) = name.value.strip_prefix(EXPRESSION) else { return Ok(None) };
    let mut parser = super::parser(text)?;
    // The place of an error in it is none in the statement.
    let mut expr = parser.parse_expr().map_err(|error| super::failure(text, &error).at(None))?;
    if parser.peek_token_ref().token != Token::EOF {
        return Err(SqlError::unsupported("an operator class in ON CONFLICT"));
    }
    if let Expr::Collate { .. } = expr {
        return Err(SqlError::unsupported("a collation in ON CONFLICT"));
    }
    super::correct_precedence(&mut expr);
    check_index_part(&expr)?;
    Ok(Some(expr))
}

/// Fails for a column of INCLUDE that is more than a name.
pub(super) fn check_included(tokens: &[TokenWithSpan]) -> Result<()> {
    let words = tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let words: Vec<_> = words.skip_while(|token| !is(token, Keyword::CREATE)).collect();
    let begins = |four: &[&Token]| *four[0] == Token::RParen && is(four[1], Keyword::INCLUDE);
    let Some(at) = words.windows(4).position(|four| begins(four) && *four[2] == Token::LParen) else { return Ok(()) };
    let invalid = |message| Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    let expression = "expressions are not supported in included columns";
    for pair in words[at + 3..].windows(2) {
        match pair {
            [Token::RParen, _] => break,
            [Token::LParen, _] | [_, Token::LParen] => {
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, expression));
            }
            [_, next] if is(next, Keyword::ASC) || is(next, Keyword::DESC) => {
                return invalid("including column does not support ASC/DESC options");
            }
            [_, next] if is(next, Keyword::COLLATE) => return invalid("including column does not support a collation"),
            [_, next] if is(next, Keyword::NULLS) => {
                return invalid("including column does not support NULLS FIRST/LAST options");
            }
            [Token::Word(_), Token::Word(_)] => return invalid("including column does not support an operator class"),
            _ => {}
        }
    }
    Ok(())
}

/// Fails for an expression that PostgreSQL's grammar has in an index only in parentheses.
pub(crate) fn check_index_part(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Identifier(_)
        | Expr::Nested(_)
        | Expr::Function(_)
        | Expr::Cast { kind: CastKind::Cast, .. }
        | Expr::Extract { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Position { .. }
        | Expr::Overlay { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => Ok(()),
        _ => {
            let message = "syntax error: an expression in an index needs parentheses";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}
