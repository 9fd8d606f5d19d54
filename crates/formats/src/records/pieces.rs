//! Shows the text of a file to a function while its records are counted, so that one pass over the
//! file serves both.

use super::{Borders, Cutter};
use crate::limit::DecodeLimit;

/// Passes pieces of whole records on. A piece may begin with what separates its first record from
/// the one before. Memory holds one chunk and the record that is not complete; a record beyond the
/// limit is left out, because opening the file reports it.
pub(crate) struct Pieces<'a> {
    borders: &'a mut dyn Borders,
    look: &'a mut dyn FnMut(&[u8]),
    limit: DecodeLimit,
    /// What follows the last whole record.
    open: Vec<u8>,
    is_too_long: bool,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(
        borders: &'a mut dyn Borders,
        limit: DecodeLimit,
        look: &'a mut dyn FnMut(&[u8]),
    ) -> Self {
        Self { borders, look, limit, open: Vec::new(), is_too_long: false }
    }

    fn close(&mut self) {
        if !self.is_too_long {
            (self.look)(&self.open);
        }
        self.is_too_long = false;
        self.open.clear();
    }

    fn extend(&mut self, text: &[u8]) {
        if self.is_too_long {
            return;
        }
        self.open.extend_from_slice(text);
        if self.open.len() as u64 > self.limit.bytes().saturating_add(text.len() as u64) {
            self.is_too_long = true;
            self.open = Vec::new();
        }
    }
}

impl Borders for Pieces<'_> {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter) {
        let before = cutter.end();
        self.borders.push(chunk, offset, cutter);
        let end = cutter.end();
        let whole =
            usize::try_from(end.saturating_sub(offset)).unwrap_or_default().min(chunk.len());
        let (records, open) = chunk.split_at_checked(whole).unwrap_or((chunk, &[]));
        self.extend(records);
        if end > before {
            self.close();
        }
        self.extend(open);
    }

    fn finish(&mut self, end: u64, cutter: &mut Cutter) {
        self.borders.finish(end, cutter);
        self.close();
    }
}
