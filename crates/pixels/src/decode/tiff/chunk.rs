//! Decompresses a strip or tile.
//!
//! Invariant: the output is filled, or an error is returned.

use std::io::Read;

use fax::decoder::{decode_g4, pels};
use shardmill_images::ImageFormat;
use weezl::BitOrder;

use crate::decode::tiff::page::{Compression, Page};
use crate::error::{Error, Result};

const TIFF: ImageFormat = ImageFormat::Tiff;

/// Buffers for all chunks of a page.
#[derive(Default)]
pub(super) struct Unpacker {
    reversed: Vec<u8>,
}

impl Unpacker {
    /// Fills `out` from `stored`.
    pub(super) fn unpack(
        &mut self,
        page: &Page,
        stored: &[u8],
        rows: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let stored = if page.reverses_bits {
            self.reversed.clear();
            self.reversed.extend(stored.iter().map(|byte| byte.reverse_bits()));
            &self.reversed
        } else {
            stored
        };
        match page.compression {
            Compression::None => raw(page, stored, rows, out)?,
            Compression::PackBits => pack_bits(stored, out)?,
            Compression::Lzw => lzw(stored, out)?,
            Compression::Deflate => filled(flate2::read::ZlibDecoder::new(stored), out)?,
            Compression::Zstandard => filled(
                zstd::stream::read::Decoder::new(stored)
                    .map_err(|error| Error::decoder(TIFF, error))?,
                out,
            )?,
            Compression::Fax4 => fax4(page, stored, rows, out)?,
            Compression::Jpeg => return Err(Error::decoder(TIFF, "JPEG is decoded elsewhere")),
        }
        if page.has_predictor {
            out.chunks_exact_mut(page.line_len().max(1)).for_each(|row| accumulate(page, row));
        }
        Ok(())
    }
}

fn raw(page: &Page, stored: &[u8], rows: usize, out: &mut [u8]) -> Result<()> {
    let len = page.line_len().saturating_mul(rows).min(out.len());
    match (stored.get(..len), out.get_mut(..len)) {
        (Some(stored), Some(out)) => out.copy_from_slice(stored),
        _ => return Err(Error::truncated(TIFF, "raw chunk")),
    }
    Ok(())
}

fn pack_bits(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let short = || Error::damaged(TIFF, "packed chunk ends early");
    let (mut rest, mut filled) = (stored, 0);
    while filled < out.len() {
        let (head, after) = rest.split_first().ok_or_else(short)?;
        let to = out.get_mut(filled..).unwrap_or_default();
        match head.cast_signed() {
            -128 => rest = after,
            head @ 0.. => {
                let wanted = usize::from(head.unsigned_abs()) + 1;
                let len = wanted.min(to.len());
                let (literal, after) = after.split_at_checked(len).ok_or_else(short)?;
                to.iter_mut().zip(literal).for_each(|(to, from)| *to = *from);
                (rest, filled) = (after.get(wanted - len..).unwrap_or_default(), filled + len);
            }
            head => {
                let len = (usize::from(head.unsigned_abs()) + 1).min(to.len());
                let (value, after) = after.split_first().ok_or_else(short)?;
                to.iter_mut().take(len).for_each(|to| *to = *value);
                (rest, filled) = (after, filled + len);
            }
        }
    }
    Ok(())
}

fn lzw(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
    let (mut read, mut written) = (0, 0);
    while written < out.len() {
        let result = decoder.decode_bytes(
            stored.get(read..).unwrap_or_default(),
            out.get_mut(written..).unwrap_or_default(),
        );
        read += result.consumed_in;
        written += result.consumed_out;
        result.status.map_err(|error| Error::damaged(TIFF, error))?;
        if result.consumed_in == 0 && result.consumed_out == 0 {
            return Err(Error::damaged(TIFF, "LZW chunk ends early"));
        }
    }
    Ok(())
}

fn filled(mut decoder: impl Read, out: &mut [u8]) -> Result<()> {
    decoder.read_exact(out).map_err(|error| Error::damaged(TIFF, error))
}

/// Runs of white and black; a set bit is black, as libtiff leaves it.
fn fax4(page: &Page, stored: &[u8], rows: usize, out: &mut [u8]) -> Result<()> {
    let width = u16::try_from(page.chunk_width).map_err(|_| Error::limit(TIFF, "fax width"))?;
    let height = u16::try_from(rows).map_err(|_| Error::limit(TIFF, "fax height"))?;
    out.fill(0);
    let mut lines = out.chunks_exact_mut(page.line_len());
    let mut decoded = 0;
    let end = decode_g4(stored.iter().copied(), width, Some(height), |transitions| {
        let Some(line) = lines.next() else { return };
        decoded += 1;
        for (x, pel) in pels(transitions, width).enumerate() {
            if pel == fax::Color::Black
                && let Some(byte) = line.get_mut(x / 8)
            {
                *byte |= 0x80 >> (x % 8);
            }
        }
    });
    if end.is_none() || decoded < rows {
        Err(Error::damaged(TIFF, "fax chunk ends early"))
    } else {
        Ok(())
    }
}

/// Undoes the horizontal predictor.
fn accumulate(page: &Page, row: &mut [u8]) {
    let samples = page.chunk_samples();
    if page.meaning.bits == 8 {
        let mut before = vec![0_u8; samples];
        for pixel in row.chunks_exact_mut(samples) {
            for (value, before) in pixel.iter_mut().zip(&mut before) {
                *value = value.wrapping_add(*before);
                *before = *value;
            }
        }
        return;
    }
    let mut before = vec![0_u16; samples];
    for pixel in row.chunks_exact_mut(2 * samples) {
        for (value, before) in pixel.as_chunks_mut::<2>().0.iter_mut().zip(&mut before) {
            let difference = if page.is_little_endian {
                u16::from_le_bytes(*value)
            } else {
                u16::from_be_bytes(*value)
            };
            *before = before.wrapping_add(difference);
            *value =
                if page.is_little_endian { before.to_le_bytes() } else { before.to_be_bytes() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_literals_and_runs() {
        let mut out = [0; 6];
        pack_bits(&[1, 7, 8, 0x80, 0xfd, 9], &mut out).unwrap();
        assert_eq!(out, [7, 8, 9, 9, 9, 9]);
        assert!(pack_bits(&[1, 7], &mut out).is_err());
    }
}
