//! Walks one ArrayRecord file: every chunk with all of its hashes, and the index against the
//! chunks.
//!
//! As in `array_record`, chunks that are not in the index may have any type and any content without
//! records, as long as their hashes are right. Chunks are read from the start of the file to its
//! end. After damage that hides the start of the next chunk, the index is used to find it.

use super::Walk;
use crate::problem::{Problem, Rule};
use crate::visitor::Visitor;
use shardmill_documents::Result;
use shardmill_formats::arrayrecord::{
    ArrayRecordFile, ChunkKind, ChunkWalk, Fault, Verify, WalkedChunk,
};
use std::sync::Arc;

const BLOCK: u64 = 1 << 16;

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    pub(super) fn arrayrecord(&mut self) -> Result<()> {
        let size = self.object.size();
        let index = self.readable(ArrayRecordFile::open(Arc::clone(&self.object), Verify::Full));
        if !self.visitor.index(index.as_ref()) {
            return Ok(());
        }
        let mut walk = ChunkWalk::new(Arc::clone(&self.object));
        let mut chunks =
            Chunks { index: index.as_ref(), size, next: 0, visitor: &mut self.visitor };
        let mut position = 0;
        while position < size {
            self.cancel.check()?;
            if !chunks.visitor.wants_more() {
                return Ok(());
            }
            chunks.report_skipped(position);
            let place = chunks.place(position);
            let is_own = chunks.is_next(position);
            let walked = match walk.read(position, |records| {
                if is_own {
                    chunks.visitor.records(&records);
                }
            }) {
                Ok(walked) => walked,
                Err(error) => {
                    chunks.visitor.problem(Problem::unreadable(&error).at_member(&place, position));
                    return Ok(());
                }
            };
            let end = match walked {
                Ok(chunk) => {
                    chunks.sound(&chunk, &place);
                    Some(chunk.end)
                }
                // Readers never reach this chunk, and its hashes are right.
                Err(damage)
                    if damage.end.is_some()
                        && !matches!(damage.fault, Fault::Hash(_))
                        && chunks.is_unnamed(position) =>
                {
                    damage.end
                }
                Err(damage) => {
                    chunks.visitor.problem(
                        Problem::new(Rule::Readable, damage.fault.to_string())
                            .at_member(&place, position),
                    );
                    chunks.pass(position);
                    damage.end
                }
            };
            let Some(next) = end.or_else(|| chunks.known_after(position)) else {
                let what = "what follows cannot be found without the index";
                chunks
                    .visitor
                    .problem(Problem::new(Rule::Readable, what).at_member(&place, position));
                return Ok(());
            };
            position = next;
        }
        chunks.report_skipped(size);
        Ok(())
    }
}

struct Chunks<'w, V> {
    index: Option<&'w ArrayRecordFile>,
    size: u64,
    /// Number of the next chunk of records in the index.
    next: usize,
    visitor: &'w mut V,
}

impl<'a, V: Visitor<'a>> Chunks<'_, V> {
    fn offset(&self, chunk: usize) -> Option<u64> {
        self.index
            .filter(|index| chunk < index.num_chunks())?
            .range_of(chunk)
            .ok()
            .map(|range| range.start)
    }

    /// Whether the next chunk of the index is at `position`.
    fn is_next(&self, position: u64) -> bool {
        self.offset(self.next) == Some(position)
    }

    /// Describes the chunk at `position` according to the index.
    fn place(&self, position: u64) -> String {
        match self.index {
            _ if position == 0 => "signature".to_owned(),
            _ if position + BLOCK == self.size => "postscript".to_owned(),
            Some(index) if index.footer_offset() == position => "footer".to_owned(),
            Some(_) if self.is_next(position) => format!("chunk {}", self.next),
            Some(_) => "chunk without records".to_owned(),
            None => "chunk".to_owned(),
        }
    }

    /// Whether the chunk at `position` is neither in the index nor after all indexed chunks.
    fn is_unnamed(&self, position: u64) -> bool {
        self.index.is_some_and(|index| position < index.footer_offset()) && !self.is_next(position)
    }

    /// Reports indexed chunks before `position` where no chunk began.
    fn report_skipped(&mut self, position: u64) {
        while let Some(offset) = self.offset(self.next).filter(|offset| *offset < position) {
            let problem =
                Problem::new(Rule::Structure, "the index names a chunk where none begins");
            self.visitor.problem(problem.at_member(&format!("chunk {}", self.next), offset));
            self.next += 1;
        }
    }

    fn sound(&mut self, chunk: &WalkedChunk, place: &str) {
        let is_own = self.is_next(chunk.begin);
        let what = match (chunk.kind, self.index) {
            (ChunkKind::Records { .. }, Some(index)) if is_own => {
                self.visitor.chunk(chunk);
                let stated = index.records_of(self.next);
                let stated = stated.end - stated.start;
                (stated != chunk.num_records).then(|| {
                    format!("it has {} records, the index says {stated}", chunk.num_records)
                })
            }
            (ChunkKind::Records { .. }, Some(index)) if chunk.begin < index.footer_offset() => {
                Some("it has records, and the index does not name it".to_owned())
            }
            (ChunkKind::Records { .. }, _) => None,
            _ => is_own.then(|| "the index names it, and it has no records".to_owned()),
        };
        if let Some(what) = what {
            self.visitor.problem(Problem::new(Rule::Structure, what).at_member(place, chunk.begin));
        }
        self.pass(chunk.begin);
    }

    /// Marks `position` as checked.
    fn pass(&mut self, position: u64) {
        self.next += usize::from(self.is_next(position));
    }

    /// The next position at which a chunk must begin.
    fn known_after(&self, position: u64) -> Option<u64> {
        let index = self.index?;
        let candidates =
            [self.offset(self.next), Some(index.footer_offset()), self.size.checked_sub(BLOCK)];
        candidates.into_iter().flatten().filter(|candidate| *candidate > position).min()
    }
}
