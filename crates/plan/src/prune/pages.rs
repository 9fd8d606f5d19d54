//! Determines from page statistics which rows of a block can be kept.

use super::prune;
use crate::Predicate;
use shardmill_formats::table::{BlockPages, Statistics};
use std::collections::BTreeMap;
use std::ops::Range;

/// Ascending, separate runs of rows of one block outside of which no row is kept. `pages` is called
/// once for each column.
///
/// # Errors
/// Errors of `pages`.
pub fn prune_pages<E>(
    predicate: &Predicate,
    row_count: u64,
    mut pages: impl FnMut(&str) -> Result<Option<BlockPages>, E>,
) -> Result<Vec<Range<u64>>, E> {
    let mut known = BTreeMap::new();
    for column in predicate.columns() {
        if let Some(pages) = pages(column)?.filter(|pages| is_sound(pages, row_count)) {
            known.insert(column.to_owned(), pages);
        }
    }
    // Pages of different columns end at different rows, so the block is split at every border.
    let mut borders: Vec<u64> =
        known.values().flat_map(|pages| pages.first_rows.iter().copied()).chain([0]).collect();
    borders.sort_unstable();
    borders.dedup();
    let ends = borders.iter().skip(1).copied().chain([row_count]);
    let pieces: Vec<Range<u64>> =
        borders.iter().zip(ends).map(|(first, end)| *first..end).collect();
    let row_counts: Vec<u64> =
        pieces.iter().map(|piece| piece.end.saturating_sub(piece.start)).collect();
    let statistics: BTreeMap<&str, Statistics> = known
        .iter()
        .filter_map(|(column, pages)| {
            Some((column.as_str(), of_pieces(pages, &pieces, &row_counts)?))
        })
        .collect();
    let facts = |column: &str| statistics.get(column).cloned();
    let mut kept: Vec<Range<u64>> = Vec::new();
    for (piece, _) in pieces
        .into_iter()
        .zip(prune(predicate, &row_counts, &facts))
        .filter(|(_, is_kept)| *is_kept)
    {
        match kept.last_mut() {
            Some(last) if last.end == piece.start => last.end = piece.end,
            _ => kept.push(piece),
        }
    }
    Ok(kept)
}

/// Pages must begin at row 0, be contiguous, and lie inside of the block.
fn is_sound(pages: &BlockPages, row_count: u64) -> bool {
    let first_rows = &pages.first_rows;
    first_rows.first() == Some(&0)
        && first_rows.is_sorted_by(|a, b| a < b)
        && first_rows.last().is_some_and(|last| *last < row_count)
        && pages.statistics.null_counts.len() == first_rows.len()
}

/// Each piece gets the statistics of its page.
fn of_pieces(pages: &BlockPages, pieces: &[Range<u64>], row_counts: &[u64]) -> Option<Statistics> {
    let page_of = |piece: &Range<u64>| {
        pages.first_rows.partition_point(|first| *first <= piece.start).checked_sub(1)
    };
    let of_piece = pieces.iter().map(page_of).collect::<Option<Vec<usize>>>()?;
    pages.statistics.of_parts(&of_piece, row_counts.to_vec())
}
