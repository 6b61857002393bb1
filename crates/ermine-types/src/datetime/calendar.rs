//! Conversion between days and years, months and days of the month.

/// A day of the proleptic Gregorian calendar. Year 0 is 1 BC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Civil {
    /// The year, 0 for 1 BC.
    pub year: i64,
    /// The month, from 1 on.
    pub month: i64,
    /// The day of the month, from 1 on.
    pub day: i64,
}

const DAYS_PER_ERA: i64 = 146_097;
/// The number of days from 0000-03-01, where eras begin, to 2000-01-01.
const EPOCH_FROM_MARCH: i64 = 730_425;

/// Returns the days since 2000-01-01. The day of the month may be any number.
pub fn days_from_civil(Civil { year, month, day }: Civil) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_FROM_MARCH
}

/// Returns the calendar's day.
pub fn civil_from_days(days: i64) -> Civil {
    let days = days + EPOCH_FROM_MARCH;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Civil {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
    }
}

/// Returns the number of days in a month.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Civil {
    /// Returns the day some months later, or the last day of that month if it is shorter.
    pub(crate) fn add_months(self, months: i64) -> Self {
        let count = self.year * 12 + self.month - 1 + months;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)) }
    }
}

/// Returns the day number of a date that was built from numbers, if it is valid.
pub(crate) fn check_civil(civil: Civil) -> Option<i64> {
    let valid = (1..=12).contains(&civil.month)
        && civil.year.abs() < 6_000_000
        && (1..=days_in_month(civil.year, civil.month)).contains(&civil.day);
    let days = valid.then(|| days_from_civil(civil))?;
    debug_assert_eq!(civil_from_days(days), civil);
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_lead_to_each_other() {
        assert_eq!(days_from_civil(Civil { year: 2000, month: 1, day: 1 }), 0);
        assert_eq!(days_from_civil(Civil { year: 1970, month: 1, day: 1 }), -10_957);
        for days in (-2_451_545..3_000_000).step_by(97) {
            let civil = civil_from_days(days);
            assert_eq!(days_from_civil(civil), days);
            assert!((1..=days_in_month(civil.year, civil.month)).contains(&civil.day));
        }
    }
}
