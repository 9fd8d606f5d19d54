//! Advice to the operating system about dirty pages.

use std::fs::File;

/// Makes Linux start to write `len` bytes at `offset` to the disk, without waiting, so that little
/// remains for the sync at the end. It is only advice: if it is ignored nothing is lost, and dirty
/// pages stay in memory.
#[cfg(target_os = "linux")]
pub(crate) fn start(file: &File, offset: u64, len: u64) {
    let _advice = rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZeroU64::new(len),
        rustix::fs::Advice::DontNeed,
    );
}

/// Other systems decide by themselves when to write.
#[cfg(not(target_os = "linux"))]
pub(crate) fn start(_file: &File, _offset: u64, _len: u64) {}
