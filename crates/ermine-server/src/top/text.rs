//! Numbers and texts in few characters, as the live page writes them.

use unicode_width::UnicodeWidthChar as _;

/// Returns a number that a person reads at a glance.
pub fn number(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2}G", value / 1e9),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Returns a size.
pub fn bytes(value: f64) -> String {
    const KIB: f64 = 1024.0;
    match value {
        value if value >= KIB.powi(3) => format!("{:.2} GiB", value / KIB.powi(3)),
        value if value >= KIB.powi(2) => format!("{:.1} MiB", value / KIB.powi(2)),
        value if value >= KIB => format!("{:.0} KiB", value / KIB),
        value => format!("{value:.0} B"),
    }
}

/// Returns a time of a statement, which is in milliseconds.
pub fn milliseconds(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value >= 1000.0 => format!("{:.2} s", value / 1000.0),
        Some(value) if value >= 1.0 => format!("{value:.1} ms"),
        Some(value) => format!("{:.0} us", value * 1000.0),
    }
}

/// Returns the duration of a transaction or a server.
pub fn seconds(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} s"),
        value if value < 120.0 => format!("{value:.0} s"),
        value if value < 7200.0 => format!("{:.0} min", value / 60.0),
        value if value < 172_800.0 => format!("{:.1} h", value / 3600.0),
        value => format!("{:.0} d", value / 86_400.0),
    }
}

/// Returns a text as one line without characters that move the cursor, of at most `width` columns.
pub fn line(text: &str, width: usize) -> String {
    let (mut shown, mut columns, mut is_gap) = (String::new(), 0, false);
    for character in text.chars() {
        let Some(own) = character.width().filter(|_| !character.is_whitespace()) else {
            is_gap = !shown.is_empty();
            continue;
        };
        if columns + own + usize::from(is_gap) > width {
            while columns >= width.max(1) {
                columns -= shown.pop().and_then(|last| last.width()).unwrap_or(columns);
            }
            if width > 0 {
                shown.push('…');
            }
            break;
        }
        if std::mem::take(&mut is_gap) {
            shown.push(' ');
            columns += 1;
        }
        shown.push(character);
        columns += own;
    }
    shown
}

/// Returns the columns that a line takes.
pub fn width(line: &str) -> usize {
    line.chars().map(|character| character.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.25, 12.0, 99.96, 9999.0, 12_345.0, 2.5e6, 3e9].map(number);
        assert_eq!(numbers, ["0", "0.2", "12", "100.0", "9999", "12.3k", "2.50M", "3.00G"]);
        assert_eq!([12.0, 4096.0, 3e6, 5e9].map(bytes), ["12 B", "4 KiB", "2.9 MiB", "4.66 GiB"]);
        let times = [None, Some(0.05), Some(12.34), Some(2500.0)].map(milliseconds);
        assert_eq!(times, ["-", "50 us", "12.3 ms", "2.50 s"]);
        assert_eq!([1.5, 100.0, 600.0, 9000.0, 9e5].map(seconds), ["1.5 s", "100 s", "10 min", "2.5 h", "10 d"]);
    }

    #[test]
    fn texts_are_one_line_of_a_width() {
        for (text, columns, shown) in [
            ("SELECT\n  1\t\u{1b}[31m", 20, "SELECT 1 [31m"),
            ("SELECT 1", 8, "SELECT 1"),
            ("SELECT 12", 8, "SELECT …"),
            ("  äöü", 3, "äöü"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(line(text, columns), shown, "{text:?} {columns}");
            assert!(width(shown) <= columns);
        }
    }
}
