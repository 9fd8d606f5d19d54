//! The schema of files that are read together: of a data set, and of a job.
//!
//! [`unify`] decides the columns and their types before a row is read, and [`exactly`] converts the
//! values of each file. The invariant: the schema depends on the files alone, and not on how they
//! are divided among processes.

mod exact;
mod stored;
mod unify;
mod widened;

pub use exact::{Misfit, exactly};
pub use stored::{schema_of_text, schema_text};
pub use unify::{Departure, FileColumns, departure, unify};
pub use widened::{value_type, widened};

use arrow_schema::{DataType, Field};

/// Dictionary keys that suffice for the values of one file may not suffice for those of several.
#[must_use]
pub fn with_wide_keys(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => {
            DataType::Dictionary(Box::new(DataType::Int32), value.clone())
        }
        other => other.clone(),
    }
}

/// Whether the name of a column, or of a part of its type, contains NUL. Such a name is truncated
/// where Arrow data is exchanged.
#[must_use]
pub fn has_nul(field: &Field) -> bool {
    field.name().contains('\0') || type_has_nul(field.data_type())
}

fn type_has_nul(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => has_nul(item),
        DataType::FixedSizeList(item, _) | DataType::Map(item, _) => has_nul(item),
        DataType::Struct(fields) => fields.iter().any(|field| has_nul(field)),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_nul(field)),
        DataType::Dictionary(_, value) => type_has_nul(value),
        DataType::RunEndEncoded(ends, values) => has_nul(ends) || has_nul(values),
        DataType::Timestamp(_, Some(zone)) => zone.contains('\0'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nul_is_found_in_the_name_of_any_part_of_a_type() {
        let named = |name: &str| Arc::new(Field::new(name, DataType::Int32, true));
        let types = |name: &str| {
            [
                DataType::List(named(name)),
                DataType::FixedSizeList(named(name), 2),
                DataType::Struct([named("first"), named(name)].into_iter().collect()),
                DataType::RunEndEncoded(named("run_ends"), named(name)),
                DataType::RunEndEncoded(named(name), named("values")),
                DataType::List(Arc::new(Field::new(
                    "item",
                    DataType::Struct([named(name)].into_iter().collect()),
                    true,
                ))),
            ]
        };
        for (with, without) in types("a\0").into_iter().zip(types("a")) {
            assert!(has_nul(&Field::new("column", with.clone(), true)), "{with}");
            assert!(!has_nul(&Field::new("column", without.clone(), true)), "{without}");
        }
    }
}
