//! Objects with rights: their kinds, names and schemas, and those of an owner.

use super::{
    Catalog, MAIN_DATABASE,
    comments::{PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_PUBLICATION, PG_TYPE},
    definition::{ObjectId, RightsDef},
    rights::{Kind, Object, Rights},
};

impl Catalog {
    /// Returns the object of a record; `None`: it is gone.
    pub(crate) fn object_of(&self, rights: &RightsDef) -> Option<Object> {
        let id = rights.object;
        let kind = match rights.class {
            PG_CLASS if self.sequence(id).is_some() => Kind::Sequence,
            PG_CLASS if self.table(id).is_some() || self.view(id).is_some() => Kind::Table,
            PG_TYPE if self.types.get(id).is_some() => Kind::Type,
            PG_PUBLICATION if self.publications.contains_key(&id) => Kind::Publication,
            PG_NAMESPACE if self.schemas().any(|(_, schema)| schema == id) => Kind::Schema,
            PG_DATABASE if id == MAIN_DATABASE || self.database(id).is_some() => Kind::Database,
            _ => return None,
        };
        Some(Object::new(kind, id))
    }

    pub(crate) fn has_rights_object(&self, rights: &RightsDef) -> bool {
        self.object_of(rights).is_some()
    }

    /// Returns the objects that roles own, by number.
    pub(crate) fn owned_objects(&self, roles: &[ObjectId]) -> Vec<Object> {
        let owned = self.all_rights().filter(|rights| roles.contains(&rights.owner));
        owned.filter_map(|rights| self.object_of(rights)).collect()
    }

    /// Returns the kind and the name of an object in messages.
    pub(crate) fn described(&self, object: Object) -> (&'static str, String) {
        let (kind, mut name) = match self.full_name(object) {
            Some(named) => named,
            None => (object.kind.word(), vec![object.id.to_string()]),
        };
        let kind = match kind {
            "TABLE" => "table",
            "VIEW" => "view",
            "MATERIALIZED VIEW" => "materialized view",
            "SEQUENCE" => "sequence",
            "TYPE" => "type",
            "SCHEMA" => "schema",
            "PUBLICATION" => "publication",
            _ => "database",
        };
        (kind, name.pop().unwrap_or_default())
    }

    /// Returns the kind of an object, as DROP names it, and its name with its schema.
    pub(crate) fn full_name(&self, object: Object) -> Option<(&'static str, Vec<String>)> {
        let id = object.id;
        Some(match object.kind {
            Kind::Table | Kind::Column if let Some(view) = self.view(id) => {
                let kind = if self.table(id).is_some() { "MATERIALIZED VIEW" } else { "VIEW" };
                (kind, vec![view.def.schema.clone(), view.def.name.clone()])
            }
            Kind::Table | Kind::Column => {
                let table = self.table(id)?;
                ("TABLE", vec![table.def.schema.clone(), table.def.name.clone()])
            }
            Kind::Sequence => {
                let sequence = self.sequence(id)?;
                ("SEQUENCE", vec![sequence.def.schema.clone(), sequence.def.name.clone()])
            }
            Kind::Type => {
                let ty = self.types.get(id)?;
                ("TYPE", vec![ty.schema.clone(), ty.name.clone()])
            }
            Kind::Schema => ("SCHEMA", vec![self.schemas().find(|(_, schema)| *schema == id)?.0.to_owned()]),
            Kind::Publication => ("PUBLICATION", vec![self.publications.get(&id)?.name.clone()]),
            // The session's name of the first database is not known here.
            Kind::Database => ("DATABASE", vec![self.database(id)?.name.clone()]),
        })
    }

    /// Returns the schema of an object.
    pub(crate) fn schema_of(&self, object: Object) -> Option<String> {
        match &self.full_name(object)?.1[..] {
            [schema, _] => Some(schema.clone()),
            _ => None,
        }
    }

    /// Whether a role has a right to a relation, or to any of its columns.
    pub(crate) fn has_any_column(&self, role: ObjectId, relation: ObjectId, right: Rights) -> bool {
        let has = |at: usize| !self.held_of_column(role, relation, at, right).is_empty();
        match (self.table(relation), self.view(relation)) {
            (Some(table), _) => table.def.live_columns().any(|(at, _)| has(at)),
            (None, Some(view)) => (0..view.def.columns.len()).any(has),
            (None, None) => false,
        }
    }
}
