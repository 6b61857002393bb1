//! Paths into JSON, containment, and changes along a path.

use std::cell::Cell;

use crate::error::{Result, SqlError, SqlState};

use super::{Json, index_from_either_end};

fn out_of_range(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns an array's subscript in a path.
fn subscript(step: &str, number: usize) -> Result<i64> {
    step.trim_start().parse().map_err(|_| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("path element at position {number} is not an integer: \"{step}\""),
        )
    })
}

/// The operation of [`Json::set`] at the end of its path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Replaces an existing value.
    Replace(&'a Json),
    /// Replaces the value, or inserts it.
    Set(&'a Json),
    /// Inserts the value before an element, or under a new key.
    InsertBefore(&'a Json),
    /// Inserts the value behind an element, or under a new key.
    InsertAfter(&'a Json),
    /// Removes the value.
    Delete,
}

impl Json {
    /// Returns the value that a path of keys and subscripts leads to.
    pub fn follow<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Json> {
        let mut at = self;
        for step in path {
            at = match at {
                Self::Object(_) => at.get(step)?,
                Self::Array(_) => at.element(step.trim_start().parse().ok()?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// Returns its text without the quotes of a string, as `->>` does; `None` for `null`.
    pub fn to_plain_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::String(text) => Some(text.to_string()),
            json => Some(json.to_string()),
        }
    }

    /// Whether it contains `other`, as in `@>`. Takes time for each pair of elements: `check` is called now and then,
    /// and ends the search if it fails.
    pub fn contains(&self, other: &Json, check: impl Fn() -> Result<()>) -> Result<bool> {
        /// Elements that are compared between two checks.
        const ELEMENTS: u32 = 10_000;
        let compared = Cell::new(0_u32);
        let count = || {
            compared.set(compared.get() + 1);
            if compared.get().is_multiple_of(ELEMENTS) { check() } else { Ok(()) }
        };
        match (self, other) {
            // An array may contain a scalar itself, at the root only.
            (Self::Array(elements), scalar) if scalar.is_scalar() => {
                Ok(elements.iter().any(|element| element.is_scalar() && element.order(scalar).is_eq()))
            }
            _ => self.contains_inside(other, &count),
        }
    }

    fn contains_inside(&self, other: &Json, count: &impl Fn() -> Result<()>) -> Result<bool> {
        match (self, other) {
            (Self::Object(_), Self::Object(pairs)) => {
                for (key, wanted) in pairs {
                    let Some(value) = self.get(key) else { return Ok(false) };
                    if !value.contains_inside(wanted, count)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Self::Array(elements), Self::Array(wanted)) => {
                'wanted: for wanted in wanted {
                    for element in elements {
                        count()?;
                        if element.contains_inside(wanted, count)? {
                            continue 'wanted;
                        }
                    }
                    return Ok(false);
                }
                Ok(true)
            }
            (left, right) => Ok(left.is_scalar() && right.is_scalar() && left.order(right).is_eq()),
        }
    }

    /// Whether a key or a string element exists, as in `?`.
    pub fn has_key(&self, key: &str) -> bool {
        match self {
            Self::Object(_) => self.get(key).is_some(),
            Self::Array(elements) => {
                elements.iter().any(|element| matches!(element, Self::String(text) if **text == *key))
            }
            Self::String(text) => **text == *key,
            _ => false,
        }
    }

    /// `left || right`
    pub fn concatenate(left: Self, right: Self) -> Result<Self> {
        let into_array = |json| match json {
            Self::Array(elements) => elements,
            json => vec![json],
        };
        match (left, right) {
            (Self::Object(mut left), Self::Object(right)) => {
                left.extend(right);
                Ok(Self::object(left))
            }
            (left, right) => {
                let mut elements = into_array(left);
                elements.extend(into_array(right));
                Self::Array(elements).check_depth()
            }
        }
    }

    /// Removes a key, or the string elements equal to it.
    pub fn without_key(self, key: &str) -> Result<Self> {
        match self {
            Self::Object(mut pairs) => {
                pairs.retain(|pair| *pair.0 != *key);
                Ok(Self::Object(pairs))
            }
            Self::Array(mut elements) => {
                elements.retain(|element| !matches!(element, Self::String(text) if **text == *key));
                Ok(Self::Array(elements))
            }
            _ => Err(out_of_range("cannot delete from scalar")),
        }
    }

    /// Removes an element.
    pub fn without_element(self, at: i64) -> Result<Self> {
        match self {
            Self::Object(_) => Err(out_of_range("cannot delete from object using integer index")),
            Self::Array(mut elements) => {
                if let Some(at) = index_from_either_end(at, elements.len())
                    && at < elements.len()
                {
                    elements.remove(at);
                }
                Ok(Self::Array(elements))
            }
            _ => Err(out_of_range("cannot delete from scalar")),
        }
    }

    /// Applies a change at the end of a path.
    pub fn change(mut self, path: &[&str], change: Change<'_>) -> Result<Self> {
        if self.is_scalar() {
            return Err(out_of_range(match change {
                Change::Delete => "cannot delete path in scalar",
                _ => "cannot set path in scalar",
            }));
        }
        let is_empty = match &self {
            Self::Array(elements) => elements.is_empty(),
            Self::Object(pairs) => pairs.is_empty(),
            _ => false,
        };
        // There is nothing to examine, so no path is invalid.
        let has_nothing = is_empty && matches!(change, Change::Delete | Change::Replace(_));
        if !path.is_empty() && !has_nothing {
            self.change_inside(path, 0, change)?;
        }
        self.check_depth()
    }

    fn change_inside(&mut self, path: &[&str], number: usize, change: Change<'_>) -> Result<()> {
        let step = path[number];
        let is_last = number + 1 == path.len();
        match self {
            Self::Object(pairs) => {
                let found = pairs.binary_search_by(|pair| super::compare_keys(&pair.0, step));
                match (found, change) {
                    (Ok(at), _) if !is_last => return pairs[at].1.change_inside(path, number + 1, change),
                    (Err(_), _) if !is_last => {}
                    (Ok(at), Change::Replace(new) | Change::Set(new)) => pairs[at].1 = new.clone(),
                    (Ok(at), Change::Delete) => drop(pairs.remove(at)),
                    (Ok(_), Change::InsertBefore(_) | Change::InsertAfter(_)) => {
                        return Err(out_of_range("cannot replace existing key")
                            .hint("Try using the function jsonb_set to replace key value."));
                    }
                    (Err(at), Change::Set(new) | Change::InsertBefore(new) | Change::InsertAfter(new)) => {
                        pairs.insert(at, (step.into(), new.clone()));
                    }
                    (Err(_), Change::Replace(_) | Change::Delete) => {}
                }
            }
            Self::Array(elements) => {
                let subscript = subscript(step, number + 1)?;
                let found = index_from_either_end(subscript, elements.len());
                match (found.filter(|&at| at < elements.len()), change) {
                    (Some(at), _) if !is_last => return elements[at].change_inside(path, number + 1, change),
                    (None, _) if !is_last => {}
                    (Some(at), Change::Replace(new) | Change::Set(new)) => elements[at] = new.clone(),
                    (Some(at), Change::InsertBefore(new)) => elements.insert(at, new.clone()),
                    (Some(at), Change::InsertAfter(new)) => elements.insert(at + 1, new.clone()),
                    (Some(at), Change::Delete) => drop(elements.remove(at)),
                    (None, Change::Set(new) | Change::InsertBefore(new) | Change::InsertAfter(new)) => {
                        let at = if subscript < 0 { 0 } else { elements.len() };
                        elements.insert(at, new.clone());
                    }
                    (None, Change::Replace(_) | Change::Delete) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        text.parse().unwrap()
    }

    #[test]
    fn containment_is_jsonbs() {
        for (left, right, expected) in [
            (r#""foo""#, r#""foo""#, true),
            ("[1,2,3]", "[1,3]", true),
            ("[1,2,3]", "[3,1,3]", true),
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#, true),
            (r#"["foo",{"bar":"baz"}]"#, r#"[{"bar":"baz"}]"#, true),
            (r#"{"foo":{"bar":"baz"}}"#, r#"{"bar":"baz"}"#, false),
            (r#"["foo","bar"]"#, r#""bar""#, true),
            (r#""bar""#, r#"["bar"]"#, false),
            ("[[1]]", "[1]", false),
        ] {
            assert_eq!(json(left).contains(&json(right), || Ok(())).unwrap(), expected, "{left} @> {right}");
        }
    }

    #[test]
    fn paths_are_changed() {
        let base = json(r#"[{"f1":1,"f2":null},2,null,3]"#);
        let new = json("[2,3,4]");
        let changed = base.clone().change(&["0", "f1"], Change::Set(&new)).unwrap();
        assert_eq!(changed.to_string(), r#"[{"f1": [2, 3, 4], "f2": null}, 2, null, 3]"#);
        assert_eq!(base.clone().change(&["0", "f3"], Change::Replace(&new)).unwrap(), base);
        assert_eq!(
            base.clone().change(&["1"], Change::Delete).unwrap().to_string(),
            r#"[{"f1": 1, "f2": null}, null, 3]"#
        );
        assert!(base.change(&["x"], Change::Set(&new)).is_err());
        assert!(json("1").change(&["x"], Change::Set(&new)).is_err());
    }
}
