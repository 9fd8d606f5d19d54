//! The walk of an archive that is read by ranges.

use super::{ArchiveEnd, Entry, TarError, Walk};
use shardmill_storage::{Error, RangeRead};
use std::ops::{ControlFlow, Range};

/// Shows each step of the walk with the offset of its header to `see`, until that breaks. Returns
/// how the archive ends, if the walk came there. With `ignores_zeros`, it continues after an end.
/// Headers that are close to each other are read together, up to `max_window` bytes.
///
/// # Errors
/// When the archive cannot be read, and those of `see`.
pub fn walk_members<E: From<Error>>(
    object: &dyn RangeRead,
    ignores_zeros: bool,
    max_window: u64,
    mut see: impl FnMut(u64, Result<Option<Entry>, TarError>) -> Result<ControlFlow<()>, E>,
) -> Result<Option<ArchiveEnd>, E> {
    let mut walk = Walk::new(object.size()).reading_on(ignores_zeros);
    let least = object.gap_bytes().min(max_window);
    let mut window =
        Window { object, start: 0, bytes: Vec::new(), ahead: least, least, most: max_window };
    while let Some(range) = walk.needs() {
        let step = walk.push(window.get(&range)?);
        if see(range.start, step)?.is_break() {
            break;
        }
    }
    Ok(walk.end())
}

/// Headers of small members are close together, so several are read with one request.
struct Window<'a> {
    object: &'a dyn RangeRead,
    start: u64,
    bytes: Vec<u8>,
    ahead: u64,
    least: u64,
    most: u64,
}

impl Window<'_> {
    fn get(&mut self, range: &Range<u64>) -> Result<&[u8], Error> {
        let end = self.start + self.bytes.len() as u64;
        if range.start < self.start || range.end > end {
            let is_near = range.start.saturating_sub(end) <= self.ahead;
            self.ahead =
                if is_near { self.ahead.saturating_mul(2).min(self.most) } else { self.least };
            let stop =
                range.end.max(range.start.saturating_add(self.ahead).min(self.object.size()));
            let whole = range.start..stop;
            let len = usize::try_from(whole.end - whole.start).unwrap_or(usize::MAX);
            self.bytes.resize(len, 0);
            self.start = whole.start;
            self.object.read_at(whole.start, &mut self.bytes)?;
        }
        let from = usize::try_from(range.start - self.start).unwrap_or(usize::MAX);
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        Ok(self.bytes.get(from..from.saturating_add(len)).unwrap_or_default())
    }
}
