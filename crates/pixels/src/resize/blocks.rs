//! Rows in blocks of four, so that a kernel loads weights once for all of them.
//!
//! A raster enters, slices leave. Invariant, on which `unsafe` code relies: a row has at least as
//! many bytes as a kernel reads, and an output as many as it writes, also for the last rows, whose
//! vectors would reach beyond the image.

use crate::raster::Raster;

/// Rows that the horizontal pass works on at once.
pub(super) const BLOCK: usize = 4;

/// Bytes of a row that a kernel reads and writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowLen {
    pub read: usize,
    pub written: usize,
}

/// Calls `run` with each four rows of `source` and the rows of `out` that they become. `edge` is a
/// buffer for the last ones.
pub(super) fn for_each_block(
    source: Raster<'_>,
    len: RowLen,
    out: &mut [u8],
    edge: &mut Vec<u8>,
    mut run: impl FnMut([&[u8]; BLOCK], [&mut [u8]; BLOCK]),
) {
    let (bytes, stride) = source.bytes();
    for (block, out) in out.chunks_mut(len.written * BLOCK).enumerate() {
        let top = block * BLOCK;
        let row = |y: usize| bytes.get((top + y) * stride..(top + y) * stride + len.read);
        let mut outs = out.chunks_exact_mut(len.written);
        if let (Some(a), Some(b), Some(c), Some(d)) = (row(0), row(1), row(2), row(3))
            && let (Some(w), Some(x), Some(y), Some(z)) =
                (outs.next(), outs.next(), outs.next(), outs.next())
        {
            run([a, b, c, d], [w, x, y, z]);
            continue;
        }
        // Too few rows for a block, or too close to the end: four rows of their own, and four for
        // what they become.
        let in_len = len.read.max(source.row_len());
        edge.clear();
        edge.resize(BLOCK * (in_len + len.written), 0);
        let (rows, results) = edge.split_at_mut(BLOCK * in_len);
        let rows_left = out.len() / len.written;
        for (y, row) in rows.chunks_exact_mut(in_len).take(rows_left).enumerate() {
            let source = source.row(top + y);
            row.iter_mut().zip(source).for_each(|(to, from)| *to = *from);
        }
        let mut rows = rows.chunks_exact(in_len);
        let mut outs = results.chunks_exact_mut(len.written);
        if let (Some(a), Some(b), Some(c), Some(d)) =
            (rows.next(), rows.next(), rows.next(), rows.next())
            && let (Some(w), Some(x), Some(y), Some(z)) =
                (outs.next(), outs.next(), outs.next(), outs.next())
        {
            run([a, b, c, d], [w, x, y, z]);
        }
        out.iter_mut().zip(results.iter()).for_each(|(to, from)| *to = *from);
    }
}
