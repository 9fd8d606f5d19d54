//! Passes over the files whose columns are not in a footer, text files and tars, as tasks on other
//! machines.
//!
//! A job in one process opens these files when it is planned. On a cluster, a task opens each of
//! them, with the types inferred from the starts of all files, and returns what planning needs. The
//! invariant: a job has the same columns and the same splits either way.

use super::TableInput;
use super::columns::shown;
use crate::{Error, Result};
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use shardmill_engine::Cancel;
use shardmill_formats::table::{Block, TableFile};
use shardmill_load::{FileOpener, Format, LateTypes, TextSample, text_sample};
use shardmill_plan::InputFile;
use shardmill_plan::schema::{schema_of_text, schema_text};
use shardmill_storage::{AnyStore, Store};
use std::sync::Arc;

/// The passes that a job needs before its first split.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Passes {
    /// One pass per file.
    pub paths: Vec<String>,
    /// Of the text files.
    sample: Option<TextSample>,
}

/// What a pass found in a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Passed {
    /// As text; `None` for a text file, because all text files decide the columns together.
    schema: Option<String>,
    late: Option<LateTypes>,
    blocks: Vec<Block>,
}

/// All passes of a job.
#[derive(Debug)]
pub(crate) struct PassedFiles {
    paths: Vec<String>,
    sample: Option<TextSample>,
    found: Vec<Passed>,
}

/// A file as planning sees it.
pub(super) enum PlannedFile {
    Open(Arc<dyn TableFile>),
    Passed { path: String, schema: SchemaRef, blocks: Vec<Block> },
}

impl PlannedFile {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Open(table) => table.path(),
            Self::Passed { path, .. } => path,
        }
    }

    /// As in the file.
    pub(super) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Open(table) => table.declared_schema(),
            Self::Passed { schema, .. } => schema,
        }
    }

    /// The columns that are read if none are named.
    pub(super) fn shown(&self) -> SchemaRef {
        match self {
            Self::Open(table) => shown(table.as_ref()),
            Self::Passed { schema, .. } => Arc::clone(schema),
        }
    }

    pub(super) fn blocks(&self) -> &[Block] {
        match self {
            Self::Open(table) => table.blocks(),
            Self::Passed { blocks, .. } => blocks,
        }
    }

    pub(super) fn has_rows(&self) -> bool {
        self.blocks().iter().any(|block| block.rows > 0)
    }

    pub(super) fn table(&self) -> Option<&Arc<dyn TableFile>> {
        match self {
            Self::Open(table) => Some(table),
            Self::Passed { .. } => None,
        }
    }
}

impl PassedFiles {
    /// `found` has one entry for each of `passes.paths`.
    pub(crate) fn new(passes: Passes, found: Vec<Passed>) -> Self {
        Self { paths: passes.paths, sample: passes.sample, found }
    }

    /// Whether these are the passes over exactly these files.
    pub(crate) fn is_of<'a>(&self, files: impl IntoIterator<Item = &'a InputFile>) -> bool {
        self.paths.iter().eq(files.into_iter().map(|file| &file.path))
            && self.found.len() == self.paths.len()
    }
}

impl TableInput<'_> {
    /// The passes that planning `files` needs; `None` if it needs none.
    ///
    /// # Errors
    /// When the start of a text file cannot be read, or a format cannot be determined.
    pub(crate) fn passes(
        &self,
        files: &[InputFile],
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Option<Passes>> {
        if files.is_empty() {
            return Ok(None);
        }
        let format = self.format_of(files.first())?;
        self.options.text.check(format)?;
        if !matches!(format, Format::Csv | Format::Jsonl | Format::WebDataset)
            || self.declared_schema(format).is_some()
        {
            return Ok(None);
        }
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let options = self.dataset_options(format, threads);
        let sample = text_sample(format, paths.clone(), &options, cancel)?;
        Ok(Some(Passes { paths, sample }))
    }

    /// Makes the pass over one file of `passes`.
    ///
    /// # Errors
    /// When the file cannot be read, or is not of the format.
    pub(crate) fn pass(&self, passes: &Passes, path: &str) -> Result<Passed> {
        let opener = self.opener(passes.sample.clone())?;
        let table = opener.open(AnyStore.open(path)?)?;
        let is_text = passes.sample.is_some();
        Ok(Passed {
            schema: (!is_text).then(|| schema_text(table.declared_schema())),
            late: opener.late(table.path()),
            blocks: table.blocks().to_vec(),
        })
    }

    /// The files of the passes, as planning sees them.
    ///
    /// # Errors
    /// For a schema that is not valid.
    pub(super) fn planned(&self, passed: &PassedFiles) -> Result<Vec<PlannedFile>> {
        let opener = self.opener(passed.sample.clone())?;
        for (path, found) in passed.paths.iter().zip(&passed.found) {
            if let Some(late) = found.late.clone() {
                opener.add_late(path, late);
            }
        }
        let text = opener.inferred_schema();
        let file = |(path, found): (&String, &Passed)| {
            let own = found.schema.as_deref().map(schema_of_text).transpose();
            let own = own.map_err(|error| Error::option("passed", error.to_string()))?;
            let schema = own.map(Arc::new).or_else(|| text.clone());
            let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
            Ok(PlannedFile::Passed { path: path.clone(), schema, blocks: found.blocks.clone() })
        };
        passed.paths.iter().zip(&passed.found).map(file).collect()
    }

    fn opener(&self, sample: Option<TextSample>) -> Result<FileOpener> {
        let (text, limit) = (self.text(None), self.options.limit());
        Ok(match sample {
            Some(sample) => FileOpener::of_sample(sample, &text, limit)?,
            None => FileOpener::new(Format::WebDataset, &text, limit, &[])?,
        })
    }
}
