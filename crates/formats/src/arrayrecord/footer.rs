//! Decodes the bytes of the footer to the index, in memory that is freed immediately.
//!
//! A footer has at least ten bytes for each chunk, both compressed and decompressed; the index
//! keeps half of that.

use super::Fault;
use super::codec::Decoder;
use super::decode::{Content, Framed, Room};
use super::index::{Index, IndexBuilder};
use super::transposed;
use memmap2::MmapMut;
use std::io;

/// Errors of a footer.
pub(super) enum Failure {
    Fault(Fault),
    Memory(io::Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) fn read_index<'a>(
    footer: Framed<'a>,
    stripped: &'a mut Mapped,
    decoder: &mut Decoder,
) -> Result<Index, Failure> {
    let begin = footer.begin;
    match footer.content(None, stripped)? {
        Content::Simple(chunk) => {
            let mut builder = IndexBuilder::new(begin, chunk.num_records());
            let sizes = chunk.sizes(&mut decoder.zstd)?;
            let mut decoded;
            let values = match chunk.plain_values() {
                Some(plain) => plain,
                None => {
                    decoded = Mapped::new(chunk.decoded_size()).map_err(Failure::Memory)?;
                    chunk.values(decoded.whole(), &mut decoder.zstd)?;
                    decoded.whole()
                }
            };
            let mut start = 0;
            chunk.each_end(&sizes, |end| {
                builder.push(values.get(start..end).unwrap_or_default())?;
                start = end;
                Ok(())
            })?;
            Ok(builder.finish()?)
        }
        // No known writer produces these, but readers accept them.
        Content::Transposed { data, count, size } => {
            let (values, ends) = transposed::decode(data, count, size, &mut decoder.zstd)?;
            let mut builder = IndexBuilder::new(begin, count);
            let mut start = 0;
            for end in ends {
                builder.push(values.get(start..end).unwrap_or_default())?;
                start = end;
            }
            Ok(builder.finish()?)
        }
    }
}

/// Memory mapped from the system: a footer of many megabytes is needed only briefly, and an
/// allocator would keep its memory.
pub(super) struct Mapped {
    memory: MmapMut,
    len: usize,
}

impl Mapped {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        // An empty mapping is not possible.
        let memory = MmapMut::map_anon(len.max(1))?;
        // A page fault per 4 KiB is half of the time that opening takes. The system may refuse.
        #[cfg(target_os = "linux")]
        let _refused = memory.advise(memmap2::Advice::HugePage);
        Ok(Self { memory, len: 0 })
    }

    pub(super) fn whole(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Room for Mapped {
    fn clear(&mut self) {
        self.len = 0;
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) =
            self.memory.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()))
        {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn bytes(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }
}
