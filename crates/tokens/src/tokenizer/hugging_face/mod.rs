//! The engine, and the only room that uses the crate `tokenizers`.
//!
//! The stages are run here, one after another, rather than by `PipelineTokenizer::encode_into`,
//! for three reasons. Its reader compiles no pattern outside of the native grammars, and its
//! search stops at a backtracking limit without an error: see [`Splitter`]. It keeps the buffers
//! of the largest document for good: see [`Scratches`]. And it does not tell where tokens
//! come from: see [`Segment`].

mod scratches;
mod search;
mod splitter;

use self::scratches::{Scratch, Scratches};
use self::search::{AddedTokens, Search, Wanted};
use self::splitter::{Splitter, kind};
use super::added::check_lengths;
use super::engine::{Before, Cut, Engine, Input, MARKERS, Normalizer, Place, Rewriting, Segment};
use super::model::Model;
use super::unigram::Unigram;
use crate::caught::caught;
use crate::error::{Error, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use tokenizers::Decoder as _;
use tokenizers::normalizers::metaspace::{MetaspaceNormalizer, PrependBehavior};
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::pipeline::{
    Model as _, Normalizer as _, PipelineModel, PipelineNormalizer, PipelinePatternMatcher,
    PipelinePreTokenizer, PipelineToken, PipelineTokenizer, normalize_all,
};

/// The tokens of this many words are kept apart from the result.
const WORDS: usize = 1 << 18;

/// Of a long text; words of one byte are rare.
const LEAST_BYTES_OF_WORD: usize = 2;

pub(crate) struct HuggingFace {
    tokenizer: PipelineTokenizer,
    /// In place of the engine's model.
    unigram: Option<Unigram>,
    splitter: Splitter,
    normalizer: Option<Box<dyn Normalizer>>,
    /// Writes markers for spaces in the text between all added tokens.
    spaces: Option<MetaspaceNormalizer>,
    has_byte_tokens: bool,
    /// Ids of added tokens that differ from those of the engine, which numbers them itself.
    renumbered: HashMap<u32, u32>,
    added: AddedTokens,
    scratches: Scratches,
}

impl HuggingFace {
    pub(crate) fn new(path: &str, model: Model) -> Result<(Self, super::vocabulary::Vocabulary)> {
        let Model {
            text, splitter, normalizer, spaces, vocabulary, has_byte_tokens, unigram, ..
        } = model;
        check_lengths(path, vocabulary.added())?;
        let splitter =
            splitter.filter(|value| kind(value) != MARKERS || vocabulary.marks_begin_words());
        let none = || Ok(Splitter::Native(PipelinePreTokenizer::None));
        caught(|| {
            let splitter =
                splitter.as_ref().map_or_else(none, |value| Splitter::new(path, value))?;
            let read = tokenizers::from_json(&text);
            drop(text);
            let tokenizer = read.map_err(|error| unsupported(path, &error.to_string()))?;
            let renumbered = vocabulary
                .added()
                .iter()
                .filter(|added| added.id != added.assigned)
                .map(|added| (added.assigned, added.id))
                .collect();
            let (added, spaces) =
                (AddedTokens::new(vocabulary.added()), spaces.as_ref().map(metaspace));
            let scratches = Scratches::new();
            Ok((
                Self {
                    tokenizer,
                    unigram,
                    splitter,
                    normalizer,
                    spaces,
                    has_byte_tokens,
                    renumbered,
                    added,
                    scratches,
                },
                vocabulary,
            ))
        })
    }

    /// Rewrites a `tokenizer.json` of an earlier version to what the engine reads.
    pub(crate) fn canonicalize(path: &str, document: &mut Value) -> Result<()> {
        caught(|| {
            tokenizers::canonicalize_value(document)
                .map_err(|error| unsupported(path, &error.to_string()))
        })
    }

    /// Returns the number of special tokens that the input spells.
    fn run(
        &self,
        input: Input<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
        mut trace: Option<&mut Vec<Segment>>,
    ) -> Result<usize> {
        let wanted = if input.special { Wanted::All } else { Wanted::Ordinary };
        let mut search = self.search(input.text, false);
        let (mut from, mut spelled) = (0, 0);
        // Control tokens are not a part of the text.
        let mut is_first = input.position == 0;
        loop {
            let found = search.next(wanted);
            let end = found.as_ref().map_or(input.text.len(), |(range, _)| range.start);
            if let Some(chunk) = input.text.get(from..end).filter(|chunk| !chunk.is_empty()) {
                let before = match (from > 0, is_first) {
                    (false, true) => Before::Nothing,
                    (false, false) => Before::Piece,
                    (true, true) => Before::Tokens,
                    (true, false) => Before::TextAndToken,
                };
                let place = Place { before, is_last: input.is_last && end == input.text.len() };
                spelled +=
                    self.run_chunk(chunk, from, place, input, scratch, out, trace.as_deref_mut())?;
                is_first = false;
            }
            let Some((range, id)) = found else {
                return Ok(spelled + search.spelled());
            };
            from = range.end;
            self.push_added(id, range, out, trace.as_deref_mut());
        }
    }

    fn search<'a>(
        &'a self,
        text: &'a str,
        is_normalized: bool,
    ) -> Search<'a, impl PipelinePatternMatcher> {
        Search::new(&self.added, self.tokenizer.get_added_vocabulary(), text, is_normalized)
    }

    /// What is between two added tokens of the input as written.
    /// Others are found after normalization.
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
            None => normalize_all(self.tokenizer.get_normalizers(), chunk, input.position + start)
                .map_err(not_encoded)?,
        };
        let is_engines = self.normalizer.is_none();
        let is_unchanged = is_engines && self.tokenizer.get_normalizers().is_empty();
        let origin = |range: Range<usize>| {
            if is_unchanged {
                start + range.start..start + range.end
            } else {
                start..start + chunk.len()
            }
        };
        let wanted = match (is_engines, input.special) {
            (true, true) => Wanted::All,
            (true, false) => Wanted::Ordinary,
            // The normalizer of SentencePiece keeps its pieces itself.
            (false, _) => Wanted::Pieces,
        };
        let mut search = self.search(&normalized, is_engines);
        let mut from = 0;
        loop {
            let found = search.next(wanted);
            let end = found.as_ref().map_or(normalized.len(), |(range, _)| range.start);
            if let Some(text) = normalized.get(from..end).filter(|text| !text.is_empty()) {
                let text = match &self.spaces {
                    // Only whether it is 0 matters.
                    Some(spaces) => spaces
                        .normalize(text, input.position + start + from)
                        .map_err(not_encoded)?,
                    None => Cow::Borrowed(text),
                };
                if let Some(trace) = trace.as_deref_mut() {
                    trace.push(Segment {
                        text: origin(from..end),
                        normalized: Some(text.clone().into_owned()),
                        first: out.len(),
                    });
                }
                let origin = (is_unchanged && self.spaces.is_none())
                    .then_some(input.position + start + from);
                self.run_model(&text, origin, scratch, out)?;
            }
            let Some((range, id)) = found else {
                break;
            };
            from = range.end;
            self.push_added(id, origin(range), out, trace.as_deref_mut());
        }
        // Without the engine's normalizers they were found as written.
        Ok(if is_engines { search.spelled() } else { 0 })
    }

    fn push_added(
        &self,
        id: u32,
        text: Range<usize>,
        out: &mut Vec<u32>,
        trace: Option<&mut Vec<Segment>>,
    ) {
        if let Some(trace) = trace {
            trace.push(Segment { text, normalized: None, first: out.len() });
        }
        out.push(self.renumbered.get(&id).copied().unwrap_or(id));
    }

    /// A special token that is found after normalization: where it is, or the whole chunk
    /// if that changed.
    fn find_normalized(&self, chunk: &str, start: usize) -> Result<Option<Range<usize>>> {
        if self.normalizer.is_some() {
            return Ok(None);
        }
        let normalizers = self.tokenizer.get_normalizers();
        let normalized = normalize_all(normalizers, chunk, start).map_err(not_encoded)?;
        let found = self.search(&normalized, true).next(Wanted::Special);
        let range = |(range, _): (Range<usize>, u32)| {
            if normalizers.is_empty() {
                start + range.start..start + range.end
            } else {
                start..start + chunk.len()
            }
        };
        Ok(found.map(range))
    }

    /// `start` is where the text is in its document, if that is known.
    fn run_model(
        &self,
        text: &str,
        start: Option<usize>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        if u32::try_from(text.len()).is_err() {
            return Err(Error::NotEncoded {
                reason: format!("{} bytes without a place to cut are more than 4 GiB", text.len()),
            });
        }
        let Scratch { model, splitter, spans, tokens, path } = scratch;
        spans.clear();
        if text.len() > scratches::LARGEST_KEPT_TEXT {
            // What is reserved and not used costs nothing, and growing would copy.
            spans.reserve(text.len() / LEAST_BYTES_OF_WORD);
        }
        self.splitter.split(text, start, splitter, spans)?;
        if let Some(unigram) = &self.unigram {
            let words = spans.iter().filter_map(|span| text.get(span.range()));
            words.for_each(|word| unigram.encode(word, path, out));
            return Ok(());
        }
        // Words are independent of each other.
        for spans in spans.chunks(WORDS) {
            tokens.clear();
            self.tokenizer
                .get_model()
                .tokenize_spans(text, spans, model, tokens)
                .map_err(not_encoded)?;
            out.extend_from_slice(PipelineToken::cast_slice(tokens));
        }
        Ok(())
    }
}

/// The engine's advice is for those who build it.
fn unsupported(path: &str, reason: &str) -> Error {
    let what = match reason.strip_prefix("the slim JSON reader does not support ") {
        Some(rest) => match rest.split(". Convert the config offline").next().unwrap_or(rest) {
            // Alone it became a normalizer.
            "a `Metaspace` pre-tokenizer" => {
                "shardmill does not support a `Metaspace` pre-tokenizer in a `Sequence`, \
                 except after one `WhitespaceSplit`"
                    .to_owned()
            }
            what => format!("shardmill does not support {what}"),
        },
        None => reason.to_owned(),
    };
    Error::Unsupported { path: path.to_owned(), what }
}

/// `value` is canonical.
fn metaspace(value: &Value) -> MetaspaceNormalizer {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let prepend = match text("prepend") {
        "first" => PrependBehavior::First,
        "never" => PrependBehavior::Never,
        _ => PrependBehavior::Always,
    };
    let drops = value.get("drop_whitespace").and_then(Value::as_bool).unwrap_or(false);
    MetaspaceNormalizer::new(
        text("replacement").chars().next().unwrap_or('\u{2581}'),
        prepend,
        drops,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn not_encoded(error: tokenizers::Error) -> Error {
    Error::NotEncoded { reason: error.to_string() }
}

impl Engine for HuggingFace {
    fn encode(
        &self,
        input: Input<'_>,
        out: &mut Vec<u32>,
        trace: Option<&mut Vec<Segment>>,
    ) -> Result<usize> {
        caught(|| {
            let mut scratch = self.scratches.take(self.tokenizer.get_model());
            let done = self.run(input, &mut scratch, out, trace);
            self.scratches.put(scratch, input.text.len());
            done
        })
    }

    fn find_special(&self, text: &str) -> Result<Option<Range<usize>>> {
        caught(|| {
            let mut search = self.search(text, false);
            let mut from = 0;
            loop {
                let found = search.next(Wanted::All);
                let end = found.as_ref().map_or(text.len(), |(range, _)| range.start);
                if let Some(range) =
                    self.find_normalized(text.get(from..end).unwrap_or_default(), from)?
                {
                    return Ok(Some(range));
                }
                match found {
                    Some((range, id)) if self.added.is_special(id) => return Ok(Some(range)),
                    Some((range, _)) => from = range.end,
                    None => return Ok(None),
                }
            }
        })
    }

    fn decode(&self, tokens: Vec<String>) -> Result<String> {
        caught(|| match self.tokenizer.get_decoder() {
            Some(decoder) => decoder
                .decode(tokens)
                .map_err(|error| Error::NotDecoded { reason: error.to_string() }),
            None => Ok(tokens.join(" ")),
        })
    }

    fn cut(&self) -> Cut {
        // Sums of scores depend on where they begin.
        let has_scores = self.unigram.is_some();
        let is_split = self.splitter.ends_words();
        if let Some(normalizer) = &self.normalizer {
            let is_known = normalizer.is_spacing()
                && matches!(self.splitter, Splitter::Markers)
                && !has_scores;
            return if is_known { Cut::BeforeSpace } else { Cut::Never };
        }
        let normalizers = self.tokenizer.get_normalizers();
        if let Some(spaces) = &self.spaces {
            let is_known = normalizers.is_empty()
                && !spaces.drop_whitespace()
                && (!has_scores || self.splitter.ends_at_marker());
            return match spaces.prepend() {
                PrependBehavior::Always if is_known => Cut::DropSpace,
                PrependBehavior::First | PrependBehavior::Never if is_known => Cut::BeforeSpace,
                _ => Cut::Never,
            };
        }
        match normalizers {
            [] | [PipelineNormalizer::NFC(_)] if self.splitter.is_grammar() => Cut::AfterLetter,
            [] | [PipelineNormalizer::NFC(_) | PipelineNormalizer::Bert(_)] if is_split => {
                Cut::BeforeSpace
            }
            [PipelineNormalizer::Prepend(_), PipelineNormalizer::Replace(_)]
                if matches!(self.splitter, Splitter::Markers) =>
            {
                Cut::DropSpace
            }
            _ => Cut::Never,
        }
    }

    fn rewriting(&self) -> std::result::Result<Rewriting, String> {
        if let (None, PipelineModel::WordPiece(_) | PipelineModel::WordLevel(_)) =
            (&self.unigram, self.tokenizer.get_model())
        {
            return Err("its model has tokens that differ from the text they stand for".to_owned());
        }
        if let Some(normalizer) = &self.normalizer {
            return if normalizer.is_spacing() {
                Ok(Rewriting::Markers)
            } else {
                Err("its normalizer changes characters or white space".to_owned())
            };
        }
        if !self.splitter.keeps_all() {
            return Err("its pre-tokenizer drops text".to_owned());
        }
        let is_replacement = |replace: &tokenizers::normalizers::replace::Replace| {
            matches!(replace.pattern(), ReplacePattern::String(space) if space == " ")
                && replace.content == "\u{2581}"
        };
        let mut rewriting = Rewriting::None;
        for normalizer in self.tokenizer.get_normalizers() {
            rewriting =
                match (normalizer, rewriting) {
                    (
                        PipelineNormalizer::Prepend(prepend),
                        Rewriting::None | Rewriting::Markers,
                    ) if prepend.prepend == "\u{2581}" => Rewriting::Markers,
                    (
                        PipelineNormalizer::Replace(replace),
                        Rewriting::None | Rewriting::Markers,
                    ) if is_replacement(replace) => Rewriting::Markers,
                    (PipelineNormalizer::NFC(_), Rewriting::None) => Rewriting::Nfc,
                    (other, _) => {
                        let name = format!("{other:?}");
                        return Err(format!(
                            "its normalizer {} changes the text",
                            name.split(['(', ' ']).next().unwrap_or_default()
                        ));
                    }
                };
        }
        match &self.spaces {
            None => Ok(rewriting),
            Some(spaces)
                if rewriting == Rewriting::None
                    && !spaces.drop_whitespace()
                    && spaces.delimiter() == '\u{2581}' =>
            {
                Ok(Rewriting::Markers)
            }
            Some(_) => Err("its pre-tokenizer Metaspace changes the text after a normalizer, \
                or drops white space"
                .to_owned()),
        }
    }

    fn has_byte_tokens(&self) -> bool {
        self.has_byte_tokens
    }

    fn uses_marker(&self) -> bool {
        self.normalizer.is_some()
            || self.spaces.is_some()
            || matches!(self.tokenizer.get_normalizers(), [PipelineNormalizer::Prepend(_), ..])
    }
}
