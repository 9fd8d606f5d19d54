//! Caches decoded chunks with many records, so that reading another of their
//! records needs no decoding.

use super::Gathered;
use std::sync::{Arc, Mutex};

/// Cache limit per file, unless one chunk is larger.
const KEPT_BYTES: usize = 64 << 20;

/// The most recently used chunks, the latest one last.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Vec<(usize, Arc<Gathered>)>>);

impl Recent {
    pub(super) fn get(&self, chunk: usize) -> Option<Arc<Gathered>> {
        // A thread of the parent may have held the lock when this process was forked, so the lock
        // is never waited for.
        let mut kept = self.0.try_lock().ok()?;
        let place = kept.iter().rposition(|(number, _)| *number == chunk)?;
        let entry = kept.remove(place);
        let segment = Arc::clone(&entry.1);
        kept.push(entry);
        Some(segment)
    }

    pub(super) fn put(&self, chunk: usize, segment: &Arc<Gathered>) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        kept.push((chunk, Arc::clone(segment)));
        let mut bytes: usize = kept.iter().map(|(_, segment)| segment.bytes()).sum();
        while bytes > KEPT_BYTES && kept.len() > 1 {
            bytes -= kept.remove(0).1.bytes();
        }
    }
}
