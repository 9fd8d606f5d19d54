//! What an engine does for a tokenizer.

use crate::error::Result;
use std::ops::Range;

/// What encodes text. Immutable; all threads share one.
pub(crate) trait Engine: Send + Sync {
    /// Appends ids, and returns the number of special tokens that the input spells, whether or not
    /// they become ids.
    fn encode(
        &self,
        input: Input<'_>,
        out: &mut Vec<u32>,
        trace: Option<&mut Vec<Segment>>,
    ) -> Result<usize>;
    /// The first special token that `text` spells.
    fn find_special(&self, text: &str) -> Result<Option<Range<usize>>>;
    /// Text of tokens, by the decoder of the file.
    fn decode(&self, tokens: Vec<String>) -> Result<String>;
    /// How text may be cut without a change of its ids.
    fn cut(&self) -> Cut;
    /// How text is rewritten before it is cut; or why tokens cannot be followed back to it.
    fn rewriting(&self) -> std::result::Result<Rewriting, String>;
    /// Whether unknown characters become tokens of their bytes.
    fn has_byte_tokens(&self) -> bool;
    /// Whether spaces become markers that tokens contain.
    fn uses_marker(&self) -> bool;
}

/// A text, or a piece of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) text: &'a str,
    /// Where it begins in its text.
    pub(crate) position: usize,
    /// Whether its text ends with it.
    pub(crate) is_last: bool,
    /// Whether text that spells a special token becomes its id.
    pub(crate) special: bool,
}

/// Rewrites the text between added tokens, in place of the engine's normalizers.
pub(crate) trait Normalizer: Send + Sync {
    fn normalize(&self, text: &str, place: Place) -> String;
    /// Whether it does nothing but to write markers for spaces, and one before the text.
    fn is_spacing(&self) -> bool;
}

/// What is before a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// Only added tokens.
    Tokens,
    /// Text, and then an added token.
    TextAndToken,
    /// The piece before it.
    Piece,
}

/// Where a part of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) before: Before,
    pub(crate) is_last: bool,
}

/// The pre-tokenizer that ends a word before each space marker after another character. The engine
/// has none like it.
pub(crate) const MARKERS: &str = "Markers";

/// Where tokens come from: a piece of the input, and the text that the model saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) text: Range<usize>,
    /// `None` for an added token, which is one token.
    pub(crate) normalized: Option<String>,
    /// The index of its first token in the output.
    pub(crate) first: usize,
}

/// How text may be cut between a letter and a single space, or another separator, before a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// The space begins the next piece.
    BeforeSpace,
    /// As before, also at the line feeds, full stops and commas between letters.
    AfterLetter,
    /// The space is dropped, since one is put before every piece.
    DropSpace,
}

/// How a tokenizer rewrites text before it cuts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewriting {
    None,
    /// Spaces become markers, and there may be one before the text.
    Markers,
    Nfc,
}
