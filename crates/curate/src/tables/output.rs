//! One Parquet file of plain rows.
//!
//! The invariant: the first rows determine the columns, and a file without rows is not created.

use crate::chunk::Lineage;
use crate::report::{OutputFile, SplitReport};
use crate::sink::parquet::disk_error;
use crate::sink::{CountingFile, Digits, Finished, Publishing, SinkOptions};
use crate::tables::SINK_STAGE;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use shardmill_formats::parquet::{ParquetCompression, ParquetWriter, ParquetWriterOptions};
use std::collections::HashSet;
use std::time::Instant;

/// Rows are collected up to this number: encoding a thousand rows costs as much as ten.
const GATHERED_ROWS: usize = 16 << 10;
const GATHERED_BYTES: usize = 4 << 20;

/// A row group ends at this size, regardless of its number of rows.
const ROW_GROUP_BYTES: usize = 64 << 20;

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
    writer: Option<ParquetWriter<CountingFile>>,
    gathered: Vec<RecordBatch>,
    gathered_rows: usize,
    gathered_bytes: usize,
    rows: u64,
    is_ids: bool,
}

/// The output file for rows of `sources`.
pub(super) fn path_of(sources: &[String], sink: &SinkOptions, publishing: Publishing<'_>) -> String {
    let stem = publishing.stem(&Lineage { batch: 0, sources: sources.to_vec() }, Digits::Rows);
    format!("{}/{stem}.{}", sink.path.trim_end_matches('/'), sink.format.extension())
}

impl<'a> Output<'a> {
    /// The file is created with its first row.
    pub(super) fn new(path: &str, options: &OutputOptions<'a>) -> Self {
        Self {
            options: options.clone(),
            path: path.to_owned(),
            writer: None,
            gathered: Vec::new(),
            gathered_rows: 0,
            gathered_bytes: 0,
            rows: 0,
            is_ids: false,
        }
    }

    /// Ids are unique, and are read back soon.
    pub(super) fn of_ids(self) -> Self {
        Self { is_ids: true, ..self }
    }

    pub(super) fn write(&mut self, stage: usize, rows: RecordBatch, report: &mut SplitReport) -> Result<()> {
        let start = Instant::now();
        let count = rows.num_rows();
        if count == 0 {
            return Ok(());
        }
        self.rows += count as u64;
        self.gathered_rows += count;
        self.gathered_bytes += rows.get_array_memory_size();
        self.gathered.push(rows);
        if self.gathered_rows >= GATHERED_ROWS || self.gathered_bytes >= GATHERED_BYTES {
            self.encode()?;
        }
        report.output.rows += count as u64;
        let entry = report.stage(stage, SINK_STAGE);
        entry.spend(start.elapsed());
        entry.rows_in += count as u64;
        entry.rows_out += count as u64;
        entry.items += count as u64;
        Ok(())
    }

    fn encode(&mut self) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        (self.gathered_rows, self.gathered_bytes) = (0, 0);
        let rows = match gathered.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            [first, ..] => concat_batches(&first.schema(), &gathered).map_err(Error::unfit("table", "its schema"))?,
        };
        if self.writer.is_none() {
            self.writer = Some(self.start(&rows)?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(&rows).map_err(disk_error)?;
        if writer.row_group_bytes() >= ROW_GROUP_BYTES {
            writer.end_row_group().map_err(disk_error)?;
        }
        Ok(())
    }

    fn start(&mut self, rows: &RecordBatch) -> Result<ParquetWriter<CountingFile>> {
        let columns = rows.schema();
        let plain = columns.fields().iter().zip(rows.columns()).filter(|(_, column)| self.is_ids || hardly_repeats(column));
        let options = ParquetWriterOptions {
            compression: if self.is_ids { ParquetCompression::Snappy } else { self.options.sink.compression.parse()? },
            payload: None,
            max_row_group_rows: Some(self.options.sink.row_group_size),
            plain: plain.map(|(field, _)| field.name().clone()).collect(),
            is_coarse: true,
            ..ParquetWriterOptions::default()
        };
        let file = self.options.publishing.file(&self.path)?;
        ParquetWriter::new(&self.path, file, rows.schema(), &options).map_err(disk_error)
    }

    /// Completes the file; `None` if there were no rows.
    pub(super) fn finish(&mut self, stage: usize, report: &mut SplitReport) -> Result<Option<Finished>> {
        let start = Instant::now();
        self.encode()?;
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let file = writer.finish().map_err(disk_error)?;
        let bytes = file.written();
        let output = OutputFile { path: self.path.clone(), batch: 0, sources: self.options.sources.clone(), samples: 0, rows: self.rows, bytes };
        let finished = Finished::new(file, output)?;
        report.stage(stage, SINK_STAGE).spend(start.elapsed());
        Ok(Some(finished))
    }
}

/// Whether nearly all values are distinct, judging by the first rows.
fn hardly_repeats(column: &ArrayRef) -> bool {
    const MIN_ROWS: usize = 64;
    const SAMPLED_ROWS: usize = 8 << 10;
    let sample = column.slice(0, column.len().min(SAMPLED_ROWS));
    let distinct = match sample.data_type() {
        DataType::Utf8 => sample.as_string::<i32>().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::LargeUtf8 => sample.as_string::<i64>().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::Utf8View => sample.as_string_view().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::Binary => sample.as_binary::<i32>().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::LargeBinary => sample.as_binary::<i64>().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::BinaryView => sample.as_binary_view().iter().flatten().collect::<HashSet<_>>().len(),
        DataType::FixedSizeBinary(_) => sample.as_fixed_size_binary().iter().flatten().collect::<HashSet<_>>().len(),
        other => match other.primitive_width() {
            Some(width) => {
                let data = sample.to_data();
                let bytes = data.buffers().first().map(|buffer| buffer.as_slice().get(data.offset() * width..).unwrap_or_default());
                bytes.unwrap_or_default().chunks_exact(width).take(data.len()).collect::<HashSet<_>>().len()
            }
            None => 0,
        },
    };
    let valid = sample.len() - sample.null_count();
    valid >= MIN_ROWS && distinct * 20 > valid * 19
}
