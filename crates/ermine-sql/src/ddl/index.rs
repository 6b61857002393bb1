//! CREATE INDEX.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Ident, VisitMut as _, VisitorMut};

use super::{
    context::ChangeContext,
    create::{add_name, check_column_count, columns_of, included_of},
    skip,
};
use crate::{
    bind::{
        Binder, is_descending, label_of,
        names::{name_of, relation_of},
        unnested,
    },
    catalog::definition::{ColumnDef, DefaultDef, IndexDef, TableDef},
    error::{Result, SqlError, SqlState},
    expr::Expr,
    parse,
    result::RowSink,
    transaction::ActiveTransaction,
    types::SqlType,
};

impl ChangeContext<'_> {
    pub(super) fn create_index(
        &self,
        active: &mut ActiveTransaction,
        create: &ast::CreateIndex,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let table = self.table_alone(active, &create.table_name, false)?.expect("an error where it is not there");
        let mut def = table.def.clone();
        if self.add_index(active, &mut def, create, rows)? {
            let (id, at) = (def.id, def.indexes.len() - 1);
            self.replace_table(active, def)?;
            self.fill(active, id, &[at])?;
        }
        Ok("CREATE INDEX".into())
    }

    /// Adds an index to a definition, and takes its name; returns false if it exists already and the statement has IF
    /// NOT EXISTS.
    pub(super) fn add_index(
        &self,
        active: &ActiveTransaction,
        def: &mut TableDef,
        create: &ast::CreateIndex,
        rows: &mut dyn RowSink,
    ) -> Result<bool> {
        if let Some(using) = &create.using
            && !using.to_string().eq_ignore_ascii_case("btree")
        {
            let name = using.to_string().to_lowercase();
            if !create.include.is_empty() && ["brin", "gin", "hash"].contains(&&*name) {
                let message = format!("access method \"{name}\" does not support included columns");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return Err(SqlError::unsupported(format_args!("an index by {using}")));
        }
        if create.nulls_distinct == Some(false) {
            return Err(SqlError::unsupported("this form of CREATE INDEX"));
        }
        let (mut columns, mut names) = (Vec::new(), Vec::new());
        for column in &create.columns {
            let descending = is_descending(&column.column.options)?;
            if column.column.options.nulls_first.is_some_and(|first| first != descending) {
                return Err(SqlError::unsupported("an index with NULLs at the other end"));
            }
            let (at, name) = self.index_part(active, def, &columns, &column.column.expr)?;
            columns.push((at, descending));
            add_name(&mut names, name);
        }
        let included: Vec<_> = create.include.iter().map(name_of).collect();
        let included = included_of(def, &included, "")?;
        included.iter().for_each(|at| add_name(&mut names, def.columns[*at].name.clone()));
        let name = match &create.name {
            Some(name) => relation_of(name)?.1,
            None => self.free_name(active, &def.schema, &def.name, &names.join("_"), "idx", &[]),
        };
        if active.catalog.find(&def.schema, &name).is_some() {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                skip(rows, SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok(false);
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        self.take_name(active, &def.schema, &name, true)?;
        def.indexes.push(IndexDef {
            id: self.catalog_number()?,
            relation_file: self.relation_file(active, &def.schema)?,
            name,
            is_unique: create.unique,
            is_constraint: false,
            columns,
            predicate: create.predicate.as_ref().map(|predicate| unnested(predicate).to_string()),
            included,
        });
        Ok(true)
    }

    /// Returns a column of an index behind others, which may be a hidden one that is put into the definition, and its
    /// name in that of the index.
    fn index_part(
        &self,
        active: &ActiveTransaction,
        def: &mut TableDef,
        before: &[(usize, bool)],
        expr: &ast::Expr,
    ) -> Result<(usize, String)> {
        if let ast::Expr::Collate { .. } = expr {
            return Err(SqlError::unsupported("a collation in an index"));
        }
        parse::check_index_part(expr)?;
        if let ast::Expr::Identifier(ident) = unnested(expr) {
            let name = name_of(ident);
            return Ok((columns_of(def, std::slice::from_ref(&name))?[0], name));
        }
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let (bound, ty) = binder.index_expression(def, expr)?;
        check_ordered(ty)?;
        let label = label_of(expr).unwrap_or_else(|| "expr".into());
        let known = binder.computed(def)?;
        if let Some((at, _)) = known.iter().find(|(_, own)| *own == bound) {
            return Ok((*at, label));
        }
        if let Expr::Column(at) = bound {
            return Ok((at, label));
        }
        let text = shown(expr);
        let same = (0..def.columns.len()).find(|at| def.columns[*at].computation() == Some(&text));
        // No row stores a value for one that no index uses any longer.
        let is_used = |at: usize| known.iter().any(|(own, _)| *own == at) || before.iter().any(|(own, _)| *own == at);
        let mut free = (0..def.columns.len()).filter(|at| def.columns[*at].computation().is_some() && !is_used(*at));
        let at = same.or_else(|| free.next()).unwrap_or(def.columns.len());
        let mut column = ColumnDef::new(label.clone(), ty, -1);
        (column.is_dropped, column.default) = (true, Some(DefaultDef::Computed(text)));
        match def.columns.get_mut(at) {
            Some(free) => *free = column,
            None => {
                check_column_count(at + 1)?;
                def.columns.push(column);
            }
        }
        Ok((at, label))
    }
}

/// Fails for a type whose values have no order.
pub(super) fn check_ordered(ty: SqlType) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let message = format!("data type {} has no default operator class for access method \"btree\"", ty.name());
    let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(hint))
}

/// Returns the text of an expression of an index: names in lower case, and parentheses unless it is a call.
fn shown(expr: &ast::Expr) -> String {
    let mut expr = unnested(expr).clone();
    let _ = expr.visit(&mut LowerCase);
    match expr {
        ast::Expr::Function(_) => expr.to_string(),
        _ => format!("({expr})"),
    }
}

/// Writes names as they are known.
struct LowerCase;

impl VisitorMut for LowerCase {
    type Break = ();

    fn pre_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<()> {
        if ident.quote_style.is_none() {
            ident.value = name_of(ident);
        }
        ControlFlow::Continue(())
    }
}
