//! Which rows of a stripe are null, for structs whose other fields are not read.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use bytes::Bytes;

/// The nulls of a struct: `present` has a bit for each of the rows where the struct around it,
/// `outer`, is not null. `None` if there are fewer bits.
pub(super) fn nulls(
    present: Option<&Bytes>,
    outer: Option<NullBuffer>,
    rows: usize,
) -> Option<Option<NullBuffer>> {
    let Some(present) = present else { return Some(outer) };
    let wanted = outer.as_ref().map_or(rows, |outer| outer.len() - outer.null_count());
    let bits = bits(present, wanted)?;
    let Some(outer) = outer else { return Some(Some(NullBuffer::new(bits))) };
    let mut merged = BooleanBufferBuilder::new(rows);
    merged.append_n(rows, false);
    for (row, bit) in outer.valid_indices().zip(bits.iter()) {
        merged.set_bit(row, bit);
    }
    Some(Some(NullBuffer::new(merged.finish())))
}

/// Decodes runs of bytes whose bits, the highest first, are the values.
fn bits(mut stream: &[u8], wanted: usize) -> Option<BooleanBuffer> {
    let mut found = BooleanBufferBuilder::new(wanted);
    while found.len() < wanted {
        let (header, rest) = stream.split_first()?;
        let ((bytes, behind), repeats) = match *header {
            control @ 0..0x80 => (rest.split_at_checked(1)?, usize::from(control) + 3),
            control => (rest.split_at_checked(0x100 - usize::from(control))?, 1),
        };
        for byte in bytes.iter().flat_map(|byte| std::iter::repeat_n(*byte, repeats)) {
            (0..8)
                .rev()
                .take(wanted - found.len())
                .for_each(|bit| found.append(byte >> bit & 1 == 1));
        }
        stream = behind;
    }
    Some(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_literal_bytes_are_bits_and_a_stream_that_ends_early_is_refused() {
        // The example of the ORC specification: one run of a hundred zeros, and two literal bytes.
        let stream = [0x61, 0x00, 0xfe, 0x44, 0x45];
        let found: Vec<usize> = bits(&stream, 816).unwrap().set_indices().collect();
        assert_eq!(found, [801, 805, 809, 813, 815]);
        assert!(bits(&stream, 817).is_none());
    }

    #[test]
    fn inner_struct_has_bits_only_where_the_outer_one_is_not_null() {
        let outer = NullBuffer::from(vec![true, false, true, true]);
        let found = nulls(Some(&Bytes::from_static(&[0xff, 0b0110_0000])), Some(outer), 4)
            .unwrap()
            .unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [false, false, true, true]);
    }
}
