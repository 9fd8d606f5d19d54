//! The interface between the walk of a file and its visitors.

use crate::files::FileFormat;
use crate::image_header::Header;
use crate::options::CheckOptions;
use crate::problem::{Problem, Rule};
use arrow_schema::Schema;
use serde::Serialize;
use serde_json::{Map, Value};
use shardmill_documents::archive::Archive;
use shardmill_documents::json::json_text;
use shardmill_documents::source::tokens::{TokenScope, Unresolved, stem};
use shardmill_formats::arrayrecord::{ArrayRecordFile, Records, WalkedChunk};
use shardmill_formats::mds::FileEntry;
use shardmill_formats::parquet::ParquetFile;
use shardmill_formats::tar::Member;
use std::borrow::Cow;
use std::collections::HashMap;

/// What both visitors know about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    pub path: String,
    pub format: FileFormat,
    pub bytes: u64,
    pub samples: u64,
    pub rows: ModalityRows,
}

impl FileSummary {
    /// Counts rows of a table, or records.
    pub(crate) fn add_rows(&mut self, rows: u64) {
        self.samples += rows;
        self.rows.other += rows;
    }
}

/// Rows by modality.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModalityRows {
    pub metadata: u64,
    pub text: u64,
    pub image: u64,
    pub other: u64,
}

impl ModalityRows {
    /// Counts one row.
    pub fn add(&mut self, modality: &str) {
        match modality {
            "metadata" => self.metadata += 1,
            "text" => self.text += 1,
            "image" => self.image += 1,
            _ => self.other += 1,
        }
    }
}

/// Receives the content of one file, in its order.
pub(crate) trait Visitor<'a> {
    /// Whether all bytes are read and compared with their checksums.
    const IS_THOROUGH: bool;
    /// How the rows of interleaved documents in a Parquet file are read.
    const PASSES: &'static [Pass];

    fn new(file: FileSummary, options: &'a CheckOptions) -> Self;
    fn file(&mut self) -> &mut FileSummary;
    fn problem(&mut self, problem: Problem);
    /// What is unusual about a valid file.
    fn note(&mut self, _note: String) {}

    /// Whether records, or rows of this pass, are still of interest.
    fn wants_more(&self) -> bool {
        true
    }

    fn image_file(&mut self, _header: &Header) {}
    /// The columns of a file that is a table.
    fn columns(&mut self, _schema: &Schema) {}
    /// The entries of a shard in its index, the stored file last.
    fn shard(&mut self, _files: &[&FileEntry], _name: &str) {}

    fn parquet(&mut self, _file: &ParquetFile, _has_documents: bool) {}
    fn row(&mut self, row: &Row<'_>);

    /// The index of an ArrayRecord file, if it can be read. Returns whether chunks are of interest.
    fn index(&mut self, _index: Option<&ArrayRecordFile>) -> bool {
        true
    }
    /// The records of a chunk in the index.
    fn records(&mut self, _records: &Records<'_>) {}
    fn chunk(&mut self, _chunk: &WalkedChunk) {}

    /// Returns whether an archive has interleaved documents; otherwise its samples are rows.
    /// `documents` are indices of its members.
    fn archive(&mut self, archive: &Archive, documents: &[usize]) -> bool;
    fn document(&mut self, document: &Document<'_>);
    fn resolve<'d>(
        &self,
        scope: &TokenScope<'d>,
        token: Option<&str>,
        is_only: bool,
    ) -> Resolved<'d> {
        scope.resolve(token, is_only)
    }
    /// An image that an entry of the document is the first to name.
    fn image(&mut self, _image: &Member, _header: &Header) {}
    /// The images that the entries of the document name, by their index in the archive.
    fn images(
        &mut self,
        document: &Document<'_>,
        images: &[(usize, &Member)],
        headers: &HashMap<usize, Header>,
    );
    fn archive_end(&mut self, _archive: &Archive, _documents: &[usize]) {}
}

pub(crate) type Resolved<'d> = Result<(usize, &'d Member), Unresolved<'d>>;

/// Columns that are read together.
pub(crate) struct Pass {
    pub columns: &'static [&'static str],
    /// All other columns are decoded too.
    pub reads_others: bool,
    /// Counted in whole rows.
    pub batch_bytes: u64,
}

/// The reserved columns of a row, `None` where null or not read.
pub(crate) struct Row<'r> {
    pub pass: usize,
    /// Counted from 0 over the whole file.
    pub number: u64,
    pub id: Option<&'r str>,
    pub modality: Option<&'r str>,
    pub position: Option<i32>,
    pub content_type: Option<&'r str>,
    pub text: Option<&'r str>,
    pub image: Option<&'r [u8]>,
    pub source_ref: Option<&'r str>,
    pub error: Option<&'r str>,
}

/// An interleaved document of a tar.
pub(crate) struct Document<'d> {
    pub member: &'d Member,
    pub object: &'d Map<String, Value>,
    pub id: String,
    /// Empty where the key has another value.
    pub texts: &'d [Value],
    pub images: &'d [Value],
}

impl Document<'_> {
    pub(crate) fn problem(&self, rule: Rule, what: impl Into<String>) -> Problem {
        Problem::new(rule, what)
            .of_sample(stem(&self.member.name))
            .at_member(&self.member.name, self.member.offset)
    }
}

/// A text, or the JSON of another value.
pub(crate) fn text_of(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| json_text(value).into(), Cow::Borrowed)
}
