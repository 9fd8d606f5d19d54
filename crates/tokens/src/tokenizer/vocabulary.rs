//! Tokens and their ids.

use super::added::{self, Added, LONGEST_TOKEN, assign};
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::quote::quoted;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The engine has tables by id, so a file of a few bytes could ask for any amount of memory.
pub(super) const HIGHEST_ID: u32 = (1 << 24) - 1;

/// How many similar tokens an error names.
const SIMILAR: usize = 5;

/// Longer tokens take long to compare, and users do not type them.
const MOST_COMPARED: usize = 512;

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
        Self::of(tokens, added, true)
    }

    /// Of a model of characters.
    pub(super) fn characters(tokens: &[(String, u32)], added: Vec<Added>) -> Self {
        Self::of(tokens, added, false)
    }

    fn of(tokens: &[(String, u32)], mut added: Vec<Added>, is_byte_level: bool) -> Self {
        let model: Vec<(&str, u32)> =
            tokens.iter().map(|(token, id)| (token.as_str(), *id)).collect();
        let known: HashMap<&str, u32> = model.iter().copied().collect();
        added.sort_by_key(|token| token.id);
        assign(&mut added, model.len(), |token| known.get(token).copied());
        Self::collect(&model, added, is_byte_level)
    }

    /// Reads a canonical document. Also returns what the directory changes.
    pub(super) fn read(
        path: &str,
        document: &Value,
        settings: &Settings,
    ) -> Result<(Self, Vec<String>)> {
        let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
        let model = &document["model"];
        let mut entries: Vec<(&str, u32)> = Vec::new();
        match model.get("vocab") {
            Some(Value::Object(vocabulary)) => {
                entries.reserve(vocabulary.len());
                for (token, id) in vocabulary {
                    let id = id
                        .as_u64()
                        .filter(|id| *id <= u64::from(HIGHEST_ID))
                        .and_then(|id| u32::try_from(id).ok());
                    entries.push((
                        token,
                        id.ok_or_else(|| {
                            invalid(format!(
                                "token {} has no id from 0 to {HIGHEST_ID}",
                                quoted(token)
                            ))
                        })?,
                    ));
                }
            }
            Some(Value::Array(vocabulary)) => {
                for (number, entry) in vocabulary.iter().enumerate() {
                    let token = entry.get(0).and_then(Value::as_str).ok_or_else(|| {
                        invalid(format!("vocabulary entry {number} has no token"))
                    })?;
                    let id = u32::try_from(number).ok().filter(|id| *id <= HIGHEST_ID);
                    entries.push((
                        token,
                        id.ok_or_else(|| {
                            invalid(format!("there are more than {HIGHEST_ID} tokens"))
                        })?,
                    ));
                }
            }
            _ => return Err(invalid("its model has no vocabulary".to_owned())),
        }
        if let Some((token, _)) = entries.iter().find(|(token, _)| token.len() > LONGEST_TOKEN) {
            return Err(invalid(format!(
                "token {} has more than {LONGEST_TOKEN} bytes",
                quoted(token)
            )));
        }
        let mut by_id = entries.clone();
        by_id.sort_unstable_by_key(|(token, id)| (*id, *token));
        for pair in by_id.windows(2) {
            if let [(first, id), (second, next)] = pair
                && id == next
            {
                let (first, second) = ((*first).to_owned(), (*second).to_owned());
                return Err(Error::DuplicateId {
                    path: path.to_owned(),
                    id: u64::from(*id),
                    first,
                    second,
                });
            }
        }
        let known: HashMap<&str, u32> = entries.into_iter().collect();
        let mut added = added::declared_tokens(path, document, &known, by_id.len())?;
        added::check(path, &added, &by_id, &known)?;
        let size = u32::try_from(by_id.len()).unwrap_or(u32::MAX);
        let changes = settings.add(&mut added, |token| known.get(token).copied(), size)?;
        assign(&mut added, by_id.len(), |token| known.get(token).copied());
        let is_byte_level = model.get("byte_level").and_then(Value::as_bool).unwrap_or(false);
        Ok((Self::collect(&by_id, added, is_byte_level), changes))
    }

    /// Numbers the added tokens for an engine that has [`super::unigram::Unigram::stand_in`] in
    /// place of the model.
    pub(super) fn assign_without_model(&mut self) {
        assign(&mut self.added, 1, |_| None);
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
        let mut vocabulary =
            Self { ids, tokens, added, added_ids, is_byte_level, lengths: Vec::new() };
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

    /// Whether no token has a space marker after another character, and the marker is a token: then
    /// no token reaches from one word into the next, and no run of unknown characters does.
    pub(crate) fn marks_begin_words(&self) -> bool {
        const MARKER: char = '\u{2581}';
        let crosses = |token: &str| {
            token.contains(MARKER) && token.trim_start_matches(MARKER).contains(MARKER)
        };
        self.ids.contains_key("\u{2581}") && !self.tokens.iter().any(|(_, token)| crosses(token))
    }

    /// The id of a token as the file writes it; for byte-level models also of its text.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        let written = self.ids.get(token).copied();
        written.or_else(|| {
            self.ids
                .get(super::bytes::spelled(token.as_bytes()).as_str())
                .copied()
                .filter(|_| self.is_byte_level)
        })
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

    /// The bytes of a byte-level token; `None` for an added one, and for models
    /// that are not byte-level.
    pub(crate) fn raw_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.token(id).filter(|_| self.is_byte_level && !self.is_added(id))?;
        super::bytes::raw(token)
    }

    /// How many bytes a token of a byte-level model stands for.
    pub(crate) fn raw_length(&self, id: u32) -> Option<usize> {
        self.lengths
            .get(id as usize)
            .map(|length| usize::from(*length))
            .filter(|length| *length > 0)
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
        if token.len() > MOST_COMPARED {
            return Vec::new();
        }
        let wanted = token.to_lowercase();
        let limit = (wanted.chars().count() / 3).max(2);
        let mut near: Vec<(usize, bool, &str)> = Vec::new();
        for (id, known) in &self.tokens {
            let is_model = !self.is_added(*id);
            if known.len() > MOST_COMPARED
                || (is_model && known.len().abs_diff(wanted.len()) > limit * 4)
            {
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
