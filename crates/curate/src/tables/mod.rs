//! Jobs over plain tables: rows of files → ids that are done leave → stages → one Parquet file a split.
//!
//! A split of files, or of parts of files, enters; finished files without a name leave ([`Outcome`]), so that the caller decides when they become visible.
//! Called by [`crate::Pipeline::run_split`]. The invariants: each row of the split is in the output, or counted under a reason, or went through a stage
//! that made something else of it; a column is read only for rows that need it; what cannot be read stops the run.

mod columns;
mod ids;
mod options;
mod output;
mod plan;
mod read;
mod stages;
#[cfg(test)]
mod tests;

pub use ids::{IdPolicy, NullIds};
pub use options::TableOptions;
pub(crate) use options::check_stages;
pub use plan::{cut, files, opener, source_name};

use crate::Result;
use crate::report::SplitReport;
use crate::sink::{Finished, Publishing, SinkOptions};
use crate::stage::Stage;
use output::{Output, OutputOptions};
use read::Reader;
use shardmill_engine::Cancel;
use shardmill_load::FileOpener;
use shardmill_plan::Split;
use stages::Chain;
use std::time::{Duration, Instant};

/// What reports call the end of a table job.
pub const SINK_STAGE: &str = "table_parquet_writer";

/// What all splits of a job share.
#[derive(Clone, Copy)]
pub struct TableJob<'a> {
    pub options: &'a TableOptions,
    pub opener: &'a FileOpener,
    pub stages: &'a [Stage],
    pub sink: &'a SinkOptions,
    pub ids: &'a IdPolicy,
    pub publishing: Publishing<'a>,
    pub cancel: &'a Cancel,
    /// About how many bytes of rows are in memory at once.
    pub chunk_bytes: u64,
}

/// The files of a split: complete, without a name yet.
#[derive(Default)]
pub struct Outcome {
    /// `None` when no row is left.
    pub rows: Option<Finished>,
    /// The ids of the rows that were processed; `None` when nobody asked, or there are none.
    pub ids: Option<Finished>,
}

/// Runs a split; nothing of it is visible until the caller publishes the outcome. Ids are written to `ids_path`, when there is one.
///
/// # Errors
/// For a file that cannot be read, an id without a value under [`NullIds::Error`], whatever a stage raises, a full disk, and when cancelled.
pub fn run(split: &Split, job: &TableJob<'_>, ids_path: Option<&str>, report: &mut SplitReport) -> Result<Outcome> {
    let start = Instant::now();
    let mut downstream = Duration::ZERO;
    let sources: Vec<String> = split.files.iter().map(source_name).collect();
    let path = output::path_of(&sources, job.sink, job.publishing);
    let mut chain = Chain::new(job.stages, job.chunk_bytes);
    let options = OutputOptions { sink: job.sink, sources: sources.clone(), publishing: job.publishing };
    let mut output = Output::new(&path, &options);
    let mut recorder = ids_path.map(|path| ids::Recorder::new(path, &options));
    report.stage(0, SOURCE_STAGE);
    chain.announce(report);
    let sink_stage = job.stages.len() + 1;
    report.stage(sink_stage, SINK_STAGE);
    let mut reader = Reader::new(job);
    for file in &split.files {
        reader.read(file, report, &mut |batch, ids, report| {
            let entered = Instant::now();
            if let Some(recorder) = &mut recorder {
                recorder.write(ids)?;
            }
            chain.push(batch, &file.path, report, &mut |batch, report| output.write(sink_stage, batch, report))?;
            downstream += entered.elapsed();
            Ok(())
        })?;
    }
    let entered = Instant::now();
    chain.finish(report, &mut |batch, report| output.write(sink_stage, batch, report))?;
    let outcome = Outcome { rows: output.finish(sink_stage, report)?, ids: recorder.map(ids::Recorder::finish).transpose()?.flatten() };
    downstream += entered.elapsed();
    let (rows, bytes) = (report.input.rows, report.input_bytes);
    let source = report.stage(0, SOURCE_STAGE);
    source.spend(start.elapsed().saturating_sub(downstream));
    source.items = rows;
    source.rows_in = rows;
    source.rows_out = reader.rows_out();
    source.input_bytes = bytes;
    Ok(outcome)
}

const SOURCE_STAGE: &str = "table_reader";
