//! The two passes for x86-64 with AVX2.
//!
//! Rows and packed weights enter, rows of bytes leave. A pixel is widened to 16 bits, and `madd`
//! adds the products of two taps with each half of their weights. Invariant: equal to `passes.rs`
//! in every byte. Functions check lengths once, before the loops that read and write by pointer.
#![expect(
    unsafe_code,
    reason = "loads and stores of vectors; one file a platform, compared with the scalar passes \
        by a property test"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "arrays of two or four, by loops of that length, which the compiler unrolls"
)]

use std::arch::x86_64::*;

use super::blocks::{BLOCK, for_each_block};
use super::coefficients::{Coefficients, PRECISION_BITS};
use super::packed::Packed;
use super::passes::HALF;
use crate::raster::Raster;

/// Taps in a group of packed weights.
const RGB_GROUP: usize = 4;
const GRAY_GROUP: usize = 8;
const ROW_GROUP: usize = 2;

/// Bytes of a row that the vertical pass works on at once.
const CHUNK: usize = 32;

const SHIFT: i32 = PRECISION_BITS as i32;
/// Bits of the lower half of a weight.
const LOW_SHIFT: i32 = 12;

/// The instruction set, if this CPU has it.
pub(crate) fn name() -> Option<&'static str> {
    is_x86_feature_detected!("avx2").then_some("AVX2")
}

/// Packed weights of both axes, and the buffer of the last rows.
#[derive(Debug)]
pub(super) struct Passes {
    across: Packed,
    down: Packed,
    edge: Vec<u8>,
}

impl Passes {
    pub(super) fn new() -> Option<Self> {
        name().map(|_| Self {
            across: Packed::default(),
            down: Packed::default(),
            edge: Vec::new(),
        })
    }

    /// Writes each row of `source`, resized along its columns, to `out`, and returns whether it
    /// did: some weights need more bits.
    pub(super) fn horizontal(
        &mut self,
        source: Raster<'_>,
        left: usize,
        coefficients: &Coefficients,
        out: &mut [u8],
    ) -> bool {
        let Self { across: packed, edge, .. } = self;
        let channels = source.channels();
        packed.set(coefficients, if channels == 3 { RGB_GROUP } else { GRAY_GROUP }, left, halves);
        if !have_halves(coefficients) {
            return false;
        }
        for_each_block(source, packed.row_len(channels), out, edge, |rows, out| {
            // SAFETY: AVX2 is there, or `new` made nothing; rows and outputs
            // have the lengths of `row_len`.
            unsafe {
                if channels == 3 {
                    rgb_block(rows, packed, out);
                } else {
                    gray_block(rows, packed, out);
                }
            }
        });
        true
    }

    /// Writes `source`, resized along its rows, to `out`, and returns whether it did: rows may be
    /// too short, and some weights need more bits.
    pub(super) fn vertical(
        &mut self,
        source: Raster<'_>,
        above: usize,
        coefficients: &Coefficients,
        out: &mut [u8],
    ) -> bool {
        // Weights are packed in pairs of rows.
        let packed = &mut self.down;
        packed.set(coefficients, ROW_GROUP, above, halves);
        let (bytes, stride) = source.bytes();
        let (len, height) = (source.row_len(), source.sides().height);
        // A pair may reach one row beyond the last, with a weight of zero.
        if len < CHUNK || packed.reach > height + 1 || !have_halves(coefficients) {
            return false;
        }
        let mut pairs = packed.words.as_chunks::<ROW_GROUP>().0;
        for (tap, out) in packed.taps.iter().zip(out.chunks_exact_mut(len)) {
            let last = (height - 1).saturating_sub(tap.first);
            let words = pairs.split_off(..tap.groups).unwrap_or_default();
            let Some(rows) =
                bytes.get(tap.first * stride..).filter(|rows| rows.len() >= last * stride + len)
            else {
                return false;
            };
            // SAFETY: AVX2 is there, or `new` made nothing; `rows` has `last` rows of `stride` and
            // one of `len` bytes, and `len` is at least a chunk.
            unsafe { rows_down(rows, stride, last, words, out) };
        }
        true
    }
}

/// Whether the upper halves of all weights fit.
fn have_halves(coefficients: &Coefficients) -> bool {
    coefficients
        .iter()
        .flat_map(|(_, weights)| weights)
        .all(|weight| i16::try_from(weight >> LOW_SHIFT).is_ok())
}

/// Writes words of the lower halves of two taps each, then as many of the upper halves: a weight is
/// `high * 2^12 + low`.
fn halves(weights: &[i32], group: usize, words: &mut Vec<i32>) {
    let at = |tap: usize| weights.get(tap).copied().unwrap_or(0);
    let low = |tap: usize| at(tap) & ((1 << LOW_SHIFT) - 1);
    let high = |tap: usize| at(tap) >> LOW_SHIFT;
    // The first number of 16 bits is the lower one.
    let word = |first: i32, second: i32| (first & 0xFFFF) | (second << 16);
    words.extend((0..group / 2).map(|pair| word(low(2 * pair), low(2 * pair + 1))));
    words.extend((0..group / 2).map(|pair| word(high(2 * pair), high(2 * pair + 1))));
}

/// # Safety
/// Each of `rows` has `3 * packed.reach + 4` bytes, each of `out` three for each tap of `packed`.
#[target_feature(enable = "avx2")]
unsafe fn rgb_block(rows: [&[u8]; BLOCK], packed: &Packed, out: [&mut [u8]; BLOCK]) {
    // Taps 0 and 1, and taps 2 and 3, of three channels, as 16-bit numbers:
    // r r g g b b and nothing.
    let first = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
    ));
    let second = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,
    ));
    let half = _mm256_set1_epi32(HALF);
    let rows = rows.map(<[u8]>::as_ptr);
    let out = out.map(<[u8]>::as_mut_ptr);
    let last = packed.taps.len() - 1;
    let mut groups = packed.words.as_chunks::<RGB_GROUP>().0.iter();
    for (x, tap) in packed.taps.iter().enumerate() {
        let (mut low, mut high) = ([half; 2], [_mm256_setzero_si256(); 2]);
        // The groups of all taps follow one another.
        for (group, words) in (0..tap.groups).zip(&mut groups) {
            let weights = words.map(|word| _mm256_set1_epi32(word));
            let at = (tap.first + group * RGB_GROUP) * 3;
            for pair in 0..2 {
                // SAFETY: `at + 16` is at most `3 * (first + groups * 4) + 4`,
                // within `3 * reach + 4`.
                let pixels =
                    unsafe { two_rows(rows[2 * pair].add(at), rows[2 * pair + 1].add(at)) };
                let (a, b) =
                    (_mm256_shuffle_epi8(pixels, first), _mm256_shuffle_epi8(pixels, second));
                low[pair] = _mm256_add_epi32(low[pair], _mm256_madd_epi16(a, weights[0]));
                high[pair] = _mm256_add_epi32(high[pair], _mm256_madd_epi16(a, weights[2]));
                low[pair] = _mm256_add_epi32(low[pair], _mm256_madd_epi16(b, weights[1]));
                high[pair] = _mm256_add_epi32(high[pair], _mm256_madd_epi16(b, weights[3]));
            }
        }
        let (top, bottom) = (joined(low[0], high[0]), joined(low[1], high[1]));
        // Pixels of rows 0 and 2 in the lower lane, of 1 and 3 in the upper one.
        let words = _mm256_packs_epi32(top, bottom);
        let bytes = _mm256_packus_epi16(words, words);
        let even = _mm256_extract_epi64::<0>(bytes).cast_unsigned().to_le_bytes();
        let odd = _mm256_extract_epi64::<2>(bytes).cast_unsigned().to_le_bytes();
        let pixels = [
            [even[0], even[1], even[2], even[3]],
            [odd[0], odd[1], odd[2], odd[3]],
            [even[4], even[5], even[6], even[7]],
            [odd[4], odd[5], odd[6], odd[7]],
        ];
        for (out, pixel) in out.iter().zip(pixels) {
            // SAFETY: pixel `x` has three bytes in its row, and another pixel follows unless it is
            // the last; the fourth byte is that pixel's to write.
            unsafe {
                let to = out.add(x * 3);
                if x < last {
                    to.cast::<[u8; 4]>().write_unaligned(pixel);
                } else {
                    to.cast::<[u8; 3]>().write_unaligned([pixel[0], pixel[1], pixel[2]]);
                }
            }
        }
    }
}

/// # Safety
/// Each of `rows` has `packed.reach` bytes, each of `out` one for each tap of `packed`.
#[target_feature(enable = "avx2")]
unsafe fn gray_block(rows: [&[u8]; BLOCK], packed: &Packed, out: [&mut [u8]; BLOCK]) {
    let rows = rows.map(<[u8]>::as_ptr);
    let out = out.map(<[u8]>::as_mut_ptr);
    let mut groups = packed.words.as_chunks::<GRAY_GROUP>().0.iter();
    for (x, tap) in packed.taps.iter().enumerate() {
        let (mut low, mut high) = ([_mm256_setzero_si256(); 2], [_mm256_setzero_si256(); 2]);
        for (group, words) in (0..tap.groups).zip(&mut groups) {
            let weights = words.as_ptr().cast::<__m128i>();
            // SAFETY: a group has eight words.
            let (lows, highs) =
                unsafe { (_mm_loadu_si128(weights), _mm_loadu_si128(weights.add(1))) };
            let (lows, highs) =
                (_mm256_broadcastsi128_si256(lows), _mm256_broadcastsi128_si256(highs));
            let at = tap.first + group * GRAY_GROUP;
            for pair in 0..2 {
                // SAFETY: `at + 8` is at most `first + groups * 8`, within `reach`.
                let (upper, lower) = unsafe {
                    (
                        _mm_loadl_epi64(rows[2 * pair].add(at).cast()),
                        _mm_loadl_epi64(rows[2 * pair + 1].add(at).cast()),
                    )
                };
                let pixels = _mm256_cvtepu8_epi16(_mm_unpacklo_epi64(upper, lower));
                low[pair] = _mm256_add_epi32(low[pair], _mm256_madd_epi16(pixels, lows));
                high[pair] = _mm256_add_epi32(high[pair], _mm256_madd_epi16(pixels, highs));
            }
        }
        let sums =
            |pair: usize| _mm256_add_epi32(_mm256_slli_epi32::<LOW_SHIFT>(high[pair]), low[pair]);
        let sums = _mm256_hadd_epi32(sums(0), sums(1));
        let sums = _mm256_add_epi32(_mm256_hadd_epi32(sums, sums), _mm256_set1_epi32(HALF));
        let words = _mm256_srai_epi32::<SHIFT>(sums);
        let values = [
            _mm256_extract_epi32::<0>(words),
            _mm256_extract_epi32::<4>(words),
            _mm256_extract_epi32::<1>(words),
            _mm256_extract_epi32::<5>(words),
        ];
        for (out, value) in out.iter().zip(values) {
            // SAFETY: pixel `x` is in its row.
            unsafe {
                out.add(x).write(clamped(value));
            }
        }
    }
}

/// # Safety
/// `rows` has `last * stride + out.len()` bytes, and `out` at least [`CHUNK`].
#[target_feature(enable = "avx2")]
unsafe fn rows_down(
    rows: &[u8],
    stride: usize,
    last: usize,
    words: &[[i32; ROW_GROUP]],
    out: &mut [u8],
) {
    let zero = _mm256_setzero_si256();
    let half = _mm256_set1_epi32(HALF);
    let len = out.len();
    let mut at = 0;
    while at < len {
        // The last chunk overlaps the one before it, and writes equal bytes there.
        let column = at.min(len - CHUNK);
        let (mut low, mut high) = ([half; 4], [zero; 4]);
        for (pair, [lows, highs]) in words.iter().enumerate() {
            let (lows, highs) = (_mm256_set1_epi32(*lows), _mm256_set1_epi32(*highs));
            // SAFETY: rows are limited to the last, and a chunk from `column` on ends within `len`.
            let (a, b) = unsafe {
                let first = rows.as_ptr().add((2 * pair).min(last) * stride + column);
                let second = rows.as_ptr().add((2 * pair + 1).min(last) * stride + column);
                (_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(second.cast()))
            };
            let (left, right) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            let pixels = [
                _mm256_unpacklo_epi8(left, zero),
                _mm256_unpackhi_epi8(left, zero),
                _mm256_unpacklo_epi8(right, zero),
                _mm256_unpackhi_epi8(right, zero),
            ];
            for part in 0..4 {
                low[part] = _mm256_add_epi32(low[part], _mm256_madd_epi16(pixels[part], lows));
                high[part] = _mm256_add_epi32(high[part], _mm256_madd_epi16(pixels[part], highs));
            }
        }
        let left = _mm256_packs_epi32(joined(low[0], high[0]), joined(low[1], high[1]));
        let right = _mm256_packs_epi32(joined(low[2], high[2]), joined(low[3], high[3]));
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_si256(
                out.as_mut_ptr().add(column).cast(),
                _mm256_packus_epi16(left, right),
            );
        };
        at += CHUNK;
    }
}

/// The scalar code, with vectors that can shuffle bytes: a quarter of the time.
pub(crate) fn split_channels(pixels: &[[u8; 3]], planes: [&mut [u8]; 3], flip: bool) {
    #[target_feature(enable = "avx2")]
    fn with_avx2(pixels: &[[u8; 3]], planes: [&mut [u8]; 3], flip: bool) {
        super::passes::split_channels(pixels, planes, flip);
    }
    if name().is_none() {
        return super::passes::split_channels(pixels, planes, flip);
    }
    // SAFETY: AVX2 is there, and nothing else is asked for.
    unsafe { with_avx2(pixels, planes, flip) }
}

#[expect(clippy::cast_sign_loss, reason = "clamped to a byte")]
fn clamped(value: i32) -> u8 {
    value.clamp(0, 255) as u8
}

/// Sixteen bytes of each of two rows.
///
/// # Safety
/// Both pointers have sixteen bytes to read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn two_rows(first: *const u8, second: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(_mm_loadu_si128(first.cast())),
            _mm_loadu_si128(second.cast()),
        )
    }
}

/// Sums of both halves, without the bits after the point.
#[target_feature(enable = "avx2")]
#[inline]
fn joined(low: __m256i, high: __m256i) -> __m256i {
    _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(_mm256_slli_epi32::<LOW_SHIFT>(high), low))
}
