//! Settings of sessions, options of the server, and the time zones that a setting may name.

use super::{Described, Known, NULL, PG_CATALOG, table};
use crate::{
    configuration::{Origin, ServerOption},
    parameters::{Kind, Parameter},
    types::{Array, Scalar, Value, datetime::named_zones},
};

/// A row of `pg_settings`.
struct Setting {
    name: String,
    value: String,
    unit: Option<&'static str>,
    category: String,
    description: String,
    context: &'static str,
    kind: &'static str,
    range: Option<(i64, i64)>,
    values: Value,
    boot: String,
    reset: String,
    origin: Origin,
    is_pending: bool,
}

/// Returns a setting of the session with this value.
fn of_session(known: Known<'_>, name: &str, value: &str) -> Setting {
    let lower = name.to_lowercase();
    let parameter = Parameter::named(&lower);
    let kind = parameter.map_or(Kind::Text, |parameter| parameter.kind);
    let boot = parameter.map_or("", |parameter| parameter.boot);
    let configuration = known.catalog.sessions.configuration.current();
    let (reset, origin) = match configuration.defaults.get(&lower) {
        Some((reset, origin)) => (reset.clone(), origin.clone()),
        None => (boot.to_owned(), Origin { source: "default", place: None }),
    };
    let is_own = value != reset && !(reset == boot && parameter.is_none_or(|parameter| parameter.is_fixed()));
    let values = match kind {
        Kind::Enum(all) => Value::array(Array::new(Scalar::Text, all.iter().map(|one| (*one).into()).collect())),
        _ => NULL,
    };
    Setting {
        name: name.to_owned(),
        value: kind.number(value),
        unit: kind.unit(),
        category: parameter.map_or("Customized Options", |parameter| parameter.category).to_owned(),
        description: parameter.map_or("", |parameter| parameter.description).to_owned(),
        context: match parameter {
            Some(parameter) if parameter.is_fixed() => "internal",
            Some(parameter) if parameter.is_of_superusers() => "superuser",
            _ => "user",
        },
        kind: kind.name(),
        range: kind.range(),
        values,
        boot: kind.number(boot),
        reset: kind.number(&reset),
        origin: if is_own { Origin { source: "session", place: None } } else { origin },
        is_pending: false,
    }
}

/// Returns an option of the server.
fn of_server(option: &ServerOption) -> Setting {
    Setting {
        name: option.name.clone(),
        value: option.value.clone(),
        unit: option.unit,
        category: option.category.clone(),
        description: option.description.clone(),
        context: if option.is_reloadable { "sighup" } else { "postmaster" },
        kind: option.kind,
        range: None,
        values: NULL,
        boot: option.boot.clone(),
        reset: option.value.clone(),
        origin: option.origin.clone(),
        is_pending: option.configured != option.value,
    }
}

/// Returns all settings by their names. Where the server's files are is shown to superusers only.
fn settings(known: Known<'_>) -> impl Iterator<Item = Setting> {
    let sees_all = known.catalog.is_superuser(known.environment.role);
    let configuration = known.catalog.sessions.configuration.current();
    let options = configuration.options.values().filter(|option| sees_all || !option.is_private).map(of_server);
    let own = known.environment.settings.iter().map(|(name, value)| of_session(known, name, value));
    let mut all: Vec<_> = own.chain(options).collect();
    all.sort_by_cached_key(|setting| setting.name.to_lowercase());
    all.into_iter().map(move |mut setting| {
        setting.origin.place = setting.origin.place.filter(|_| sees_all);
        setting
    })
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 pg_settings, known => settings(known), |setting| {
        name TEXT = setting.name;
        setting TEXT = setting.value;
        unit TEXT = setting.unit;
        category TEXT = setting.category;
        short_desc TEXT = setting.description;
        extra_desc TEXT = NULL;
        context TEXT = setting.context;
        vartype TEXT = setting.kind;
        source TEXT = setting.origin.source;
        min_val TEXT = setting.range.map(|(least, _)| least.to_string());
        max_val TEXT = setting.range.map(|(_, most)| most.to_string());
        enumvals TEXTS = setting.values;
        boot_val TEXT = setting.boot;
        reset_val TEXT = setting.reset;
        sourcefile TEXT = setting.origin.place.as_ref().map(|(file, _)| file);
        sourceline INT4 = setting.origin.place.as_ref().map(|(_, line)| *line as i32);
        pending_restart BOOL = setting.is_pending;
    }),
    table!(PG_CATALOG, 0 pg_timezone_names, known => named_zones(known.environment.statement_began), |zone| {
        name TEXT = zone.name;
        abbrev TEXT = zone.abbreviation;
        utc_offset INTERVAL = Value::Interval { months: 0, days: 0, micros: zone.offset };
        is_dst BOOL = zone.is_dst;
    }),
];
