//! The precedence of operators, where PostgreSQL's differs from the parser's.
//!
//! A sign binds more tightly than `^`, AT TIME ZONE and COLLATE; any other operator before an operand (`~`, `@`, ..)
//! binds less tightly than arithmetic.

use std::{mem, ops::ControlFlow};

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, VisitMut, VisitorMut};

/// Rearranges the expressions of a tree.
pub(super) fn arrange(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Precedence);
}

struct Precedence;

impl VisitorMut for Precedence {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: operand }
                if binds_behind_signs(operand) =>
            {
                let (op, mut operand) = (*op, mem::replace(&mut **operand, nothing()));
                put_before(op, &mut operand);
                *expr = operand;
            }
            Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                if let Expr::UnaryOp { op: before, expr: operand } = &mut **left
                    && !matches!(before, UnaryOperator::Minus | UnaryOperator::Plus | UnaryOperator::Not)
                {
                    let [left, right] = [operand, right].map(|operand| mem::replace(operand, Box::new(nothing())));
                    let inner = Expr::BinaryOp { left, op: op.clone(), right };
                    *expr = Expr::UnaryOp { op: *before, expr: Box::new(inner) };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn binds_behind_signs(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::PGExp, .. } | Expr::AtTimeZone { .. } | Expr::Collate { .. })
}

/// Moves a sign to the operand of an expression that it belongs to.
fn put_before(sign: UnaryOperator, expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left: operand, op: BinaryOperator::PGExp, .. }
        | Expr::AtTimeZone { timestamp: operand, .. }
        | Expr::Collate { expr: operand, .. } => put_before(sign, operand),
        operand => *operand = Expr::UnaryOp { op: sign, expr: Box::new(mem::replace(operand, nothing())) },
    }
}

fn is_arithmetic(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, PGExp, Plus};
    matches!(operator, Plus | Minus | Multiply | Divide | Modulo | PGExp)
}

/// Returns a placeholder for an expression while it is moved.
fn nothing() -> Expr {
    Expr::Tuple(Vec::new())
}
