//! Words in dates and times.

/// Whether a literal means another time each day, or each moment.
pub fn depends_on_now(literal: &str) -> bool {
    let lower = literal.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphabetic());
    words.any(|word| ["now", "today", "tomorrow", "yesterday"].contains(&word))
}
