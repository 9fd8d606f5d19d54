//! Errors of tokenizers and of chat templates.

use crate::quote::{quoted, shortened};
use shardmill_errors::ErrorKind;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}` has no tokenizer; its files are: {files}")]
    NoTokenizer { path: String, files: String },
    #[error("`{path}` has several tokenizers: {files}")]
    SeveralTokenizers { path: String, files: String },
    #[error("`{path}` is not a tokenizer of a known type")]
    UnknownType { path: String },
    #[error("`{path}` is larger than 1 GiB")]
    TooLarge { path: String },
    #[error("`{path}` is not valid UTF-8 at byte {offset}")]
    NotText { path: String, offset: usize },
    #[error("`{path}` is not valid JSON: {}", shortened(.reason))]
    NotJson { path: String, reason: String },
    #[error("`{path}` is not valid: {}", shortened(.problem))]
    Invalid { path: String, problem: String },
    #[error("`{path}` line {line} is not valid: {}", shortened(.problem))]
    InvalidLine { path: String, line: usize, problem: String },
    #[error("`{path}` ends early or is damaged at byte {offset}: {}", shortened(.problem))]
    Damaged { path: String, offset: usize, problem: &'static str },
    #[error("`{path}` has id {id} for two tokens, {} and {}", quoted(.first), quoted(.second))]
    DuplicateId { path: String, id: u64, first: String, second: String },
    #[error("`{path}` has rank {rank} on line {line} and on line {first_line}")]
    DuplicateRank { path: String, rank: u32, line: usize, first_line: usize },
    #[error("`{path}` has token {} twice, on line {line} too", quoted(.token))]
    DuplicateToken { path: String, token: String, line: usize },
    #[error("`{path}` has a merge of unknown token {} (merge {merge})", quoted(.token))]
    UnknownMergeToken { path: String, merge: usize, token: String },
    #[error(
        "`{path}` has a pattern that does not compile, {}: {}",
        quoted(.pattern), shortened(.reason)
    )]
    Pattern { path: String, pattern: String, reason: String },
    #[error("`{path}` has {setting}, which is not supported: {}", shortened(.reason))]
    Setting { path: String, setting: String, reason: String },
    #[error("special_in_text=\"id\" is not possible with `{path}`: {}", shortened(.reason))]
    SpecialOption { path: String, reason: String },
    #[error("`{path}` cannot be used: {}", shortened(.what))]
    Unsupported { path: String, what: String },
    #[error("`{path}` does not contain its {}", missing.replace('_', " "))]
    MissingOption { path: String, missing: &'static str },
    #[error("`{path}` contains its own {option}")]
    UnusedOption { path: String, option: &'static str },
    #[error(
        "special_tokens has id {id} for {}, which is the id of {}",
        quoted(.token), quoted(.other)
    )]
    SpecialTokenId { token: String, id: u32, other: String },
    #[error(
        "special_tokens has {} with id {id}; a token must have text and an id below 2^24",
        quoted(.token)
    )]
    SpecialTokenOption { token: String, id: u32 },
    #[error(
        "pattern must be \"gpt2\", \"cl100k\", \"o200k\" or a regular expression, not {}",
        quoted(.name)
    )]
    PatternName { name: String },
    #[error("pattern does not compile, {}: {}", quoted(.pattern), shortened(.reason))]
    PatternOption { pattern: String, reason: String },
    #[error("{} is not a token of `{path}`", quoted(.token))]
    UnknownToken { path: String, token: String, similar: Vec<String> },
    #[error("Id {id} is not in the vocabulary of `{path}`, whose highest is {highest}")]
    UnknownId { path: String, id: u64, highest: u32 },
    #[error("Special token {} is in the text at byte {offset}", quoted(.token))]
    SpecialToken { token: String, offset: usize },
    /// Without an offset where the text was normalized.
    #[error(
        "The pattern of the tokenizer needs too many steps{}: {}",
        at_byte(*.offset), shortened(.reason)
    )]
    PatternLimit { offset: Option<usize>, reason: String },
    #[error("The text cannot be encoded: {}", shortened(.reason))]
    NotEncoded { reason: String },
    #[error("The ids cannot be decoded: {}", shortened(.reason))]
    NotDecoded { reason: String },
    #[error("The chat template fails{}: {}", at_line(*.line), shortened(.reason))]
    Template { line: Option<usize>, reason: String },
    #[error("The chat template asks for the date, so its tokens would change from day to day")]
    TemplateDate,
    #[error("now must be a date such as \"2026-01-31\", not {}", quoted(.text))]
    Date { text: String },
    #[error(
        "The row has all noncharacters from U+FDD0 to U+FDEF, but two unused ones are needed \
         to mark what the assistant writes"
    )]
    Noncharacters,
    /// The template works with the text inside of a generation block.
    #[error(
        "The chat template does not tell what an assistant writes: it changes the text \
         of a generation block"
    )]
    TemplateSpans,
    #[error(
        "The template does not render message {turn} as an addition to the text before it, \
         so neither assistant_spans=\"prefix\" nor labels=\"completion\" can be used"
    )]
    TemplatePrefix { turn: usize },
    #[error(
        "The text of the prompt, with a generation prompt, is not the beginning \
         of the text of prompt and completion"
    )]
    TemplateCompletion,
    #[error(
        "The chat template has no generation block, so it does not tell what an assistant writes"
    )]
    TemplateGeneration,
    #[error("The messages {}", shortened(.problem))]
    Messages { problem: String },
    #[error("Message {turn} {}", shortened(.problem))]
    Message { turn: usize, problem: String },
    #[error("`{path}` cannot have labels: {}", shortened(.what))]
    NoOffsets { path: String, what: String },
    #[error("The tokens of the text cannot be aligned with it at byte {offset}")]
    NotAligned { offset: usize },
    #[error("Text {text}: {source}")]
    InText { text: usize, source: Box<Error> },
    /// The caller asked to stop.
    #[error("The work was stopped")]
    Stopped,
    /// A defect of the engine.
    #[error("The tokenizer panicked: {}", shortened(.message))]
    Panicked { message: String },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTokenizer { .. } => ErrorKind::NotFound,
            Self::SeveralTokenizers { .. }
            | Self::MissingOption { .. }
            | Self::UnusedOption { .. }
            | Self::SpecialTokenId { .. }
            | Self::SpecialTokenOption { .. }
            | Self::SpecialOption { .. }
            | Self::PatternName { .. }
            | Self::PatternOption { .. }
            | Self::UnknownToken { .. }
            | Self::UnknownId { .. }
            | Self::Date { .. }
            | Self::TemplateDate => ErrorKind::Option,
            Self::Panicked { .. } => ErrorKind::Engine,
            Self::InText { source, .. } => source.kind(),
            Self::UnknownType { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::NotJson { .. }
            | Self::Invalid { .. }
            | Self::InvalidLine { .. }
            | Self::Damaged { .. }
            | Self::DuplicateId { .. }
            | Self::DuplicateRank { .. }
            | Self::DuplicateToken { .. }
            | Self::UnknownMergeToken { .. }
            | Self::Pattern { .. }
            | Self::Setting { .. }
            | Self::Unsupported { .. }
            | Self::SpecialToken { .. }
            | Self::PatternLimit { .. }
            | Self::NotEncoded { .. }
            | Self::NotDecoded { .. }
            | Self::Template { .. }
            | Self::Noncharacters
            | Self::TemplateSpans
            | Self::TemplatePrefix { .. }
            | Self::TemplateCompletion
            | Self::TemplateGeneration
            | Self::Messages { .. }
            | Self::Message { .. }
            | Self::NoOffsets { .. }
            | Self::NotAligned { .. }
            | Self::Stopped => ErrorKind::Format,
        }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTokenizer { .. } | Self::UnknownType { .. } => Some(
                "a tokenizer is tokenizer.json, tekken.json, a .tiktoken or a .model file"
                    .to_owned(),
            ),
            Self::SeveralTokenizers { .. } => Some("pass the path of the file".to_owned()),
            Self::MissingOption { missing: "pattern", .. } => Some(
                "pass pattern=\"gpt2\", \"cl100k\", \"o200k\" or the regular expression".to_owned(),
            ),
            Self::MissingOption { .. } => Some(
                "pass special_tokens={\"<|endoftext|>\": id, …}; {} means that there are none"
                    .to_owned(),
            ),
            Self::UnusedOption { option, .. } => Some(format!(
                "omit {option}=, which is for .tiktoken files"
            )),
            Self::UnknownToken { token, .. } if token.is_empty() => Some(
                "the name is empty: pass the text of a token"
                    .to_owned(),
            ),
            Self::UnknownToken { similar, .. } if !similar.is_empty() => {
                let similar: Vec<String> = similar.iter().map(|token| quoted(token)).collect();
                Some(format!("similar tokens are {}", similar.join(", ")))
            }
            Self::Setting { .. } => Some(
                "save the directory with AutoTokenizer.from_pretrained(…).save_pretrained(…), \
                 or pass the path of the tokenizer's file"
                    .to_owned(),
            ),
            Self::SpecialOption { .. } => {
                Some("pass special_in_text=\"text\", or \"raise\"".to_owned())
            }
            Self::Noncharacters => {
                Some("remove the noncharacters, or filter the row out".to_owned())
            }
            Self::TemplateDate => Some("pass now=\"2026-01-31\", or another date".to_owned()),
            Self::TemplateGeneration => Some(
                "assistant_spans=\"prefix\" takes it from the texts of the messages up to each turn"
                    .to_owned(),
            ),
            Self::InText { source, .. } => source.hint(),
            _ => None,
        }
    }
}

fn at_byte(offset: Option<usize>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset} of the text"))
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" on line {line}"))
}
