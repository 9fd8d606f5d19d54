//! Run lengths of indices, in four or eight bits.
//!
//! As Pillow reads them, where it differs from others. Invariant: at most as many indices as pixels
//! are made.

/// The indices of all pixels in the order of the file; `None` where the runs end before.
pub(super) fn decode(
    payload: &[u8],
    start: usize,
    bits: u8,
    (width, height): (usize, usize),
) -> Option<Vec<u8>> {
    let len = width.checked_mul(height)?;
    let mut indices = Vec::new();
    let (mut at, mut x) = (start, 0_usize);
    while indices.len() < len {
        let Some(&[count, value]) = payload.get(at..).and_then(|rest| rest.first_chunk()) else {
            break;
        };
        at += 2;
        match (count, value) {
            (0, 0) => {
                let missing = indices.len().next_multiple_of(width) - indices.len();
                indices.resize(indices.len() + missing, 0);
                x = 0;
            }
            (0, 1) => break,
            (0, 2) => {
                let Some(&[right, up]) = payload.get(at..).and_then(|rest| rest.first_chunk())
                else {
                    break;
                };
                at += 2;
                let skipped = usize::from(right) + usize::from(up) * width;
                indices.resize(len.min(indices.len() + skipped), 0);
                x = indices.len() % width;
            }
            (0, count) => {
                let wanted = usize::from(count).min(len - indices.len());
                let byte_count = if bits == 4 { wanted.div_ceil(2) } else { wanted };
                let rest = payload.get(at..).unwrap_or_default();
                let Some(literal) = rest.get(..byte_count) else { break };
                at += byte_count;
                if bits == 4 {
                    indices.extend(
                        literal.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(wanted),
                    );
                } else {
                    indices.extend_from_slice(literal);
                }
                if indices.len() == len {
                    break;
                }
                x += usize::from(count);
                // Literals fill words of the file.
                at += at % 2;
            }
            (count, value) => {
                let count = usize::from(count).min(width.saturating_sub(x));
                if bits == 4 {
                    indices.extend(
                        (0..count).map(|k| if k % 2 == 0 { value >> 4 } else { value & 15 }),
                    );
                } else {
                    indices.resize(indices.len() + count, value);
                }
                x += count;
            }
        }
    }
    indices.truncate(len);
    (indices.len() == len).then_some(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_literals_and_skips() {
        let runs = [2, 7, 0, 0, 0, 3, 1, 2, 3, 0, 0, 2, 0, 1];
        assert_eq!(decode(&runs, 0, 8, (3, 3)), Some(vec![7, 7, 0, 1, 2, 3, 0, 0, 0]));
        let runs = [2, 7, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 3, 9];
        assert_eq!(decode(&runs, 0, 8, (3, 3)), Some(vec![7, 7, 0, 1, 2, 3, 9, 9, 9]));
        assert_eq!(decode(&runs[..8], 0, 8, (3, 3)), None);
    }

    #[test]
    fn nibbles_alternate_in_a_run() {
        assert_eq!(
            decode(&[3, 0xa5, 0, 0, 0, 3, 0x12, 0x30], 0, 4, (3, 2)),
            Some(vec![10, 5, 10, 1, 2, 3])
        );
    }
}
