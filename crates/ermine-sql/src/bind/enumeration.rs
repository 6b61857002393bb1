//! Calls that depend on the types that statements have created: `enum_first` and its like, `pg_typeof`, and casts that
//! are written as calls.

use sqlparser::ast::ObjectName;

use super::{Binder, Typed, expr::text_constant, names::user_type_of};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Call, Expr, Function},
    types::{Array, Environment, Scalar, SqlType, Value, cast::Context},
};

impl Binder<'_> {
    /// Binds such a call; `None`: it is none.
    pub(super) fn enumeration_call(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        let ty = arguments.iter().find_map(|argument| argument.ty);
        let created = ty.and_then(SqlType::created);
        let (eval, is_array): (Call, bool) = match (name, arguments, ty) {
            ("pg_typeof", [_], Some(ty)) if created.is_some() => {
                let name = self.environment.type_name(ty);
                return Ok(Some(Typed::new(text_constant(&name), SqlType::TEXT)));
            }
            ("enum_first", [_], Some(ty)) if ty.is_enum() => (first, false),
            ("enum_last", [_], Some(ty)) if ty.is_enum() => (last, false),
            ("enum_range", [_] | [_, _], Some(ty)) if ty.is_enum() => (range, true),
            (_, [value], _) => return self.cast_as_call(name, value),
            _ => return Ok(None),
        };
        let (Some(ty), Some(oid)) = (ty, created) else { return Ok(None) };
        // The value may be NULL: its type is an argument, too.
        let mut operands = vec![Expr::Constant(Value::Oid(oid))];
        for argument in arguments {
            if argument.ty.is_some_and(|other| other != ty) {
                return Ok(None);
            }
            operands.push(self.coerce(argument.clone(), ty)?);
        }
        let result = if is_array { ty.array() } else { ty };
        let function = Function {
            name: name.into(),
            is_strict: false,
            is_immutable: false,
            is_volatile: false,
            grows: false,
            eval,
            result,
        };
        Ok(Some(Typed::new(Expr::Call(function, operands), result)))
    }

    /// Binds `name(value)` where a statement has created a type of that name.
    fn cast_as_call(&mut self, name: &str, value: &Typed) -> Result<Option<Typed>> {
        let object = ObjectName::from(vec![sqlparser::ast::Ident::with_quote('"', name)]);
        let Some(ty) = user_type_of(&object, self.environment)?.map(|ty| ty.ty()) else { return Ok(None) };
        match self.call_of(name, vec![value.clone()]) {
            Err(error) if error.state() == SqlState::UNDEFINED_FUNCTION => {
                let cast = self.convert(value.clone(), ty, -1, Context::Explicit).map_err(|_| error)?;
                Ok(Some(Typed::new(cast, ty)))
            }
            done => done.map(Some),
        }
    }
}

fn empty(of: u32, environment: &Environment) -> SqlError {
    let name = environment.type_name(SqlType::scalar(Scalar::Enum(of)));
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("enum {name} contains no values"))
}

fn first(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [Value::Oid(of), ..] = arguments else { return Ok(Value::Null) };
    environment.labels_between(*of, None, None).into_iter().next().ok_or_else(|| empty(*of, environment))
}

fn last(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [Value::Oid(of), ..] = arguments else { return Ok(Value::Null) };
    environment.labels_between(*of, None, None).pop().ok_or_else(|| empty(*of, environment))
}

fn range(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let position = |value: &Value| match value {
        Value::Enum { position, .. } => Some(*position),
        _ => None,
    };
    let (of, from, to) = match arguments {
        // The range of a type, whichever of its values is given.
        [Value::Oid(of), _] => (*of, None, None),
        [Value::Oid(of), from, to] => (*of, position(from), position(to)),
        _ => return Ok(Value::Null),
    };
    Ok(Value::array(Array::new(Scalar::Enum(of), environment.labels_between(of, from, to))))
}
