//! An archive as blocks of samples.

use super::Error;
use super::columns::{Arrays, Cell, schema};
use super::content::Content;
use super::index::{self, Index, Part};
use super::payload::Reading;
use super::stream;
use crate::limit::DecodeLimit;
use crate::table::{Block, TableError, TableFile, runs_of};
use crate::tar::{Compression, sniff_compression};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

/// Maximal stored size of a block of an uncompressed archive, unless a single sample is larger.
const BLOCK_BYTES: u64 = 4 << 20;

/// Arrow views have lengths of 31 bits.
const MAX_VALUE_BYTES: u64 = (1 << 31) - 1;

const MAGIC_LEN: u64 = 16;

/// A walked archive.
#[derive(Debug, Clone)]
pub struct WebDatasetFile {
    object: Arc<dyn RangeRead>,
    compression: Compression,
    limit: DecodeLimit,
    refuses_nan: bool,
    /// The most bytes to read of a binary member.
    head: Option<u64>,
    index: Arc<Index>,
    schema: SchemaRef,
    declared: SchemaRef,
    blocks: Vec<Block>,
    /// Samples of each block.
    samples: Vec<Range<usize>>,
}

impl WebDatasetFile {
    /// Reads the headers of `object`, or all of it if it is compressed. With `ignores_zeros`,
    /// concatenated archives are read to their last member.
    ///
    /// # Errors
    /// When the archive is damaged or ends early, is compressed by something other than gzip
    /// or zstd, two members of a sample have the same extension, or the members of a sample
    /// are not adjacent.
    pub fn open(
        object: Arc<dyn RangeRead>,
        ignores_zeros: bool,
        limit: DecodeLimit,
    ) -> Result<Self, Error> {
        Self::open_with_blocks(object, ignores_zeros, BLOCK_BYTES, limit)
    }

    pub(super) fn open_with_blocks(
        object: Arc<dyn RangeRead>,
        ignores_zeros: bool,
        block_bytes: u64,
        limit: DecodeLimit,
    ) -> Result<Self, Error> {
        let start = 0..MAGIC_LEN.min(object.size());
        let magic = object.read_ranges(std::slice::from_ref(&start))?.pop().unwrap_or_default();
        let compression = sniff_compression(&magic);
        let index = match compression {
            Compression::None => index::index(object.as_ref(), ignores_zeros, limit)?,
            Compression::Gzip | Compression::Zstd => {
                stream::index(object.as_ref(), compression, ignores_zeros, limit)?
            }
            _ => return Err(Error::Compression { path: object.path().to_owned(), compression }),
        };
        let mut counts = vec![0_usize; index.extensions.len()];
        for part in (0..index.len()).flat_map(|sample| index.parts_of(sample)) {
            if let Some(count) = counts.get_mut(part.extension) {
                *count += 1;
            }
        }
        let is_everywhere: Vec<bool> = counts.iter().map(|count| *count == index.len()).collect();
        let samples = match compression {
            Compression::None => {
                let linked = index.linked_before();
                runs_of(index.len(), |samples| weight(&index, &linked, &samples) <= block_bytes)
            }
            _ => std::iter::once(0..index.len()).filter(|all| !all.is_empty()).collect(),
        };
        let mut file = Self {
            schema: schema(&index.extensions, &is_everywhere, true),
            declared: schema(&index.extensions, &is_everywhere, false),
            object,
            compression,
            limit,
            refuses_nan: false,
            head: None,
            index: Arc::new(index),
            blocks: Vec::new(),
            samples,
        };
        let all: Vec<usize> = (0..file.schema.fields().len()).collect();
        file.blocks =
            file.samples.iter().map(|samples| file.block(samples.clone(), &all)).collect();
        Ok(file)
    }

    /// Whether JSON with `NaN` or an infinity is an error where it is read.
    #[must_use]
    pub fn refusing_nan(self, refuses_nan: bool) -> Self {
        Self { refuses_nan, ..self }
    }

    fn block(&self, samples: Range<usize>, all: &[usize]) -> Block {
        let stored_bytes = if self.compression == Compression::None {
            self.index.span(&samples)
        } else {
            self.object.size()
        };
        Block {
            rows: samples.len() as u64,
            decoded_bytes: self.decoded(samples, all),
            stored_bytes,
        }
    }

    fn decoded(&self, samples: Range<usize>, columns: &[usize]) -> u64 {
        let mut is_wanted = vec![false; self.schema.fields().len()];
        for column in columns {
            if let Some(wanted) = is_wanted.get_mut(*column) {
                *wanted = true;
            }
        }
        let has = |column: usize| is_wanted.get(column).copied().unwrap_or_default();
        let views = (samples.len() as u64).saturating_mul(columns.len() as u64).saturating_mul(16);
        let keys = if has(0) {
            samples.clone().map(|sample| self.index.key_range(sample).len() as u64).sum()
        } else {
            0_u64
        };
        let parts = samples
            .flat_map(|sample| self.index.parts_of(sample))
            .filter(|part| has(part.extension + 1));
        parts.map(|part| part.size).fold(views.saturating_add(keys), u64::saturating_add)
    }

    /// The number of bytes to read of a member.
    fn read_of(&self, part: &Part) -> u64 {
        let is_bytes = |extension: &String| Content::of(extension) == Content::Bytes;
        let head =
            self.head.filter(|_| self.index.extensions.get(part.extension).is_some_and(is_bytes));
        head.map_or(part.size, |head| head.min(part.size))
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let no_such =
            |index: usize| Error::NoSuchPart { path: self.object.path().to_owned(), index };
        let block = self.samples.get(block).cloned().ok_or_else(|| no_such(block))?;
        if let Some(column) = columns.iter().find(|column| **column >= self.schema.fields().len()) {
            return Err(no_such(*column));
        }
        let samples: Vec<usize> = match selection {
            None => block.clone().collect(),
            Some(selection) => selection
                .set_indices()
                .map(|row| block.start + row)
                .filter(|sample| block.contains(sample))
                .collect(),
        };
        // A column that is requested twice is read once.
        let mut distinct = columns.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let mut cells: Vec<Vec<Cell>> =
            distinct.iter().map(|_| vec![None; samples.len()]).collect();
        let mut reading = Reading::new(self.object.gap_bytes());
        let mut wanted_bytes = 0_u64;
        for (row, sample) in samples.iter().enumerate() {
            for (number, part) in self.index.parts_of(*sample).iter().enumerate() {
                let Ok(place) = distinct.binary_search(&(part.extension + 1)) else { continue };
                if let Some((offset, fault)) = self.index.fault(*sample, number) {
                    let (path, member) =
                        (self.object.path().to_owned(), self.index.name(*sample, part));
                    return Err(Error::Link { path, member, offset, fault: fault.clone() });
                }
                let member =
                    || format!("member `{}`, byte {}", self.index.name(*sample, part), part.offset);
                self.limit.check(self.object.path(), part.size, "a member has", member)?;
                if part.size > MAX_VALUE_BYTES {
                    let (path, member) =
                        (self.object.path().to_owned(), self.index.name(*sample, part));
                    return Err(Error::TooLong {
                        path,
                        member,
                        offset: part.offset,
                        size: part.size,
                    });
                }
                let size = self.read_of(part);
                wanted_bytes = wanted_bytes.saturating_add(size);
                if let Some(cell) = cells.get_mut(place).and_then(|cells| cells.get_mut(row)) {
                    *cell = Some((*sample, *part, reading.add(part.offset, size)));
                }
            }
        }
        // All samples of a compressed archive are one block.
        if wanted_bytes > self.limit.of_stored(self.object.size()) {
            // Several links may point to the same bytes, which are read once.
            let wanted_bytes = reading.distinct_bytes();
            self.limit.check(
                self.object.path(),
                wanted_bytes,
                "the members that are read together have",
                || "all samples".to_owned(),
            )?;
        }
        let payload = reading.read(self.object.as_ref(), self.compression)?;
        let arrays = Arrays {
            path: self.object.path(),
            index: &self.index,
            payload: &payload,
            refuses_nan: self.refuses_nan,
        };
        let made = distinct.iter().zip(&cells).map(|(column, cells)| {
            match column.checked_sub(1).and_then(|number| self.index.extensions.get(number)) {
                Some(extension) => arrays.values(Content::of(extension), cells),
                None => arrays.keys(block.clone(), &samples),
            }
        });
        let made = made.collect::<Result<Vec<ArrayRef>, Error>>()?;
        let place = |column: &usize| {
            distinct.binary_search(column).ok().and_then(|place| made.get(place)).map(Arc::clone)
        };
        let schema = Arc::new(self.schema.project(columns).map_err(|source| arrays.arrow(source))?);
        let options = RecordBatchOptions::new().with_row_count(Some(samples.len()));
        RecordBatch::try_new_with_options(
            schema,
            columns.iter().filter_map(place).collect(),
            &options,
        )
        .map_err(|source| arrays.arrow(source))
    }
}

/// Bytes of the archive that some samples take, with the headers between them, and the bytes that
/// their links point to.
fn weight(index: &Index, linked: &[u64], samples: &Range<usize>) -> u64 {
    let before = |sample: usize| linked.get(sample).copied().unwrap_or_default();
    index.span(samples).saturating_add(before(samples.end).saturating_sub(before(samples.start)))
}

impl TableFile for WebDatasetFile {
    fn path(&self) -> &str {
        self.object.path()
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

    fn heads(&self, bytes: u64) -> Option<Arc<dyn TableFile>> {
        // A compressed archive is always read as a whole.
        (self.compression == Compression::None)
            .then(|| Arc::new(Self { head: Some(bytes), ..self.clone() }) as Arc<dyn TableFile>)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.samples.get(block).map_or(0, |samples| self.decoded(samples.clone(), columns))
    }

    fn digest(&self) -> u128 {
        self.index.digest
    }
}
