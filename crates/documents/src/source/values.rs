//! The values of JSON documents in the columns of the job.
//!
//! The invariant: each value is in its column without a change, or in the object of rescued values
//! under its key. What a declared type does not hold is an error, and is not rescued.

use crate::json::json_text;
use crate::ledger::Ledger;
use crate::schema::{JobSchema, RESCUED, is_json_field, is_reserved};
use crate::source::columns::{Kind, array};
use crate::table::{batch_of, cast_checked, of_json};
use crate::{Error, Result};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use arrow_select::zip::zip;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The passthrough values of one row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    /// By the number of the column.
    cells: Vec<(usize, Value)>,
    /// By key: what no column holds.
    rescued: Map<String, Value>,
}

impl Values {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.rescued.is_empty()
    }

    /// Approximate size, for splitting batches.
    pub(crate) fn byte_size(&self) -> u64 {
        let size = |value: &Value| match value {
            Value::Null => 0,
            Value::String(text) => text.len(),
            Value::Array(_) | Value::Object(_) => json_text(value).len(),
            _ => 8,
        };
        self.cells
            .iter()
            .map(|(_, value)| value)
            .chain(self.rescued.values())
            .map(|value| size(value) as u64)
            .sum()
    }

    /// The keys of rescued values.
    pub(crate) fn rescued(&self) -> impl Iterator<Item = &String> {
        self.rescued.keys()
    }
}

/// The passthrough columns of a job.
#[derive(Debug)]
pub(crate) struct JobColumns<'a> {
    job: JobSchema<'a>,
    /// All columns that rows of the source have.
    pub schema: SchemaRef,
    columns: Vec<(FieldRef, Holds)>,
    by_name: HashMap<String, usize>,
    /// Whether there is a column for values that no other column holds.
    rescues: bool,
}

/// What a column holds.
#[derive(Debug, Clone, Copy)]
enum Holds {
    /// The values of a type that was inferred.
    Kind(Kind),
    /// Each value that can be converted to the type that the user declares.
    Declared,
    Rescued,
}

impl<'a> JobColumns<'a> {
    pub(crate) fn new(job: JobSchema<'a>) -> Self {
        let schema = job.choice.apply(job.agreed);
        let passed = schema.fields().iter().filter(|field| !is_reserved(field.name()));
        let holds = |field: &FieldRef| match field.name().as_str() {
            RESCUED => Holds::Rescued,
            name if job.choice.declares(name) => Holds::Declared,
            _ => Holds::Kind(Kind::of_field(field)),
        };
        let columns: Vec<_> = passed.map(|field| (Arc::clone(field), holds(field))).collect();
        // A key with the name of the last column is rescued as any other key without a column.
        let named = columns.iter().enumerate().filter(|(_, (field, _))| field.name() != RESCUED);
        let by_name = named.map(|(number, (field, _))| (field.name().clone(), number)).collect();
        let rescues = schema.field_with_name(RESCUED).is_ok();
        Self { job, schema, columns, by_name, rescues }
    }

    /// The values of a row, by key.
    pub(crate) fn cells(&self, values: Map<String, Value>, ledger: &mut Ledger) -> Values {
        let mut row = Values::default();
        for (key, value) in values {
            self.add(&mut row, key, value, ledger);
        }
        row
    }

    /// Adds the value of a key to a row.
    pub(crate) fn add(&self, row: &mut Values, key: String, value: Value, ledger: &mut Ledger) {
        if value.is_null() {
            return;
        }
        let column =
            self.by_name.get(&key).and_then(|number| Some((*number, self.columns.get(*number)?.1)));
        match column {
            Some((number, Holds::Declared)) => row.cells.push((number, value)),
            Some((number, Holds::Kind(kind))) if kind.holds(&value) => {
                row.cells.push((number, value));
            }
            _ if self.rescues => {
                row.rescued.insert(key, value);
            }
            // The columns on which the job has agreed are counted once.
            _ if self.job.agreed.field_with_name(&key).is_ok() => {}
            _ => ledger.drop_key(format!("column `{key}` is not in the schema")),
        }
    }

    /// `rows` as a table of the columns.
    ///
    /// # Errors
    /// [`Error::Cast`] for a value that a declared type does not hold.
    pub(crate) fn table(&self, rows: &[Values]) -> Result<RecordBatch> {
        let mut cells: Vec<Vec<Option<&Value>>> = vec![vec![None; rows.len()]; self.columns.len()];
        for (index, row) in rows.iter().enumerate() {
            for (column, value) in &row.cells {
                if let Some(cell) = cells.get_mut(*column).and_then(|column| column.get_mut(index))
                {
                    *cell = Some(value);
                }
            }
        }
        let column =
            |(cells, (field, holds)): (Vec<Option<&Value>>, &(FieldRef, Holds))| match holds {
                Holds::Kind(kind) => Ok(array(&cells, *kind)),
                Holds::Declared => declared(field, &cells),
                Holds::Rescued => {
                    let texts = rows.iter().map(|row| {
                        Some(&row.rescued).filter(|rescued| !rescued.is_empty()).map(object_text)
                    });
                    cast_checked(
                        field.name(),
                        &(Arc::new(texts.collect::<StringArray>()) as ArrayRef),
                        field.data_type(),
                    )
                }
            };
        let columns =
            cells.into_iter().zip(&self.columns).map(column).collect::<Result<Vec<_>>>()?;
        let fields: Vec<FieldRef> =
            self.columns.iter().map(|(field, _)| Arc::clone(field)).collect();
        let nullable = fields
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>();
        batch_of(Arc::new(Schema::new(nullable)), columns, rows.len())
            .map_err(Error::unfit("passthrough columns", "their schema"))
    }
}

/// Rescued values as the cell of their row.
pub(crate) fn object_text(object: &Map<String, Value>) -> String {
    shardmill_formats::json::json_dumps(object, false)
}

/// Each value converted to a declared type on its own, so that it does not depend on
/// the other values.
fn declared(field: &FieldRef, cells: &[Option<&Value>]) -> Result<ArrayRef> {
    let (name, data_type) = (field.name(), field.data_type());
    if is_json_field(field) || data_type.is_string() {
        let text = |value: &Value| match value {
            Value::String(text) if !is_json_field(field) => text.clone(),
            other => json_text(other),
        };
        let texts: StringArray = cells.iter().map(|cell| cell.map(text)).collect();
        return cast_checked(name, &(Arc::new(texts) as ArrayRef), data_type);
    }
    if data_type.is_nested() {
        let texts: StringArray = cells.iter().map(|cell| cell.map(json_text)).collect();
        return of_json(name, &texts, data_type);
    }
    let mut merged: Option<ArrayRef> = None;
    for kind in [
        Kind::Boolean,
        Kind::Integer { is_exact_float: false },
        Kind::Float,
        Kind::Text,
        Kind::Json,
    ] {
        let is_same = |value: &Value| {
            std::mem::discriminant(&Kind::of(value)) == std::mem::discriminant(&kind)
        };
        let own: Vec<Option<&Value>> =
            cells.iter().map(|cell| cell.filter(|value| is_same(value))).collect();
        if own.iter().all(Option::is_none) {
            continue;
        }
        let is_own: BooleanArray = own.iter().map(|cell| Some(cell.is_some())).collect();
        let values = cast_checked(name, &array(&own, kind), data_type)?;
        merged = Some(match merged {
            None => values,
            Some(others) => {
                zip(&is_own, &values, &others).map_err(Error::unfit(name, "its type"))?
            }
        });
    }
    Ok(merged.unwrap_or_else(|| new_null_array(data_type, cells.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{SchemaChoice, canonical_schema};
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int8Type, Int64Type};
    use arrow_schema::{DataType, Field};
    use serde_json::json;

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    fn table(choice: &SchemaChoice, rows: &[Value]) -> Result<(RecordBatch, Ledger)> {
        let agreed = canonical_schema([field("n", DataType::Int64), field("s", DataType::Utf8)]);
        let columns = JobColumns::new(JobSchema { agreed: &agreed, choice });
        let mut ledger = Ledger::default();
        let values = rows.iter().map(|row| {
            let mut values = Values::default();
            for (key, value) in row.as_object().into_iter().flatten() {
                columns.add(&mut values, key.clone(), value.clone(), &mut ledger);
            }
            values
        });
        let values: Vec<Values> = values.collect();
        Ok((columns.table(&values)?, ledger))
    }

    #[test]
    fn values_without_a_column_are_rescued_with_their_digits() {
        let new: Value = serde_json::from_str(
            r#"{"n": 1.50, "s": "x", "new": 123456789012345678901, "rescued": [1]}"#,
        )
        .unwrap();
        let (table, _) =
            table(&SchemaChoice::default(), &[json!({"n": 1, "new": null}), new]).unwrap();
        let numbers = table["n"].as_primitive::<Int64Type>();
        assert!(numbers.value(0) == 1 && numbers.is_null(1));
        let rescued = table[RESCUED].as_string::<i32>();
        assert!(rescued.is_null(0));
        assert_eq!(
            rescued.value(1),
            r#"{"n": 1.50, "new": 123456789012345678901, "rescued": [1]}"#
        );
        assert_eq!(table["s"].as_string::<i32>().value(1), "x");
    }

    #[test]
    fn declared_type_takes_each_value_on_its_own_or_is_an_error() {
        let overriding = |data_type: DataType| SchemaChoice {
            overrides: Some(Arc::new(Schema::new(vec![field("n", data_type)]))),
            schema: None,
        };
        let rows = [json!({"n": 7}), json!({"n": "x"}), json!({"n": [1]}), json!({"n": true})];
        let (texts, _) = table(&overriding(DataType::LargeUtf8), &rows).unwrap();
        let texts: Vec<_> = texts["n"].as_string::<i64>().iter().flatten().collect();
        assert_eq!(texts, ["7", "x", "[1]", "true"]);
        let (floats, _) = table(
            &overriding(DataType::Float64),
            &[json!({"n": 7}), json!({}), json!({"n": 0.5}), json!({"n": "1"})],
        )
        .unwrap();
        assert_eq!(
            floats["n"].as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
            [Some(7.0), None, Some(0.5), Some(1.0)]
        );
        let misfit = table(&overriding(DataType::Int8), &[json!({"n": 300})]).unwrap_err();
        assert!(matches!(misfit, Error::Cast { column, .. } if column == "n"));
    }

    #[test]
    fn exact_schema_without_the_last_column_drops_and_counts_other_keys() {
        let choice = SchemaChoice {
            schema: Some(Arc::new(Schema::new(vec![field("n", DataType::Int8)]))),
            overrides: None,
        };
        let (table, ledger) = table(&choice, &[json!({"n": 1, "s": "x", "new": 1})]).unwrap();
        assert_eq!((table.num_columns(), table["n"].as_primitive::<Int8Type>().value(0)), (1, 1));
        assert_eq!(
            ledger.keys_dropped.into_iter().collect::<Vec<_>>(),
            [("column `new` is not in the schema".to_owned(), 1)]
        );
    }
}
