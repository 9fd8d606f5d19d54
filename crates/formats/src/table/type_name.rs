//! How a type is written for people: the names that Arrow's C++ and Python libraries use.
//!
//! The one place that formats a type for output. `Display` of [`DataType`] has other names, which
//! users of Python do not know.

use arrow_schema::{
    ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit, UnionFields, UnionMode,
};

/// A type such as `int64`, `list<double>`, `timestamp[us, tz=UTC]`
/// or `struct<a: string, b: int8 not null>`.
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "null".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Int8 => "int8".to_owned(),
        DataType::Int16 => "int16".to_owned(),
        DataType::Int32 => "int32".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::UInt8 => "uint8".to_owned(),
        DataType::UInt16 => "uint16".to_owned(),
        DataType::UInt32 => "uint32".to_owned(),
        DataType::UInt64 => "uint64".to_owned(),
        DataType::Float16 => "halffloat".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeUtf8 => "large_string".to_owned(),
        DataType::Utf8View => "string_view".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::LargeBinary => "large_binary".to_owned(),
        DataType::BinaryView => "binary_view".to_owned(),
        DataType::FixedSizeBinary(length) => format!("fixed_size_binary[{length}]"),
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Date64 => "date64[ms]".to_owned(),
        DataType::Time32(unit) => format!("time32[{}]", unit_name(*unit)),
        DataType::Time64(unit) => format!("time64[{}]", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            format!("timestamp[{}, tz={zone}]", unit_name(*unit))
        }
        DataType::Interval(IntervalUnit::YearMonth) => "month_interval".to_owned(),
        DataType::Interval(IntervalUnit::DayTime) => "day_time_interval".to_owned(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval".to_owned(),
        DataType::Decimal32(precision, scale) => format!("decimal32({precision}, {scale})"),
        DataType::Decimal64(precision, scale) => format!("decimal64({precision}, {scale})"),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        DataType::List(item) => format!("list<{}>", value_name(item)),
        DataType::LargeList(item) => format!("large_list<{}>", value_name(item)),
        DataType::ListView(item) => format!("list_view<{}>", value_name(item)),
        DataType::LargeListView(item) => format!("large_list_view<{}>", value_name(item)),
        DataType::FixedSizeList(item, length) => {
            format!("fixed_size_list<{}>[{length}]", value_name(item))
        }
        DataType::Struct(fields) => format!("struct<{}>", joined(fields)),
        DataType::Map(entries, is_sorted) => map_name(entries, *is_sorted),
        DataType::Dictionary(indices, values) => {
            format!("dictionary<values={}, indices={}>", type_name(values), type_name(indices))
        }
        DataType::RunEndEncoded(ends, values) => {
            format!(
                "run_end_encoded<run_ends: {}, values: {}>",
                type_name(ends.data_type()),
                value_name(values)
            )
        }
        DataType::Union(fields, mode) => union_name(fields, *mode),
    }
}

/// The type of a column. An extension type is printed with its name,
/// such as `extension<arrow.uuid>`.
#[must_use]
pub fn column_type_name(field: &Field) -> String {
    field
        .extension_type_name()
        .map_or_else(|| type_name(field.data_type()), |name| format!("extension<{name}>"))
}

/// The message of an Arrow error, with these names for the types in it. Quoted text is not changed,
/// because it may be a value.
#[must_use]
pub fn arrow_message(error: &ArrowError) -> String {
    let message = error.to_string();
    let (mut out, mut rest, mut quote) =
        (String::with_capacity(message.len()), message.as_str(), None);
    while let Some(mark) = rest.chars().next() {
        let is_word = mark.is_ascii_uppercase()
            && !out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        if quote.is_none()
            && is_word
            && let Some((data_type, length)) = leading_type(rest)
        {
            out.push_str(&type_name(&data_type));
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        quote = match quote {
            None if matches!(mark, '\'' | '"' | '`') && !out.ends_with(char::is_alphanumeric) => {
                Some(mark)
            }
            Some(open) if open == mark => None,
            _ => quote,
        };
        out.push(mark);
        rest = rest.get(mark.len_utf8()..).unwrap_or_default();
    }
    out
}

/// The type that the text starts with, as `Display` writes it, and its length there.
fn leading_type(text: &str) -> Option<(DataType, usize)> {
    let word = text.find(|mark: char| !mark.is_ascii_alphanumeric()).unwrap_or(text.len());
    let end = match text.get(word..)?.starts_with('(') {
        true => word + closing(text.get(word..)?)?,
        false => word,
    };
    text.get(..end)?.parse().ok().map(|data_type| (data_type, end))
}

/// The length of the text up to the parenthesis that closes its first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, mark) in text.char_indices() {
        match mark {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(place + mark.len_utf8());
        }
    }
    None
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The type of a field without its name.
fn value_name(field: &Field) -> String {
    let suffix = if field.is_nullable() { "" } else { " not null" };
    format!("{}{suffix}", column_type_name(field))
}

fn joined(fields: &Fields) -> String {
    let named = |field: &FieldRef| format!("{}: {}", field.name(), value_name(field));
    fields.iter().map(named).collect::<Vec<_>>().join(", ")
}

fn map_name(entries: &Field, is_sorted: bool) -> String {
    let sorted = if is_sorted { ", keys_sorted" } else { "" };
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => {
                format!("map<{}, {}{sorted}>", column_type_name(key), value_name(value))
            }
            _ => format!("map<{}{sorted}>", joined(fields)),
        },
        other => format!("map<{}{sorted}>", type_name(other)),
    }
}

fn union_name(fields: &UnionFields, mode: UnionMode) -> String {
    let mode = match mode {
        UnionMode::Sparse => "sparse",
        UnionMode::Dense => "dense",
    };
    let members =
        fields.iter().map(|(id, field)| format!("{}: {}={id}", field.name(), value_name(field)));
    format!("{mode}_union<{}>", members.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn types_in_messages_of_arrow_have_the_same_names() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let cases = [
            (
                format!("Casting from {} to {list} not supported", DataType::Utf8),
                "Casting from string to list<double> not supported".to_owned(),
            ),
            (
                format!("Can't cast value 300 to type {}", DataType::Int8),
                "Can't cast value 300 to type int8".to_owned(),
            ),
            (format!("{zoned} is not sorted"), "timestamp[us, tz=UTC] is not sorted".to_owned()),
            (
                format!("Cannot cast string 'Utf8' to value of {} type", DataType::Int64),
                "Cannot cast string 'Utf8' to value of int64 type".to_owned(),
            ),
            (
                "Int64Array of myInt64 is Nullable, not µ(Utf8".to_owned(),
                "Int64Array of myInt64 is Nullable, not µ(string".to_owned(),
            ),
        ];
        for (message, expected) in cases {
            let told = arrow_message(&ArrowError::CastError(message));
            assert_eq!(told, format!("Cast error: {expected}"));
        }
    }
}
