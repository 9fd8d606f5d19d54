//! A tokenizer: files in, ids out.

mod added;
mod batch;
mod bytes;
mod directory;
mod engine;
mod fingerprint;
mod hugging_face;
mod json;
mod model;
mod normalizers;
mod pattern;
mod pieces;
mod ranks;
mod sentencepiece;
mod settings;
mod sources;
mod tekken;
mod tiktoken;
mod unigram;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use sources::{MAX_FILE_BYTES, Sources};

use crate::error::{Error, Result};
use directory::{Configuration, Configured};
use engine::{Cut, Engine, Input};
pub(crate) use engine::{Rewriting, Segment};
use hugging_face::HuggingFace;
use json::Document;
use model::Template;
#[cfg(test)]
use pieces::PIECE_BYTES;
use settings::Settings;
use sources::Kind;
use std::collections::BTreeMap;
use std::ops::Range;
use vocabulary::Vocabulary;

/// What `.tiktoken` files do not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// "gpt2", "cl100k", "o200k" or a regular expression.
    pub pattern: Option<String>,
    pub special_tokens: Option<BTreeMap<String, u32>>,
}

/// What happens to a special token that is spelled out in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpecialInText {
    /// It is encoded as any other text.
    #[default]
    Text,
    /// It becomes its id.
    Id,
    Error,
}

/// Encodes text. Immutable, and shared by all threads.
pub struct Tokenizer {
    path: String,
    engine: Box<dyn Engine>,
    vocabulary: Vocabulary,
    template: Template,
    configuration: Configuration,
    ignored: Vec<String>,
    fingerprint: String,
    cut: Cut,
    /// Why special tokens in a text, or in that of a conversation, do not become ids.
    without_ids: WithoutIds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithoutIds {
    /// Special tokens become ids.
    Never,
    /// In formats that separate control tokens from text, text never becomes a control token.
    InText,
    Always,
}

impl Tokenizer {
    /// # Errors
    /// When the files do not make a tokenizer.
    pub fn new(sources: &Sources, options: &Options) -> Result<Self> {
        let file = sources.vocabulary()?;
        let path = sources.path_of(file.path);
        if file.kind != Kind::Tiktoken {
            options.refuse(&path)?;
        }
        let configured = Configured::read(sources)?;
        let mut configuration = Configuration::read(sources, &configured)?;
        let mut settings = Settings::read(&configured)?;
        let mut ignored = Vec::new();
        let (model, fingerprint) = match file.kind {
            Kind::TokenizerJson => {
                let value = sources::parse(&path, file.bytes)?;
                let fingerprint = fingerprint::of_json(&value);
                let document = Document::new(&path, value, &settings)?;
                ignored = document.ignored;
                for (role, token) in document.roles {
                    configuration.roles.entry(role).or_insert(token);
                }
                (document.model, fingerprint)
            }
            Kind::Tekken => tekken::read(&path, file.bytes, &mut configuration, &settings)?,
            Kind::Tiktoken => tiktoken::read(&path, file.bytes, options, &settings)?,
            Kind::SentencePiece => {
                sentencepiece::read(&path, file.bytes, &mut configuration, &mut settings)?
            }
        };
        let fingerprint = fingerprint::with_changes(fingerprint, &model.changes);
        let mut template = model.template.clone();
        let (engine, vocabulary) = HuggingFace::new(&path, model)?;
        if file.kind != Kind::TokenizerJson {
            (template.prefix, template.suffix) =
                settings.template(|role| vocabulary.id(configuration.roles.get(role)?));
        }
        let without_ids = match file.kind {
            _ if settings.splits_special_tokens => WithoutIds::Always,
            Kind::Tekken | Kind::SentencePiece => WithoutIds::InText,
            Kind::TokenizerJson | Kind::Tiktoken => WithoutIds::Never,
        };
        let cut = pieces::allowed(engine.cut(), engine.uses_marker(), &vocabulary);
        let tokenizer = Self {
            path,
            engine: Box::new(engine),
            vocabulary,
            template,
            configuration,
            ignored,
            fingerprint,
            cut,
            without_ids,
        };
        tokenizer.encode_into("A b\u{e9}\n1", SpecialInText::Text, &mut Vec::new())?;
        Ok(tokenizer)
    }

    /// Appends the ids of `text`. An empty text has none. Returns the number of special tokens that
    /// the text spells, whether or not they become ids.
    ///
    /// # Errors
    /// When the engine refuses the text, and when it spells a special token
    /// and `special` is [`SpecialInText::Error`].
    pub fn encode_into(
        &self,
        text: &str,
        special: SpecialInText,
        out: &mut Vec<u32>,
    ) -> Result<usize> {
        self.check_special(text, special)?;
        let (mut spelled, start) = (0, out.len());
        for piece in pieces::pieces(text, self.cut) {
            let end = piece.end;
            let is_first = piece.start == 0;
            spelled += self.encode_piece(text, piece, special, out)?;
            if is_first {
                reserve_ids(out, out.len() - start, end, text.len() - end);
            }
        }
        Ok(spelled)
    }

    /// The ranges of a long text that can be encoded apart from each other; a text of up to 1 MiB
    /// is one.
    #[must_use]
    pub fn pieces(&self, text: &str) -> Vec<Range<usize>> {
        pieces::pieces(text, self.cut)
    }

    /// Appends the ids of one of the [`Self::pieces`] of `text`, after [`Self::check_special`].
    /// Returns the same as [`Self::encode_into`].
    ///
    /// # Errors
    /// When the engine refuses the text.
    pub fn encode_piece(
        &self,
        text: &str,
        piece: Range<usize>,
        special: SpecialInText,
        out: &mut Vec<u32>,
    ) -> Result<usize> {
        let position = piece.start;
        let part = text.get(piece).unwrap_or_default();
        let before = out.len();
        let input = Input {
            text: part,
            position,
            is_last: position + part.len() == text.len(),
            special: special == SpecialInText::Id,
        };
        let encoded = self.engine.encode(input, out, None);
        if encoded.is_err() {
            out.truncate(before);
        }
        encoded
    }

    /// How the tokenizer rewrites text, as far as tokens can be followed back to it.
    pub(crate) fn rewriting(&self) -> Result<Rewriting> {
        self.engine.rewriting().map_err(|what| Error::NoOffsets { path: self.path.clone(), what })
    }

    /// [`Error::NoOffsets`] when [`Self::encode_labelled`] would be refused.
    ///
    /// # Errors
    /// When tokens cannot be followed back to the text.
    pub fn check_labels(&self) -> Result<()> {
        self.rewriting().map(drop)
    }

    /// As [`Self::encode_into`], with where tokens come from. The text is encoded as a whole.
    pub(crate) fn encode_traced(
        &self,
        text: &str,
        special: SpecialInText,
        out: &mut Vec<u32>,
        trace: &mut Vec<Segment>,
    ) -> Result<usize> {
        self.check_special(text, special)?;
        let before = out.len();
        let input =
            Input { text, position: 0, is_last: true, special: special == SpecialInText::Id };
        let encoded = self.engine.encode(input, out, Some(trace));
        if encoded.is_err() {
            out.truncate(before);
        }
        encoded
    }

    /// How many bytes of a normalized text a token at `at` stands for. An unknown token ends where
    /// `next` begins.
    pub(crate) fn token_bytes(
        &self,
        id: u32,
        next: Option<u32>,
        normalized: &str,
        at: usize,
    ) -> Option<usize> {
        if self.vocabulary.is_byte_level() {
            return self.vocabulary.raw_length(id);
        }
        let rest = normalized.as_bytes().get(at..)?;
        let token = self.vocabulary.token(id)?;
        if rest.starts_with(token.as_bytes()) {
            return Some(token.len());
        }
        if self.engine.has_byte_tokens() {
            let is_byte = token.len() == 6 && token.starts_with("<0x") && token.ends_with('>');
            return is_byte.then_some(1);
        }
        let rest = std::str::from_utf8(rest).ok()?;
        match next {
            None => Some(rest.len()),
            Some(next) => rest.find(self.vocabulary.token(next)?),
        }
    }

    /// # Errors
    /// When the text spells a special token and `special` is [`SpecialInText::Error`].
    pub fn check_special(&self, text: &str, special: SpecialInText) -> Result<()> {
        if special != SpecialInText::Error {
            return Ok(());
        }
        match self.engine.find_special(text)? {
            None => Ok(()),
            Some(range) => Err(Error::SpecialToken {
                offset: range.start,
                token: text.get(range).unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Checks that [`SpecialInText::Id`] is possible, for a text or for the text of a conversation.
    ///
    /// # Errors
    /// [`Error::SpecialOption`] if it is not.
    pub fn check_ids(&self, is_chat: bool) -> Result<()> {
        let reason = match self.without_ids {
            WithoutIds::Always => "its tokenizer_config.json has split_special_tokens: true",
            WithoutIds::InText if !is_chat => "in this format, text is never a control token",
            WithoutIds::InText | WithoutIds::Never => return Ok(()),
        };
        Err(Error::SpecialOption { path: self.path.clone(), reason: reason.to_owned() })
    }

    /// # Errors
    /// When an id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        if self.vocabulary.is_byte_level() {
            let mut bytes = Vec::with_capacity(ids.len() * 4);
            for id in ids {
                match self.vocabulary.raw_bytes(*id) {
                    Some(mut raw) => bytes.append(&mut raw),
                    None => bytes.extend_from_slice(self.known(*id)?.as_bytes()),
                }
            }
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        let tokens =
            ids.iter().map(|id| self.known(*id).map(str::to_owned)).collect::<Result<Vec<_>>>()?;
        self.engine.decode(tokens)
    }

    fn known(&self, id: u32) -> Result<&str> {
        let unknown = || Error::UnknownId {
            path: self.path.clone(),
            id: u64::from(id),
            highest: self.vocabulary.highest().unwrap_or(0),
        };
        self.vocabulary.token(id).ok_or_else(unknown)
    }

    /// The id of a token as the file writes it; for byte-level models also of the text of a token.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token)
    }

    /// A token as the file writes it.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary.token(id)
    }

    /// [`Self::token_id`], or an error that names similar tokens.
    ///
    /// # Errors
    /// When there is no such token.
    pub fn required_id(&self, token: &str) -> Result<u32> {
        self.token_id(token).ok_or_else(|| Error::UnknownToken {
            path: self.path.clone(),
            token: token.to_owned(),
            similar: self.similar(token),
        })
    }

    /// Up to five tokens that `token` may stand for, the nearest first.
    #[must_use]
    pub fn similar(&self, token: &str) -> Vec<String> {
        self.vocabulary.similar(token)
    }

    /// The token that the directory names for the beginning of a text.
    #[must_use]
    pub fn bos(&self) -> Option<&str> {
        self.role("bos_token")
    }

    /// The token that the directory names for the end of a text.
    #[must_use]
    pub fn eos(&self) -> Option<&str> {
        self.role("eos_token")
    }

    fn role(&self, role: &str) -> Option<&str> {
        self.configuration.roles.get(role).map(String::as_str)
    }

    /// The tokens that the directory names, by role: `bos_token`, `eos_token`,
    /// `pad_token` and others.
    #[must_use]
    pub fn roles(&self) -> &BTreeMap<String, String> {
        &self.configuration.roles
    }

    /// The special tokens with their ids, in the order of the ids.
    #[must_use]
    pub fn special_tokens(&self) -> Vec<(&str, u32)> {
        let added = self.vocabulary.added().iter().filter(|token| token.is_special);
        let mut special: Vec<(&str, u32)> =
            added.map(|token| (token.content.as_str(), token.id)).collect();
        special.sort_by_key(|(_, id)| *id);
        special
    }

    /// The chat template of the directory.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.configuration.chat_template.as_deref()
    }

    /// The chat template of the directory for conversations with tools, if it is another one.
    #[must_use]
    pub fn tool_template(&self) -> Option<&str> {
        self.configuration.tool_template.as_deref()
    }

    /// The ids that the file's post-processor puts before and after a text.
    #[must_use]
    pub fn template(&self) -> (&[u32], &[u32]) {
        (&self.template.prefix, &self.template.suffix)
    }

    /// One more than the highest id.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.highest().map_or(0, |highest| highest as usize + 1)
    }

    /// 32 hexadecimal digits of what determines ids.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Truncation and padding of the file, which are not applied, each with its settings.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// How errors name the tokenizer.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Makes room for the ids of `left` bytes, if `bytes` have `ids`. Memory that is reserved and not
/// used costs nothing, and a vector that grows is copied.
pub fn reserve_ids(out: &mut Vec<u32>, ids: usize, bytes: usize, left: usize) {
    let expected = (ids as u128 * left as u128).div_ceil(bytes.max(1) as u128);
    // Other parts of a text may have more.
    out.reserve(usize::try_from(expected + expected / 4).unwrap_or_default());
}

impl Options {
    /// For a file that has its own pattern and special tokens.
    fn refuse(&self, path: &str) -> Result<()> {
        let unused = |option| Err(Error::UnusedOption { path: path.to_owned(), option });
        match self {
            Self { pattern: Some(_), .. } => unused("pattern"),
            Self { special_tokens: Some(_), .. } => unused("special_tokens"),
            Self { .. } => Ok(()),
        }
    }
}
