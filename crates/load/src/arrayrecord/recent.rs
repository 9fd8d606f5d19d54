//! Decoded chunks of many records: reading one of their records again costs no decoding.

use super::Gathered;
use std::sync::{Arc, Mutex};

/// What is kept of one file, unless one chunk is more.
const KEPT_BYTES: usize = 64 << 20;

/// The chunks that were used last, the last one behind.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Vec<(usize, Arc<Gathered>)>>);

impl Recent {
    pub(super) fn get(&self, chunk: usize) -> Option<Arc<Gathered>> {
        // A thread of the parent may have held the lock when this process was forked from it: so nobody waits here.
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
