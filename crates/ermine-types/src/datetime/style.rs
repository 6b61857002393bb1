//! The styles of dates, times and intervals as text: the settings `DateStyle` and `IntervalStyle`.

/// How dates, times and intervals are written, and how numbers in them are read where they are ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// The form of dates and points in time.
    pub dates: DateForm,
    /// The order of day, month and year.
    pub order: DateOrder,
    /// The form of intervals.
    pub intervals: IntervalStyle,
}

/// The form in which dates and points in time are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateForm {
    /// `1997-12-17 07:37:16-08`
    #[default]
    Iso,
    /// `12/17/1997 07:37:16 PST`
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`
    Postgres,
    /// `17.12.1997 07:37:16 PST`
    German,
}

/// The order of day, month and year.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// The form in which intervals are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    const ALL: [Self; 4] = [Self::Postgres, Self::PostgresVerbose, Self::SqlStandard, Self::Iso8601];

    /// Returns its name in the setting.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::PostgresVerbose => "postgres_verbose",
            Self::SqlStandard => "sql_standard",
            Self::Iso8601 => "iso_8601",
        }
    }

    /// Returns the style with a name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.name().eq_ignore_ascii_case(name))
    }
}

/// Why a text is no value of `DateStyle`.
#[derive(PartialEq, Eq, Debug)]
pub enum NoDateStyle {
    /// It is no list of names.
    Syntax,
    /// A word that it does not have.
    Word(String),
    /// It says two things about the form or the order.
    Conflict,
}

impl Style {
    /// Returns the style after the words of `DateStyle` have changed it: those of the form and of the order in any
    /// order. What they leave out stays, except that German dates begin with the day.
    pub fn with_dates(self, words: &str) -> Result<Self, NoDateStyle> {
        let (mut form, mut order) = (None, None);
        let mut has_conflict = false;
        for word in words.split(',') {
            let word = word.trim().trim_matches('"').to_ascii_lowercase();
            let (named, ordered) = match &*word {
                "" => return Err(NoDateStyle::Syntax),
                "iso" => (Some(DateForm::Iso), None),
                "sql" => (Some(DateForm::Sql), None),
                _ if word.starts_with("postgres") => (Some(DateForm::Postgres), None),
                "german" => (Some(DateForm::German), None),
                "ymd" => (None, Some(DateOrder::Ymd)),
                _ if word == "dmy" || word.starts_with("euro") => (None, Some(DateOrder::Dmy)),
                _ if matches!(&*word, "mdy" | "us") || word.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
                "default" => {
                    form = form.or(Some(DateForm::Iso));
                    order = order.or(Some(DateOrder::Mdy));
                    continue;
                }
                _ => return Err(NoDateStyle::Word(word)),
            };
            has_conflict |= named.is_some_and(|named| form.is_some_and(|form| form != named));
            has_conflict |= ordered.is_some_and(|ordered| order.is_some_and(|order| order != ordered));
            (form, order) = (named.or(form), ordered.or(order));
        }
        if has_conflict {
            return Err(NoDateStyle::Conflict);
        }
        let usual = if form == Some(DateForm::German) { DateOrder::Dmy } else { self.order };
        Ok(Self { dates: form.unwrap_or(self.dates), order: order.unwrap_or(usual), intervals: self.intervals })
    }

    /// Returns the value of `DateStyle`.
    pub fn shown_dates(self) -> String {
        let form = match self.dates {
            DateForm::Iso => "ISO",
            DateForm::Sql => "SQL",
            DateForm::Postgres => "Postgres",
            DateForm::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        format!("{form}, {order}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_what_they_name() {
        let shown = |from: Style, words: &str| from.with_dates(words).map(|style| style.shown_dates());
        let usual = Style::default();
        let german = usual.with_dates("German").unwrap();
        for (from, words, expected) in [
            (usual, "SQL", "SQL, MDY"),
            (usual, "dmy", "ISO, DMY"),
            (usual, "German", "German, DMY"),
            (usual, "mdy, german", "German, MDY"),
            (german, "ISO", "ISO, DMY"),
            (german, "postgresql, us", "Postgres, MDY"),
            (usual, " European ,SQL", "SQL, DMY"),
            (german, "default", "ISO, MDY"),
        ] {
            assert_eq!(shown(from, words).unwrap(), expected, "{words}");
        }
        assert_eq!(shown(usual, "iso, sql"), Err(NoDateStyle::Conflict));
        assert_eq!(shown(usual, "dmy, mdy"), Err(NoDateStyle::Conflict));
        assert_eq!(shown(usual, "iso, foo"), Err(NoDateStyle::Word("foo".into())));
        assert_eq!(shown(usual, "iso,"), Err(NoDateStyle::Syntax));
    }
}
