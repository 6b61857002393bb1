//! Types that statements have created: enumerations and domains.
//!
//! A value of an enumeration has the position of its label, not the label: the position decides about its order, stays
//! the same for as long as the type exists, and is never given to another label. So rows and keys are read and compared
//! without the type. Only texts need it, and [`Environment::types`] has it. A value of a domain is one of its base type.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Environment, Scalar, SqlType, Value,
    error::{Result, SqlError, SqlState},
    keywords::quote_ident,
};

/// A type that a statement has created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserType {
    /// Its number; the next one is that of its arrays.
    pub oid: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Increases whenever the type is changed, or a table begins to use it.
    pub generation: u64,
    /// Its values.
    pub kind: Kind,
}

/// The values of such a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    /// The labels of an enumeration, in their order.
    Enum(Vec<Label>),
    /// Some of the values of another type.
    Domain(Domain),
    /// Some of the values of another domain, given by its number. Its base type is the other domain's.
    DomainOver(u32, Domain),
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// The type of its values, which is no domain.
    pub base: SqlType,
    /// The modifier of that type.
    pub modifier: i32,
    /// The text of the default of columns that have none.
    pub default: Option<String>,
    /// Whether NULL is excluded.
    pub not_null: bool,
    /// The conditions that its values meet.
    pub checks: Vec<DomainCheck>,
    /// The columns that have it, by the number of the table and theirs in it; dropped ones may be among them.
    pub columns: Vec<(u32, usize)>,
}

/// A condition on the values of a domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainCheck {
    /// Its number among the objects.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The text of the condition, in which the value is `VALUE`.
    pub condition: String,
}

/// A label of an enumeration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// Its number among the objects.
    pub oid: u32,
    /// Its position, by which values are ordered.
    pub position: i64,
    /// Its text.
    pub name: String,
}

/// The distance between the positions of two labels that were created one after the other: at least 40 labels fit
/// between any two of them.
pub const GAP: i64 = 1 << 40;

/// The place of a new label among the known ones.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// After all others.
    Last,
    /// Before this one.
    Before(&'a str),
    /// After this one.
    After(&'a str),
}

impl UserType {
    /// Returns the type of its values.
    pub fn ty(&self) -> SqlType {
        match &self.kind {
            Kind::Enum(_) => SqlType::scalar(Scalar::Enum(self.oid)),
            Kind::Domain(domain) | Kind::DomainOver(_, domain) => domain.base,
        }
    }

    /// Returns the domain, if it is one.
    pub fn domain(&self) -> Option<&Domain> {
        match &self.kind {
            Kind::Domain(domain) | Kind::DomainOver(_, domain) => Some(domain),
            Kind::Enum(_) => None,
        }
    }

    /// Returns the domain, mutably.
    pub fn domain_mut(&mut self) -> Option<&mut Domain> {
        match &mut self.kind {
            Kind::Domain(domain) | Kind::DomainOver(_, domain) => Some(domain),
            Kind::Enum(_) => None,
        }
    }

    /// Returns the number of the domain that it is over.
    pub fn parent(&self) -> Option<u32> {
        match self.kind {
            Kind::DomainOver(parent, _) => Some(parent),
            _ => None,
        }
    }

    /// Whether another definition of the type says the same about it, whichever tables use it.
    pub fn means_same(&self, other: &Self) -> bool {
        let mut alike = Self { generation: other.generation, ..self.clone() };
        if let (Some(own), Some(others)) = (alike.domain_mut(), other.domain()) {
            own.columns.clone_from(&others.columns);
        }
        alike == *other
    }

    /// Returns the labels, in their order.
    pub fn labels(&self) -> &[Label] {
        match &self.kind {
            Kind::Enum(labels) => labels,
            Kind::Domain(_) | Kind::DomainOver(..) => &[],
        }
    }

    /// Returns the name of its arrays in `pg_type`.
    pub fn array_name(&self) -> String {
        let end = self.name.floor_char_boundary(crate::NAME_LENGTH_MAX - 1);
        format!("_{}", &self.name[..end])
    }

    fn value(&self, label: &Label) -> Value {
        Value::Enum { of: self.oid, position: label.position }
    }

    /// Adds a label. Fails if too many labels have been put between its neighbours: their positions cannot change.
    pub fn add(&mut self, oid: u32, name: &str, place: Place<'_>) -> Result<()> {
        let Kind::Enum(labels) = &mut self.kind else {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", self.name)));
        };
        let find = |wanted: &str| {
            let missing = || {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{wanted}\" is not an existing enum label"))
            };
            labels.iter().position(|label| label.name == wanted).ok_or_else(missing)
        };
        let at = match place {
            Place::Last => labels.len(),
            Place::Before(other) => find(other)?,
            Place::After(other) => find(other)? + 1,
        };
        let before = at.checked_sub(1).map(|before| labels[before].position);
        let position = match (before, labels.get(at).map(|label| label.position)) {
            (None, None) => Some(0),
            (Some(before), None) => before.checked_add(GAP),
            (None, Some(after)) => after.checked_sub(GAP),
            (Some(before), Some(after)) => {
                let middle = before.midpoint(after);
                (before < middle && middle < after).then_some(middle)
            }
        };
        let full = || {
            let message = format!("no more labels fit at this place of type {}", self.name);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .hint("Create another type with all labels, and change the type of the columns.")
        };
        let label = Label { oid, position: position.ok_or_else(full)?, name: name.to_owned() };
        labels.insert(at, label);
        Ok(())
    }
}

/// All such types.
#[derive(Clone, Debug, Default)]
pub struct UserTypes {
    by_oid: HashMap<u32, Arc<UserType>>,
    by_name: HashMap<String, HashMap<String, u32>>,
    /// The positions of labels, by the enumeration.
    positions: HashMap<u32, Arc<HashMap<String, i64>>>,
    /// Domains, by the columns that have them.
    by_column: HashMap<(u32, usize), u32>,
}

impl UserTypes {
    /// Adds a type, or replaces the one with its number.
    pub fn put(&mut self, ty: UserType) {
        self.remove(ty.oid);
        self.by_name.entry(ty.schema.clone()).or_default().insert(ty.name.clone(), ty.oid);
        if let Kind::Enum(labels) = &ty.kind {
            let positions = labels.iter().map(|label| (label.name.clone(), label.position)).collect();
            self.positions.insert(ty.oid, Arc::new(positions));
        }
        let columns = ty.domain().map_or(&[][..], |domain| &domain.columns);
        self.by_column.extend(columns.iter().map(|column| (*column, ty.oid)));
        self.by_oid.insert(ty.oid, Arc::new(ty));
    }

    /// Removes a type, if it is there.
    pub fn remove(&mut self, oid: u32) {
        let Some(old) = self.by_oid.remove(&oid) else { return };
        self.positions.remove(&oid);
        if let Some(names) = self.by_name.get_mut(&old.schema) {
            names.remove(&old.name);
        }
        if old.domain().is_some() {
            self.by_column.retain(|_, domain| *domain != oid);
        }
    }

    /// Returns the type with this number.
    pub fn get(&self, oid: u32) -> Option<&Arc<UserType>> {
        self.by_oid.get(&oid)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_oid.is_empty()
    }

    /// Returns all types, by number.
    pub fn all(&self) -> Vec<&Arc<UserType>> {
        let mut all: Vec<_> = self.by_oid.values().collect();
        all.sort_by_key(|ty| ty.oid);
        all
    }

    /// Returns the type of that name.
    pub fn find(&self, schema: &str, name: &str) -> Option<&Arc<UserType>> {
        self.get(*self.by_name.get(schema)?.get(name)?)
    }

    /// Returns a domain, the domain that it is over, and so on.
    pub fn and_parents<'a>(&'a self, ty: &'a UserType) -> impl Iterator<Item = &'a UserType> {
        std::iter::successors(Some(ty), |ty| self.get(ty.parent()?).map(|parent| &**parent))
    }

    /// Returns the domain of a table's column.
    pub fn of_column(&self, table: u32, column: usize) -> Option<&Arc<UserType>> {
        self.get(*self.by_column.get(&(table, column))?)
    }

    /// Returns the type of that number, or of the arrays of it.
    pub fn of_oid(&self, oid: u32) -> Option<SqlType> {
        match self.get(oid) {
            Some(ty) => Some(ty.ty()),
            None => self.get(oid.checked_sub(1)?).filter(|ty| ty.domain().is_none()).map(|ty| ty.ty().array()),
        }
    }
}

impl Environment {
    /// Returns the type that a name means, looked up in the search path if it has no schema.
    pub fn user_type(&self, schema: Option<&str>, name: &str) -> Option<&Arc<UserType>> {
        match schema {
            Some(schema) => self.types.find(schema, name),
            None => self.search_path.iter().find_map(|schema| self.types.find(schema, name)),
        }
    }

    /// Returns the type of a number.
    pub fn type_of_oid(&self, oid: u32) -> Option<SqlType> {
        SqlType::from_oid(oid).or_else(|| self.types.of_oid(oid))
    }

    /// Whether statements find a type without its schema.
    pub fn is_visible(&self, ty: &UserType) -> bool {
        SqlType::from_name(&ty.name).is_none()
            && self.user_type(None, &ty.name).is_some_and(|found| found.oid == ty.oid)
    }

    /// Returns the name of a type in messages, as in `format_type`.
    pub fn type_name(&self, ty: SqlType) -> Cow<'static, str> {
        let Scalar::Enum(oid) = ty.scalar else { return ty.name() };
        let name = self.types.get(oid).map_or_else(|| "???".into(), |known| self.user_type_name(known));
        (name + if ty.is_array { "[]" } else { "" }).into()
    }

    /// Returns the name of a type that a statement has created, with its schema if the name alone does not mean it.
    pub fn user_type_name(&self, ty: &UserType) -> String {
        let name = quote_ident(&ty.name);
        if self.is_visible(ty) { name } else { format!("{}.{name}", quote_ident(&ty.schema)) }
    }

    /// Returns the name of the type with a number, and with its modifier, if that is given.
    pub fn name_of_oid(&self, oid: u32, modifier: Option<i32>) -> Option<String> {
        if let Some(known) = self.types.get(oid) {
            return Some(self.user_type_name(known));
        }
        let ty = self.type_of_oid(oid)?;
        Some(match modifier {
            Some(modifier) => self.describe_type(ty, modifier),
            None => self.type_name(ty).into_owned(),
        })
    }

    /// Returns the name of a type with its modifier, as statements write it.
    fn describe_type(&self, ty: SqlType, modifier: i32) -> String {
        match ty.scalar {
            Scalar::Enum(_) => self.type_name(ty).into_owned(),
            _ => ty.describe(modifier),
        }
    }

    /// Returns the value of a label.
    pub(crate) fn parse_label(&self, of: u32, text: &str) -> Result<Value> {
        let position = self.types.positions.get(&of).and_then(|positions| positions.get(text));
        position.map(|position| Value::Enum { of, position: *position }).ok_or_else(|| {
            let name = self.type_name(SqlType::scalar(Scalar::Enum(of)));
            let message = format!("invalid input value for enum {name}: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })
    }

    /// Returns the label of a value. A value whose type is gone, which only a cursor may still have, is shown by its
    /// position.
    pub(crate) fn label(&self, of: u32, position: i64) -> Cow<'_, str> {
        let labels = self.types.get(of).map_or(&[][..], |ty| ty.labels());
        match labels.binary_search_by_key(&position, |label| label.position) {
            Ok(at) => Cow::Borrowed(&labels[at].name),
            Err(_) => position.to_string().into(),
        }
    }

    /// Returns the values of a type from one to another, both included; `None`: from the first one, or to the last one.
    pub fn labels_between(&self, of: u32, from: Option<i64>, to: Option<i64>) -> Vec<Value> {
        let Some(ty) = self.types.get(of) else { return Vec::new() };
        let is_between =
            |label: &&Label| from.is_none_or(|from| from <= label.position) && to.is_none_or(|to| label.position <= to);
        ty.labels().iter().filter(is_between).map(|label| ty.value(label)).collect()
    }

    /// Replaces the marks that stand for the names of such types ([`SqlType::name`]) in the texts of an error.
    pub fn named(&self, error: SqlError) -> SqlError {
        let has_mark = |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains(MARK));
        let report = error.report();
        if !report.message.contains(MARK) && !has_mark(&report.detail) && !has_mark(&report.hint) {
            return error;
        }
        error.map_texts(|text| {
            self.types.all().into_iter().fold(text, |text, ty| text.replace(&mark(ty.oid), &self.type_name(ty.ty())))
        })
    }
}

/// The beginning of a mark.
const MARK: &str = "{type ";

/// Returns the text that stands for the name of a type where only its number is known.
pub(crate) fn mark(oid: u32) -> String {
    format!("{MARK}{oid}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood() -> UserType {
        let mut mood = UserType {
            oid: 20000,
            schema: "public".into(),
            name: "mood".into(),
            generation: 0,
            kind: Kind::Enum(vec![]),
        };
        for (at, label) in ["sad", "ok", "happy"].into_iter().enumerate() {
            mood.add(20002 + at as u32, label, Place::Last).unwrap();
        }
        mood
    }

    fn names(ty: &UserType) -> Vec<&str> {
        ty.labels().iter().map(|label| &*label.name).collect()
    }

    #[test]
    fn positions_stay_and_new_ones_fit_between() {
        let mut mood = mood();
        let before: Vec<_> = mood.labels().to_vec();
        mood.add(1, "first", Place::Before("sad")).unwrap();
        mood.add(2, "fine", Place::After("ok")).unwrap();
        mood.add(3, "fair", Place::Before("fine")).unwrap();
        assert_eq!(names(&mood), ["first", "sad", "ok", "fair", "fine", "happy"]);
        assert!(mood.labels().is_sorted_by_key(|label| label.position));
        assert!(before.iter().all(|label| mood.labels().contains(label)));
        let error = mood.add(4, "x", Place::After("none")).unwrap_err();
        assert_eq!(error.report().message, "\"none\" is not an existing enum label");
    }

    #[test]
    fn a_place_that_is_full_is_an_error() {
        let mut mood = mood();
        let added = (0..100).take_while(|at| mood.add(*at, &at.to_string(), Place::After("sad")).is_ok()).count();
        assert_eq!(added, 40);
        assert!(mood.labels().is_sorted_by(|left, right| left.position < right.position));
    }

    #[test]
    fn names_in_errors_depend_on_the_search_path() {
        let mut types = UserTypes::default();
        types.put(mood());
        let mut environment = Environment { types: types.into(), ..Environment::default() };
        let ty = SqlType::scalar(Scalar::Enum(20000));
        let error = |environment: &Environment| {
            let error = SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {} to {}", ty, ty.array()));
            environment.named(error).report().message.clone()
        };
        assert_eq!(error(&environment), "cannot cast type mood to mood[]");
        environment.search_path = [].into();
        assert_eq!(error(&environment), "cannot cast type public.mood to public.mood[]");
    }
}
