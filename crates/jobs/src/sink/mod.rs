//! Writes rows: one file per batch, staged under a hidden name and published when complete.

mod image_sizes;
mod name;
mod output;
mod publishing;

use crate::report::{OutputFile, SplitReport};
use crate::{Error, Result};
use arrow_array::Array;
use arrow_schema::{Field, Schema, SchemaRef};
use image_sizes::add_sizes;
pub(crate) use output::CountingFile;
use serde::{Deserialize, Serialize};
use shardmill_documents::locate::Locator;
use shardmill_documents::materialize::{
    Bodies, OnMaterializeError, apply_policy, materialize, reclaim,
};
use shardmill_documents::schema::{RESCUED, SchemaChoice};
use shardmill_documents::source::located_rows::locate_missing;
use shardmill_documents::{Chunk, Error as DocumentError, Lineage, Modality};
use shardmill_formats::parquet::ParquetCompression;
use shardmill_write::{Error as WriteError, ParquetDocuments, ParquetFileOptions, TarDocuments};
use std::collections::HashSet;
use std::time::Instant;

pub(crate) use name::Digits;
pub(crate) use publishing::{Finished, Publishing};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkFormat {
    Parquet,
    #[serde(rename = "webdataset")]
    WebDataset,
}

impl SinkFormat {
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::WebDataset => "tar",
        }
    }

    #[must_use]
    pub fn stage_name(self) -> &'static str {
        match self {
            Self::Parquet => "interleaved_parquet_writer",
            Self::WebDataset => "interleaved_webdataset_writer",
        }
    }
}

/// How an output directory with files is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Other files stay; a file of the same inputs and batch is replaced atomically.
    Resume,
    Overwrite,
    /// Rejects a directory with files.
    Error,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkOptions {
    pub path: String,
    pub format: SinkFormat,
    pub mode: Mode,
    pub materialize_on_write: bool,
    pub on_materialize_error: OnMaterializeError,
    /// Parquet only: codec of the text columns.
    pub compression: String,
    /// Parquet only: number of rows in a row group; if `None`, as many as have about 8 MiB.
    pub row_group_size: Option<usize>,
    /// Parquet only: codec of the image column; images are compressed already.
    pub binary_compression: String,
    /// Parquet only: columns with the sizes of images.
    #[serde(default)]
    pub image_sizes: bool,
}

impl SinkOptions {
    /// The path of the document file with this stem.
    pub(crate) fn file_path(&self, stem: &str) -> String {
        format!("{}/{stem}.{}", self.path.trim_end_matches('/'), self.format.extension())
    }

    /// How a Parquet file is written.
    pub(crate) fn of_file(&self) -> Result<ParquetFileOptions> {
        Ok(ParquetFileOptions {
            compression: self.compression.parse()?,
            row_group_size: self.row_group_size,
            ..ParquetFileOptions::default()
        })
    }

    /// The same for documents, whose images have a codec of their own.
    fn of_documents(&self, schema: &Schema) -> Result<ParquetFileOptions> {
        let images = schema.field_with_name("binary_content").ok();
        let codec = |field: &Field| {
            Ok::<_, Error>((field.name().clone(), self.binary_compression.parse()?))
        };
        Ok(ParquetFileOptions { payload: images.map(codec).transpose()?, ..self.of_file()? })
    }

    /// # Errors
    /// For an empty path, an unknown codec and row groups without rows.
    pub fn check(&self) -> Result<()> {
        // File names are appended to it: an empty path would be the root of the file system.
        if self.path.is_empty() {
            return Err(Error::option("path", "of a sink must be a directory, not ``"));
        }
        self.compression.parse::<ParquetCompression>()?;
        self.binary_compression.parse::<ParquetCompression>()?;
        if self.row_group_size == Some(0) {
            return Err(Error::option("row_group_size", "must be positive"));
        }
        Ok(())
    }
}

/// Writes the batches of one split.
pub(crate) struct Sink<'a> {
    options: &'a SinkOptions,
    choice: &'a SchemaChoice,
    publishing: Publishing<'a>,
    /// Index of the sink among the stages of the report.
    stage: usize,
    is_materialized: bool,
    open: Option<OpenBatch>,
    scratch: Vec<u8>,
    locator: Locator,
}

struct OpenBatch {
    lineage: Lineage,
    schema: SchemaRef,
    file: OutputFile,
    writer: BatchWriter,
}

enum BatchWriter {
    Parquet(Box<ParquetDocuments<CountingFile>>),
    WebDataset(TarDocuments<CountingFile>),
}

impl<'a> Sink<'a> {
    #[must_use]
    pub(crate) fn new(
        options: &'a SinkOptions,
        choice: &'a SchemaChoice,
        publishing: Publishing<'a>,
        stage: usize,
        is_materialized: bool,
        locator: Locator,
    ) -> Self {
        Self {
            options,
            choice,
            publishing,
            stage,
            is_materialized,
            open: None,
            scratch: Vec::new(),
            locator,
        }
    }

    /// Passes memory to the sink for collecting image bytes.
    pub(crate) fn lend_buffer(&mut self, buffer: Vec<u8>) {
        self.scratch = buffer;
    }

    /// Returns the memory for the next split.
    #[must_use]
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.scratch
    }

    /// Writes one chunk, and publishes the file if it is complete.
    ///
    /// # Errors
    /// The policy for missing images, and everything that stops a write. The open file is then
    /// removed.
    pub(crate) fn write(&mut self, mut chunk: Chunk, report: &mut SplitReport) -> Result<()> {
        let is_next =
            self.open.as_ref().is_some_and(|open| open.lineage.batch != chunk.lineage.batch);
        if is_next && let Some(finished) = self.finish(report)? {
            finished.publish(
                self.publishing,
                self.stage,
                self.options.format.stage_name(),
                report,
            )?;
        }
        let start = Instant::now();
        let items = chunk.documents.len() as u64;
        let rows_in = chunk.rows.len() as u64;
        let missing = chunk
            .rows
            .iter()
            .filter(|row| row.modality == Modality::Image && row.payload.is_absent())
            .count();
        if self.is_materialized {
            locate_missing(&mut chunk.rows, &mut self.locator)?;
        }
        let fetch = Instant::now();
        let scratch = std::mem::take(&mut self.scratch);
        let has_sizes = self.options.image_sizes;
        let policy = self.options.on_materialize_error;
        let bodies = if self.is_materialized {
            let bodies = materialize(&mut chunk, policy, scratch, &mut report.ledger)?;
            if has_sizes {
                add_sizes(&mut chunk, Some(&bodies), &mut report.ledger)?;
            }
            bodies
        } else {
            apply_policy(&mut chunk, policy, &mut report.ledger)?;
            if has_sizes {
                add_sizes(&mut chunk, None, &mut report.ledger)?;
            }
            Bodies::in_memory(&mut chunk, scratch)?
        };
        let fetch_seconds = fetch.elapsed().as_secs_f64();
        let payload_bytes = bodies.total_bytes();
        let write = Instant::now();
        let refused = self.append(&chunk, bodies, report)?;
        let write_seconds = write.elapsed().as_secs_f64();
        if !refused.is_empty() {
            let keep: Vec<bool> =
                chunk.rows.iter().map(|row| !refused.contains(&row.document)).collect();
            chunk.retain(&keep);
        }
        report.output.add(&chunk);
        // Under the other policies such rows were already removed and counted.
        report.ledger.note_errors(&chunk);
        report.ledger.warn_of_errors(&chunk);

        let images = chunk.rows.iter().filter(|row| row.modality == Modality::Image).count();
        let errors = chunk.rows.iter().filter(|row| row.error.is_some()).count();
        let stage = report.stage(self.stage, self.options.format.stage_name());
        stage.spend(start.elapsed());
        stage.rows_in += rows_in;
        stage.rows_out += chunk.rows.len() as u64;
        stage.items += items;
        stage.input_bytes += payload_bytes
            + chunk
                .rows
                .iter()
                .map(|row| row.text.as_ref().map_or(0, String::len) as u64)
                .sum::<u64>();
        stage.custom("rows_out", number(chunk.rows.len()));
        stage.custom("image_rows", number(images));
        stage.custom("image_rows_missing_binary", number(missing));
        stage.custom("materialize_fetch_binary_s", fetch_seconds);
        stage.custom("materialize_errors", number(errors));
        stage.custom("materialize_dataframe_total_s", fetch_seconds);
        match self.options.format {
            SinkFormat::Parquet => stage.custom("parquet_write_s", write_seconds),
            SinkFormat::WebDataset => {
                stage.custom("samples_written", number(chunk.documents.len()));
            }
        }
        Ok(())
    }

    /// Returns the documents that the format cannot represent; they are in quarantine then.
    fn append(
        &mut self,
        chunk: &Chunk,
        bodies: Bodies,
        report: &mut SplitReport,
    ) -> Result<HashSet<usize>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.start(chunk, report)?,
        };
        if self.choice.schema.is_none() {
            let late = chunk
                .schema
                .fields()
                .iter()
                .find(|field| open.schema.field_with_name(field.name()).is_err());
            if let Some(field) = late {
                return Err(Error::LateColumn {
                    column: field.name().clone(),
                    path: open.file.path,
                });
            }
        }
        let has_rescued = chunk
            .extras
            .column_by_name(RESCUED)
            .is_some_and(|values| values.null_count() < values.len());
        if has_rescued && open.schema.field_with_name(RESCUED).is_err() {
            report.ledger.drop_key(format!("column `{RESCUED}` is not in the schema"));
        }
        let in_file = |error: DocumentError| match error {
            cast @ DocumentError::Cast { .. } => {
                DocumentError::File { path: open.file.path.clone(), source: Box::new(cast) }
            }
            other => other,
        };
        let mut refused = HashSet::new();
        match &mut open.writer {
            BatchWriter::Parquet(batch) => {
                let column = bodies.into_column();
                batch.write(chunk, &open.schema, &column).map_err(|error| match error {
                    WriteError::Documents(error) => WriteError::Documents(in_file(error)),
                    other => other,
                })?;
                self.scratch = reclaim(column);
            }
            BatchWriter::WebDataset(batch) => {
                refused = batch
                    .write(chunk, &open.schema, &bodies, &mut report.ledger)
                    .map_err(in_file)?;
                self.scratch = bodies.into_bytes();
            }
        }
        open.file.samples += (chunk.documents.len() - refused.len()) as u64;
        open.file.rows +=
            chunk.rows.iter().filter(|row| !refused.contains(&row.document)).count() as u64;
        self.open = Some(open);
        Ok(refused)
    }

    fn start(&self, chunk: &Chunk, report: &mut SplitReport) -> Result<OpenBatch> {
        let schema = self.choice.apply_counted(&chunk.schema, &mut report.ledger);
        let path = self.options.file_path(&self.publishing.stem(&chunk.lineage, Digits::Documents));
        let staged = self.publishing.file(&path)?;
        let writer = match self.options.format {
            SinkFormat::Parquet => {
                let options = self.options.of_documents(&schema)?;
                let file = ParquetDocuments::new(&path, staged, &schema, options);
                BatchWriter::Parquet(Box::new(file))
            }
            SinkFormat::WebDataset => {
                BatchWriter::WebDataset(TarDocuments::new(&path, staged, &schema)?)
            }
        };
        let file = OutputFile {
            path,
            batch: chunk.lineage.batch,
            sources: chunk.lineage.sources.clone(),
            samples: 0,
            rows: 0,
            bytes: 0,
        };
        Ok(OpenBatch { lineage: chunk.lineage.clone(), schema, file, writer })
    }

    /// Completes the open file, if there is one.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub(crate) fn finish(&mut self, report: &mut SplitReport) -> Result<Option<Finished>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let start = Instant::now();
        let staged = match open.writer {
            BatchWriter::Parquet(batch) => batch.finish()?,
            BatchWriter::WebDataset(batch) => batch.finish()?,
        };
        let file = OutputFile { bytes: staged.written(), ..open.file };
        report.stage(self.stage, self.options.format.stage_name()).spend(start.elapsed());
        Ok(Some(Finished::new(staged, file)?))
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Prepares the output directory, once per run, after the inputs were checked.
///
/// # Errors
/// [`Error::OutputExists`] under [`Mode::Error`], [`Error::Option`] when emptying the directory
/// would delete an input.
pub(crate) fn prepare_output(options: &SinkOptions, inputs: &[String]) -> Result<()> {
    options.check()?;
    output::prepare(&options.path, options.mode, inputs)
}
