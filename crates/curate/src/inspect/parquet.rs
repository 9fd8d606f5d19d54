//! Inspects a Parquet file: footer, the small columns of all rows, and the first images.

use super::summary::{ColumnSummary, FirstText, Inspection, Measures, RowGroupSummary};
use super::{InspectOptions, cut};
use crate::Result;
use crate::image_header::{Depth, ImageBytes, ImageHeader};
use crate::source_ref::SourceRef;
use crate::table::cast_checked;
use crate::verify::holds_documents;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, LargeStringArray, RecordBatch};
use arrow_schema::DataType;
use shardmill_engine::Cancel;
use shardmill_formats::parquet::{ParquetFile, RowGroup};
use shardmill_storage::RangeRead;
use std::collections::BTreeSet;
use std::sync::Arc;

const IMAGES: &str = "binary_content";
const TEXTS: &str = "text_content";
const SMALL_COLUMNS: [&str; 6] = ["sample_id", "position", "modality", "content_type", TEXTS, "source_ref"];
/// Counted in whole rows, of which the small columns are a small part.
const SMALL_BATCH_BYTES: u64 = 256 << 20;
const IMAGE_BATCH_BYTES: u64 = 8 << 20;

pub(super) fn inspect_parquet(object: Arc<dyn RangeRead>, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let Some(file) = inspection.readable(ParquetFile::open(object)) else { return Ok(()) };
    inspection.created_by = file.created_by().map(str::to_owned);
    describe(&file, &file.row_groups(), inspection);
    if !holds_documents(file.schema()) {
        inspection.samples = file.num_rows();
        inspection.rows.other = file.num_rows();
        return Ok(());
    }
    count(&file, options, cancel, inspection)?;
    measure(&file, options, cancel, inspection)
}

/// Columns and row groups, from the footer alone.
fn describe(file: &ParquetFile, groups: &[RowGroup], inspection: &mut Inspection) {
    for field in file.schema().fields() {
        // The path of a nested column begins with its own name.
        let is_own = |path: &str| path.strip_prefix(field.name().as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let chunks: Vec<_> = groups.iter().flat_map(|group| &group.columns).filter(|chunk| is_own(&chunk.path)).collect();
        let codecs: BTreeSet<&str> = chunks.iter().map(|chunk| chunk.codec.as_str()).collect();
        let decoded = chunks.iter().map(|chunk| chunk.decoded_bytes).sum();
        inspection.columns.push(ColumnSummary {
            codecs: codecs.into_iter().map(str::to_owned).collect(),
            stored_bytes: Some(chunks.iter().map(|chunk| chunk.stored_bytes).sum()),
            decoded_bytes: Some(decoded),
            ..ColumnSummary::of(field)
        });
        match field.name().as_str() {
            IMAGES => inspection.bytes_by_modality.image = decoded,
            TEXTS => {}
            _ => inspection.bytes_by_modality.metadata += decoded,
        }
    }
    let stored = |group: &RowGroup| group.columns.iter().map(|chunk| chunk.stored_bytes).sum();
    inspection.row_groups = groups.iter().map(|group| RowGroupSummary { rows: group.rows, stored_bytes: stored(group) }).collect();
}

/// Samples, rows, content types, first texts and image names, from the small columns of all rows.
fn count(file: &ParquetFile, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let mut last_id = None;
    let Some(batches) = inspection.readable(file.batches(&SMALL_COLUMNS, None, SMALL_BATCH_BYTES)) else { return Ok(()) };
    for batch in batches {
        cancel.check()?;
        let Some(batch) = inspection.readable(batch) else { break };
        let Some(columns) = inspection.readable(SmallColumns::new(&batch)) else { break };
        (0..batch.num_rows()).for_each(|row| columns.add(row, &mut last_id, options, inspection));
    }
    Ok(())
}

struct SmallColumns {
    texts: [Option<LargeStringArray>; 5],
    positions: Option<arrow_array::Int32Array>,
}

impl SmallColumns {
    fn new(batch: &RecordBatch) -> Result<Self> {
        let text = |name: &str| -> Result<Option<LargeStringArray>> {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            Ok(Some(cast_checked(name, column, &DataType::LargeUtf8)?.as_string::<i64>().clone()))
        };
        let positions = batch.column_by_name("position").map(|column| cast_checked("position", column, &DataType::Int32)).transpose()?;
        Ok(Self {
            texts: [text("sample_id")?, text("modality")?, text("content_type")?, text(TEXTS)?, text("source_ref")?],
            positions: positions.map(|column| column.as_primitive::<Int32Type>().clone()),
        })
    }

    fn add(&self, row: usize, last_id: &mut Option<String>, options: &InspectOptions, inspection: &mut Inspection) {
        let [id, modality, content_type, text, source_ref] =
            self.texts.each_ref().map(|column| column.as_ref().filter(|column| column.is_valid(row)).map(|column| column.value(row)));
        let modality = modality.unwrap_or("null");
        inspection.rows.add(modality);
        if modality == "metadata" || id != last_id.as_deref() {
            inspection.samples += 1;
            *last_id = id.map(str::to_owned);
        }
        if let Some(content_type) = content_type {
            inspection.content_type(content_type);
        }
        if let Some(text) = text {
            inspection.bytes_by_modality.text += text.len() as u64;
            if inspection.texts.len() < options.first {
                let position = self.positions.as_ref().filter(|column| column.is_valid(row)).map_or(-1, |column| i64::from(column.value(row)));
                inspection.texts.push(FirstText { sample: id.unwrap_or_default().to_owned(), position, text: cut(text, options.text_len) });
            }
        }
        if modality == "image" && inspection.image_names.len() < options.first {
            let source = SourceRef::parse(source_ref).unwrap_or_default();
            let page = source.frame_index.map_or_else(String::new, |page| format!(" page {page}"));
            let name = source.member.or(source.path).unwrap_or_else(|| "unnamed".to_owned());
            inspection.image_names.push(format!("{name}{page}"));
        }
    }
}

/// Sizes of the first images.
fn measure(file: &ParquetFile, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let mut measures = Measures::default();
    let mut left = options.measure_bytes;
    let batches = match file.batches(&["modality", IMAGES], Some(IMAGES), IMAGE_BATCH_BYTES) {
        Ok(batches) if file.schema().field_with_name(IMAGES).is_ok() => batches,
        _ => return Ok(()),
    };
    for batch in batches {
        cancel.check()?;
        let Some(batch) = inspection.readable(batch) else { break };
        let Some(column) = batch.column_by_name(IMAGES).and_then(|column| cast_checked(IMAGES, column, &DataType::BinaryView).ok()) else { break };
        for bytes in column.as_binary_view().iter().flatten() {
            left = left.saturating_sub(bytes.len() as u64);
            let header = ImageHeader::read(ImageBytes::Memory(bytes), Depth::Sizes);
            measures.file(&header);
            measures.image(header.ok().and_then(|header| header.pages.into_iter().next()?.ok()));
        }
        if left == 0 {
            break;
        }
    }
    inspection.images = measures.finish();
    Ok(())
}
