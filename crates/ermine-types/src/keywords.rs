//! PostgreSQL's keywords that cannot be names everywhere (appendix C).

/// Reserved words, sorted. DEFAULT and the words that are expressions by themselves, such as CURRENT_DATE, are in
/// [`QUOTED`]: the parser returns them as names.
const RESERVED: [&str; 65] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Words that are the label of a result only after AS, sorted: PostgreSQL's keywords without `BARE_LABEL`.
const AFTER_AS: [&str; 39] = [
    "array",
    "as",
    "char",
    "character",
    "create",
    "day",
    "except",
    "fetch",
    "filter",
    "for",
    "from",
    "grant",
    "group",
    "having",
    "hour",
    "intersect",
    "into",
    "isnull",
    "limit",
    "minute",
    "month",
    "notnull",
    "offset",
    "on",
    "order",
    "over",
    "overlaps",
    "precision",
    "returning",
    "second",
    "to",
    "union",
    "varying",
    "where",
    "window",
    "with",
    "within",
    "without",
    "year",
];

/// Whether a word is the label of a result only after AS.
pub fn needs_as(word: &str) -> bool {
    AFTER_AS.binary_search(&&*word.to_ascii_lowercase()).is_ok()
}

/// Further words that a name in quotes must not lose its quotes for, sorted: those that cannot be names of columns, of
/// functions or of types.
const QUOTED: [&str; 78] = [
    "array",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "char",
    "character",
    "coalesce",
    "collation",
    "concurrently",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "exists",
    "extract",
    "float",
    "freeze",
    "full",
    "greatest",
    "grouping",
    "ilike",
    "inner",
    "inout",
    "int",
    "integer",
    "interval",
    "is",
    "isnull",
    "join",
    "least",
    "left",
    "like",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "notnull",
    "nullif",
    "numeric",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "position",
    "precision",
    "real",
    "right",
    "row",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "substring",
    "tablesample",
    "time",
    "timestamp",
    "treat",
    "trim",
    "user",
    "values",
    "varchar",
    "verbose",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
];

/// Words that names of columns may be, and names of types may not, sorted.
const NO_TYPES: [&str; 21] = [
    "between",
    "coalesce",
    "exists",
    "extract",
    "greatest",
    "grouping",
    "inout",
    "least",
    "none",
    "normalize",
    "nullif",
    "out",
    "overlay",
    "position",
    "precision",
    "row",
    "setof",
    "substring",
    "treat",
    "trim",
    "values",
];

/// Types that are keywords, and words of types, in the order of their bytes: no function has such a name without quotes.
const TYPES: [&str; 23] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "dec",
    "decimal",
    "float",
    "inout",
    "int",
    "integer",
    "interval",
    "national",
    "nchar",
    "none",
    "numeric",
    "out",
    "real",
    "setof",
    "smallint",
    "time",
    "timestamp",
    "varchar",
];

/// Words that are no column's name without quotes, though they may be a function's or a type's, sorted.
const NO_COLUMNS: [&str; 22] = [
    "authorization",
    "binary",
    "collation",
    "concurrently",
    "cross",
    "freeze",
    "full",
    "ilike",
    "inner",
    "is",
    "isnull",
    "join",
    "left",
    "like",
    "natural",
    "notnull",
    "outer",
    "overlaps",
    "right",
    "similar",
    "tablesample",
    "verbose",
];

/// Whether a word, in any case, is no name without quotes.
pub fn is_reserved(word: &str) -> bool {
    contains(&RESERVED, word)
}

/// Whether a word, in any case, is no type's name without quotes, though it may be a column's.
pub fn is_no_type(word: &str) -> bool {
    contains(&NO_TYPES, word)
}

/// Whether a word, in any case, is no function's name without quotes, though it is a type's.
pub fn is_no_function(word: &str) -> bool {
    contains(&TYPES, word)
}

/// Whether a word, in any case, is no column's name without quotes.
pub fn is_no_column(word: &str) -> bool {
    contains(&NO_COLUMNS, word)
}

/// Whether a name has to be quoted because it is a keyword.
pub(crate) fn needs_quotes(name: &str) -> bool {
    contains(&RESERVED, name) || contains(&QUOTED, name)
}

fn contains(words: &[&str], word: &str) -> bool {
    words.binary_search_by(|entry| entry.bytes().cmp(word.bytes().map(|byte| byte.to_ascii_lowercase()))).is_ok()
}

/// Quotes a name for use in statements.
pub fn quote_ident(name: &str) -> String {
    let mut characters = name.chars();
    let is_plain = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && characters.all(|other| other.is_ascii_lowercase() || other.is_ascii_digit() || other == '_')
        && !needs_quotes(name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_found() {
        assert!([&RESERVED[..], &QUOTED, &NO_TYPES, &TYPES, &NO_COLUMNS].iter().all(|words| words.is_sorted()));
        assert!(
            RESERVED.iter().all(|word| is_reserved(word) && is_reserved(&word.to_uppercase()) && needs_quotes(word))
        );
        assert!(QUOTED.iter().all(|word| !is_reserved(word) && needs_quotes(word)));
        assert!(!is_reserved("user") && needs_quotes("user") && !needs_quotes("name"));
    }
}
