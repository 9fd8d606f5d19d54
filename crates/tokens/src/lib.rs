//! Text in, token ids out: tokenizers in the formats of their own libraries, and chat templates.
//!
//! A [`Tokenizer`] is made from the contents of files and is immutable, so all threads share one.
//! `tokenizer.json`, `tekken.json`, `.tiktoken` and SentencePiece `.model` become one canonical
//! `tokenizer.json` in memory, which one engine runs. Nothing here opens a file, and no length that
//! a file states is trusted.

mod caught;
mod chat;
mod error;
mod labels;
mod quote;
mod tokenizer;

pub use caught::is_caught;
pub use chat::{ChatTemplate, Conversation, Rendered};
pub use error::{Error, Result};
pub use quote::quoted;
pub use tokenizer::{MAX_FILE_BYTES, Options, Sources, SpecialInText, Tokenizer, reserve_ids};
