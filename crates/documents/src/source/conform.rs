//! Rows of a Parquet file in the columns of the job.
//!
//! The invariant: each value is in its column without a change, or in the object
//! of rescued values under the name of its column. What a declared type or a reserved column
//! does not hold is an error.

use crate::json::JsonCells;
use crate::ledger::Ledger;
use crate::schema::{JobSchema, RESCUED, is_json_field, is_rescued_field, is_reserved};
use crate::source::values::object_text;
use crate::table::{batch_of, cast_checked, cast_field};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat;
use serde_json::{Map, Value};
use shardmill_formats::json::json_loads;
use shardmill_plan::schema::{Misfit, exactly, widened};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns that a job reads of its files.
pub(super) struct JobReader<'a> {
    pub job: JobSchema<'a>,
    /// All reserved columns, even if they are not written, and the passthrough columns that are.
    pub columns: SchemaRef,
    /// The columns of rows that are passed on.
    pub target: SchemaRef,
    /// The passthrough columns that the user selects.
    fields: Option<&'a [String]>,
}

impl<'a> JobReader<'a> {
    pub(super) fn new(job: JobSchema<'a>, fields: Option<&'a [String]>) -> Self {
        let target = job.choice.apply(job.agreed);
        let reserved = job.agreed.fields().iter().filter(|field| is_reserved(field.name()));
        let passthrough = target.fields().iter().filter(|field| !is_reserved(field.name()));
        let columns =
            Arc::new(Schema::new(reserved.chain(passthrough).cloned().collect::<Vec<_>>()));
        Self { job, columns, target, fields }
    }

    /// The columns of a file that are read.
    pub(super) fn names<'b>(&'b self, file: &'b Schema) -> Vec<&'b str> {
        let known = self.columns.fields().iter().map(|field| field.name().as_str());
        known
            .chain(
                self.others(file)
                    .map(|field| field.name().as_str())
                    .filter(|name| *name != RESCUED),
            )
            .collect()
    }

    /// The columns of a file for which the job has none: all of their values are rescued.
    fn others<'b>(&'b self, file: &'b Schema) -> impl Iterator<Item = &'b FieldRef> {
        let rescues = self.fields.is_none() && self.columns.field_with_name(RESCUED).is_ok();
        let is_known = |field: &FieldRef| match field.name().as_str() {
            RESCUED => is_rescued_field(field),
            name => is_reserved(name) || self.columns.field_with_name(name).is_ok(),
        };
        file.fields().iter().filter(move |field| rescues && !is_known(field))
    }

    /// `batch` with exactly [`JobReader::columns`].
    ///
    /// # Errors
    /// [`Error::Cast`] when a value of a reserved or a declared column does not fit its type.
    pub(super) fn conform(&self, batch: &RecordBatch, ledger: &mut Ledger) -> Result<RecordBatch> {
        let mut rescued = Rescued::default();
        if let Some((index, own)) =
            batch.schema().column_with_name(RESCUED).filter(|(_, own)| is_rescued_field(own))
        {
            rescued.merge(own, batch.column(index), self.fields)?;
        }
        let mut columns = Vec::with_capacity(self.columns.fields().len());
        for field in self.columns.fields().iter().filter(|field| field.name() != RESCUED) {
            columns.push(match batch.schema().column_with_name(field.name()) {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some((index, own)) => {
                    self.column(field, own, batch.column(index), &mut rescued, ledger)?
                }
            });
        }
        for own in self.others(&batch.schema()) {
            let Some(column) = batch.column_by_name(own.name()) else { continue };
            rescued.add(own, column, 0..column.len(), ledger)?;
        }
        if let Some(last) = self.columns.fields().iter().position(|field| field.name() == RESCUED) {
            columns.insert(last, rescued.column(self.columns.field(last), batch.num_rows())?);
        }
        let typed = |(field, column): (&FieldRef, &ArrayRef)| {
            field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
        };
        let fields: Vec<Field> = self.columns.fields().iter().zip(&columns).map(typed).collect();
        batch_of(Arc::new(Schema::new(fields)), columns, batch.num_rows())
            .map_err(Error::unfit("table", "the common schema"))
    }

    /// The column of a file as that of the job.
    fn column(
        &self,
        field: &FieldRef,
        own: &Field,
        column: &ArrayRef,
        rescued: &mut Rescued,
        ledger: &mut Ledger,
    ) -> Result<ArrayRef> {
        if column.data_type() == &DataType::BinaryView && is_reserved(field.name()) {
            return Ok(Arc::clone(column));
        }
        if column.null_count() == column.len() || column.data_type().is_null() {
            return Ok(new_null_array(field.data_type(), column.len()));
        }
        if is_json_field(field) && !is_json_field(own) {
            let cells = JsonCells::new(field.name(), column)?;
            return Ok(Arc::new(
                (0..column.len()).map(|row| cells.text(row)).collect::<Result<StringArray>>()?,
            ));
        }
        let has_rescued = self.columns.field_with_name(RESCUED).is_ok();
        if is_reserved(field.name()) || self.job.choice.declares(field.name()) || !has_rescued {
            return cast_field(own, column, field.data_type());
        }
        let is_same_kind = is_json_field(field) == is_json_field(own)
            && widened(column.data_type(), field.data_type()).is_some();
        let (values, misfits) = if is_same_kind {
            fitting(column, field.data_type())?
        } else {
            (new_null_array(field.data_type(), column.len()), all(column.len()))
        };
        rescued.add(own, column, misfits.into_iter(), ledger)?;
        Ok(values)
    }
}

fn all(rows: usize) -> Vec<usize> {
    (0..rows).collect()
}

/// The values that the type holds exactly, and the rows of the others, which are null.
fn fitting(column: &ArrayRef, data_type: &DataType) -> Result<(ArrayRef, Vec<usize>)> {
    match exactly(column, data_type) {
        Ok(values) => Ok((values, Vec::new())),
        Err(Misfit::Value { .. }) if column.len() > 1 => {
            let middle = column.len() / 2;
            let (first, mut misfits) = fitting(&column.slice(0, middle), data_type)?;
            let (second, others) =
                fitting(&column.slice(middle, column.len() - middle), data_type)?;
            misfits.extend(others.into_iter().map(|row| row + middle));
            Ok((
                concat(&[&first, &second]).map_err(Error::unfit("table", "the common schema"))?,
                misfits,
            ))
        }
        Err(_) => Ok((new_null_array(data_type, column.len()), all(column.len()))),
    }
}

/// The objects of rescued values, by row.
#[derive(Default)]
struct Rescued {
    rows: BTreeMap<usize, Map<String, Value>>,
}

impl Rescued {
    /// Adds the values that an earlier job rescued, of the columns that the user selects.
    fn merge(&mut self, own: &Field, column: &ArrayRef, fields: Option<&[String]>) -> Result<()> {
        let texts = cast_checked(own.name(), column, &DataType::Utf8)?;
        let texts = texts
            .as_string::<i32>()
            .iter()
            .enumerate()
            .filter_map(|(row, text)| Some((row, text?)));
        for (row, text) in texts {
            let values = match json_loads(text.as_bytes()) {
                Ok(Value::Object(values)) => values,
                // Not what a job writes.
                _ => Map::from_iter([(RESCUED.to_owned(), Value::from(text))]),
            };
            let selected = values
                .into_iter()
                .filter(|(key, _)| fields.is_none_or(|fields| fields.contains(key)));
            self.rows.entry(row).or_default().extend(selected);
        }
        Ok(())
    }

    /// Adds the values of some rows, under the name of their column.
    fn add(
        &mut self,
        own: &Field,
        column: &ArrayRef,
        rows: impl Iterator<Item = usize>,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let mut cells = None;
        for row in rows.filter(|row| !column.is_null(*row)) {
            let cells = match &mut cells {
                Some(cells) => cells,
                new => new.insert(JsonCells::new(own.name(), column)?),
            };
            let value = match cells.value(row)? {
                Value::String(text) if is_json_field(own) => {
                    json_loads(text.as_bytes()).unwrap_or(Value::String(text))
                }
                Value::Null if column.data_type().is_floating() => not_finite(column, row)?,
                value => value,
            };
            let earlier = self.rows.entry(row).or_default().insert(own.name().clone(), value);
            ledger.rescue(own.name());
            if earlier.is_some() {
                ledger.drop_key(format!(
                    "rescued value of `{}`, beside one in its column",
                    own.name()
                ));
            }
        }
        Ok(())
    }

    fn column(&self, field: &Field, rows: usize) -> Result<ArrayRef> {
        if self.rows.is_empty() {
            return Ok(new_null_array(field.data_type(), rows));
        }
        let text = |row| self.rows.get(&row).filter(|object| !object.is_empty()).map(object_text);
        let texts: StringArray = (0..rows).map(text).collect();
        cast_checked(field.name(), &(Arc::new(texts) as ArrayRef), field.data_type())
    }
}

/// The number with the name that it has in JSON of Python.
fn not_finite(column: &ArrayRef, row: usize) -> Result<Value> {
    let values = cast_checked("float", &column.slice(row, 1), &DataType::Float64)?;
    let name = match values.as_primitive::<Float64Type>().value(0) {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    json_loads(name.as_bytes())
        .map_err(|error| Error::unfit("float", "JSON")(ArrowError::JsonError(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{SchemaChoice, canonical_schema, json_field, rescued_field};
    use arrow_array::types::Int64Type;
    use arrow_array::{Float64Array, Int32Array, Int64Array};

    fn read(job: Field, own: Field, column: ArrayRef) -> (RecordBatch, Ledger) {
        let agreed = canonical_schema([Arc::new(job)]);
        let choice = SchemaChoice::default();
        let reader = JobReader::new(JobSchema { agreed: &agreed, choice: &choice }, None);
        let batch = batch_of(Arc::new(Schema::new(vec![own])), vec![column], 3).unwrap();
        let mut ledger = Ledger::default();
        (reader.conform(&batch, &mut ledger).unwrap(), ledger)
    }

    fn field(data_type: DataType) -> Field {
        Field::new("c", data_type, true)
    }

    fn rescued(batch: &RecordBatch) -> Vec<Option<&str>> {
        batch[RESCUED].as_string::<i32>().iter().collect()
    }

    #[test]
    fn values_that_the_type_of_the_job_does_not_hold_are_rescued_one_by_one() {
        let inexact = (1_i64 << 53) + 1;
        let (batch, ledger) = read(
            field(DataType::Float64),
            field(DataType::Int64),
            Arc::new(Int64Array::from(vec![1, inexact, 2])),
        );
        assert_eq!(
            batch["c"].as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
            [Some(1.0), None, Some(2.0)]
        );
        assert_eq!(rescued(&batch), [None, Some(r#"{"c": 9007199254740993}"#), None]);
        assert_eq!(ledger.rescued.into_iter().collect::<Vec<_>>(), [("c".to_owned(), 1)]);
        let (batch, _) = read(
            field(DataType::Int64),
            field(DataType::Float64),
            Arc::new(Float64Array::from(vec![Some(2.0), Some(f64::NAN), Some(0.5)])),
        );
        assert_eq!(
            batch["c"].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            [Some(2), None, None]
        );
        assert_eq!(rescued(&batch), [None, Some(r#"{"c": NaN}"#), Some(r#"{"c": 0.5}"#)]);
    }

    #[test]
    fn text_does_not_become_a_number_and_json_text_no_text() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("7"), None, Some("[1]")]));
        let (batch, _) = read(field(DataType::Int64), field(DataType::Utf8), Arc::clone(&texts));
        assert_eq!(
            (batch["c"].null_count(), rescued(&batch)),
            (3, vec![Some(r#"{"c": "7"}"#), None, Some(r#"{"c": "[1]"}"#)])
        );
        let (batch, _) = read(field(DataType::Utf8), json_field("c"), Arc::clone(&texts));
        assert_eq!(rescued(&batch), [Some(r#"{"c": 7}"#), None, Some(r#"{"c": [1]}"#)]);
        let (batch, ledger) = read(json_field("c"), field(DataType::Utf8), texts);
        assert_eq!(batch["c"].as_string::<i32>().value(0), r#""7""#);
        assert_eq!((rescued(&batch), ledger.rescued.len()), (vec![None; 3], 0));
    }

    #[test]
    fn marked_column_is_merged_and_another_one_of_its_name_is_rescued() {
        let objects: ArrayRef =
            Arc::new(StringArray::from(vec![Some(r#"{"k": 1.50}"#), None, Some("odd")]));
        let (batch, ledger) = read(field(DataType::Int64), rescued_field(), objects);
        assert_eq!(rescued(&batch), [Some(r#"{"k": 1.50}"#), None, Some(r#"{"rescued": "odd"}"#)]);
        assert!(ledger.rescued.is_empty());
        let own = Field::new(RESCUED, DataType::Int32, true);
        let (batch, ledger) = read(
            field(DataType::Int64),
            own,
            Arc::new(Int32Array::from(vec![Some(5), None, Some(6)])),
        );
        assert_eq!(rescued(&batch), [Some(r#"{"rescued": 5}"#), None, Some(r#"{"rescued": 6}"#)]);
        assert_eq!(ledger.rescued["rescued"], 2);
    }
}
