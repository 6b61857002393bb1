//! Numbers by patterns of `9`, `0`, `.`, `,`, `S`, `MI`, `PL`, `PR`, `FM`, `TH`, and texts between.

use crate::{
    error::{Result, SqlError, SqlState},
    types::Numeric,
};

/// So many digits a pattern may have.
const DIGITS_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    /// 9 or 0.
    Digit,
    Point,
    Comma,
    /// `S`
    Sign,
    Minus,
    Plus,
    Ordinal {
        lower: bool,
    },
    Text(char),
}

#[derive(Default)]
struct Pattern {
    pieces: Vec<Piece>,
    /// Digits before the point, and behind it.
    whole: usize,
    fraction: usize,
    /// From which digit on, counted from the first, zeros are written.
    first_zero: Option<usize>,
    /// Up to which digit behind the point zeros are kept even without filling.
    last_zero: usize,
    is_bare: bool,
    has_sign: bool,
    has_minus: bool,
    in_brackets: bool,
}

fn syntax_error(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn parse(pattern: &str) -> Result<Pattern> {
    let mut parsed = Pattern::default();
    let mut rest = pattern;
    let mut has_point = false;
    while let Some(first) = rest.chars().next() {
        let two = rest.get(..2).unwrap_or("").to_ascii_uppercase();
        let length = match (first.to_ascii_uppercase(), two.as_str()) {
            (_, "FM") => {
                parsed.is_bare = true;
                2
            }
            (_, "MI") => {
                parsed.has_minus = true;
                parsed.pieces.push(Piece::Minus);
                2
            }
            (_, "PL") => {
                parsed.pieces.push(Piece::Plus);
                2
            }
            (_, "SG") => {
                parsed.has_sign = true;
                parsed.pieces.push(Piece::Sign);
                2
            }
            (_, "PR") => {
                parsed.in_brackets = true;
                2
            }
            (_, "TH") => {
                parsed.pieces.push(Piece::Ordinal { lower: first == 't' });
                2
            }
            (_, "RN" | "EE") | ('V', _) => {
                return Err(SqlError::unsupported(format!("the pattern \"{two}\"")));
            }
            ('9' | '0', _) => {
                if first == '0' && !has_point && parsed.first_zero.is_none() {
                    parsed.first_zero = Some(parsed.whole);
                }
                if has_point {
                    parsed.fraction += 1;
                    if first == '0' {
                        parsed.last_zero = parsed.fraction;
                    }
                } else {
                    parsed.whole += 1;
                }
                parsed.pieces.push(Piece::Digit);
                1
            }
            ('.' | 'D', _) => {
                if has_point {
                    return Err(syntax_error("multiple decimal points"));
                }
                has_point = true;
                parsed.pieces.push(Piece::Point);
                1
            }
            (',' | 'G', _) => {
                parsed.pieces.push(Piece::Comma);
                1
            }
            ('S', _) => {
                parsed.has_sign = true;
                parsed.pieces.push(Piece::Sign);
                1
            }
            ('"', _) => {
                let inner = &rest[1..];
                let end = inner.find('"').unwrap_or(inner.len());
                parsed.pieces.extend(inner[..end].chars().map(Piece::Text));
                (end + 2).min(rest.len())
            }
            _ => {
                parsed.pieces.push(Piece::Text(first));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    if parsed.whole + parsed.fraction > DIGITS_MAX {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "number pattern is too long"));
    }
    Ok(parsed)
}

/// `to_char` of a number.
pub(super) fn to_char(number: &Numeric, pattern: &str) -> Result<String> {
    let parsed = parse(pattern)?;
    let rounded = number.round(parsed.fraction as i32)?;
    let negative = rounded.signum() < 0;
    let text = rounded.absolute().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    // A lone zero before the point is not written unless the pattern wants it.
    let whole = if whole == "0" && parsed.fraction > 0 { "" } else { whole };
    let overflows = whole.len() > parsed.whole || !rounded.is_finite();
    let last = if parsed.is_bare && !overflows {
        fraction.trim_end_matches('0').len().max(parsed.last_zero)
    } else {
        parsed.fraction
    };
    let mut out = String::new();
    let mut sign_done = parsed.has_sign || parsed.has_minus;
    let sign = |out: &mut String, done: &mut bool| {
        if !*done {
            *done = true;
            match (negative, parsed.in_brackets) {
                (true, true) => out.push('<'),
                (true, false) => out.push('-'),
                (false, _) if !parsed.is_bare => out.push(' '),
                _ => {}
            }
        }
    };
    let missing = parsed.whole.saturating_sub(whole.len());
    let starts_at = parsed.first_zero.unwrap_or(usize::MAX).min(missing);
    let (mut before, mut behind) = (0, 0);
    let mut is_behind = false;
    // An S at the front stands right before the first digit.
    let leading_sign = parsed.pieces.iter().position(|piece| *piece == Piece::Sign)
        < parsed.pieces.iter().position(|piece| *piece == Piece::Digit);
    let mut pending_sign = parsed.has_sign && leading_sign;
    for piece in &parsed.pieces {
        match piece {
            Piece::Digit if !is_behind => {
                if before < starts_at {
                    out.push_str(if parsed.is_bare { "" } else { " " });
                } else {
                    sign(&mut out, &mut sign_done);
                    if std::mem::take(&mut pending_sign) {
                        out.push(if negative { '-' } else { '+' });
                    }
                    out.push(match before.checked_sub(missing) {
                        _ if overflows => '#',
                        None => '0',
                        Some(at) => whole.as_bytes().get(at).map_or('0', |digit| char::from(*digit)),
                    });
                }
                before += 1;
            }
            Piece::Digit => {
                if behind < last {
                    out.push(match fraction.as_bytes().get(behind) {
                        _ if overflows => '#',
                        Some(digit) => char::from(*digit),
                        None => '0',
                    });
                }
                behind += 1;
            }
            Piece::Point => {
                sign(&mut out, &mut sign_done);
                if std::mem::take(&mut pending_sign) {
                    out.push(if negative { '-' } else { '+' });
                }
                is_behind = true;
                out.push('.');
            }
            Piece::Comma if before > starts_at => out.push(','),
            Piece::Comma => out.push_str(if parsed.is_bare { "" } else { " " }),
            Piece::Sign if leading_sign => {}
            Piece::Sign => out.push(if negative { '-' } else { '+' }),
            Piece::Minus if negative => out.push('-'),
            Piece::Minus => out.push_str(if parsed.is_bare { "" } else { " " }),
            Piece::Plus if !negative => out.push('+'),
            Piece::Plus => out.push_str(if parsed.is_bare { "" } else { " " }),
            Piece::Ordinal { lower } => {
                let last_two: u32 = whole[whole.len().saturating_sub(2)..].parse().unwrap_or(0);
                let suffix = match (last_two, last_two % 10) {
                    (11..=13, _) => "th",
                    (_, 1) => "st",
                    (_, 2) => "nd",
                    (_, 3) => "rd",
                    _ => "th",
                };
                if !negative && parsed.fraction == 0 {
                    out.push_str(&if *lower { suffix.to_owned() } else { suffix.to_uppercase() });
                }
            }
            Piece::Text(character) => out.push(*character),
        }
    }
    if parsed.in_brackets {
        out.push_str(match negative {
            true => ">",
            false if parsed.is_bare => "",
            false => " ",
        });
    }
    Ok(out)
}

/// `to_number`
pub(super) fn to_number(text: &str, pattern: &str) -> Result<Numeric> {
    let parsed = parse(pattern)?;
    let mut number = String::new();
    let trimmed = text.trim();
    let negative = trimmed.contains('-') || (parsed.in_brackets && trimmed.starts_with('<'));
    let (mut whole, mut fraction, mut is_behind) = (0, 0, false);
    for character in trimmed.chars() {
        match character {
            '0'..='9' if !is_behind && whole < parsed.whole => {
                whole += 1;
                number.push(character);
            }
            '0'..='9' if is_behind && fraction < parsed.fraction => {
                fraction += 1;
                number.push(character);
            }
            '.' if !is_behind && parsed.pieces.contains(&Piece::Point) => {
                is_behind = true;
                number.push('.');
            }
            _ => {}
        }
    }
    if whole + fraction == 0 {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{text}\""),
        ));
    }
    let number: Numeric = number.parse()?;
    Ok(if negative { number.negate() } else { number })
}

#[cfg(test)]
mod tests {
    use crate::{functions::tests::call, types::SqlType};

    #[test]
    fn patterns_are_postgresqls() {
        for (number, pattern, expected) in [
            ("-125.8", "999D99S", "125.80-"),
            ("148.5", "999.999", " 148.500"),
            ("1485", "9,999", " 1,485"),
            ("12", "FM000", "012"),
            ("0.1", "0.9", " 0.1"),
            ("-0.1", "99.99", "  -.10"),
            ("485", "$999", "$ 485"),
            ("1234567", "999", " ###"),
            ("485", "FM9990.00", "485.00"),
            ("0", "999.99", "    .00"),
            ("-485", "999PR", "<485>"),
            ("12.4", "FM999.99", "12.4"),
            ("12", "99th", " 12th"),
            ("0.5", "FM99.00", ".50"),
            ("485", "S999", "+485"),
            ("-485", "MI999", "-485"),
            ("0", "9", " 0"),
            ("1234567.891", "FM9,999,999.00", "1,234,567.89"),
        ] {
            assert_eq!(
                call("to_char", &[(SqlType::NUMERIC, number), (SqlType::TEXT, pattern)]).unwrap(),
                expected,
                "{number} {pattern}"
            );
        }
        assert_eq!(
            call("to_number", &[(SqlType::TEXT, "-12,454.8"), (SqlType::TEXT, "S99G999D9")]).unwrap(),
            "-12454.8"
        );
    }
}
