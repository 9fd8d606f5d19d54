//! The text of a row, and which parts of it are an answer.

use super::chat::{Chat, RowMessages};
use super::fault::{Fault, InvalidBytes};
use super::json::is_json;
use super::texts::{InvalidAt, Texts};
use arrow_array::{ArrayRef, StringViewArray};
use arrow_schema::DataType;
use serde_json::Value as Json;
use shardmill_tokens::{Conversation, Error};
use std::borrow::Cow;
use std::ops::Range;

/// The columns that tokens are computed from.
#[derive(Debug)]
pub enum TokenInput {
    /// Texts, with a separator between those of several columns.
    Texts { separator: String },
    /// Messages, followed by the columns of their tools and documents.
    Chat(Chat),
    /// A prompt and its completion, both texts or both messages. Messages need a template; why
    /// there is none.
    Completion(Result<Chat, String>),
}

impl TokenInput {
    pub(super) fn accepts(&self, source: usize, data_type: &DataType) -> bool {
        match self {
            Self::Texts { .. } => Texts::is_text(data_type),
            Self::Chat(_) if source == 0 => {
                is_messages(data_type)
                    || matches!(
                        data_type,
                        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                    )
            }
            Self::Completion(_) if source < 2 => {
                Texts::is_text(data_type) || (is_list(data_type) && is_messages(data_type))
            }
            Self::Chat(_) | Self::Completion(_) => is_json(data_type),
        }
    }

    /// [`Error::TemplateGeneration`] when the answers of an assistant are wanted and the template
    /// does not mark them.
    pub(super) fn check_answers(&self) -> shardmill_tokens::Result<()> {
        match self {
            Self::Chat(chat) if !chat.marks_answers() => Err(Error::TemplateGeneration),
            _ => Ok(()),
        }
    }
}

/// What is encoded for a row.
pub(super) struct RowText<'a> {
    pub(super) text: Cow<'a, str>,
    /// The bytes of the answers; `None` if the whole text is an answer, or answers are not needed.
    pub(super) answers: Option<Vec<Range<usize>>>,
    pub(super) is_chat: bool,
}

/// A text that threads share.
pub(super) enum SharedText {
    /// The first row of an array, which shares its bytes.
    Row(StringViewArray),
    Owned(String),
}

impl SharedText {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Row(array) => array.iter().next().flatten().unwrap_or_default(),
            Self::Owned(text) => text,
        }
    }
}

/// The source columns of a batch.
pub(super) enum Rows<'a> {
    Texts(Vec<Texts>, &'a str),
    Chat(&'a Chat, RowMessages),
    Completion(Texts, Texts),
    ChatCompletion(&'a Chat, RowMessages, RowMessages),
}

const REPLACE: &str = "invalid=\"replace\" reads such bytes as U+FFFD";

impl<'a> Rows<'a> {
    pub(super) fn new(
        input: &'a TokenInput,
        sources: &[ArrayRef],
        invalid: InvalidBytes,
    ) -> Result<Self, String> {
        match (input, sources) {
            (TokenInput::Texts { separator }, _) => {
                let texts = sources
                    .iter()
                    .map(|source| Texts::of(source, invalid))
                    .collect::<Result<_, _>>()?;
                Ok(Self::Texts(texts, separator))
            }
            (TokenInput::Chat(chat), [messages, others @ ..]) => {
                Ok(Self::Chat(chat, RowMessages::new(chat, messages, others, 1)))
            }
            (TokenInput::Completion(chat), [prompt, completion, others @ ..]) => {
                match (content_of(prompt.data_type()), content_of(completion.data_type())) {
                    (None | Some(Content::Texts), None | Some(Content::Texts)) => {
                        Ok(Self::Completion(
                            Texts::of(prompt, invalid)?,
                            Texts::of(completion, invalid)?,
                        ))
                    }
                    (None | Some(Content::Messages), None | Some(Content::Messages)) => {
                        let chat = chat.as_ref().map_err(|reason| {
                            format!("messages need a chat template, and {reason}")
                        })?;
                        Ok(Self::ChatCompletion(
                            chat,
                            RowMessages::new(chat, prompt, others, 2),
                            RowMessages::new(chat, completion, &[], 2),
                        ))
                    }
                    _ => {
                        Err("the prompt and the completion must both be texts, or both be messages"
                            .to_owned())
                    }
                }
            }
            _ => Err("a column is missing".to_owned()),
        }
    }

    /// The `text` of a row, for threads that share it.
    pub(super) fn shared(&self, row: usize, text: &RowText<'_>) -> SharedText {
        match self {
            Self::Texts(texts, _) => match texts.as_slice() {
                [Texts::Strings(array)] => SharedText::Row(array.slice(row, 1)),
                _ => SharedText::Owned(text.text.clone().into_owned()),
            },
            _ => SharedText::Owned(text.text.clone().into_owned()),
        }
    }

    /// The text of a row, `None` if it is null. Answers are found only if they are wanted.
    pub(super) fn text(
        &'a self,
        row: usize,
        wants_answers: bool,
    ) -> Result<Option<RowText<'a>>, Fault> {
        match self {
            Self::Texts(texts, separator) => Ok(joined(texts, separator, row)?
                .map(|text| RowText { text, answers: None, is_chat: false })),
            Self::Completion(prompt, completion) => {
                let completion = text_of(completion, row).map_err(|fault| fault.in_source(1));
                let (Some(prompt), Some(completion)) = (text_of(prompt, row)?, completion?) else {
                    return Ok(None);
                };
                // An empty completion is an answer too: its end has a label.
                let answer = prompt.len()..prompt.len() + completion.len();
                let text = Cow::Owned(format!("{prompt}{completion}"));
                Ok(Some(RowText {
                    text,
                    answers: wants_answers.then(|| vec![answer]),
                    is_chat: false,
                }))
            }
            Self::Chat(chat, messages) => {
                let Some(conversation) = messages.conversation(chat, row)? else { return Ok(None) };
                // A template may render something around them, but without messages there is
                // nothing to learn.
                if matches!(&conversation.messages, Json::Array(messages) if messages.is_empty()) {
                    return Ok(Some(RowText {
                        text: Cow::Borrowed(""),
                        answers: None,
                        is_chat: true,
                    }));
                }
                rendered(chat.render(&conversation, wants_answers), wants_answers)
            }
            Self::ChatCompletion(chat, prompt, completion) => {
                let completion =
                    completion.conversation(chat, row).map_err(|fault| fault.in_source(1));
                let (Some(prompt), Some(completion)) =
                    (prompt.conversation(chat, row)?, completion?)
                else {
                    return Ok(None);
                };
                let Conversation { messages, .. } = completion;
                rendered(chat.render_completion(&prompt, &messages, wants_answers), wants_answers)
            }
        }
    }
}

impl Rows<'_> {
    /// Which source of a row without a text is null.
    pub(super) fn null_source(&self, row: usize) -> usize {
        let is_there = match self {
            Self::Completion(prompt, _) => prompt.get(row).is_ok_and(|text| text.is_some()),
            Self::ChatCompletion(chat, prompt, _) => {
                prompt.conversation(chat, row).is_ok_and(|messages| messages.is_some())
            }
            Self::Texts(..) | Self::Chat(..) => false,
        };
        usize::from(is_there)
    }
}

fn rendered<'a>(
    rendered: shardmill_tokens::Result<shardmill_tokens::Rendered>,
    wants_answers: bool,
) -> Result<Option<RowText<'a>>, Fault> {
    let rendered = rendered.map_err(|error| Fault::from((error.to_string(), error.hint())))?;
    Ok(Some(RowText {
        text: Cow::Owned(rendered.text),
        answers: wants_answers.then_some(rendered.spans),
        is_chat: true,
    }))
}

fn text_of(texts: &Texts, row: usize) -> Result<Option<Cow<'_, str>>, Fault> {
    texts.get(row).map_err(|InvalidAt(offset)| {
        (format!("the bytes are not UTF-8 from offset {offset} on"), Some(REPLACE.to_owned()))
            .into()
    })
}

fn joined<'a>(
    texts: &'a [Texts],
    separator: &str,
    row: usize,
) -> Result<Option<Cow<'a, str>>, Fault> {
    if let [only] = texts {
        return text_of(only, row);
    }
    let text = |(source, texts): (usize, &'a Texts)| {
        text_of(texts, row).map_err(|fault| fault.in_source(source)).transpose()
    };
    let parts = texts.iter().enumerate().filter_map(text).collect::<Result<Vec<_>, _>>()?;
    Ok((!parts.is_empty()).then(|| parts.join(separator).into()))
}

/// Lists of structs, and columns of nulls alone.
fn is_messages(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match item.data_type() {
                DataType::Struct(_) => is_json(item.data_type()),
                other => other == &DataType::Null,
            }
        }
        _ => false,
    }
}

/// What a prompt or a completion is.
enum Content {
    Texts,
    Messages,
}

/// `None` for a column of nulls alone, which may be either.
fn content_of(data_type: &DataType) -> Option<Content> {
    match data_type {
        DataType::Null => None,
        other if is_list(other) => Some(Content::Messages),
        _ => Some(Content::Texts),
    }
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _))
}
