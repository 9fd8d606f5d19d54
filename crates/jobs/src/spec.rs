//! A pipeline as data, as sent by Python and to the machines of a cluster.

use crate::Result;
use crate::input_files::{InputFiles, input_files};
use crate::sink::SinkOptions;
use crate::stage::{Stage, StageOptions};
use crate::tables::{self, TableOptions};
use serde::{Deserialize, Serialize};
use shardmill_documents::source::record_options::RecordOptions;
use shardmill_documents::source::webdataset_options::WebDatasetOptions;
use shardmill_formats::limit::DecodeLimit;
use shardmill_load::Format;
use shardmill_plan::{InputFile, Partitioning, refuse_repeated};
use std::sync::Arc;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceOptions {
    #[serde(rename = "webdataset")]
    WebDataset(WebDatasetOptions),
    Parquet(RecordOptions),
    Jsonl(RecordOptions),
    /// Rows of plain tables, not of interleaved documents.
    Table(TableOptions),
}

impl SourceOptions {
    #[must_use]
    pub fn stage_name(&self) -> &'static str {
        match self {
            Self::WebDataset(_) => "webdataset_reader",
            Self::Parquet(_) => "interleaved_parquet_reader",
            Self::Jsonl(_) => "interleaved_jsonl_reader",
            Self::Table(_) => "table_reader",
        }
    }

    /// The memory limit for one value of the input.
    pub(crate) fn limit(&self) -> DecodeLimit {
        match self {
            Self::WebDataset(options) => options.limit(),
            Self::Parquet(options) | Self::Jsonl(options) => options.limit(),
            Self::Table(options) => options.limit(),
        }
    }

    /// The files at or below `paths`, and those skipped.
    fn files(&self, paths: &[String]) -> Result<InputFiles> {
        match self {
            Self::WebDataset(_) => Ok(input_files(paths, Format::WebDataset)?),
            Self::Parquet(_) => Ok(input_files(paths, Format::Parquet)?),
            Self::Jsonl(_) => Ok(input_files(paths, Format::Jsonl)?),
            Self::Table(options) => tables::files(paths, options),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub paths: Vec<String>,
    pub partitioning: Partitioning,
    pub source: SourceOptions,
    pub stages: Vec<StageOptions>,
    pub sink: SinkOptions,
    /// Approximate number of bytes of rows that a thread holds.
    pub chunk_bytes: u64,
    pub max_errors: Option<u64>,
    /// Directories and prefixes, in addition to those of the inputs, below which the paths of rows
    /// are read.
    #[serde(default)]
    pub allowed_roots: Vec<String>,
    /// Columns that identify a row, in a job that tracks rows.
    #[serde(default)]
    pub id_columns: Vec<String>,
    #[serde(default)]
    pub allows_null_ids: bool,
    /// Whether a file may be replaced although the mode requires an empty directory: a repeated
    /// attempt at a split writes it again.
    pub may_replace: bool,
}

impl Spec {
    /// # Errors
    /// For any invalid option, before a path is accessed.
    pub fn check(&self) -> Result<()> {
        match &self.source {
            SourceOptions::WebDataset(options) => options.check()?,
            SourceOptions::Parquet(options) | SourceOptions::Jsonl(options) => options.check()?,
            SourceOptions::Table(options) => options.check(&self.sink, &self.stages)?,
        }
        self.sink.check()
    }

    /// Finds the inputs, and the files below the paths that are skipped because of their format.
    ///
    /// # Errors
    /// When a path is missing or contains no input.
    pub fn files(&self) -> Result<(Vec<InputFile>, Vec<String>)> {
        refuse_repeated(&self.paths)?;
        let found = self.source.files(&self.paths)?;
        Ok((
            found.files.into_iter().map(InputFile::of).collect::<std::result::Result<_, _>>()?,
            found.left_out,
        ))
    }

    /// The stages, with `user_stages` inserted.
    ///
    /// # Errors
    /// [`crate::Error::Option`] when a user stage is missing.
    pub fn stages(&self, user_stages: &[Stage]) -> Result<Vec<Stage>> {
        let stage = |options: &StageOptions| {
            Ok(match options.clone() {
                StageOptions::AspectRatio(filter) => Stage::AspectRatio(filter),
                StageOptions::Size(filter) => Stage::Size(filter),
                StageOptions::Blur(filter) => Stage::Images(Arc::new(filter)),
                StageOptions::Damage(filter) => Stage::Images(Arc::new(filter)),
                StageOptions::ImageToTextRatio(filter) => Stage::ImageToTextRatio(filter),
                StageOptions::Filter(filter)
                    if filter.expression.columns().contains("binary_content") =>
                {
                    // Most images are not in memory when a filter runs,
                    // so a null would be meaningless.
                    let problem =
                        "names `binary_content`, which expressions cannot see; use a Map stage"
                            .to_owned();
                    return Err(crate::Error::option("expression", problem));
                }
                StageOptions::Filter(filter) => Stage::Filter(filter),
                StageOptions::Reencode(stage) => Stage::Reencode(stage),
                StageOptions::User { index } => {
                    let problem =
                        || crate::Error::option("stages", format!("has no user stage {index}"));
                    user_stages.get(index).cloned().ok_or_else(problem)?
                }
            })
        };
        self.stages.iter().map(stage).collect()
    }
}
