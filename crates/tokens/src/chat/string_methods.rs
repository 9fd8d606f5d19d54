//! Methods of Python's `str` that the engine lacks, and those whose results must be limited.

use super::bounds::{check_length, invalid};
use super::python_repr::{is_printable, text_of};
use super::python_text::is_space;
use minijinja::value::{Tuple, ValueKind, from_args};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Of one padded text, and of all widths and precisions of a format.
const WIDTH: usize = 1 << 20;

/// The method, or none if it is not one of these.
pub(super) fn method(
    state: &mut State,
    text: &str,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, Error>> {
    Some(match name {
        "format" => format(state, text, arguments),
        "join" => from_args(arguments).and_then(|(items,): (&Value,)| join(items, text)),
        "ljust" | "rjust" | "center" => {
            from_args(arguments).and_then(|(width, fill): (i64, Option<&str>)| {
                let fill = fill
                    .map_or(Some(' '), one_character)
                    .ok_or_else(|| invalid(format!("the fill of {name} is one character")))?;
                padded(text, width, fill, name).map(Value::from)
            })
        }
        "zfill" => {
            from_args(arguments).and_then(|(width,): (i64,)| zfill(text, width).map(Value::from))
        }
        "partition" | "rpartition" => from_args(arguments)
            .and_then(|(separator,): (&str,)| partition(text, separator, name == "rpartition")),
        "removeprefix" => from_args(arguments)
            .map(|(prefix,): (&str,)| text.strip_prefix(prefix).unwrap_or(text).into()),
        "removesuffix" => from_args(arguments)
            .map(|(suffix,): (&str,)| text.strip_suffix(suffix).unwrap_or(text).into()),
        "rsplit" => {
            from_args(arguments).and_then(|(separator, limit): (Option<&str>, Option<i64>)| {
                rsplit(text, separator, limit)
            })
        }
        "swapcase" => from_args(arguments).map(|()| swapcase(text).into()),
        "expandtabs" => from_args(arguments).and_then(|(width,): (Option<i64>,)| {
            expandtabs(text, width.unwrap_or(8)).map(Value::from)
        }),
        "isprintable" => from_args(arguments).map(|()| text.chars().all(is_printable).into()),
        "index" | "rindex" => from_args(arguments).and_then(|(part,): (&str,)| {
            let place = if name == "index" { text.find(part) } else { text.rfind(part) };
            let before = place
                .and_then(|place| text.get(..place))
                .ok_or_else(|| invalid("substring not found"))?;
            Ok(before.chars().count().into())
        }),
        _ => return None,
    })
}

fn one_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

fn width_of(width: i64) -> Result<usize, Error> {
    let width = usize::try_from(width).unwrap_or(0);
    if width > WIDTH {
        Err(invalid(format!("a width of {width} is more than {WIDTH}")))
    } else {
        Ok(width)
    }
}

/// Where `name` is `ljust`, `rjust` or `center`.
pub(super) fn padded(text: &str, width: i64, fill: char, name: &str) -> Result<String, Error> {
    let width = width_of(width)?;
    let padding = width.saturating_sub(text.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => padding,
        // As in CPython, which gives an odd space to the left of an odd width.
        _ => padding / 2 + (padding & width & 1),
    };
    let fill = |count| std::iter::repeat_n(fill, count);
    Ok(fill(left).chain(text.chars()).chain(fill(padding - left)).collect())
}

fn zfill(text: &str, width: i64) -> Result<String, Error> {
    let padding = width_of(width)?.saturating_sub(text.chars().count());
    let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
    Ok(format!("{sign}{}{digits}", "0".repeat(padding)))
}

fn partition(text: &str, separator: &str, is_last: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let parts = if is_last { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match parts {
        Some((before, after)) => [before, separator, after],
        None if is_last => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from).to_vec())))
}

fn rsplit(text: &str, separator: Option<&str>, limit: Option<i64>) -> Result<Value, Error> {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(invalid("empty separator")),
        Some(separator) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        None => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end_matches(is_space));
            while !rest.is_empty() && parts.len() < limit {
                let (before, word) = match rest.rfind(is_space) {
                    Some(place) => rest.split_at(place),
                    None => ("", rest),
                };
                parts.push(word.trim_start_matches(is_space));
                rest = before.trim_end_matches(is_space);
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

fn swapcase(text: &str) -> String {
    let mut swapped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_uppercase() {
            swapped.extend(character.to_lowercase());
        } else {
            swapped.extend(character.to_uppercase());
        }
    }
    swapped
}

fn expandtabs(text: &str, width: i64) -> Result<String, Error> {
    let width = width_of(width)?;
    let (mut expanded, mut column) = (String::with_capacity(text.len()), 0);
    for character in text.chars() {
        match character {
            '\t' => {
                let spaces = if width == 0 { 0 } else { width - column % width };
                check_length(expanded.len() + spaces)?;
                expanded.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\n' | '\r' => {
                expanded.push(character);
                column = 0;
            }
            _ => {
                expanded.push(character);
                column += 1;
            }
        }
    }
    Ok(expanded)
}

/// The texts of items, with a separator between them.
pub(super) fn join(items: &Value, separator: &str) -> Result<Value, Error> {
    let mut joined = String::new();
    for (place, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        if place > 0 {
            joined.push_str(separator);
        }
        match item.as_str() {
            Some(text) => joined.push_str(text),
            None => joined.push_str(&text_of(&item)?),
        }
        check_length(joined.len())?;
    }
    Ok(joined.into())
}

fn format(state: &mut State, text: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (mut fields, mut widths, mut reads_items) = (0_usize, 0_usize, false);
    let mut rest = text;
    while let Some(place) = rest.find('{') {
        let after = rest.get(place + 1..).unwrap_or_default();
        if let Some(literal) = after.strip_prefix('{') {
            rest = literal;
            continue;
        }
        let (field, left) = after.split_once('}').unwrap_or((after, ""));
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        fields += 1;
        reads_items |= name.contains(['.', '[']);
        for digits in spec
            .split(|character: char| !character.is_ascii_digit())
            .filter(|digits| !digits.is_empty())
        {
            widths = widths.saturating_add(digits.parse().unwrap_or(usize::MAX));
        }
        rest = left;
    }
    if widths > WIDTH {
        return Err(invalid(format!(
            "the widths and precisions of a format are more than {WIDTH} together"
        )));
    }
    let mut largest = 0;
    let mut texts = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let is_container =
            matches!(argument.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map);
        let text = if is_container { Some(text_of(argument)?) } else { None };
        largest = largest.max(text.as_deref().or_else(|| argument.as_str()).map_or(0, str::len));
        // Keyword arguments are a dict too.
        let is_value = !reads_items && argument.kind() != ValueKind::Map;
        texts.push(text.filter(|_| is_value).map_or_else(|| argument.clone(), Value::from));
    }
    check_length(fields.saturating_mul(largest))?;
    unknown_method_callback(state, &Value::from(text), "format", &texts)
}
