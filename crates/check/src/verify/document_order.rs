//! The order of rows within documents, judged row by row.
//!
//! Rows are pushed in file order; the first violated rule of each document is reported. A document
//! is a run of rows with equal ids in which a metadata row after the first row starts a new one; so
//! two documents may share an id, and a metadata row directly after another one indicates two
//! merged documents.

/// Judges the rows of one file.
#[derive(Debug, Default)]
pub(super) struct DocumentOrder {
    is_renumbered: bool,
    document: Option<Document>,
}

#[derive(Debug)]
struct Document {
    id: String,
    rows: u64,
    last_position: i32,
    /// Modalities of the rows at `last_position`.
    at_last: Vec<String>,
    is_reported: bool,
}

/// The effect of a row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub is_new_document: bool,
    pub problem: Option<String>,
}

impl DocumentOrder {
    pub(super) fn new(is_renumbered: bool) -> Self {
        Self { is_renumbered, document: None }
    }

    /// A row without an id, a modality or a position separates documents.
    pub(super) fn interrupt(&mut self) {
        self.document = None;
    }

    pub(super) fn row(&mut self, id: &str, modality: &str, position: i32) -> Verdict {
        let is_metadata = modality == "metadata";
        let current = self.document.as_ref().filter(|document| document.id == id);
        let is_doubled = is_metadata
            && current.is_some_and(|document| document.rows == 1 && document.last_position == -1);
        let is_new_document = is_metadata || current.is_none();
        if is_new_document {
            let document = Document {
                id: id.to_owned(),
                rows: 1,
                last_position: position,
                at_last: vec![modality.to_owned()],
                is_reported: false,
            };
            self.document = Some(document);
        }
        let is_renumbered = self.is_renumbered;
        let Some(document) = &mut self.document else {
            return Verdict { is_new_document, problem: None };
        };
        let problem = if is_new_document {
            if is_doubled {
                Some("two metadata rows follow each other under one id".to_owned())
            } else if !is_metadata {
                Some(format!(
                    "the document begins with a {modality} row, not with its metadata row"
                ))
            } else if position != -1 {
                Some(format!("the metadata row is at position {position}, not -1"))
            } else {
                None
            }
        } else {
            document.rows += 1;
            document.content(modality, position, is_renumbered)
        };
        let is_reported = document.is_reported;
        document.is_reported |= problem.is_some();
        Verdict { is_new_document, problem: problem.filter(|_| !is_reported) }
    }
}

impl Document {
    fn content(&mut self, modality: &str, position: i32, is_renumbered: bool) -> Option<String> {
        let last = self.last_position;
        if position == last && last >= 0 {
            let is_duplicate = self.at_last.iter().any(|other| other == modality);
            let is_behind_image =
                modality == "text" && self.at_last.iter().any(|other| other == "image");
            self.at_last.push(modality.to_owned());
            return if is_duplicate {
                Some(format!("two {modality} rows at position {position}"))
            } else if is_renumbered {
                Some(format!("two rows at position {position} although positions were renumbered"))
            } else if is_behind_image {
                Some(format!(
                    "the text at position {position} comes after the image of the same position"
                ))
            } else {
                None
            };
        }
        if position < 0 {
            return Some(format!("a {modality} row at position {position}"));
        }
        self.last_position = position;
        self.at_last = vec![modality.to_owned()];
        if position < last {
            return Some(format!("position {position} comes after position {last}"));
        }
        (is_renumbered && position != last + 1).then(|| {
            format!(
                "position {position} follows position {last} although positions were renumbered"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(is_renumbered: bool, rows: &[(&str, &str, i32)]) -> Vec<(usize, String)> {
        let mut order = DocumentOrder::new(is_renumbered);
        let found = rows.iter().enumerate().map(|(index, (id, modality, position))| {
            (index, order.row(id, modality, *position).problem)
        });
        found.filter_map(|(index, problem)| Some((index, problem?))).collect()
    }

    #[test]
    fn gaps_and_one_tie_are_legal_in_a_source_and_not_after_numbering_anew() {
        let gap = [("a", "metadata", -1), ("a", "text", 0), ("a", "image", 4)];
        let tie = [("a", "metadata", -1), ("a", "text", 0), ("a", "image", 0)];
        assert_eq!((problems(false, &gap), problems(false, &tie)), (vec![], vec![]));
        assert_eq!((problems(true, &gap).len(), problems(true, &tie).len()), (1, 1));
    }

    #[test]
    fn broken_orders_are_named_once_a_document() {
        for (rows, at) in [
            (vec![("a", "text", 0), ("a", "image", 1)], 0),
            (vec![("a", "metadata", 0), ("a", "text", 1)], 0),
            (vec![("a", "metadata", -1), ("a", "text", 1), ("a", "text", 0), ("a", "text", 0)], 2),
            (vec![("a", "metadata", -1), ("a", "text", 1), ("a", "image", 1), ("a", "text", 1)], 3),
            (vec![("a", "metadata", -1), ("a", "image", 1), ("a", "text", 1)], 2),
            (vec![("a", "metadata", -1), ("a", "image", -1)], 1),
            (vec![("a", "metadata", -1), ("a", "metadata", -1), ("a", "text", 0)], 1),
        ] {
            let found = problems(false, &rows);
            assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [at], "{rows:?}");
        }
    }

    #[test]
    fn documents_of_one_id_are_separated_by_their_metadata() {
        let rows = [
            ("a", "metadata", -1),
            ("a", "text", 0),
            ("a", "metadata", -1),
            ("a", "text", 0),
            ("b", "metadata", -1),
        ];
        assert_eq!(problems(true, &rows), vec![]);
    }
}
