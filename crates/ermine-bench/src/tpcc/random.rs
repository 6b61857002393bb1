//! Non-uniform numbers, last names, and the strings of the initial data (clauses 2.1.6, 4.3.2, 4.3.3).

use super::schema::Text;
use crate::random::Random;

/// Constant of the last names in the initial data.
pub const C_LAST_LOAD: u64 = 157;
/// Constant of the last names in a run: different from that of the load, so that a run does not ask for exactly the
/// names that are frequent in the data.
pub const C_LAST_RUN: u64 = 223;
/// Constant of the customers' numbers.
pub const C_CUSTOMER: u64 = 259;
/// Constant of the items' numbers.
pub const C_ITEM: u64 = 7911;

const _: () = {
    let delta = C_LAST_RUN.abs_diff(C_LAST_LOAD);
    assert!(delta >= 65 && delta <= 119 && delta != 96 && delta != 112, "clause 2.1.6.1");
    assert!(C_LAST_LOAD <= 255 && C_LAST_RUN <= 255 && C_CUSTOMER <= 1023 && C_ITEM <= 8191);
};

/// Draws NURand(a, low, high) with constant `c`, both ends included: some values in `low..=high` are drawn far more
/// often.
#[inline]
pub fn non_uniform(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    debug_assert!(c <= a && low <= high);
    let drawn = random.uniform(0..=a) | random.uniform(low..=high);
    (drawn + c) % (high - low + 1) + low
}

/// The last name with a number below 1000: a syllable for each digit.
pub fn last_name(number: u32) -> Text<16> {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    assert!(number < 1000, "last name {number}");
    let mut name = [0; 16];
    let mut length = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        name[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    Text(name)
}

/// Fills `bytes` with random letters and digits.
fn fill(random: &mut Random, bytes: &mut [u8]) {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for chunk in bytes.chunks_mut(8) {
        for (byte, drawn) in chunk.iter_mut().zip(random.bits().to_le_bytes()) {
            *byte = ALPHABET[usize::from(drawn) * ALPHABET.len() / 256];
        }
    }
}

/// A random text whose length lies in the given range, and that length.
pub(super) fn text<const N: usize>(random: &mut Random, shortest: usize, longest: usize) -> (Text<N>, usize) {
    let length = random.uniform(shortest as u64..=longest as u64) as usize;
    let mut bytes = [0; N];
    fill(random, &mut bytes[..length]);
    (Text(bytes), length)
}

/// A random text of `N` bytes.
pub(super) fn full_text<const N: usize>(random: &mut Random) -> Text<N> {
    text(random, N, N).0
}

/// A random number of `N` digits.
pub(super) fn digits<const N: usize>(random: &mut Random) -> Text<N> {
    Text(std::array::from_fn(|_| b'0' + random.below(10) as u8))
}

/// A zip code: four random digits and "11111".
pub(super) fn zip(random: &mut Random) -> Text<9> {
    let mut code = *b"000011111";
    code[..4].copy_from_slice(&digits::<4>(random).0);
    Text(code)
}

/// The text that marks an item or a stock as an original brand.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// The data of an item or a stock, and its length: 10 % carry the mark at a random place.
pub(super) fn brand_data(random: &mut Random) -> (Text<50>, usize) {
    let (mut data, length) = text(random, 26, 50);
    if random.percent(10) {
        let place = random.uniform(0..=(length - ORIGINAL.len()) as u64) as usize;
        data.0[place..place + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    (data, length)
}

/// Whether data carries the mark of an original brand.
#[inline]
pub(super) fn is_original(data: &[u8]) -> bool {
    // No position is searched for, so that many bytes are compared at once; few other texts have these two letters.
    let pairs = data.iter().zip(data.iter().skip(1));
    let may_be = pairs.fold(false, |found, pair| found | (pair == (&ORIGINAL[0], &ORIGINAL[1])));
    may_be && data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_follow_their_digits() {
        let name = |number| String::from_utf8(last_name(number).as_bytes().to_vec()).unwrap();
        assert_eq!(name(0), "BARBARBAR");
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(999), "EINGEINGEING");
        assert_eq!(name(40), "BARPRESBAR");
        assert!((0..1000).all(|number| name(number).len() <= 16));
    }

    #[test]
    fn non_uniform_stays_in_range_and_reaches_its_ends() {
        let mut random = Random::new(1, 0);
        for (a, c, low, high) in [(255, C_LAST_RUN, 0, 999), (1023, C_CUSTOMER, 1, 3000), (8191, C_ITEM, 1, 100_000)] {
            let drawn: Vec<u64> = (0..2_000_000).map(|_| non_uniform(&mut random, a, c, low, high)).collect();
            assert_eq!(drawn.iter().min(), Some(&low));
            assert_eq!(drawn.iter().max(), Some(&high));
        }
    }

    #[test]
    fn non_uniform_is_the_formula() {
        let mut random = Random::new(9, 0);
        let mut copy = random.clone();
        let (first, second) = (copy.uniform(0..=8191), copy.uniform(1..=100_000));
        assert_eq!(non_uniform(&mut random, 8191, 7911, 1, 100_000), ((first | second) + 7911) % 100_000 + 1);
    }

    #[test]
    fn items_are_not_drawn_uniformly() {
        let mut random = Random::new(2, 0);
        let mut count = vec![0u32; 100_001];
        (0..1_000_000).for_each(|_| count[non_uniform(&mut random, 8191, C_ITEM, 1, 100_000) as usize] += 1);
        count.sort_unstable_by(|a, b| b.cmp(a));
        let hottest: u32 = count[..10_000].iter().sum();
        // A tenth of the items; a uniform draw would give them 10 %.
        assert!(hottest > 400_000, "{hottest}");
    }

    #[test]
    fn run_and_load_favour_different_last_names() {
        let frequent = |c| {
            let mut random = Random::new(3, 0);
            let mut count = vec![0u32; 1000];
            (0..1_000_000).for_each(|_| count[non_uniform(&mut random, 255, c, 0, 999) as usize] += 1);
            (0..1000).max_by_key(|&name| count[name]).unwrap()
        };
        assert_ne!(frequent(C_LAST_LOAD), frequent(C_LAST_RUN));
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut random = Random::new(4, 0);
        let mut originals = 0;
        for _ in 0..10_000 {
            let (data, length) = brand_data(&mut random);
            assert!((26..=50).contains(&length) && data.as_bytes().len() == length);
            originals += u32::from(is_original(&data.0[..length]));
        }
        assert!((900..1100).contains(&originals), "{originals}");
    }

    #[test]
    fn zip_codes_end_in_ones() {
        let code = zip(&mut Random::new(5, 0));
        assert!(code.0[..4].iter().all(u8::is_ascii_digit) && code.0[4..] == *b"11111");
    }
}
