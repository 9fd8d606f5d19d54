//! Reads one directory from a window of the payload.
//!
//! Returns the raw entries and the offset of the next directory, or the missing range. Called for
//! pages and nested directories. Invariant: the entry count is trusted only after it was checked
//! against the length of the payload.

use crate::tiff::layout::Layout;
use crate::window::{Progress, Window, clipped};

/// One request suffices for 84 entries; writers use 10 to 30.
const REQUEST: u64 = 1024;

/// A directory inside of the payload.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    pub(crate) entries: &'a [u8],
    /// Entry count, entries and next offset.
    pub(crate) len: u64,
    /// 0 at the end of the chain.
    pub(crate) next: u64,
}

/// A directory outside of the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutOfFile {
    pub(crate) offset: u64,
    pub(crate) needed: u64,
}

/// The directory at `offset`, if `window` contains it.
pub(crate) fn read_directory<'a>(
    layout: Layout,
    window: Window<'a>,
    offset: u64,
    payload_len: u64,
) -> Result<Progress<Directory<'a>>, OutOfFile> {
    let count_len = layout.count_len();
    let out_of_file = |needed: u64| OutOfFile { offset, needed };
    let entries_at = offset
        .checked_add(count_len)
        .filter(|end| *end <= payload_len)
        .ok_or(out_of_file(count_len))?;
    let Some(count) = window.get(offset, count_len) else {
        return request(offset, REQUEST, payload_len).ok_or(out_of_file(count_len));
    };
    let count = layout.entry_count(count).ok_or(out_of_file(count_len))?;
    let len = layout.directory_len(count).ok_or(out_of_file(u64::MAX))?;
    // A file that ends after the last entry ends the chain, as in libtiff.
    let entries_len = len - count_len - layout.offset_len();
    let next_at = entries_at
        .checked_add(entries_len)
        .filter(|end| *end <= payload_len)
        .ok_or(out_of_file(len))?;
    let has_next = payload_len - next_at >= layout.offset_len();
    let wanted = if has_next { len } else { len - layout.offset_len() };

    let Some(entries) = window.get(entries_at, entries_len) else {
        return request(offset, wanted, payload_len).ok_or(out_of_file(len));
    };
    let next = match window.get(next_at, layout.offset_len()) {
        Some(bytes) => layout.offset(bytes).unwrap_or_default(),
        None if has_next => {
            return request(offset, wanted, payload_len).ok_or(out_of_file(len));
        }
        None => 0,
    };
    Ok(Progress::Ready(Directory { entries, len: wanted, next }))
}

fn request<'a>(offset: u64, len: u64, payload_len: u64) -> Option<Progress<Directory<'a>>> {
    clipped(offset, len.max(REQUEST), payload_len).map(Progress::Needs)
}
