//! Set-returning functions that programs use to read the catalog.

use super::{
    resolution::{Outcome, Parameter},
    sets::{SetRows, Table},
};
use crate::{SqlType, Value, operators::mismatch};

/// Adds the functions to the others.
pub(super) fn register(table: &mut Table) {
    let text = Outcome::Is(SqlType::TEXT);
    let texts = Parameter::Is(SqlType::TEXT.array());
    let options = ["option_name", "option_value"].map(|name| (Some(name), text));
    table.add("pg_options_to_table", &[texts], &options, |mut arguments, _| match arguments.pop() {
        Some(Value::Array(array)) => Ok(SetRows::of_rows(array.elements().iter().map(option_of).collect())),
        _ => Err(mismatch()),
    });
    let columns = [(Some("x"), Outcome::Element), (Some("n"), Outcome::Is(SqlType::INT4))];
    table.add("_pg_expandarray", &[Parameter::Array], &columns, |mut arguments, _| match arguments.pop() {
        Some(Value::Array(array)) => {
            let mut elements = array.into_elements().into_iter().zip(1..);
            Ok(SetRows::new(move |row, _| {
                let Some((element, number)) = elements.next() else { return Ok(false) };
                row[0] = element;
                row[1] = Value::Int4(number);
                Ok(true)
            }))
        }
        _ => Err(mismatch()),
    });
    let (code, is_label) = (Outcome::Is(SqlType::TEXT), Outcome::Is(SqlType::BOOL));
    let columns = [("word", text), ("catcode", code), ("barelabel", is_label), ("catdesc", text), ("baredesc", text)];
    let columns = columns.map(|(name, ty)| (Some(name), ty));
    table.add("pg_get_keywords", &[], &columns, |_, _| Ok(SetRows::of_rows(keywords())));
}

fn option_of(option: &Value) -> [Value; 2] {
    match option {
        Value::Text(option) => match option.split_once('=') {
            Some((name, value)) => [name.into(), value.into()],
            None => [option.as_str().into(), Value::Null],
        },
        _ => [Value::Null, Value::Null],
    }
}

/// Returns the rows of `pg_get_keywords`, in the order of the words.
fn keywords() -> Vec<[Value; 5]> {
    let words =
        |(code, is_label, words): (char, bool, &'static str)| words.split(' ').map(move |word| (word, code, is_label));
    let mut all: Vec<_> = KEYWORDS.into_iter().flat_map(words).collect();
    all.sort_unstable();
    let row = |(word, code, is_label): (&str, char, bool)| {
        let category = match code {
            'C' => "unreserved (cannot be function or type name)",
            'R' => "reserved",
            'T' => "reserved (can be function or type name)",
            _ => "unreserved",
        };
        let label = if is_label { "can be bare label" } else { "requires AS" };
        [word.into(), code.to_string().as_str().into(), Value::Bool(is_label), category.into(), label.into()]
    };
    all.into_iter().map(row).collect()
}

/// The keywords of PostgreSQL 15: category, whether they can be labels without AS, and words.
const KEYWORDS: [(char, bool, &str); 8] = [
    (
        'C',
        true,
        "between bigint bit boolean coalesce dec decimal exists extract float greatest grouping inout int integer \
         interval least national nchar none normalize nullif numeric out overlay position real row setof smallint \
         substring time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists \
         xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable",
    ),
    ('C', false, "char character precision"),
    (
        'R',
        true,
        "all analyse analyze and any asc asymmetric both case cast check collate column constraint \
         current_catalog current_date current_role current_time current_timestamp current_user default deferrable \
         desc distinct do else end false foreign in initially lateral leading localtime localtimestamp not null \
         only or placing primary references select session_user some symmetric table then trailing true unique \
         user using variadic when",
    ),
    (
        'R',
        false,
        "array as create except fetch for from grant group having intersect into limit offset on order returning \
         to union where window with",
    ),
    (
        'T',
        true,
        "authorization binary collation concurrently cross current_schema freeze full ilike inner is join left \
         like natural outer right similar tablesample verbose",
    ),
    ('T', false, "isnull notnull overlaps"),
    (
        'U',
        true,
        "abort absolute access action add admin after aggregate also alter always asensitive assertion assignment \
         at atomic attach attribute backward before begin breadth by cache call called cascade cascaded catalog \
         chain characteristics checkpoint class close cluster columns comment comments commit committed \
         compression configuration conflict connection constraints content continue conversion copy cost csv cube \
         current cursor cycle data database deallocate declare defaults deferred definer delete delimiter \
         delimiters depends depth detach dictionary disable discard document domain double drop each enable \
         encoding encrypted enum escape event exclude excluding exclusive execute explain expression extension \
         external family finalize first following force forward function functions generated global granted \
         groups handler header hold identity if immediate immutable implicit import include including increment \
         index indexes inherit inherits inline input insensitive insert instead invoker isolation key label \
         language large last leakproof level listen load local location lock locked logged mapping match matched \
         materialized maxvalue merge method minvalue mode move name names new next nfc nfd nfkc nfkd no \
         normalized nothing notify nowait nulls object of off oids old operator option options ordinality others \
         overriding owned owner parallel parameter parser partial partition passing password plans policy \
         preceding prepare prepared preserve prior privileges procedural procedure procedures program publication \
         quote range read reassign recheck recursive ref referencing refresh reindex relative release rename \
         repeatable replace replica reset restart restrict return returns revoke role rollback rollup routine \
         routines rows rule savepoint schema schemas scroll search security sequence sequences serializable \
         server session set sets share show simple skip snapshot sql stable standalone start statement statistics \
         stdin stdout storage stored strict strip subscription support sysid system tables tablespace temp \
         template temporary text ties transaction transform trigger truncate trusted type types uescape unbounded \
         uncommitted unencrypted unknown unlisten unlogged until update vacuum valid validate validator value \
         version view views volatile whitespace work wrapper write xml yes zone",
    ),
    ('U', false, "day filter hour minute month over second varying within without year"),
];
