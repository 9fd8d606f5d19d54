//! The size and the depth of the values that a template assigns, passes or iterates over.

use super::group::Group;
use minijinja::value::{DynObject, Enumerator, ObjectRepr, Tuple};
use minijinja::{Error, ErrorKind, State, Value};

/// Levels of a value. JSON has at most 128.
const DEPTH: usize = 200;
/// Values in a value. A value that is contained twice counts twice, since it is also printed and
/// compared twice.
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

/// The filter on values that are assigned or passed.
pub(super) fn value(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, false)
}

/// The filter on the values of attributes of namespaces.
pub(super) fn attribute(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, true)
}

fn bounded(state: &State, value: Value, is_attribute: bool) -> Result<Value, Error> {
    let mut walk = Walk { nodes: 0, bytes: 0, is_attribute };
    let evaluated = walk.evaluated(&value, 0);
    state.consume_fuel((walk.nodes / NODES_OF_A_STEP) as u64)?;
    Ok(evaluated?.unwrap_or(value))
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
}

/// The types of the engine are private. They differ in how they enumerate what they have.
pub(super) fn class(object: &DynObject) -> Class {
    match object.repr() {
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            if object.downcast_ref::<Vec<Value>>().is_some() {
                Class::List
            } else if object.downcast_ref::<Tuple>().is_some() {
                Class::Tuple
            } else if object.get_value_by_str("grouper").is_some() {
                Class::Group
            } else {
                Class::LazyList
            }
        }
        ObjectRepr::Map => match object.enumerate() {
            Enumerator::Str(names) if names.contains(&"index0") => Class::Loop,
            Enumerator::Str(_) => Class::Function,
            Enumerator::Values(_) => Class::Namespace,
            Enumerator::RevKeyValueIter(_) => Class::Dict,
            _ => Class::LazyDict,
        },
        _ => Class::Function,
    }
}

struct Walk {
    nodes: usize,
    bytes: usize,
    is_attribute: bool,
}

impl Walk {
    /// The value with lists in place of computed ones, which would otherwise hold one another
    /// without a limit. `None` if it has no computed ones.
    fn evaluated(&mut self, value: &Value, depth: usize) -> Result<Option<Value>, Error> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err(invalid(format!("a variable has more than {NODES} values")));
        }
        if let Some(text) = value.as_str() {
            self.bytes = self.bytes.saturating_add(text.len());
            return if self.bytes > BYTES {
                Err(invalid("a variable has more than 64 MiB of text"))
            } else {
                Ok(None)
            };
        }
        let Some(object) = value.as_object() else { return Ok(None) };
        if depth >= DEPTH {
            return Err(invalid(format!("a variable is nested more than {DEPTH} levels deep")));
        }
        let (class, is_attribute) = (class(object), self.is_attribute);
        let mut is_changed = matches!(class, Class::LazyList | Class::LazyDict);
        let mut evaluated = |item: Value| {
            let new = self.evaluated(&item, depth + 1)?;
            is_changed |= new.is_some();
            Ok::<_, Error>(new.unwrap_or(item))
        };
        match class {
            // Both can be changed or continued later, so that they could
            // come to contain themselves.
            Class::Namespace | Class::Loop if is_attribute => {
                Err(invalid("a namespace cannot hold a namespace or a loop; use another variable"))
            }
            Class::Loop | Class::Function => Ok(None),
            Class::List | Class::LazyList | Class::Tuple | Class::Group => {
                let items = value.try_iter()?.checked().map(|item| evaluated(item?));
                let items = items.collect::<Result<Vec<Value>, Error>>()?;
                Ok(is_changed.then(|| match (class, items.as_slice()) {
                    (Class::Tuple, _) => Value::from(Tuple::from(items)),
                    (Class::Group, [grouper, list]) => {
                        Value::from_object(Group { grouper: grouper.clone(), list: list.clone() })
                    }
                    _ => Value::from(items),
                }))
            }
            Class::Dict | Class::LazyDict | Class::Namespace => {
                let entries = value.try_iter()?.checked().map(|key| {
                    let key = key?;
                    let item = evaluated(value.get_item(&key)?)?;
                    Ok((evaluated(key)?, item))
                });
                let entries = entries.collect::<Result<Vec<(Value, Value)>, Error>>()?;
                // What a namespace holds has been checked.
                Ok((is_changed && class != Class::Namespace).then(|| Value::from_pairs(entries)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::environment;
    use super::*;

    fn class_of(value: &Value) -> String {
        format!("{:?}", class(value.as_object().unwrap()))
    }

    #[test]
    fn types_of_the_engine_have_their_classes() {
        const SET: &str = "{% set g = [{'a': 1}] | groupby('a') | first | shardmill_value %}";
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
            let template = format!(
                "{SET}{{% macro f() %}}{{% endmacro %}}{{% for x in [1] %}}\
                 {{{{ class_of({expression}) }}}}{{% endfor %}}"
            );
            assert_eq!(environment.render_str(&template, ()).unwrap(), expected, "{expression}");
        }
        let message = super::super::environment::value(&serde_json::json!({"a": [1]}));
        assert_eq!(
            (class_of(&message), class_of(&message.get_attr("a").unwrap())),
            ("Dict".to_owned(), "List".to_owned())
        );
    }

    #[test]
    fn computed_dict_is_evaluated_or_refused() {
        let environment = environment(None);
        let state = environment.empty_state();
        let too_long = Value::from("b".repeat(BYTES));
        let dict = |held: Value| {
            Value::make_object_map(
                (),
                |()| Box::new(std::iter::once(Value::from("a"))),
                move |(), _| Some(held.clone()),
            )
        };
        assert!(value(&state, dict(too_long)).is_err());
        let evaluated = value(&state, dict(Value::from(1))).unwrap();
        assert_eq!(
            (class_of(&evaluated), evaluated.to_string()),
            ("Dict".to_owned(), "{'a': 1}".to_owned())
        );
    }
}
