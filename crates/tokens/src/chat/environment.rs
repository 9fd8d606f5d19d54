//! What a template can use.

use super::bounds;
use super::date::Date;
use super::filters;
use super::limits;
use super::python_json::dumps;
use super::python_text;
use super::syntax::syntax;
use crate::error::{Error as TokensError, Result};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::Value as Json;
use std::cell::Cell;
use std::ops::RangeInclusive;

/// Steps of one rendering.
const FUEL: u64 = 10_000_000;

/// The function that brackets what an assistant writes. No template names it.
pub(super) const BRACKET: &str = "shardmill_generation";

thread_local! {
    static BRACKETS: Cell<Option<Brackets>> = const { Cell::new(None) };
}

/// Noncharacters, which no text should contain. The first two bytes of all are the same.
const CANDIDATES: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';
pub(super) const FIRST_BYTES: &[u8] = b"\xef\xb7";

/// Characters around what an assistant writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brackets {
    pub(super) open: char,
    pub(super) close: char,
}

impl Brackets {
    /// Two noncharacters that are in none of the values.
    pub(super) fn unused(values: &[&Json]) -> Result<Self> {
        let mut free =
            CANDIDATES.filter(|candidate| !values.iter().any(|value| contains(value, *candidate)));
        match (free.next(), free.next()) {
            (Some(open), Some(close)) => Ok(Self { open, close }),
            _ => Err(TokensError::Noncharacters),
        }
    }

    /// Whether a text has, or a string of a template could make, one of these characters.
    pub(super) fn may_be_in(text: &str) -> bool {
        text.contains("\\u")
            || text.contains("\\U")
            || text.contains(|character| CANDIDATES.contains(&character))
    }
}

fn contains(value: &Json, character: char) -> bool {
    match value {
        Json::String(text) => text.contains(character),
        Json::Array(items) => items.iter().any(|item| contains(item, character)),
        Json::Object(entries) => {
            entries.iter().any(|(key, value)| key.contains(character) || contains(value, character))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Renders with brackets, or without.
pub(super) fn with_brackets<T>(brackets: Option<Brackets>, render: impl FnOnce() -> T) -> T {
    let before = BRACKETS.replace(brackets);
    let rendered = render();
    BRACKETS.set(before);
    rendered
}

pub(super) fn environment(now: Option<Date>) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(python_text::method);
    environment.set_formatter(python_text::write);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function(BRACKET, bracket);
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", python_text::trim);
    environment.add_filter("string", python_text::string);
    environment.add_filter(limits::VALUE, bounds::value);
    environment.add_filter(limits::ATTRIBUTE, bounds::attribute);
    environment.add_filter(limits::ITERABLE, iterable);
    // It prints the values of the engine.
    environment.remove_filter("pprint");
    filters::add(&mut environment);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", python_text::is_sequence);
    if let Some(now) = now {
        environment.add_function("strftime_now", move |format: String| {
            now.format(&format).map_err(|reason| Error::new(ErrorKind::InvalidOperation, reason))
        });
    }
    environment
}

/// Makes the use of `varargs` and `kwargs` an error where nothing has that name: Jinja passes the
/// other arguments of a macro under these names, and the engine leaves both undefined, so they
/// would render as nothing.
pub(super) fn refuse_undeclared_arguments(environment: &mut Environment<'static>) {
    for name in ["varargs", "kwargs"] {
        let reason = format!("{name} of a macro is not supported; declare each argument");
        environment.add_global(name, Value::from(bounds::invalid(reason)));
    }
}

/// As `iter` of Python: an undefined value is empty, and none is not iterable.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a test")]
fn is_iterable(value: Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined
            | ValueKind::String
            | ValueKind::Seq
            | ValueKind::Map
            | ValueKind::Iterable
    )
}

/// The filter on what a loop goes through: the engine takes none for an empty list.
fn iterable(value: Value) -> std::result::Result<Value, Error> {
    if value.is_none() { Err(bounds::invalid("none is not iterable")) } else { Ok(value) }
}

fn raise_exception(message: String) -> std::result::Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The bracket where a generation block begins or ends; nothing unless brackets are wanted.
fn bracket(is_start: bool) -> String {
    BRACKETS.get().map_or_else(String::new, |Brackets { open, close }| {
        if is_start { open } else { close }.to_string()
    })
}

/// `json.dumps(value, ensure_ascii, indent, separators, sort_keys)`,
/// all but the first with defaults.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn tojson(
    value: Value,
    positional: Rest<Value>,
    named: Kwargs,
) -> std::result::Result<Value, Error> {
    let mut positional = positional.iter();
    let mut option = |name: &str| -> std::result::Result<Option<Value>, Error> {
        let value = match positional.next() {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let (ensure_ascii, indent) = (option("ensure_ascii")?, option("indent")?);
    let (separators, sort_keys) = (option("separators")?, option("sort_keys")?);
    named.assert_all_used()?;
    let is_set = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    Ok(Value::from(dumps(
        &value,
        is_set(ensure_ascii),
        indent.as_ref(),
        separators.as_ref(),
        is_set(sort_keys),
    )?))
}

/// A value of a template, with keys in their order.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(value).collect::<Vec<_>>()),
        Json::Object(entries) => {
            Value::from_pairs(entries.iter().map(|(key, item)| (key.as_str(), value(item))))
        }
        Json::Number(number) => {
            let text = number.to_string();
            let is_whole = !text.contains(['.', 'e', 'E']);
            match text.parse::<i128>() {
                Ok(whole) if is_whole => {
                    i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from)
                }
                _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
    }
}
