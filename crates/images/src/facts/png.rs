//! `eXIf` and XMP of a PNG, before or after the pixels, and the text
//! in which ImageMagick writes EXIF.
//!
//! Chunks are walked by their headers; pixels are not read. Invariant: a chunk that leaves the
//! payload ends the walk.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::facts::Metadata;

const XMP: &[u8] = b"XML:com.adobe.xmp";
const RAW_EXIF: &[u8] = b"Raw profile type exif";

/// As in Pillow.
const LONGEST_TEXT: u64 = 1 << 20;
/// A small file may hold thousands that become so long.
const MOST_TEXTS: usize = 64;

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    let (mut is_animated, mut has_pixels, mut profile, mut texts) = (false, false, None, 0);
    let mut rest = payload.get(8..).unwrap_or_default();
    while let Some(&[l3, l2, l1, l0, a, b, c, d]) = rest.first_chunk() {
        let len = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        let name = [a, b, c, d];
        let Some(chunk) = len.checked_add(8).and_then(|end| rest.get(8..end)) else { break };
        match &name {
            b"IEND" => break,
            b"IDAT" => has_pixels = true,
            b"acTL" => {
                is_animated =
                    chunk.first_chunk().is_some_and(|frames| u32::from_be_bytes(*frames) > 1);
            }
            // Pillow stops where the next frame begins.
            b"fcTL" if is_animated && has_pixels => break,
            b"eXIf" => metadata.exif = Some(Cow::Borrowed(chunk)),
            b"tEXt" | b"zTXt" | b"iTXt" if texts < MOST_TEXTS => {
                let wanted =
                    keyword(chunk).filter(|(keyword, _)| matches!(*keyword, XMP | RAW_EXIF));
                texts += usize::from(wanted.is_some());
                let text = wanted.and_then(|(keyword, text)| match &name {
                    b"tEXt" => Some((keyword, Cow::Borrowed(text))),
                    b"zTXt" => Some((keyword, inflated(text.strip_prefix(b"\0")?)?)),
                    _ => Some((keyword, international(text)?)),
                });
                match text {
                    Some((XMP, text)) => metadata.xmp = Some(text),
                    Some((RAW_EXIF, text)) => profile = raw_profile(&text),
                    _ => {}
                }
            }
            _ => {}
        }
        rest = len.checked_add(12).and_then(|end| rest.get(end..)).unwrap_or_default();
    }
    metadata.exif = metadata.exif.or(profile.map(Cow::Owned));
    metadata
}

/// The signature and the first chunk, whose length is set to the required one.
pub(super) fn header(prefix: &[u8]) -> Vec<u8> {
    let mut header = prefix.get(..33).unwrap_or(prefix).to_vec();
    if let Some(len) = header.get_mut(8..12) {
        len.copy_from_slice(&13_u32.to_be_bytes());
    }
    header
}

/// Whether a chunk with this name is read by [`metadata`].
pub(super) fn states_facts(name: &[u8; 4]) -> bool {
    matches!(name, b"acTL" | b"fcTL" | b"eXIf" | b"tEXt" | b"zTXt" | b"iTXt")
}

/// Appends an empty chunk in place of pixels. Consecutive chunks of pixels become one.
pub(super) fn push_empty_pixels(png: &mut Vec<u8>) {
    const EMPTY: &[u8] = b"\0\0\0\0IDAT\0\0\0\0";
    if !png.ends_with(EMPTY) {
        png.extend_from_slice(EMPTY);
    }
}

/// The text of an `iTXt` chunk, which follows its keyword.
fn international(rest: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (flags, rest) = rest.split_at_checked(2)?;
    let text = rest.splitn(3, |byte| *byte == 0).nth(2)?;
    if flags.first() == Some(&0) { Some(Cow::Borrowed(text)) } else { inflated(text) }
}

fn keyword(chunk: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = chunk.iter().position(|byte| *byte == 0)?;
    Some((chunk.get(..end)?, chunk.get(end + 1..)?))
}

fn inflated(text: &[u8]) -> Option<Cow<'static, [u8]>> {
    let mut inflated = Vec::new();
    ZlibDecoder::new(text).take(LONGEST_TEXT + 1).read_to_end(&mut inflated).ok()?;
    (inflated.len() as u64 <= LONGEST_TEXT).then_some(Cow::Owned(inflated))
}

/// The record in the text that ImageMagick writes: hexadecimal digits after an empty line, the name
/// and the length.
fn raw_profile(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.splitn(4, |byte| *byte == b'\n').nth(3)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = digits
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| digit(*byte))
        .collect::<Option<_>>()?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}
