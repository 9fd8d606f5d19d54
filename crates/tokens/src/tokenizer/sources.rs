//! Which files of a directory make a tokenizer.

use crate::error::{Error, Result};
use serde_json::Value;

/// The largest file of a tokenizer that is read.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Where transformers writes the template for conversations with tools, below the directory.
pub(crate) const TOOL_TEMPLATE: &str = "additional_chat_templates/tool_use.jinja";

const CONFIGURATION: [&str; 5] = [
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    TOOL_TEMPLATE,
];

/// The contents of a tokenizer's files. The caller reads them: this crate opens no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    path: String,
    is_directory: bool,
    files: Vec<(String, Vec<u8>)>,
}

/// The file that has the vocabulary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocabulary<'a> {
    pub(crate) kind: Kind,
    pub(crate) path: &'a str,
    pub(crate) bytes: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    TokenizerJson,
    Tekken,
    Tiktoken,
    SentencePiece,
}

impl Sources {
    /// One file. `path` is how errors name it.
    #[must_use]
    pub fn file(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        let path = path.into();
        Self { files: vec![(path.clone(), bytes)], path, is_directory: false }
    }

    /// The files of a directory, by their names in it; [`Self::wanted`] tells which ones matter.
    #[must_use]
    pub fn directory(path: impl Into<String>, files: Vec<(String, Vec<u8>)>) -> Self {
        Self { path: path.into(), is_directory: true, files }
    }

    /// Of the names in and below a directory, those to read: the first kind of tokenizer that is in
    /// it, and what describes it.
    ///
    /// # Errors
    /// Without a tokenizer, and with several of the kind that would be used.
    pub fn wanted<'a>(path: &str, names: &[&'a str]) -> Result<Vec<&'a str>> {
        let names: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !name.contains('/') || *name == TOOL_TEMPLATE)
            .collect();
        let exact =
            |wanted: &str| names.iter().copied().filter(|name| *name == wanted).collect::<Vec<_>>();
        let ending = |extension: &str| {
            names.iter().copied().filter(|name| name.ends_with(extension)).collect::<Vec<_>>()
        };
        let mut models = ending(".tiktoken");
        models.extend(ending(".model"));
        let choices = [exact("tokenizer.json"), exact("tekken.json"), models];
        let mut chosen = match choices.into_iter().find(|choice| !choice.is_empty()) {
            None => {
                return Err(Error::NoTokenizer { path: path.to_owned(), files: listed(&names) });
            }
            Some(several) if several.len() > 1 => {
                return Err(Error::SeveralTokenizers {
                    path: path.to_owned(),
                    files: listed(&several),
                });
            }
            Some(one) => one,
        };
        chosen.extend(names.iter().copied().filter(|name| CONFIGURATION.contains(name)));
        Ok(chosen)
    }

    /// How errors name the tokenizer.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether [`Self::path`] is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Names and contents.
    #[must_use]
    pub fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }

    pub(crate) fn vocabulary(&self) -> Result<Vocabulary<'_>> {
        if let Some((path, _)) =
            self.files.iter().find(|(_, bytes)| bytes.len() as u64 > MAX_FILE_BYTES)
        {
            return Err(Error::TooLarge { path: self.path_of(path) });
        }
        let names: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let name = if self.is_directory {
            Self::wanted(&self.path, &names)?.first().copied()
        } else {
            names.first().copied()
        };
        let (path, bytes) =
            self.files.iter().find(|(known, _)| Some(known.as_str()) == name).ok_or_else(|| {
                Error::NoTokenizer { path: self.path.clone(), files: listed(&names) }
            })?;
        let kind =
            kind(path, bytes).ok_or_else(|| Error::UnknownType { path: self.path_of(path) })?;
        Ok(Vocabulary { kind, path, bytes })
    }

    /// A file of the directory that describes the tokenizer.
    pub(crate) fn configuration(&self, name: &str) -> Option<&[u8]> {
        let found = self.files.iter().find(|(known, _)| self.is_directory && known == name);
        found.map(|(_, bytes)| bytes.as_slice())
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.is_directory {
            format!("{}/{name}", self.path.trim_end_matches('/'))
        } else {
            name.to_owned()
        }
    }
}

/// By name; where the name says nothing, by content.
fn kind(path: &str, bytes: &[u8]) -> Option<Kind> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if name.ends_with(".tiktoken") {
        return Some(Kind::Tiktoken);
    }
    if start == Some(&b'{') {
        let is_tekken =
            name.starts_with("tekken") || has_key(bytes, b"\"default_num_special_tokens\"");
        return Some(if is_tekken { Kind::Tekken } else { Kind::TokenizerJson });
    }
    if name.ends_with(".json") {
        // Not JSON at all: its parser says why.
        return Some(if name == "tekken.json" { Kind::Tekken } else { Kind::TokenizerJson });
    }
    if name.contains(".model") {
        // Some models publish their ranks under this name.
        return Some(if is_ranks(bytes) { Kind::Tiktoken } else { Kind::SentencePiece });
    }
    // A message of protocol buffers, whose first field is a piece.
    let is_model = bytes.first() == Some(&0x0a);
    if is_ranks(bytes) { Some(Kind::Tiktoken) } else { is_model.then_some(Kind::SentencePiece) }
}

/// Near the start, where `config` is.
fn has_key(bytes: &[u8], key: &[u8]) -> bool {
    bytes
        .get(..bytes.len().min(4096))
        .is_some_and(|start| start.windows(key.len()).any(|window| window == key))
}

/// `base64 rank` on the first line.
fn is_ranks(bytes: &[u8]) -> bool {
    let Some(line) = bytes.split(|byte| *byte == b'\n').next().filter(|line| line.len() < 4096)
    else {
        return false;
    };
    let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
    let (Some(token), Some(rank), None) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    !token.is_empty()
        && token.iter().all(is_base64)
        && !rank.is_empty()
        && rank.iter().all(u8::is_ascii_digit)
}

fn listed(names: &[&str]) -> String {
    let mut listed: Vec<&str> = names.to_vec();
    listed.sort_unstable();
    let more = listed.len().saturating_sub(10);
    listed.truncate(10);
    if listed.is_empty() {
        return "none".to_owned();
    }
    if more > 0 { format!("{} and {more} more", listed.join(", ")) } else { listed.join(", ") }
}

/// The JSON of a file.
pub(crate) fn parse(path: &str, bytes: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Error::NotText { path: path.to_owned(), offset: error.valid_up_to() })?;
    serde_json::from_str(text)
        .map_err(|error| Error::NotJson { path: path.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenizer_json_goes_before_all_others() {
        let names = [
            "tokenizer.model",
            "tekken.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "weights.bin",
        ];
        assert_eq!(
            Sources::wanted("m", &names).unwrap(),
            ["tokenizer.json", "tokenizer_config.json"]
        );
        assert_eq!(
            Sources::wanted("m", &["a.tiktoken", "chat_template.jinja"]).unwrap(),
            ["a.tiktoken", "chat_template.jinja"]
        );
        let below = ["below/tokenizer.json", "a.model", "below/chat_template.jinja", TOOL_TEMPLATE];
        assert_eq!(Sources::wanted("m", &below).unwrap(), ["a.model", TOOL_TEMPLATE]);
    }

    #[test]
    fn several_models_are_refused_by_name() {
        let error = Sources::wanted("m", &["b.model", "a.tiktoken"]).unwrap_err();
        assert_eq!(error.to_string(), "`m` has several tokenizers: a.tiktoken, b.model");
        let error = Sources::wanted("m", &["weights.bin"]).unwrap_err();
        assert_eq!(error.to_string(), "`m` has no tokenizer; its files are: weights.bin");
    }
}
