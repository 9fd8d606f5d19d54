//! Adjusts the remaining rows after a filter (interleaved specification §5).
//!
//! The invariant: after [`settle`] the content of each document is numbered 0 … n−1 in the order of
//! its old positions, metadata first.

use crate::ledger::Ledger;
use crate::{Chunk, Modality, Row};
use std::collections::HashSet;

/// Why a metadata row is dropped without a verdict.
pub const ORPHAN: &str = "metadata of a sample without content";

/// Keeps the flagged rows, renumbers the content of each document and removes documents without
/// content. `only` restricts the last two to some documents. Returns the number of metadata rows
/// removed with their documents.
pub fn settle(chunk: &mut Chunk, keep: &[bool], only: Option<&HashSet<usize>>) -> u64 {
    let ranges = chunk.document_ranges();
    let mut flags = keep.iter().copied();
    let mut rows = std::mem::take(&mut chunk.rows).into_iter();
    let mut settled = Vec::with_capacity(rows.len());
    let mut orphans = 0;
    for range in ranges {
        let kept: Vec<Row> =
            rows.by_ref().take(range.len()).filter(|_| flags.next().unwrap_or(false)).collect();
        let is_judged =
            kept.first().is_some_and(|row| only.is_none_or(|only| only.contains(&row.document)));
        if !is_judged {
            settled.extend(kept);
            continue;
        }
        let (mut content, metadata): (Vec<Row>, Vec<Row>) =
            kept.into_iter().partition(|row| row.modality.is_content());
        if content.is_empty() {
            orphans += metadata.len() as u64;
            continue;
        }
        content.sort_by_key(|row| (row.position, rank(&row.modality)));
        settled.extend(metadata);
        settled.extend(content.into_iter().zip(0..).map(|(row, position)| Row { position, ..row }));
    }
    chunk.rows = settled;
    let all = vec![true; chunk.rows.len()];
    chunk.retain(&all);
    orphans
}

/// Text precedes an image at the same position.
fn rank(modality: &Modality) -> u8 {
    match modality {
        Modality::Metadata => 0,
        Modality::Text => 1,
        Modality::Image => 2,
        Modality::Other(_) => 3,
    }
}

/// Which rows are not valid interleaved rows: unknown modalities, metadata that is not at −1,
/// content below 0.
#[must_use]
pub fn is_valid(row: &Row) -> bool {
    match row.modality {
        Modality::Metadata => row.position == -1,
        Modality::Text | Modality::Image => row.position >= 0,
        Modality::Other(_) => false,
    }
}

/// Applies a filter's verdict: removes invalid rows if requested, then the rejected rows, then
/// orphaned metadata.
pub fn apply_verdict(
    chunk: &mut Chunk,
    mut keep: Vec<bool>,
    drop_invalid_rows: bool,
    ledger: &mut Ledger,
) {
    if drop_invalid_rows {
        let mut invalid = 0;
        for (row, keep) in chunk.rows.iter().zip(&mut keep) {
            if !is_valid(row) && *keep {
                *keep = false;
                invalid += 1;
            }
        }
        ledger.drop_rows("invalid modality or position", invalid);
    }
    let orphans = settle(chunk, &keep, None);
    ledger.drop_rows(ORPHAN, orphans);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lineage;
    use crate::payload::Payload;
    use crate::schema::canonical_schema;
    use arrow_array::RecordBatch;
    use arrow_schema::Schema;
    use std::sync::Arc;

    fn chunk(rows: &[(usize, i32, &str)]) -> Chunk {
        let row = |(document, position, modality): &(usize, i32, &str)| Row {
            document: *document,
            position: *position,
            modality: Modality::new(modality),
            content_type: None,
            text: Some(format!("{document}/{position}/{modality}")),
            payload: Payload::Absent,
            source_ref: None,
            error: None,
            extra: None,
        };
        let documents = rows.iter().map(|row| row.0).max().map_or(0, |last| last + 1);
        Chunk {
            documents: (0..documents).map(|document| format!("d{document}")).collect(),
            rows: rows.iter().map(row).collect(),
            extras: RecordBatch::new_empty(Arc::new(Schema::empty())),
            schema: canonical_schema([]),
            lineage: Lineage::default(),
        }
    }

    fn shape(chunk: &Chunk) -> Vec<(String, i32, String)> {
        chunk
            .rows
            .iter()
            .map(|row| {
                (chunk.id_of(row).to_owned(), row.position, row.text.clone().unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn content_is_numbered_anew_by_old_position_and_text_wins_ties() {
        let mut chunk =
            chunk(&[(0, 4, "text"), (0, -1, "metadata"), (0, 2, "image"), (0, 2, "text")]);
        assert_eq!(settle(&mut chunk, &[true; 4], None), 0);
        let expected = [(-1, "0/-1/metadata"), (0, "0/2/text"), (1, "0/2/image"), (2, "0/4/text")];
        assert_eq!(
            shape(&chunk),
            expected.map(|(position, text)| ("d0".to_owned(), position, text.to_owned()))
        );
    }

    #[test]
    fn document_without_content_goes_and_the_others_keep_their_order() {
        let mut chunk = chunk(&[
            (0, -1, "metadata"),
            (0, 0, "image"),
            (1, -1, "metadata"),
            (2, -1, "metadata"),
            (2, 0, "text"),
        ]);
        assert_eq!(settle(&mut chunk, &[true, false, true, true, true], None), 2);
        assert_eq!(chunk.documents, ["d2"]);
        assert_eq!(chunk.rows.iter().map(|row| row.document).collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn only_the_named_documents_are_touched() {
        let mut chunk = chunk(&[(0, -1, "metadata"), (1, 3, "text"), (1, 5, "image")]);
        settle(&mut chunk, &[true, true, false], Some(&HashSet::from([1])));
        assert_eq!(chunk.rows.iter().map(|row| row.position).collect::<Vec<_>>(), [-1, 0]);
    }
}
