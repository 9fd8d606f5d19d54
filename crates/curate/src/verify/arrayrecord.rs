//! Checks one ArrayRecord file: every chunk with all of its hashes, and the index against the chunks.
//!
//! As in `array_record`, chunks that are not in the index may have any type and any content without records, as long as their hashes are right.
//! Chunks are read from the start of the file to its end. After damage that hides the start of the next chunk, the index is used to find it.

use super::{FileCheck, Problem, Rule};
use crate::Result;
use crate::error::reason;
use shardmill_engine::Cancel;
use shardmill_formats::arrayrecord::{ArrayRecordFile, ChunkKind, ChunkWalk, Fault, Verify, WalkedChunk};
use shardmill_storage::RangeRead;
use std::sync::Arc;

const BLOCK: u64 = 1 << 16;

pub(super) fn verify_arrayrecord(object: Arc<dyn RangeRead>, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let size = object.size();
    let index = check.readable(ArrayRecordFile::open(Arc::clone(&object), Verify::Full));
    let mut chunks = Chunks { index: index.as_ref(), size, next: 0, check };
    let mut walk = ChunkWalk::new(object);
    let mut position = 0;
    while position < size {
        cancel.check()?;
        chunks.report_skipped(position);
        let place = chunks.place(position);
        let walked = match walk.read(position, |_records| ()) {
            Ok(walked) => walked,
            Err(error) => {
                chunks.check.report(Problem::new(Rule::Readable, reason(&error)).at_member(&place, position));
                return Ok(());
            }
        };
        let end = match walked {
            Ok(chunk) => {
                chunks.sound(&chunk, &place);
                Some(chunk.end)
            }
            // Readers never reach this chunk, and its hashes are right.
            Err(damage) if damage.end.is_some() && !matches!(damage.fault, Fault::Hash(_)) && chunks.is_unnamed(position) => damage.end,
            Err(damage) => {
                chunks.check.report(Problem::new(Rule::Readable, damage.fault.to_string()).at_member(&place, position));
                chunks.pass(position);
                damage.end
            }
        };
        let Some(next) = end.or_else(|| chunks.known_behind(position)) else {
            let what = "what follows cannot be found without the index";
            chunks.check.report(Problem::new(Rule::Readable, what).at_member(&place, position));
            return Ok(());
        };
        position = next;
    }
    chunks.report_skipped(size);
    Ok(())
}

struct Chunks<'a> {
    index: Option<&'a ArrayRecordFile>,
    size: u64,
    /// Number of the next chunk of records in the index.
    next: usize,
    check: &'a mut FileCheck,
}

impl Chunks<'_> {
    fn offset(&self, chunk: usize) -> Option<u64> {
        self.index.filter(|index| chunk < index.num_chunks())?.range_of(chunk).ok().map(|range| range.start)
    }

    /// Describes the chunk at `position` according to the index.
    fn place(&self, position: u64) -> String {
        match self.index {
            _ if position == 0 => "signature".to_owned(),
            _ if position + BLOCK == self.size => "postscript".to_owned(),
            Some(index) if index.footer_offset() == position => "footer".to_owned(),
            Some(_) if self.offset(self.next) == Some(position) => format!("chunk {}", self.next),
            Some(_) => "chunk without records".to_owned(),
            None => "chunk".to_owned(),
        }
    }

    /// Whether the chunk at `position` is neither in the index nor after all indexed chunks.
    fn is_unnamed(&self, position: u64) -> bool {
        self.index.is_some_and(|index| position < index.footer_offset()) && self.offset(self.next) != Some(position)
    }

    /// Reports indexed chunks before `position` where no chunk began.
    fn report_skipped(&mut self, position: u64) {
        while let Some(offset) = self.offset(self.next).filter(|offset| *offset < position) {
            let place = format!("chunk {}", self.next);
            self.check.report(Problem::new(Rule::Structure, "the index names a chunk where none begins").at_member(&place, offset));
            self.next += 1;
        }
    }

    fn sound(&mut self, chunk: &WalkedChunk, place: &str) {
        let problem = |what: String| Problem::new(Rule::Structure, what).at_member(place, chunk.begin);
        let is_own = self.offset(self.next) == Some(chunk.begin);
        match chunk.kind {
            ChunkKind::Records { .. } => {
                let behind = self.index.is_none_or(|index| chunk.begin >= index.footer_offset());
                if is_own {
                    let stated = self.index.map(|index| index.records_of(self.next)).map_or(0, |records| records.end - records.start);
                    if stated != chunk.num_records {
                        self.check.report(problem(format!("it has {} records, the index says {stated}", chunk.num_records)));
                    }
                    self.check.samples += chunk.num_records;
                    self.check.rows.other += chunk.num_records;
                } else if !behind {
                    self.check.report(problem("it has records, and the index does not name it".to_owned()));
                }
            }
            _ if is_own => self.check.report(problem("the index names it, and it has no records".to_owned())),
            _ => {}
        }
        self.pass(chunk.begin);
    }

    /// Marks `position` as checked.
    fn pass(&mut self, position: u64) {
        if self.offset(self.next) == Some(position) {
            self.next += 1;
        }
    }

    /// The next position at which a chunk must begin.
    fn known_behind(&self, position: u64) -> Option<u64> {
        let index = self.index?;
        let candidates = [self.offset(self.next), Some(index.footer_offset()), self.size.checked_sub(BLOCK)];
        candidates.into_iter().flatten().filter(|candidate| *candidate > position).min()
    }
}
