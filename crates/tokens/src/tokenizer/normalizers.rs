//! What the normalizer of a `tokenizer.json` must keep to, beyond what the engine checks.

use super::pattern::translated;
use crate::error::{Error, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// By how much text may grow. Published tokenizers write up to three bytes for one.
pub(super) const MOST_GROWTH: usize = 256;

/// A character of Unicode becomes up to 33 bytes in the normal forms, after which another normal
/// form changes nothing.
const GROWTH_OF_UNICODE: usize = 64;

const MARKER: char = '\u{2581}';

/// Takes the normalizer off the end that the engine makes of a `Metaspace` pre-tokenizer.
///
/// Added tokens are found before a pre-tokenizer runs, but after normalizers.
pub(super) fn take_spaces(document: &mut Value) -> Option<Value> {
    let is_spaces = |value: &Value| kind(value) == "MetaspaceNormalizer";
    let normalizer = document.get_mut("normalizer")?;
    if is_spaces(normalizer) {
        return Some(normalizer.take());
    }
    let members = normalizer.get_mut("normalizers").and_then(Value::as_array_mut)?;
    if members.last().is_some_and(is_spaces) { members.pop() } else { None }
}

/// Writes the patterns of a normalizer as Rust reads them.
pub(super) fn translate(path: &str, normalizer: &mut Value) -> Result<()> {
    if let Some(members) = normalizer.get_mut("normalizers").and_then(Value::as_array_mut) {
        return members.iter_mut().try_for_each(|member| translate(path, member));
    }
    if let Some(Value::String(pattern)) = normalizer.pointer_mut("/pattern/Regex") {
        *pattern = translated(pattern).map_err(|reason| Error::Pattern {
            path: path.to_owned(),
            pattern: pattern.clone(),
            reason,
        })?;
    }
    Ok(())
}

/// `normalizer` is without `spaces`.
pub(super) fn check(path: &str, normalizer: Option<&Value>, spaces: Option<&Value>) -> Result<()> {
    let mut steps = Vec::new();
    normalizer.into_iter().for_each(|normalizer| flatten(normalizer, "normalizers", &mut steps));
    steps.iter().try_for_each(|step| check_pattern(path, step))?;
    check_growth(path, "normalizer", &steps)?;
    if spaces.and_then(|spaces| spaces.get("prepend")).and_then(Value::as_str) == Some("first") {
        steps.iter().try_for_each(|step| check_start(path, step))?;
    }
    Ok(())
}

pub(super) fn check_decoder(path: &str, decoder: Option<&Value>) -> Result<()> {
    let mut steps = Vec::new();
    decoder.into_iter().for_each(|decoder| flatten(decoder, "decoders", &mut steps));
    steps.iter().try_for_each(|step| check_pattern(path, step))?;
    check_growth(path, "decoder", &steps)
}

fn flatten<'a>(step: &'a Value, members: &str, steps: &mut Vec<&'a Map<String, Value>>) {
    match (step.get(members).and_then(Value::as_array), step.as_object()) {
        (Some(inner), _) => inner.iter().for_each(|step| flatten(step, members, steps)),
        (None, Some(step)) => steps.push(step),
        (None, None) => {}
    }
}

fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn text<'a>(step: &'a Map<String, Value>, key: &str) -> &'a str {
    step.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn pattern<'a>(step: &'a Map<String, Value>, kind: &str) -> Option<&'a str> {
    step.get("pattern")?.get(kind)?.as_str()
}

/// The engine's search for a replaced pattern ends at a backtracking limit without an error; plain
/// regular expressions have no such limit.
fn check_pattern(path: &str, step: &Map<String, Value>) -> Result<()> {
    match pattern(step, "Regex").map(|pattern| (pattern, regex_syntax::parse(pattern))) {
        Some((pattern, Err(error))) => Err(Error::Pattern {
            path: path.to_owned(),
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        }),
        _ => Ok(()),
    }
}

/// A file of a few bytes could otherwise turn a short text into any amount of memory.
fn check_growth(path: &str, role: &str, steps: &[&Map<String, Value>]) -> Result<()> {
    let (mut growth, mut has_map, mut is_changed) = (1_usize, false, false);
    let mut written = String::new();
    for step in steps {
        let name = text(step, "type");
        let (factor, is_apart) = match name {
            "Replace" => {
                let content = text(step, "content");
                let searched = pattern(step, "String");
                let matched = match (searched, pattern(step, "Regex")) {
                    // The engine finds no empty text.
                    (Some(text), _) => text.len().max(1),
                    (None, Some(pattern)) => regex_syntax::parse(pattern)
                        .ok()
                        .and_then(|parsed| parsed.properties().minimum_len())
                        .unwrap_or(0),
                    (None, None) => 0,
                };
                let factor = if matched == 0 {
                    content.len().saturating_add(1)
                } else {
                    content.len().div_ceil(matched)
                };
                // What no earlier step wrote is still as long as in the text.
                let is_apart = !is_changed
                    && searched.is_some_and(|searched| {
                        !searched.chars().any(|character| written.contains(character))
                    });
                written.push_str(content);
                (factor, is_apart)
            }
            "Prepend" => {
                written.push_str(text(step, "prepend"));
                (text(step, "prepend").len().saturating_add(1), false)
            }
            "Precompiled" => {
                is_changed = true;
                let longest = BASE64_STANDARD
                    .decode(text(step, "precompiled_charsmap"))
                    .map_or(0, |charsmap| longest_text(&charsmap));
                let is_first = !std::mem::replace(&mut has_map, true);
                (if is_first { longest.div_ceil(GROWTH_OF_UNICODE) } else { longest }, false)
            }
            _ => {
                is_changed = true;
                (1, false)
            }
        };
        growth = if is_apart { growth.max(factor) } else { growth.saturating_mul(factor.max(1)) };
        if growth > MOST_GROWTH {
            let what = format!(
                "its {role} {name} could make a text more than {MOST_GROWTH} times as long"
            );
            return Err(Error::Unsupported { path: path.to_owned(), what });
        }
    }
    Ok(())
}

/// Of the texts that a charsmap writes, which follow its table and end with NUL.
pub(super) fn longest_text(charsmap: &[u8]) -> usize {
    let Some((size, rest)) = charsmap.split_first_chunk::<4>() else {
        return 0;
    };
    let texts = usize::try_from(u32::from_le_bytes(*size))
        .ok()
        .and_then(|size| rest.get(size..))
        .unwrap_or_default();
    texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0)
}

/// The original library puts a marker before a text only if its first character is still there
/// after normalization, and the engine does not tell.
fn check_start(path: &str, step: &Map<String, Value>) -> Result<()> {
    let name = text(step, "type");
    let is_safe = match name {
        "Strip" => step.get("strip_left").and_then(Value::as_bool) == Some(false),
        "Replace" => {
            // A text that begins with a marker gets no other.
            let content = text(step, "content");
            let is_one =
                pattern(step, "String").is_some_and(|pattern| pattern.chars().count() == 1);
            content.starts_with([' ', MARKER]) || (is_one && !content.is_empty())
        }
        "BertNormalizer" => {
            step.get("clean_text").and_then(Value::as_bool) == Some(false) && !strips_accents(step)
        }
        "Nmt" | "StripAccents" => false,
        _ => true,
    };
    if is_safe {
        return Ok(());
    }
    let what = format!(
        "its normalizer {name} can remove the beginning of a text, and its Metaspace pre-tokenizer \
         has prepend_scheme \"first\": set prepend_scheme to \"always\" or \"never\""
    );
    Err(Error::Unsupported { path: path.to_owned(), what })
}

/// By default, if it makes letters lower case.
fn strips_accents(bert: &Map<String, Value>) -> bool {
    let flag = |key: &str| bert.get(key).and_then(Value::as_bool);
    flag("strip_accents").or_else(|| flag("lowercase")).unwrap_or(true)
}
