//! Options of a table job, and features that it does not support.

use crate::sink::{SinkFormat, SinkOptions};
use crate::stage::filter::{Filter, Per};
use crate::stage::{Stage, StageOptions};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_formats::limit::DecodeLimit;
use shardmill_load::{Format, TextForm};
use shardmill_plan::Expression;
use std::collections::HashSet;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOptions {
    /// Names of the columns to read, in this order; all if `None`.
    pub columns: Option<Vec<String>>,
    /// Rows for which it is not true are removed before any stage.
    /// It may name any column of the files.
    pub filter: Option<Expression>,
    /// Detected from the names of the files if `None`.
    pub format: Option<String>,
    /// Memory limit for one value, line, page or member; the default of the process if `None`.
    #[serde(default)]
    pub max_decoded_bytes: Option<u64>,
    #[serde(default)]
    pub text: TextForm,
}

impl TableOptions {
    /// # Errors
    /// [`Error::Option`] for features that only apply to documents of text and images, and for an
    /// unknown format.
    pub(crate) fn check(&self, sink: &SinkOptions, stages: &[StageOptions]) -> Result<()> {
        self.format()?;
        if self.columns.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::option("columns", "names no column"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.columns.iter().flatten().find(|name| !seen.insert(name.as_str()))
        {
            return Err(Error::option("columns", format!("names `{twice}` twice")));
        }
        if sink.format != SinkFormat::Parquet {
            let problem = "is for documents of text and images; rows of a TableSource \
                are written by ParquetSink"
                .to_owned();
            return Err(Error::option("sink", problem));
        }
        stages.iter().try_for_each(|stage| match stage {
            StageOptions::Filter(Filter { per: Some(Per::Sample), .. }) => Err(Error::option(
                "per",
                "is \"sample\", and a row of a TableSource belongs to no sample",
            )),
            StageOptions::Filter(_) | StageOptions::User { .. } => Ok(()),
            StageOptions::AspectRatio(_) => Err(no_documents("interleaved_aspect_ratio_filter")),
            StageOptions::Size(_) => Err(no_documents("interleaved_size_filter")),
            StageOptions::Blur(_) => Err(no_documents("interleaved_blur_filter")),
            StageOptions::Damage(_) => Err(no_documents("interleaved_damage_filter")),
            StageOptions::Reencode(stage) => Err(no_documents(&stage.name)),
            StageOptions::ImageToTextRatio(_) => {
                Err(no_documents("interleaved_image_to_text_ratio_filter"))
            }
        })
    }

    pub(crate) fn limit(&self) -> DecodeLimit {
        self.max_decoded_bytes.map(DecodeLimit::new).unwrap_or_default()
    }

    /// # Errors
    /// [`shardmill_load::Error::NoSuchFormat`].
    pub fn format(&self) -> Result<Option<Format>> {
        Ok(self.format.as_deref().map(Format::parse).transpose()?)
    }
}

/// Rejects stages that need documents.
pub(crate) fn check_stages(stages: &[Stage]) -> Result<()> {
    let needs_documents =
        |stage: &&Stage| matches!(stage, Stage::Images(_)) || stage.needs_images();
    stages.iter().find(needs_documents).map_or(Ok(()), |stage| Err(no_documents(stage.name())))
}

fn no_documents(stage: &str) -> Error {
    Error::option(
        "stages",
        format!(
            "has `{stage}`, which looks at images of documents; rows of a TableSource have none"
        ),
    )
}
