//! `.tiktoken`: a token in base64 and its rank on each line.

use super::Options;
use super::added::Added;
use super::fingerprint;
use super::model::Model;
use super::ranks::{self, Ranked};
use super::settings::Settings;
use crate::error::{Error, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::collections::HashMap;

/// A longer token would take too long to split. Those of published vocabularies have
/// up to 128 bytes.
pub(super) const LONGEST_TOKEN: usize = 4096;

/// The model and its fingerprint.
pub(super) fn read(
    path: &str,
    bytes: &[u8],
    options: &Options,
    settings: &Settings,
) -> Result<(Model, String)> {
    let missing = |missing| Error::MissingOption { path: path.to_owned(), missing };
    let pattern = options.pattern.as_deref().ok_or_else(|| missing("pattern"))?;
    let special_tokens =
        options.special_tokens.as_ref().ok_or_else(|| missing("special_tokens"))?;
    check_pattern(pattern)?;
    let lines = parse(path, bytes)?;
    let mut tokens: Vec<Ranked<'_>> =
        lines.iter().map(|line| (line.token.as_slice(), line.rank)).collect();
    tokens.sort_unstable_by_key(|(_, rank)| *rank);
    let mut special: Vec<(String, u32)> =
        special_tokens.iter().map(|(token, id)| (token.clone(), *id)).collect();
    special.sort_by_key(|(_, id)| *id);
    check_special(&tokens, &special)?;
    let pieces = special.iter().map(|(token, id)| (token.as_str(), *id));
    let fingerprint =
        fingerprint::of_bytes("tiktoken", bytes, ranks::pattern_of(pattern, &tokens), pieces);
    settings.check_plain("the .tiktoken file")?;
    let mut added: Vec<Added> =
        special.iter().map(|(content, id)| Added::special(content, *id)).collect();
    let by_text: HashMap<&[u8], u32> = tokens.iter().copied().collect();
    let size = tokens.last().map_or(0, |(_, rank)| rank + 1);
    let known = |token: &str| by_text.get(super::bytes::raw(token)?.as_slice()).copied();
    let changes = settings.add_to_ranks(&mut added, known, size)?;
    for token in &added {
        if let Ok(place) = tokens.binary_search_by_key(&token.id, |(_, rank)| *rank)
            && let Some((other, _)) = tokens.get(place).filter(|_| known(&token.content).is_none())
        {
            let first = String::from_utf8_lossy(other).into_owned();
            return Err(Error::DuplicateId {
                path: path.to_owned(),
                id: u64::from(token.id),
                first,
                second: token.content.clone(),
            });
        }
    }
    let model = ranks::model(path, &tokens, pattern, added)?;
    Ok((Model { changes, ..model }, fingerprint))
}

/// A bare word is a name.
fn check_pattern(pattern: &str) -> Result<()> {
    let is_name =
        pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let is_known = matches!(pattern, "gpt2" | "cl100k" | "o200k");
    if is_name && !is_known {
        return Err(Error::PatternName { name: pattern.to_owned() });
    }
    if is_known {
        return Ok(());
    }
    super::pattern::compile(ranks::native_pattern(pattern))
        .map(drop)
        .map_err(|reason| Error::PatternOption { pattern: pattern.to_owned(), reason })
}

struct Line {
    token: Vec<u8>,
    rank: u32,
}

fn parse(path: &str, bytes: &[u8]) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut ranks: HashMap<u32, usize> = HashMap::new();
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = number + 1;
        let invalid =
            |problem: String| Error::InvalidLine { path: path.to_owned(), line: number, problem };
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (Some(token), Some(rank), None) = (words.next(), words.next(), words.next()) else {
            return Err(invalid("it is not a token in base64 and a rank".to_owned()));
        };
        let token = BASE64_STANDARD
            .decode(token)
            .map_err(|error| invalid(format!("its token is not base64: {error}")))?;
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(invalid(format!(
                "its token has {} bytes, and 1 to {LONGEST_TOKEN} are possible",
                token.len()
            )));
        }
        let rank = std::str::from_utf8(rank)
            .ok()
            .and_then(|rank| rank.parse::<u32>().ok())
            .filter(|rank| *rank <= super::vocabulary::HIGHEST_ID);
        let rank = rank.ok_or_else(|| {
            invalid(format!("its rank is not a number from 0 to {}", super::vocabulary::HIGHEST_ID))
        })?;
        if let Some(first_line) = ranks.insert(rank, number) {
            return Err(Error::DuplicateRank {
                path: path.to_owned(),
                rank,
                line: number,
                first_line,
            });
        }
        if seen.insert(token.clone(), number).is_some() {
            let token = String::from_utf8_lossy(&token).into_owned();
            return Err(Error::DuplicateToken { path: path.to_owned(), token, line: number });
        }
        lines.push(Line { token, rank });
    }
    if lines.is_empty() {
        return Err(Error::Invalid {
            path: path.to_owned(),
            problem: "it has no tokens".to_owned(),
        });
    }
    Ok(lines)
}

fn check_special(tokens: &[Ranked<'_>], special: &[(String, u32)]) -> Result<()> {
    for pair in special.windows(2) {
        if let [(token, id), (other, next)] = pair
            && id == next
        {
            return Err(Error::SpecialTokenId {
                token: token.clone(),
                id: *id,
                other: other.clone(),
            });
        }
    }
    for (token, id) in special {
        if token.is_empty() || *id > super::vocabulary::HIGHEST_ID {
            return Err(Error::SpecialTokenOption { token: token.clone(), id: *id });
        }
        if let Ok(place) = tokens.binary_search_by_key(id, |(_, rank)| *rank) {
            let other = tokens
                .get(place)
                .map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned())
                .unwrap_or_default();
            return Err(Error::SpecialTokenId { token: token.clone(), id: *id, other });
        }
    }
    Ok(())
}
