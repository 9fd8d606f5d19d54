//! Tokens and their ids.

use super::added::{self, Added, assign};
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The engine has tables by id, so a file of a few bytes could ask for any amount of memory.
pub(super) const HIGHEST_ID: u32 = (1 << 24) - 1;

/// The engine stores lengths in 16 bits.
pub(super) const LONGEST_TOKEN: usize = u16::MAX as usize;

/// How many similar tokens an error names.
const SIMILAR: usize = 5;

pub(crate) struct Vocabulary {
    ids: HashMap<Arc<str>, u32>,
    /// By id.
    tokens: Vec<(u32, Arc<str>)>,
    added: Vec<Added>,
    /// Sorted.
    added_ids: Vec<u32>,
    is_byte_level: bool,
    /// Bytes of byte-level tokens by id, 0 for others. Labels need one for every token of a text.
    lengths: Vec<u16>,
}

impl Vocabulary {
    /// Of a byte-level model, whose tokens are spelled in its alphabet.
    pub(super) fn byte_level(tokens: &[(String, u32)], added: Vec<Added>) -> Self {
        Self::of(tokens, added, true, |_| false)
    }

    /// Of a model of characters.
    /// `is_hidden` tells the tokens that the engine does not have by their text.
    pub(super) fn characters(tokens: &[(String, u32)], added: Vec<Added>, is_hidden: impl Fn(&str) -> bool) -> Self {
        Self::of(tokens, added, false, is_hidden)
    }

    fn of(tokens: &[(String, u32)], mut added: Vec<Added>, is_byte_level: bool, is_hidden: impl Fn(&str) -> bool) -> Self {
        let model: Vec<(&str, u32)> = tokens.iter().map(|(token, id)| (token.as_str(), *id)).collect();
        let known: HashMap<&str, u32> = model.iter().copied().collect();
        assign(&mut added, model.len(), |token| known.get(token).copied().filter(|_| !is_hidden(token)));
        Self::collect(&model, added, is_byte_level)
    }

    /// Of a canonical document.
    pub(super) fn read(path: &str, document: &Value) -> Result<Self> {
        let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
        let model = &document["model"];
        let mut entries: Vec<(&str, u32)> = Vec::new();
        match model.get("vocab") {
            Some(Value::Object(vocabulary)) => {
                entries.reserve(vocabulary.len());
                for (token, id) in vocabulary {
                    let id = id.as_u64().filter(|id| *id <= u64::from(HIGHEST_ID)).and_then(|id| u32::try_from(id).ok());
                    entries.push((token, id.ok_or_else(|| invalid(format!("token {token:?} has no id from 0 to {HIGHEST_ID}")))?));
                }
            }
            Some(Value::Array(vocabulary)) => {
                for (number, entry) in vocabulary.iter().enumerate() {
                    let token = entry.get(0).and_then(Value::as_str).ok_or_else(|| invalid(format!("vocabulary entry {number} has no token")))?;
                    let id = u32::try_from(number).ok().filter(|id| *id <= HIGHEST_ID);
                    entries.push((token, id.ok_or_else(|| invalid(format!("there are more than {HIGHEST_ID} tokens")))?));
                }
            }
            _ => return Err(invalid("its model has no vocabulary".to_owned())),
        }
        if let Some((token, _)) = entries.iter().find(|(token, _)| token.len() > LONGEST_TOKEN) {
            let start: String = token.chars().take(20).collect();
            return Err(invalid(format!("token {start:?}… has more than {LONGEST_TOKEN} bytes")));
        }
        let mut by_id = entries.clone();
        by_id.sort_unstable_by_key(|(token, id)| (*id, *token));
        for pair in by_id.windows(2) {
            if let [(first, id), (second, next)] = pair
                && id == next
            {
                let (first, second) = ((*first).to_owned(), (*second).to_owned());
                return Err(Error::DuplicateId { path: path.to_owned(), id: u64::from(*id), first, second });
            }
        }
        let known: HashMap<&str, u32> = entries.into_iter().collect();
        let added = added::declared_tokens(path, document, &known, by_id.len())?;
        added::check(path, &added, &by_id, &known)?;
        Ok(Self::collect(&by_id, added, model.get("byte_level").and_then(Value::as_bool).unwrap_or(false)))
    }

    fn collect(model: &[(&str, u32)], added: Vec<Added>, is_byte_level: bool) -> Self {
        let mut ids: HashMap<Arc<str>, u32> = HashMap::with_capacity(model.len() + added.len());
        let mut tokens: Vec<(u32, Arc<str>)> = Vec::with_capacity(model.len() + added.len());
        for (token, id) in model {
            let token: Arc<str> = Arc::from(*token);
            ids.insert(Arc::clone(&token), *id);
            tokens.push((*id, token));
        }
        for token in &added {
            let content: Arc<str> = Arc::from(token.content.as_str());
            if ids.insert(Arc::clone(&content), token.id).is_none() {
                tokens.push((token.id, content));
            }
        }
        tokens.sort_by_key(|(id, _)| *id);
        let mut added_ids: Vec<u32> = added.iter().map(|token| token.id).collect();
        added_ids.sort_unstable();
        let mut vocabulary = Self { ids, tokens, added, added_ids, is_byte_level, lengths: Vec::new() };
        if is_byte_level {
            vocabulary.lengths = vocabulary.measured();
        }
        vocabulary
    }

    fn measured(&self) -> Vec<u16> {
        let mut lengths = vec![0; self.highest().map_or(0, |highest| highest as usize + 1)];
        for (id, token) in &self.tokens {
            // An added token may be one of the model too.
            let length = super::bytes::raw(token).and_then(|bytes| u16::try_from(bytes.len()).ok());
            if let (Some(place), Some(length)) = (lengths.get_mut(*id as usize), length) {
                *place = length;
            }
        }
        lengths
    }

    /// Whether no token has a space marker after another character, and the marker is a token: then no token reaches from one word into the next, and no
    /// run of unknown characters does.
    pub(crate) fn marks_begin_words(&self) -> bool {
        const MARKER: char = '\u{2581}';
        let crosses = |token: &str| token.contains(MARKER) && token.trim_start_matches(MARKER).contains(MARKER);
        self.ids.contains_key("\u{2581}") && !self.tokens.iter().any(|(_, token)| crosses(token))
    }

    /// The id of a token as the file writes it; for byte-level models also of its text.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        let written = self.ids.get(token).copied();
        written.or_else(|| self.ids.get(super::bytes::spelled(token.as_bytes()).as_str()).copied().filter(|_| self.is_byte_level))
    }

    /// The id of a token as the file writes it.
    pub(crate) fn model_id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    pub(crate) fn token(&self, id: u32) -> Option<&str> {
        let is_last_of_id = |place: usize| {
            let known = |place: usize| self.tokens.get(place).map(|(known, _)| *known);
            known(place) == Some(id) && known(place + 1) != Some(id)
        };
        // Most vocabularies number their tokens from 0 without a gap.
        let end = match id as usize {
            place if is_last_of_id(place) => place + 1,
            _ => self.tokens.partition_point(|(known, _)| *known <= id),
        };
        let (known, token) = self.tokens.get(end.checked_sub(1)?)?;
        (*known == id).then_some(token)
    }

    /// The bytes of a byte-level token; `None` for an added one, and for models that are not byte-level.
    pub(crate) fn raw_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.token(id).filter(|_| self.is_byte_level && !self.is_added(id))?;
        super::bytes::raw(token)
    }

    /// How many bytes a token of a byte-level model stands for.
    pub(crate) fn raw_length(&self, id: u32) -> Option<usize> {
        self.lengths.get(id as usize).map(|length| usize::from(*length)).filter(|length| *length > 0)
    }

    fn is_added(&self, id: u32) -> bool {
        self.added_ids.binary_search(&id).is_ok()
    }

    pub(crate) fn is_byte_level(&self) -> bool {
        self.is_byte_level
    }

    pub(crate) fn highest(&self) -> Option<u32> {
        self.tokens.last().map(|(id, _)| *id)
    }

    pub(crate) fn added(&self) -> &[Added] {
        &self.added
    }

    /// Tokens that a user may have meant, the nearest first.
    pub(crate) fn similar(&self, token: &str) -> Vec<String> {
        let wanted = token.to_lowercase();
        let limit = (wanted.chars().count() / 3).max(2);
        let mut near: Vec<(usize, bool, &str)> = Vec::new();
        for (id, known) in &self.tokens {
            let is_model = !self.is_added(*id);
            if is_model && known.len().abs_diff(wanted.len()) > limit * 4 {
                continue;
            }
            let distance = strsim::levenshtein(&wanted, &known.to_lowercase());
            if distance <= limit {
                near.push((distance, is_model, known));
            }
        }
        near.sort_unstable_by_key(|(distance, is_model, _)| (*is_model, *distance));
        near.into_iter().take(SIMILAR).map(|(_, _, known)| known.to_owned()).collect()
    }
}
