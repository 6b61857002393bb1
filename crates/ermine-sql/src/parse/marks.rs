//! Tokens that are inserted, or left out, where the parser would mistake a statement for another one. Each function
//! goes through the tokens once: texts may be long.

use sqlparser::{
    ast::{AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart},
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Whitespace},
};

/// Inserts tokens, each before the token at its place or behind the last one, in the order of the places.
pub(super) fn put_in(tokens: &mut Vec<TokenWithSpan>, mut places: Vec<(usize, Token)>) {
    if places.is_empty() {
        return;
    }
    places.sort_by_key(|(at, _)| *at);
    let mut places = places.into_iter().peekable();
    let mut all = Vec::with_capacity(tokens.len() + places.len());
    for (at, token) in tokens.drain(..).enumerate() {
        while let Some((_, mark)) = places.next_if(|(place, _)| *place == at) {
            all.push(TokenWithSpan::new(mark, token.span));
        }
        all.push(token);
    }
    if let Some(end) = all.last().map(|token| token.span) {
        all.extend(places.map(|(_, mark)| TokenWithSpan::new(mark, end)));
    }
    *tokens = all;
}

pub(super) fn is_word(token: &Token, wanted: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if wanted.contains(&word.keyword))
}

/// The name of a column that stands for all columns of a row, `(row).*`, which the grammar lacks.
const ALL_COLUMNS: &str = "\u{1}all columns";

/// Returns the row, and the place of the star, of an expression that stands for all columns of a row.
pub(crate) fn starred(expr: &Expr) -> Option<(Expr, Location)> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let (last, before) = access_chain.split_last()?;
    match last {
        AccessExpr::Dot(Expr::Identifier(name)) if name.value == ALL_COLUMNS => {
            let row = match before {
                [] => (**root).clone(),
                before => Expr::CompoundFieldAccess { root: root.clone(), access_chain: before.to_vec() },
            };
            Some((row, name.span.start))
        }
        _ => None,
    }
}

/// Leaves out the parentheses of `(t).*`: the grammar knows all columns of a source without them only. Replaces other
/// stars behind parentheses by the name of a column.
pub(super) fn unwrap_rows(tokens: &mut Vec<TokenWithSpan>) {
    let (mut needless, mut stars, mut last) = (Vec::new(), Vec::new(), [None; 5]);
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if *token == Token::Mul
            && let [Some(before), Some(open), Some(name), Some(close), Some(dot)] = last
            && [open, close, dot].map(|at: usize| &tokens[at].token) == [&Token::LParen, &Token::RParen, &Token::Period]
            && matches!(tokens[name].token, Token::Word(_))
            && (tokens[before].token == Token::Comma
                || is_word(&tokens[before].token, &[Keyword::SELECT, Keyword::DISTINCT, Keyword::RETURNING]))
        {
            needless.extend([open, close]);
        } else if *token == Token::Mul
            && let [.., Some(close), Some(dot)] = last
            && [close, dot].map(|at: usize| &tokens[at].token) == [&Token::RParen, &Token::Period]
        {
            stars.push(at);
        }
        last.rotate_left(1);
        last[4] = Some(at);
    }
    for at in stars {
        tokens[at].token = Token::make_word(ALL_COLUMNS, Some('"'));
    }
    if needless.is_empty() {
        return;
    }
    let (mut needless, mut places) = (needless.into_iter().peekable(), 0..);
    tokens.retain(|_| places.next().is_none_or(|at: usize| needless.next_if_eq(&at).is_none()));
}

/// The names of columns that stand for OVERRIDING SYSTEM VALUE and OVERRIDING USER VALUE, which the grammar lacks, at the
/// end of an INSERT's list of columns.
pub(crate) const OVERRIDING: [&str; 2] = ["\u{1}overriding system value", "\u{1}overriding user value"];

/// Replaces OVERRIDING {SYSTEM | USER} VALUE by a column.
pub(super) fn mark_overriding(tokens: &mut Vec<TokenWithSpan>) {
    let is_named = |at: usize, name: &str| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    let next = |at: usize| (at + 1..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let (mut places, mut needless, mut before) = (Vec::new(), Vec::new(), None::<usize>);
    for at in 0..tokens.len() {
        if matches!(tokens[at].token, Token::Whitespace(_)) {
            continue;
        }
        if is_named(at, "overriding")
            && let Some(which) = next(at)
            && let Some(value) = next(which).filter(|value| is_named(*value, "value"))
            && let Some(mark) = ["system", "user"].iter().position(|name| is_named(which, name))
        {
            let mark = Token::make_word(OVERRIDING[mark], Some('"'));
            match before {
                Some(last) if tokens[last].token == Token::RParen => {
                    places.extend([(last, Token::Comma), (last, mark)]);
                }
                _ => places.extend([(at, Token::LParen), (at, mark), (at, Token::RParen)]),
            }
            needless.extend([at, which, value]);
        }
        before = Some(at);
    }
    // A blank keeps its place, so that the places of others stay.
    for at in needless {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    put_in(tokens, places);
}

/// Completes MERGE, whose grammar lacks two forms: INSERT DEFAULT VALUES becomes a list of one DEFAULT, because all other
/// columns have theirs, too, and a source that is a join gets parentheses.
pub(super) fn mark_merges(tokens: &mut Vec<TokenWithSpan>) {
    use Keyword::{CASE, DEFAULT, END, INSERT, INTO, JOIN, MERGE, ON, THEN, USING, VALUES, WHEN};
    let words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.map(|(at, token)| (at, &token.token)).collect();
    let is = |word: Option<&(usize, &Token)>, wanted| word.is_some_and(|(_, token)| is_word(token, &[wanted]));
    let (mut places, mut needless) = (Vec::new(), Vec::new());
    // Of the MERGE whose source comes next: the parentheses and CASEs around a word, where the source begins, where the
    // last ON is, and whether there is a JOIN.
    let mut depth = 0_usize;
    let mut source: Option<(Option<usize>, Option<usize>, bool)> = None;
    for (number, (at, token)) in words.iter().enumerate() {
        let next = |ahead: usize| words.get(number + ahead);
        let is_insert = is_word(token, &[THEN]) && is(next(1), INSERT) && is(next(2), DEFAULT) && is(next(3), VALUES);
        if let (true, Some((default, word)), Some((values, _))) = (is_insert, next(2), next(3)) {
            places.extend([Token::LParen, (*word).clone(), Token::RParen].map(|token| (values + 1, token)));
            needless.push(*default);
        }
        match (&mut source, *token) {
            (source, token) if is_word(token, &[MERGE]) && is(next(1), INTO) => {
                (*source, depth) = (Some((None, None, false)), 0);
            }
            (None, _) => {}
            (_, Token::LParen) => depth += 1,
            (_, Token::RParen) => depth = depth.saturating_sub(1),
            (_, token) if is_word(token, &[CASE]) => depth += 1,
            (_, token) if depth > 0 => depth -= usize::from(is_word(token, &[END])),
            (Some((begins, ..)), token) if is_word(token, &[USING]) => _ = begins.get_or_insert(at + 1),
            (Some((_, on, _)), token) if is_word(token, &[ON]) => *on = Some(*at),
            (Some((_, _, is_join)), token) if is_word(token, &[JOIN]) => *is_join = true,
            (Some((begins, on, is_join)), token) if is_word(token, &[WHEN]) => {
                if let (Some(begins), Some(on), true) = (*begins, *on, *is_join) {
                    places.extend([(begins, Token::LParen), (on, Token::RParen)]);
                }
                source = None;
            }
            _ => {}
        }
    }
    for at in needless {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    put_in(tokens, places);
}

/// The name of the function that stands for CURRENT OF, which the grammar lacks; its argument is the cursor's name.
pub(crate) const CURRENT_OF: &str = "\u{1}current of";

/// Replaces WHERE CURRENT OF name by a call of a function.
pub(super) fn mark_current_of(tokens: &mut Vec<TokenWithSpan>) {
    let words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.map(|(at, token)| (at, &token.token)).collect();
    let mut found = Vec::new();
    for four in words.windows(4) {
        let [(_, before), (at, Token::Word(current)), (of, behind), (name, Token::Word(_))] = four else { continue };
        let is_current = current.quote_style.is_none() && current.value.eq_ignore_ascii_case("current");
        if is_current && is_word(before, &[Keyword::WHERE]) && is_word(behind, &[Keyword::OF]) {
            found.push((*at, *of, *name));
        }
    }
    let mut places = Vec::new();
    for (at, of, name) in found {
        tokens[at].token = Token::make_word(CURRENT_OF, Some('"'));
        tokens[of].token = Token::LParen;
        places.push((name + 1, Token::RParen));
    }
    put_in(tokens, places);
}

/// Returns the name of the cursor, if a condition is CURRENT OF.
pub(crate) fn current_of(condition: &Expr) -> Option<&Ident> {
    let Expr::Function(function) = condition else { return None };
    let [ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(cursor)))] if name.value == CURRENT_OF => {
            Some(cursor)
        }
        _ => None,
    }
}

/// Marks lists of values that begin with a query, `IN ((SELECT ..), ..)` or `IN ((SELECT ..) + 1)`, which the grammar
/// takes for a query. COALESCE of one value is that value: it is put around the query.
pub(super) fn mark_lists(tokens: &mut Vec<TokenWithSpan>) {
    use Keyword::{EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
    let mut places = Vec::new();
    // Where a parenthesis was opened, and whether it contains a query that is the first of a list.
    let mut open: Vec<(usize, bool)> = Vec::new();
    // The first and last place of a query of that kind that has just ended.
    let mut ended: Option<(usize, usize)> = None;
    let mut before: [&Token; 3] = [&Token::EOF; 3];
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if let Some((from, to)) = ended.take()
            && *token != Token::RParen
            && !is_word(token, &[UNION, INTERSECT, EXCEPT, ORDER, LIMIT, OFFSET, FETCH, FOR])
        {
            places.extend([(from, Token::make_word("coalesce", None)), (from, Token::LParen), (to, Token::RParen)]);
        }
        match token {
            Token::LParen => open.push((at, false)),
            Token::RParen => {
                if let Some((from, true)) = open.pop() {
                    ended = Some((from, at));
                }
            }
            query if is_word(query, &[Keyword::SELECT, Keyword::WITH, Keyword::VALUES]) => {
                if is_word(before[0], &[Keyword::IN])
                    && before[1..] == [&Token::LParen; 2]
                    && let Some((_, is_first)) = open.last_mut()
                {
                    *is_first = true;
                }
            }
            _ => {}
        }
        before = [before[1], before[2], token];
    }
    put_in(tokens, places);
}

/// Marks subscripts with operators other than those of arithmetic, `a[b | c]`, which the grammar does not accept, by
/// putting them in parentheses.
pub(super) fn mark_subscripts(tokens: &mut Vec<TokenWithSpan>) {
    let mut places = Vec::new();
    // Where a bracket or parenthesis was opened, whether it contains such an operator, and whether it is no subscript.
    let mut open: Vec<(usize, bool, bool)> = Vec::new();
    let mut follows_value = false;
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        match token {
            Token::Whitespace(_) => continue,
            Token::LBracket => open.push((at, false, !follows_value)),
            Token::LParen => open.push((at, false, true)),
            Token::RBracket | Token::RParen => {
                if let Some((from, true, false)) = open.pop() {
                    places.extend([(from + 1, Token::LParen), (at, Token::RParen)]);
                }
            }
            Token::Colon | Token::Comma => {
                open.last_mut().into_iter().for_each(|(.., is_other)| *is_other = true);
            }
            Token::Pipe
            | Token::Ampersand
            | Token::Sharp
            | Token::Tilde
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::StringConcat => open.last_mut().into_iter().for_each(|(_, has_operator, _)| *has_operator = true),
            _ => {}
        }
        follows_value = match token {
            Token::Word(word) => word.keyword != Keyword::ARRAY,
            token => matches!(token, Token::RParen | Token::RBracket),
        };
    }
    put_in(tokens, places);
}

/// Completes `TRIM (BOTH FROM ..)`, which the grammar accepts only with the characters to trim: blanks.
pub(super) fn mark_trims(tokens: &mut Vec<TokenWithSpan>) {
    let mut places = Vec::new();
    let mut before: [&Token; 3] = [&Token::EOF; 3];
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if is_word(token, &[Keyword::FROM]) {
            let opening = match is_word(before[2], &[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING]) {
                true => [before[0], before[1]],
                false => [before[1], before[2]],
            };
            if is_word(opening[0], &[Keyword::TRIM]) && *opening[1] == Token::LParen {
                places.push((at, Token::SingleQuotedString(" ".into())));
            }
        }
        before = [before[1], before[2], token];
    }
    put_in(tokens, places);
}

/// Rewrites SET LOCAL SESSION AUTHORIZATION, which the grammar lacks, as that of the setting.
pub(super) fn rewrite_local_authorization(tokens: &mut [TokenWithSpan]) {
    if !tokens.iter().any(|token| is_word(&token.token, &[Keyword::AUTHORIZATION])) {
        return;
    }
    let words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.map(|(at, token)| (at, &token.token)).collect();
    let wanted = [Keyword::SET, Keyword::LOCAL, Keyword::SESSION, Keyword::AUTHORIZATION];
    let is_wanted =
        |four: &&[(usize, &Token)]| four.iter().zip(wanted).all(|((_, token), word)| is_word(token, &[word]));
    let found: Vec<_> = words.windows(4).filter(is_wanted).map(|four| (four[2].0, four[3].0)).collect();
    for (name, to) in found {
        tokens[name].token = Token::make_word("session_authorization", None);
        tokens[to].token = Token::make_word("TO", None);
    }
}

/// Gives the functions in FROM with a list of column definitions the name that the grammar requires, which is that of the
/// function: `f() AS (a integer)`.
pub(super) fn name_definitions(tokens: &mut Vec<TokenWithSpan>) {
    const QUERIES: [Keyword; 8] = [
        Keyword::SELECT,
        Keyword::VALUES,
        Keyword::WITH,
        Keyword::TABLE,
        Keyword::INSERT,
        Keyword::UPDATE,
        Keyword::DELETE,
        Keyword::MERGE,
    ];
    // The words before the parentheses that are open, and before the one that was closed last.
    let (mut open, mut closed): (Vec<Option<usize>>, Option<usize>) = (Vec::new(), None);
    let mut before: [Option<usize>; 3] = [None; 3];
    let mut places = Vec::new();
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if let ([Some(end), Some(name), Some(list)], Token::Word(word)) = (before, token)
            && [&tokens[end].token, &tokens[list].token] == [&Token::RParen, &Token::LParen]
            && is_word(&tokens[name].token, &[Keyword::AS])
            && !(word.quote_style.is_none() && QUERIES.contains(&word.keyword))
            && let Some(Token::Word(function)) = closed.map(|at| &tokens[at].token)
        {
            places.push((list, Token::make_word(&function.value, function.quote_style.or(Some('"')))));
        }
        match token {
            Token::LParen => {
                let called = before[2].filter(|at| matches!(tokens[*at].token, Token::Word(_)));
                // The one before a list stays.
                if !called.is_some_and(|at| is_word(&tokens[at].token, &[Keyword::AS])) {
                    closed = None;
                }
                open.push(called);
            }
            Token::RParen => closed = open.pop().flatten(),
            _ => {}
        }
        before = [before[1], before[2], Some(at)];
    }
    put_in(tokens, places);
}

/// Rewrites constants that are typed by a name which the grammar does not know as a type, `mood 'ok'`, as casts. Options
/// of COPY, the body of DO and the name in COMMIT PREPARED are texts behind names, too.
pub(super) fn cast_constants(tokens: &mut Vec<TokenWithSpan>) {
    let is_name = |token: &Token| match token {
        Token::Word(word) => word.quote_style.is_some() || matches!(word.keyword, Keyword::NoKeyword | Keyword::NAME),
        _ => false,
    };
    let is_text = |token: &Token| matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    let (mut places, mut texts) = (Vec::new(), Vec::new());
    // The last three tokens, and whether the statement has no such constants.
    let (mut before, mut is_other) = ([None::<usize>; 3], false);
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if *token == Token::SemiColon {
            before = [None; 3];
            continue;
        }
        if before[2].is_none() {
            is_other = is_word(token, &[Keyword::COMMIT, Keyword::COPY, Keyword::DO, Keyword::ROLLBACK]);
        }
        if let [_, None, Some(first)] = before
            && is_word(&tokens[first].token, &[Keyword::CREATE, Keyword::ALTER])
        {
            // Its options have texts.
            is_other = is_word(token, &[Keyword::DATABASE]);
        }
        if let [schema, dot, Some(name)] = before
            && !is_other
            && is_text(token)
            && is_name(&tokens[name].token)
        {
            let is_qualified = dot.is_some_and(|dot| tokens[dot].token == Token::Period);
            let from = schema.filter(|_| is_qualified).unwrap_or(name);
            places.extend([(from, token.clone()), (from, Token::DoubleColon)]);
            texts.push(at);
        }
        before = [before[1], before[2], Some(at)];
    }
    for at in texts {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    put_in(tokens, places);
}

/// Rewrites constants `interval(3) '1 second'` as casts: the grammar knows no digits before a constant.
pub(super) fn cast_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let (mut places, mut texts) = (Vec::new(), Vec::new());
    let mut last = [None::<usize>; 4];
    for (at, TokenWithSpan { token, .. }) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        if matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_))
            && let [Some(interval), Some(open), Some(digits), Some(close)] = last
            && is_word(&tokens[interval].token, &[Keyword::INTERVAL])
            && [open, close].map(|at: usize| &tokens[at].token) == [&Token::LParen, &Token::RParen]
            && matches!(tokens[digits].token, Token::Number(..))
        {
            places.extend([(interval, token.clone()), (interval, Token::DoubleColon)]);
            texts.push(at);
        }
        last.rotate_left(1);
        last[3] = Some(at);
    }
    for at in texts {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    put_in(tokens, places);
}
