//! Where the documents of a file are, as its format says it.

use super::dtype::Ids;
use super::entries::Pages;
use crate::token_error::Error;
use std::fmt::Debug;
use std::ops::Range;

/// The index of a file of tokens.
pub(super) trait Documents: Debug + Send + Sync {
    /// Number of documents.
    fn count(&self) -> u64;

    /// First byte of a document in the file of tokens; the end of the last one for the document
    /// after it. `None` if the index says what cannot be.
    fn start(&self, document: u64, pages: &mut Pages<'_>) -> Result<Option<u64>, Error>;

    /// The sequences of consecutive documents, all checked.
    fn spans(&self, documents: Range<u64>) -> Result<Spans, Error>;

    /// Runs of bytes that no document has, in order.
    fn gaps(&self) -> Result<Vec<Range<u64>>, Error> {
        Ok(Vec::new())
    }

    /// Whether these ids can be those of a document, in a format that finds documents by their ids.
    fn is_row(&self, _document: u64, _ids: &Ids, _range: Range<usize>) -> bool {
        true
    }
}

/// The sequences of consecutive documents, in order.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// First byte of each sequence.
    pub(super) starts: Vec<u64>,
    /// Number of tokens of each sequence.
    pub(super) tokens: Vec<u32>,
    /// Number of sequences up to the end of each document; `None` if each document has one.
    pub(super) ends: Option<Vec<usize>>,
    /// Mode of each sequence.
    pub(super) modes: Option<Vec<i8>>,
}

impl Spans {
    /// Of documents of one sequence each.
    pub(super) fn with_capacity(len: usize) -> Self {
        let (starts, tokens) = (Vec::with_capacity(len), Vec::with_capacity(len));
        Self { starts, tokens, ends: None, modes: None }
    }

    /// The sequences of a document.
    pub(super) fn of(&self, document: usize) -> Range<usize> {
        match &self.ends {
            None => document..document + 1,
            Some(ends) => {
                let end = |document: usize| ends.get(document).copied().unwrap_or_default();
                document.checked_sub(1).map_or(0, end)..end(document)
            }
        }
    }

    /// Number of tokens of a document.
    pub(super) fn length(&self, document: usize) -> u64 {
        let tokens = self.tokens.get(self.of(document)).unwrap_or_default();
        tokens.iter().map(|tokens| u64::from(*tokens)).sum()
    }
}
