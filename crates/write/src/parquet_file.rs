//! One Parquet file: rows are collected to row groups of bounded size, which threads may encode.
//!
//! The invariant: the bytes of a file depend on its rows and options alone, not on batches, nor on
//! the timing of threads.

use crate::follower::{Follower, Outcome};
use crate::weight::{rows_within, weight};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use shardmill_formats::parquet::{
    EncodedRowGroup, ParquetCompression, ParquetWriter, ParquetWriterOptions, RowGroupEncoders,
    RowGroupFile,
};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Size in memory of the values of a row group. A reader decodes it as a whole: small enough that
/// threads share a file of some megabytes, and that a window mixes many of them.
const ROW_GROUP_BYTES: u64 = 8 << 20;
/// The same where the number of rows is given.
const MAX_ROW_GROUP_BYTES: u64 = 64 << 20;
/// Bytes that waiting rows hold at most for each of theirs.
const MAX_HELD: u64 = 4;
/// Batches that wait at most; a batch of few rows needs more memory than its rows.
const MAX_PARTS: usize = 1024;

#[derive(Debug, Clone, Default)]
pub struct ParquetFileOptions {
    pub compression: ParquetCompression,
    /// A column of images, which are compressed already, and its codec.
    pub payload: Option<(String, ParquetCompression)>,
    /// Rows of a row group; if `None`, as many as have about 8 MiB.
    pub row_group_size: Option<usize>,
    pub omits_checksums: bool,
    /// Whether no value occurs twice, so that dictionaries are useless.
    pub is_unique: bool,
    /// Threads for encoding, in addition to the caller.
    pub threads: usize,
}

/// What a complete file becomes, given its path and the number of its rows.
pub type Ending<W, R> = fn(W, &str, u64) -> Result<R>;

/// An unfinished file on `W`, which becomes `R`.
pub struct ParquetFile<W: Write + Send + 'static, R: Send + 'static> {
    path: String,
    schema: SchemaRef,
    options: ParquetFileOptions,
    ending: Ending<W, R>,
    /// Of the current row group.
    group: Vec<RecordBatch>,
    group_rows: usize,
    group_bytes: u64,
    rows: u64,
    state: State<W, R>,
}

enum State<W: Write + Send + 'static, R> {
    /// The first row group decides which columns have dictionaries.
    New(W),
    Open(RowGroupEncoders, Sink<W, R>),
    Failed,
}

/// Where row groups are written to the file.
enum Sink<W: Write + Send + 'static, R> {
    Thread(Follower<Part, R>),
    Caller(Box<RowGroupFile<W>>),
}

enum Part {
    RowGroup(Outcome<EncodedRowGroup>),
    /// The number of rows, which is only known at the end.
    Rows(u64),
}

/// A file that is complete, or that a thread completes.
pub(crate) enum Ended<R> {
    Now(R),
    Later(Outcome<R>),
}

impl<W: Write + Send + 'static, R: Send + 'static> ParquetFile<W, R> {
    #[must_use]
    pub fn new(
        path: &str,
        sink: W,
        schema: SchemaRef,
        options: ParquetFileOptions,
        ending: Ending<W, R>,
    ) -> Self {
        let (path, state) = (path.to_owned(), State::New(sink));
        Self {
            path,
            schema,
            options,
            ending,
            group: Vec::new(),
            group_rows: 0,
            group_bytes: 0,
            rows: 0,
            state,
        }
    }

    /// Adds rows with the schema of the file.
    ///
    /// # Errors
    /// When the rows cannot be encoded or written.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.write_units(rows, |row| row)
    }

    /// Adds rows of which some belong together: `unit_end(row)` is the end of the unit that `row`
    /// ends or is part of. Row groups end between units.
    ///
    /// # Errors
    /// As [`ParquetFile::write`].
    pub fn write_units(
        &mut self,
        rows: &RecordBatch,
        unit_end: impl Fn(usize) -> usize,
    ) -> Result<()> {
        self.compact()?;
        let mut start = 0;
        while start < rows.num_rows() {
            let end = unit_end(start + self.fitting(rows, start)).min(rows.num_rows());
            let part = rows.slice(start, end.saturating_sub(start).max(1));
            start += part.num_rows();
            self.rows += part.num_rows() as u64;
            self.group_rows += part.num_rows();
            self.group_bytes += weight(&part);
            self.group.push(part);
            if self.is_full() {
                self.end_row_group()?;
            }
        }
        Ok(())
    }

    /// Rows that wait for others hold the buffers of their batches,
    /// of which they may be a small part.
    fn compact(&mut self) -> Result<()> {
        let Some(last) = self.group.last_mut() else { return Ok(()) };
        if last.get_array_memory_size() as u64 > MAX_HELD * weight(last) {
            *last = copied(last)?;
        }
        if self.group.len() >= MAX_PARTS {
            self.group = vec![joined(&self.group)?];
        }
        Ok(())
    }

    fn bytes_limit(&self) -> u64 {
        if self.options.row_group_size.is_some() { MAX_ROW_GROUP_BYTES } else { ROW_GROUP_BYTES }
    }

    fn is_full(&self) -> bool {
        self.group_bytes >= self.bytes_limit()
            || self.options.row_group_size.is_some_and(|size| self.group_rows >= size)
    }

    /// The number of rows from `start` on that fill the row group; all others if they do not.
    fn fitting(&self, rows: &RecordBatch, start: usize) -> usize {
        let by_bytes = rows_within(rows, start, self.bytes_limit() - self.group_bytes);
        let by_rows = self
            .options
            .row_group_size
            .map_or(usize::MAX, |size| size.saturating_sub(self.group_rows));
        by_bytes.min(by_rows).max(1)
    }

    /// Ends the current row group, if it has rows.
    ///
    /// # Errors
    /// As [`ParquetFile::write`].
    pub fn end_row_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        (self.group_rows, self.group_bytes) = (0, 0);
        if group.is_empty() {
            return Ok(());
        }
        let (encoders, sink) = self.opened(&group)?;
        let mut encoder = encoders.next_row_group()?;
        let encode = move || {
            for piece in pieces(group) {
                encoder.write(&piece?)?;
            }
            Ok(encoder.finish()?)
        };
        match sink {
            Sink::Caller(file) => Ok(file.append(encode()?)?),
            Sink::Thread(file) => file.send(Part::RowGroup(Outcome::of(encode)?)),
        }
    }

    /// Creates the file when its first row group is known.
    fn opened(
        &mut self,
        first: &[RecordBatch],
    ) -> Result<(&mut RowGroupEncoders, &mut Sink<W, R>)> {
        if let State::New(_) = &self.state
            && let State::New(sink) = std::mem::replace(&mut self.state, State::Failed)
        {
            let options = ParquetWriterOptions {
                compression: self.options.compression,
                payload: self.options.payload.clone(),
                plain: self.plain_columns(first)?,
                omits_checksums: self.options.omits_checksums,
            };
            let (file, encoders) =
                ParquetWriter::new(&self.path, sink, Arc::clone(&self.schema), &options)?
                    .in_pieces();
            self.state = State::Open(encoders, self.sink(file)?);
        }
        match &mut self.state {
            State::Open(encoders, sink) => Ok((encoders, sink)),
            State::New(_) | State::Failed => Err(Error::Closed { path: self.path.clone() }),
        }
    }

    fn sink(&self, file: RowGroupFile<W>) -> Result<Sink<W, R>> {
        if self.options.threads <= 1 {
            return Ok(Sink::Caller(Box::new(file)));
        }
        let (path, ending) = (self.path.clone(), self.ending);
        Ok(Sink::Thread(Follower::start(self.options.threads, move |parts| {
            let (mut file, mut rows) = (file, 0);
            while let Some(part) = parts.next()? {
                match part {
                    Part::RowGroup(mut group) => file.append(group.take()?)?,
                    Part::Rows(count) => rows = count,
                }
            }
            ending(file.finish()?, &path, rows)
        })?))
    }

    fn plain_columns(&self, first: &[RecordBatch]) -> Result<Vec<String>> {
        let is_payload =
            |name: &str| self.options.payload.as_ref().is_some_and(|(payload, _)| payload == name);
        let mut plain = Vec::new();
        for (number, field) in
            self.schema.fields().iter().enumerate().filter(|(_, field)| !is_payload(field.name()))
        {
            if self.options.is_unique || hardly_repeats(first, number) {
                plain.push(field.name().clone());
            }
        }
        Ok(plain)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`ParquetFile::write`].
    pub fn finish(self) -> Result<R> {
        match self.end()? {
            Ended::Now(file) => Ok(file),
            Ended::Later(mut file) => file.take(),
        }
    }

    pub(crate) fn end(mut self) -> Result<Ended<R>> {
        self.end_row_group()?;
        self.opened(&[])?;
        match self.state {
            State::Open(_, Sink::Caller(file)) => {
                Ok(Ended::Now((self.ending)(file.finish()?, &self.path, self.rows)?))
            }
            State::Open(_, Sink::Thread(mut file)) => {
                file.send(Part::Rows(self.rows))?;
                Ok(Ended::Later(file.end()))
            }
            State::New(_) | State::Failed => Err(Error::Closed { path: self.path }),
        }
    }
}

/// The encoder checks the sizes of pages each time it has this number of rows.
const STEP_ROWS: usize = 1024;
/// It ends a page after 20,000 rows, which is after 20 steps if a piece has one of these numbers of
/// steps.
const STEPS: [usize; 6] = [20, 10, 5, 4, 2, 1];
/// Bytes of the rows that are copied together, into memory that is reused and stays in the cache.
const PIECE_BYTES: u64 = 256 << 10;

/// The rows of a row group in pieces that do not depend on the batches: pages end where a call of
/// the encoder does.
fn pieces(group: Vec<RecordBatch>) -> impl Iterator<Item = Result<RecordBatch>> {
    let rows: usize = group.iter().map(RecordBatch::num_rows).sum();
    let bytes: u64 = group.iter().map(weight).sum();
    let fitting = PIECE_BYTES.saturating_mul(rows as u64) / (bytes.max(1) * STEP_ROWS as u64);
    let steps = STEPS.into_iter().find(|steps| *steps as u64 <= fitting).unwrap_or(1);
    let piece = steps * STEP_ROWS;
    let mut batches = VecDeque::from(group);
    std::iter::from_fn(move || {
        let (mut parts, mut wanted) = (Vec::new(), piece);
        while wanted > 0
            && let Some(first) = batches.front_mut()
        {
            let part = first.slice(0, wanted.min(first.num_rows()));
            wanted -= part.num_rows();
            if part.num_rows() == first.num_rows() {
                batches.pop_front();
            } else {
                *first = first.slice(part.num_rows(), first.num_rows() - part.num_rows());
            }
            parts.push(part);
        }
        (!parts.is_empty()).then(|| joined(&parts))
    })
}

/// One batch of all rows.
fn joined(batches: &[RecordBatch]) -> Result<RecordBatch> {
    match batches {
        [only] => Ok(only.clone()),
        several => {
            let schema =
                several.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
            concat_batches(&schema, several).map_err(|source| Error::Columns { source })
        }
    }
}

/// The same rows in buffers of their own.
fn copied(rows: &RecordBatch) -> Result<RecordBatch> {
    let all = UInt64Array::from_iter_values(0..rows.num_rows() as u64);
    let copied = take_record_batch(rows, &all).map_err(|source| Error::Columns { source })?;
    let compact = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    };
    let columns = copied.columns().iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options)
        .map_err(|source| Error::Columns { source })
}

/// Rows that show whether values repeat.
const SAMPLED_ROWS: usize = 8 << 10;

/// Whether nearly all of the first values of a column are distinct.
fn hardly_repeats(group: &[RecordBatch], column: usize) -> bool {
    const MIN_ROWS: usize = 64;
    let mut rest = SAMPLED_ROWS;
    let mut hashes = Vec::new();
    for values in group.iter().filter_map(|rows| rows.columns().get(column)) {
        let part = values.slice(0, values.len().min(rest));
        rest -= part.len();
        push_hashes(&part, &mut hashes);
    }
    let valid = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    valid >= MIN_ROWS && hashes.len() * 20 > valid * 19
}

/// Adds the hash of each value that is not null; none for types that have no dictionaries.
fn push_hashes(values: &ArrayRef, hashes: &mut Vec<u64>) {
    fn push<T: AsRef<[u8]>>(hashes: &mut Vec<u64>, values: impl Iterator<Item = Option<T>>) {
        hashes.extend(values.flatten().map(|value| xxh3_64(value.as_ref())));
    }
    match values.data_type() {
        DataType::Utf8 => push(hashes, values.as_string::<i32>().iter()),
        DataType::LargeUtf8 => push(hashes, values.as_string::<i64>().iter()),
        DataType::Utf8View => push(hashes, values.as_string_view().iter()),
        DataType::Binary => push(hashes, values.as_binary::<i32>().iter()),
        DataType::LargeBinary => push(hashes, values.as_binary::<i64>().iter()),
        DataType::BinaryView => push(hashes, values.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => push(hashes, values.as_fixed_size_binary().iter()),
        other => {
            let Some(width) = other.primitive_width() else { return };
            let data = values.to_data();
            let bytes = data
                .buffers()
                .first()
                .and_then(|buffer| buffer.as_slice().get(data.offset() * width..))
                .unwrap_or_default();
            let rows = bytes.chunks_exact(width).take(data.len()).enumerate();
            push(hashes, rows.map(|(row, value)| values.is_valid(row).then_some(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::Field;
    use proptest::prelude::*;

    fn rows(count: usize, text_len: usize) -> RecordBatch {
        let texts = (0..count)
            .map(|row| (row % 7 > 0).then(|| format!("{row}").repeat(row % (text_len + 1))));
        let fields = vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8, true),
        ];
        let numbers =
            Int64Array::from_iter((0..count as i64).map(|row| (row % 5 > 0).then_some(row)));
        RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            vec![Arc::new(numbers), Arc::new(StringArray::from_iter(texts))],
        )
        .unwrap()
    }

    fn written(rows: &RecordBatch, cuts: &[usize], options: &ParquetFileOptions) -> Vec<u8> {
        let mut file = ParquetFile::new(
            "a.parquet",
            Vec::new(),
            rows.schema(),
            options.clone(),
            |file, _, _| Ok(file),
        );
        let mut start = 0;
        for end in
            cuts.iter().copied().chain([rows.num_rows()]).filter(|end| *end <= rows.num_rows())
        {
            file.write(&rows.slice(start, end.saturating_sub(start))).unwrap();
            start = start.max(end);
        }
        file.finish().unwrap()
    }

    #[test]
    fn waiting_rows_do_not_hold_the_batches_that_they_were_cut_from() {
        let options = ParquetFileOptions::default();
        let schema = rows(1, 1).schema();
        let mut file =
            ParquetFile::new("a.parquet", Vec::new(), schema, options, |file, _, _| Ok(file));
        for _ in 0..3000 {
            file.write(&rows(1000, 20).slice(500, 1)).unwrap();
        }
        let held: usize = file.group.iter().map(RecordBatch::get_array_memory_size).sum();
        assert!(
            file.group.len() < MAX_PARTS && held < 2 << 20,
            "{held} bytes in {} batches",
            file.group.len()
        );
        assert_eq!(file.group.iter().map(RecordBatch::num_rows).sum::<usize>(), 3000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn bytes_do_not_depend_on_batches_or_threads(
            cuts in proptest::collection::btree_set(0usize..40_000, 0..8),
            size in proptest::option::of(1_000usize..50_000),
            threads in 1usize..3,
        ) {
            let (rows, cuts) = (rows(40_000, 200), cuts.into_iter().collect::<Vec<_>>());
            let options = ParquetFileOptions {
                row_group_size: size,
                threads,
                ..ParquetFileOptions::default()
            };
            let whole = ParquetFileOptions { threads: 1, ..options.clone() };
            prop_assert!(written(&rows, &cuts, &options) == written(&rows, &[], &whole));
        }
    }
}
