//! Sequences as sources of rows: one row, the state of the sequence, which no transaction's snapshot keeps.

use std::sync::Arc;

use crate::{
    catalog::sequence::Sequence,
    expr::{Expr, Function},
    query::{Body, Join, Query, Select, Source, SourceKind},
    result::Column,
    system::functions::{Resolved, sequence_state},
    types::{SqlType, Value},
};

/// Returns the source of a sequence's row, and its columns: the last number, how many have been logged ahead, and
/// whether the last number has been returned.
pub(super) fn sequence_source(sequence: &Sequence) -> (SourceKind, Vec<Column>) {
    let Resolved { result, is_strict, function: eval, .. } = sequence_state();
    let name = "pg_sequence_state".into();
    let state = Function { name, is_strict, is_immutable: false, is_volatile: false, grows: false, eval, result };
    // The number and the mark are read at one time.
    let state = Expr::Lookup(state, vec![Expr::Constant(Value::Oid(sequence.def.id))]);
    let inner = rows(Select { output: vec![state], ..Select::default() });
    let source = Source::new(0, 1, SourceKind::Derived(Arc::new(inner)), Join::Inner, String::new());
    let element = |place| Expr::Element(vec![Expr::Column(0), Expr::Constant(Value::Int4(place))]);
    let is_called = Expr::IsNull(Box::new(element(2)));
    let output = vec![element(1), Expr::Constant(Value::Int8(0)), Expr::Not(Box::new(is_called))];
    let columns = [("last_value", SqlType::INT8), ("log_cnt", SqlType::INT8), ("is_called", SqlType::BOOL)];
    let columns = columns.map(|(name, ty)| Column::new(name, ty)).into();
    (SourceKind::Derived(Arc::new(rows(Select { sources: vec![source], output, ..Select::default() }))), columns)
}

fn rows(select: Select) -> Query {
    let width = select.output.len();
    let body = Body::Select(Box::new(select));
    Query { body, order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() }
}
