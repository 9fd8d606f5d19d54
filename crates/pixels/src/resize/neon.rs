//! The two passes for aarch64 with NEON.
//!
//! Rows and weights enter, rows of bytes leave. A pixel is widened to 32 bits and multiplied by
//! whole weights. Invariant: equal to `passes.rs` in every byte. Functions check lengths once,
//! before the loops that read and write by pointer.
#![expect(
    unsafe_code,
    reason = "loads and stores of vectors; one file a platform, compared with the scalar passes \
        by a property test"
)]

use std::arch::aarch64::*;

use super::blocks::{BLOCK, for_each_block};
use super::coefficients::{Coefficients, PRECISION_BITS};
use super::packed::Packed;
// Channels are split in vectors by the compiler, as NEON loads every third byte.
pub(crate) use super::passes::split_channels;
use super::passes::{HALF, clip};
use crate::raster::Raster;

/// Taps in a group of packed weights.
const RGB_GROUP: usize = 4;
const GRAY_GROUP: usize = 8;

/// Bytes of a row that the vertical pass works on at once.
const CHUNK: usize = 16;

const SHIFT: i32 = PRECISION_BITS as i32;

/// For each of four taps, where the bytes of four 32-bit numbers come from: r, g, b and nothing.
const SPREAD: [[u8; 16]; RGB_GROUP] = [spread(0), spread(3), spread(6), spread(9)];

const fn spread(at: u8) -> [u8; 16] {
    // Indices out of range give zero.
    [at, 255, 255, 255, at + 1, 255, 255, 255, at + 2, 255, 255, 255, 255, 255, 255, 255]
}

/// The instruction set, if this CPU has it.
pub(crate) fn name() -> Option<&'static str> {
    std::arch::is_aarch64_feature_detected!("neon").then_some("NEON")
}

/// Packed weights of the horizontal pass, and the buffer of the last rows.
#[derive(Debug)]
pub(super) struct Passes {
    across: Packed,
    edge: Vec<u8>,
}

impl Passes {
    pub(super) fn new() -> Option<Self> {
        name().map(|_| Self { across: Packed::default(), edge: Vec::new() })
    }

    /// Writes each row of `source`, resized along its columns, to `out`,
    /// and returns whether it did.
    pub(super) fn horizontal(
        &mut self,
        source: Raster<'_>,
        left: usize,
        coefficients: &Coefficients,
        out: &mut [u8],
    ) -> bool {
        let Self { across: packed, edge } = self;
        let channels = source.channels();
        packed.set(coefficients, if channels == 3 { RGB_GROUP } else { GRAY_GROUP }, left, whole);
        for_each_block(source, packed.row_len(channels), out, edge, |rows, out| {
            // SAFETY: NEON is there, or `new` made nothing; rows and outputs
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
    /// too short.
    pub(super) fn vertical(
        &mut self,
        source: Raster<'_>,
        above: usize,
        coefficients: &Coefficients,
        out: &mut [u8],
    ) -> bool {
        let (bytes, stride) = source.bytes();
        let len = source.row_len();
        if len < CHUNK {
            return false;
        }
        for ((first, weights), out) in coefficients.iter().zip(out.chunks_exact_mut(len)) {
            let needed = weights.len().saturating_sub(1) * stride + len;
            let Some(rows) =
                bytes.get((first - above) * stride..).filter(|rows| rows.len() >= needed)
            else {
                return false;
            };
            // SAFETY: NEON is there, or `new` made nothing; `rows` has a row of `len` bytes for
            // each weight, and `len` is at least a chunk.
            unsafe { rows_down(rows, stride, weights, out) };
        }
        true
    }
}

/// Writes weights as they are, and zeros.
fn whole(weights: &[i32], group: usize, words: &mut Vec<i32>) {
    words.extend_from_slice(weights);
    words.resize(words.len() + group - weights.len(), 0);
}

/// # Safety
/// Each of `rows` has `3 * packed.reach + 4` bytes, each of `out` three for each tap of `packed`.
#[target_feature(enable = "neon")]
unsafe fn rgb_block(rows: [&[u8]; BLOCK], packed: &Packed, out: [&mut [u8]; BLOCK]) {
    // SAFETY: each has sixteen bytes.
    let [first, second, third, fourth] =
        SPREAD.map(|indices| unsafe { vld1q_u8(indices.as_ptr()) });
    let rows = rows.map(<[u8]>::as_ptr);
    let out = out.map(<[u8]>::as_mut_ptr);
    let last = packed.taps.len() - 1;
    let mut groups = packed.words.as_chunks::<RGB_GROUP>().0.iter();
    for (x, tap) in packed.taps.iter().enumerate() {
        let mut sums = [vdupq_n_s32(HALF); BLOCK];
        // The groups of all taps follow one another.
        for (group, words) in (0..tap.groups).zip(&mut groups) {
            // SAFETY: a group has four words.
            let weights = unsafe { vld1q_s32(words.as_ptr()) };
            let at = (tap.first + group * RGB_GROUP) * 3;
            for (sum, row) in sums.iter_mut().zip(rows) {
                // SAFETY: `at + 16` is at most `3 * (first + groups * 4) + 4`,
                // within `3 * reach + 4`.
                let pixels = unsafe { vld1q_u8(row.add(at)) };
                *sum = vmlaq_laneq_s32::<0>(*sum, widened(pixels, first), weights);
                *sum = vmlaq_laneq_s32::<1>(*sum, widened(pixels, second), weights);
                *sum = vmlaq_laneq_s32::<2>(*sum, widened(pixels, third), weights);
                *sum = vmlaq_laneq_s32::<3>(*sum, widened(pixels, fourth), weights);
            }
        }
        for (out, sum) in out.iter().zip(sums) {
            let words = vqmovun_s32(vshrq_n_s32::<SHIFT>(sum));
            let bytes = vqmovn_u16(vcombine_u16(words, words));
            let pixel = vget_lane_u32::<0>(vreinterpret_u32_u8(bytes)).to_le_bytes();
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
#[target_feature(enable = "neon")]
unsafe fn gray_block(rows: [&[u8]; BLOCK], packed: &Packed, out: [&mut [u8]; BLOCK]) {
    let rows = rows.map(<[u8]>::as_ptr);
    let out = out.map(<[u8]>::as_mut_ptr);
    let mut groups = packed.words.as_chunks::<GRAY_GROUP>().0.iter();
    for (x, tap) in packed.taps.iter().enumerate() {
        let mut sums = [vdupq_n_s32(0); BLOCK];
        for (group, words) in (0..tap.groups).zip(&mut groups) {
            // SAFETY: a group has eight words.
            let (left, right) =
                unsafe { (vld1q_s32(words.as_ptr()), vld1q_s32(words.as_ptr().add(4))) };
            let at = tap.first + group * GRAY_GROUP;
            for (sum, row) in sums.iter_mut().zip(rows) {
                // SAFETY: `at + 8` is at most `first + groups * 8`, within `reach`.
                let pixels = vmovl_u8(unsafe { vld1_u8(row.add(at)) });
                *sum =
                    vmlaq_s32(*sum, vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(pixels))), left);
                *sum = vmlaq_s32(*sum, vreinterpretq_s32_u32(vmovl_high_u16(pixels)), right);
            }
        }
        for (out, sum) in out.iter().zip(sums) {
            // SAFETY: pixel `x` is in its row.
            unsafe { out.add(x).write(clip(vaddvq_s32(sum).wrapping_add(HALF))) };
        }
    }
}

/// # Safety
/// `rows` has a row of `out.len()` bytes for each of `weights`, `stride` bytes apart, and `out` at
/// least [`CHUNK`].
#[target_feature(enable = "neon")]
unsafe fn rows_down(rows: &[u8], stride: usize, weights: &[i32], out: &mut [u8]) {
    let len = out.len();
    let mut at = 0;
    while at < len {
        // The last chunk overlaps the one before it, and writes equal bytes there.
        let column = at.min(len - CHUNK);
        let [mut a, mut b, mut c, mut d] = [vdupq_n_s32(HALF); 4];
        for (y, weight) in weights.iter().enumerate() {
            // SAFETY: there is a row for each weight, and a chunk from `column` on ends within it.
            let pixels = unsafe { vld1q_u8(rows.as_ptr().add(y * stride + column)) };
            let (left, right) = (vmovl_u8(vget_low_u8(pixels)), vmovl_high_u8(pixels));
            a = vmlaq_n_s32(a, vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(left))), *weight);
            b = vmlaq_n_s32(b, vreinterpretq_s32_u32(vmovl_high_u16(left)), *weight);
            c = vmlaq_n_s32(c, vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(right))), *weight);
            d = vmlaq_n_s32(d, vreinterpretq_s32_u32(vmovl_high_u16(right)), *weight);
        }
        let bytes = vcombine_u8(narrowed(a, b), narrowed(c, d));
        // SAFETY: as above.
        unsafe { vst1q_u8(out.as_mut_ptr().add(column), bytes) };
        at += CHUNK;
    }
}

/// The bytes that `indices` name, as 32-bit numbers.
#[target_feature(enable = "neon")]
#[inline]
fn widened(pixels: uint8x16_t, indices: uint8x16_t) -> int32x4_t {
    vreinterpretq_s32_u8(vqtbl1q_u8(pixels, indices))
}

/// Sums without the bits after the point, clamped to bytes.
#[target_feature(enable = "neon")]
#[inline]
fn narrowed(left: int32x4_t, right: int32x4_t) -> uint8x8_t {
    vqmovn_u16(vcombine_u16(
        vqmovun_s32(vshrq_n_s32::<SHIFT>(left)),
        vqmovun_s32(vshrq_n_s32::<SHIFT>(right)),
    ))
}
