//! Unigram models: the segmentation of a text whose tokens have the highest sum of scores.
//!
//! If segmentations are nearly equal, the result depends on how the sums are rounded, and so on the
//! library that the file is for. The search keeps only the part of a text in which tokens overlap:
//! as soon as all segmentations have a common boundary, everything before it is decided. See
//! [`words`] for repeated words.

mod trie;
mod words;

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use trie::Trie;
use words::{Words, ends_words};

/// How much lower an unknown character scores than the lowest token.
const PENALTY: f64 = 10.0;

/// Noncharacters, in an order that no text has.
const STAND_IN: &str = "\u{fdd9}\u{10ffff}\u{fdd4}\u{1fffe}\u{fdef}\u{8ffff}\u{fdd0}\u{3fffe}";

pub(crate) struct Unigram {
    trie: Trie,
    /// By id.
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    /// Tokens of bytes, for unknown characters.
    bytes: Option<Box<[Option<u32>; 256]>>,
    library: Library,
    /// Whether all segmentations have a boundary before a space marker
    /// that is after another character.
    ends_words: bool,
}

/// The library that decides about near ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// Sums have 32 bits.
    SentencePiece,
    /// Sums have 64 bits; a run of unknown characters may spell a token.
    HuggingFace,
}

/// What a model is made of.
pub(crate) struct Parts<'a> {
    /// Tokens that text can become. Of two tokens with the same text, the last one counts.
    pub(crate) tokens: Vec<(&'a str, u32)>,
    /// By id.
    pub(crate) scores: Vec<f64>,
    pub(crate) unknown: u32,
    /// The lowest score of all tokens that count.
    pub(crate) lowest: f64,
    pub(crate) bytes: Option<Box<[Option<u32>; 256]>>,
    pub(crate) library: Library,
}

/// The best segmentation up to a place.
#[derive(Debug, Clone, Copy)]
struct Node {
    sum: f64,
    /// How much higher its sum is than those of all others.
    margin: f64,
    /// Where its last token begins.
    start: u32,
    id: u32,
}

/// Buffers of one call, and the words of earlier calls.
#[derive(Debug, Default)]
pub(crate) struct Path {
    lattice: Lattice,
    words: Words,
}

#[derive(Debug, Default)]
struct Lattice {
    nodes: Vec<Node>,
    tokens: Vec<Token>,
}

/// Where a token begins, and its id.
type Token = (u32, u32);

/// What is known about the best segmentation, apart from its tokens.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    sum: f64,
    /// The least margin on its path.
    margin: f64,
    /// The greatest absolute sum of all segmentations.
    reach: f64,
}

/// The ids of a text up to a place.
struct Output<'a> {
    model: &'a Unigram,
    text: &'a str,
    /// Where a run of unknown characters begins.
    unknown: Option<usize>,
    out: &'a mut Vec<u32>,
}

const UNREACHED: Node =
    Node { sum: f64::NEG_INFINITY, margin: f64::INFINITY, start: u32::MAX, id: 0 };

impl Unigram {
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        let Parts { tokens, scores, unknown, lowest, bytes, library } = parts;
        let keys: BTreeMap<&[u8], u32> = tokens
            .into_iter()
            .map(|(text, id)| (text.as_bytes(), id))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        let ends_words = keys.keys().all(|key| ends_words(key));
        let trie = Trie::new(&keys.into_iter().collect::<Vec<_>>());
        Self {
            trie,
            scores,
            unknown,
            unknown_score: library.rounded(lowest - PENALTY),
            bytes,
            library,
            ends_words,
        }
    }

    /// `model` is that of a `tokenizer.json`, whose vocabulary has been checked.
    pub(crate) fn of_json(path: &str, model: &Value) -> Result<Self> {
        let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
        if let Some(alpha) =
            model.get("alpha").and_then(Value::as_f64).filter(|alpha| *alpha != 0.0)
        {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("its Unigram model has alpha {alpha}, so its ids are random"),
            });
        }
        let entries =
            model.get("vocab").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let tokens: Vec<(&str, u32)> = entries
            .iter()
            .zip(0..)
            .filter_map(|(entry, id)| Some((entry.get(0)?.as_str()?, id)))
            .collect();
        let score = |(number, entry): (usize, &Value)| {
            // Read as the library reads it, which may differ from the nearest number
            // in its last bit.
            let score =
                entry.get(1).and_then(|score| serde_json::from_str::<f64>(&score.to_string()).ok());
            score.ok_or_else(|| invalid(format!("vocabulary entry {number} has no score")))
        };
        let scores = entries.iter().enumerate().map(score).collect::<Result<Vec<f64>>>()?;
        let unknown =
            model.get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let unknown =
            unknown.ok_or_else(|| invalid("the Unigram model has no unknown token".to_owned()))?;
        let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let has_bytes = model.get("byte_fallback").and_then(Value::as_bool).unwrap_or(false);
        let bytes = has_bytes.then(|| byte_tokens(tokens.iter().copied()));
        Ok(Self::new(Parts {
            tokens,
            scores,
            unknown,
            lowest,
            bytes,
            library: Library::HuggingFace,
        }))
    }

    /// What the engine has in place of the model. No text has its token.
    pub(crate) fn stand_in() -> Value {
        json!({"type": "WordLevel", "vocab": {STAND_IN: 0}, "unk_token": STAND_IN})
    }

    /// Appends the ids of `text`, which has less than 4 GiB.
    pub(crate) fn encode(&self, text: &str, path: &mut Path, out: &mut Vec<u32>) {
        let Path { lattice, words } = path;
        let mut output = Output { model: self, text, unknown: None, out };
        let mut sum = 0.0;
        for range in words::split(text, self.ends_words) {
            let word = text.get(range.clone()).unwrap_or_default();
            sum = match words.tokens(self, word, sum, lattice) {
                Some(tokens) => tokens.iter().fold(sum, |sum, (start, id)| {
                    output.push(range.start + *start as usize, *id);
                    self.library.rounded(sum + self.score(*id))
                }),
                None => {
                    self.search(self.library, word, sum, lattice, |start, id| {
                        output.push(range.start + start, id);
                    })
                    .sum
                }
            };
        }
        output.end_unknown(text.len());
    }

    fn score(&self, id: u32) -> f64 {
        if id == self.unknown {
            self.unknown_score
        } else {
            self.scores.get(id as usize).copied().unwrap_or_default()
        }
    }

    /// Passes the tokens of the best segmentation of `text` to `each`. Scores are added to `sum`,
    /// that of the text before it, as in the library.
    fn search(
        &self,
        library: Library,
        text: &str,
        sum: f64,
        lattice: &mut Lattice,
        mut each: impl FnMut(usize, u32),
    ) -> Outcome {
        let mut outcome = Outcome { sum, margin: f64::INFINITY, reach: sum.abs() };
        // Everything before this place is decided.
        let mut decided = 0;
        lattice.nodes.clear();
        lattice.nodes.push(Node { sum, ..UNREACHED });
        for (at, character) in text.char_indices() {
            if at > decided && lattice.nodes.len() == at - decided + 1 {
                lattice.decide(decided, &mut outcome, &mut each);
                decided = at;
            }
            let from = at - decided;
            let sum = lattice.nodes.get(from).map_or(0.0, |node| node.sum);
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let mut has_single = false;
            for (length, id) in self.trie.prefixes(rest) {
                has_single |= length == character.len_utf8();
                let sum = library
                    .rounded(sum + self.scores.get(id as usize).copied().unwrap_or_default());
                outcome.reach = outcome.reach.max(sum.abs());
                lattice.offer(from, length, id, sum);
            }
            if !has_single {
                let sum = library.rounded(sum + self.unknown_score);
                outcome.reach = outcome.reach.max(sum.abs());
                lattice.offer(from, character.len_utf8(), self.unknown, sum);
            }
        }
        lattice.decide(decided, &mut outcome, &mut each);
        outcome
    }
}

impl Library {
    #[inline]
    fn rounded(self, sum: f64) -> f64 {
        match self {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the rounding of 32 bits is wanted"
            )]
            Self::SentencePiece => f64::from(sum as f32),
            Self::HuggingFace => sum,
        }
    }
}

impl Lattice {
    /// Among segmentations with the same sum, the one with the longest last token is kept.
    #[inline]
    fn offer(&mut self, from: usize, length: usize, id: u32, sum: f64) {
        let end = from + length;
        if self.nodes.len() <= end {
            self.nodes.resize(end + 1, UNREACHED);
        }
        let (Some(node), Ok(start)) = (self.nodes.get_mut(end), u32::try_from(from)) else {
            return;
        };
        if node.start == u32::MAX || sum > node.sum {
            *node = Node { sum, margin: sum - node.sum, start, id };
        } else {
            node.margin = node.margin.min(node.sum - sum);
        }
    }

    /// Passes on the tokens before the last node, and restarts after it.
    fn decide(&mut self, decided: usize, outcome: &mut Outcome, each: &mut impl FnMut(usize, u32)) {
        let Self { nodes, tokens } = self;
        let last = nodes.last().copied().unwrap_or(UNREACHED);
        let mut end = nodes.len() - 1;
        tokens.clear();
        while let Some(node) = nodes.get(end).filter(|node| (node.start as usize) < end) {
            outcome.margin = outcome.margin.min(node.margin);
            tokens.push((node.start, node.id));
            end = node.start as usize;
        }
        tokens.iter().rev().for_each(|(start, id)| each(decided + *start as usize, *id));
        outcome.sum = last.sum;
        nodes.clear();
        nodes.push(Node { start: u32::MAX, margin: f64::INFINITY, ..last });
    }
}

impl Output<'_> {
    #[inline]
    fn push(&mut self, start: usize, id: u32) {
        if id == self.model.unknown {
            self.unknown.get_or_insert(start);
        } else {
            self.end_unknown(start);
            self.out.push(id);
        }
    }

    /// A run of unknown characters is one token, or tokens of its bytes.
    #[inline]
    fn end_unknown(&mut self, end: usize) {
        let Some(run) = self
            .unknown
            .take()
            .and_then(|start| self.text.as_bytes().get::<Range<usize>>(start..end))
        else {
            return;
        };
        if self.model.library == Library::HuggingFace
            && let Some(id) = self.model.trie.get(run)
        {
            self.out.push(id);
            return;
        }
        let before = self.out.len();
        if let Some(bytes) = &self.model.bytes {
            self.out.extend(
                run.iter().map_while(|byte| bytes.get(usize::from(*byte)).copied().flatten()),
            );
        }
        if self.out.len() - before != run.len() {
            self.out.truncate(before);
            self.out.push(self.model.unknown);
        }
    }
}

/// The tokens that are named for bytes, such as `<0x41>`.
pub(crate) fn byte_tokens<'a>(
    tokens: impl Iterator<Item = (&'a str, u32)>,
) -> Box<[Option<u32>; 256]> {
    let mut bytes = Box::new([None; 256]);
    for (text, id) in tokens {
        let digits = text
            .strip_prefix("<0x")
            .and_then(|rest| rest.strip_suffix('>'))
            .filter(|digits| digits.len() == 2);
        // The names have capital letters.
        let byte = digits
            .filter(|digits| !digits.contains(|digit: char| digit.is_ascii_lowercase()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(place) = byte.and_then(|byte| bytes.get_mut(usize::from(byte))) {
            *place = Some(id);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(model: &Value, text: &str) -> Vec<u32> {
        let mut out = Vec::new();
        Unigram::of_json("m", model).unwrap().encode(text, &mut Path::default(), &mut out);
        out
    }

    /// The highest sum of all segmentations, as the library defines it.
    fn best(scores: &[(&str, f64)], text: &str) -> f64 {
        let mut sums = vec![0.0; text.len() + 1];
        for end in 1..=text.len() {
            let of = |(token, score): &(&str, f64)| {
                Some(sums[text[..end].strip_suffix(token)?.len()] + score)
            };
            sums[end] = scores.iter().filter_map(of).fold(f64::NEG_INFINITY, f64::max);
        }
        sums[text.len()]
    }

    #[test]
    fn sum_of_the_tokens_is_the_highest_of_all_segmentations() {
        let scores = [
            ("a", -3.0),
            ("b", -3.5),
            ("ab", -4.0),
            ("ba", -5.0),
            ("abb", -6.0),
            ("bab", -6.25),
            ("aaaa", -7.0),
            ("babababa", -11.0),
        ];
        let vocabulary: Vec<Value> = std::iter::once(json!(["<unk>", 0.0]))
            .chain(scores.iter().map(|(token, score)| json!([token, score])))
            .collect();
        let model = json!({"type": "Unigram", "unk_id": 0, "vocab": vocabulary});
        for number in 1..2048_u32 {
            let text: String = (0..u32::BITS - number.leading_zeros())
                .map(|bit| if (number >> bit) & 1 == 1 { 'a' } else { 'b' })
                .collect();
            let ids = encoded(&model, &text);
            let tokens = ids.iter().map(|id| scores[*id as usize - 1]).collect::<Vec<_>>();
            assert_eq!(tokens.iter().map(|(token, _)| *token).collect::<String>(), text);
            assert!(
                (tokens.iter().map(|(_, score)| score).sum::<f64>() - best(&scores, &text)).abs()
                    < 1e-9,
                "{text}"
            );
        }
    }

    #[test]
    fn kept_words_have_the_ids_of_a_search_through_the_whole_text() {
        let pieces = [
            "a",
            "b",
            "aa",
            "ab",
            "ba",
            "bb",
            "aba",
            "bab",
            "\u{2581}",
            "\u{2581}a",
            "\u{2581}b",
            "\u{2581}ab",
            "\u{2581}ba",
        ];
        let tokens: Vec<(&str, u32)> = pieces.into_iter().zip(1..).collect();
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for library in [Library::SentencePiece, Library::HuggingFace] {
            for _ in 0..20 {
                // Few different scores, so that sums are nearly equal.
                let score = |steps: u32| {
                    f64::from(-1.1_f32 - 0.3 * f32::from(u8::try_from(steps).unwrap()))
                };
                let scores: Vec<f64> = (0..=tokens.len()).map(|_| score(random(5))).collect();
                let model = |ends_words| Unigram {
                    ends_words,
                    ..Unigram::new(Parts {
                        tokens: tokens.clone(),
                        scores: scores.clone(),
                        unknown: 0,
                        lowest: -2.3,
                        bytes: None,
                        library,
                    })
                };
                let (by_word, whole) = (model(true), model(false));
                let mut path = Path::default();
                for _ in 0..20 {
                    let letters = ["a", "b", "a", "b", "\u{2581}", "c"];
                    let text: String =
                        (0..100 + random(4000)).map(|_| letters[random(6) as usize]).collect();
                    let (mut kept, mut searched) = (Vec::new(), Vec::new());
                    by_word.encode(&text, &mut path, &mut kept);
                    whole.encode(&text, &mut Path::default(), &mut searched);
                    assert_eq!(kept, searched);
                }
            }
        }
    }

    #[test]
    fn run_of_unknown_characters_is_one_token_or_its_bytes() {
        let mut vocabulary = vec![json!(["<unk>", 0.0]), json!(["a", -1.0])];
        let model = json!({"type": "Unigram", "unk_id": 0, "vocab": vocabulary});
        assert_eq!(encoded(&model, "yéaéya"), [0, 1, 0, 1]);
        vocabulary.extend((0..=255).map(|byte| json!([format!("<0x{byte:02X}>"), -50.0])));
        let model =
            json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": vocabulary});
        assert_eq!(encoded(&model, "éa"), [2 + 0xc3, 2 + 0xa9, 1]);
        vocabulary.pop();
        let model =
            json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": vocabulary});
        assert_eq!(encoded(&model, "éa"), [2 + 0xc3, 2 + 0xa9, 1]);
    }

    #[test]
    fn model_whose_ids_are_random_is_refused() {
        let model =
            json!({"type": "Unigram", "unk_id": 0, "alpha": 0.1, "vocab": [["<unk>", 0.0]]});
        let error = Unigram::of_json("m", &model).err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("`m` cannot be used: its Unigram model has alpha 0.1, so its ids are random")
        );
    }
}
