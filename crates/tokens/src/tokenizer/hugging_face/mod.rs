//! The engine, and the only room that uses the crate `tokenizers`.
//!
//! The stages are run here, one after another, rather than by `PipelineTokenizer::encode_into`, for three reasons. Its reader compiles no pattern
//! outside of the native grammars, and its search stops at a backtracking limit without an error: see [`Splitter`]. It keeps the buffers of the largest
//! document for good: see [`Scratches`]. And it does not tell where tokens come from: see [`Segment`].

mod scratches;
mod splitter;

use self::scratches::{Scratch, Scratches};
use self::splitter::{Splitter, kind};
use super::engine::{Cut, Engine, Input, MARKERS, Normalizer, Place, Rewriting, Segment};
use super::model::Model;
use crate::caught::caught;
use crate::error::{Error, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tokenizers::Decoder as _;
use tokenizers::normalizers::metaspace::PrependBehavior;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::pipeline::{
    Model as _, PipelineModel, PipelineNormalizer, PipelinePatternMatcher as _, PipelinePreTokenizer, PipelineToken, PipelineTokenizer, normalize_all,
};

/// The tokens of this many words are kept apart from the result.
const WORDS: usize = 1 << 18;

/// Of a long text; words of one byte are rare.
const LEAST_BYTES_OF_WORD: usize = 2;

pub(crate) struct HuggingFace {
    tokenizer: PipelineTokenizer,
    splitter: Splitter,
    normalizer: Option<Box<dyn Normalizer>>,
    has_byte_tokens: bool,
    /// Ids of added tokens that differ from those of the engine, which numbers them itself.
    renumbered: HashMap<u32, u32>,
    /// Ids of the engine.
    special: HashSet<u32>,
    /// Whether a special token takes white space with it, or matches whole words only.
    has_bounded: bool,
    scratches: Scratches,
}

impl HuggingFace {
    pub(crate) fn new(path: &str, model: Model) -> Result<(Self, super::vocabulary::Vocabulary)> {
        let Model { text, splitter, normalizer, vocabulary, has_byte_tokens, .. } = model;
        let splitter = splitter.filter(|value| kind(value) != MARKERS || vocabulary.marks_begin_words());
        let none = || Ok(Splitter::Native(PipelinePreTokenizer::None));
        caught(|| {
            let splitter = splitter.as_ref().map_or_else(none, |value| Splitter::new(path, value))?;
            let read = tokenizers::from_json(&text);
            drop(text);
            let tokenizer = read.map_err(|error| Error::Unsupported { path: path.to_owned(), what: error.to_string() })?;
            let renumbered = vocabulary.added().iter().filter(|added| added.id != added.assigned).map(|added| (added.assigned, added.id)).collect();
            let special = || vocabulary.added().iter().filter(|added| added.is_special);
            let (has_bounded, special) = (special().any(|added| added.is_bounded), special().map(|added| added.assigned).collect());
            Ok((Self { tokenizer, splitter, normalizer, has_byte_tokens, renumbered, special, has_bounded, scratches: Scratches::new() }, vocabulary))
        })
    }

    /// Rewrites a `tokenizer.json` of an earlier version to what the engine reads.
    pub(crate) fn canonicalize(path: &str, document: &mut Value) -> Result<()> {
        caught(|| tokenizers::canonicalize_value(document).map_err(|error| Error::Unsupported { path: path.to_owned(), what: error.to_string() }))
    }

    /// Returns the number of special tokens that the input spells.
    fn run(&self, input: Input<'_>, scratch: &mut Scratch, out: &mut Vec<u32>, mut trace: Option<&mut Vec<Segment>>) -> Result<usize> {
        let (mut from, mut spelled) = (0, 0);
        // Control tokens are not a part of the text.
        let mut is_first = input.position == 0;
        while from < input.text.len() {
            let found = self.next_written(input, from, &mut spelled);
            let (range, id) = found.map_or((input.text.len()..input.text.len(), None), |(range, id)| (range, Some(id)));
            if let Some(chunk) = input.text.get(from..range.start).filter(|chunk| !chunk.is_empty()) {
                let place = Place { is_first, is_last: input.is_last && range.start == input.text.len() };
                spelled += self.run_chunk(chunk, from, place, input, scratch, out, trace.as_deref_mut())?;
                is_first = false;
            }
            if let Some(id) = id {
                self.push_added(id, range.clone(), out, trace.as_deref_mut());
            }
            from = range.end;
        }
        Ok(spelled)
    }

    /// The next added token that is matched as written. The normalizer of SentencePiece keeps user-defined pieces itself, and they are found after it.
    fn next_written(&self, input: Input<'_>, from: usize, spelled: &mut usize) -> Option<(Range<usize>, u32)> {
        let mut from = from;
        loop {
            let (range, id) = self.next_added(input.text, from, false, input.special, spelled)?;
            if self.normalizer.is_none() || self.is_special(id) {
                return Some((range, id));
            }
            from = range.end;
        }
    }

    /// The next added token from `from` on; without `special`, one that is not special. Special tokens up to it are counted in `spelled`.
    fn next_added(&self, text: &str, from: usize, is_normalized: bool, special: bool, spelled: &mut usize) -> Option<(Range<usize>, u32)> {
        let added = self.tokenizer.get_added_vocabulary();
        let next = |bytes: &[u8], from, skips_special| {
            let ((start, end), id) = added.extract_next(bytes, from, is_normalized, skips_special)?;
            Some((start..end, id))
        };
        if special {
            let found = next(text.as_bytes(), from, false)?;
            *spelled += usize::from(self.is_special(found.1));
            return Some(found);
        }
        // The engine passes over special tokens without a word. Nearly all texts have none, and one search tells that.
        if !self.has_bounded {
            let first = next(text.as_bytes(), from, false)?;
            if !self.is_special(first.1) {
                return Some(first);
            }
        }
        let found = next(text.as_bytes(), from, true);
        let passed = text.as_bytes().get(..found.as_ref().map_or(text.len(), |(range, _)| range.start)).unwrap_or_default();
        let mut from = from;
        while let Some((range, id)) = next(passed, from, false) {
            *spelled += usize::from(self.is_special(id));
            from = range.end;
        }
        found
    }

    /// What is between two added tokens of the input as written. Others are found after normalization.
    #[expect(clippy::too_many_arguments, reason = "the state of one call")]
    fn run_chunk(
        &self,
        chunk: &str,
        start: usize,
        place: Place,
        input: Input<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
        mut trace: Option<&mut Vec<Segment>>,
    ) -> Result<usize> {
        let normalized: Cow<'_, str> = match &self.normalizer {
            Some(normalizer) => Cow::Owned(normalizer.normalize(chunk, place)),
            None => normalize_all(self.tokenizer.get_normalizers(), chunk, input.position + start).map_err(not_encoded)?,
        };
        let is_engines = self.normalizer.is_none();
        let whole = start..start + chunk.len();
        let (mut from, mut spelled) = (0, 0);
        while from < normalized.len() {
            let found = self.next_added(&normalized, from, is_engines, is_engines && input.special, &mut spelled);
            let (range, id) = found.map_or((normalized.len()..normalized.len(), None), |(range, id)| (range, Some(id)));
            if let Some(text) = normalized.get(from..range.start).filter(|text| !text.is_empty()) {
                if let Some(trace) = trace.as_deref_mut() {
                    trace.push(Segment { text: whole.clone(), normalized: Some(text.to_owned()), first: out.len() });
                }
                self.run_model(text, start, scratch, out)?;
            }
            if let Some(id) = id {
                self.push_added(id, whole.clone(), out, trace.as_deref_mut());
            }
            from = range.end;
        }
        // Without the engine's normalizers they were found as written.
        Ok(if is_engines { spelled } else { 0 })
    }

    fn push_added(&self, id: u32, text: Range<usize>, out: &mut Vec<u32>, trace: Option<&mut Vec<Segment>>) {
        if let Some(trace) = trace {
            trace.push(Segment { text, normalized: None, first: out.len() });
        }
        out.push(self.renumbered.get(&id).copied().unwrap_or(id));
    }

    fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Whether a special token is found after normalization.
    fn has_normalized(&self, chunk: &str, start: usize) -> Result<bool> {
        if self.normalizer.is_some() {
            return Ok(false);
        }
        let added = self.tokenizer.get_added_vocabulary();
        let normalized = normalize_all(self.tokenizer.get_normalizers(), chunk, start).map_err(not_encoded)?;
        let mut from = 0;
        while let Some(((_, end), id)) = added.extract_next(normalized.as_bytes(), from, true, false) {
            if self.is_special(id) {
                return Ok(true);
            }
            from = end;
        }
        Ok(false)
    }

    fn run_model(&self, text: &str, start: usize, scratch: &mut Scratch, out: &mut Vec<u32>) -> Result<()> {
        if u32::try_from(text.len()).is_err() {
            return Err(Error::NotEncoded { reason: format!("{} bytes without a place to cut are more than 4 GiB", text.len()) });
        }
        let Scratch { model, splitter, spans, tokens } = scratch;
        spans.clear();
        if text.len() > scratches::LARGEST_KEPT_TEXT {
            // What is reserved and not used costs nothing, and growing would copy.
            spans.reserve(text.len() / LEAST_BYTES_OF_WORD);
        }
        self.splitter.split(text, start, splitter, spans)?;
        // Words are independent of each other.
        for spans in spans.chunks(WORDS) {
            tokens.clear();
            self.tokenizer.get_model().tokenize_spans(text, spans, model, tokens).map_err(not_encoded)?;
            out.extend_from_slice(PipelineToken::cast_slice(tokens));
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn not_encoded(error: tokenizers::Error) -> Error {
    Error::NotEncoded { reason: error.to_string() }
}

impl Engine for HuggingFace {
    fn encode(&self, input: Input<'_>, out: &mut Vec<u32>, trace: Option<&mut Vec<Segment>>) -> Result<usize> {
        caught(|| {
            let mut scratch = self.scratches.take(self.tokenizer.get_model());
            let done = self.run(input, &mut scratch, out, trace);
            self.scratches.put(scratch, input.text.len());
            done
        })
    }

    fn find_special(&self, text: &str) -> Result<Option<Range<usize>>> {
        let added = self.tokenizer.get_added_vocabulary();
        caught(|| {
            let mut from = 0;
            while let Some(((start, end), id)) = added.extract_next(text.as_bytes(), from, false, false) {
                if self.is_special(id) {
                    return Ok(Some(start..end));
                }
                if self.has_normalized(text.get(from..start).unwrap_or_default(), from)? {
                    return Ok(Some(from..start));
                }
                from = end;
            }
            Ok(self.has_normalized(text.get(from..).unwrap_or_default(), from)?.then_some(from..text.len()))
        })
    }

    fn decode(&self, tokens: Vec<String>) -> Result<String> {
        caught(|| match self.tokenizer.get_decoder() {
            Some(decoder) => decoder.decode(tokens).map_err(|error| Error::NotDecoded { reason: error.to_string() }),
            None => Ok(tokens.join(" ")),
        })
    }

    fn cut(&self) -> Cut {
        // Sums of scores depend on where they begin.
        let has_scores = matches!(self.tokenizer.get_model(), PipelineModel::Unigram(_));
        let is_split = self.splitter.ends_words();
        if let Some(normalizer) = &self.normalizer {
            let is_known = normalizer.is_spacing() && matches!(self.splitter, Splitter::Markers);
            return if is_known { Cut::BeforeSpace } else { Cut::Never };
        }
        match self.tokenizer.get_normalizers() {
            [] | [PipelineNormalizer::NFC(_)] if self.splitter.is_grammar() => Cut::AfterLetter,
            [] | [PipelineNormalizer::NFC(_) | PipelineNormalizer::Bert(_)] if is_split => Cut::BeforeSpace,
            [PipelineNormalizer::Metaspace(metaspace)] if !metaspace.drop_whitespace() && (!has_scores || self.splitter.ends_at_marker()) => {
                match metaspace.prepend() {
                    PrependBehavior::Always => Cut::DropSpace,
                    PrependBehavior::First | PrependBehavior::Never => Cut::BeforeSpace,
                }
            }
            [PipelineNormalizer::Prepend(_), PipelineNormalizer::Replace(_)] if matches!(self.splitter, Splitter::Markers) => Cut::DropSpace,
            _ => Cut::Never,
        }
    }

    fn rewriting(&self) -> std::result::Result<Rewriting, String> {
        if let PipelineModel::WordPiece(_) | PipelineModel::WordLevel(_) = self.tokenizer.get_model() {
            return Err("its model has tokens that differ from the text they stand for".to_owned());
        }
        if let Some(normalizer) = &self.normalizer {
            return if normalizer.is_spacing() { Ok(Rewriting::Markers) } else { Err("its normalizer changes characters or white space".to_owned()) };
        }
        if !self.splitter.keeps_all() {
            return Err("its pre-tokenizer drops text".to_owned());
        }
        let is_replacement = |replace: &tokenizers::normalizers::replace::Replace| {
            matches!(replace.pattern(), ReplacePattern::String(space) if space == " ") && replace.content == "\u{2581}"
        };
        let mut rewriting = Rewriting::None;
        for normalizer in self.tokenizer.get_normalizers() {
            rewriting = match (normalizer, rewriting) {
                (PipelineNormalizer::Prepend(prepend), Rewriting::None | Rewriting::Markers) if prepend.prepend == "\u{2581}" => Rewriting::Markers,
                (PipelineNormalizer::Replace(replace), Rewriting::None | Rewriting::Markers) if is_replacement(replace) => Rewriting::Markers,
                (PipelineNormalizer::Metaspace(metaspace), Rewriting::None)
                    if !metaspace.drop_whitespace() && metaspace.delimiter() == '\u{2581}' =>
                {
                    Rewriting::Markers
                }
                (PipelineNormalizer::NFC(_), Rewriting::None) => Rewriting::Nfc,
                (other, _) => {
                    let name = format!("{other:?}");
                    return Err(format!("its normalizer {} changes the text", name.split(['(', ' ']).next().unwrap_or_default()));
                }
            };
        }
        Ok(rewriting)
    }

    fn has_byte_tokens(&self) -> bool {
        self.has_byte_tokens
    }

    fn uses_marker(&self) -> bool {
        self.normalizer.is_some()
            || matches!(self.tokenizer.get_normalizers(), [PipelineNormalizer::Metaspace(_) | PipelineNormalizer::Prepend(_), ..])
    }
}
