//! The precedence of operators, where PostgreSQL's differs from the parser's.
//!
//! A sign binds more tightly than `^`, AT TIME ZONE and COLLATE; any other operator before an operand (`~`, `@`, ..)
//! binds less tightly than arithmetic, also where it is itself an operand: `1 + ~ 2 - 3` is `1 + (~ (2 - 3))`. A match
//! with a pattern (`~`, `~~`, ..) binds as tightly as `||`: `a ~ b || c` is `(a ~ b) || c`.
//!
//! The argument `t.*` becomes an expression, the whole row of `t`.

use std::{mem, ops::ControlFlow};

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, VisitMut,
    VisitorMut, helpers::attached_token::AttachedToken,
};

/// Rearranges the expressions of a tree.
pub(crate) fn correct_precedence(tree: &mut impl VisitMut) {
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
            Expr::BinaryOp { left, op, right } if is_arithmetic(op) && ends_with_prefix(left) => {
                let (op, right) = (op.clone(), mem::replace(right, Box::new(nothing())));
                let mut whole = mem::replace(&mut **left, nothing());
                extend_last_operand(&mut whole, op, right);
                *expr = whole;
            }
            Expr::BinaryOp { left, op, right } if is_match(op) && is_of_other(right) => {
                let (op, left) = (op.clone(), mem::replace(left, Box::new(nothing())));
                let mut whole = mem::replace(&mut **right, nothing());
                extend_first_operand(&mut whole, left, op);
                *expr = whole;
            }
            Expr::Function(function) => name_rows(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn name_rows(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(source)) = argument {
            let row = Expr::QualifiedWildcard(source.clone(), AttachedToken::empty());
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
        }
    }
}

/// Whether the last operand of an expression belongs to an operator that binds less tightly than arithmetic.
fn ends_with_prefix(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => ends_with_prefix(expr),
        Expr::UnaryOp { op, .. } => !matches!(op, UnaryOperator::Not),
        Expr::BinaryOp { op, right, .. } => is_arithmetic(op) && ends_with_prefix(right),
        _ => false,
    }
}

/// Puts an operation behind the operand of the last prefix operator.
fn extend_last_operand(expr: &mut Expr, op: BinaryOperator, right: Box<Expr>) {
    match expr {
        Expr::UnaryOp { expr: operand, .. } | Expr::BinaryOp { right: operand, .. } if ends_with_prefix(operand) => {
            extend_last_operand(operand, op, right);
        }
        Expr::UnaryOp { expr: operand, .. } => {
            let left = mem::replace(operand, Box::new(nothing()));
            **operand = Expr::BinaryOp { left, op, right };
        }
        _ => {}
    }
}

/// Whether an expression is an operation that binds as tightly as a match.
fn is_of_other(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if !is_arithmetic(op))
}

/// Puts an operation before the first operand of those that bind as tightly as it does.
fn extend_first_operand(expr: &mut Expr, left: Box<Expr>, op: BinaryOperator) {
    match expr {
        Expr::BinaryOp { left: operand, op: own, .. } if !is_arithmetic(own) => extend_first_operand(operand, left, op),
        operand => {
            let right = Box::new(mem::replace(operand, nothing()));
            *operand = Expr::BinaryOp { left, op, right };
        }
    }
}

fn is_match(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{
        PGILikeMatch, PGLikeMatch, PGNotILikeMatch, PGNotLikeMatch, PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch,
        PGRegexNotMatch,
    };
    matches!(
        operator,
        PGRegexMatch
            | PGRegexIMatch
            | PGRegexNotMatch
            | PGRegexNotIMatch
            | PGLikeMatch
            | PGILikeMatch
            | PGNotLikeMatch
            | PGNotILikeMatch
    )
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
