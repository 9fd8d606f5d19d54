//! What Python's `str` does otherwise than the engine: white space, lines,
//! titles, and floats as text.

use super::python_repr::text_of;
use super::string_methods;
use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, Output, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// As `str.isspace`, which also counts the four separators of ASCII.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Where `str.splitlines` cuts, besides "\r\n".
fn ends_line(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Methods of strings that Python defines otherwise, and those of the engine.
pub(super) fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, name, arguments);
    };
    match (name, arguments) {
        ("strip", []) => Ok(strip(text).into()),
        ("lstrip", []) => Ok(text.trim_start_matches(is_space).into()),
        ("rstrip", []) => Ok(text.trim_end_matches(is_space).into()),
        ("split", []) => {
            Ok(text.split(is_space).filter(|word| !word.is_empty()).map(Value::from).collect())
        }
        ("isspace", []) => Ok((!text.is_empty() && text.chars().all(is_space)).into()),
        ("splitlines", _) => {
            let (keeps_ends,): (Option<bool>,) = from_args(arguments)?;
            Ok(lines(text, keeps_ends.unwrap_or(false)).into_iter().map(Value::from).collect())
        }
        ("title", []) => Ok(title(text).into()),
        _ => string_methods::method(state, text, name, arguments)
            .unwrap_or_else(|| unknown_method_callback(state, value, name, arguments)),
    }
}

/// As `str.strip`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

pub(super) fn lines(text: &str, keeps_ends: bool) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some((at, end)) = rest.char_indices().find(|(_, character)| ends_line(*character)) {
        let after = at
            + if rest.get(at..).is_some_and(|end| end.starts_with("\r\n")) {
                2
            } else {
                end.len_utf8()
            };
        let (line, left) = rest.split_at(after);
        lines.push(if keeps_ends { line } else { line.get(..at).unwrap_or_default() });
        rest = left;
    }
    lines.extend((!rest.is_empty()).then_some(rest));
    lines
}

/// A letter after another one is lower case, any other is upper case.
fn title(text: &str) -> String {
    let (mut title, mut follows_letter) = (String::with_capacity(text.len()), false);
    for character in text.chars() {
        if follows_letter {
            title.extend(character.to_lowercase());
        } else {
            let mut upper = character.to_uppercase();
            title.extend(upper.next());
            title.extend(upper.flat_map(char::to_lowercase));
        }
        follows_letter = character.is_lowercase() || character.is_uppercase();
    }
    title
}

/// The filter `trim`.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
pub(super) fn trim(value: Value, characters: Option<String>) -> Result<Value, Error> {
    let text = text_of(&value)?;
    Ok(match characters {
        Some(characters) => text.trim_matches(|character| characters.contains(character)).into(),
        None => strip(&text).into(),
    })
}

/// The filter `string`.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
pub(super) fn string(value: Value) -> Result<Value, Error> {
    text_of(&value).map(Value::from)
}

/// The test `sequence`: what has a length and items.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a test")]
pub(super) fn is_sequence(value: Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map
    )
}

/// Writes what an expression gives.
pub(super) fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Undefined => minijinja::escape_formatter(out, state, value),
        _ => minijinja::escape_formatter(out, state, &Value::from(text_of(value)?)),
    }
}
