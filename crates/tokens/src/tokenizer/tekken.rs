//! `tekken.json` of Mistral: ranks in base64, a pattern, and special tokens with the lowest ids.

use super::added::Added;
use super::model::Model;
use super::ranks::{self, Ranked};
use super::settings::Settings;
use super::sources::parse;
use super::tiktoken::LONGEST_TOKEN;
use super::{directory::Configuration, fingerprint};
use crate::error::{Error, Result};
use crate::quote::quoted;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Of files up to version 7, which do not list theirs.
const EARLY_SPECIAL_TOKENS: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];
const EARLY_VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v7"];

/// The model and its fingerprint.
pub(super) fn read(
    path: &str,
    bytes: &[u8],
    configuration: &mut Configuration,
    settings: &Settings,
) -> Result<(Model, String)> {
    let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
    let file = parse(path, bytes)?;
    let config = |key: &str| file.get("config").and_then(|config| config.get(key));
    let number = |key: &str| {
        let number =
            config(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| *number <= super::vocabulary::HIGHEST_ID)
            .ok_or_else(|| invalid(format!("`config` has no {key}")))
    };
    let (size, special_count) =
        (number("default_vocab_size")?, number("default_num_special_tokens")?);
    let pattern = config("pattern")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid("`config` has no pattern".to_owned()))?;
    let inner = size.checked_sub(special_count).ok_or_else(|| {
        invalid(format!("{special_count} special tokens are more than {size} tokens"))
    })?;
    let entries = file
        .get("vocab")
        .and_then(Value::as_array)
        .ok_or_else(|| invalid("there is no `vocab`".to_owned()))?;
    let entries = entries
        .get(..inner as usize)
        .ok_or_else(|| invalid(format!("`vocab` has {} of {inner} entries", entries.len())))?;
    let tokens = tokens(path, entries)?;
    let ranked: Vec<Ranked<'_>> =
        tokens.iter().zip(special_count..).map(|(token, id)| (token.as_slice(), id)).collect();
    let special = special_tokens(
        path,
        &file,
        special_count,
        config("version").and_then(Value::as_str).unwrap_or_default(),
    )?;
    for (role, token) in [
        ("bos_token", "<s>"),
        ("eos_token", "</s>"),
        ("unk_token", "<unk>"),
        ("pad_token", "<pad>"),
    ] {
        if special.iter().any(|(known, _)| known == token) {
            configuration.roles.entry(role.to_owned()).or_insert_with(|| token.to_owned());
        }
    }
    let pieces = special.iter().map(|(token, id)| (token.as_str(), *id));
    let fingerprint = fingerprint::of_bytes("tekken", bytes, pattern, pieces);
    super::pattern::compile(pattern).map_err(|reason| Error::Pattern {
        path: path.to_owned(),
        pattern: pattern.to_owned(),
        reason,
    })?;
    settings.check_plain("tekken.json")?;
    let mut added: Vec<Added> =
        special.iter().map(|(content, id)| Added::special(content, *id)).collect();
    let by_text: HashMap<&[u8], u32> = ranked.iter().copied().collect();
    let changes = settings.add(
        &mut added,
        |token| by_text.get(super::bytes::raw(token)?.as_slice()).copied(),
        size,
    )?;
    let model = ranks::model(path, &ranked, pattern, added)?;
    Ok((Model { changes, ..model }, fingerprint))
}

fn tokens(path: &str, entries: &[Value]) -> Result<Vec<Vec<u8>>> {
    let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
    let mut tokens: Vec<Vec<u8>> = Vec::with_capacity(entries.len());
    let mut places: HashMap<Vec<u8>, usize> = HashMap::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        let rank = entry.get("rank").and_then(Value::as_u64);
        if rank != Some(place as u64) {
            let found = rank.map_or_else(|| "none".to_owned(), |rank| rank.to_string());
            return Err(invalid(format!("entry {place} of `vocab` has rank {found}")));
        }
        let text = entry
            .get("token_bytes")
            .and_then(Value::as_str)
            .ok_or_else(|| invalid(format!("entry {place} of `vocab` has no token_bytes")))?;
        let token = BASE64_STANDARD
            .decode(text)
            .map_err(|error| invalid(format!("entry {place} of `vocab` is not base64: {error}")))?;
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(invalid(format!(
                "entry {place} of `vocab` has {} bytes, and 1 to {LONGEST_TOKEN} are possible",
                token.len()
            )));
        }
        if let Some(first) = places.insert(token.clone(), place) {
            return Err(invalid(format!("entries {first} and {place} of `vocab` are one token")));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// Those of the file, or of its version, and a filler for each id that is left.
fn special_tokens(
    path: &str,
    file: &Value,
    count: u32,
    version: &str,
) -> Result<Vec<(String, u32)>> {
    let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
    let mut special: Vec<(String, u32)> = match file.get("special_tokens").and_then(Value::as_array)
    {
        Some(listed) => listed
            .iter()
            .enumerate()
            .map(|(place, entry)| {
                let token = entry.get("token_str").and_then(Value::as_str);
                let rank = entry
                    .get("rank")
                    .and_then(Value::as_u64)
                    .and_then(|rank| u32::try_from(rank).ok())
                    .filter(|rank| *rank < count);
                match (token, rank) {
                    (Some(token), Some(rank)) => Ok((token.to_owned(), rank)),
                    _ => Err(invalid(format!(
                        "special token {place} has no token_str and rank below {count}"
                    ))),
                }
            })
            .collect::<Result<_>>()?,
        None if EARLY_VERSIONS.contains(&version) => EARLY_SPECIAL_TOKENS
            .iter()
            .zip(0..count)
            .map(|(token, id)| ((*token).to_owned(), id))
            .collect(),
        None => {
            return Err(invalid(format!(
                "a file of version {} must list its special tokens",
                quoted(version)
            )));
        }
    };
    let listed = u32::try_from(special.len()).unwrap_or(u32::MAX);
    special.extend((listed..count).map(|id| (format!("<SPECIAL_{id}>"), id)));
    let mut texts = HashSet::new();
    let mut ids: HashMap<u32, &str> = HashMap::new();
    for (token, id) in &special {
        if token.is_empty() || !texts.insert(token.as_str()) {
            return Err(invalid(format!(
                "special token {} is empty or listed twice",
                quoted(token)
            )));
        }
        if let Some(first) = ids.insert(*id, token) {
            return Err(Error::DuplicateId {
                path: path.to_owned(),
                id: u64::from(*id),
                first: first.to_owned(),
                second: token.clone(),
            });
        }
    }
    special.sort_by_key(|(_, id)| *id);
    Ok(special)
}
