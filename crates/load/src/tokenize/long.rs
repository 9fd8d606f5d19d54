//! Long texts, whose pieces idle threads of the run encode as well.

use super::input::SharedText;
use crate::spent::Stopwatch;
use shardmill_engine::{crew_size, spread};
use shardmill_tokens::{Error, Result, SpecialInText, Tokenizer, reserve_ids};
use std::sync::Arc;

/// Shorter texts are encoded by the thread that has them.
const LONG_BYTES: usize = 4 << 20;

/// Appends the ids of `text`, and returns the number of special tokens that it spells, and the
/// nanoseconds of other threads. `shared` is the same text.
pub(super) fn encode(
    tokenizer: &Arc<Tokenizer>,
    text: &str,
    shared: impl FnOnce() -> SharedText,
    special: SpecialInText,
    out: &mut Vec<u32>,
) -> Result<(usize, u64)> {
    let pieces = if text.len() < LONG_BYTES || crew_size() < 2 {
        Vec::new()
    } else {
        tokenizer.pieces(text)
    };
    if pieces.len() < 2 {
        return Ok((tokenizer.encode_into(text, special, out)?, 0));
    }
    tokenizer.check_special(text, special)?;
    let (count, owner, bytes, first) = (
        pieces.len(),
        std::thread::current().id(),
        text.len(),
        pieces.first().map_or(0, |piece| piece.end),
    );
    let (text, tokenizer) = (shared(), Arc::clone(tokenizer));
    let encode = move |number: usize| -> Result<(Vec<u32>, usize, u64)> {
        let watch = Stopwatch::start();
        let mut ids = Vec::new();
        let piece = pieces.get(number).cloned().unwrap_or_default();
        let spelled = tokenizer.encode_piece(text.as_str(), piece, special, &mut ids)?;
        let nanoseconds = if std::thread::current().id() == owner { 0 } else { watch.elapsed() };
        Ok((ids, spelled, nanoseconds))
    };
    let (mut sums, mut is_first) = (Ok((0, 0)), true);
    let add = |part: Result<(Vec<u32>, usize, u64)>| match (&mut sums, part) {
        (Ok((spelled, nanoseconds)), Ok((ids, of_piece, elsewhere))) => {
            if std::mem::take(&mut is_first) {
                reserve_ids(out, ids.len(), first, bytes);
            }
            out.extend_from_slice(&ids);
            *spelled += of_piece;
            *nanoseconds += elsewhere;
        }
        (Ok(_), Err(error)) => sums = Err(error),
        // The first error is that of the text.
        (Err(_), _) => {}
    };
    spread(count, encode, add).map_err(|error| Error::NotEncoded { reason: error.to_string() })?;
    sums
}
