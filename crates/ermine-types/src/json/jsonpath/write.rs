//! Paths as text: as PostgreSQL writes them.

use std::fmt::{self, Write};

use super::{JsonPath, Node, Step};
use crate::json::write::write_string;

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_strict { "strict " } else { "" })?;
        write_node(&self.root, true, f)
    }
}

/// Writes an operand, in parentheses if its operator does not bind tighter than that around it.
fn write_operand(operand: &Node, around: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write_node(operand, operand.priority() <= around.priority(), f)
}

fn write_binary(node: &Node, name: &str, operands: &[Node; 2], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write_operand(&operands[0], node, f)?;
    write!(f, " {name} ")?;
    write_operand(&operands[1], node, f)
}

/// Writes a part; an operator in parentheses, if asked for.
fn write_node(node: &Node, in_parentheses: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_operator = matches!(
        node,
        Node::Sign(..)
            | Node::Arithmetic(..)
            | Node::Compare(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::StartsWith(_)
            | Node::LikeRegex(..)
    );
    if is_operator && in_parentheses {
        f.write_char('(')?;
    }
    match node {
        Node::Root => f.write_char('$'),
        Node::Current => f.write_char('@'),
        Node::Last => f.write_str("last"),
        Node::Null => f.write_str("null"),
        Node::Bool(value) => write!(f, "{value}"),
        Node::Number(number) => write!(f, "{number}"),
        Node::String(text) => write_string(text, f),
        Node::Variable(name) => {
            f.write_char('$')?;
            write_string(name, f)
        }
        Node::Steps(base, steps) => {
            match **base {
                Node::Number(_) => {
                    f.write_char('(')?;
                    write_node(base, false, f)?;
                    f.write_char(')')?;
                }
                _ => write_node(base, true, f)?,
            }
            steps.iter().try_for_each(|step| write_step(step, f))
        }
        Node::Sign(is_negative, operand) => {
            f.write_char(if *is_negative { '-' } else { '+' })?;
            write_operand(operand, node, f)
        }
        Node::Arithmetic(operator, operands) => write_binary(node, operator.name(), operands, f),
        Node::Compare(operator, operands) => write_binary(node, operator.name(), operands, f),
        Node::And(operands) => write_binary(node, "&&", operands, f),
        Node::Or(operands) => write_binary(node, "||", operands, f),
        Node::StartsWith(operands) => write_binary(node, "starts with", operands, f),
        Node::Not(operand) => write_call("!", operand, "", f),
        Node::IsUnknown(operand) => write_call("", operand, " is unknown", f),
        Node::Exists(operand) => write_call("exists ", operand, "", f),
        Node::LikeRegex(operand, pattern, flags) => {
            write_operand(operand, node, f)?;
            f.write_str(" like_regex ")?;
            write_string(pattern, f)?;
            if flags.is_empty() { Ok(()) } else { write!(f, " flag \"{flags}\"") }
        }
    }?;
    if is_operator && in_parentheses { f.write_char(')') } else { Ok(()) }
}

fn write_call(before: &str, operand: &Node, after: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{before}(")?;
    write_node(operand, false, f)?;
    write!(f, "){after}")
}

fn write_step(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Key(key) => {
            f.write_char('.')?;
            write_string(key, f)
        }
        Step::AnyKey => f.write_str(".*"),
        Step::AnyElement => f.write_str("[*]"),
        Step::Elements(ranges) => {
            for (at, (from, to)) in ranges.iter().enumerate() {
                f.write_char(if at == 0 { '[' } else { ',' })?;
                write_node(from, false, f)?;
                if let Some(to) = to {
                    f.write_str(" to ")?;
                    write_node(to, false, f)?;
                }
            }
            f.write_char(']')
        }
        Step::Levels(from, to) => write_levels(*from, *to, f),
        Step::Filter(condition) => write_call("?", condition, "", f),
        Step::Method(method) => write!(f, ".{}()", method.name()),
    }
}

fn write_levels(from: Option<u32>, to: Option<u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let level = |level: Option<u32>| level.map_or_else(|| "last".to_owned(), |level| level.to_string());
    f.write_str(".**")?;
    match (from, to) {
        (Some(0), None) => Ok(()),
        _ if from == to => write!(f, "{{{}}}", level(from)),
        _ => write!(f, "{{{} to {}}}", level(from), level(to)),
    }
}
