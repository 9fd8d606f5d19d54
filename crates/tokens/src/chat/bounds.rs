//! The size and the depth of the values that a template keeps in variables.

use super::group::Group;
use minijinja::value::{DynObject, Tuple, ValueKind, ValueOrKwargs};
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

/// The function `namespace`. Its values are checked like those of variables, since a namespace cannot be replaced when it becomes the value of one.
pub(super) fn namespace(state: &State, values: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let values = values.map(|values| bounded(state, values.into_value(), false)).transpose()?;
    minijinja::functions::namespace(values.map(ValueOrKwargs::from))
}

fn bounded(state: &State, value: Value, of_namespace: bool) -> Result<Value, Error> {
    let mut walk = Walk { nodes: 0, bytes: 0, has_lazy: false, of_namespace };
    let outcome = walk.add(&value, 0);
    state.consume_fuel((walk.nodes / NODES_OF_A_STEP) as u64)?;
    outcome?;
    if walk.has_lazy { evaluated(&value) } else { Ok(value) }
}

/// What an object is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Class {
    List,
    Tuple,
    /// A group of `groupby`.
    Group,
    /// A list whose items are computed each time, and which holds the list that it was made of.
    LazyList,
    Dict,
    /// As a lazy list.
    LazyDict,
    Namespace,
    Loop,
    /// A function or a macro, which holds no values.
    Function,
    Unknown,
}

pub(super) fn class(object: &DynObject, kind: ValueKind) -> Class {
    // The types of the engine are private. They differ by their names. One with another name is taken for what holds values and is computed.
    let name = object.type_name();
    match kind {
        ValueKind::Seq if object.downcast_ref::<Vec<Value>>().is_some() => Class::List,
        ValueKind::Seq if object.downcast_ref::<Tuple>().is_some() => Class::Tuple,
        ValueKind::Seq if object.downcast_ref::<Group>().is_some() || name.ends_with("::GroupTuple") => Class::Group,
        ValueKind::Seq | ValueKind::Iterable => Class::LazyList,
        ValueKind::Map if name.ends_with("::Namespace") => Class::Namespace,
        ValueKind::Map if name.ends_with("::Loop") => Class::Loop,
        ValueKind::Map if name.ends_with("::Macro") => Class::Function,
        ValueKind::Map if name.contains("IndexMap") || name.ends_with("::KwargsValues") => Class::Dict,
        ValueKind::Map => Class::LazyDict,
        _ if name.ends_with("::BoxedFunction") => Class::Function,
        _ => Class::Unknown,
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
            kind @ (Class::List | Class::Tuple | Class::Group | Class::LazyList) => {
                self.has_lazy |= kind == Class::LazyList;
                value.try_iter()?.checked().try_for_each(|item| self.add(&item?, depth + 1))
            }
            kind @ (Class::Dict | Class::LazyDict | Class::Namespace) => {
                self.has_lazy |= kind == Class::LazyDict;
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    self.add(&value.get_item(&key)?, depth + 1)?;
                    self.add(&key, depth + 1)?;
                }
                Ok(())
            }
            Class::Loop | Class::Function => Ok(()),
            Class::Unknown => Err(invalid(format!("a variable cannot hold a {}", object.type_name()))),
        }
    }
}

/// With lists in place of computed ones, which would otherwise hold one another without a limit.
fn evaluated(value: &Value) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    let items = || value.try_iter()?.checked().map(|item| evaluated(&item?)).collect::<Result<Vec<Value>, Error>>();
    match class(object, value.kind()) {
        Class::List | Class::LazyList => Ok(Value::from(items()?)),
        Class::Tuple => Ok(Value::from(Tuple::from(items()?))),
        Class::Group => {
            let mut items = items()?.into_iter();
            let mut next = || items.next().unwrap_or_default();
            Ok(Value::from_object(Group { grouper: next(), list: next() }))
        }
        Class::Dict | Class::LazyDict => {
            let entries = value.try_iter()?.checked().map(|key| {
                let key = key?;
                let item = evaluated(&value.get_item(&key)?)?;
                Ok((key, item))
            });
            Ok(Value::from_pairs(entries.collect::<Result<Vec<(Value, Value)>, Error>>()?))
        }
        Class::Namespace | Class::Loop | Class::Function | Class::Unknown => Ok(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::environment;
    use super::*;
    use minijinja::value::{Object, ObjectRepr};
    use std::sync::Arc;

    #[derive(Debug)]
    struct Held;

    impl Object for Held {
        fn repr(self: &Arc<Self>) -> ObjectRepr {
            ObjectRepr::Plain
        }
    }

    fn class_of(value: &Value) -> String {
        format!("{:?}", class(value.as_object().unwrap(), value.kind()))
    }

    #[test]
    fn types_of_the_engine_have_their_classes() {
        const SET: &str = "{% set g = [{'a': 1}] | groupby('a') | first | shardmill_variable %}";
        let mut environment = environment(None);
        environment.add_function("class_of", |value: Value| class_of(&value));
        for (expression, expected) in [
            ("[1]", "List"),
            ("[x]", "List"),
            ("[1] | list", "List"),
            ("(1, x)", "Tuple"),
            ("{'a': 1}.items() | first", "Tuple"),
            ("[1][0:]", "LazyList"),
            ("[1] + [2]", "LazyList"),
            ("[1] * 2", "LazyList"),
            ("[1] | reverse", "LazyList"),
            ("range(3)", "LazyList"),
            ("{'a': 1}.items()", "LazyList"),
            ("[{'a': 1}] | groupby('a') | first", "Group"),
            ("g", "Group"),
            ("[1] | chain([2])", "LazyList"),
            ("{'a': 1}", "Dict"),
            ("{'a': x}", "Dict"),
            ("dict(a=1)", "Dict"),
            ("{'a': 1} | chain({'b': 1})", "LazyDict"),
            ("namespace(a=1)", "Namespace"),
            ("range", "Function"),
            ("f", "Function"),
            ("loop", "Loop"),
        ] {
            let template = format!("{SET}{{% macro f() %}}{{% endmacro %}}{{% for x in [1] %}}{{{{ class_of({expression}) }}}}{{% endfor %}}");
            assert_eq!(environment.render_str(&template, ()).unwrap(), expected, "{expression}");
        }
        let message = super::super::environment::value(&serde_json::json!({"a": [1]}));
        assert_eq!((class_of(&message), class_of(&message.get_attr("a").unwrap())), ("Dict".to_owned(), "List".to_owned()));
    }

    #[test]
    fn unknown_type_is_walked_or_refused() {
        let environment = environment(None);
        let state = environment.empty_state();
        let too_long = Value::from("b".repeat(BYTES));
        let dict = |held: Value| Value::make_object_map((), |()| Box::new(std::iter::once(Value::from("a"))), move |(), _| Some(held.clone()));
        assert!(variable(&state, dict(too_long)).is_err());
        let evaluated = variable(&state, dict(Value::from(1))).unwrap();
        assert_eq!((class_of(&evaluated), evaluated.to_string()), ("Dict".to_owned(), "{'a': 1}".to_owned()));
        let refused = variable(&state, Value::from_object(Held)).unwrap_err().to_string();
        assert!(refused.contains("a variable cannot hold a ") && refused.contains("Held"), "{refused}");
    }
}
