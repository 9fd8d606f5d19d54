//! Jobs over plain tables: rows of files → rows that are not done yet → stages → one Parquet file
//! per split.
//!
//! A split consists of files, or parts of files. Its finished files have no name yet ([`Outcome`]),
//! so that the caller decides when they become visible. Called by [`crate::Pipeline::run_split`].
//! The invariants: each row of the split is in the output, or counted with a reason,
//! or was transformed by a stage; a column is read only for rows that need it;
//! unreadable data stops the run.

mod columns;
mod ids;
mod job;
mod options;
mod output;
mod passes;
mod plan;
mod read;
mod stages;
#[cfg(test)]
mod tests;

pub(crate) use ids::{DONE, IdPolicy, IdTypes, NullIds};
pub(crate) use job::TableJob;
pub(crate) use options::TableOptions;
pub(crate) use options::check_stages;
pub(crate) use output::SINK_STAGE;
pub(crate) use passes::PassedFiles;
pub use passes::{Passed, Passes};
pub use plan::Agreed;
pub(crate) use plan::{TableInput, TablePlan, files, source_name};

use crate::Result;
use crate::report::SplitReport;
use crate::sink::Finished;
use output::{Output, OutputOptions};
use read::{Reader, SOURCE_STAGE};
use shardmill_plan::Split;
use stages::Chain;
use std::time::{Duration, Instant};

/// The files of a split: complete, without a name yet.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The future path of the rows.
    pub path: String,
    /// `None` if no row is left.
    pub rows: Option<Finished>,
    /// The ids of the processed rows; `None` if they are not recorded, or if there are none.
    pub ids: Option<Finished>,
}

/// Runs a split; nothing is visible until the caller publishes the outcome. Ids are written to
/// `ids_path`, if given.
///
/// # Errors
/// For a file that cannot be read, a null id under [`NullIds::Raise`], errors of stages, a full
/// disk, and when cancelled.
pub(crate) fn run(
    split: &Split,
    job: &TableJob<'_>,
    ids_path: Option<&str>,
    report: &mut SplitReport,
) -> Result<Outcome> {
    let start = Instant::now();
    let mut downstream = Duration::ZERO;
    let sources: Vec<String> = split.files.iter().map(source_name).collect();
    let path = output::path_of(&sources, job.sink, job.publishing);
    let options =
        OutputOptions { sink: job.sink, sources: sources.clone(), publishing: job.publishing };
    let mut output = Output::new(&path, &options);
    let mut recorder = ids_path.map(|path| ids::Recorder::new(path, &options));
    report.stage(0, SOURCE_STAGE);
    let mut reader = Reader::new(job)?;
    let mut chain = Chain::new(job, reader.delivered(), report);
    chain.announce(report);
    let sink_stage = job.stages.len() + 1;
    report.stage(sink_stage, SINK_STAGE);
    for file in &split.files {
        reader.read(file, report, &mut |batch, ids, report| {
            let entered = Instant::now();
            if let Some(recorder) = &mut recorder {
                recorder.write(ids)?;
            }
            chain.push(batch, &file.path, report, &mut |batch, report| {
                output.write(sink_stage, &batch, report)
            })?;
            downstream += entered.elapsed();
            Ok(())
        })?;
    }
    let entered = Instant::now();
    chain.finish(report, &mut |batch, report| output.write(sink_stage, &batch, report))?;
    let outcome = Outcome {
        path,
        rows: output.finish(sink_stage, report)?,
        ids: recorder.map(ids::Recorder::finish).transpose()?.flatten(),
    };
    downstream += entered.elapsed();
    let (rows, bytes) = (report.ledger.input.rows, report.input_bytes);
    let source = report.stage(0, SOURCE_STAGE);
    source.spend(start.elapsed().saturating_sub(downstream));
    source.items = rows;
    source.rows_in = rows;
    source.rows_out = reader.rows_out();
    source.input_bytes = bytes;
    Ok(outcome)
}
