//! Functions in FROM whose columns the statement determines: `json_to_record` and its like, by a list of column
//! definitions, or by a record that they get.

use sqlparser::ast;

use super::{
    Binder, Typed,
    expr::unnested,
    names::{name_of, type_of},
};
use crate::{
    catalog::Relation,
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions::{
        SetFunction,
        records::{record_from_json, records_from_json},
    },
    query::sets::SetCall,
    result::Column,
    types::{Array, Scalar, SqlType, Value, record::Field},
};

/// Such a function.
#[derive(Clone, Copy)]
pub(super) struct RecordFunction {
    name: &'static str,
    /// The type of its JSON.
    ty: SqlType,
    /// Whether its first argument is a record.
    has_base: bool,
    eval: SetFunction,
}

const FUNCTIONS: [RecordFunction; 8] = {
    const fn function(name: &'static str, ty: SqlType, has_base: bool, eval: SetFunction) -> RecordFunction {
        RecordFunction { name, ty, has_base, eval }
    }
    [
        function("json_to_record", SqlType::JSON, false, record_from_json),
        function("json_to_recordset", SqlType::JSON, false, records_from_json),
        function("json_populate_record", SqlType::JSON, true, record_from_json),
        function("json_populate_recordset", SqlType::JSON, true, records_from_json),
        function("jsonb_to_record", SqlType::JSONB, false, record_from_json),
        function("jsonb_to_recordset", SqlType::JSONB, false, records_from_json),
        function("jsonb_populate_record", SqlType::JSONB, true, record_from_json),
        function("jsonb_populate_recordset", SqlType::JSONB, true, records_from_json),
    ]
};

/// Returns the function of a name.
pub(super) fn record_function(name: &str) -> Option<RecordFunction> {
    FUNCTIONS.iter().find(|function| function.name == name).copied()
}

/// The columns of a call: their names, types and modifiers, and their values where the JSON lacks them.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    modifiers: Vec<i32>,
    usual: Vec<Expr>,
}

impl Columns {
    fn push(&mut self, name: &str, ty: SqlType, modifier: i32, usual: Expr) {
        self.fields.push(Field { name: name.into(), ty });
        self.modifiers.push(modifier);
        self.usual.push(usual);
    }
}

/// Fails for a list of column definitions of a source that determines its columns itself.
pub(super) fn refuse_definitions(alias: Option<&ast::TableAlias>) -> Result<()> {
    match alias.is_some_and(|alias| alias.columns.iter().any(|column| column.data_type.is_some())) {
        true => {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        false => Ok(()),
    }
}

fn no_definitions() -> SqlError {
    let message = "a column definition list is required for functions returning \"record\"";
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Binder<'_> {
    /// Binds a call of such a function; returns its columns, too.
    pub(super) fn record_call(
        &mut self,
        function: RecordFunction,
        arguments: &[&ast::Expr],
        alias: Option<&ast::TableAlias>,
    ) -> Result<(SetCall, Vec<Column>)> {
        let (base, json) = match (function.has_base, arguments) {
            (false, [json]) => (None, *json),
            (true, [base, json]) => (Some(*base), *json),
            _ => {
                let message = format!("function {}({} arguments) does not exist", function.name, arguments.len());
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
            }
        };
        let listed = self.listed_columns(alias)?;
        let columns = match (base, listed) {
            (None, None) => return Err(no_definitions()),
            (None, Some(listed)) => listed,
            (Some(base), listed) => self.base_columns(function, base, listed)?,
        };
        let json = self.without_rows("functions in FROM", |this| this.expr(json))?;
        let json = self.coerce(json, function.ty)?;
        let shown = columns.fields.iter().zip(&columns.modifiers);
        let shown =
            shown.map(|(field, modifier)| Column { modifier: *modifier, ..Column::new(&*field.name, field.ty) });
        let shown: Vec<_> = shown.collect();
        let modifiers = columns.modifiers.iter().map(|modifier| Value::Int4(*modifier)).collect();
        let arguments = vec![
            Expr::Record(columns.fields.into(), columns.usual),
            Expr::Constant(Value::array(Array::new(Scalar::Int4, modifiers))),
            json,
            Expr::Constant(Value::text(function.name)),
        ];
        let (name, width) = (function.name.into(), shown.len());
        Ok((SetCall { name, arguments, is_strict: false, eval: function.eval, width, record: None }, shown))
    }

    /// Returns the columns of a list of definitions, if there is one.
    fn listed_columns(&mut self, alias: Option<&ast::TableAlias>) -> Result<Option<Columns>> {
        let Some(alias) = alias.filter(|alias| alias.columns.iter().any(|column| column.data_type.is_some())) else {
            return Ok(None);
        };
        let mut columns = Columns::default();
        for column in &alias.columns {
            let name = name_of(&column.name);
            let Some(data_type) = &column.data_type else {
                let message = format!("column \"{name}\" has no type");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            if self.domain_named(data_type)?.is_some() {
                return Err(SqlError::unsupported("a domain in a column definition list"));
            }
            let (ty, modifier) = type_of(data_type, self.environment)?;
            columns.push(&name, ty, modifier, Expr::Constant(Value::Null));
        }
        Ok(Some(columns))
    }

    /// Returns the columns of the record that a function gets: of NULL as a row of a table, those of the table.
    fn base_columns(
        &mut self,
        function: RecordFunction,
        base: &ast::Expr,
        mut listed: Option<Columns>,
    ) -> Result<Columns> {
        if let ast::Expr::Cast { expr, data_type: ast::DataType::Custom(name, _), .. } = unnested(base)
            && matches!(unnested(expr), ast::Expr::Value(value) if value.value == ast::Value::Null)
        {
            let is_record = name.to_string().eq_ignore_ascii_case("record");
            if let Some(listed) = listed.take_if(|_| is_record) {
                return Ok(listed);
            }
            if let Some(columns) = self.columns_of_row(name)? {
                return match listed {
                    None => Ok(columns),
                    Some(_) => {
                        let message =
                            "a column definition list is redundant for a function returning a named composite type";
                        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
                    }
                };
            }
        }
        let Some(listed) = listed else { return Err(no_definitions()) };
        let typed = self.without_rows("functions in FROM", |this| this.expr(base))?;
        let Typed { expr: Expr::Record(fields, values), .. } = typed else {
            let message = format!("first argument of {} must be a row type", function.name);
            let what = "a table or a view (null::name), or a row constructor";
            return Err(
                SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(format!("It can be NULL as a row of {what}."))
            );
        };
        let mut columns = Columns::default();
        for (field, value) in fields.iter().zip(values) {
            columns.push(&field.name, field.ty, -1, value);
        }
        let types = |columns: &Columns| columns.fields.iter().map(|field| field.ty).collect::<Vec<_>>();
        match types(&columns) == types(&listed) {
            // The keys are the names in the record; those of the list name the columns.
            true => Ok(columns),
            false => {
                let message = "function return row and query-specified return row do not match";
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
        }
    }

    /// Returns the columns of a table or a view whose name stands for the type of its rows.
    fn columns_of_row(&mut self, name: &ast::ObjectName) -> Result<Option<Columns>> {
        let null = || Expr::Constant(Value::Null);
        let mut columns = Columns::default();
        match self.relation(name)? {
            Some(Relation::Table(table)) => {
                self.uses(&table);
                for (at, column) in table.def.live_columns() {
                    if self.catalog.types.of_column(table.def.id, at).is_some() {
                        return Err(SqlError::unsupported("the row of a table with a domain in this function"));
                    }
                    columns.push(&column.name, column.ty, column.modifier, null());
                }
            }
            Some(Relation::View(view)) => {
                self.uses_view(&view);
                for column in &view.def.columns {
                    columns.push(&column.name, column.ty, column.modifier, null());
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(columns))
    }
}
