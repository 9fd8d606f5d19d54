//! Types of the fields, decided over the starts of all files.

use super::borders::is_blank;
use super::cursor::Cursor;
use super::kind::{Members, Place, Refusal};
use super::records::{Records, Shape};
use super::{Error, JsonlOptions, unpacked};
use crate::records::{BadLines, MAX_RECORD_BYTES, SAMPLE_BYTES};
use arrow_schema::{Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// A data set of very many files is sampled more thinly, down to this much of each.
const MIN_SAMPLE_BYTES: u64 = 64 << 10;

/// Read over all files, about.
const MAX_SAMPLED_BYTES: u64 = 1 << 30;

/// The fields of all objects in the samples, in the order in which they appear first: boolean, int64, uint64 (where an
/// integer needs it and none is negative), double (also for integers beyond 64 bits, and for a mix of integers and fractions), string, list, struct; null where no value was seen. Strings that look like dates stay strings. Bad lines are left to
/// the policy.
///
/// # Errors
/// When a file cannot be read, or, unless bad lines are tolerated, when two values of one field have no type in common.
pub fn infer(objects: &[Arc<dyn RangeRead>], options: &JsonlOptions) -> Result<SchemaRef, Error> {
    let sample_bytes = (MAX_SAMPLED_BYTES / (objects.len() as u64).max(1)).clamp(MIN_SAMPLE_BYTES, SAMPLE_BYTES);
    let mut row = Members::default();
    for (file, object) in objects.iter().enumerate() {
        let (mut len, mut is_checked) = (sample_bytes, false);
        loop {
            let start = unpacked::start(object.as_ref(), len.min(MAX_RECORD_BYTES))?;
            let is_enough = start.is_whole || len >= MAX_RECORD_BYTES;
            let shape = Shape::of(&start.bytes, is_enough);
            let text = match (shape, memchr::memrchr(b'\n', &start.bytes)) {
                _ if is_enough => start.bytes.as_slice(),
                (Some(Shape::Lines), Some(last)) if !start.bytes.get(..last).is_none_or(is_blank) => start.bytes.get(..last).unwrap_or_default(),
                (Some(Shape::Array), _) if Records::of_start(&start.bytes, Shape::Array).next().is_some() => start.bytes.as_slice(),
                _ => {
                    if !is_checked {
                        unpacked::check_first_line(object.as_ref(), options.limit)?;
                        is_checked = true;
                    }
                    len = len.saturating_mul(2);
                    continue;
                }
            };
            observe(Records::of_start(text, shape.unwrap_or(Shape::Lines)), file, objects, options, &mut row)?;
            break;
        }
    }
    Ok(Arc::new(Schema::new(row.fields())))
}

fn observe(records: Records<'_>, file: usize, objects: &[Arc<dyn RangeRead>], options: &JsonlOptions, row: &mut Members) -> Result<(), Error> {
    for record in records {
        let mut cursor = Cursor::new(record.text);
        let is_object = cursor.peek() == Some(b'{');
        // What is not valid JSON must not decide a type by its first half.
        if !is_object || cursor.clone().skip().is_err() {
            continue;
        }
        let place = Place { file, line: record.line };
        let Err(Refusal::Conflict(conflict)) = row.observe(&mut cursor, place) else { continue };
        if options.bad_lines == BadLines::Error {
            let path = |file: usize| objects.get(file).map(|object| object.path().to_owned()).unwrap_or_default();
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
