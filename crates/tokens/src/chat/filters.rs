//! Filters of Jinja2 that the engine defines otherwise, or lacks.

use super::bounds::{Class, check_length, class, invalid};
use super::python_repr::text_of;
use super::python_text::{lines, strip};
use super::string_methods;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value};

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("indent", indent);
    environment.add_filter("e", escape);
    environment.add_filter("escape", escape);
    environment.add_filter("attr", attr);
    environment.add_filter("join", join);
    environment.add_filter("wordcount", wordcount);
    environment.add_filter("truncate", truncate);
    environment.add_filter("center", center);
}

/// An argument that is given by place or by name.
struct Arguments<'a> {
    positional: std::slice::Iter<'a, Value>,
    named: &'a Kwargs,
}

impl<'a> Arguments<'a> {
    fn new(positional: &'a Rest<Value>, named: &'a Kwargs) -> Self {
        Self { positional: positional.iter(), named }
    }

    fn next(&mut self, name: &str) -> Result<Option<Value>, Error> {
        match self.positional.next() {
            Some(value) => Ok(Some(value.clone())),
            None => self.named.get(name),
        }
    }

    fn whole(&mut self, name: &str, default: i64) -> Result<i64, Error> {
        let value = self.next(name)?.filter(|value| !value.is_undefined());
        value.map_or(Ok(default), |value| {
            value.as_i64().ok_or_else(|| invalid(format!("{name} is a whole number")))
        })
    }

    fn is_set(&mut self, name: &str) -> Result<bool, Error> {
        Ok(self.next(name)?.is_some_and(|value| value.is_true()))
    }

    fn end(mut self) -> Result<(), Error> {
        self.named.assert_all_used()?;
        if self.positional.next().is_some() { Err(invalid("too many arguments")) } else { Ok(()) }
    }
}

/// Digits as Python reads them, where `_` may be between two.
fn digits(text: &str) -> Option<String> {
    let text = strip(text);
    let is_separated = text.split('_').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !part.ends_with(['+', '-'])
    });
    (!text.contains('_') || is_separated).then(|| text.replace('_', ""))
}

fn parse_int(text: &str, base: i64) -> Option<Value> {
    let text = digits(text)?.to_ascii_lowercase();
    let (sign, unsigned) = text.split_at(usize::from(text.starts_with(['+', '-'])));
    let prefixes = [(16, "0x"), (8, "0o"), (2, "0b")];
    let prefix = prefixes
        .into_iter()
        .find(|(of, prefix)| (base == *of || base == 0) && unsigned.starts_with(prefix));
    let (base, unsigned) = match prefix {
        Some((base, prefix)) => (base, unsigned.strip_prefix(prefix)?),
        None => (if base == 0 { 10 } else { base }, unsigned),
    };
    let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
    if !unsigned.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    i128::from_str_radix(&format!("{sign}{unsigned}"), radix).ok().map(whole)
}

fn whole(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn parse_float(text: &str) -> Option<f64> {
    digits(text)?.parse().ok()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "truncation is what is asked for, and larger values are refused"
)]
fn truncated(value: f64) -> Option<Value> {
    (value.abs() < 1e38).then(|| whole(value as i128))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn int(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let default = arguments.next("default")?.unwrap_or_else(|| Value::from(0));
    let base = arguments.whole("base", 10)?;
    arguments.end()?;
    match value.kind() {
        ValueKind::Undefined => Err(invalid("int of an undefined value")),
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => Ok(value),
        ValueKind::Number => {
            let number = f64::try_from(value)?;
            if number.is_nan() {
                Ok(default)
            } else {
                truncated(number).ok_or_else(|| invalid("int of a number that is too large"))
            }
        }
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let found = parse_int(text, base).or_else(|| {
                parse_float(text)
                    .and_then(|number| if number.is_nan() { None } else { truncated(number) })
            });
            Ok(found.unwrap_or(default))
        }
        _ => Ok(default),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn float(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let default = arguments.next("default")?.unwrap_or_else(|| Value::from(0.0));
    arguments.end()?;
    match value.kind() {
        ValueKind::Undefined => Err(invalid("float of an undefined value")),
        ValueKind::Bool => Ok(Value::from(f64::from(u8::from(value.is_true())))),
        ValueKind::Number => Ok(Value::from(f64::try_from(value)?)),
        ValueKind::String => Ok(value.as_str().and_then(parse_float).map_or(default, Value::from)),
        _ => Ok(default),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn indent(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let width = arguments.next("width")?.unwrap_or_else(|| Value::from(4));
    let (first, blank) = (arguments.is_set("first")?, arguments.is_set("blank")?);
    arguments.end()?;
    let margin = match width.as_str() {
        Some(margin) => margin.to_owned(),
        None => {
            let width = width
                .as_i64()
                .ok_or_else(|| invalid("the width of indent is a whole number or a text"))?;
            let width = usize::try_from(width).unwrap_or(0);
            check_length(width)?;
            " ".repeat(width)
        }
    };
    // A newline at the end begins a line, which is empty.
    let text = text_of(&value)? + "\n";
    let mut indented = String::with_capacity(text.len());
    for (place, line) in lines(&text, false).into_iter().enumerate() {
        if place > 0 {
            indented.push('\n');
        }
        if if place == 0 { first } else { blank || !line.is_empty() } {
            indented.push_str(&margin);
        }
        indented.push_str(line);
        check_length(indented.len())?;
    }
    Ok(indented.into())
}

fn escape(value: Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value);
    }
    let text = text_of(&value)?;
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            other => escaped.push(other),
        }
    }
    check_length(escaped.len())?;
    Ok(Value::from_safe_string(escaped))
}

/// An attribute, and never an item: dicts have none.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn attr(value: Value, name: String) -> Result<Value, Error> {
    match value.as_object().map(class) {
        Some(Class::Group | Class::Namespace | Class::Loop | Class::Function) => {
            value.get_attr(&name)
        }
        _ => Ok(Value::UNDEFINED),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn join(
    state: &mut State,
    value: Value,
    positional: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let separator =
        arguments.next("d")?.map_or_else(|| Ok(String::new()), |separator| text_of(&separator))?;
    let attribute = arguments.next("attribute")?.filter(|attribute| !attribute.is_none());
    arguments.end()?;
    match attribute {
        None => string_methods::join(&value, &separator),
        Some(attribute) => {
            let options = Kwargs::from_iter([("attribute", attribute)]);
            string_methods::join(
                &state.apply_filter("map", &[value, Value::from(options)])?,
                &separator,
            )
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn wordcount(value: Value) -> Result<Value, Error> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    Ok(text_of(&value)?
        .split(|character| !is_word(character))
        .filter(|word| !word.is_empty())
        .count()
        .into())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn truncate(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let length = arguments.whole("length", 255)?;
    let kills_words = arguments.is_set("killwords")?;
    let end = arguments.next("end")?.map_or_else(|| Ok("...".to_owned()), |end| text_of(&end))?;
    let leeway = arguments.next("leeway")?.and_then(|leeway| leeway.as_i64()).unwrap_or(5);
    arguments.end()?;
    let (Ok(length), Ok(leeway)) = (usize::try_from(length), usize::try_from(leeway)) else {
        return Err(invalid("truncate expects no negative number"));
    };
    let text = text_of(&value)?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.into());
    }
    let kept = length
        .checked_sub(end.chars().count())
        .ok_or_else(|| invalid("truncate expects a length of at least that of end"))?;
    let cut: String = text.chars().take(kept).collect();
    let cut = if kills_words {
        cut.as_str()
    } else {
        cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before)
    };
    Ok(format!("{cut}{end}").into())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn center(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut arguments = Arguments::new(&positional, &named);
    let width = arguments.whole("width", 80)?;
    arguments.end()?;
    string_methods::padded(&text_of(&value)?, width, ' ', "center").map(Value::from)
}
