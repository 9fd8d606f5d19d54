//! A remote object that is read in small steps and nearly completely, such as an archive, whose
//! headers tell where the next ones are.
//!
//! Single steps would cost a round trip each. Instead, large pieces are fetched ahead with several
//! concurrent requests, and stored in an unnamed file on disk; memory holds the pieces of one
//! fetch. The invariant: no byte is requested from the store twice.

use crate::{Error, Identity, RangeRead, Result, ScratchFile, len_within};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const PIECE: u64 = 8 << 20;
/// Pieces that are fetched together.
const AHEAD: u64 = 4;

/// Serves reads from fetched pieces, and fetches more as needed.
#[derive(Debug)]
pub struct Spool {
    object: Arc<dyn RangeRead>,
    scratch: ScratchFile,
    /// The offset of each piece in the scratch file.
    places: Mutex<Vec<Option<u64>>>,
}

impl Spool {
    /// Returns `object` itself if it is local.
    ///
    /// # Errors
    /// When no file can be created in the directory for temporary files (`TMPDIR`).
    pub fn over(object: Arc<dyn RangeRead>) -> Result<Arc<dyn RangeRead>> {
        if !object.is_remote() {
            return Ok(object);
        }
        let pieces = usize::try_from(object.size().div_ceil(PIECE)).unwrap_or(usize::MAX);
        let scratch = ScratchFile::create_in(&std::env::temp_dir())?;
        Ok(Arc::new(Self { object, scratch, places: Mutex::new(vec![None; pieces]) }))
    }

    fn span(&self, piece: u64) -> Range<u64> {
        piece * PIECE..piece.saturating_add(1).saturating_mul(PIECE).min(self.object.size())
    }

    /// The offsets of the pieces in the scratch file; missing pieces are fetched.
    fn fetched(&self, pieces: Range<u64>) -> Result<Vec<u64>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = |places: &[Option<u64>], piece: u64| {
            usize::try_from(piece).ok().and_then(|piece| *places.get(piece)?)
        };
        while let Some(first) = pieces.clone().find(|piece| place(&places, *piece).is_none()) {
            let end = first.saturating_add(AHEAD).min(places.len() as u64);
            let wanted: Vec<u64> =
                (first..end).take_while(|piece| place(&places, *piece).is_none()).collect();
            let spans: Vec<Range<u64>> = wanted.iter().map(|piece| self.span(*piece)).collect();
            for (piece, bytes) in wanted.into_iter().zip(self.object.read_ranges(&spans)?) {
                let start = self.scratch.append(&bytes)?;
                if let Some(place) =
                    usize::try_from(piece).ok().and_then(|piece| places.get_mut(piece))
                {
                    *place = Some(start);
                }
            }
        }
        Ok(pieces.filter_map(|piece| place(&places, piece)).collect())
    }
}

impl RangeRead for Spool {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn identity(&self) -> Identity {
        self.object.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let len = len_within(self, &range)?;
        if len == 0 {
            return Ok(());
        }
        let pieces = range.start / PIECE..range.end.div_ceil(PIECE);
        let mut rest = buffer;
        for (piece, place) in pieces.clone().zip(self.fetched(pieces)?) {
            let span = self.span(piece);
            let within = range.start.max(span.start) - span.start;
            let here = usize::try_from(range.end.min(span.end) - span.start - within)
                .unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(here.min(rest.len()));
            self.scratch.read_at(place + within, now)?;
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Error::ShortRead { path: self.path().to_owned(), offset, len, end: range.end })
        }
    }

    fn is_unchanged(&self) -> bool {
        self.object.is_unchanged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn at(place: u64) -> usize {
        usize::try_from(place).unwrap()
    }

    #[derive(Debug)]
    struct Far {
        content: Vec<u8>,
        requests: AtomicUsize,
        bytes: AtomicUsize,
    }

    impl RangeRead for Far {
        fn path(&self) -> &str {
            "s3://bucket/a.tar"
        }

        fn identity(&self) -> Identity {
            Identity { size: self.content.len() as u64, modified_ns: 0 }
        }

        fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<()> {
            unreachable!("a spool must not issue small reads")
        }

        fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let part = |range: &Range<u64>| {
                Bytes::copy_from_slice(&self.content[at(range.start)..at(range.end)])
            };
            let read: Vec<Bytes> = ranges.iter().map(part).collect();
            self.bytes.fetch_add(read.iter().map(Bytes::len).sum(), Ordering::Relaxed);
            Ok(read)
        }

        fn is_remote(&self) -> bool {
            true
        }
    }

    #[test]
    fn reads_in_any_order_return_the_bytes_of_the_object_and_fetch_none_twice() {
        let size = usize::try_from(PIECE * 9 + 12_345).unwrap();
        let content: Vec<u8> = (0..=250).cycle().take(size).collect();
        let far = Arc::new(Far {
            content: content.clone(),
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        });
        let spool = Spool::over(Arc::clone(&far) as Arc<dyn RangeRead>).unwrap();
        for (offset, len) in [
            (0, 16),
            (size - 5, 5),
            (at(PIECE) - 3, 7),
            (at(3 * PIECE), at(2 * PIECE) + 1),
            (100, 0),
            (0, size),
        ] {
            let mut buffer = vec![0; len];
            spool.read_at(offset as u64, &mut buffer).unwrap();
            assert!(buffer == content[offset..offset + len], "{offset} {len}");
        }
        assert_eq!(far.bytes.load(Ordering::Relaxed), size);
        assert!(far.requests.load(Ordering::Relaxed) <= 4);
        assert!(matches!(
            spool.read_at(size as u64 - 1, &mut [0; 2]),
            Err(Error::ShortRead { .. })
        ));
        assert!(!spool.is_remote());
    }
}
