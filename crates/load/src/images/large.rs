//! Large images, which one thread at a time decodes in memory that all threads share, so that a
//! file of 89 megapixels costs its memory once.
//!
//! The invariant: a forked child never waits for a thread of its parent.

use shardmill_images::{image_facts, image_size};
use shardmill_pixels::Renderer;
use shardmill_storage::PerProcess;
use std::sync::{Mutex, MutexGuard, PoisonError};

const LARGE_PIXELS: u64 = 16_000_000;

/// A thread of the parent may have held the lock when this process was forked,
/// so a child makes its own.
static RENDERER: PerProcess<Mutex<Renderer>> = PerProcess::new();

/// By the sides that are decoded: the first frame of a GIF may be larger than its screen.
pub(super) fn is_large(payload: &[u8]) -> bool {
    let size = if payload.starts_with(b"GIF8") {
        image_facts(payload).ok().map(|facts| facts.stored)
    } else {
        image_size(payload).ok()
    };
    size.is_some_and(|size| u64::from(size.width) * u64::from(size.height) > LARGE_PIXELS)
}

/// The renderer that the threads of this process share.
pub(super) fn renderer() -> MutexGuard<'static, Renderer> {
    RENDERER.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gif_is_large_by_its_first_frame() {
        let payload =
            [&b"GIF89a\x1e\0\x14\0\x80\0\0"[..], &[0; 6], b",\0\0\0\0\x88\x13\xa0\x0f\0"].concat();
        assert!(is_large(&payload));
        assert!(!is_large(b"no image"));
    }
}
