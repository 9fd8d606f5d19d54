//! Files of ids become an index: only the id columns are decoded, by several threads.

use super::{IdIndex, IndexBuilder, IndexOptions};
use crate::Result;
use crate::keys::IdSchema;
use shardmill_engine::run_in_order;
use shardmill_formats::records::BadLines;
use shardmill_load::{Dataset, DatasetOptions, Format};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which ids to read.
#[derive(Debug, Clone)]
pub struct IndexSource {
    /// Files, directories and globs.
    pub paths: Vec<String>,
    /// By the names of the files when `None`.
    pub format: Option<Format>,
    pub columns: Vec<String>,
}

/// How far a build is; for another thread to look at.
#[derive(Debug, Default)]
pub struct BuildProgress {
    pub files: AtomicU64,
    pub files_done: AtomicU64,
    pub rows: AtomicU64,
}

impl IdIndex {
    /// Reads ids from files and publishes their index at `path`.
    ///
    /// # Errors
    /// When a file cannot be read, and as [`IndexBuilder`].
    pub fn build(source: &IndexSource, path: &str, options: IndexOptions, progress: &Arc<BuildProgress>) -> Result<Self> {
        let dataset = Arc::new(Dataset::open(
            &DatasetOptions {
                paths: source.paths.clone(),
                format: source.format,
                hive: false,
                filter: None,
                text_schema: None,
                bad_lines: BadLines::Error,
                skip_bad_files: false,
                threads: options.threads,
            },
            &options.cancel,
        )?);
        let schema = IdSchema::of(dataset.schema(), &source.columns)?;
        let columns = dataset.columns(&source.columns)?;
        let (threads, cancel) = (options.threads, options.cancel.clone());
        let builder = Arc::new(IndexBuilder::new(path, schema, options)?);
        let blocks: Vec<_> = dataset.blocks().collect();
        let splits = blocks.len();
        progress.files.store(dataset.files().len() as u64, Ordering::Relaxed);
        let (shared, count) = (Arc::clone(&builder), Arc::clone(progress));
        let read = move |block: usize| -> Result<()> {
            let Some(block) = blocks.get(block) else { return Ok(()) };
            let batch = dataset.read(*block, &columns, None)?;
            shared.add(batch.columns())?;
            count.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            Ok(())
        };
        let work = move |block| match read(block) {
            Ok(()) => ControlFlow::Continue(Ok(())),
            error => ControlFlow::Break(error),
        };
        for result in run_in_order(splits, threads, &cancel, work)? {
            result??;
        }
        builder.finish()
    }
}
