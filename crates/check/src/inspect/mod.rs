//! Summarizes what a walk finds: samples, rows, sizes, first texts.
//!
//! The invariants: of a tar, only headers and JSON are read; of a Parquet file, the image column is
//! read up to [`MEASURE_BYTES`], and so are the records of an ArrayRecord file whose index does not
//! state their lengths.

mod arrayrecord;
mod first_text;
mod summary;

use crate::image_header::Header;
use crate::options::CheckOptions;
use crate::problem::{Problem, Rule};
use crate::visitor::{Document, FileSummary, Pass, Row, Visitor, text_of};
use arrow_schema::Schema;
use first_text::cut;
use shardmill_documents::archive::Archive;
use shardmill_documents::source::columns::Columns;
use shardmill_documents::source::tokens::content_type;
use shardmill_documents::source_ref::SourceRef;
use shardmill_formats::arrayrecord::{ArrayRecordFile, ChunkKind, Records, WalkedChunk};
use shardmill_formats::mds::FileEntry;
use shardmill_formats::parquet::ParquetFile;
use shardmill_formats::tar::{Compression, Member};
use std::collections::HashMap;
use summary::Measures;

pub use arrayrecord::ArrayRecordSummary;
pub use first_text::FirstText;
pub use summary::{ColumnSummary, DamageSummary, ImageSizes, Inspection, RowGroupSummary, Spread};

/// Approximate number of bytes of images or records that are read to measure them.
const MEASURE_BYTES: u64 = 64 << 20;

pub(crate) struct Inspect<'a> {
    options: &'a CheckOptions,
    inspection: Inspection,
    /// Of the JSON of documents.
    columns: Columns,
    measures: Measures,
    unmeasured_bytes: u64,
    /// Of the document of the row before.
    last_id: Option<String>,
}

impl Inspect<'_> {
    pub(crate) fn finish(mut self) -> Inspection {
        self.inspection.images = self.measures.finish();
        self.inspection
            .columns
            .extend(self.columns.fields().iter().map(|field| ColumnSummary::of(field)));
        self.inspection
    }

    fn text(&mut self, sample: &str, position: i64, text: &str) {
        self.inspection.bytes_by_modality.text += text.len() as u64;
        if self.inspection.texts.len() < self.options.first {
            self.inspection.texts.push(FirstText {
                sample: sample.to_owned(),
                position,
                text: cut(text),
            });
        }
    }

    fn content_type(&mut self, name: &str) {
        *self.inspection.content_types.entry(name.to_owned()).or_default() += 1;
    }

    fn image_name(&mut self, name: String) {
        if self.inspection.image_names.len() < self.options.first {
            self.inspection.image_names.push(name);
        }
    }
}

impl<'a> Visitor<'a> for Inspect<'a> {
    const IS_THOROUGH: bool = false;
    const PASSES: &'static [Pass] = &[
        Pass {
            columns: &[
                "sample_id",
                "position",
                "modality",
                "content_type",
                "text_content",
                "source_ref",
            ],
            reads_others: false,
            // Of whole rows, of which these columns are a small part.
            batch_bytes: 256 << 20,
        },
        Pass { columns: &["binary_content"], reads_others: false, batch_bytes: 8 << 20 },
    ];

    fn new(file: FileSummary, options: &'a CheckOptions) -> Self {
        Self {
            options,
            inspection: Inspection { file, ..Inspection::default() },
            columns: Columns::default(),
            measures: Measures::default(),
            unmeasured_bytes: MEASURE_BYTES,
            last_id: None,
        }
    }

    fn file(&mut self) -> &mut FileSummary {
        &mut self.inspection.file
    }

    fn problem(&mut self, problem: Problem) {
        self.inspection.damage.push(DamageSummary {
            member: problem.member,
            offset: problem.offset,
            reason: problem.what,
        });
    }

    fn wants_more(&self) -> bool {
        match &self.inspection.arrayrecord {
            Some(summary) => {
                self.inspection.damage.is_empty()
                    && (summary.first.len() < self.options.first || self.unmeasured_bytes > 0)
            }
            None => self.unmeasured_bytes > 0,
        }
    }

    fn image_file(&mut self, header: &Header) {
        self.measures.file(header);
        if let Ok(header) = header {
            self.content_type(header.format.mime());
            header.pages.iter().for_each(|page| self.measures.image(page.as_ref().ok().copied()));
        }
        self.inspection.bytes_by_modality.image = self.inspection.file.bytes;
    }

    /// Later shards of an index may have more columns.
    fn columns(&mut self, schema: &Schema) {
        let columns = &mut self.inspection.columns;
        for field in schema.fields() {
            if columns.iter().all(|column| column.name != *field.name()) {
                columns.push(ColumnSummary::of(field));
            }
        }
    }

    fn shard(&mut self, files: &[&FileEntry], _name: &str) {
        self.inspection.bytes_by_modality.other += files.last().map_or(0, |file| file.bytes);
    }

    fn parquet(&mut self, file: &ParquetFile, has_documents: bool) {
        self.inspection.describe(file);
        if !has_documents {
            self.inspection.file.add_rows(file.num_rows());
        }
    }

    fn row(&mut self, row: &Row<'_>) {
        if row.pass > 0 {
            let Some(bytes) = row.image else { return };
            self.unmeasured_bytes = self.unmeasured_bytes.saturating_sub(bytes.len() as u64);
            return self.measures.first_page(bytes);
        }
        let modality = row.modality.unwrap_or("null");
        self.inspection.file.rows.add(modality);
        if modality == "metadata" || row.id != self.last_id.as_deref() {
            self.inspection.file.samples += 1;
            self.last_id = row.id.map(str::to_owned);
        }
        if let Some(content_type) = row.content_type {
            self.content_type(content_type);
        }
        if let Some(text) = row.text {
            self.text(row.id.unwrap_or_default(), row.position.map_or(-1, i64::from), text);
        }
        if modality == "image" {
            let source = SourceRef::parse(row.source_ref).unwrap_or_default();
            let page = source.frame_index.map_or_else(String::new, |page| format!(" page {page}"));
            let name = source.member.or(source.path).unwrap_or_else(|| "unnamed".to_owned());
            self.image_name(format!("{name}{page}"));
        }
    }

    fn index(&mut self, index: Option<&ArrayRecordFile>) -> bool {
        let Some(index) = index else { return false };
        self.inspection.file.add_rows(index.num_records());
        self.inspection.bytes_by_modality.other = index.decoded_size();
        self.inspection.arrayrecord = Some(ArrayRecordSummary::of(index));
        true
    }

    fn records(&mut self, records: &Records<'_>) {
        self.unmeasured_bytes = self.unmeasured_bytes.saturating_sub(records.values().len() as u64);
        let Some(summary) = &mut self.inspection.arrayrecord else { return };
        records.iter().for_each(|record| summary.add(record, self.options.first));
        // The index stated all lengths.
        if summary.measured == summary.records {
            self.unmeasured_bytes = 0;
        }
    }

    fn chunk(&mut self, chunk: &WalkedChunk) {
        if let (ChunkKind::Records { codec, is_transposed }, Some(summary)) =
            (chunk.kind, &mut self.inspection.arrayrecord)
            && summary.codec.is_none()
        {
            (summary.codec, summary.is_transposed) = (Some(codec.to_string()), is_transposed);
        }
    }

    fn archive(&mut self, archive: &Archive, documents: &[usize]) -> bool {
        self.inspection.compression = Some(archive.compression.to_string());
        // The reader of rows reports compressions that are not read.
        if !matches!(archive.compression, Compression::None | Compression::Gzip | Compression::Zstd)
        {
            return false;
        }
        self.inspection.members = Some(archive.members.len() as u64);
        for (member, fault) in archive.lost.values() {
            self.problem(
                Problem::new(Rule::Structure, fault.to_string())
                    .at_member(&member.name, member.offset),
            );
        }
        archive.damage.is_some() || !documents.is_empty()
    }

    fn document(&mut self, document: &Document<'_>) {
        self.content_type("application/json");
        let before = self.inspection.bytes_by_modality.text;
        for (position, text) in
            document.texts.iter().enumerate().filter(|(_, text)| !text.is_null())
        {
            self.content_type("text/plain");
            self.text(&document.id, i64::try_from(position).unwrap_or(i64::MAX), &text_of(text));
        }
        let text_bytes = self.inspection.bytes_by_modality.text - before;
        self.inspection.bytes_by_modality.metadata +=
            document.member.size.saturating_sub(text_bytes);
        let keys = &self.options.keys;
        let consumed =
            [Some(&keys.texts_field), Some(&keys.images_field), keys.image_member_field.as_ref()];
        for (key, value) in
            document.object.iter().filter(|(key, _)| !consumed.contains(&Some(*key)))
        {
            let column = self.columns.number(key);
            self.columns.observe(column, value);
        }
    }

    fn image(&mut self, image: &Member, header: &Header) {
        self.measures.file(header);
        self.inspection.bytes_by_modality.image += image.size;
        self.image_name(image.name.clone());
    }

    fn images(
        &mut self,
        _document: &Document<'_>,
        images: &[(usize, &Member)],
        headers: &HashMap<usize, Header>,
    ) {
        let mut frames: HashMap<usize, usize> = HashMap::new();
        for (index, image) in images {
            let mime = content_type(&image.name);
            self.content_type(mime);
            let frame = frames.entry(*index).or_default();
            let page = if mime == "image/tiff" { *frame } else { 0 };
            *frame += 1;
            self.measures.image(
                headers.get(index).and_then(|header| {
                    header.as_ref().ok()?.pages.get(page)?.as_ref().ok().copied()
                }),
            );
        }
    }
}
