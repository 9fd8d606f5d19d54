//! Infers field types from the starts of all files.

use super::borders::{LineBorders, is_blank};
use super::cursor::Cursor;
use super::kind::{Members, Place, Refusal};
use super::records::{Records, Shape};
use super::{Error, JsonlOptions};
use crate::records::{BadLines, MAX_RECORD_BYTES, Unpacker, sample_bytes};
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use shardmill_storage::RangeRead;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The fields of all objects in the samples, in order of first appearance: boolean, int64, uint64
/// (if an integer needs it and none is negative), double (also for integers beyond 64 bits, and for
/// a mix of integers and fractions), string, list, struct; null if no value was seen. Strings that
/// look like dates stay strings. Bad lines are left to the policy.
///
/// # Errors
/// When a file cannot be read, or, unless bad lines are tolerated, when two values of one field
/// have no type in common.
pub fn infer(
    objects: &[Arc<dyn RangeRead>],
    unpacker: &Unpacker,
    options: &JsonlOptions,
) -> Result<Inferred, Error> {
    let sample_bytes = sample_bytes(objects.len());
    let mut row = Members::except(&options.declared);
    for (file, object) in objects.iter().enumerate() {
        let (mut len, mut is_checked) = (sample_bytes, false);
        loop {
            let start = unpacker.start(object.as_ref(), len.min(MAX_RECORD_BYTES))?;
            let is_enough = start.is_whole || len >= MAX_RECORD_BYTES;
            let shape = Shape::of(&start.bytes, is_enough);
            let text = match (shape, memchr::memrchr(b'\n', &start.bytes)) {
                _ if is_enough => start.bytes.as_slice(),
                (Some(Shape::Lines), Some(last))
                    if !start.bytes.get(..last).is_none_or(is_blank) =>
                {
                    start.bytes.get(..last).unwrap_or_default()
                }
                (Some(Shape::Array), _)
                    if Records::of_start(&start.bytes, Shape::Array).next().is_some() =>
                {
                    start.bytes.as_slice()
                }
                _ => {
                    if !is_checked {
                        unpacker.check_start(object.as_ref(), &mut LineBorders::new(0), 1)?;
                        is_checked = true;
                    }
                    len = len.saturating_mul(2);
                    continue;
                }
            };
            observe(
                Records::of_start(text, shape.unwrap_or(Shape::Lines)),
                file,
                objects,
                options,
                &mut row,
            )?;
            break;
        }
    }
    Ok(Inferred::of(Sample { row, bytes: sample_bytes }))
}

/// The types inferred from the starts of all files, for openers of these files on other machines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub(super) row: Members,
    /// The size of the sample of each file.
    pub(super) bytes: u64,
}

/// The types of a file whose later records change those of the sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LateMembers(pub(super) Members);

/// Types of a sample, and those of the files whose later records change them. Opening a file adds
/// its types.
#[derive(Debug)]
pub struct Inferred {
    schema: SchemaRef,
    sample: Sample,
    /// By path.
    late: Mutex<BTreeMap<String, LateMembers>>,
}

impl Inferred {
    #[must_use]
    pub fn of(sample: Sample) -> Self {
        let schema = Arc::new(Schema::new(sample.row.fields()));
        Self { schema, sample, late: Mutex::default() }
    }

    /// Of the sample.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    #[must_use]
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// The schema of all files that were opened, if it is not that of the sample: there are further
    /// fields, integers became float64 or uint64 because of a later number, or a field that was
    /// null has a value. It does not depend on the order in which they were opened.
    #[must_use]
    pub fn late_schema(&self) -> Option<SchemaRef> {
        let mut row = self.sample.row.clone();
        self.late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .for_each(|late| row.merge(&late.0));
        let schema = Arc::new(Schema::new(row.fields()));
        (schema != self.schema).then_some(schema)
    }

    /// How a file that was opened changes the types of the sample.
    #[must_use]
    pub fn late(&self, path: &str) -> Option<LateMembers> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Adds the changes of a file that was opened elsewhere.
    pub fn add(&self, path: &str, late: LateMembers) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), late);
    }
}

fn observe(
    records: Records<'_>,
    file: usize,
    objects: &[Arc<dyn RangeRead>],
    options: &JsonlOptions,
    row: &mut Members,
) -> Result<(), Error> {
    for record in records {
        let mut cursor = Cursor::new(record.text);
        let is_object = cursor.peek() == Some(b'{');
        // Invalid JSON must not influence the types with its valid prefix.
        let mut whole = cursor.clone();
        if !is_object || whole.skip().and_then(|()| whole.end()).is_err() {
            continue;
        }
        let place = Place { file, line: record.line };
        let Err(Refusal::Conflict(conflict)) = row.observe(&mut cursor, place) else { continue };
        if options.bad_lines == BadLines::Error {
            let path = |file: usize| {
                objects.get(file).map(|object| object.path().to_owned()).unwrap_or_default()
            };
            let (first, first_place) = conflict.first;
            return Err(Error::Conflict {
                field: conflict.field,
                first,
                first_path: path(first_place.file),
                first_line: first_place.line,
                second: conflict.second,
                second_path: path(file),
                second_line: place.line,
            });
        }
    }
    Ok(())
}
