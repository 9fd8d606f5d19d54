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
    /// The ids of each text, encoded on up to `threads` threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_into`], for the first text that has one, as [`Error::InText`].
    pub fn encode_batch<T: AsRef<str> + Sync>(&self, texts: &[T], special: SpecialInText, threads: usize) -> Result<Vec<Vec<u32>>> {
        let mut tasks: Vec<Task> = Vec::with_capacity(texts.len());
        for (text, content) in texts.iter().enumerate() {
            self.check_special(content.as_ref(), special).map_err(|error| in_text(text, error))?;
            tasks.extend(self.pieces(content.as_ref()).into_iter().map(|piece| (text, piece)));
        }
        let groups = groups(&tasks);
        let next = AtomicUsize::new(0);
        let done: Mutex<BTreeMap<usize, Result<Vec<Vec<u32>>>>> = Mutex::new(BTreeMap::new());
        let work = || {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.encode_group(texts, tasks.get(group.clone()).unwrap_or_default(), special);
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

    /// As [`Tokenizer::encode_into`], with the pieces of a long text on up to `threads` threads.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_into`].
    pub fn encode_long(&self, text: &str, special: SpecialInText, threads: usize, out: &mut Vec<u32>) -> Result<()> {
        if threads < 2 || text.len() <= super::pieces::PIECE_BYTES {
            return self.encode_into(text, special, out).map(drop);
        }
        let encoded = self.encode_batch(&[text], special, threads).map_err(|error| match error {
            Error::InText { source, .. } => *source,
            other => other,
        })?;
        encoded.into_iter().for_each(|mut ids| out.append(&mut ids));
        Ok(())
    }

    fn encode_group<T: AsRef<str>>(&self, texts: &[T], tasks: &[Task], special: SpecialInText) -> Result<Vec<Vec<u32>>> {
        let encode = |(text, piece): &Task| {
            let mut ids = Vec::new();
            let content = texts.get(*text).map(AsRef::as_ref).unwrap_or_default();
            self.encode_piece(content, piece.clone(), special, &mut ids).map_err(|error| in_text(*text, error))?;
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
