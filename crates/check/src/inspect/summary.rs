//! The summary of one file.

use super::arrayrecord::ArrayRecordSummary;
use super::first_text::FirstText;
use crate::image_header::{Header, ImageHeader};
use crate::visitor::{FileSummary, ModalityRows};
use arrow_schema::Field;
use serde::Serialize;
use shardmill_documents::image_bytes::ImageBytes;
use shardmill_documents::schema::is_json_field;
use shardmill_formats::parquet::{ParquetFile, RowGroup};
use shardmill_formats::table::column_type_name;
use shardmill_images::ImageSize;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest, median and largest value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub min: u64,
    pub median: u64,
    pub max: u64,
}

impl Spread {
    /// For an even number of values the lower median; zeros without values.
    fn of(values: &mut [u64]) -> Self {
        values.sort_unstable();
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        Self {
            min: at(0),
            median: at(values.len().saturating_sub(1) / 2),
            max: at(values.len().saturating_sub(1)),
        }
    }
}

/// Sizes of the measured images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImageSizes {
    pub measured: u64,
    /// Measured images whose header does not state a size.
    pub unreadable: u64,
    pub width: Spread,
    pub height: Spread,
    /// Pages of each image file: a TIFF may have many.
    pub pages: Spread,
    /// Number of image files by detected format.
    pub formats: BTreeMap<String, u64>,
}

/// Collects sizes for the summary.
#[derive(Debug, Default)]
pub(super) struct Measures {
    widths: Vec<u64>,
    heights: Vec<u64>,
    pages: Vec<u64>,
    unreadable: u64,
    formats: BTreeMap<String, u64>,
}

impl Measures {
    pub(super) fn file(&mut self, header: &Header) {
        if let Ok(header) = header {
            self.pages.push(header.pages.len() as u64);
            *self.formats.entry(header.format.extension().to_owned()).or_default() += 1;
        }
    }

    pub(super) fn image(&mut self, size: Option<ImageSize>) {
        match size {
            Some(size) => {
                self.widths.push(u64::from(size.width));
                self.heights.push(u64::from(size.height));
            }
            None => self.unreadable += 1,
        }
    }

    /// An image of which only the first page is a row.
    pub(super) fn first_page(&mut self, bytes: &[u8]) {
        let header = ImageHeader::read(ImageBytes::Memory(bytes), false);
        self.file(&header);
        self.image(header.ok().and_then(|header| header.pages.into_iter().next()?.ok()));
    }

    pub(super) fn finish(mut self) -> ImageSizes {
        ImageSizes {
            measured: self.widths.len() as u64 + self.unreadable,
            unreadable: self.unreadable,
            width: Spread::of(&mut self.widths),
            height: Spread::of(&mut self.heights),
            pages: Spread::of(&mut self.pages),
            formats: self.formats,
        }
    }
}

/// A passthrough column, or a column of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ColumnSummary {
    pub name: String,
    pub data_type: String,
    /// Parquet only: the codecs of its chunks.
    pub codecs: Vec<String>,
    /// Parquet only.
    pub stored_bytes: Option<u64>,
    pub decoded_bytes: Option<u64>,
}

impl ColumnSummary {
    pub(super) fn of(field: &Field) -> Self {
        let data_type =
            if is_json_field(field) { "JSON".to_owned() } else { column_type_name(field) };
        Self { name: field.name().clone(), data_type, ..Self::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowGroupSummary {
    pub rows: u64,
    pub stored_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamageSummary {
    pub member: Option<String>,
    pub offset: Option<u64>,
    pub reason: String,
}

/// The summary of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inspection {
    #[serde(flatten)]
    pub file: FileSummary,
    /// Tar only: compression of the whole file.
    pub compression: Option<String>,
    /// Tar only.
    pub members: Option<u64>,
    /// Text in UTF-8 and images as stored; `metadata` is the rest of the JSON or the other columns.
    pub bytes_by_modality: ModalityRows,
    pub content_types: BTreeMap<String, u64>,
    pub images: ImageSizes,
    pub columns: Vec<ColumnSummary>,
    /// Parquet only.
    pub row_groups: Vec<RowGroupSummary>,
    pub created_by: Option<String>,
    pub arrayrecord: Option<ArrayRecordSummary>,
    pub texts: Vec<FirstText>,
    pub image_names: Vec<String>,
    pub damage: Vec<DamageSummary>,
}

impl Inspection {
    /// Columns and row groups, from the footer alone.
    pub(super) fn describe(&mut self, file: &ParquetFile) {
        self.created_by = file.created_by().map(str::to_owned);
        let groups = file.row_groups();
        for field in file.schema().fields() {
            // The path of a nested column begins with its own name.
            let is_own = |path: &str| {
                path.strip_prefix(field.name().as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let chunks: Vec<_> = groups
                .iter()
                .flat_map(|group| &group.columns)
                .filter(|chunk| is_own(&chunk.path))
                .collect();
            let codecs: BTreeSet<&str> = chunks.iter().map(|chunk| chunk.codec.as_str()).collect();
            let decoded = chunks.iter().map(|chunk| chunk.decoded_bytes).sum();
            self.columns.push(ColumnSummary {
                codecs: codecs.into_iter().map(str::to_owned).collect(),
                stored_bytes: Some(chunks.iter().map(|chunk| chunk.stored_bytes).sum()),
                decoded_bytes: Some(decoded),
                ..ColumnSummary::of(field)
            });
            match field.name().as_str() {
                "binary_content" => self.bytes_by_modality.image = decoded,
                "text_content" => {}
                _ => self.bytes_by_modality.metadata += decoded,
            }
        }
        let stored = |group: &RowGroup| group.columns.iter().map(|chunk| chunk.stored_bytes).sum();
        self.row_groups = groups
            .iter()
            .map(|group| RowGroupSummary { rows: group.rows, stored_bytes: stored(group) })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_nothing_is_zero_and_of_an_even_number_takes_the_lower_middle() {
        assert_eq!(Spread::of(&mut []), Spread::default());
        assert_eq!(Spread::of(&mut [4, 1, 3, 2]), Spread { min: 1, median: 2, max: 4 });
    }
}
