//! Finds the special bytes of CSV: delimiters, quotes and line ends.
//!
//! Fields are short, four or five bytes in tables of numbers, so starting a search
//! for each field costs more than it finds. Here eight bytes are compared together
//! and the hits are taken from a mask.

use std::slice::Iter;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Positions of special bytes, ascending.
pub(super) struct Specials<'a> {
    patterns: [u64; 4],
    words: Iter<'a, [u8; 8]>,
    tail: &'a [u8],
    /// Position of the word after the current one.
    next: usize,
    hits: u64,
}

impl<'a> Specials<'a> {
    pub(super) fn new(bytes: &'a [u8], delimiter: u8, quote: Option<u8>) -> Self {
        let (words, tail) = bytes.as_chunks::<8>();
        let patterns = [delimiter, quote.unwrap_or(delimiter), b'\n', b'\r']
            .map(|byte| u64::from(byte) * ONES);
        Self { patterns, words: words.iter(), tail, next: 0, hits: 0 }
    }

    /// The high bit of each special byte; exact, because no borrow crosses bytes.
    fn hits(&self, word: u64) -> u64 {
        let [delimiter, quote, newline, carriage_return] = self.patterns.map(|pattern| {
            let difference = word ^ pattern;
            !(((difference & LOW_BITS) + LOW_BITS) | difference | LOW_BITS)
        });
        delimiter | quote | newline | carriage_return
    }
}

impl Iterator for Specials<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.hits == 0 {
            let word = match self.words.next() {
                Some(word) => u64::from_le_bytes(*word),
                None if self.tail.is_empty() => return None,
                None => {
                    // Padded with ones, because 0xff is never a special character.
                    let tail = std::mem::take(&mut self.tail);
                    tail.iter().rev().fold(u64::MAX, |word, byte| word << 8 | u64::from(*byte))
                }
            };
            self.hits = self.hits(word);
            self.next += 8;
        }
        let bit = self.hits.trailing_zeros() as usize;
        self.hits &= self.hits - 1;
        Some(self.next - 8 + bit / 8)
    }
}
