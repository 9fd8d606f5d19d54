//! Several texts, and the pieces of long ones, on threads.

use super::{SpecialInText, Tokenizer};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A piece of a text, by the index of the text.
type Task = (usize, Range<usize>);

/// Texts are taken in groups of about this many bytes.
const GROUP_BYTES: usize = 256 << 10;

impl Tokenizer {
    /// The ids of each text, encoded on up to `threads` threads until `is_stopped`.
    ///
    /// # Errors
    /// The first error of [`Tokenizer::encode_into`], as [`Error::InText`]; [`Error::Stopped`].
    pub fn encode_batch<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        special: SpecialInText,
        threads: usize,
        is_stopped: impl Fn() -> bool + Sync,
    ) -> Result<Vec<Vec<u32>>> {
        let mut tasks: Vec<Task> = Vec::with_capacity(texts.len());
        for (text, content) in texts.iter().enumerate() {
            if is_stopped() {
                return Err(Error::Stopped);
            }
            self.check_special(content.as_ref(), special).map_err(|error| in_text(text, error))?;
            tasks.extend(self.pieces(content.as_ref()).into_iter().map(|piece| (text, piece)));
        }
        let groups = groups(&tasks);
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, Result<Vec<Vec<u32>>>>> = Mutex::new(BTreeMap::new());
        let work = || {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let tasks = tasks.get(group.clone()).unwrap_or_default();
                let outcome = if is_stopped() {
                    Err(Error::Stopped)
                } else {
                    self.encode_group(texts, tasks, special)
                };
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(group.start, outcome);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(groups.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut encoded = vec![Vec::new(); texts.len()];
        let mut tasks = tasks.iter();
        for group in done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
            for (mut ids, (text, _)) in group?.into_iter().zip(tasks.by_ref()) {
                match encoded.get_mut(*text) {
                    Some(known) if known.is_empty() => *known = ids,
                    Some(known) => known.append(&mut ids),
                    None => {}
                }
            }
        }
        Ok(encoded)
    }

    /// As [`Tokenizer::encode_into`], with the pieces of a long text on up to `threads` threads,
    /// until `is_stopped`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_into`]; [`Error::Stopped`].
    pub fn encode_long(
        &self,
        text: &str,
        special: SpecialInText,
        threads: usize,
        is_stopped: impl Fn() -> bool + Sync,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        if text.len() <= super::pieces::PIECE_BYTES {
            return self.encode_into(text, special, out).map(drop);
        }
        let encoded = self.encode_batch(&[text], special, threads, is_stopped).map_err(
            |error| match error {
                Error::InText { source, .. } => *source,
                other => other,
            },
        )?;
        for mut ids in encoded {
            if out.is_empty() { *out = ids } else { out.append(&mut ids) }
        }
        Ok(())
    }

    fn encode_group<T: AsRef<str>>(
        &self,
        texts: &[T],
        tasks: &[Task],
        special: SpecialInText,
    ) -> Result<Vec<Vec<u32>>> {
        let encode = |(text, piece): &Task| {
            let mut ids = Vec::new();
            let content = texts.get(*text).map(AsRef::as_ref).unwrap_or_default();
            self.encode_piece(content, piece.clone(), special, &mut ids)
                .map_err(|error| in_text(*text, error))?;
            Ok(ids)
        };
        tasks.iter().map(encode).collect()
    }
}

fn in_text(text: usize, error: Error) -> Error {
    Error::InText { text, source: Box::new(error) }
}

/// Runs of tasks, so that short texts do not cost a lock each.
fn groups(tasks: &[Task]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (number, (_, piece)) in tasks.iter().enumerate() {
        bytes += piece.len();
        if bytes >= GROUP_BYTES {
            groups.push(start..number + 1);
            (start, bytes) = (number + 1, 0);
        }
    }
    if start < tasks.len() {
        groups.push(start..tasks.len());
    }
    groups
}
