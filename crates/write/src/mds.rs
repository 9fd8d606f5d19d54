//! Writes MDS shards: one thread collects samples and splits them into shards, others compress,
//! hash and write.

use crate::file_set::FileSet;
use crate::follower::{Follower, Outcome};
use crate::pending_files::PendingFiles;
use crate::staged::{Finished, StagedFile};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::mds::{
    Columns, ShardEncoder, ShardOptions, ShardPieces, UnsealedShard, index_json,
};
use std::collections::VecDeque;
use std::io::Write;

/// Maximal number of batches that wait for the encoder.
const WAITING_BATCHES: usize = 16;

#[derive(Debug)]
pub(crate) struct MdsFiles {
    columns: Option<Columns>,
    /// The columns of the first rows, if those of the files follow from them.
    first: Option<SchemaRef>,
    options: ShardOptions,
    cutter: Option<Cutter>,
    ended: bool,
}

/// Where shards are split: on a thread, or in the caller.
#[derive(Debug)]
enum Cutter {
    Thread(Follower<RecordBatch, Vec<Finished>>),
    Caller(Box<ShardEncoder>, Vec<Finished>),
}

impl MdsFiles {
    pub(crate) fn new(columns: Option<Columns>, options: ShardOptions) -> Self {
        Self { columns, first: None, options, cutter: None, ended: false }
    }

    fn start(&mut self, rows: &RecordBatch, pending: &PendingFiles) -> Result<Cutter> {
        pending.clear_first();
        let columns = match self.columns.take() {
            Some(columns) => columns,
            None => Columns::of_schema(self.first.insert(rows.schema()))?,
        };
        let first_number = u32::try_from(pending.first_number()).unwrap_or(u32::MAX);
        let mut encoder =
            ShardEncoder::new(columns, ShardOptions { first_number, ..self.options.clone() });
        if pending.threads <= 1 {
            return Ok(Cutter::Caller(Box::new(encoder), Vec::new()));
        }
        let (directory, limit) = (pending.path().to_owned(), pending.threads);
        Ok(Cutter::Thread(Follower::start(WAITING_BATCHES, move |batches| {
            let mut sealing: VecDeque<Outcome<Finished>> = VecDeque::new();
            let mut finished = Vec::new();
            let mut seal = |shard: Option<UnsealedShard>| -> Result<()> {
                // A small number of concurrent jobs bounds the memory.
                while sealing.len() >= limit || (shard.is_none() && !sealing.is_empty()) {
                    if let Some(mut shard) = sealing.pop_front() {
                        finished.push(shard.take()?);
                    }
                }
                if let Some(shard) = shard {
                    let directory = directory.clone();
                    sealing.push_back(Outcome::of(move || written(shard, &directory))?);
                }
                Ok(())
            };
            while let Some(rows) = batches.next()? {
                encoder
                    .push_unsealed(&rows)?
                    .into_iter()
                    .try_for_each(|shard| seal(Some(shard)))?;
            }
            if let Some(last) = encoder.finish_unsealed() {
                seal(Some(last))?;
            }
            seal(None)?;
            Ok(finished)
        })?))
    }
}

fn written(shard: UnsealedShard, directory: &str) -> Result<Finished> {
    let ShardPieces { basename, pieces, entry } = shard.seal_in_pieces()?;
    let path = format!("{}/{basename}", directory.trim_end_matches('/'));
    let mut file = StagedFile::create(&path)?;
    pieces
        .iter()
        .try_for_each(|piece| file.write_all(piece))
        .map_err(|source| StagedFile::failed(&path, source))?;
    let mut finished = file.finish(entry.samples)?;
    finished.summary.entry = Some(index_json(&[entry]));
    Ok(finished)
}

impl FileSet for MdsFiles {
    fn write(
        &mut self,
        rows: &RecordBatch,
        _first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()> {
        let schema = rows.schema();
        // The encoder would ignore further columns.
        if let Some(first) = &self.first
            && schema.fields().iter().any(|field| first.column_with_name(field.name()).is_none())
        {
            return Err(Error::OtherColumns { path: pending.path().to_owned() });
        }
        let cutter = match self.cutter.take() {
            Some(cutter) => cutter,
            None => self.start(rows, pending)?,
        };
        match self.cutter.insert(cutter) {
            Cutter::Thread(encoder) => encoder.send(rows.clone()),
            Cutter::Caller(encoder, finished) => {
                for shard in encoder.push_unsealed(rows)? {
                    finished.push(written(shard, pending.path())?);
                }
                Ok(())
            }
        }
    }

    /// Without rows there are no files, only an index.
    fn end(&mut self, pending: &mut PendingFiles) -> Result<()> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(Error::Closed { path: pending.path().to_owned() });
        }
        let finished = match self.cutter.take() {
            None => Vec::new(),
            Some(Cutter::Thread(encoder)) => encoder.end().take()?,
            Some(Cutter::Caller(encoder, mut finished)) => {
                if let Some(last) = encoder.finish_unsealed() {
                    finished.push(written(last, pending.path())?);
                }
                finished
            }
        };
        finished.into_iter().try_for_each(|file| pending.keep_whole(file))
    }

    fn forget(&mut self) {
        std::mem::forget(self.cutter.take());
    }
}
