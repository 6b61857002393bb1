//! Objects that have comments.

use super::{Catalog, MAIN_DATABASE, definition::CommentDef};

/// The numbers of PostgreSQL's tables that list the objects.
pub(crate) const PG_AUTHID: u32 = 1260;
pub(crate) const PG_TYPE: u32 = 1247;
pub(crate) const PG_CLASS: u32 = 1259;
pub(crate) const PG_CONSTRAINT: u32 = 2606;
pub(crate) const PG_DATABASE: u32 = 1262;
pub(crate) const PG_NAMESPACE: u32 = 2615;
pub(crate) const PG_PUBLICATION: u32 = 6104;
pub(crate) const PG_DEFAULT_ACL: u32 = 826;

impl Catalog {
    /// Whether the object of a comment exists.
    pub(crate) fn has_object(&self, comment: &CommentDef) -> bool {
        let id = comment.object;
        let has_index = |is_needed: &dyn Fn(bool) -> bool| {
            self.tables().into_iter().any(|table| {
                table.def.primary_key.as_ref().is_some_and(|key| key.id == id)
                    || table.def.indexes.iter().any(|index| index.id == id && is_needed(index.is_constraint))
            })
        };
        match comment.class {
            PG_CLASS if comment.column > 0 && self.view(id).is_some() => true,
            PG_CLASS if comment.column > 0 => self.table(id).is_some_and(|table| {
                table.def.columns.get(comment.column as usize - 1).is_some_and(|column| !column.is_dropped)
            }),
            PG_CLASS => {
                self.table(id).is_some()
                    || self.view(id).is_some()
                    || self.sequence(id).is_some()
                    || has_index(&|_| true)
            }
            PG_TYPE => self.types.get(id).is_some(),
            PG_PUBLICATION => self.publications().any(|publication| publication.id == id),
            PG_CONSTRAINT if comment.check.is_empty() => {
                let has_check = |ty: &&std::sync::Arc<crate::types::user_types::UserType>| {
                    ty.domain().is_some_and(|domain| domain.checks.iter().any(|check| check.oid == id))
                };
                self.foreign_key(id).is_some()
                    || has_index(&|is_constraint| is_constraint)
                    || self.types.all().iter().any(has_check)
            }
            PG_CONSTRAINT => {
                self.table(id).is_some_and(|table| table.def.checks.iter().any(|check| check.name == comment.check))
            }
            PG_NAMESPACE => self.schemas().any(|(_, schema)| schema == id),
            PG_DATABASE => id == MAIN_DATABASE || self.database(id).is_some(),
            PG_AUTHID => self.roles().any(|role| role.id == id),
            _ => true,
        }
    }
}
