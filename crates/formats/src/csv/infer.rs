//! Types of the columns, decided over the starts of all files.

use super::header::{check_records, read_header};
use super::kind::{Kinds, NullValues};
use super::rows::{Rows, is_null};
use super::tokenize::Tokenizer;
use super::{CsvOptions, Error};
use crate::records::{MAX_RECORD_BYTES, SAMPLE_BYTES};
use arrow_schema::{Field, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::collections::HashMap;
use std::sync::Arc;

/// A data set of very many files is sampled more thinly, down to this much of each.
const MIN_SAMPLE_BYTES: u64 = 64 << 10;

/// Read over all files, about.
const MAX_SAMPLED_BYTES: u64 = 1 << 30;

/// Records that are split at once.
const BATCH_ROWS: usize = 256;

#[derive(Debug, Default)]
struct Inference {
    names: Vec<String>,
    kinds: Vec<Kinds>,
    by_name: HashMap<String, usize>,
}

/// The columns of all files, in the order in which they appear first, with the types that pyarrow would infer for the samples together: int64, bool,
/// date32, time32\[s\], timestamp\[s\], timestamp\[ns\], both with UTC where the values have offsets, double, string; null where no value was seen. Columns
/// are matched by name, or by position in files without a header. Bad lines are left to the policy.
///
/// # Errors
/// When a file cannot be read, a header is damaged, or an option makes no sense.
pub fn infer(objects: &[Arc<dyn RangeRead>], options: &CsvOptions) -> Result<SchemaRef, Error> {
    options.check()?;
    let nulls = NullValues::new(options);
    let sample_bytes = (MAX_SAMPLED_BYTES / (objects.len() as u64).max(1)).clamp(MIN_SAMPLE_BYTES, SAMPLE_BYTES);
    let mut inference = Inference::default();
    for object in objects {
        inference.add(object.as_ref(), options, &nulls, sample_bytes)?;
    }
    let fields = inference.names.iter().zip(&inference.kinds).map(|(name, kinds)| Field::new(name, kinds.data_type(), true));
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

impl Inference {
    fn add(&mut self, object: &dyn RangeRead, options: &CsvOptions, nulls: &NullValues, sample_bytes: u64) -> Result<(), Error> {
        let mut len = sample_bytes;
        loop {
            let Some((header, start)) = read_header(object, options, len)? else { return Ok(()) };
            let data = usize::try_from(header.data_start - start.mark_len).ok().and_then(|from| start.bytes.get(from..)).unwrap_or_default();
            let (kinds, records) = sample(data, options, nulls, header.names.len(), start.is_whole);
            if records == 0 && !start.is_whole && len < MAX_RECORD_BYTES {
                check_records(object, options, 1 + u64::from(options.header))?;
                len = len.saturating_mul(2);
                continue;
            }
            if !options.header && !self.names.is_empty() && self.names.len() != header.names.len() {
                return Err(Error::ColumnCount { path: object.path().to_owned(), found: header.names.len(), expected: self.names.len() });
            }
            for (name, kinds) in header.names.into_iter().zip(kinds) {
                self.merge(name, kinds);
            }
            return Ok(());
        }
    }

    fn merge(&mut self, name: String, kinds: Kinds) {
        match self.by_name.get(&name).and_then(|index| self.kinds.get_mut(*index)) {
            Some(known) => known.intersect(kinds),
            None => {
                self.by_name.insert(name.clone(), self.kinds.len());
                self.names.push(name);
                self.kinds.push(kinds);
            }
        }
    }
}

/// What the whole records in `bytes` leave possible, and how many there are.
fn sample(bytes: &[u8], options: &CsvOptions, nulls: &NullValues, width: usize, is_whole: bool) -> (Vec<Kinds>, u64) {
    let mut kinds = vec![Kinds::ALL; width];
    let mut tokenizer = Tokenizer::new(bytes, options, is_whole);
    let mut rows = Rows::new(bytes, width, options.quote);
    let mut unquoted = Vec::new();
    loop {
        let is_more = tokenizer.fill(&mut rows, BATCH_ROWS.min((1 << 20) / width.max(1)).max(1), &mut || true);
        for (record, spans) in rows.spans.chunks_exact(width.max(1)).enumerate() {
            if rows.faults.iter().any(|fault| fault.row == record) {
                continue;
            }
            for (kinds, span) in kinds.iter_mut().zip(spans) {
                if !is_null(&rows, *span, nulls, &mut unquoted) {
                    kinds.narrow(rows.text(*span, &mut unquoted));
                }
            }
        }
        rows.clear();
        if !is_more {
            return (kinds, tokenizer.records());
        }
    }
}
