//! Window functions: calls with OVER, named windows, frames.
//!
//! A window function belongs to the query that contains its call. Until the rows that it is computed on are known, the
//! call stands for itself by its number ([`Expr::Window`]); then it becomes the place of its result.

use sqlparser::ast::{self, FunctionArguments, NamedWindowExpr, WindowFrameBound, WindowFrameUnits, WindowType};

use super::{Binder, Scope, Typed, check_equality, names::name_of, select::is_descending, sets::refuse_sets};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions,
    parse::{Excluded, exclusion_of},
    query::{
        AggregateCall,
        window::{Exclusion, FrameBound, FrameUnit, Window, WindowCall, WindowFrame, WindowFunction, Windows},
    },
    types::{SqlType, Value, cast::Context, in_range},
};

/// The windows and window functions of a query, while it is bound.
#[derive(Default)]
pub(super) struct WindowScope {
    /// Those of the WINDOW clause.
    named: Vec<NamedWindow>,
    calls: Vec<(Definition, WindowFunction)>,
}

struct NamedWindow {
    name: String,
    spec: ast::WindowSpec,
    /// `None`: nothing has referred to it so far.
    bound: Option<Definition>,
}

/// A window, after binding.
#[derive(Clone, PartialEq, Debug)]
struct Definition {
    partition: Vec<Expr>,
    order: Vec<(Expr, bool, bool)>,
    /// The type of the first sort key.
    ordered_by: Option<SqlType>,
    frame: WindowFrame,
    /// Whether the frame was written.
    has_frame: bool,
}

fn windowing_error(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::WINDOWING_ERROR, message)
}

fn unknown_window(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
}

/// The functions that exist only with OVER.
pub(super) const WINDOW_FUNCTIONS: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Whether a function of this name is one of the functions that exist only with OVER.
pub(super) fn is_window_function(name: &str) -> bool {
    WINDOW_FUNCTIONS.contains(&name)
}

/// Fails if an expression contains a window function of its own query.
pub(super) fn refuse_windows<'x>(
    exprs: impl IntoIterator<Item = &'x Expr>,
    error: impl FnOnce() -> SqlError,
) -> Result<()> {
    let mut exprs = exprs.into_iter();
    if exprs.any(|expr| expr.has(&|inner| matches!(inner, Expr::Window(_)))) { Err(error()) } else { Ok(()) }
}

impl WindowScope {
    /// Returns the scope of a query with this WINDOW clause.
    pub(super) fn new(clause: &[ast::NamedWindowDefinition]) -> Result<Self> {
        let mut named: Vec<NamedWindow> = Vec::new();
        for ast::NamedWindowDefinition(name, window) in clause {
            let NamedWindowExpr::WindowSpec(spec) = window else {
                return Err(SqlError::unsupported("a window that is another name of a window"));
            };
            let name = name_of(name);
            if named.iter().any(|other| other.name == name) {
                return Err(windowing_error(format!("window \"{name}\" is already defined")));
            }
            named.push(NamedWindow { name, spec: spec.clone(), bound: None });
        }
        Ok(Self { named, calls: Vec::new() })
    }

    /// Returns all expressions of the window functions.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.calls.iter().flat_map(|(window, function)| {
            let keys = window.partition.iter().chain(window.order.iter().map(|key| &key.0));
            keys.chain(function.exprs()).chain(window.frame.offsets())
        })
    }

    /// Replaces all expressions by those on the rows that the functions are computed on.
    pub(super) fn try_map(&mut self, change: &mut dyn FnMut(Expr) -> Result<Expr>) -> Result<()> {
        let mut one = |expr: &mut Expr| -> Result<()> {
            *expr = change(std::mem::replace(expr, Expr::TRUE))?;
            Ok(())
        };
        for (window, function) in &mut self.calls {
            let keys = window.partition.iter_mut().chain(window.order.iter_mut().map(|key| &mut key.0));
            keys.chain(function.exprs_mut()).chain(window.frame.offsets_mut()).try_for_each(&mut one)?;
        }
        Ok(())
    }

    /// Places the results of the functions behind rows of this width, and makes `output` refer to them.
    pub(super) fn place<'x>(self, first: usize, output: impl Iterator<Item = &'x mut Expr>) -> Windows {
        let mut all: Vec<Window> = Vec::new();
        let mut owners = Vec::new();
        for (Definition { partition, order, frame, .. }, function) in self.calls {
            let known = all.iter().position(|window| window.partition == partition && window.order == order);
            let owner = known.unwrap_or_else(|| {
                all.push(Window { partition, order, calls: Vec::new() });
                all.len() - 1
            });
            let at = first + owners.len();
            owners.push(at);
            all[owner].calls.push(WindowCall { at, function, frame });
        }
        // As in PostgreSQL, the rows are left in the order of the window that was written first.
        all.reverse();
        all.sort_by_key(|window| window.partition.is_empty() && window.order.is_empty());
        for expr in output {
            *expr = placed(std::mem::replace(expr, Expr::TRUE), first);
        }
        Windows { first, all }
    }
}

fn placed(expr: Expr, first: usize) -> Expr {
    match expr {
        Expr::Window(at) => Expr::Column(first + at),
        expr => expr.map(&mut |inner| Ok(placed(inner, first))).expect("no change fails"),
    }
}

impl Binder<'_> {
    /// Calls `bind` where window functions are not allowed.
    pub(super) fn without_windows<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(scope) = self.scopes.last_mut() else { return bind(self) };
        let around = (scope.windows.take(), std::mem::replace(&mut scope.clause, clause));
        let bound = bind(self);
        if let Some(scope) = self.scopes.last_mut() {
            (scope.windows, scope.clause) = around;
        }
        bound
    }

    /// Calls `bind` where neither window functions nor set-returning functions are allowed.
    pub(super) fn without_rows<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let sets = self.scopes.last_mut().and_then(|scope| scope.sets.take());
        let bound = self.without_windows(clause, bind);
        if let Some(scope) = self.scopes.last_mut() {
            scope.sets = sets;
        }
        bound
    }

    /// Binds a call with OVER.
    pub(super) fn window_call(&mut self, name: &str, function: &ast::Function, over: &WindowType) -> Result<Typed> {
        let FunctionArguments::List(list) = &function.args else {
            return Err(SqlError::unsupported(format_args!("the call {function}")));
        };
        let (arguments, is_star) = super::call::expressions_of(list)?;
        let (function, result) = if functions::is_aggregate(name) {
            let call = self.aggregate_call(name, function, list, &arguments, is_star)?;
            check_aggregate(&call)?;
            let result = call.aggregate.result;
            (WindowFunction::Aggregate(call), result)
        } else {
            let arguments = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<Vec<_>>>()?;
            let bound = self.window_function(name, arguments)?;
            let refused = |what: &str| {
                let message = format!("{what} is not implemented for non-aggregate window functions");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            };
            if list.duplicate_treatment.is_some() {
                let message = "DISTINCT is not implemented for window functions";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            if function.filter.is_some() {
                return refused("FILTER");
            }
            if !list.clauses.is_empty() {
                return refused("ORDER BY");
            }
            bound
        };
        refuse_windows(function.exprs(), || windowing_error("window function calls cannot be nested"))?;
        refuse_sets(function.exprs(), "window function")?;
        let Some(scope) = self.scopes.last() else { return Err(self.misplaced_window()) };
        if scope.windows.is_none() {
            return Err(self.misplaced_window());
        }
        let window = match over {
            WindowType::NamedWindow(name) => {
                let name = name_of(name);
                let at = self.find_window(&name, usize::MAX).ok_or_else(|| unknown_window(&name))?;
                self.named_window(at)?
            }
            WindowType::WindowSpec(spec) => self.apart(|this| this.window(spec, usize::MAX, false))?,
        };
        let calls = &mut self.window_scope().calls;
        let known = calls.iter().position(|call| call.0 == window && call.1 == function);
        let at = known.unwrap_or_else(|| {
            calls.push((window, function));
            calls.len() - 1
        });
        Ok(Typed::new(Expr::Window(at), result))
    }

    fn misplaced_window(&self) -> SqlError {
        let clause = self.scopes.last().map_or("", |scope| scope.clause);
        let place = if clause.is_empty() { "here".to_owned() } else { format!("in {clause}") };
        windowing_error(format!("window functions are not allowed {place}"))
    }

    fn window_scope(&mut self) -> &mut WindowScope {
        self.scopes.last_mut().expect("a query has a scope").windows.get_or_insert_default()
    }

    /// Resolves a function that is no aggregate.
    fn window_function(&mut self, name: &str, mut arguments: Vec<Typed>) -> Result<(WindowFunction, SqlType)> {
        let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
        if !is_window_function(name) {
            if !functions::is_set_returning(name) {
                self.plain_function_of(name, arguments)?;
            }
            let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let unknown = || match functions::resolve(name, &types) {
            Err(error) => error,
            Ok(_) => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist")),
        };
        let no_type = || {
            let message = "could not determine polymorphic type because input has type unknown";
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        };
        let (count, is_lead) = (arguments.len(), name == "lead");
        let is_unknown = |error: &SqlError| error.state() == SqlState::CANNOT_COERCE;
        let number = |this: &mut Self, argument: Typed| {
            let coerced = this.coerce(argument, SqlType::INT4);
            coerced.map_err(|error| if is_unknown(&error) { unknown() } else { error })
        };
        let of_value = |value: Typed| value.ty.map(|ty| (value.expr, ty)).ok_or_else(no_type);
        Ok(match (name, count) {
            ("row_number", 0) => (WindowFunction::RowNumber, SqlType::INT8),
            ("rank", 0) => (WindowFunction::Rank, SqlType::INT8),
            ("dense_rank", 0) => (WindowFunction::DenseRank, SqlType::INT8),
            ("percent_rank", 0) => (WindowFunction::PercentRank, SqlType::FLOAT8),
            ("cume_dist", 0) => (WindowFunction::CumeDist, SqlType::FLOAT8),
            ("ntile", 1) => (WindowFunction::Ntile(number(self, arguments.remove(0))?), SqlType::INT4),
            ("lag" | "lead", 1..=3) => {
                let offset = match count {
                    1 => Expr::Constant(Value::Int4(1)),
                    _ => number(self, arguments.remove(1))?,
                };
                let (value, default, ty) = if count == 3 {
                    let (both, ty) = self.common(arguments, name)?;
                    let [value, default] = <[Expr; 2]>::try_from(both).map_err(|_| unknown())?;
                    (value, default, ty)
                } else {
                    let (value, ty) = of_value(arguments.remove(0))?;
                    (value, Expr::Constant(Value::Null), ty)
                };
                (WindowFunction::Shift { value, offset, default, is_lead }, ty)
            }
            ("first_value", 1) => {
                let (value, ty) = of_value(arguments.remove(0))?;
                (WindowFunction::FirstValue(value), ty)
            }
            ("last_value", 1) => {
                let (value, ty) = of_value(arguments.remove(0))?;
                (WindowFunction::LastValue(value), ty)
            }
            ("nth_value", 2) => {
                let at = number(self, arguments.remove(1))?;
                let (value, ty) = of_value(arguments.remove(0))?;
                (WindowFunction::NthValue(Box::new([value, at])), ty)
            }
            _ => return Err(unknown()),
        })
    }

    /// Returns the place of a named window among those before `limit`.
    fn find_window(&mut self, name: &str, limit: usize) -> Option<usize> {
        self.window_scope().named.iter().take(limit).position(|window| window.name == name)
    }

    /// Returns a named window, bound when it is used first.
    fn named_window(&mut self, at: usize) -> Result<Definition> {
        let named = &self.window_scope().named[at];
        if let Some(bound) = &named.bound {
            return Ok(bound.clone());
        }
        let spec = named.spec.clone();
        let bound = self.apart(|this| this.window(&spec, at, true))?;
        self.window_scope().named[at].bound = Some(bound.clone());
        Ok(bound)
    }

    /// Binds the named windows that nothing refers to: they have to be correct.
    pub(super) fn unused_windows(&mut self) -> Result<()> {
        (0..self.window_scope().named.len()).try_for_each(|at| self.named_window(at).map(drop))
    }

    /// Binds a window; it may refine a named one before `limit`.
    fn window(&mut self, spec: &ast::WindowSpec, limit: usize, is_named: bool) -> Result<Definition> {
        let (excluded, refined) = spec.window_name.as_ref().map_or((None, None), exclusion_of);
        let exclusion = match excluded {
            None => Exclusion::NoOthers,
            Some(Excluded::CurrentRow) => Exclusion::CurrentRow,
            Some(Excluded::Group) => Exclusion::Group,
            Some(Excluded::Ties) => Exclusion::Ties,
        };
        let refined = match refined {
            None => None,
            Some(name) => {
                let name = name_of(&name);
                let at = self.find_window(&name, limit).ok_or_else(|| unknown_window(&name))?;
                Some((self.named_window(at)?, name))
            }
        };
        let (mut partition, mut order, mut ordered_by) = (Vec::new(), Vec::new(), None);
        self.without_rows("window definitions", |this| {
            for key in &spec.order_by {
                let typed = this.expr(&key.expr)?;
                let (expr, ty) = this.settle(typed)?;
                check_equality(ty)?;
                let descending = is_descending(&key.options)?;
                ordered_by.get_or_insert(ty);
                order.push((expr, descending, key.options.nulls_first.unwrap_or(descending)));
            }
            for key in &spec.partition_by {
                let typed = this.expr(key)?;
                let (expr, ty) = this.settle(typed)?;
                check_equality(ty)?;
                partition.push(expr);
            }
            Ok(())
        })?;
        if let Some((refined, name)) = refined {
            if !partition.is_empty() {
                return Err(windowing_error(format!("cannot override PARTITION BY clause of window \"{name}\"")));
            }
            if !order.is_empty() && !refined.order.is_empty() {
                return Err(windowing_error(format!("cannot override ORDER BY clause of window \"{name}\"")));
            }
            if refined.has_frame {
                let error = windowing_error(format!("cannot copy window \"{name}\" because it has a frame clause"));
                let is_only_name = !is_named && order.is_empty() && spec.window_frame.is_none();
                return Err(match is_only_name {
                    true => error.hint("Omit the parentheses in this OVER clause."),
                    false => error,
                });
            }
            partition = refined.partition;
            if order.is_empty() {
                (order, ordered_by) = (refined.order, refined.ordered_by);
            }
        }
        let frame = match &spec.window_frame {
            None => WindowFrame {
                unit: FrameUnit::Range,
                start: FrameBound::Unbounded,
                end: FrameBound::CurrentRow,
                exclusion,
            },
            Some(frame) => self.frame(frame, exclusion, &order, ordered_by)?,
        };
        Ok(Definition { partition, order, ordered_by, frame, has_frame: spec.window_frame.is_some() })
    }

    fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        exclusion: Exclusion,
        order: &[(Expr, bool, bool)],
        ordered_by: Option<SqlType>,
    ) -> Result<WindowFrame> {
        let end = frame.end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow);
        check_bounds(&frame.start_bound, frame.end_bound.as_ref())?;
        let unit = match frame.units {
            WindowFrameUnits::Rows => FrameUnit::Rows,
            WindowFrameUnits::Range => FrameUnit::Range,
            WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let has_offset = [&frame.start_bound, end]
            .into_iter()
            .any(|bound| matches!(bound, WindowFrameBound::Preceding(Some(_)) | WindowFrameBound::Following(Some(_))));
        if unit == FrameUnit::Range && has_offset && order.len() != 1 {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(windowing_error(message));
        }
        if unit == FrameUnit::Groups && order.is_empty() {
            return Err(windowing_error("GROUPS mode requires an ORDER BY clause"));
        }
        let mut bound = |bound: &WindowFrameBound| {
            Ok::<_, SqlError>(match bound {
                WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
                WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => FrameBound::Unbounded,
                WindowFrameBound::Preceding(Some(offset)) => {
                    FrameBound::Preceding(self.offset(offset, unit, ordered_by)?)
                }
                WindowFrameBound::Following(Some(offset)) => {
                    FrameBound::Following(self.offset(offset, unit, ordered_by)?)
                }
            })
        };
        Ok(WindowFrame { unit, start: bound(&frame.start_bound)?, end: bound(end)?, exclusion })
    }

    /// Binds the offset of a bound.
    fn offset(&mut self, offset: &ast::Expr, unit: FrameUnit, ordered_by: Option<SqlType>) -> Result<Expr> {
        let clause = match unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Range => "RANGE",
            FrameUnit::Groups => "GROUPS",
        };
        let typed = self.without_rows("window definitions", |this| this.expr(offset))?;
        let expr = match (unit, ordered_by, typed.ty) {
            (FrameUnit::Range, Some(column), ty) => {
                let to = in_range::offset_type(column, ty)?;
                self.coerce(typed, to)?
            }
            (_, _, ty) => self.convert(typed, SqlType::INT8, -1, Context::Assignment).map_err(|error| match ty {
                Some(ty) if error.state() == SqlState::CANNOT_COERCE => {
                    let message = format!("argument of {clause} must be type bigint, not type {}", ty.name());
                    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                }
                _ => error,
            })?,
        };
        let is_variable = |inner: &Expr| match inner {
            Expr::Column(_) | Expr::Aggregate(_) => true,
            Expr::Subquery(subquery) => subquery.is_correlated,
            _ => false,
        };
        if expr.has(&is_variable) {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(expr)
    }
}

/// Fails for an aggregate that is none over a window.
fn check_aggregate(call: &AggregateCall) -> Result<()> {
    let refused = |what: &str| {
        let message = format!("{what} is not implemented for window functions");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    match call {
        AggregateCall { is_distinct: true, .. } => refused("DISTINCT"),
        AggregateCall { order, .. } if !order.is_empty() => refused("aggregate ORDER BY"),
        _ => Ok(()),
    }
}

/// Fails for bounds that PostgreSQL's grammar does not accept together.
fn check_bounds(start: &WindowFrameBound, end: Option<&WindowFrameBound>) -> Result<()> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let message = match (start, end) {
        (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, Some(Preceding(None))) => "frame end cannot be UNBOUNDED PRECEDING",
        (CurrentRow, Some(Preceding(Some(_)))) => "frame starting from current row cannot have preceding rows",
        (Following(Some(_)), Some(Preceding(Some(_)) | CurrentRow)) => {
            "frame starting from following row cannot have preceding rows"
        }
        (Following(Some(_)), None) => "frame starting from following row cannot end with current row",
        _ => return Ok(()),
    };
    Err(windowing_error(message))
}

impl Scope {
    /// Returns the window functions found so far; none are allowed from now on.
    pub(super) fn take_windows(&mut self) -> WindowScope {
        self.windows.take().unwrap_or_default()
    }
}
