//! Files of rows as Parquet, cut by their size.
//!
//! The invariant: the ends of row groups and files depend only on the rows, not on the result or
//! the timing of compression.

use crate::columns::{select, with_schema};
use crate::file_set::FileSet;
use crate::parquet_file::{Ended, ParquetFile, ParquetFileOptions};
use crate::pending_files::PendingFiles;
use crate::staged::{Finished, StagedFile};
use crate::weight::{rows_within, weight};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::parquet::ParquetCompression;
use std::io::BufWriter;
use std::sync::Arc;

const BUFFER_BYTES: usize = 1 << 20;

pub(crate) struct ParquetFiles {
    compression: ParquetCompression,
    omits_checksums: bool,
    schema: Option<SchemaRef>,
    open: Option<OpenFile>,
}

struct OpenFile {
    file: ParquetFile<BufWriter<StagedFile>, Finished>,
    /// Size in memory of its rows.
    bytes: u64,
}

impl ParquetFiles {
    pub(crate) fn new(
        compression: ParquetCompression,
        omits_checksums: bool,
        schema: Option<SchemaRef>,
    ) -> Self {
        Self { compression, omits_checksums, schema, open: None }
    }

    fn open(
        &mut self,
        of_rows: Option<SchemaRef>,
        pending: &mut PendingFiles,
    ) -> Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let path = pending.next_path();
                let known = self
                    .schema
                    .take()
                    .or(of_rows)
                    .ok_or_else(|| Error::NoSchema { path: path.clone() })?;
                self.schema = Some(Arc::clone(&known));
                let staged = BufWriter::with_capacity(BUFFER_BYTES, StagedFile::create(&path)?);
                let (compression, omits_checksums) = (self.compression, self.omits_checksums);
                let options = ParquetFileOptions {
                    compression,
                    omits_checksums,
                    threads: pending.threads,
                    ..ParquetFileOptions::default()
                };
                OpenFile {
                    file: ParquetFile::new(&path, staged, known, options, Finished::of),
                    bytes: 0,
                }
            }
        };
        Ok(self.open.insert(open))
    }

    fn end_file(&mut self, pending: &mut PendingFiles) -> Result<()> {
        match self.open.take().map(|open| open.file.end()).transpose()? {
            Some(Ended::Now(file)) => pending.keep_whole(file),
            Some(Ended::Later(file)) => pending.keep(file),
            None => Ok(()),
        }
    }

    /// Reorders columns, whose order may differ.
    fn in_order(&self, rows: &RecordBatch, path: &str) -> Result<RecordBatch> {
        let Some(schema) = &self.schema else { return Ok(rows.clone()) };
        let ordered = if schema.fields().len() == rows.num_columns() {
            let names: Vec<String> =
                schema.fields().iter().map(|field| field.name().clone()).collect();
            select(rows, &names)?
        } else {
            rows.clone()
        };
        // Other metadata does no harm; other types and nullability would.
        with_schema(schema, &ordered, path)
    }
}

impl FileSet for ParquetFiles {
    fn write(
        &mut self,
        rows: &RecordBatch,
        _first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()> {
        let rows = self.in_order(rows, pending.path())?;
        let size_limit = pending.size_limit();
        let mut start = 0;
        loop {
            let open = self.open(Some(rows.schema()), pending)?;
            // As many rows as fill the file.
            let fitting = rows_within(&rows, start, size_limit.saturating_sub(open.bytes));
            let part = rows.slice(start, fitting.max(1).min(rows.num_rows() - start));
            open.bytes = open.bytes.saturating_add(weight(&part));
            open.file.write(&part)?;
            if open.bytes >= size_limit {
                self.end_file(pending)?;
            }
            start += part.num_rows();
            if start >= rows.num_rows() {
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

impl std::fmt::Debug for ParquetFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ParquetFiles")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
