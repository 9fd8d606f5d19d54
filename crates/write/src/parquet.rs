//! Writes Parquet files: rows are collected to row groups of bounded size, threads encode them, and each file is written in order.
//!
//! The invariant: the ends of row groups and files depend only on the rows, not on the result or the timing of compression.

use crate::columns::{select, weight, with_schema};
use crate::file_set::FileSet;
use crate::follower::{Follower, Outcome};
use crate::pending_files::PendingFiles;
use crate::staged::{Finished, StagedFile};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::parquet::{
    EncodedRowGroup, ParquetCompression, ParquetWriter, ParquetWriterOptions, RowGroupEncoder, RowGroupEncoders, RowGroupFile,
};
use std::io::BufWriter;
use std::sync::Arc;

const BUFFER_BYTES: usize = 1 << 20;
/// Approximate size in memory. A reader decodes a row group as a whole: small enough that threads share a file of some megabytes, and that a window
/// mixes many of them.
const ROW_GROUP_BYTES: u64 = 8 << 20;
/// Maximal number of batches of a row group that wait for its encoder.
const WAITING_BATCHES: usize = 16;

pub(crate) struct ParquetFiles {
    compression: ParquetCompression,
    omits_checksums: bool,
    schema: Option<SchemaRef>,
    /// Schema of the rows, in order; `None` until the first rows.
    open: Option<OpenFile>,
}

struct OpenFile {
    path: String,
    encoders: RowGroupEncoders,
    group: Option<Group>,
    sink: Sink,
    rows: u64,
    /// Size in memory of the rows of this file, and of the current row group.
    bytes: u64,
    group_bytes: u64,
}

/// Where a row group is encoded: on a thread, or in the caller.
enum Group {
    Thread(Follower<RecordBatch, EncodedRowGroup>),
    Caller(RowGroupEncoder),
}

type File = RowGroupFile<BufWriter<StagedFile>>;

/// Where the file is written.
enum Sink {
    Thread(Follower<Part, Finished>),
    Caller(Box<File>),
}

enum Part {
    RowGroup(Outcome<EncodedRowGroup>),
    /// The number of rows, which is only known at the end.
    Rows(u64),
}

impl ParquetFiles {
    pub(crate) fn new(compression: ParquetCompression, omits_checksums: bool, schema: Option<SchemaRef>) -> Self {
        Self { compression, omits_checksums, schema, open: None }
    }

    fn open(&mut self, of_rows: Option<SchemaRef>, pending: &mut PendingFiles) -> Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let path = pending.next_path();
                let known = self.schema.take().or(of_rows).ok_or_else(|| Error::NoSchema { path: path.clone() })?;
                self.schema = Some(Arc::clone(&known));
                OpenFile::create(path, known, self.compression, self.omits_checksums, pending.threads)?
            }
        };
        Ok(self.open.insert(open))
    }

    fn end_file(&mut self, pending: &mut PendingFiles) -> Result<()> {
        match self.open.take() {
            Some(open) => open.finish(pending),
            None => Ok(()),
        }
    }

    /// Reorders columns, whose order may differ.
    fn in_order(&self, rows: &RecordBatch, path: &str) -> Result<RecordBatch> {
        let Some(schema) = &self.schema else { return Ok(rows.clone()) };
        let ordered = if schema.fields().len() == rows.num_columns() {
            let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
            select(rows, &names)?
        } else {
            rows.clone()
        };
        // Other metadata does no harm; other types and nullability would.
        with_schema(schema, &ordered, path)
    }
}

impl FileSet for ParquetFiles {
    fn write(&mut self, rows: &RecordBatch, _first_row: u64, pending: &mut PendingFiles) -> Result<()> {
        let rows = self.in_order(rows, pending.path())?;
        let size_limit = pending.size_limit();
        let (count, bytes) = (rows.num_rows() as u64, weight(&rows).max(1));
        let mut start = 0;
        loop {
            let open = self.open(Some(rows.schema()), pending)?;
            // As many rows as fill the file, at most those that fit into the row group.
            let room = size_limit.saturating_sub(open.bytes).min(ROW_GROUP_BYTES.saturating_sub(open.group_bytes));
            let fitting = (u128::from(count) * u128::from(room)).div_ceil(u128::from(bytes)).max(1);
            let len = u64::try_from(fitting).unwrap_or(u64::MAX).min(count - start);
            let part = rows.slice(usize::try_from(start).unwrap_or_default(), usize::try_from(len).unwrap_or_default());
            let part_bytes = u64::try_from(u128::from(bytes) * u128::from(len) / u128::from(count.max(1))).unwrap_or(u64::MAX);
            open.write(part, part_bytes, pending.threads)?;
            if open.bytes >= size_limit {
                self.end_file(pending)?;
            }
            start += len;
            if start >= count {
                return Ok(());
            }
        }
    }

    fn end(&mut self, pending: &mut PendingFiles) -> Result<()> {
        if pending.made() == 0 {
            self.open(None, pending)?;
        }
        self.end_file(pending)
    }

    fn forget(&mut self) {
        std::mem::forget(self.open.take());
    }
}

impl OpenFile {
    fn create(path: String, schema: SchemaRef, compression: ParquetCompression, omits_checksums: bool, threads: usize) -> Result<Self> {
        let staged = BufWriter::with_capacity(BUFFER_BYTES, StagedFile::create(&path)?);
        let options = ParquetWriterOptions { compression, omits_checksums, ..ParquetWriterOptions::default() };
        let (file, encoders) = ParquetWriter::new(&path, staged, schema, &options)?.in_pieces()?;
        let sink = if threads > 1 {
            let path = path.clone();
            Sink::Thread(Follower::start(threads, move |parts| {
                let (mut file, mut rows) = (file, 0);
                while let Some(part) = parts.next()? {
                    match part {
                        Part::RowGroup(mut group) => file.append(group.take()?)?,
                        Part::Rows(count) => rows = count,
                    }
                }
                Finished::of(file.finish()?, &path, rows)
            })?)
        } else {
            Sink::Caller(Box::new(file))
        };
        Ok(Self { path, encoders, group: None, sink, rows: 0, bytes: 0, group_bytes: 0 })
    }

    fn write(&mut self, rows: RecordBatch, bytes: u64, threads: usize) -> Result<()> {
        let count = rows.num_rows() as u64;
        if count > 0 {
            let group = match self.group.take() {
                Some(group) => group,
                None => Group::start(self.encoders.next_row_group()?, threads)?,
            };
            self.group.insert(group).write(rows)?;
        }
        self.rows += count;
        self.bytes = self.bytes.saturating_add(bytes);
        self.group_bytes += bytes;
        if self.group_bytes >= ROW_GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<()> {
        self.group_bytes = 0;
        match (self.group.take(), &mut self.sink) {
            (Some(Group::Thread(encoder)), Sink::Thread(file)) => file.send(Part::RowGroup(encoder.end())),
            (Some(Group::Caller(encoder)), Sink::Caller(file)) => Ok(file.append(encoder.finish()?)?),
            // Both are threads, or neither is.
            _ => Ok(()),
        }
    }

    fn finish(mut self, pending: &mut PendingFiles) -> Result<()> {
        self.end_group()?;
        match self.sink {
            Sink::Caller(file) => pending.keep_whole(Finished::of(file.finish()?, &self.path, self.rows)?),
            Sink::Thread(mut file) => {
                file.send(Part::Rows(self.rows))?;
                pending.keep(file.end())
            }
        }
    }
}

impl Group {
    fn start(encoder: RowGroupEncoder, threads: usize) -> Result<Self> {
        if threads <= 1 {
            return Ok(Self::Caller(encoder));
        }
        let mut encoder = encoder;
        Ok(Self::Thread(Follower::start(WAITING_BATCHES, move |batches| {
            while let Some(rows) = batches.next()? {
                encoder.write(&rows)?;
            }
            Ok(encoder.finish()?)
        })?))
    }

    fn write(&mut self, rows: RecordBatch) -> Result<()> {
        match self {
            Self::Thread(encoder) => encoder.send(rows),
            Self::Caller(encoder) => Ok(encoder.write(&rows)?),
        }
    }
}

impl std::fmt::Debug for ParquetFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetFiles").field("compression", &self.compression).finish_non_exhaustive()
    }
}
