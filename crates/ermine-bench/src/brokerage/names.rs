//! Names of persons, companies and securities, and the text of news, from word lists of our own.

use crate::{fixed::Text, random::Random};

const FIRST: [&str; 24] = [
    "Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Leo", "Maud",
    "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Thea", "Ugo", "Vera", "Wim", "Yara",
];
const SYLLABLES: [&str; 16] =
    ["ber", "dal", "fen", "gor", "hel", "kam", "lin", "mar", "nor", "pel", "ros", "sal", "tan", "ver", "wes", "zel"];
const ENDINGS: [&str; 8] = ["berg", "dorf", "feld", "gaard", "holm", "land", "mann", "stein"];
const WORDS: [&str; 32] = [
    "after", "before", "board", "calm", "chart", "cheap", "close", "costly", "demand", "early", "export", "factory",
    "firm", "growth", "harbour", "import", "late", "market", "merger", "order", "output", "plan", "price", "quarter",
    "rally", "report", "rumour", "share", "supply", "talks", "trade", "union",
];

/// A first name.
pub fn first_name(random: &mut Random) -> &'static str {
    FIRST[random.below(FIRST.len() as u64) as usize]
}

/// A last name of at most fifteen letters.
pub fn last_name(random: &mut Random) -> String {
    let mut name = capital(SYLLABLES[random.below(16) as usize]);
    if random.percent(50) {
        name += SYLLABLES[random.below(16) as usize];
    }
    name + ENDINGS[random.below(8) as usize]
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// The name of a company with a number from 1, which no other has.
pub fn company_name(number: u64) -> [u8; 60] {
    let (first, second) = (SYLLABLES[(number % 16) as usize], SYLLABLES[(number / 16 % 16) as usize]);
    let name = format!("{}{second} {} No. {number}", capital(first), capital(ENDINGS[(number / 256 % 8) as usize]));
    Text::new(name.as_bytes()).0
}

/// The name of a broker with a number from 1, which no other has.
pub fn broker_name(number: u64) -> [u8; 49] {
    let (first, last) = (FIRST[(number % 24) as usize], capital(SYLLABLES[(number / 24 % 16) as usize]));
    Text::new(format!("{first} {last} {number}").as_bytes()).0
}

/// The issues of a company: common stock, and three sorts of preferred stock.
pub const ISSUES: [[u8; 6]; 4] = [*b"COMMON", *b"PREF_A", *b"PREF_B", *b"PREF_C"];

/// Words, to the length given, at least.
pub fn words(random: &mut Random, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 8);
    while text.len() < length {
        // Twelve words of each draw.
        let mut bits = random.bits();
        for _ in 0..12 {
            text.extend_from_slice(WORDS[(bits % 32) as usize].as_bytes());
            text.push(b' ');
            bits /= 32;
        }
    }
    text.truncate(length);
    text
}

/// A text of `N` bytes.
pub fn sentence<const N: usize>(random: &mut Random) -> Text<N> {
    Text::new(&words(random, N))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_fit_and_those_of_companies_and_brokers_are_unique() {
        let mut random = Random::new(1, 0);
        assert!((0..10_000).all(|_| last_name(&mut random).len() <= 15));
        assert_eq!((1..=50_000).map(company_name).collect::<HashSet<_>>().len(), 50_000);
        assert_eq!((1..=5_000).map(broker_name).collect::<HashSet<_>>().len(), 5_000);
        assert_eq!(words(&mut random, 1_000).len(), 1_000);
    }
}
