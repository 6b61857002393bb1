//! Columns with values of their own, that exist: ALTER TABLE .. ALTER COLUMN .. ADD GENERATED, SET GENERATED, DROP
//! IDENTITY, DROP EXPRESSION.

use sqlparser::ast::{GeneratedAs, ObjectName};

use super::{
    alter::missing,
    alter_object::ColumnAction,
    alter_sequence::{SequenceOption, redefine},
    context::ChangeContext,
    create::{check_sequence, sequence_def},
    skip,
};
use crate::{
    bind::names::relation_of,
    catalog::{
        Change,
        definition::{ColumnDef, DefaultDef, Definition, Identity, SequenceDef, TableDef},
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
};

impl ChangeContext<'_> {
    /// Changes the identity of a column; the transaction has the table alone.
    pub(super) fn alter_identity(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        name: &str,
        action: &ColumnAction,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let at = def.column(name).ok_or_else(|| missing(name, &def.name))?;
        let refused = |what: &str| {
            let message = format!("column \"{name}\" of relation \"{}\" {what}", def.name);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        };
        let column = &def.columns[at];
        match action {
            ColumnAction::Nothing => Ok(()),
            ColumnAction::AddIdentity { generated, sequence, options } => {
                if !column.ty.is_integer() {
                    let message = "identity column type must be smallint, integer, or bigint";
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                if !column.not_null {
                    return Err(refused("must be declared NOT NULL before identity can be added"));
                }
                if column.identity.is_some() {
                    return Err(refused("is already an identity column"));
                }
                if column.default.is_some() {
                    return Err(refused("already has a default value"));
                }
                let sequence = self.identity_sequence(active, &def, at, sequence.as_ref(), options)?;
                def.columns[at].identity = Some(identity_of(*generated));
                def.columns[at].default = Some(DefaultDef::NextOf(sequence.id));
                self.apply(
                    active,
                    vec![Change::Put(Definition::Sequence(sequence)), Change::Put(Definition::Table(def))],
                )
            }
            ColumnAction::SetIdentity(generated) => {
                if column.identity.is_none() {
                    return Err(refused("is not an identity column"));
                }
                def.columns[at].identity = Some(identity_of(*generated));
                self.replace_table(active, def)
            }
            ColumnAction::DropIdentity { if_exists } if column.identity.is_none() => {
                let error = refused("is not an identity column");
                if !if_exists {
                    return Err(error);
                }
                let message = format!("{}, skipping", error.report().message);
                skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                Ok(())
            }
            ColumnAction::DropExpression { .. } if column.generation().is_some() => {
                def.columns[at].default = None;
                self.replace_table(active, def)
            }
            ColumnAction::DropExpression { if_exists } => {
                let error = refused("is not a stored generated column");
                if !if_exists {
                    return Err(error);
                }
                skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("{}, skipping", error.report().message));
                Ok(())
            }
            ColumnAction::DropIdentity { .. } => {
                let column = &mut def.columns[at];
                (column.identity, column.default) = (None, None);
                let id = def.id;
                self.replace_table(active, def)?;
                let owned = active.catalog.owned_by(id).filter(|sequence| sequence.owner == Some((id, at)));
                for sequence in owned.cloned().collect::<Vec<_>>() {
                    self.check_sequence(active, &sequence)?;
                    self.take_name(active, &sequence.schema, &sequence.name, false)?;
                    self.apply(active, vec![Change::Drop(Definition::Sequence(sequence))])?;
                }
                Ok(())
            }
        }
    }

    /// Returns a new sequence for a column, with the given name or one built from the column's.
    fn identity_sequence(
        &self,
        active: &ActiveTransaction,
        def: &TableDef,
        at: usize,
        name: Option<&ObjectName>,
        options: &[SequenceOption],
    ) -> Result<SequenceDef> {
        let ColumnDef { name: column, ty, .. } = &def.columns[at];
        let name = match name.map(relation_of).transpose()? {
            None => self.free_name(active, &def.schema, &def.name, column, "seq", &[]),
            Some((schema, _)) if schema.as_ref().is_some_and(|schema| *schema != def.schema) => {
                return Err(SqlError::unsupported("a sequence of a column in another schema"));
            }
            Some((_, name)) if active.catalog.find(&def.schema, &name).is_some() => {
                let message = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            Some((_, name)) => name,
        };
        let mut sequence = sequence_def(self.catalog_number()?, &def.schema, &name, Some(*ty), &[])?;
        redefine(&mut sequence, *ty, options);
        if !options.iter().any(|option| matches!(option, SequenceOption::Start(_))) {
            sequence.start = if sequence.increment > 0 { sequence.least } else { sequence.greatest };
        }
        sequence.owner = Some((def.id, at));
        check_sequence(&sequence)?;
        self.take_name(active, &def.schema, &name, true)?;
        Ok(sequence)
    }
}

fn identity_of(generated: GeneratedAs) -> Identity {
    match generated {
        GeneratedAs::Always => Identity::Always,
        _ => Identity::ByDefault,
    }
}
