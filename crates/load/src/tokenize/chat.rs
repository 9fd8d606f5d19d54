//! Conversations of rows, and the template that makes texts of them.

use super::fault::Fault;
use super::json::json;
use arrow_array::ArrayRef;
use serde_json::{Map, Value as Json};
use shardmill_tokens::{ChatTemplate, Conversation, Rendered, Result};

/// What an assistant wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssistantSpans {
    /// The generation blocks of the template.
    Generation,
    /// The text that a turn adds to the messages before it with a generation prompt.
    Prefix,
    /// As `Prefix`, but only for the last turn.
    Last,
}

/// A template with its variables.
#[derive(Debug)]
pub struct Chat {
    pub template: ChatTemplate,
    /// For conversations with tools, if it is another one.
    pub tool_template: Option<ChatTemplate>,
    pub spans: AssistantSpans,
    pub template_kwargs: Map<String, Json>,
    /// Whether columns of tools and of documents follow the messages.
    pub has_tools: bool,
    pub has_documents: bool,
}

impl Chat {
    pub(super) fn marks_answers(&self) -> bool {
        self.spans != AssistantSpans::Generation
            || [Some(&self.template), self.tool_template.as_ref()]
                .into_iter()
                .flatten()
                .all(ChatTemplate::has_generation)
    }

    pub(super) fn template_of(&self, conversation: &Conversation) -> &ChatTemplate {
        self.tool_template
            .as_ref()
            .filter(|_| conversation.tools.is_some())
            .unwrap_or(&self.template)
    }

    pub(super) fn render(
        &self,
        conversation: &Conversation,
        wants_answers: bool,
    ) -> Result<Rendered> {
        let template = self.template_of(conversation);
        if !wants_answers {
            return template.render_text(conversation, None);
        }
        match self.spans {
            AssistantSpans::Prefix => template.render_by_prefix(conversation),
            AssistantSpans::Last => template.render_last_turn(conversation),
            AssistantSpans::Generation => template.render(conversation),
        }
    }

    /// The messages and the `completion` after them.
    pub(super) fn render_completion(
        &self,
        conversation: &Conversation,
        completion: &Json,
        wants_answers: bool,
    ) -> Result<Rendered> {
        let template = self.template_of(conversation);
        if wants_answers {
            template.render_completion(conversation, completion)
        } else {
            template.render_text(conversation, Some(completion))
        }
    }
}

/// The columns of conversations.
pub(super) struct RowMessages {
    messages: ArrayRef,
    /// Each with the number of its source.
    tools: Option<(usize, ArrayRef)>,
    documents: Option<(usize, ArrayRef)>,
}

impl RowMessages {
    /// `others` are the tools, the documents, or both, as `chat` has them; they are the sources
    /// from number `first` on.
    pub(super) fn new(chat: &Chat, messages: &ArrayRef, others: &[ArrayRef], first: usize) -> Self {
        let mut others = (first..).zip(others.iter().cloned());
        let tools = if chat.has_tools { others.next() } else { None };
        let documents = if chat.has_documents { others.next() } else { None };
        Self { messages: ArrayRef::clone(messages), tools, documents }
    }

    /// The conversation of a row, `None` if its messages are null.
    pub(super) fn conversation(
        &self,
        chat: &Chat,
        row: usize,
    ) -> std::result::Result<Option<Conversation>, Fault> {
        let messages = value(&self.messages, row, "messages")?;
        // A column of nulls alone has no validity of its own.
        if messages.is_null() {
            return Ok(None);
        }
        let optional = |column: &Option<(usize, ArrayRef)>, name| {
            let (source, column) = column.as_ref()?;
            let found = value(column, row, name).map_err(|fault| fault.in_source(*source));
            // Also of a column of nulls alone, and of JSON.
            Some(found).filter(|found| !found.as_ref().is_ok_and(Json::is_null))
        };
        Ok(Some(Conversation {
            messages,
            tools: optional(&self.tools, "tools").transpose()?,
            documents: optional(&self.documents, "documents").transpose()?,
            add_generation_prompt: false,
            template_kwargs: chat.template_kwargs.clone(),
        }))
    }
}

/// A value of a column, which may be JSON as a string.
fn value(column: &ArrayRef, row: usize, name: &str) -> std::result::Result<Json, Fault> {
    match json(column, row) {
        Json::String(text) => serde_json::from_str(&text)
            .map_err(|error| (format!("the {name} are not valid JSON: {error}"), None).into()),
        value => Ok(value),
    }
}
