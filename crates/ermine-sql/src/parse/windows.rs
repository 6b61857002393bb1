//! Parts of window frames that the parser lacks, rewritten into ones that it has.
//!
//! `EXCLUDE ..` is removed; a mark before the name of the window that is refined, or in the place of that name, says
//! what is excluded. A literal in quotes as an offset, which the parser takes for the beginning of an interval, is put in
//! parentheses with what follows it. A keyword that is the name of a window becomes a name.

use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::keywords::is_reserved;

/// The rows that a frame leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excluded {
    CurrentRow,
    Group,
    Ties,
}

/// No name has this character, which precedes the letter of what is excluded.
const MARK: char = '\0';

/// Returns what the mark before a name excludes, and the rest of the name if there is any.
pub(crate) fn exclusion_of(name: &Ident) -> (Option<Excluded>, Option<Ident>) {
    let Some(marked) = name.value.strip_prefix(MARK) else { return (None, Some(name.clone())) };
    let excluded = match marked.chars().next() {
        Some('c') => Excluded::CurrentRow,
        Some('g') => Excluded::Group,
        _ => Excluded::Ties,
    };
    let rest = marked.get(1..).filter(|rest| !rest.is_empty());
    (Some(excluded), rest.map(|rest| Ident { value: rest.to_owned(), ..name.clone() }))
}

/// A parenthesis that is open.
#[derive(Default)]
struct Level {
    /// The place of the token behind it.
    inside: usize,
    /// Whether it may begin the definition of a window.
    is_window: bool,
    /// Whether a frame has begun in it.
    has_frame: bool,
    /// Whether a literal that begins an offset has been put in parentheses, which are still open.
    is_literal_open: bool,
}

/// Rewrites EXCLUDE and literals in frames.
pub(super) fn rewrite_frames(tokens: &mut Vec<TokenWithSpan>) {
    use Keyword::{AND, AS, BETWEEN, EXCLUDE, FOLLOWING, GROUPS, OVER, PRECEDING, RANGE, ROWS};
    if !tokens.iter().any(|token| [OVER, PRECEDING, FOLLOWING, EXCLUDE].contains(&keyword(token))) {
        return;
    }
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut levels = vec![Level::default()];
    let mut rest = tokens.drain(..).filter(|token| !matches!(token.token, Token::Whitespace(_))).peekable();
    let mut before = Keyword::NoKeyword;
    while let Some(token) = rest.next() {
        let own = keyword(&token);
        let level = levels.last_mut().expect("the outermost level stays");
        match &token.token {
            Token::LParen => {
                if before == OVER
                    && let Some(next) = rest.peek_mut()
                {
                    make_name(&mut next.token);
                }
                let is_window = before == OVER || before == AS;
                levels.push(Level { inside: rewritten.len() + 1, is_window, ..Level::default() });
            }
            Token::RParen => {
                levels.pop();
                if levels.is_empty() {
                    levels.push(Level::default());
                }
            }
            Token::SingleQuotedString(_)
                if level.has_frame && [ROWS, RANGE, GROUPS, BETWEEN, AND].contains(&before) =>
            {
                rewritten.push(TokenWithSpan::new(Token::LParen, token.span));
                level.is_literal_open = true;
            }
            Token::Word(_) if level.is_window && [ROWS, RANGE, GROUPS].contains(&own) => level.has_frame = true,
            Token::Word(_) if level.is_literal_open && (own == PRECEDING || own == FOLLOWING) => {
                rewritten.push(TokenWithSpan::new(Token::RParen, token.span));
                level.is_literal_open = false;
            }
            Token::Word(_) if level.has_frame && own == EXCLUDE => {
                let mut words = Vec::new();
                while let Some(word) = rest.next_if(|next| matches!(next.token, Token::Word(_)) && words.len() < 2) {
                    words.push(word);
                }
                let excluded: Vec<String> = words.iter().map(|word| word.token.to_string().to_uppercase()).collect();
                let excluded: Vec<&str> = excluded.iter().map(|word| &**word).collect();
                let code = match (&excluded[..], rest.peek().map(|next| &next.token)) {
                    (["NO", "OTHERS"], Some(Token::RParen)) => None,
                    (["CURRENT", "ROW"], Some(Token::RParen)) => Some('c'),
                    (["GROUP"], Some(Token::RParen)) => Some('g'),
                    (["TIES"], Some(Token::RParen)) => Some('t'),
                    _ => {
                        rewritten.push(token);
                        rewritten.extend(words);
                        continue;
                    }
                };
                if let Some(code) = code {
                    mark(&mut rewritten, level.inside, code);
                }
                continue;
            }
            _ => {}
        }
        before = own;
        rewritten.push(token);
    }
    drop(rest);
    *tokens = rewritten;
}

/// Puts a mark before the name that the definition of a window begins with, or in its place.
fn mark(tokens: &mut Vec<TokenWithSpan>, inside: usize, code: char) {
    let mark = format!("{MARK}{code}");
    let Some(first) = tokens.get_mut(inside) else { return };
    match &mut first.token {
        Token::Word(word) if word.keyword == Keyword::NoKeyword => word.value.insert_str(0, &mark),
        _ => {
            let span = first.span;
            tokens.insert(inside, TokenWithSpan::new(Token::make_word(&mark, Some('"')), span));
        }
    }
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Makes a keyword that OVER may have as the name of a window a name: the parser takes no other word for one.
fn make_name(token: &mut Token) {
    use Keyword::{GROUPS, ORDER, PARTITION, RANGE, ROWS};
    if let Token::Word(word) = token
        && ![PARTITION, ORDER, ROWS, RANGE, GROUPS].contains(&word.keyword)
        && !is_reserved(&word.value)
    {
        word.keyword = Keyword::NoKeyword;
    }
}
