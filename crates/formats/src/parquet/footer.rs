//! Decodes a footer, and corrects what other readers accept and the decoder does not.
//!
//! Takes the bytes of a footer that were judged harmless, and returns its metadata. Called when a
//! file is opened.

use super::thrift::{FooterParts, list_header, long_list};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnChunkMetaDataBuilder, ParquetMetaData, ParquetMetaDataOptions,
    ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescPtr;
use std::sync::Arc;

/// The decoder numbers row groups with 16 bits, which only encrypted files need.
const MAX_ROW_GROUPS: usize = i16::MAX as usize;

/// The metadata, with this schema in place of the stored one if it is given.
/// `parts` are those of `footer`.
pub(super) fn decode(
    footer: &[u8],
    parts: Option<FooterParts<'_>>,
    schema: Option<SchemaDescPtr>,
) -> Result<ParquetMetaData, ParquetError> {
    corrected(decode_groups(footer, parts, schema, MAX_ROW_GROUPS)?)
}

/// Decodes at most `most` row groups at a time.
fn decode_groups(
    footer: &[u8],
    parts: Option<FooterParts<'_>>,
    schema: Option<SchemaDescPtr>,
    most: usize,
) -> Result<ParquetMetaData, ParquetError> {
    let options = schema.map(|schema| ParquetMetaDataOptions::new().with_schema(schema));
    let Some((parts, groups)) =
        parts.and_then(|parts| Some((parts, long_list(parts.row_groups, most)?)))
    else {
        return ParquetMetaDataReader::decode_metadata_with_options(footer, options.as_ref());
    };
    let mut pieces = groups.chunks(most).map(|groups| {
        let piece = [
            parts.before_row_groups,
            &list_header(groups.len()),
            &groups.concat(),
            parts.after_row_groups,
        ]
        .concat();
        ParquetMetaDataReader::decode_metadata_with_options(&piece, options.as_ref())
    });
    let first = pieces
        .next()
        .transpose()?
        .ok_or_else(|| ParquetError::General("the footer has no row groups".to_owned()))?;
    let mut whole = first.into_builder();
    let mut all = whole.take_row_groups();
    for piece in pieces {
        all.extend(piece?.into_builder().take_row_groups());
    }
    Ok(whole.set_row_groups(all).build())
}

/// Removes positions of dictionaries that are not before the data. Old writers state 0 if there is
/// no dictionary; if there is one, they state its position as that of the data.
fn corrected(metadata: ParquetMetaData) -> Result<ParquetMetaData, ParquetError> {
    Ok(changed(&metadata, is_misplaced, |chunk| chunk.set_dictionary_page_offset(None))?
        .unwrap_or(metadata))
}

/// The metadata by which pages are decoded: the decoder gets those of Brotli decompressed.
pub(super) fn for_pages(
    metadata: &Arc<ParquetMetaData>,
) -> Result<Arc<ParquetMetaData>, ParquetError> {
    let is_brotli =
        |chunk: &ColumnChunkMetaData| matches!(chunk.compression(), Compression::BROTLI(_));
    let changed =
        changed(metadata, is_brotli, |chunk| chunk.set_compression(Compression::UNCOMPRESSED))?;
    Ok(changed.map_or_else(|| Arc::clone(metadata), Arc::new))
}

/// `metadata` with a change of the chunks that are meant, if there are any.
fn changed(
    metadata: &ParquetMetaData,
    is_meant: fn(&ColumnChunkMetaData) -> bool,
    change: fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder,
) -> Result<Option<ParquetMetaData>, ParquetError> {
    if !metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).any(is_meant) {
        return Ok(None);
    }
    let groups = metadata.row_groups().iter().map(|group| {
        let chunks = group.columns().iter().cloned().map(|chunk| match is_meant(&chunk) {
            true => change(chunk.into_builder()).build(),
            false => Ok(chunk),
        });
        let chunks = chunks.collect::<Result<Vec<_>, _>>()?;
        group.clone().into_builder().set_column_metadata(chunks).build()
    });
    let groups = groups.collect::<Result<Vec<_>, ParquetError>>()?;
    Ok(Some(metadata.clone().into_builder().set_row_groups(groups).build()))
}

fn is_misplaced(chunk: &ColumnChunkMetaData) -> bool {
    // The position of the data is 0 if a chunk has a dictionary but no values.
    let data = chunk.data_page_offset();
    chunk.dictionary_page_offset().is_some_and(|offset| offset <= 0 || (offset >= data && data > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::thrift::judge_footer;
    use crate::parquet::{ParquetWriter, ParquetWriterOptions};
    use arrow_array::{ArrayRef, Int32Array, RecordBatch};

    /// The footer of a file with a row group for each of `rows`.
    fn footer(rows: i32) -> Vec<u8> {
        let batch = |row| {
            RecordBatch::try_from_iter([("x", Arc::new(Int32Array::from(vec![row])) as ArrayRef)])
                .unwrap()
        };
        let mut writer = ParquetWriter::new(
            "a.parquet",
            Vec::new(),
            batch(0).schema(),
            &ParquetWriterOptions::default(),
        )
        .unwrap();
        (0..rows).for_each(|row| writer.write_row_group(&batch(row)).unwrap());
        let file = writer.finish().unwrap();
        let len =
            u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
        file[file.len() - 8 - len..file.len() - 8].to_vec()
    }

    #[test]
    fn row_groups_in_pieces_are_those_of_the_whole_footer() {
        for rows in [1, 7, 20, 300] {
            let footer = footer(rows);
            let whole = ParquetMetaDataReader::decode_metadata(&footer).unwrap();
            for most in [1, 2, 14, 15, 16, 299, 300, 301] {
                let (_verdict, parts) = judge_footer(&footer);
                let found = decode_groups(&footer, parts, None, most).unwrap();
                let facts = |metadata: &ParquetMetaData| {
                    let groups = metadata.row_groups().iter();
                    groups
                        .map(|group| (group.num_rows(), group.columns().to_vec()))
                        .collect::<Vec<_>>()
                };
                assert!(
                    facts(&found) == facts(&whole)
                        && found.file_metadata() == whole.file_metadata(),
                    "{rows} {most}"
                );
            }
        }
    }

    #[test]
    fn dictionary_counts_only_before_the_data() {
        let metadata = ParquetMetaDataReader::decode_metadata(&footer(1)).unwrap();
        let data = metadata.row_group(0).column(0).data_page_offset();
        for (stated, expected) in [
            (Some(4), Some(4)),
            (Some(0), None),
            (Some(-1), None),
            (Some(data), None),
            (Some(data + 1), None),
            (None, None),
        ] {
            let chunk = metadata
                .row_group(0)
                .column(0)
                .clone()
                .into_builder()
                .set_dictionary_page_offset(stated)
                .build()
                .unwrap();
            let group = metadata
                .row_group(0)
                .clone()
                .into_builder()
                .set_column_metadata(vec![chunk])
                .build()
                .unwrap();
            let changed = metadata.clone().into_builder().set_row_groups(vec![group]).build();
            assert_eq!(
                corrected(changed).unwrap().row_group(0).column(0).dictionary_page_offset(),
                expected,
                "{stated:?}"
            );
        }
    }
}
