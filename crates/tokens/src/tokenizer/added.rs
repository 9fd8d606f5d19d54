//! Tokens outside of the model: special ones, and others that are matched before it.

use crate::error::{Error, Result};
use crate::quote::quoted;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The engine stores lengths in 16 bits.
pub(super) const LONGEST_TOKEN: usize = u16::MAX as usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) content: String,
    pub(crate) id: u32,
    /// The id that the engine gives it, and the original library of `tokenizer.json` too.
    pub(crate) assigned: u32,
    /// The id in the file.
    pub(crate) declared: u32,
    pub(crate) is_special: bool,
    pub(crate) is_normalized: bool,
    /// A piece of SentencePiece, which is found after its normalizer.
    pub(crate) is_piece: bool,
    pub(crate) bounds: Bounds,
}

/// What decides about a match beside its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// It is a match only between characters that no word has.
    pub(crate) is_word: bool,
    /// It takes the white space before it.
    pub(crate) takes_left: bool,
    /// It takes the white space after it.
    pub(crate) takes_right: bool,
}

impl Bounds {
    pub(crate) fn are_any(self) -> bool {
        self != Self::default()
    }
}

impl Added {
    /// A special token of a format without flags.
    pub(super) fn special(content: &str, id: u32) -> Self {
        let content = content.to_owned();
        Self {
            content,
            id,
            assigned: id,
            declared: id,
            is_special: true,
            is_normalized: false,
            is_piece: false,
            bounds: Bounds::default(),
        }
    }
}

/// `added_tokens` for the engine, which searches for the texts only. Of several tokens with the
/// same text, the last one counts.
pub(super) fn declarations(added: &[Added]) -> Value {
    let last: HashMap<&str, usize> =
        added.iter().enumerate().map(|(place, token)| (token.content.as_str(), place)).collect();
    let is_last =
        |(place, token): &(usize, &Added)| last.get(token.content.as_str()) == Some(place);
    let entry = |(_, token): (usize, &Added)| {
        json!({
            "id": token.assigned,
            "content": token.content,
            "special": token.is_special,
            "normalized": token.is_normalized,
            "single_word": false,
            "lstrip": false,
            "rstrip": false,
        })
    };
    added.iter().enumerate().filter(is_last).map(entry).collect()
}

/// The ids that the engine gives to added tokens, which are in the order of their ids: that of the
/// model for a token of the model, else the next one from the size of the model's vocabulary on.
pub(super) fn assign(added: &mut [Added], size: usize, known: impl Fn(&str) -> Option<u32>) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut next = u32::try_from(size).unwrap_or(u32::MAX);
    for token in added {
        token.assigned = match seen.get(&token.content).copied().or_else(|| known(&token.content)) {
            Some(id) => id,
            None => {
                next = next.saturating_add(1);
                next - 1
            }
        };
        seen.insert(token.content.clone(), token.assigned);
    }
}

/// The added tokens of a file, each with the id that it gets.
///
/// As in the original library, a token of the model keeps the model's id, and others are numbered
/// from the size of the model's vocabulary on; the id in the file decides about the order alone.
/// That vocabulary has a `size` of its own, since it may have a token twice.
pub(super) fn declared_tokens(
    path: &str,
    value: &Value,
    model: &HashMap<&str, u32>,
    size: usize,
) -> Result<Vec<Added>> {
    let Some(entries) = value.get("added_tokens").and_then(Value::as_array) else {
        return Ok(Vec::new());
    };
    let mut declared = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let content = entry.get("content").and_then(Value::as_str);
        let content =
            content.ok_or_else(|| invalid(path, format!("added token {number} has no content")))?;
        let id = entry.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| {
            invalid(path, format!("added token {} has no id below 2^32", quoted(content)))
        })?;
        let flag = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or(false);
        let bounds = Bounds {
            is_word: flag("single_word"),
            takes_left: flag("lstrip"),
            takes_right: flag("rstrip"),
        };
        declared.push((
            id,
            content,
            Added {
                content: content.to_owned(),
                id,
                assigned: id,
                declared: id,
                is_special: flag("special"),
                is_normalized: flag("normalized"),
                is_piece: false,
                bounds,
            },
        ));
    }
    declared.sort_by_key(|(id, _, _)| *id);
    for pair in declared.windows(2) {
        if let [(id, first, _), (next, second, _)] = pair
            && id == next
            && first != second
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
    let mut tokens: Vec<Added> = declared
        .into_iter()
        .map(|(_, _, added)| added)
        .filter(|added| !added.content.is_empty())
        .collect();
    assign(&mut tokens, size, |token| model.get(token).copied());
    tokens.iter_mut().for_each(|token| token.id = token.assigned);
    Ok(tokens)
}

/// The engine stores lengths in 16 bits.
pub(super) fn check_lengths(path: &str, added: &[Added]) -> Result<()> {
    match added.iter().find(|token| token.content.len() > LONGEST_TOKEN) {
        None => Ok(()),
        Some(token) => Err(invalid(
            path,
            format!("added token {} has more than {LONGEST_TOKEN} bytes", quoted(&token.content)),
        )),
    }
}

pub(super) fn check(
    path: &str,
    added: &[Added],
    by_id: &[(&str, u32)],
    known: &HashMap<&str, u32>,
) -> Result<()> {
    let mut assigned: HashMap<u32, &str> = HashMap::new();
    for token in added {
        let duplicate = |other: &str| Error::DuplicateId {
            path: path.to_owned(),
            id: u64::from(token.declared),
            first: other.to_owned(),
            second: token.content.clone(),
        };
        let declared = by_id
            .binary_search_by_key(&token.declared, |(_, id)| *id)
            .ok()
            .and_then(|place| by_id.get(place));
        if let Some((other, _)) = declared.filter(|(other, _)| {
            *other != token.content && !known.contains_key(token.content.as_str())
        }) {
            return Err(duplicate(other));
        }
        if let Some(other) =
            assigned.insert(token.assigned, &token.content).filter(|other| *other != token.content)
        {
            return Err(duplicate(other));
        }
    }
    Ok(())
}

fn invalid(path: &str, problem: impl Into<String>) -> Error {
    Error::Invalid { path: path.to_owned(), problem: problem.into() }
}
