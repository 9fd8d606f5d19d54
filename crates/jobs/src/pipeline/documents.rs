//! One split of documents: source → stages → sink.

use super::Pipeline;
use crate::checkpoint::commit;
use crate::report::SplitReport;
use crate::results::Turn;
use crate::sink::{Digits, Mode, Sink};
use crate::spec::SourceOptions;
use crate::stage::{Stage, StageContext, results_of};
use crate::{Error, Result};
use shardmill_documents::locate::{Locator, Shared};
use shardmill_documents::materialize::{OnMaterializeError, apply_policy};
use shardmill_documents::schema::JobSchema;
use shardmill_documents::source::jsonl::read_jsonl;
use shardmill_documents::source::parquet::read_parquet;
use shardmill_documents::source::webdataset::read_webdataset;
use shardmill_documents::source::{SplitContext, split_sources};
use shardmill_documents::{Chunk, Ledger, Lineage};
use shardmill_engine::Cancel;
use shardmill_plan::Split;
use shardmill_storage::{AnyDisk, Disk};
use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

impl Pipeline {
    pub(super) fn run_document_split(
        &self,
        split: &Split,
        turn: &Turn<'_>,
        shared: &Shared,
        cancel: &Cancel,
    ) -> Result<SplitReport> {
        let start = Instant::now();
        let mut report = SplitReport { split: split.index, ..SplitReport::default() };
        report.files = split.files.iter().map(|file| file.path.clone()).collect();
        report.input_bytes = split.files.iter().map(|file| file.size).sum();
        let is_eager = self.is_eager();
        let is_materialized = is_eager || self.spec.sink.materialize_on_write;
        let is_located = is_materialized
            || self.spec.sink.image_sizes
            || self.stages.iter().any(Stage::needs_images);
        let path = report.files.join(", ");
        let input_files = report.files.clone();
        let locator = || Locator::new(shared, &input_files, self.spec.source.limit());
        let mut stage_context = StageContext { is_eager, is_located, path, locator: locator() };
        let sink_stage = self.stages.len() + 1;
        let attempt = self.attempt(split)?;
        let publishing = self.publishing(split, attempt.as_ref());
        let mut sink = Sink::new(
            &self.spec.sink,
            &self.choices.sink,
            publishing,
            sink_stage,
            is_materialized,
            locator(),
        );
        sink.lend_buffer(
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default(),
        );
        let mut ids = HashSet::new();
        let mut downstream = Duration::ZERO;
        report.stage(0, self.spec.source.stage_name());
        let mut pass = |mut chunk: Chunk, report: &mut SplitReport| -> Result<()> {
            let entered = Instant::now();
            report.ledger.input.add(&chunk);
            report.duplicate_sample_ids +=
                chunk.documents.iter().filter(|id| !ids.insert((*id).clone())).count() as u64;
            for (index, stage) in self.stages.iter().enumerate() {
                // The policy `error` applies to the first failed fetch, even if a stage would have
                // dropped the row.
                if self.spec.sink.on_materialize_error == OnMaterializeError::Raise {
                    apply_policy(&mut chunk, OnMaterializeError::Raise, &mut report.ledger)?;
                }
                cancel.check()?;
                let results = results_of(&self.stages, index, turn, &self.choices.sink);
                stage.apply(index + 1, &mut chunk, &mut stage_context, &results, report)?;
            }
            let result = sink.write(chunk, report);
            downstream += entered.elapsed();
            result
        };
        let mut ledger = Ledger::default();
        let mut emit = |chunk: Chunk, context: &mut SplitContext<'_>| {
            context.cancel.check()?;
            let known = context.ledger.quarantined.len();
            report.ledger = std::mem::take(context.ledger);
            let result = pass(chunk, &mut report);
            *context.ledger = std::mem::take(&mut report.ledger);
            result.map_err(Error::of_receiver)?;
            context.charge(known)
        };
        let mut context = SplitContext {
            ledger: &mut ledger,
            files: &input_files,
            cancel,
            is_located,
            chunk_bytes: self.spec.chunk_bytes,
            errors: &self.errors,
            shared,
        };
        let job = JobSchema { agreed: self.planned_schema()?, choice: &self.source_choice };
        match &self.spec.source {
            SourceOptions::WebDataset(options) => {
                read_webdataset(split, options, job, &mut context, &mut emit)?;
            }
            SourceOptions::Parquet(options) => {
                read_parquet(split, options, job, &mut context, &mut emit)?;
            }
            SourceOptions::Jsonl(options) => {
                read_jsonl(split, options, job, &mut context, &mut emit)?;
            }
            SourceOptions::Table(_) => {}
        }
        report.ledger = ledger;
        let (items, rows, bytes) =
            (report.ledger.input.samples, report.ledger.input.rows, report.input_bytes);
        let source = report.stage(0, self.spec.source.stage_name());
        source.spend(start.elapsed().saturating_sub(downstream));
        source.items = items;
        source.rows_out = rows;
        source.input_bytes = bytes;
        let finished = sink.finish(&mut report)?;
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(sink.into_buffer());
        turn.leave();
        if let Some(finished) = finished {
            if attempt.is_none() && self.keeps_output(finished.path(), split, &report)? {
                report.ledger.warn("the input could not be read; its earlier output was kept");
            } else {
                finished.publish(
                    publishing,
                    sink_stage,
                    self.spec.sink.format.stage_name(),
                    &mut report,
                )?;
                if attempt.is_none() {
                    self.remove_earlier_batches(split, &report)?;
                }
            }
        }
        if let Some(attempt) = attempt {
            commit(attempt, &mut report)?;
        }
        Ok(report)
    }

    /// Whether an earlier output stays because its input gave only quarantined items.
    fn keeps_output(&self, path: &str, split: &Split, report: &SplitReport) -> Result<bool> {
        if self.spec.sink.mode != Mode::Resume
            || report.ledger.input.samples > 0
            || report.ledger.quarantined.is_empty()
        {
            return Ok(false);
        }
        Ok(exists(path)? || !self.batches(split)?.is_empty())
    }

    /// Removes the batches of an earlier run for the same input that this run did not replace:
    /// their number, and so their names, follows from its content.
    fn remove_earlier_batches(&self, split: &Split, report: &SplitReport) -> Result<()> {
        if self.spec.sink.mode != Mode::Resume {
            return Ok(());
        }
        let written: HashSet<&str> = report.outputs.iter().map(|file| file.path.as_str()).collect();
        // The last one first, so that an interrupted removal leaves no gap that hides the others.
        self.batches(split)?
            .iter()
            .rev()
            .filter(|path| !written.contains(path.as_str()))
            .try_for_each(|path| self.remove_earlier(path))
    }

    /// Existing batches of the input of a split, whichever run wrote them. Not known for several
    /// inputs, any of which may be in a batch.
    fn batches(&self, split: &Split) -> Result<Vec<String>> {
        let mut found = Vec::new();
        if split.files.len() != 1 {
            return Ok(found);
        }
        let publishing = self.publishing(split, None);
        for number in std::iter::once(None).chain((0..).map(Some)) {
            let lineage = Lineage {
                batch: number.unwrap_or_default(),
                sources: split_sources(split, &[0], number),
            };
            let path = self.spec.sink.file_path(&publishing.stem(&lineage, Digits::Documents));
            if exists(&path)? {
                found.push(path);
            } else if number.is_some() {
                break;
            }
        }
        Ok(found)
    }
}

fn exists(path: &str) -> Result<bool> {
    let failed = |source| shardmill_storage::Error::Stage { path: path.to_owned(), source };
    Ok(AnyDisk::default().size(path).map_err(failed)?.is_some())
}
