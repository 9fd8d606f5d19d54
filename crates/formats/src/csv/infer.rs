//! Infers column types from the starts of all files.

use super::borders::CsvBorders;
use super::header::read_header;
use super::kind::{Kinds, NullValues};
use super::late::late_kinds;
use super::rows::{Rows, is_null};
use super::tokenize::Tokenizer;
use super::{CsvOptions, Error};
use crate::records::{MAX_RECORD_BYTES, Unpacker, sample_bytes};
use arrow_schema::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use shardmill_storage::RangeRead;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Records that are split together.
const BATCH_ROWS: usize = 256;

#[derive(Debug, Default)]
struct Inference {
    names: Vec<String>,
    kinds: Vec<Kinds>,
    by_name: HashMap<String, usize>,
}

/// The columns of all files, in order of first appearance, with the types that pyarrow would infer
/// for the combined samples: int64, bool, date32, time32\[s\], timestamp\[s\], timestamp\[ns\],
/// both with UTC if the values have offsets, double, string; null if no value was seen. Columns are
/// matched by name, or by position in files without a header. Bad lines are left to the policy.
///
/// # Errors
/// When a file cannot be read, a header is damaged, or an option is not valid.
pub fn infer(
    objects: &[Arc<dyn RangeRead>],
    unpacker: &Unpacker,
    options: &CsvOptions,
) -> Result<Inferred, Error> {
    options.check()?;
    let nulls = NullValues::new(options);
    let sample_bytes = sample_bytes(objects.len());
    let mut inference = Inference::default();
    for object in objects {
        inference.add(object.as_ref(), unpacker, options, &nulls, sample_bytes)?;
    }
    let columns = inference.names.into_iter().zip(inference.kinds).collect();
    Ok(Inferred::of(Sample { columns, bytes: sample_bytes }))
}

/// The types inferred from the starts of all files, for openers of these files on other machines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    columns: Vec<(String, Kinds)>,
    /// The size of the sample of each file.
    pub(super) bytes: u64,
}

/// The columns of a file whose types differ from those of the sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LateColumns(pub(super) Vec<(String, Kinds)>);

fn schema(columns: &[(String, Kinds)]) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .iter()
            .map(|(name, kinds)| Field::new(name, kinds.data_type(), true))
            .collect::<Vec<_>>(),
    ))
}

/// Types of a sample, and those of the files whose later records change them. Opening a file adds
/// its types.
#[derive(Debug)]
pub struct Inferred {
    schema: SchemaRef,
    sample: Sample,
    by_name: HashMap<String, usize>,
    /// By path.
    late: Mutex<BTreeMap<String, LateColumns>>,
}

impl Inferred {
    #[must_use]
    pub fn of(sample: Sample) -> Self {
        let names = sample.columns.iter().enumerate();
        Self {
            schema: schema(&sample.columns),
            by_name: names.map(|(index, (name, _))| (name.clone(), index)).collect(),
            sample,
            late: Mutex::default(),
        }
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

    /// The schema of all files that were opened, if it is not that of the sample: integers became
    /// float64 because of a later fraction, or a column that was null has values. It does not
    /// depend on the order in which they were opened.
    #[must_use]
    pub fn late_schema(&self) -> Option<SchemaRef> {
        let mut columns = self.sample.columns.clone();
        let files = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, late) in files.values().flat_map(|file| &file.0) {
            let Some((sample, (_, kinds))) = self
                .kinds(name)
                .zip(self.by_name.get(name).and_then(|index| columns.get_mut(*index)))
            else {
                continue;
            };
            *kinds = late_kinds(sample, *kinds, |kinds| kinds.intersect(*late));
        }
        let schema = schema(&columns);
        (schema != self.schema).then_some(schema)
    }

    /// How a file that was opened changes the types of the sample.
    #[must_use]
    pub fn late(&self, path: &str) -> Option<LateColumns> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Adds the changes of a file that was opened elsewhere.
    pub fn add(&self, path: &str, late: LateColumns) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), late);
    }

    pub(super) fn kinds(&self, name: &str) -> Option<Kinds> {
        self.by_name
            .get(name)
            .and_then(|index| self.sample.columns.get(*index))
            .map(|(_, kinds)| *kinds)
    }
}

impl Inference {
    fn add(
        &mut self,
        object: &dyn RangeRead,
        unpacker: &Unpacker,
        options: &CsvOptions,
        nulls: &NullValues,
        sample_bytes: u64,
    ) -> Result<(), Error> {
        let mut len = sample_bytes;
        loop {
            let Some((header, start)) = read_header(object, unpacker, options, len)? else {
                return Ok(());
            };
            let data = usize::try_from(header.data_start - start.mark_len)
                .ok()
                .and_then(|from| start.bytes.get(from..))
                .unwrap_or_default();
            let (kinds, records) = sample(data, options, nulls, header.names.len(), start.is_whole);
            if records == 0 && !start.is_whole && len < MAX_RECORD_BYTES {
                unpacker.check_start(
                    object,
                    &mut CsvBorders::new(options, 0, 1),
                    1 + u64::from(options.header),
                )?;
                len = len.saturating_mul(2);
                continue;
            }
            if !options.header && !self.names.is_empty() && self.names.len() != header.names.len() {
                return Err(Error::ColumnCount {
                    path: object.path().to_owned(),
                    found: header.names.len(),
                    expected: self.names.len(),
                });
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

/// The types that are possible for the complete records in `bytes`, and the number of records.
fn sample(
    bytes: &[u8],
    options: &CsvOptions,
    nulls: &NullValues,
    width: usize,
    is_whole: bool,
) -> (Vec<Kinds>, u64) {
    let mut kinds = vec![Kinds::ALL; width];
    let mut tokenizer = Tokenizer::new(bytes, options, is_whole);
    let mut rows = Rows::new(bytes, width, options.quote);
    let mut unquoted = Vec::new();
    loop {
        let is_more =
            tokenizer
                .fill(&mut rows, BATCH_ROWS.min((1 << 20) / width.max(1)).max(1), &mut || true);
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
