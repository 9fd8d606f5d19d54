//! Where documents begin in the rows of a table.

/// Finds the first row of each document: a document is a run of rows of equal id, and a metadata
/// row after its first row begins another one. Rows without an id belong to no document.
#[derive(Debug, Default)]
pub struct Boundaries {
    /// The id of the preceding row.
    above: Option<String>,
}

impl Boundaries {
    /// Whether the next row begins a document.
    pub fn begins(&mut self, id: Option<&str>, is_metadata: bool) -> bool {
        let is_same = self.above.as_deref() == id;
        if !is_same {
            self.above = id.map(str::to_owned);
        }
        id.is_some() && (!is_same || is_metadata)
    }
}
