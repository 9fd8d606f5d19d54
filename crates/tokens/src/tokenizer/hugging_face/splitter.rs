//! Cuts text into words, by a grammar of the engine where it has one.

use super::{not_encoded, unsupported};
use crate::error::{Error, Result};
use crate::quote::quoted;
use crate::tokenizer::engine::MARKERS;
use crate::tokenizer::pattern::{Behavior, Pattern, translated};
use memchr::memmem::Finder;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pipeline::{
    PipelinePreTokenizer, PreTokenizer as _, PreTokenizerScratch, Span, split_matches,
};
use tokenizers::utils::{Grammar, recognize};

/// U+017F is an s in another case, which the engine's grammars do not know. It is the only such
/// character outside of ASCII: no contraction has a k.
const CONTRACTION: &str = "'\u{17f}";

static CONTRACTIONS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CONTRACTION));

/// Cuts text into the pieces that the model sees.
pub(super) enum Splitter {
    Native(PipelinePreTokenizer),
    /// A grammar with contractions in any case, and its pattern for texts
    /// that have [`CONTRACTION`].
    Folded(PipelinePreTokenizer, Pattern),
    Pattern(Pattern),
    Markers,
    Sequence(Vec<Splitter>),
}

impl Splitter {
    pub(super) fn new(path: &str, value: &Value) -> Result<Self> {
        if kind(value) == MARKERS {
            return Ok(Self::Markers);
        }
        let members = value
            .get("pretokenizers")
            .and_then(Value::as_array)
            .filter(|_| kind(value) == "Sequence");
        let Some(members) = members else {
            return match Self::pattern(path, value)? {
                Some(pattern) => Ok(Self::Pattern(pattern)),
                None => {
                    Self::native(path, value).and_then(|native| Self::folded(path, value, native))
                }
            };
        };
        // The engine knows one composition of three patterns, and looks at no fourth member.
        if members.len() == 3
            && let Ok(PipelinePreTokenizer::Sequence(sequence)) = Self::native(path, value)
            && sequence.is_deepseek()
        {
            return Ok(Self::Native(PipelinePreTokenizer::Sequence(sequence)));
        }
        let members =
            members.iter().map(|member| Self::new(path, member)).collect::<Result<Vec<_>>>()?;
        Ok(Self::Sequence(members))
    }

    fn folded(path: &str, value: &Value, native: PipelinePreTokenizer) -> Result<Self> {
        let pattern = value
            .pointer("/pattern/Regex")
            .and_then(Value::as_str)
            .filter(|_| kind(value) == "Split")
            .unwrap_or_default();
        if !pattern.contains("(?i:'s|") || !has_grammar(pattern) {
            return Ok(Self::Native(native));
        }
        let compiled = Pattern::new(pattern, Behavior::Isolated, false);
        let pattern = compiled.map_err(|reason| Error::Pattern {
            path: path.to_owned(),
            pattern: pattern.to_owned(),
            reason,
        })?;
        Ok(Self::Folded(native, pattern))
    }

    /// A pattern that the engine has no grammar for.
    fn pattern(path: &str, value: &Value) -> Result<Option<Pattern>> {
        let Some(pattern) = value
            .pointer("/pattern/Regex")
            .and_then(Value::as_str)
            .filter(|_| kind(value) == "Split")
        else {
            return Ok(None);
        };
        let is_inverted = value.get("invert").and_then(Value::as_bool).unwrap_or(false);
        let behavior = match value.get("behavior").and_then(Value::as_str).unwrap_or("Isolated") {
            "Removed" => Behavior::Removed,
            "Isolated" => Behavior::Isolated,
            "MergedWithPrevious" => Behavior::MergedWithPrevious,
            "MergedWithNext" => Behavior::MergedWithNext,
            "Contiguous" => Behavior::Contiguous,
            other => {
                return Err(Error::Unsupported {
                    path: path.to_owned(),
                    what: format!("its pre-tokenizer has the unknown behavior {}", quoted(other)),
                });
            }
        };
        let covers = matches!(
            (behavior, is_inverted),
            (Behavior::Isolated, false) | (Behavior::Removed, true)
        );
        if covers && has_grammar(pattern) {
            return Ok(None);
        }
        // Of ranks, whose original library is written in Rust.
        let is_rust = value.get("dialect").and_then(Value::as_str) == Some("rust");
        let rust =
            if is_rust { Ok(Cow::Borrowed(pattern)) } else { translated(pattern).map(Cow::Owned) };
        let compiled = rust.and_then(|rust| Pattern::new(&rust, behavior, is_inverted));
        compiled.map(Some).map_err(|reason| Error::Pattern {
            path: path.to_owned(),
            pattern: pattern.to_owned(),
            reason,
        })
    }

    /// The engine reads whole documents only.
    fn native(path: &str, value: &Value) -> Result<PipelinePreTokenizer> {
        let model = serde_json::json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"});
        let document =
            serde_json::json!({"version": "2.0", "model": model, "pre_tokenizer": value});
        let read = tokenizers::from_json(&document.to_string());
        let read = read.map_err(|error| unsupported(path, &error.to_string()))?;
        Ok(read.get_pre_tokenizer().clone())
    }

    /// Whether it begins with a grammar of the engine.
    pub(super) fn is_grammar(&self) -> bool {
        match self {
            Self::Folded(..) => true,
            Self::Native(PipelinePreTokenizer::Split(split)) => split.grammar().is_some(),
            Self::Native(PipelinePreTokenizer::Sequence(sequence)) => sequence.is_deepseek(),
            // Later members see its words one by one.
            Self::Sequence(members) => members.first().is_some_and(Self::is_grammar),
            _ => false,
        }
    }

    /// Whether a word ends between a letter and a single space before a letter.
    pub(super) fn ends_words(&self) -> bool {
        match self {
            Self::Folded(..) => true,
            Self::Native(PipelinePreTokenizer::Split(_) | PipelinePreTokenizer::Sequence(_)) => {
                self.is_grammar()
            }
            Self::Native(
                PipelinePreTokenizer::Bert(_)
                | PipelinePreTokenizer::Whitespace(_)
                | PipelinePreTokenizer::WhitespaceSplit(_),
            ) => true,
            Self::Sequence(members) => members.first().is_some_and(Self::ends_words),
            Self::Native(_) | Self::Pattern(_) | Self::Markers => false,
        }
    }

    /// Whether all text is in a word.
    pub(super) fn keeps_all(&self) -> bool {
        match self {
            Self::Native(PipelinePreTokenizer::None) | Self::Markers | Self::Folded(..) => true,
            Self::Native(PipelinePreTokenizer::Split(split)) => {
                split.grammar().is_some() || split.behavior != SplitDelimiterBehavior::Removed
            }
            Self::Native(PipelinePreTokenizer::Sequence(sequence)) => sequence.is_deepseek(),
            Self::Native(PipelinePreTokenizer::Digits(_)) => true,
            Self::Native(PipelinePreTokenizer::Punctuation(_)) => true,
            Self::Native(_) => false,
            Self::Pattern(pattern) => pattern.behavior() != Behavior::Removed,
            Self::Sequence(members) => members.iter().all(Self::keeps_all),
        }
    }

    /// Whether a word ends before each space marker.
    pub(super) fn ends_at_marker(&self) -> bool {
        matches!(
            self,
            Self::Native(PipelinePreTokenizer::Split(split)) if split.grammar().is_none()
        )
    }

    pub(super) fn split(
        &self,
        text: &str,
        start: Option<usize>,
        scratch: &mut PreTokenizerScratch,
        out: &mut Vec<Span>,
    ) -> Result<()> {
        match self {
            Self::Folded(native, _) if CONTRACTIONS.find(text.as_bytes()).is_none() => {
                native.pre_tokenize(text, scratch, out).map_err(not_encoded)
            }
            Self::Native(native) => native.pre_tokenize(text, scratch, out).map_err(not_encoded),
            Self::Folded(_, pattern) | Self::Pattern(pattern) => {
                split_matches(out, pattern.matches(text, start)?, behavior(pattern.behavior()));
                Ok(())
            }
            Self::Markers => {
                split_markers(text, out);
                Ok(())
            }
            Self::Sequence(members) => {
                let mut spans = vec![span(0, text.len())];
                for member in members {
                    let mut next = Vec::with_capacity(spans.len());
                    for span in &spans {
                        let first = next.len();
                        let range = span.range();
                        let inner_start = start.map(|start| start + range.start);
                        member.split(
                            text.get(range).unwrap_or_default(),
                            inner_start,
                            scratch,
                            &mut next,
                        )?;
                        for inner in next.iter_mut().skip(first) {
                            inner.start += span.start;
                            inner.end += span.start;
                        }
                    }
                    spans = next;
                }
                out.append(&mut spans);
                Ok(())
            }
        }
    }
}

fn split_markers(text: &str, out: &mut Vec<Span>) {
    let mut start = 0;
    let mut end = 0;
    for (place, marker) in text.match_indices('\u{2581}') {
        if place > end {
            out.push(span(start, place));
            start = place;
        }
        end = place + marker.len();
    }
    if start < text.len() {
        out.push(span(start, text.len()));
    }
}

/// Callers have checked that the text is shorter than 4 GiB.
fn span(start: usize, end: usize) -> Span {
    let short = |place| u32::try_from(place).unwrap_or(u32::MAX);
    Span { start: short(start), end: short(end) }
}

pub(super) fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The engine takes any number of digits for the cl100k family, but has grammars for groups of one
/// and of three alone.
fn has_grammar(pattern: &str) -> bool {
    !matches!(recognize(pattern), None | Some(Grammar::Cl100k { digit_cap: 0 | 2 | 4.. }))
}

fn behavior(behavior: Behavior) -> SplitDelimiterBehavior {
    match behavior {
        Behavior::Removed => SplitDelimiterBehavior::Removed,
        Behavior::Isolated => SplitDelimiterBehavior::Isolated,
        Behavior::MergedWithPrevious => SplitDelimiterBehavior::MergedWithPrevious,
        Behavior::MergedWithNext => SplitDelimiterBehavior::MergedWithNext,
        Behavior::Contiguous => SplitDelimiterBehavior::Contiguous,
    }
}
