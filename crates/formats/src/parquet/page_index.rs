//! The page index of one column in one row group.
//!
//! Only the two indexes of the column are read and decoded, regardless of the number of columns.
//! The invariant: returned pages begin at row 0, are contiguous, and cover the row group.

use super::object_reader::ObjectReader;
use super::statistics::{Leaf, is_sound};
use super::thrift::{Verdict, judge};
use super::thrift_fields::{COLUMN_INDEX, OFFSET_INDEX};
use super::{Error, ParquetFile};
use crate::caught::caught;
use crate::table::{BlockPages, Statistics};
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, RowGroupMetaData,
};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{SchemaDescriptor, Type};
use std::ops::Range;
use std::sync::Arc;

/// An index takes tens of bytes per page; beyond this size it costs more than the pages it saves.
const MAX_INDEX_LEN: u64 = 16 << 20;

impl ParquetFile {
    /// `column` is the number of a column, which may be nested. `None` for lists, structs and maps,
    /// and if the index of the column is missing or damaged.
    ///
    /// # Errors
    /// [`Error::Index`] when the storage fails.
    pub fn pages(&self, row_group: usize, column: usize) -> Result<Option<BlockPages>, Error> {
        let Some(leaf) = self.leaf(column).filter(|leaf| leaf.is_ordered) else { return Ok(None) };
        Ok(self.told(row_group, || self.decode_pages(row_group, &leaf))?.flatten())
    }

    /// What an index or a filter of a row group tells; `None` if it is damaged.
    pub(super) fn told<T>(
        &self,
        row_group: usize,
        read: impl FnOnce() -> Result<T, ParquetError>,
    ) -> Result<Option<T>, Error> {
        match caught(read) {
            Ok(Err(source @ ParquetError::External(_))) => {
                Err(Error::Index { path: self.object.path().to_owned(), row_group, source })
            }
            told => Ok(told.ok().and_then(Result::ok)),
        }
    }

    fn decode_pages(
        &self,
        row_group: usize,
        leaf: &Leaf<'_>,
    ) -> Result<Option<BlockPages>, ParquetError> {
        let file = &*self.footer;
        let Some(group) = file.row_groups().get(row_group) else { return Ok(None) };
        let Some(alone) = of_one_column(file, group, leaf)? else { return Ok(None) };
        let Some(metadata) = self.with_index(alone)? else { return Ok(None) };
        let (Some(values), Some(places)) = (metadata.column_index(), metadata.offset_index())
        else {
            return Ok(None);
        };
        let Some(places_of_column) = places.first().and_then(|group| group.first()) else {
            return Ok(None);
        };

        let schema = metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::from_column_index(0, leaf.field, schema)?
            .with_missing_null_counts_as_zero(false);
        let (min, max) = (
            converter.data_page_mins(values, places, &[0])?,
            converter.data_page_maxes(values, places, &[0])?,
        );
        let null_counts =
            leaf.null_counts(&converter.data_page_null_counts(values, places, &[0])?);

        let rows = u64::try_from(group.num_rows())?;
        let first_rows = places_of_column
            .page_locations()
            .iter()
            .map(|place| u64::try_from(place.first_row_index))
            .collect::<Result<Vec<u64>, _>>()?;
        let ends = first_rows.iter().skip(1).copied().chain([rows]);
        let row_counts: Vec<u64> =
            first_rows.iter().zip(ends).map(|(first, end)| end.saturating_sub(*first)).collect();
        let is_in_order = first_rows.first() == Some(&0) && row_counts.iter().all(|rows| *rows > 0);
        if !is_in_order
            || null_counts.len() != row_counts.len()
            || !is_sound(leaf, &min, &max, row_counts.len())
        {
            return Ok(None);
        }
        Ok(Some(BlockPages {
            statistics: Statistics { min, max, null_counts, row_counts },
            first_rows,
        }))
    }

    fn with_index(
        &self,
        metadata: ParquetMetaData,
    ) -> Result<Option<ParquetMetaData>, ParquetError> {
        let Some(chunk) = metadata.row_groups().first().and_then(|group| group.columns().first())
        else {
            return Ok(None);
        };
        let range = |offset: Option<i64>, length: Option<i32>| -> Option<Range<u64>> {
            let (start, length) = (u64::try_from(offset?).ok()?, u64::try_from(length?).ok()?);
            (length > 0).then_some(start..start.checked_add(length)?)
        };
        let values = range(chunk.column_index_offset(), chunk.column_index_length());
        let places = range(chunk.offset_index_offset(), chunk.offset_index_length());
        let (Some(values), Some(places)) = (values, places) else { return Ok(None) };
        let all = values.start.min(places.start)..values.end.max(places.end);
        if values.end - values.start > MAX_INDEX_LEN
            || places.end - places.start > MAX_INDEX_LEN
            || all.end > self.object.size()
        {
            return Ok(None);
        }
        let reader = ObjectReader::new(Arc::clone(&self.object));
        let read = |range: &Range<u64>| {
            reader.get_bytes(range.start, usize::try_from(range.end - range.start)?)
        };
        let (values_bytes, places_bytes) = (read(&values)?, read(&places)?);
        if judge(&values_bytes, COLUMN_INDEX) != Verdict::Harmless
            || judge(&places_bytes, OFFSET_INDEX) != Verdict::Harmless
        {
            return Ok(None);
        }
        // The decoder expects one run of bytes from the first index to the last. Bytes between the
        // two are ignored, so they are not read.
        let Ok(length) = usize::try_from(all.end - all.start) else { return Ok(None) };
        if length as u64 > 4 * MAX_INDEX_LEN {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        for (range, part) in [(&values, &values_bytes), (&places, &places_bytes)] {
            let start = usize::try_from(range.start - all.start)?;
            if let Some(target) = bytes.get_mut(start..start + part.len()) {
                target.copy_from_slice(part);
            }
        }
        let mut decoder =
            ParquetMetaDataPushDecoder::try_new_with_metadata(self.object.size(), metadata)?
                .with_page_index_policy(PageIndexPolicy::Optional);
        decoder.push_range(all, bytes.into())?;
        match decoder.try_decode()? {
            DecodeResult::Data(metadata) => Ok(Some(metadata)),
            _ => Ok(None),
        }
    }
}

/// Metadata of a file with only this row group and this column.
fn of_one_column(
    file: &ParquetMetaData,
    group: &RowGroupMetaData,
    leaf: &Leaf<'_>,
) -> Result<Option<ParquetMetaData>, ParquetError> {
    let Some(chunk) = group.columns().get(leaf.index) else { return Ok(None) };
    let Some(column) = leaf.schema.columns().get(leaf.index) else { return Ok(None) };
    let root =
        Type::group_type_builder("schema").with_fields(vec![column.self_type_ptr()]).build()?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
    let group = RowGroupMetaData::builder(Arc::clone(&schema))
        .set_num_rows(group.num_rows())
        .set_column_metadata(vec![chunk.clone()])
        .build()?;
    let orders = file
        .file_metadata()
        .column_orders()
        .and_then(|orders| Some(vec![*orders.get(leaf.index)?]));
    let created_by = file.file_metadata().created_by().map(ToOwned::to_owned);
    let file = FileMetaData::new(
        file.file_metadata().version(),
        group.num_rows(),
        created_by,
        None,
        schema,
        orders,
    );
    Ok(Some(ParquetMetaData::new(file, vec![group])))
}
