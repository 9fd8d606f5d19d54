//! One Parquet file of plain rows.
//!
//! The invariant: the first rows determine the columns, and a file without rows is not created.

use crate::Result;
use crate::report::{OutputFile, SplitReport};
use crate::sink::{CountingFile, Digits, Finished, Publishing, SinkOptions};
use arrow_array::RecordBatch;
use shardmill_documents::Lineage;
use shardmill_formats::parquet::ParquetCompression;
use shardmill_write::{ParquetFile, ParquetFileOptions};
use std::time::Instant;

/// The name of the sink of a table job in reports.
pub(crate) const SINK_STAGE: &str = "table_parquet_writer";

/// Options shared by all files of a split.
#[derive(Clone)]
pub(super) struct OutputOptions<'a> {
    pub sink: &'a SinkOptions,
    pub sources: Vec<String>,
    pub publishing: Publishing<'a>,
}

pub(super) struct Output<'a> {
    options: OutputOptions<'a>,
    path: String,
    file: Option<ParquetFile<CountingFile, CountingFile>>,
    rows: u64,
    is_ids: bool,
}

/// The output file for rows of `sources`.
pub(super) fn path_of(
    sources: &[String],
    sink: &SinkOptions,
    publishing: Publishing<'_>,
) -> String {
    let stem = publishing.stem(&Lineage { batch: 0, sources: sources.to_vec() }, Digits::Rows);
    format!("{}/{stem}.{}", sink.path.trim_end_matches('/'), sink.format.extension())
}

impl<'a> Output<'a> {
    /// The file is created with its first row.
    pub(super) fn new(path: &str, options: &OutputOptions<'a>) -> Self {
        Self { options: options.clone(), path: path.to_owned(), file: None, rows: 0, is_ids: false }
    }

    pub(super) fn of_ids(self) -> Self {
        Self { is_ids: true, ..self }
    }

    pub(super) fn write(
        &mut self,
        stage: usize,
        rows: &RecordBatch,
        report: &mut SplitReport,
    ) -> Result<()> {
        let start = Instant::now();
        let count = rows.num_rows();
        if count == 0 {
            return Ok(());
        }
        self.rows += count as u64;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.start(rows)?,
        };
        self.file.insert(file).write(rows)?;
        report.output.rows += count as u64;
        let entry = report.stage(stage, SINK_STAGE);
        entry.spend(start.elapsed());
        entry.rows_in += count as u64;
        entry.rows_out += count as u64;
        entry.items += count as u64;
        Ok(())
    }

    /// Ids are unique, and are read back soon.
    fn start(&self, rows: &RecordBatch) -> Result<ParquetFile<CountingFile, CountingFile>> {
        let options = self.options.sink.of_file()?;
        let options = match self.is_ids {
            true => ParquetFileOptions {
                compression: ParquetCompression::Snappy,
                is_unique: true,
                row_group_size: None,
                ..options
            },
            false => options,
        };
        let file = self.options.publishing.file(&self.path)?;
        Ok(ParquetFile::new(&self.path, file, rows.schema(), options, |file, _, _| Ok(file)))
    }

    /// Completes the file; `None` if there were no rows.
    pub(super) fn finish(
        &mut self,
        stage: usize,
        report: &mut SplitReport,
    ) -> Result<Option<Finished>> {
        let start = Instant::now();
        let Some(file) = self.file.take() else { return Ok(None) };
        let file = file.finish()?;
        let bytes = file.written();
        let output = OutputFile {
            path: self.path.clone(),
            batch: 0,
            sources: self.options.sources.clone(),
            samples: 0,
            rows: self.rows,
            bytes,
        };
        let finished = Finished::new(file, output)?;
        report.stage(stage, SINK_STAGE).spend(start.elapsed());
        Ok(Some(finished))
    }
}
