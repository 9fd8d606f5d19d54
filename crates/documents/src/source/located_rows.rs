//! Gives images their copy plans, and passes documents on.

use super::batches::{Batcher, documents};
use super::record_options::RecordOptions;
use super::{Emit, SplitContext};
use crate::locate::{LocateError, Locator};
use crate::payload::Payload;
use crate::source_ref::SourceRef;
use crate::{Chunk, Result, Row};
use shardmill_formats::limit::TooLarge;
use shardmill_plan::Split;

/// Passes chunks on to the batches of a split.
pub(super) struct Located<'a> {
    pub batcher: Batcher<'a>,
    pub locator: Locator,
    /// Approximate size of a chunk in bytes.
    pub limit: u64,
}

impl<'a> Located<'a> {
    pub(super) fn new(
        split: &'a Split,
        options: &RecordOptions,
        context: &SplitContext<'_>,
    ) -> Self {
        let chunk = context.chunk_bytes;
        Self {
            batcher: Batcher::new(split, options.max_batch_bytes),
            locator: context.locator(options.limit()),
            limit: options.max_batch_bytes.map_or(chunk, |batch| batch.min(chunk)),
        }
    }

    /// Rows that reference their images are small, but the images may be large: a chunk also ends
    /// when they fill it.
    pub(super) fn push(
        &mut self,
        file: usize,
        mut chunk: Chunk,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        if !context.is_located {
            return self.batcher.push(file, chunk, context, emit);
        }
        let (mut start, mut bytes) = (0, 0);
        for (document, range) in chunk.document_ranges().into_iter().enumerate() {
            let rows = chunk.rows.get_mut(range).unwrap_or_default();
            locate_missing(rows, &mut self.locator)?;
            bytes += rows.iter().map(Row::byte_size).sum::<u64>();
            if bytes >= self.limit && document + 1 < chunk.documents.len() {
                self.batcher.push(file, documents(&chunk, start..document + 1), context, emit)?;
                (start, bytes) = (document + 1, 0);
            }
        }
        let rest = if start == 0 { chunk } else { documents(&chunk, start..chunk.documents.len()) };
        self.batcher.push(file, rest, context, emit)
    }
}

/// Gives image rows without bytes and error a copy plan from their locator.
///
/// # Errors
/// [`crate::Error::Storage`] when the store or the disk fails, which is not the fault of a row.
pub fn locate_missing(rows: &mut [Row], locator: &mut Locator) -> Result<()> {
    for row in rows {
        let is_missing = row.modality == crate::Modality::Image
            && row.payload.is_absent()
            && row.error.is_none();
        if !is_missing {
            continue;
        }
        let source = SourceRef::parse(row.source_ref.as_deref())
            .map_err(|error| LocateError::Row(error.to_string()));
        let located = source.and_then(|source| locator.locate(&source));
        match located {
            Ok(located) => match locator.limit.check(
                located.object.path(),
                located.len(),
                "an image has",
                || "where it is located".to_owned(),
            ) {
                Ok(()) => row.payload = Payload::Located(located),
                Err(refusal) => row.error = Some(format!("{refusal}; {}", TooLarge::HINT)),
            },
            Err(LocateError::Row(text)) => row.error = Some(text),
            Err(LocateError::Storage(error)) => return Err(error.into()),
        }
    }
    Ok(())
}
