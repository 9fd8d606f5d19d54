//! The order of the pixels of an image that is cut into patches or tiles, as in Qwen2-VL and
//! SigLIP 2 (`image_processing_qwen2_vl.py` and `image_processing_siglip2.py` of transformers 5.23).

/// Squares of pixels, each stored as channel planes or as interleaved pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patches {
    /// Side of a patch in pixels.
    pub size: usize,
    /// Patches come in squares of this many patches a side, and these row by row.
    pub merge: usize,
    /// How often each plane comes: the frames of a video, of which an image has equal ones.
    pub frames: usize,
    /// Whether the channels of a pixel are adjacent. If so, there is only one frame.
    pub is_interleaved: bool,
}

const MOST_ROWS: usize = 32;

impl Patches {
    /// The number of the patch at a row and a column of patches, of which a row has `columns`.
    fn number(self, row: usize, column: usize, columns: usize) -> usize {
        let merge = self.merge.max(1);
        let square = row / merge * (columns / merge) + column / merge;
        (square * merge + row % merge) * merge + column % merge
    }

    /// Number of rows from row `y` on that are in the same patches, at most `MOST_ROWS`: more would
    /// not stay in the cache.
    pub(crate) fn rows_of_band(self, y: usize) -> usize {
        (self.size.max(1) - y % self.size.max(1)).min(MOST_ROWS)
    }

    /// Writes rows of pixels, from row `y` on, to their places in `out`, which has the patches of an
    /// image. The rows are `width` pixels long, and in the same patches.
    pub(crate) fn write_band<const BYTES: usize>(
        self,
        y: usize,
        (pixels, width): (&[[u8; 3]], usize),
        out: &mut [[u8; BYTES]],
        value: impl Fn(usize, u8) -> [u8; BYTES],
    ) {
        let (size, frames) = (self.size.max(1), self.frames.max(1));
        let columns = width / size;
        let rows = pixels.len() / width.max(1);
        for column in 0..columns {
            let patch = self.number(y / size, column, columns);
            let runs = pixels.chunks_exact(width);
            let runs = runs.filter_map(|row| row.get(column * size..(column + 1) * size));
            if self.is_interleaved {
                let start = (patch * size + y % size) * size * 3;
                let out = out.get_mut(start..start + rows * size * 3).unwrap_or_default();
                for (out, pixel) in out.as_chunks_mut::<3>().0.iter_mut().zip(runs.flatten()) {
                    let [red, green, blue] = *pixel;
                    *out = [value(0, red), value(1, green), value(2, blue)];
                }
                continue;
            }
            for channel in 0..3 {
                let start = ((patch * 3 + channel) * frames * size + y % size) * size;
                let (plane, len) = (size * size, rows * size);
                let end = start + (frames - 1) * plane + len;
                let Some(out) = out.get_mut(start..end) else { continue };
                for (out, run) in out.chunks_exact_mut(size).zip(runs.clone()) {
                    for (out, pixel) in out.iter_mut().zip(run) {
                        *out = value(channel, pixel.get(channel).copied().unwrap_or_default());
                    }
                }
                (1..frames).for_each(|frame| out.copy_within(..len, frame * plane));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_a_square_come_before_those_of_the_next() {
        let patches = Patches { size: 1, merge: 2, frames: 1, is_interleaved: false };
        let numbers: Vec<usize> = (0..4)
            .flat_map(|row| (0..4).map(move |column| patches.number(row, column, 4)))
            .collect();
        assert_eq!(numbers, [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
    }

    #[test]
    fn a_patch_has_the_planes_of_its_channels_for_each_frame() {
        let patches = Patches { size: 2, merge: 1, frames: 2, is_interleaved: false };
        let rows: [[[u8; 3]; 4]; 2] = [
            [[1, 11, 21], [2, 12, 22], [5, 15, 25], [6, 16, 26]],
            [[3, 13, 23], [4, 14, 24], [7, 17, 27], [8, 18, 28]],
        ];
        let mut out = [[0; 1]; 48];
        patches.write_band(0, (rows.as_flattened(), 4), &mut out, |_, value| [value]);
        let plane = |first: u8| [first, first + 1, first + 2, first + 3].repeat(2);
        let expected: Vec<u8> = [1, 11, 21, 5, 15, 25].into_iter().flat_map(plane).collect();
        assert_eq!(out.as_flattened(), expected);
    }

    #[test]
    fn interleaved_patches_have_their_pixels_row_by_row() {
        let patches = Patches { size: 2, merge: 1, frames: 1, is_interleaved: true };
        let pixel = |first: u8| [first, first + 1, first + 2];
        let rows = [[0, 3, 12, 15], [6, 9, 18, 21]].map(|row| row.map(pixel));
        let mut out = [[0; 1]; 24];
        patches.write_band(0, (rows.as_flattened(), 4), &mut out, |_, value| [value]);
        assert_eq!(out.as_flattened(), (0..24).collect::<Vec<u8>>());
    }
}
