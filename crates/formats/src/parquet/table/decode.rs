//! Decodes blocks of rows.

use super::super::gauge::Gauge;
use super::super::object_reader::ObjectReader;
use super::super::read::misfit_of;
use super::ParquetTable;
use super::blocks::Place;
use crate::table::{Projection, TableFile, column_field};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Rows of a scan that are in memory at the same time.
const SCANNED_ROWS: usize = 1 << 14;

impl ParquetTable {
    pub(super) fn decode(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, ParquetError> {
        let missing = || ParquetError::General(format!("there is no block {block}"));
        let (place, group) = self.row_group(block).ok_or_else(missing)?;
        let rows = selection.map_or(place.rows.end - place.rows.start, |selection| {
            selection.count_set_bits() as u64
        });
        let decoded = self.decode_groups(
            place.row_group..place.row_group + 1,
            columns,
            row_selection(place, group, selection)?,
            rows,
        );
        let selected = |row: u64| {
            selection
                .and_then(|selection| selection.set_indices().nth(usize::try_from(row).ok()?))
                .map_or(row, |row| row as u64)
        };
        decoded.map_err(|error| moved(error, selected))
    }

    pub(super) fn decode_groups(
        &self,
        groups: Range<usize>,
        columns: &[usize],
        selection: Option<RowSelection>,
        rows: u64,
    ) -> Result<RecordBatch, ParquetError> {
        let (builder, gauge) = self.reader_of(groups, columns)?;
        let mut builder = builder.with_batch_size(usize::try_from(rows)?.max(1));
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let batches = builder
            .build()?
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| stopped(&gauge, error.into()))?;
        let batch = match batches.as_slice() {
            [batch] => batch.clone(),
            [] if rows == 0 => return Ok(self.empty(columns)),
            [] => {
                return Err(ParquetError::General(format!(
                    "{rows} rows were expected, the pages hold none"
                )));
            }
            [first, ..] => concat_batches(&first.schema(), &batches)?,
        };
        if batch.num_rows() as u64 != rows {
            return Err(ParquetError::General(format!(
                "{rows} rows were expected, the pages hold {}",
                batch.num_rows()
            )));
        }
        self.delivered(&batch, columns)
    }

    /// The requested columns of a decoded batch.
    fn delivered(
        &self,
        batch: &RecordBatch,
        columns: &[usize],
    ) -> Result<RecordBatch, ParquetError> {
        let nested = if self.is_any_nested(columns) { self.file.nested() } else { &[] };
        let declared =
            columns.iter().filter_map(|column| column_field(&self.schema, nested, *column));
        if nested.is_empty() {
            return self.file.delivered(in_order(batch, columns)?, declared);
        }
        let projection = Projection::new(&self.schema, self.file.nested(), columns);
        let arrays = projection.deliver(&projection.roots(), batch.columns())?;
        let names = columns
            .iter()
            .filter_map(|column| column_field(&self.schema, self.file.nested(), *column));
        let fields = names.zip(&arrays).map(|(field, array)| {
            Field::new(field.name(), array.data_type().clone(), field.is_nullable())
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let decoded = RecordBatch::try_new_with_options(
            Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            arrays,
            &options,
        )?;
        self.file.delivered(decoded, declared)
    }

    /// All rows of the row group that contains the blocks of a run,
    /// in batches that fit into a cache.
    pub(super) fn scan_group(
        &self,
        run: &Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<(), ParquetError> {
        let group = self
            .places
            .get(run.start)
            .map(|place| place.row_group)
            .ok_or_else(|| ParquetError::General("there is no such block".to_owned()))?;
        let expected: u64 =
            self.blocks.get(run.clone()).unwrap_or_default().iter().map(|block| block.rows).sum();
        let mut rows = 0;
        // A block has at most as many rows as fit into memory together.
        let most = self
            .blocks
            .get(run.clone())
            .unwrap_or_default()
            .iter()
            .map(|block| block.rows)
            .max()
            .unwrap_or(1);
        let (builder, gauge) = self.reader_of(group..group + 1, columns)?;
        for batch in
            builder.with_batch_size(usize::try_from(most)?.clamp(1, SCANNED_ROWS)).build()?
        {
            let batch = batch.map_err(|error| stopped(&gauge, error.into()))?;
            gauge.begin_batch();
            let delivered =
                self.delivered(&batch, columns).map_err(|error| moved(error, |row| rows + row))?;
            rows += batch.num_rows() as u64;
            if each(delivered).is_break() {
                return Ok(());
            }
        }
        if rows == expected {
            Ok(())
        } else {
            Err(ParquetError::General(format!(
                "{expected} rows were expected, the pages hold {rows}"
            )))
        }
    }

    fn reader_of(
        &self,
        groups: Range<usize>,
        columns: &[usize],
    ) -> Result<(ParquetRecordBatchReaderBuilder<ObjectReader>, Arc<Gauge>), ParquetError> {
        let mask = self.file.mask_of(columns);
        let all = self.file.footer.row_groups().get(groups.clone()).unwrap_or_default();
        let leaves = all.iter().zip(groups.clone()).flat_map(|(group, number)| {
            let wanted =
                group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
            wanted.map(move |(_, chunk)| (number, chunk))
        });
        let gauge = Gauge::new(self.path(), self.file.limit, leaves.clone())
            .map_err(|refusal| ParquetError::External(Box::new(refusal)))?;
        let gauge = Arc::new(gauge);
        let ranges = leaves
            .map(|(_, chunk)| chunk.byte_range())
            .map(|(start, len)| start..start.saturating_add(len))
            .collect();
        let object =
            ObjectReader::fetch(Arc::clone(&self.file.object), ranges)?.gauged(Arc::clone(&gauge));
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            object,
            self.decoding_for(columns)?.clone(),
        );
        Ok((builder.with_projection(mask).with_row_groups(groups.collect()), gauge))
    }
}

/// A value that cannot be held, at another row.
fn moved(error: ParquetError, place: impl Fn(u64) -> u64) -> ParquetError {
    match misfit_of(error) {
        Ok(mut found) => {
            found.misfit.row = place(found.misfit.row);
            ParquetError::External(Box::new(found))
        }
        Err(error) => error,
    }
}

/// Selected positions within the row group, or `None` for all of it.
fn row_selection(
    place: &Place,
    group: &RowGroupMetaData,
    selection: Option<&BooleanBuffer>,
) -> Result<Option<RowSelection>, ParquetError> {
    let total = usize::try_from(group.num_rows())?;
    let (start, end) = (usize::try_from(place.rows.start)?, usize::try_from(place.rows.end)?);
    Ok(match selection {
        None if end - start == total => None,
        None => Some(RowSelection::from_consecutive_ranges(std::iter::once(start..end), total)),
        Some(selection) => {
            let ranges = selection.set_slices().map(|(from, to)| start + from..start + to);
            Some(RowSelection::from_consecutive_ranges(ranges, total))
        }
    })
}

/// The decoder delivers columns in file order.
fn in_order(batch: &RecordBatch, columns: &[usize]) -> Result<RecordBatch, ParquetError> {
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted == columns {
        return Ok(batch.clone());
    }
    let places: Vec<usize> =
        columns.iter().filter_map(|column| sorted.binary_search(column).ok()).collect();
    Ok(batch.project(&places)?)
}

/// If the limit stopped the decoder, that is the reason.
fn stopped(gauge: &Gauge, error: ParquetError) -> ParquetError {
    gauge.refused().map_or(error, |refusal| ParquetError::External(Box::new(refusal)))
}
