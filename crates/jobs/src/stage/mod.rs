//! Stages between source and sink, one file per stage.

pub mod filter;
pub mod headers;
pub mod image_to_text;
mod images;
mod options;
pub mod pixels;
pub mod reencode;
#[cfg(test)]
mod tests;
pub mod user;

pub use options::StageOptions;

use crate::Result;
use crate::report::SplitReport;
use crate::results::{Results, Turn};
use filter::Filter;
use headers::{AspectRatioFilter, SizeFilter};
use image_to_text::ImageToTextRatioFilter;
use reencode::ReencodeImages;
use shardmill_documents::locate::Locator;
use shardmill_documents::schema::SchemaChoice;
use shardmill_documents::{Chunk, Modality, Row};
use shardmill_plan::Expression;
use std::sync::Arc;
use std::time::Instant;
use user::{ImageJudge, TableMap};

#[derive(Clone)]
pub enum Stage {
    AspectRatio(AspectRatioFilter),
    Size(SizeFilter),
    ImageToTextRatio(ImageToTextRatioFilter),
    Filter(Filter),
    Reencode(ReencodeImages),
    /// A filter on decoded images.
    Images(Arc<dyn ImageJudge>),
    /// A function on tables, implemented outside of this crate.
    Table(Arc<dyn TableMap>),
}

/// The expressions of the filters before the first function, which may add columns.
pub(crate) fn first_filters(stages: &[Stage]) -> impl Iterator<Item = &Expression> {
    stages.iter().take_while(|stage| !matches!(stage, Stage::Table(_))).filter_map(|stage| {
        match stage {
            Stage::Filter(filter) => Some(&filter.expression),
            _ => None,
        }
    })
}

/// How the results of the function at `index` of `stages` get the columns of the job.
pub(crate) fn results_of<'a>(
    stages: &'a [Stage],
    index: usize,
    turn: &'a Turn<'a>,
    choice: &'a SchemaChoice,
) -> Results<'a> {
    let functions =
        |stages: &[Stage]| stages.iter().filter(|stage| matches!(stage, Stage::Table(_))).count();
    let function = functions(stages.get(..index).unwrap_or_default());
    let stage = stages.get(index).map_or("", Stage::name);
    Results { turn, function, choice: (function + 1 == functions(stages)).then_some(choice), stage }
}

/// State shared by the stages of one split.
pub struct StageContext {
    /// Tables carry image bytes.
    pub is_eager: bool,
    /// Rows that a table function returns without bytes are located again.
    pub is_located: bool,
    pub path: String,
    pub locator: Locator,
}

impl Stage {
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::AspectRatio(_) => "interleaved_aspect_ratio_filter",
            Self::Size(_) => "interleaved_size_filter",
            Self::ImageToTextRatio(_) => "interleaved_image_to_text_ratio_filter",
            Self::Filter(_) => "interleaved_filter",
            Self::Reencode(stage) => &stage.name,
            Self::Images(judge) => judge.name(),
            Self::Table(map) => map.name(),
        }
    }

    /// Whether the stage reads images, so that each needs a copy plan.
    #[must_use]
    pub fn needs_images(&self) -> bool {
        match self {
            Self::AspectRatio(_) | Self::Size(_) | Self::Reencode(_) | Self::Images(_) => true,
            Self::Table(map) => map.needs_bytes(),
            Self::ImageToTextRatio(_) | Self::Filter(_) => false,
        }
    }

    /// Runs the stage and reports its effect under `index`.
    ///
    /// # Errors
    /// Those of the stage; native filters only fail for a wrong column, and if images cannot be
    /// read because the store or the disk fails.
    pub(crate) fn apply(
        &self,
        index: usize,
        chunk: &mut Chunk,
        context: &mut StageContext,
        results: &Results<'_>,
        report: &mut SplitReport,
    ) -> Result<()> {
        let (rows_in, items) = (chunk.rows.len() as u64, chunk.documents.len() as u64);
        let images_in = images_of(chunk);
        let bytes = chunk.rows.iter().map(Row::byte_size).sum::<u64>();
        let start = Instant::now();
        // Filters pass an empty batch unchanged; a function may still change its columns.
        match self {
            Self::Table(map) => user::map_table(&**map, chunk, context, results, report)?,
            _ if chunk.rows.is_empty() => {}
            Self::AspectRatio(filter) => filter.apply(chunk, report)?,
            Self::Size(filter) => filter.apply(chunk, report)?,
            Self::ImageToTextRatio(filter) => filter.apply(chunk, report),
            Self::Filter(filter) => filter.apply(chunk, report)?,
            Self::Reencode(stage) => stage.apply(chunk, context.locator.limit)?,
            Self::Images(judge) => user::judge_images(&**judge, chunk, context, report)?,
        }
        let stage = report.stage(index, self.name());
        stage.spend(start.elapsed());
        stage.rows_in += rows_in;
        stage.rows_out += chunk.rows.len() as u64;
        stage.images_in += images_in;
        stage.images_out += images_of(chunk);
        stage.input_bytes += bytes;
        stage.items += items;
        Ok(())
    }
}

fn images_of(chunk: &Chunk) -> u64 {
    chunk.rows.iter().filter(|row| row.modality == Modality::Image).count() as u64
}
