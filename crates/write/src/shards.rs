//! Rows as one file, or as numbered files of a folder. All of them get their names at the end, or none.
//!
//! The invariant: where a shard ends depends on the rows alone, not on what compression makes of them and when.

use crate::arrayrecord::ArrayRecordWriter;
use crate::columns::{for_each_record, select, weight};
use crate::parquet::{ParquetWriter, ROW_GROUP_BYTES};
use crate::staged::Finished;
use crate::{Error, Gather, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::arrayrecord::WriterOptions;
use shardmill_formats::parquet::ParquetCompression;
use shardmill_storage::{Replace, remove_stale_staging, store_of};
use std::sync::Arc;

/// What the files are.
#[derive(Debug, Clone)]
pub enum Format {
    ArrayRecord(WriterOptions),
    /// Without a schema, the first rows tell it.
    Parquet {
        compression: ParquetCompression,
        schema: Option<SchemaRef>,
    },
}

/// Where rows go.
#[derive(Debug, Clone)]
pub enum Target {
    File(String),
    /// Files are called `part-00000.parquet` and so on, from `first` on; one takes about `size_limit` bytes of rows.
    Folder {
        path: String,
        first: u64,
        size_limit: u64,
    },
}

/// Files in the making.
#[derive(Debug)]
pub struct Shards {
    target: Target,
    format: Format,
    columns: Option<Vec<String>>,
    replace: Replace,
    threads: usize,
    process: u32,
    open: Option<Shard>,
    finished: Vec<Finished>,
    rows: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

#[derive(Debug)]
struct Shard {
    file: File,
    /// Of rows, before compression.
    bytes: u64,
}

#[derive(Debug)]
enum File {
    ArrayRecord(ArrayRecordWriter),
    Parquet(ParquetWriter),
}

impl Shards {
    /// `columns` are those of batches that are written, in this order; all for `None`. Nothing is made before the first row.
    #[must_use]
    pub fn new(target: Target, format: Format, columns: Option<Vec<String>>, replace: Replace, threads: usize) -> Self {
        let process = std::process::id();
        Self { target, format, columns, replace, threads, process, open: None, finished: Vec::new(), rows: 0, state: State::Open }
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes rows.
    ///
    /// # Errors
    /// When the columns do not fit, and as [`Shards::flush`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.check()?;
        let selected;
        let rows = match &self.columns {
            Some(columns) => {
                selected = select(rows, columns)?;
                &selected
            }
            None => rows,
        };
        let result = match self.format {
            Format::ArrayRecord(_) => for_each_record(rows, self.rows, |record| match self.gather(record)? {
                true => self.flush_open(),
                false => Ok(()),
            }),
            Format::Parquet { .. } => self.write_rows(rows),
        };
        self.fail_on_error(result)
    }

    /// Writes what is missing and gives the files their names; tells them. No rows are a file without rows.
    ///
    /// # Errors
    /// As [`Shards::flush`]; when a name is taken and may not be.
    pub fn close(&mut self) -> Result<Vec<String>> {
        let result = self.check().and_then(|()| {
            if self.open.is_none() && self.finished.is_empty() {
                self.shard(None)?;
            }
            self.end_shard()
        });
        self.fail_on_error(result)?;
        self.state = State::Closed;
        let result = self.refuse_taken_names();
        self.fail_on_error(result)?;
        let mut names = Vec::with_capacity(self.finished.len());
        for finished in std::mem::take(&mut self.finished) {
            let name = finished.path().to_owned();
            finished.publish(self.replace)?;
            names.push(name);
        }
        Ok(names)
    }

    /// Before the first file has its name. Between here and there another writer may take one; that file is then refused alone.
    fn refuse_taken_names(&self) -> Result<()> {
        if self.replace == Replace::Atomically {
            return Ok(());
        }
        for path in self.finished.iter().map(Finished::path) {
            if store_of(path)?.list(path).is_ok_and(|found| !found.is_empty()) {
                return Err(shardmill_storage::Error::AlreadyExists { path: path.to_owned() }.into());
            }
        }
        Ok(())
    }

    /// Leaves nothing behind.
    pub fn abandon(&mut self) {
        self.state = State::Closed;
        self.open = None;
        self.finished.clear();
    }

    fn write_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let Format::Parquet { schema, .. } = &self.format else { return Ok(()) };
        let by_name;
        // Rows of another order of columns are the same rows.
        let rows = match schema {
            Some(schema) if schema.fields().len() == rows.num_columns() => {
                let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
                by_name = select(rows, &names)?;
                &by_name
            }
            _ => rows,
        };
        let size_limit = self.size_limit();
        let (count, bytes) = (rows.num_rows() as u64, weight(rows).max(1));
        let mut start = 0;
        loop {
            let shard = self.shard(Some(rows.schema()))?;
            let File::Parquet(writer) = &mut shard.file else { return Ok(()) };
            // As many rows as fill the shard, at most those of a row group.
            let room = u128::from(ROW_GROUP_BYTES.min(size_limit.saturating_sub(shard.bytes)));
            let fitting = (u128::from(count) * room).div_ceil(u128::from(bytes)).max(1);
            let len = u64::try_from(fitting).unwrap_or(u64::MAX).min(count - start);
            let part = rows.slice(usize::try_from(start).unwrap_or_default(), usize::try_from(len).unwrap_or_default());
            let part_bytes = u64::try_from(u128::from(bytes) * u128::from(len) / u128::from(count.max(1))).unwrap_or(u64::MAX);
            writer.write(&part, part_bytes)?;
            shard.bytes = shard.bytes.saturating_add(part_bytes);
            self.rows += len;
            self.flush_open()?;
            start += len;
            if start >= count {
                return Ok(());
            }
        }
    }

    fn flush_open(&mut self) -> Result<()> {
        let size_limit = self.size_limit();
        let Some(shard) = &mut self.open else { return Ok(()) };
        if shard.bytes >= size_limit {
            return self.end_shard();
        }
        match &mut shard.file {
            File::ArrayRecord(writer) => writer.flush(),
            File::Parquet(_) => Ok(()),
        }
    }

    fn size_limit(&self) -> u64 {
        match &self.target {
            Target::File(_) => u64::MAX,
            Target::Folder { size_limit, .. } => (*size_limit).max(1),
        }
    }

    /// The shard that rows go to; `of_rows` is the schema of the rows that are written.
    fn shard(&mut self, of_rows: Option<SchemaRef>) -> Result<&mut Shard> {
        let shard = match self.open.take() {
            Some(shard) => shard,
            None => self.new_shard(of_rows)?,
        };
        Ok(self.open.insert(shard))
    }

    fn new_shard(&mut self, of_rows: Option<SchemaRef>) -> Result<Shard> {
        let extension = match self.format {
            Format::ArrayRecord(_) => "array_record",
            Format::Parquet { .. } => "parquet",
        };
        let path = match &self.target {
            Target::File(path) => path.clone(),
            Target::Folder { path, first, .. } => {
                if self.finished.is_empty() {
                    let _of_killed_writers = remove_stale_staging(path);
                }
                let number = first.saturating_add(self.finished.len() as u64);
                format!("{}/part-{number:05}.{extension}", path.trim_end_matches('/'))
            }
        };
        let file = match &mut self.format {
            Format::ArrayRecord(options) => File::ArrayRecord(ArrayRecordWriter::create(&path, options.clone(), self.threads)?),
            Format::Parquet { compression, schema } => {
                let known = schema.take().or(of_rows).ok_or_else(|| Error::NoSchema { path: path.clone() })?;
                *schema = Some(Arc::clone(&known));
                File::Parquet(ParquetWriter::create(&path, known, *compression)?)
            }
        };
        Ok(Shard { file, bytes: 0 })
    }

    fn end_shard(&mut self) -> Result<()> {
        let Some(shard) = self.open.take() else { return Ok(()) };
        self.finished.push(match shard.file {
            File::ArrayRecord(mut writer) => writer.finish()?,
            File::Parquet(writer) => writer.finish()?,
        });
        Ok(())
    }

    fn path(&self) -> &str {
        match &self.target {
            Target::File(path) | Target::Folder { path, .. } => path,
        }
    }

    fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::Forked { path: self.path().to_owned() });
        }
        if self.state == State::Closed { Err(Error::Closed { path: self.path().to_owned() }) } else { Ok(()) }
    }

    fn fail_on_error(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() && self.process == std::process::id() {
            self.abandon();
        }
        result
    }
}

impl Gather for Shards {
    fn gather(&mut self, record: &[u8]) -> Result<bool> {
        self.check()?;
        let size_limit = self.size_limit();
        let shard = self.shard(None)?;
        let File::ArrayRecord(writer) = &mut shard.file else {
            return Err(Error::NoRecords { column: "record".to_owned(), data_type: "bytes".to_owned() });
        };
        let is_due = writer.gather(record)?;
        shard.bytes = shard.bytes.saturating_add(record.len() as u64);
        let is_full = shard.bytes >= size_limit;
        self.rows += 1;
        Ok(is_due || is_full)
    }

    fn flush(&mut self) -> Result<()> {
        let result = self.check().and_then(|()| self.flush_open());
        self.fail_on_error(result)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        // The files belong to the parent: removing them there is the parent's affair.
        if self.process != std::process::id() {
            std::mem::forget(self.open.take());
            std::mem::forget(std::mem::take(&mut self.finished));
        }
    }
}
