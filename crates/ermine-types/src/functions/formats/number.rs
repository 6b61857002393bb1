//! Numbers in patterns of `9`, `0`, `.`, `,`, `S`, `MI`, `PL`, `SG`, `PR`, `V`, `EEEE`, `RN`, `FM`, `TH`, and literal
//! texts.
//!
//! The digits of a pattern are places, which the number fills from the point to both sides. The output at a place
//! depends on its position:
//!
//! ```text
//!   places   9 9 0 9 . 9 9        the first digits that the number does not have are blanks (nothing with FM),
//!   number       1 2 . 5 0        from the first 0 of the pattern on they are zeros;
//!   written    _ 0 1 2 . 5 0      the sign stands before the first that is neither, or behind the last if so asked
//! ```

use crate::{
    Numeric,
    error::{Result, SqlError, SqlState},
};

/// The maximum number of digits in a pattern.
const DIGITS_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Piece {
    Nine,
    Zero,
    Point,
    /// `,` and `G`
    Comma,
    Currency,
    /// `S`: written with the digits.
    Sign,
    Minus,
    Plus,
    /// `SG`
    AnySign,
    Ordinal {
        lower: bool,
    },
    Roman {
        lower: bool,
    },
    /// It changes the number, or how other pieces are written.
    Silent,
    Text(char),
}

/// The side on which `S` puts the sign.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    Before,
    Behind,
}

#[derive(Default, Debug)]
struct Pattern {
    pieces: Vec<Piece>,
    /// The number of digits before the point, and behind it.
    whole: usize,
    fraction: usize,
    /// The number of digits behind `V`.
    shift: usize,
    has_point: bool,
    has_shift: bool,
    /// The place of the first zero before the point, from 1 on; 0: there is none.
    first_zero: usize,
    /// The place of the last zero.
    last_zero: usize,
    is_bare: bool,
    /// Whether there is a `B`, which changes nothing.
    has_blank: bool,
    sign: Option<Side>,
    /// The number of digits before `S`.
    sign_at: usize,
    has_minus: bool,
    has_plus: bool,
    in_brackets: bool,
    is_scientific: bool,
    is_roman: bool,
}

fn syntax_error(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

const WORDS: [(&str, Piece); 20] = [
    (",", Piece::Comma),
    (".", Piece::Point),
    ("0", Piece::Zero),
    ("9", Piece::Nine),
    ("B", Piece::Silent),
    ("D", Piece::Point),
    ("EEEE", Piece::Silent),
    ("FM", Piece::Silent),
    ("G", Piece::Comma),
    ("L", Piece::Currency),
    ("MI", Piece::Minus),
    ("PL", Piece::Plus),
    ("PR", Piece::Silent),
    ("RN", Piece::Roman { lower: false }),
    ("SG", Piece::AnySign),
    ("SP", Piece::Silent),
    ("S", Piece::Sign),
    ("TH", Piece::Ordinal { lower: false }),
    ("V", Piece::Silent),
    ("C", Piece::Silent),
];

fn parse(pattern: &str) -> Result<Pattern> {
    let mut parsed = Pattern::default();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let found =
            WORDS.iter().find(|(word, _)| rest.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word)));
        // The case of an ordinal's letters is that of the output; other words mean the same in both cases.
        if let Some((word, piece)) = found {
            let piece = match *piece {
                Piece::Ordinal { .. } if &rest[..2] == "th" => Piece::Ordinal { lower: true },
                Piece::Roman { .. } if &rest[..2] == "rn" => Piece::Roman { lower: true },
                piece => piece,
            };
            parsed.add(word, piece)?;
            rest = &rest[word.len()..];
            continue;
        }
        rest = match first {
            '"' => {
                // Up to the next quote; a character behind a backslash is literal.
                let mut characters = rest[1..].chars();
                loop {
                    match characters.next() {
                        None | Some('"') => break,
                        Some('\\') => parsed.pieces.extend(characters.next().map(Piece::Text)),
                        Some(character) => parsed.pieces.push(Piece::Text(character)),
                    }
                }
                characters.as_str()
            }
            '\\' if rest[1..].starts_with('"') => {
                parsed.pieces.push(Piece::Text('"'));
                &rest[2..]
            }
            other => {
                parsed.pieces.push(Piece::Text(other));
                &rest[other.len_utf8()..]
            }
        };
    }
    if parsed.whole + parsed.fraction + parsed.shift > DIGITS_MAX {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "number pattern is too long"));
    }
    Ok(parsed)
}

impl Pattern {
    fn add(&mut self, word: &str, piece: Piece) -> Result<()> {
        let not_together =
            |one: &str, others: &str| Err(syntax_error(&format!("cannot use {one} and {others} together")));
        let all_signs = "\"PL\"/\"MI\"/\"SG\"/\"PR\"";
        if self.is_scientific && word != "EEEE" {
            return Err(syntax_error("\"EEEE\" must be the last pattern used"));
        }
        match word {
            "9" | "0" if self.in_brackets => {
                return Err(syntax_error(&format!("\"{word}\" must be ahead of \"PR\"")));
            }
            "9" if self.has_shift => self.shift += 1,
            "9" if self.has_point => self.fraction += 1,
            "9" => self.whole += 1,
            "0" => {
                if self.first_zero == 0 && !self.has_point {
                    self.first_zero = self.whole + 1;
                }
                *(if self.has_point { &mut self.fraction } else { &mut self.whole }) += 1;
                self.last_zero = self.whole + self.fraction;
            }
            "." | "D" if self.has_point => return Err(syntax_error("multiple decimal points")),
            "." | "D" if self.has_shift => return not_together("\"V\"", "decimal point"),
            "." | "D" => self.has_point = true,
            "FM" => self.is_bare = true,
            "B" => self.has_blank = true,
            "S" if self.sign.is_some() => return Err(syntax_error("cannot use \"S\" twice")),
            "S" if self.has_plus || self.has_minus || self.in_brackets => return not_together("\"S\"", all_signs),
            "S" if self.has_point => self.sign = Some(Side::Behind),
            "S" => (self.sign, self.sign_at) = (Some(Side::Before), self.whole),
            "MI" if self.sign.is_some() => return not_together("\"S\"", "\"MI\""),
            "MI" => self.has_minus = true,
            "PL" if self.sign.is_some() => return not_together("\"S\"", "\"PL\""),
            "PL" => self.has_plus = true,
            "SG" if self.sign.is_some() => return not_together("\"S\"", "\"SG\""),
            "SG" => (self.has_minus, self.has_plus) = (true, true),
            "PR" if self.sign.is_some() || self.has_plus || self.has_minus => {
                return not_together("\"PR\"", "\"S\"/\"PL\"/\"MI\"/\"SG\"");
            }
            "PR" => self.in_brackets = true,
            "RN" => self.is_roman = true,
            "V" if self.has_point => return not_together("\"V\"", "decimal point"),
            "V" => self.has_shift = true,
            "EEEE" if self.is_scientific => return Err(syntax_error("cannot use \"EEEE\" twice")),
            "EEEE" => {
                let is_alone = !(self.is_bare || self.has_blank)
                    && self.sign.is_none()
                    && !(self.has_plus || self.has_minus || self.in_brackets || self.is_roman || self.has_shift);
                if !is_alone {
                    return Err(syntax_error("\"EEEE\" is incompatible with other formats"));
                }
                self.is_scientific = true;
            }
            _ => {}
        }
        self.pieces.push(piece);
        Ok(())
    }
}

/// The number to write; its digits are computed once the pattern determines how many are needed.
pub(super) enum Number {
    Int4(i32),
    Int8(i64),
    Exact(Numeric),
    /// A float, and the number of its significant digits.
    Float(f64, usize),
}

/// `to_char` of a number.
pub(super) fn to_char(number: &Number, pattern: &str) -> Result<String> {
    let mut parsed = parse(pattern)?;
    if parsed.pieces.is_empty() {
        return Ok(String::new());
    }
    if parsed.is_scientific {
        return scientific(number, &parsed);
    }
    let (is_negative, digits) = if parsed.is_roman {
        let roman = roman(number)?;
        parsed = Pattern { pieces: parsed.pieces, is_bare: parsed.is_bare, is_roman: true, ..Pattern::default() };
        (false, roman)
    } else {
        digits_of(number, &mut parsed)?
    };
    Writer::new(&parsed, is_negative, &digits).write()
}

/// Returns the sign, and the digits, with the wanted number of digits behind the point.
fn digits_of(number: &Number, parsed: &mut Pattern) -> Result<(bool, String)> {
    let fraction = parsed.fraction as i32;
    let exact = |number: Numeric| Ok::<_, SqlError>(number.round(fraction)?.to_string());
    let text = match number {
        // As in PostgreSQL, too large a product of an integer wraps.
        Number::Int4(number) => {
            exact(number.wrapping_mul(10i32.checked_pow(parsed.shift as u32).unwrap_or(i32::MIN)).into())?
        }
        Number::Int8(number) => {
            let product = 10i64.checked_pow(parsed.shift as u32).and_then(|power| number.checked_mul(power));
            let beyond = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range");
            exact(product.ok_or_else(beyond)?.into())?
        }
        Number::Exact(number) => {
            let shifted = match parsed.shift {
                0 => number.clone(),
                shift => number.multiply(&format!("1e{shift}").parse()?)?,
            };
            exact(shifted)?
        }
        Number::Float(number, _) if !number.is_finite() => Numeric::from_f64(*number).to_string(),
        Number::Float(number, digits) => {
            let number = number * 10f64.powi(parsed.shift as i32);
            let whole = format!("{:.0}", number.abs()).len();
            parsed.fraction = parsed.fraction.min(digits.saturating_sub(whole));
            format!("{number:.*}", parsed.fraction)
        }
    };
    parsed.whole += parsed.shift;
    let is_negative = text.starts_with('-');
    let digits = text.trim_start_matches('-');
    let whole = digits.split('.').next().unwrap_or_default().len();
    Ok((is_negative, if whole > parsed.whole { hashes(parsed) } else { digits.to_owned() }))
}

/// Returns the output for a number with more digits than there are places.
fn hashes(parsed: &Pattern) -> String {
    format!("{}.{}", "#".repeat(parsed.whole), "#".repeat(parsed.fraction))
}

fn scientific(number: &Number, parsed: &Pattern) -> Result<String> {
    let is_finite = match number {
        Number::Int4(_) | Number::Int8(_) => true,
        Number::Exact(number) => number.is_finite(),
        Number::Float(number, _) => number.is_finite(),
    };
    if !is_finite {
        let (before, behind) = ("#".repeat(parsed.whole), "#".repeat(parsed.fraction + 4));
        return Ok(format!(" {before}.{behind}"));
    }
    let (is_negative, mantissa, exponent) = match number {
        Number::Exact(number) => {
            let (mantissa, exponent) = mantissa_of(&number.absolute(), parsed.fraction)?;
            (number.signum() < 0, mantissa, exponent)
        }
        Number::Int8(number) => {
            let (mantissa, exponent) = mantissa_of(&Numeric::from(*number).absolute(), parsed.fraction)?;
            (*number < 0, mantissa, exponent)
        }
        Number::Int4(number) => binary_mantissa_of(f64::from(*number), parsed.fraction),
        Number::Float(number, _) => binary_mantissa_of(*number, parsed.fraction),
    };
    let sign = if is_negative { '-' } else { ' ' };
    let direction = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{sign}{mantissa}e{direction}{:02}", exponent.abs()))
}

/// Returns a mantissa with a number of digits behind the point, and the exponent. As in PostgreSQL, rounding may give
/// it two digits before the point.
fn mantissa_of(number: &Numeric, fraction: usize) -> Result<(String, i32)> {
    let text = number.to_string();
    let (whole, behind) = text.split_once('.').unwrap_or((&text, ""));
    let exponent = match format!("{whole}{behind}").find(|digit| digit != '0') {
        None => 0,
        Some(first) => whole.len() as i32 - 1 - first as i32,
    };
    // Exact: a power of ten only moves the point.
    let moved: Numeric = format!("{text}e{}", -exponent).parse()?;
    Ok((moved.round(fraction as i32)?.to_string(), exponent))
}

/// Returns the sign of a finite number, its mantissa with a number of digits behind the point, and its exponent.
fn binary_mantissa_of(number: f64, fraction: usize) -> (bool, String, i32) {
    let text = format!("{:.fraction$e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (number.is_sign_negative(), mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

fn roman(number: &Number) -> Result<String> {
    const NUMERALS: [(i32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let whole = match number {
        Number::Int4(number) => number.to_string(),
        Number::Int8(number) => number.to_string(),
        Number::Exact(number) if !number.is_finite() => {
            let name = if number.signum() == 0 { "NaN" } else { "infinity" };
            let message = format!("cannot convert {name} to integer");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Number::Exact(number) => number.round(0)?.to_string(),
        Number::Float(number, _) => number.round_ties_even().to_string(),
    };
    let mut left = match whole.parse::<i32>() {
        Ok(number @ 1..=3999) => number,
        Err(_) if !matches!(number, Number::Float(..)) => {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
        }
        _ => return Ok("#".repeat(15)),
    };
    let mut out = String::new();
    for (value, numeral) in NUMERALS {
        while left >= value {
            out.push_str(numeral);
            left -= value;
        }
    }
    Ok(out)
}

/// Writes a number place by place.
struct Writer<'p> {
    pattern: &'p Pattern,
    is_negative: bool,
    /// The digits, with their point.
    digits: &'p [u8],
    /// The next digit.
    next: usize,
    /// The number of places before the first digit.
    blanks: usize,
    /// The next place, from 0 on.
    place: usize,
    places: usize,
    /// With FM: the last digit behind the point that is written, or the point itself.
    last: Option<usize>,
    sign: Option<Side>,
    in_brackets: bool,
    sign_done: bool,
    /// Whether the last place was a digit.
    in_number: bool,
    out: String,
}

impl<'p> Writer<'p> {
    fn new(pattern: &'p Pattern, is_negative: bool, digits: &'p str) -> Self {
        let point = digits.find('.').unwrap_or(digits.len());
        let blanks = if pattern.is_roman { 0 } else { pattern.whole.saturating_sub(point) };
        let has_own_sign = pattern.has_plus || pattern.has_minus;
        let sign_done = match has_own_sign {
            true => !pattern.has_plus || pattern.has_minus,
            false => !is_negative && pattern.is_bare && pattern.sign.is_none(),
        };
        let sign = match pattern.sign {
            Some(Side::Before) if !has_own_sign && pattern.whole == pattern.sign_at => Some(Side::Behind),
            sign => sign,
        };
        let mut last = None;
        if pattern.is_bare && pattern.has_point && point < digits.len() {
            let behind = digits.bytes().rposition(|digit| digit != b'0').unwrap_or(point);
            let mut kept = behind.max(point);
            if pattern.last_zero > blanks {
                kept = kept.max((digits.len() - 1).min(pattern.last_zero - blanks));
            }
            last = Some(kept);
        }
        let mut places = (pattern.fraction + pattern.whole) as isize - 1;
        if !sign_done && blanks == 0 {
            places += 1;
        }
        Self {
            pattern,
            is_negative,
            digits: digits.as_bytes(),
            next: 0,
            blanks,
            place: 0,
            places: places.max(0) as usize,
            last,
            sign,
            in_brackets: pattern.in_brackets && (is_negative || !pattern.is_bare),
            sign_done,
            in_number: false,
            out: String::new(),
        }
    }

    fn write(mut self) -> Result<String> {
        let pattern = self.pattern;
        for piece in &pattern.pieces {
            match *piece {
                Piece::Nine | Piece::Zero | Piece::Point if pattern.is_roman => {}
                Piece::Nine | Piece::Zero | Piece::Point => self.place(*piece),
                Piece::Comma if self.in_number => self.out.push(','),
                Piece::Comma | Piece::Currency => self.blank(*piece == Piece::Currency),
                Piece::Minus if self.is_negative => self.out.push('-'),
                Piece::Minus => self.blank(false),
                Piece::Plus if !self.is_negative && !pattern.is_roman => self.out.push('+'),
                Piece::Plus => self.blank(false),
                // A Roman numeral has no sign: the text ends there.
                Piece::AnySign if pattern.is_roman => self.out.push('\0'),
                Piece::AnySign => self.out.push(if self.is_negative { '-' } else { '+' }),
                Piece::Roman { lower } => {
                    let numeral = String::from_utf8_lossy(self.digits);
                    let numeral = if lower { numeral.to_lowercase() } else { numeral.into_owned() };
                    let width = if pattern.is_bare { 0 } else { 15 };
                    self.out.push_str(&format!("{numeral:>width$}"));
                }
                Piece::Ordinal { lower } => {
                    let is_plain = !pattern.is_roman && !self.is_negative && !pattern.has_point;
                    if is_plain && self.digits.first() != Some(&b'#') {
                        let suffix = ordinal(self.digits)?;
                        self.out.push_str(&if lower { suffix.to_owned() } else { suffix.to_uppercase() });
                    }
                }
                Piece::Sign | Piece::Silent => {}
                Piece::Text(character) => self.out.push(character),
            }
        }
        // Anything written behind the last digit ends the text.
        Ok(self.out.split('\0').next().unwrap_or_default().to_owned())
    }

    fn blank(&mut self, always: bool) {
        if always || !self.pattern.is_bare {
            self.out.push(' ');
        }
    }

    /// Whether the next digit is a lone zero before the point that is to be omitted.
    fn is_lone_zero(&self) -> bool {
        self.pattern.first_zero == 0
            && self.next == 0
            && self.digits.first() == Some(&b'0')
            && self.pattern.fraction != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.digits[last] == b'.')
    }

    fn place(&mut self, piece: Piece) {
        let pattern = self.pattern;
        self.in_number = false;
        let is_zero_place = pattern.first_zero > 0 && pattern.first_zero <= self.place + 1;
        let begins = self.place >= self.blanks || (pattern.first_zero > 0 && pattern.first_zero == self.place + 1);
        if !self.sign_done && begins && (!self.is_lone_zero() || self.ends_at_point()) {
            self.write_sign();
        }
        if self.place < self.blanks && !is_zero_place {
            self.blank(false);
        } else if self.place < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.digit(piece);
        }
        let mut end = self.places + usize::from(self.blanks > 0) + usize::from(pattern.has_point);
        if self.last == Some(self.next) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.sign_done && self.in_brackets {
                self.out.push(if self.is_negative { '>' } else { ' ' });
            } else if self.sign == Some(Side::Behind) {
                self.out.push(if self.is_negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }

    fn write_sign(&mut self) {
        match self.sign {
            Some(Side::Before) => {
                self.out.push(if self.is_negative { '-' } else { '+' });
                self.sign_done = true;
            }
            Some(Side::Behind) => {}
            None => {
                match (self.in_brackets, self.is_negative) {
                    (true, true) => self.out.push('<'),
                    (true, false) => self.out.push(' '),
                    (false, true) => self.out.push('-'),
                    (false, false) => self.blank(false),
                }
                self.sign_done = true;
            }
        }
    }

    fn digit(&mut self, piece: Piece) {
        let digit = self.digits.get(self.next).copied();
        if digit == Some(b'.') {
            if !self.ends_at_point() || self.pattern.is_bare {
                self.out.push('.');
            }
        } else if self.last.is_some_and(|last| self.next > last) && piece != Piece::Zero {
            // FM omits it.
        } else if self.is_lone_zero() {
            if !self.pattern.is_bare {
                self.out.push(' ');
            } else if self.ends_at_point() {
                self.out.push('0');
            }
        } else {
            self.out.push(digit.map_or('\0', char::from));
            self.in_number = true;
        }
        self.next += usize::from(digit.is_some());
    }
}

/// Returns the suffix of an ordinal number.
fn ordinal(digits: &[u8]) -> Result<&'static str> {
    let (last, tens) = (digits.last().copied(), digits.len().checked_sub(2).map(|at| digits[at]));
    if !last.is_some_and(|last| last.is_ascii_digit()) {
        let message = format!("\"{}\" is not a number", String::from_utf8_lossy(digits));
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    Ok(match (tens, last) {
        (Some(b'1'), _) => "th",
        (_, Some(b'1')) => "st",
        (_, Some(b'2')) => "nd",
        (_, Some(b'3')) => "rd",
        _ => "th",
    })
}

/// `to_number`
pub(super) fn to_number(text: &str, pattern: &str) -> Result<Numeric> {
    let parsed = parse(pattern)?;
    if parsed.is_scientific || parsed.is_roman {
        let what = if parsed.is_roman { "RN" } else { "EEEE" };
        return Err(SqlError::unsupported(format_args!("\"{what}\" for input")));
    }
    let mut reader =
        Reader { pattern: &parsed, rest: text.as_bytes(), sign: None, whole: String::new(), fraction: None };
    parsed.pieces.iter().for_each(|piece| reader.read(*piece));
    let Reader { sign, whole, fraction, .. } = reader;
    let fraction = fraction.unwrap_or_default();
    if whole.is_empty() && fraction.is_empty() {
        let message = "invalid input syntax for type numeric: \" \"";
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    if whole.trim_start_matches('0').len() > parsed.whole + parsed.shift {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow"));
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let number: Numeric = format!("0{whole}{point}{fraction}").parse()?;
    let number = if sign == Some(b'-') { number.negate() } else { number };
    match parsed.has_shift {
        true => number.divide(&format!("1e{}", parsed.shift).parse()?),
        false => Ok(number),
    }
}

/// Reads a number with a pattern. Each piece of the pattern takes its characters, or none; the digits before the point
/// that are found at the places behind it count as well, as they do in PostgreSQL.
struct Reader<'t> {
    pattern: &'t Pattern,
    /// Bytes, as in PostgreSQL: a place of the pattern takes one of them, other pieces take whole characters.
    rest: &'t [u8],
    /// The first sign that was read: `+` or `-`.
    sign: Option<u8>,
    whole: String,
    /// The digits behind the point; `None`: no point has been read.
    fraction: Option<String>,
}

impl Reader<'_> {
    fn read(&mut self, piece: Piece) {
        match piece {
            Piece::Nine | Piece::Zero | Piece::Point => self.place(piece),
            Piece::Comma if self.rest.starts_with(b",") => self.rest = &self.rest[1..],
            Piece::Comma => {}
            Piece::Minus => self.sign_or_blank(b"-"),
            Piece::Plus => self.sign_or_blank(b"+"),
            Piece::AnySign => self.sign_or_blank(b"+-"),
            Piece::Currency => self.blanks(1),
            Piece::Ordinal { .. } => self.blanks(2),
            Piece::Text(_) => self.skip(),
            Piece::Sign | Piece::Silent | Piece::Roman { .. } => {}
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*next)
    }

    /// Skips a character, or the next byte of one that has been begun.
    fn skip(&mut self) {
        let length = match self.rest.first() {
            None => 0,
            Some(..0xc0) => 1,
            Some(..0xe0) => 2,
            Some(..0xf0) => 3,
            Some(_) => 4,
        };
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    /// Reads the sign, if it is one of these; otherwise skips a character that belongs to no number.
    fn sign_or_blank(&mut self, signs: &[u8]) {
        match self.rest.first() {
            Some(sign) if signs.contains(sign) => self.sign = self.next(),
            _ => self.blanks(1),
        }
    }

    /// Skips characters that belong to no number.
    fn blanks(&mut self, count: usize) {
        for _ in 0..count {
            if !self.rest.first().is_some_and(|next| next.is_ascii_digit() || b".,+-".contains(next)) {
                self.skip();
            }
        }
    }

    /// Reads a digit or the point, with a sign before the first digit or behind the last.
    fn place(&mut self, piece: Piece) {
        self.rest = self.rest.strip_prefix(b" ").unwrap_or(self.rest);
        let digits = self.whole.len() + self.fraction.as_ref().map_or(0, String::len);
        if self.sign.is_none() && digits == 0 && piece != Piece::Point {
            self.take_sign();
        }
        let Some(first) = self.rest.first().copied() else { return };
        let mut is_read = false;
        match &mut self.fraction {
            Some(fraction) if first.is_ascii_digit() => {
                if fraction.len() == self.pattern.fraction {
                    return;
                }
                fraction.push(char::from(first));
                is_read = true;
            }
            None if first.is_ascii_digit() => {
                self.whole.push(char::from(first));
                is_read = true;
            }
            None if first == b'.' && self.pattern.has_point => {
                self.fraction = Some(String::new());
                is_read = true;
            }
            _ => {}
        }
        let digits = self.whole.len() + self.fraction.as_ref().map_or(0, String::len);
        // A pattern with more places than the number has digits does not reach MI, PL or SG.
        let has_free_sign = self.pattern.has_minus || self.pattern.has_plus;
        if !is_read && self.sign.is_none() && digits > 0 && has_free_sign && matches!(first, b'-' | b'+') {
            self.sign = Some(first);
        }
        // A byte that is neither digit nor point nor sign is skipped.
        self.next();
        // S reads the sign right behind the last digit.
        if is_read && self.sign.is_none() && digits > 0 && self.pattern.sign.is_some() {
            self.take_sign();
        }
    }

    fn take_sign(&mut self) {
        let sign = match self.rest.first() {
            Some(b'<') if self.pattern.in_brackets => b'-',
            Some(sign @ (b'-' | b'+')) => *sign,
            _ => return,
        };
        self.sign = Some(sign);
        self.next();
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        SqlType,
        error::{SqlError, SqlState},
        functions::tests::call,
    };

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
        for (text, pattern, expected) in [
            ("12", "99.9", Ok("12")),
            ("1212", "999.99", Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE)),
            ("12.345", "99.9", Ok("12.3")),
            ("12.", "99.9", Ok("12")),
            ("  485-", "999S", Ok("48")),
            (" 485-", "999S", Ok("-485")),
            ("5.01-", "FM9.999999MI", Ok("-5.01")),
            ("<485>", "999PR", Ok("-485")),
            ("-1", "9", Ok("-1")),
            ("$1,234.5", "L9,999.9", Ok("1234.5")),
            ("12th", "99th", Ok("12")),
            ("x", "9", Err(SqlState::INVALID_TEXT_REPRESENTATION)),
            ("a12", "\"x\"99", Ok("12")),
            ("1 2", "99", Ok("12")),
            ("1x2", "999", Ok("12")),
            ("1234", "99V99", Ok("12.3400000000000000")),
        ] {
            let found = call("to_number", &[(SqlType::TEXT, text), (SqlType::TEXT, pattern)]);
            let found = found.as_deref().map_err(SqlError::state);
            assert_eq!(found, expected, "{text} {pattern}");
        }
    }
}
