//! Rows of whole documents between source and sink.
//!
//! A chunk fits into the memory of one thread; a batch becomes one output file and consists of one
//! or more chunks. The invariants: documents are never split between chunks, rows are in document
//! order, and image bytes are only loaded if a stage needs them.

use crate::payload::Payload;
use crate::source_ref::SourceRef;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::ops::Range;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Modality {
    #[default]
    Metadata,
    Text,
    Image,
    /// Passed through in memory; only Parquet can store it.
    Other(Box<str>),
}

impl Modality {
    #[must_use]
    pub fn new(name: &str) -> Self {
        match name {
            "metadata" => Self::Metadata,
            "text" => Self::Text,
            "image" => Self::Image,
            other => Self::Other(other.into()),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Metadata => "metadata",
            Self::Text => "text",
            Self::Image => "image",
            Self::Other(name) => name,
        }
    }

    #[must_use]
    pub fn is_content(&self) -> bool {
        !matches!(self, Self::Metadata)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Row {
    pub document: usize,
    pub position: i32,
    pub modality: Modality,
    pub content_type: Option<String>,
    pub text: Option<String>,
    pub payload: Payload,
    pub source_ref: Option<String>,
    pub error: Option<String>,
    /// The row of [`Chunk::extras`] that holds the passthrough values; `None` is all null.
    pub extra: Option<u32>,
}

impl Row {
    /// Size of the row as stored, without passthrough values.
    #[must_use]
    pub fn byte_size(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len) as u64;
        self.payload.len()
            + text(&self.text)
            + text(&self.source_ref)
            + text(&self.content_type)
            + 16
    }

    /// The TIFF page that the locator names.
    #[must_use]
    pub fn frame(&self) -> Option<u64> {
        SourceRef::parse(self.source_ref.as_deref()).ok()?.frame_index
    }
}

/// The position of a chunk in the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Number of the batch within its split.
    pub batch: usize,
    /// The inputs of the batch, from which the name of its output is derived.
    pub sources: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Chunk {
    /// Ids, one a document.
    pub documents: Vec<String>,
    pub rows: Vec<Row>,
    /// Passthrough columns.
    pub extras: RecordBatch,
    /// All columns in output order, the reserved ones included.
    pub schema: SchemaRef,
    pub lineage: Lineage,
}

impl Chunk {
    /// The row ranges of the documents, in order.
    #[must_use]
    pub fn document_ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(self.documents.len());
        let mut current = None;
        for (index, row) in self.rows.iter().enumerate() {
            match ranges.last_mut() {
                Some(range) if current == Some(row.document) => range.end = index + 1,
                _ => ranges.push(index..index + 1),
            }
            current = Some(row.document);
        }
        ranges
    }

    #[must_use]
    pub fn id_of(&self, row: &Row) -> &str {
        self.documents.get(row.document).map_or("", String::as_str)
    }

    /// Keeps the rows whose flag is set and forgets documents that lost all of theirs.
    pub fn retain(&mut self, keep: &[bool]) {
        let mut flags = keep.iter();
        self.rows.retain(|_| flags.next().copied().unwrap_or(false));
        let mut kept: Vec<String> = Vec::with_capacity(self.documents.len());
        let mut last = None;
        for row in &mut self.rows {
            if last != Some(row.document) {
                last = Some(row.document);
                kept.push(
                    self.documents.get_mut(row.document).map(std::mem::take).unwrap_or_default(),
                );
            }
            row.document = kept.len() - 1;
        }
        self.documents = kept;
    }
}
