//! Byte-level vocabularies that are given by ranks alone, as `.tiktoken`
//! and `tekken.json` have them.
//!
//! Such a vocabulary merges the two neighbors whose join has the lowest rank. A BPE model
//! has a list of merges instead: those of a token are all its splits into two tokens.
//! Where several could be applied, the one whose halves rank lower comes first; tokens come
//! in the order of their ranks.

use super::added::{Added, declarations};
use super::bytes::alphabet;
use super::model::{Model, Template};
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Of the merges that a vocabulary can ask for; o200k has less than a million. Each is a pair of
/// strings in the engine.
const MOST_MERGES: usize = 4 << 20;

/// Known spellings of the patterns that the engine has grammars for: the names, then as tiktoken
/// and tekken write them.
pub(super) const NATIVE: [(&[&str], &str); 4] = [
    (
        &[
            "gpt2",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        ],
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    (
        &[
            "cl100k",
            CL100K,
            concat!(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+",
                r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            ),
        ],
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
    (
        &["o200k"],
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
    (
        &[],
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
];

/// As tiktoken writes it. White space at the end of a text is one piece, which the engine's grammar
/// cuts after the last line feed.
const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++",
    r"|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);

/// The name of a pattern, or one spelled otherwise than the engine does, as the engine spells it.
pub(crate) fn native_pattern(pattern: &str) -> &str {
    let known = NATIVE.iter().find(|(spellings, _)| spellings.contains(&pattern));
    known.map_or(pattern, |(_, native)| native)
}

/// [`native_pattern`], unless a token of the vocabulary makes a difference.
pub(crate) fn pattern_of<'a>(pattern: &'a str, tokens: &[Ranked<'_>]) -> &'a str {
    let is_cl100k = matches!(pattern, "cl100k" | CL100K);
    if is_cl100k && tokens.iter().any(|(token, _)| continues_a_line(token)) {
        CL100K
    } else {
        native_pattern(pattern)
    }
}

/// Whether a token has nothing but white space, and some of it after the last line feed. Such a
/// token may also begin or end inside of a character.
fn continues_a_line(token: &[u8]) -> bool {
    let is_space = |byte: &u8| {
        matches!(
            byte,
            b'\t'..=b'\r' | b' ' | 0x80..=0x8a | 0x9a | 0x9f | 0xa0 | 0xa8 | 0xa9 | 0xaf | 0xc2
                | 0xe1..=0xe3
        )
    };
    let is_line_feed = |byte: &u8| matches!(byte, b'\r' | b'\n');
    token.iter().all(is_space)
        && token.iter().any(is_line_feed)
        && !token.last().is_some_and(is_line_feed)
}

/// A token and its id.
pub(crate) type Ranked<'a> = (&'a [u8], u32);

/// `tokens` are in the order of their ranks and differ from each other; so do the ids of the
/// `added` ones.
pub(crate) fn model(
    path: &str,
    tokens: &[Ranked<'_>],
    pattern: &str,
    added: Vec<Added>,
) -> Result<Model> {
    let alphabet = alphabet();
    let spell = |bytes: &[u8], text: &mut String| {
        for byte in bytes {
            let character = alphabet.get(usize::from(*byte)).copied().unwrap_or_default();
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
    };
    let mut text = String::from(concat!(
        r#"{"version":"2.0","#,
        r#""model":{"type":"BPE","byte_level":true,"ignore_merges":true,"vocab":{"#,
    ));
    for (number, (bytes, id)) in tokens.iter().enumerate() {
        text.push_str(if number == 0 { "\"" } else { ",\"" });
        spell(bytes, &mut text);
        let _infallible = write!(text, "\":{id}");
    }
    text.push_str(r#"},"merges":["#);
    let places: HashMap<&[u8], usize> =
        tokens.iter().enumerate().map(|(place, (bytes, _))| (*bytes, place)).collect();
    let mut merges = 0;
    let mut splits: Vec<(usize, usize)> = Vec::new();
    for (bytes, _) in tokens {
        splits.clear();
        splits.extend(Splits::new(&places, bytes));
        splits.sort_unstable();
        merges += splits.len();
        if merges > MOST_MERGES {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("its tokens split into others in more than {MOST_MERGES} ways"),
            });
        }
        for (left, right) in &splits {
            text.push_str(if text.ends_with('[') { "[\"" } else { ",[\"" });
            tokens.get(*left).into_iter().for_each(|(bytes, _)| spell(bytes, &mut text));
            text.push_str("\",\"");
            tokens.get(*right).into_iter().for_each(|(bytes, _)| spell(bytes, &mut text));
            text.push_str("\"]");
        }
    }
    text.push_str("]}");
    let vocabulary = Vocabulary::byte_level(
        &tokens.iter().map(|(bytes, id)| (super::bytes::spelled(bytes), *id)).collect::<Vec<_>>(),
        added,
    );
    let _infallible = write!(text, r#","added_tokens":{}}}"#, declarations(vocabulary.added()));
    // What the pattern does not match is dropped.
    let splitter = json!({
        "type": "Split",
        "pattern": {"Regex": pattern_of(pattern, tokens)},
        "behavior": "Removed",
        "invert": true,
        "dialect": "rust",
    });
    Ok(Model {
        text,
        splitter: Some(splitter),
        normalizer: None,
        spaces: None,
        has_byte_tokens: false,
        vocabulary,
        unigram: None,
        changes: Vec::new(),
        template: Template::default(),
    })
}

/// The ways to split a token into two others, by their places.
struct Splits<'a> {
    places: &'a HashMap<&'a [u8], usize>,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Splits<'a> {
    fn new(places: &'a HashMap<&'a [u8], usize>, bytes: &'a [u8]) -> Self {
        Self { places, bytes, at: 1 }
    }
}

impl Iterator for Splits<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.bytes.len() {
            let (left, right) = self.bytes.split_at(self.at);
            self.at += 1;
            if let (Some(left), Some(right)) = (self.places.get(left), self.places.get(right)) {
                return Some((*left, *right));
            }
        }
        None
    }
}
