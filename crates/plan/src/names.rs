//! What an error says about a name that does not exist.

use crate::Error;
use arrow_schema::Fields;

/// The names that an error lists.
const SHOWN: usize = 20;

/// Letters of a name that are compared.
const MAX_COMPARED: usize = 64;

/// The similarity, of at most 1, from which on a name is suggested.
const NEAR: f64 = 0.6;

/// The error for a column that `fields` lack.
pub fn unknown_column(column: &str, fields: &Fields) -> Error {
    Error::UnknownColumn {
        column: column.to_owned(),
        available: available(column, fields),
        hint: similar(column, fields),
    }
}

/// The names of all fields, or of the nearest of many; `none` if there are none.
pub fn available(wanted: &str, fields: &Fields) -> String {
    if fields.is_empty() {
        return "none".to_owned();
    }
    let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more > 0 {
        names.sort_by_cached_key(|name| strsim::levenshtein(&compared(name), &compared(wanted)));
        names.truncate(SHOWN);
    }
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

fn similar(wanted: &str, fields: &Fields) -> Option<String> {
    let similarity =
        |name: &str| strsim::normalized_damerau_levenshtein(&compared(name), &compared(wanted));
    let near = fields
        .iter()
        .map(|field| (similarity(field.name()), field.name()))
        .filter(|(similarity, _)| *similarity >= NEAR);
    near.max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| format!("did you mean `{name}`?"))
}

fn compared(name: &str) -> String {
    name.chars().take(MAX_COMPARED).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_without_columns_is_said_to_have_none() {
        assert_eq!(
            unknown_column("x", &Fields::empty()).to_string(),
            "No column `x`; the data has none"
        );
    }
}
