//! The size and the depth of the values that a template keeps in variables.

use minijinja::value::{DynObject, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Levels of a value. JSON has at most 128.
const DEPTH: usize = 200;
/// Values in a value. A value that is contained twice counts twice, since it is also printed and compared twice.
const NODES: usize = 1_000_000;
/// Of the strings in a value, and of what a filter or a method makes.
pub(super) const BYTES: usize = 64 << 20;
const NODES_OF_A_STEP: usize = 8;

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// # Errors
/// When a text would have more than [`BYTES`].
pub(super) fn check_length(bytes: usize) -> Result<(), Error> {
    if bytes > BYTES { Err(invalid("a text has more than 64 MiB")) } else { Ok(()) }
}

/// The test whether a value may be out of bounds.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a test")]
pub(super) fn is_unchecked(value: Value) -> bool {
    value.as_object().is_some() || value.as_str().is_some_and(|text| text.len() > BYTES)
}

/// The filter on the values of variables.
pub(super) fn variable(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, false)
}

/// The filter on the values of attributes of namespaces.
pub(super) fn attribute(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, true)
}

fn bounded(state: &State, value: Value, of_namespace: bool) -> Result<Value, Error> {
    let mut walk = Walk { nodes: 0, bytes: 0, has_lazy: false, of_namespace };
    let outcome = walk.add(&value, 0);
    state.consume_fuel((walk.nodes / NODES_OF_A_STEP) as u64)?;
    outcome?;
    if walk.has_lazy { evaluated(&value) } else { Ok(value) }
}

/// What an object is.
pub(super) enum Class {
    List,
    Tuple,
    /// A list whose items are computed each time, and which holds the list that it was made of.
    Lazy,
    Dict,
    Namespace,
    Loop,
    Other,
}

pub(super) fn class(object: &DynObject, kind: ValueKind) -> Class {
    // The types of the engine are private. They differ by their names.
    let name = object.type_name();
    match kind {
        ValueKind::Seq if object.downcast_ref::<Vec<Value>>().is_some() => Class::List,
        ValueKind::Seq if object.downcast_ref::<Tuple>().is_some() => Class::Tuple,
        ValueKind::Seq | ValueKind::Iterable => Class::Lazy,
        ValueKind::Map if name.ends_with("::Namespace") => Class::Namespace,
        ValueKind::Map if name.contains("IndexMap") || name.ends_with("::KwargsValues") => Class::Dict,
        _ if name.ends_with("::Loop") => Class::Loop,
        _ => Class::Other,
    }
}

struct Walk {
    nodes: usize,
    bytes: usize,
    has_lazy: bool,
    of_namespace: bool,
}

impl Walk {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err(invalid(format!("a variable has more than {NODES} values")));
        }
        if let Some(text) = value.as_str() {
            self.bytes = self.bytes.saturating_add(text.len());
            return if self.bytes > BYTES { Err(invalid("a variable has more than 64 MiB of text")) } else { Ok(()) };
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        if depth >= DEPTH {
            return Err(invalid(format!("a variable is nested more than {DEPTH} levels deep")));
        }
        match class(object, value.kind()) {
            // Both can be changed or continued later, so that they could come to contain themselves.
            Class::Namespace | Class::Loop if self.of_namespace => {
                Err(invalid("a namespace cannot hold a namespace or a loop; use another variable"))
            }
            kind @ (Class::List | Class::Tuple | Class::Lazy) => {
                self.has_lazy |= matches!(kind, Class::Lazy);
                value.try_iter()?.checked().try_for_each(|item| self.add(&item?, depth + 1))
            }
            Class::Dict | Class::Namespace => {
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    self.add(&value.get_item(&key)?, depth + 1)?;
                    self.add(&key, depth + 1)?;
                }
                Ok(())
            }
            Class::Loop | Class::Other => Ok(()),
        }
    }
}

/// With lists in place of computed ones, which would otherwise hold one another without a limit.
fn evaluated(value: &Value) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    let items = || value.try_iter()?.checked().map(|item| evaluated(&item?)).collect::<Result<Vec<Value>, Error>>();
    match class(object, value.kind()) {
        Class::List | Class::Lazy => Ok(Value::from(items()?)),
        Class::Tuple => Ok(Value::from(Tuple::from(items()?))),
        Class::Dict => {
            let entries = value.try_iter()?.checked().map(|key| {
                let key = key?;
                let item = evaluated(&value.get_item(&key)?)?;
                Ok((key, item))
            });
            Ok(Value::from_pairs(entries.collect::<Result<Vec<(Value, Value)>, Error>>()?))
        }
        Class::Namespace | Class::Loop | Class::Other => Ok(value.clone()),
    }
}
