//! The choice among several functions or operators of one name: PostgreSQL's rules (chapter 10).
//!
//! 1. One that takes exactly the given types.
//! 2. Of those whose parameters the arguments can be cast to implicitly (untyped ones to anything), the ones with most
//!    exact matches, then with most preferred types.
//! 3. For untyped arguments the category is determined: string if any candidate has it, otherwise the one that all
//!    have. Candidates of other categories are removed, and so are those that take no preferred type where others do.
//! 4. Where all typed arguments are of one type, the untyped ones are assumed to have the same type.

use crate::{
    Scalar, SqlType,
    cast::{self, Context},
    error::{SqlError, SqlState},
};

/// The types that a parameter accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// This type.
    Is(SqlType),
    /// Any type, the same for all parameters of this kind.
    Element,
    /// Any type that is not an array.
    NonArray,
    /// Any enumeration.
    Enum,
    /// An array of the type that `Element` is.
    Array,
    /// Any type.
    Any,
    /// A type that the types of all parameters of this kind, and the elements of `CommonArray`, can be cast to.
    Common,
    /// An array of `Common`.
    CommonArray,
    /// A type of PostgreSQL that does not exist here: an untyped argument may be of it, so that the call is ambiguous.
    Foreign,
}

/// The type of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Is(SqlType),
    /// An array of the type that `Element` is, or `Common`.
    Array,
    /// The type that `Element` is.
    Element,
}

/// One of several functions or operators of a name.
pub trait Candidate {
    /// Returns its parameters.
    fn parameters(&self) -> &[Parameter];

    /// Whether its last parameter may occur any number of times, but at least once.
    fn is_variadic(&self) -> bool {
        false
    }

    /// Returns the number of trailing parameters that may be left out.
    fn optional(&self) -> usize {
        0
    }
}

/// The reason why no candidate was chosen.
pub enum Unresolved {
    /// No candidate takes these types.
    Unknown,
    /// More than one candidate does.
    Ambiguous,
    /// A candidate does, but its types depend on those of its arguments, none of which has a type.
    Undetermined,
    /// A candidate does, but one of its arguments would be an array of this type, which is an array.
    NoArray(SqlType),
}

/// Returns the parameters of a candidate for this number of arguments.
fn parameters_for<C: Candidate>(candidate: &C, count: usize) -> Option<Vec<Parameter>> {
    let parameters = candidate.parameters();
    if candidate.is_variadic() {
        let (last, fixed) = parameters.split_last()?;
        if count <= fixed.len() {
            return None;
        }
        return Some(fixed.iter().copied().chain(std::iter::repeat_n(*last, count - fixed.len())).collect());
    }
    let fits = (parameters.len() - candidate.optional()..=parameters.len()).contains(&count);
    fits.then(|| parameters[..count].to_vec())
}

/// Returns the types that arguments are cast to, with the type that `Element` stands for; `None` if they cannot be
/// cast.
fn bind(parameters: &[Parameter], arguments: &[Option<SqlType>]) -> Option<(Vec<SqlType>, Option<SqlType>)> {
    let mut element: Option<SqlType> = None;
    let agree = |element: &mut Option<SqlType>, found: SqlType| match *element {
        None => {
            *element = Some(found);
            true
        }
        Some(known) => known == found,
    };
    for (parameter, argument) in parameters.iter().zip(arguments) {
        let fits = match (parameter, argument) {
            (_, None) | (Parameter::Any | Parameter::Common, Some(_)) => true,
            (Parameter::CommonArray, Some(argument)) => argument.is_array,
            (Parameter::Foreign, Some(_)) => false,
            (Parameter::Is(ty), Some(argument)) => cast::context(*argument, *ty) == Some(Context::Implicit),
            (Parameter::Element, Some(argument)) => agree(&mut element, *argument),
            (Parameter::NonArray, Some(argument)) => !argument.is_array && agree(&mut element, *argument),
            (Parameter::Enum, Some(argument)) => argument.is_enum() && agree(&mut element, *argument),
            (Parameter::Array, Some(argument)) => match argument.element() {
                Some(found) => agree(&mut element, found),
                None => false,
            },
        };
        if !fits {
            return None;
        }
    }
    // Arrays as elements would be arrays of arrays, which do not exist.
    let has_array = parameters.contains(&Parameter::Array);
    if has_array && element.is_some_and(|element| element.is_array) {
        return None;
    }
    if parameters.iter().any(|parameter| matches!(parameter, Parameter::Common | Parameter::CommonArray)) {
        element = Some(common_element(parameters, arguments)?);
    } else if element.is_none() {
        // All untyped.
        if parameters
            .iter()
            .any(|parameter| matches!(parameter, Parameter::Element | Parameter::Array | Parameter::Enum))
        {
            return None;
        }
        element = Some(SqlType::TEXT);
    }
    let types = parameters.iter().zip(arguments).map(|(parameter, argument)| match parameter {
        Parameter::Is(ty) => Some(*ty),
        Parameter::Element | Parameter::NonArray | Parameter::Enum | Parameter::Common => element,
        Parameter::Array | Parameter::CommonArray => element.map(SqlType::array),
        Parameter::Any | Parameter::Foreign => Some(argument.unwrap_or(SqlType::TEXT)),
    });
    Some((types.collect::<Option<_>>()?, element))
}

/// Returns the type that `Common` stands for: text if no argument has a type.
fn common_element(parameters: &[Parameter], arguments: &[Option<SqlType>]) -> Option<SqlType> {
    let types = parameters.iter().zip(arguments).filter_map(|(parameter, argument)| match (parameter, argument) {
        (Parameter::Common, Some(ty)) => Some(*ty),
        (Parameter::CommonArray, Some(ty)) => ty.element(),
        _ => None,
    });
    let types: Vec<_> = types.collect();
    if types.is_empty() {
        return Some(SqlType::TEXT);
    }
    let common = cast::common_type(types.iter().copied())?;
    let fits = types.iter().all(|ty| cast::context(*ty, common) == Some(Context::Implicit));
    (fits && !common.is_array).then_some(common)
}

/// Whether the parameters take the arguments, except that their types depend on arguments of which none has a type.
fn is_undetermined(parameters: &[Parameter], arguments: &[Option<SqlType>]) -> bool {
    let depends = |parameter: &Parameter| matches!(parameter, Parameter::Element | Parameter::Array | Parameter::Enum);
    parameters.iter().any(depends)
        && parameters.iter().zip(arguments).all(|(parameter, argument)| match (parameter, argument) {
            (_, None) => true,
            (Parameter::Is(ty), Some(argument)) => cast::context(*argument, *ty) == Some(Context::Implicit),
            (parameter, Some(_)) => !depends(parameter),
        })
}

/// Returns the type, itself an array, of which an argument without a type would have to be an array.
fn without_array(parameters: &[Parameter], arguments: &[Option<SqlType>]) -> Option<SqlType> {
    let mut pairs = parameters.iter().zip(arguments);
    let is_untyped = pairs.clone().any(|pair| matches!(pair, (Parameter::CommonArray, None)));
    let element = pairs.find_map(|pair| match pair {
        (Parameter::Common, Some(ty)) if ty.is_array => Some(*ty),
        _ => None,
    });
    element.filter(|_| is_untyped)
}

impl Outcome {
    /// Returns the type, given the one that `Element` stands for.
    pub(crate) fn resolve(self, element: Option<SqlType>) -> SqlType {
        match self {
            Self::Is(ty) => ty,
            Self::Array => element.unwrap_or(SqlType::TEXT).array(),
            Self::Element => element.unwrap_or(SqlType::TEXT),
        }
    }
}

/// A candidate that can take the arguments.
struct Match<'a, C> {
    candidate: &'a C,
    parameters: Vec<Parameter>,
    types: Vec<SqlType>,
    element: Option<SqlType>,
}

/// The chosen candidate.
pub struct Resolved<'a, C> {
    /// The chosen candidate.
    pub candidate: &'a C,
    /// The types that the arguments are cast to.
    pub types: Vec<SqlType>,
    /// The type that `Element` stands for.
    pub element: Option<SqlType>,
}

impl<'a, C> From<Match<'a, C>> for Resolved<'a, C> {
    fn from(found: Match<'a, C>) -> Self {
        Self { candidate: found.candidate, types: found.types, element: found.element }
    }
}

/// Keeps the matches with the greatest score.
fn keep_best<T>(matches: &mut Vec<T>, score: impl Fn(&T) -> usize) {
    let best = matches.iter().map(&score).max().unwrap_or(0);
    matches.retain(|found| score(found) == best);
}

/// Returns the category of a parameter, and whether it is preferred.
fn category(parameter: Parameter) -> (u8, bool) {
    match parameter {
        Parameter::Is(ty) => (ty.category(), ty.is_preferred()),
        Parameter::Array | Parameter::CommonArray => (b'A', false),
        Parameter::Element | Parameter::NonArray | Parameter::Enum | Parameter::Any | Parameter::Common => {
            (b'P', false)
        }
        Parameter::Foreign => (b'U', false),
    }
}

/// Chooses a candidate for arguments, of which `None` are untyped.
pub fn resolve<'a, C: Candidate>(
    candidates: impl Iterator<Item = &'a C>,
    arguments: &[Option<SqlType>],
) -> Result<Resolved<'a, C>, Unresolved> {
    let (mut undetermined, mut no_array) = (false, None);
    let mut matches: Vec<Match<'a, C>> = candidates
        .filter_map(|candidate| {
            let parameters = parameters_for(candidate, arguments.len())?;
            undetermined |= is_undetermined(&parameters, arguments);
            no_array = no_array.or_else(|| without_array(&parameters, arguments));
            let (types, element) = bind(&parameters, arguments)?;
            Some(Match { candidate, parameters, types, element })
        })
        .collect();
    let is_exact = |parameter: &Parameter, argument: &Option<SqlType>| match (parameter, argument) {
        (Parameter::Is(ty), Some(argument)) => ty == argument,
        _ => false,
    };
    let exact_count = |found: &Match<'a, C>| {
        found.parameters.iter().zip(arguments).filter(|(parameter, argument)| is_exact(parameter, argument)).count()
    };
    if let Some(at) = matches.iter().position(|found| exact_count(found) == arguments.len()) {
        return Ok(matches.swap_remove(at).into());
    }
    let single = |matches: &mut Vec<Match<'a, C>>| if matches.len() == 1 { matches.pop() } else { None };
    if matches.iter().any(|found| found.parameters.contains(&Parameter::Foreign))
        && (undetermined || matches.len() == 1)
    {
        return Err(Unresolved::Ambiguous);
    }
    if matches.is_empty() {
        let none = no_array.map_or(Unresolved::Unknown, Unresolved::NoArray);
        return Err(if undetermined { Unresolved::Undetermined } else { none });
    }
    if let Some(found) = single(&mut matches) {
        return Ok(found.into());
    }
    keep_best(&mut matches, exact_count);
    if let Some(found) = single(&mut matches) {
        return Ok(found.into());
    }
    keep_best(&mut matches, |found| {
        let good = found.parameters.iter().zip(arguments).filter(|(parameter, argument)| match argument {
            Some(ty) => {
                let (category, is_preferred) = category(**parameter);
                is_exact(parameter, argument) || (is_preferred && category == ty.category())
            }
            None => false,
        });
        good.count()
    });
    if let Some(found) = single(&mut matches) {
        return Ok(found.into());
    }
    if arguments.iter().all(Option::is_some) {
        return Err(Unresolved::Ambiguous);
    }
    if let Some(found) = by_categories(&mut matches, arguments) {
        return Ok(found.into());
    }
    let mut typed = arguments.iter().flatten();
    if let Some(&first) = typed.next()
        && typed.all(|ty| *ty == first)
    {
        let alike = vec![Some(first); arguments.len()];
        let mut fitting: Vec<_> =
            matches.into_iter().filter(|found| bind(&found.parameters, &alike).is_some()).collect();
        if let Some(found) = single(&mut fitting) {
            return Ok(found.into());
        }
    }
    Err(Unresolved::Ambiguous)
}

/// Keeps those whose parameters are of the category that each untyped argument must have.
fn by_categories<'a, C>(matches: &mut Vec<Match<'a, C>>, arguments: &[Option<SqlType>]) -> Option<Match<'a, C>> {
    let mut wanted = Vec::new();
    for at in (0..arguments.len()).filter(|&at| arguments[at].is_none()) {
        let categories: Vec<_> = matches.iter().map(|found| category(found.parameters[at])).collect();
        let string = (b'S', categories.contains(&(b'S', true)));
        let chosen = if categories.iter().any(|(category, _)| *category == b'S') {
            string
        } else if categories.iter().all(|(category, _)| *category == categories[0].0) {
            (categories[0].0, categories.iter().any(|(_, is_preferred)| *is_preferred))
        } else {
            return None;
        };
        wanted.push((at, chosen));
    }
    let fits = |found: &Match<'a, C>| {
        wanted.iter().all(|&(at, (wanted, has_preferred))| {
            let (category, is_preferred) = category(found.parameters[at]);
            category == wanted && (is_preferred || !has_preferred)
        })
    };
    if matches.iter().any(fits) {
        matches.retain(fits);
    }
    if matches.len() == 1 { matches.pop() } else { None }
}

/// The error of an array of arrays.
pub fn no_array_of(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("could not find array type for data type {}", ty.name()))
}

/// Returns the types of a call, for messages.
pub fn describe(arguments: &[Option<SqlType>]) -> String {
    let names: Vec<_> = arguments.iter().map(|argument| argument.map_or("unknown".into(), SqlType::name)).collect();
    names.join(", ")
}

/// Returns the parameter for one type.
pub const fn of(scalar: Scalar) -> Parameter {
    Parameter::Is(SqlType::scalar(scalar))
}
