//! A shard as blocks of rows.

use super::builders::Builder;
use super::head::Head;
use super::layout::{
    ArrayTypes, array_types, declared_field, for_each_value, is_array_of_unknown_shape,
};
use super::stored::{Stored, check_file_hashes};
use crate::limit::DecodeLimit;
use crate::mds::encoding::Encoding;
use crate::mds::{Columns, Compression, Error, ShardEntry};
use crate::table::{Block, TableError, TableFile, runs_of};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use shardmill_storage::{RangeRead, Remembered};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples of an uncompressed shard are read in runs of about this size: large enough for the disk,
/// small enough for mixing.
const BLOCK_BYTES: u64 = 2 << 20;
/// A compressed shard is decompressed as a whole; it has several blocks only
/// if it is larger than this.
const COMPRESSED_BLOCK_BYTES: u64 = 1 << 30;
/// If less than one of this many rows is selected, each is read separately.
const SPARSE: usize = 8;

/// Options for opening a shard.
#[derive(Debug, Clone, Default)]
pub struct MdsOptions {
    /// The index entry of the shard.
    pub entry: Option<Arc<ShardEntry>>,
    /// The array types of the first sample of the data set; if `None`, those of the shard itself.
    pub array_types: Option<Arc<ArrayTypes>>,
    /// Deliver pickles as bytes; otherwise their columns cannot be read.
    pub has_pickle_bytes: bool,
    /// Limit for a sample, or for a shard that has to be decompressed as a whole.
    pub limit: DecodeLimit,
}

/// An open shard: its head has been read, and checked against the index.
#[derive(Debug)]
pub struct MdsFile {
    stored: Stored,
    head: Head,
    entry: Option<Arc<ShardEntry>>,
    array_types: Arc<ArrayTypes>,
    has_pickle_bytes: bool,
    sizes: Vec<Option<usize>>,
    schema: SchemaRef,
    declared: SchemaRef,
    runs: Vec<Range<usize>>,
    blocks: Vec<Block>,
    /// Set once the hashes of the index have been verified.
    is_verified: AtomicBool,
    verifying: Remembered<()>,
    digest: u128,
}

impl MdsFile {
    /// # Errors
    /// For a file that is not a shard, and one that does not match its index entry: the error names
    /// the field.
    pub fn open(object: Arc<dyn RangeRead>, options: &MdsOptions) -> Result<Self, Error> {
        let (stored, head) = open_head(object, options.entry.as_deref(), options.limit)?;
        let array_types = match &options.array_types {
            Some(types) => Arc::clone(types),
            None => Arc::new(
                types_of_first(&stored, &head, options.entry.as_deref())?.unwrap_or_default(),
            ),
        };
        let fields: Vec<Field> =
            head.config.columns.iter().map(|column| declared_field(column, &array_types)).collect();
        let viewed = fields
            .iter()
            .map(|field| field.clone().with_data_type(as_view(field.data_type())))
            .collect::<Vec<_>>();
        let target =
            if stored.compression.is_some() { COMPRESSED_BLOCK_BYTES } else { BLOCK_BYTES };
        // A sample that is larger is a run of its own.
        let runs = runs_of(head.samples(), |run| span(&head.offsets, &run) <= target);
        let share = |bytes: u64| {
            if stored.compression.is_some() {
                scaled(bytes, stored.object.size(), head.size())
            } else {
                bytes
            }
        };
        let blocks = runs.iter().map(|run| {
            let bytes = span(&head.offsets, run);
            let rows = run.len() as u64;
            Block {
                rows,
                decoded_bytes: bytes
                    .saturating_add(rows.saturating_mul(16 * head.config.columns.len() as u64)),
                stored_bytes: share(bytes),
            }
        });
        let digest = digest(&head, options.entry.as_deref());
        Ok(Self {
            blocks: blocks.collect(),
            sizes: head.config.columns.iter().map(|column| column.encoding.size()).collect(),
            schema: Arc::new(Schema::new(viewed)),
            declared: Arc::new(Schema::new(fields)),
            entry: options.entry.clone(),
            has_pickle_bytes: options.has_pickle_bytes,
            is_verified: AtomicBool::new(false),
            verifying: Remembered::default(),
            array_types,
            digest,
            runs,
            stored,
            head,
        })
    }

    /// Types of the arrays whose encodings do not specify them, from the first sample; `None` for a
    /// shard without samples. If the shard is not compressed, only that sample is read.
    ///
    /// # Errors
    /// As [`MdsFile::open`].
    pub fn first_array_types(
        object: Arc<dyn RangeRead>,
        entry: Option<&ShardEntry>,
        limit: DecodeLimit,
    ) -> Result<Option<ArrayTypes>, Error> {
        let (stored, head) = open_head(object, entry, limit)?;
        types_of_first(&stored, &head, entry)
    }

    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.head.config.columns
    }

    #[must_use]
    pub fn num_samples(&self) -> u64 {
        self.head.samples() as u64
    }

    /// Reads the whole shard, verifies every hash of the index, and checks the structure
    /// of every sample.
    ///
    /// # Errors
    /// The first fault, with the shard and the sample or the hash.
    pub fn verify(&self) -> Result<(), Error> {
        let whole = self.read_whole()?;
        for number in 0..self.head.samples() {
            let sample = self.range(number).and_then(|range| whole.get(range));
            let walked = sample.ok_or_else(|| (None, "it extends past the end".to_owned()));
            let walked = walked
                .and_then(|sample| for_each_value(&self.sizes, sample, |_column, _value| Ok(())));
            walked.map_err(|fault| self.bad_sample(number, fault))?;
        }
        self.is_verified.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Byte range of a sample in the shard.
    fn range(&self, sample: usize) -> Option<Range<usize>> {
        let offset =
            |at: usize| self.head.offsets.get(at).and_then(|offset| usize::try_from(*offset).ok());
        Some(offset(sample)?..offset(sample + 1)?)
    }

    fn read_whole(&self) -> Result<Vec<u8>, Error> {
        let (raw, zip) = (
            self.entry.as_ref().map(|entry| &entry.raw_data),
            self.entry.as_ref().and_then(|entry| entry.zip_data.as_ref()),
        );
        self.stored.read_whole(&self.head, raw, zip)
    }

    /// The first caller verifies the hashes while the others wait: no row is delivered before.
    fn verify_once(&self) -> Result<(), Error> {
        let Some(entry) = self.entry.as_ref().filter(|_| !self.is_verified.load(Ordering::Acquire))
        else {
            return Ok(());
        };
        let _turn = self.verifying.lock();
        if !self.is_verified.load(Ordering::Acquire) {
            check_file_hashes(&*self.stored.object, &entry.raw_data)?;
            self.is_verified.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn bad_sample(&self, number: usize, (column, reason): (Option<usize>, String)) -> Error {
        let column = column
            .and_then(|column| self.columns().get(column))
            .map_or_else(|| "*".to_owned(), |column| column.name.clone());
        Error::Sample { path: self.stored.path().to_owned(), sample: number as u64, column, reason }
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let no_such = |index| Error::NoSuchPart { path: self.stored.path().to_owned(), index };
        let run = self.runs.get(block).cloned().ok_or_else(|| no_such(block))?;
        for column in columns {
            let column = self.columns().get(*column).ok_or_else(|| no_such(*column))?;
            if column.encoding == Encoding::Pickle && !self.has_pickle_bytes {
                return Err(Error::Pickle {
                    path: self.stored.path().to_owned(),
                    column: column.name.clone(),
                });
            }
        }
        let samples: Vec<usize> = match selection {
            None => run.collect(),
            Some(selection) => selection
                .set_indices()
                .map(|row| run.start + row)
                .filter(|sample| *sample < run.end)
                .collect(),
        };
        if columns.is_empty() || samples.is_empty() {
            return self.batch(columns, Vec::new(), samples.len());
        }
        let is_sparse = matches!(
            (samples.first(), samples.last()),
            (Some(first), Some(last)) if samples.len() * SPARSE <= last - first
        );
        if self.stored.compression.is_some() {
            let whole = self.read_whole()?;
            return self.decode(columns, &samples, |_place, number| {
                self.range(number).and_then(|range| whole.get(range))
            });
        }
        self.verify_once()?;
        let wide = |range: Range<usize>| range.start as u64..range.end as u64;
        if is_sparse {
            let ranges: Vec<Range<u64>> =
                samples.iter().filter_map(|number| self.range(*number)).map(wide).collect();
            let parts: Vec<Bytes> = self.stored.object.read_ranges(&ranges)?;
            return self
                .decode(columns, &samples, |place, _number| parts.get(place).map(AsRef::as_ref));
        }
        let bounds = samples
            .first()
            .and_then(|first| self.range(*first))
            .zip(samples.last().and_then(|last| self.range(*last)));
        let (start, end) = bounds.map_or((0, 0), |(first, last)| (first.start, last.end));
        let place = || format!("sample {}", samples.first().copied().unwrap_or_default());
        self.stored.limit.check(
            self.stored.path(),
            (end - start) as u64,
            "it and those that are read with it have",
            place,
        )?;
        let bytes = self.stored.read(start as u64, (end - start) as u64)?;
        self.decode(columns, &samples, |_place, number| {
            self.range(number).and_then(|range| bytes.get(range.start - start..range.end - start))
        })
    }

    /// Fills the builders of all columns in one pass over the samples.
    fn decode<'a>(
        &self,
        columns: &[usize],
        samples: &[usize],
        sample_at: impl Fn(usize, usize) -> Option<&'a [u8]>,
    ) -> Result<RecordBatch, Error> {
        let total = samples
            .iter()
            .filter_map(|number| self.range(*number))
            .map(|range| range.len())
            .sum::<usize>();
        let variable = self.sizes.iter().filter(|size| size.is_none()).count().max(1);
        let mut builders: Vec<Option<Builder>> = self.sizes.iter().map(|_size| None).collect();
        for column in columns {
            let Some((definition, place)) =
                self.columns().get(*column).zip(builders.get_mut(*column))
            else {
                continue;
            };
            // An estimate by share, so that a small column does not reserve memory for a large one.
            // An encoding may state any size; the values lie within the samples.
            let bytes = definition
                .encoding
                .size()
                .map_or(total / variable, |size| size.saturating_mul(samples.len()).min(total));
            *place = Some(Builder::new(
                &definition.encoding,
                self.array_types.get(&definition.name).copied(),
                samples.len(),
                bytes,
            ));
        }
        for (place, number) in samples.iter().enumerate() {
            let sample = sample_at(place, *number).ok_or_else(|| {
                self.bad_sample(*number, (None, "it extends past the end".to_owned()))
            })?;
            let push = |column: usize, value: &[u8]| match builders.get_mut(column) {
                Some(Some(builder)) => builder.push(value),
                _unwanted => Ok(()),
            };
            for_each_value(&self.sizes, sample, push)
                .map_err(|fault| self.bad_sample(*number, fault))?;
        }
        let mut arrays: Vec<Option<ArrayRef>> = Vec::with_capacity(builders.len());
        for (column, builder) in builders.into_iter().enumerate() {
            let Some(builder) = builder else {
                arrays.push(None);
                continue;
            };
            let array = builder.finish().map_err(|(row, source)| {
                match row.and_then(|row| samples.get(row)) {
                    Some(number) => {
                        self.bad_sample(*number, (Some(column), "it is not UTF-8".to_owned()))
                    }
                    None => self.unbuilt(source),
                }
            });
            arrays.push(Some(array?));
        }
        let arrays =
            columns.iter().filter_map(|column| arrays.get(*column).cloned().flatten()).collect();
        self.batch(columns, arrays, samples.len())
    }

    fn batch(
        &self,
        columns: &[usize],
        arrays: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch, Error> {
        let schema = Arc::new(self.schema.project(columns).map_err(|source| self.unbuilt(source))?);
        let arrays = if rows == 0 {
            schema
                .fields()
                .iter()
                .map(|field| arrow_array::new_empty_array(field.data_type()))
                .collect()
        } else {
            arrays
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|source| self.unbuilt(source))
    }

    fn unbuilt(&self, source: arrow_schema::ArrowError) -> Error {
        Error::Arrow { path: self.stored.path().to_owned(), source }
    }
}

/// Reads the head of a shard, and checks it against its entry.
fn open_head(
    object: Arc<dyn RangeRead>,
    entry: Option<&ShardEntry>,
    limit: DecodeLimit,
) -> Result<(Stored, Head), Error> {
    let path = object.path().to_owned();
    let is_zip = entry
        .and_then(|entry| entry.zip_data.as_ref())
        .is_some_and(|zip| path.ends_with(&zip.basename));
    let compression = match entry {
        Some(entry) if is_zip => entry.config.compression.clone(),
        _ => Compression::of_path(&path),
    };
    let stored = Stored { object, compression, limit };
    let differs = |field, expected: String, found: String| {
        Err(Error::IndexMismatch { path: path.clone(), field, expected, found })
    };
    let size = stored.object.size();
    if let Some(entry) = entry {
        let file = if is_zip { entry.file() } else { &entry.raw_data };
        if file.bytes != size {
            return differs("bytes", file.bytes.to_string(), size.to_string());
        }
    }
    let head = stored.read_head()?;
    if let Some(entry) = entry {
        if entry.samples != head.samples() as u64 {
            return differs("samples", entry.samples.to_string(), head.samples().to_string());
        }
        if entry.raw_data.bytes != head.size() {
            return differs(
                "raw_data.bytes",
                entry.raw_data.bytes.to_string(),
                head.size().to_string(),
            );
        }
        if let Some((field, expected, found)) = entry.config.difference(&head.config) {
            return differs(field, expected, found);
        }
    }
    Ok((stored, head))
}

fn types_of_first(
    stored: &Stored,
    head: &Head,
    entry: Option<&ShardEntry>,
) -> Result<Option<ArrayTypes>, Error> {
    let (Some(start), Some(end)) = (head.offsets.first(), head.offsets.get(1)) else {
        return Ok(None);
    };
    let columns = &head.config.columns;
    if !columns.iter().any(is_array_of_unknown_shape) {
        return Ok(Some(ArrayTypes::new()));
    }
    let sample = if stored.compression.is_none() {
        stored.read(u64::from(*start), u64::from(end.saturating_sub(*start)))?
    } else {
        let whole = stored.read_whole(
            head,
            entry.map(|entry| &entry.raw_data),
            entry.and_then(|entry| entry.zip_data.as_ref()),
        )?;
        let range = usize::try_from(*start).unwrap_or(usize::MAX)
            ..usize::try_from(*end).unwrap_or(usize::MAX);
        whole.get(range).unwrap_or_default().to_vec()
    };
    array_types(columns, &sample).map(Some).map_err(|(column, reason)| {
        let column = column
            .and_then(|column| columns.get(column))
            .map_or_else(|| "*".to_owned(), |column| column.name.clone());
        Error::Sample { path: stored.path().to_owned(), sample: 0, column, reason }
    })
}

fn span(offsets: &[u32], run: &Range<usize>) -> u64 {
    let at = |sample: usize| offsets.get(sample).map_or(0, |offset| u64::from(*offset));
    at(run.end).saturating_sub(at(run.start))
}

fn scaled(part: u64, whole: u64, of: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(whole) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

/// Digest of the head, and of the hashes in the index.
fn digest(head: &Head, entry: Option<&ShardEntry>) -> u128 {
    let mut state = xxhash_rust::xxh3::Xxh3::new();
    state.update(&head.digest.to_le_bytes());
    for (name, digest) in entry.iter().flat_map(|entry| &entry.raw_data.hashes) {
        state.update(name.as_bytes());
        state.update(digest.as_bytes());
    }
    state.digest128()
}

fn as_view(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        other => other.clone(),
    }
}

impl TableFile for MdsFile {
    fn path(&self) -> &str {
        self.stored.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        &self.declared
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let (Some(block), Some(run)) = (self.blocks.get(block), self.runs.get(block)) else {
            return 0;
        };
        let size =
            |column: usize| self.sizes.get(column).copied().flatten().map(|size| size as u64);
        let fixed_of = |columns: &mut dyn Iterator<Item = usize>| {
            columns.filter_map(size).sum::<u64>().saturating_mul(block.rows)
        };
        let wanted = fixed_of(&mut columns.iter().copied());
        if columns.iter().all(|column| size(*column).is_some()) {
            return wanted;
        }
        // The distribution of the bytes over columns of variable size is not known.
        let all = fixed_of(&mut (0..self.sizes.len()));
        let views = block.rows.saturating_mul(16 * columns.len() as u64);
        span(&self.head.offsets, run)
            .saturating_sub(all)
            .saturating_add(wanted)
            .saturating_add(views)
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}
