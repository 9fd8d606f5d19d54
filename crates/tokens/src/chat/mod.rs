//! Chat templates: messages to text, and which parts of it an assistant wrote.
//!
//! The oracle is `apply_chat_template` of transformers. A template is untrusted code: it runs with
//! limits on its steps and its output, and sees nothing but the values of one row.

mod bounds;
mod date;
mod edits;
mod environment;
mod escapes;
mod filters;
mod generation;
mod group;
mod limits;
mod messages;
mod python_json;
mod python_repr;
mod python_text;
mod string_methods;
mod syntax;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use environment::{Brackets, environment, refuse_undeclared_arguments};
use messages::Message;
use minijinja::{Environment, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use syntax::template_error;

const NAME: &str = "chat template";
const OUTPUT_BYTES: usize = 64 << 20;
/// Templates of models have less than 64 KiB. One at the limit takes seconds to compile.
const TEMPLATE_BYTES: usize = 1 << 20;

/// What a template renders besides the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// A list of objects with `role`.
    pub messages: Json,
    pub tools: Option<Json>,
    pub documents: Option<Json>,
    pub add_generation_prompt: bool,
    /// Further variables of the template.
    pub template_kwargs: Map<String, Json>,
}

/// A rendered conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// The bytes that an assistant wrote, in order.
    pub spans: Vec<Range<usize>>,
}

/// A compiled template. Immutable, and shared by all threads.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Tokens by role, such as `bos_token`.
    roles: BTreeMap<String, String>,
    has_generation: bool,
    /// Whether the template may read what a generation block rendered, so that brackets in it could
    /// change the text.
    reads_output: bool,
    /// Whether messages may have parts that are images.
    with_images: bool,
}

impl ChatTemplate {
    /// `roles` are the special tokens that the template may name, as [`crate::Tokenizer::roles`]
    /// has them; `now` is a date such as "2026-01-31".
    ///
    /// # Errors
    /// When the template is not valid or has more than 1 MiB, or asks for the date
    /// and `now` is not given.
    pub fn new(
        template: &str,
        roles: &BTreeMap<String, String>,
        now: Option<&str>,
    ) -> Result<Self> {
        let now = now.map(date::Date::parse).transpose()?;
        if template.len() > TEMPLATE_BYTES {
            return Err(Error::Template {
                line: None,
                reason: format!("it has {} bytes, and the limit is 1 MiB", template.len()),
            });
        }
        // As Jinja2 does first.
        let template = template.replace("\r\n", "\n").replace('\r', "\n");
        let rewritten = generation::rewrite(&template)?;
        if rewritten.names_date && now.is_none() {
            return Err(Error::TemplateDate);
        }
        if let Some(now) = now {
            for (format, line) in rewritten.date_formats {
                now.format(&format)
                    .map_err(|reason| Error::Template { line: Some(line), reason })?;
            }
        }
        let mut environment = environment(now);
        if template.contains("endmacro") {
            refuse_undeclared_arguments(&mut environment);
        }
        environment
            .add_template_owned(NAME, limits::guarded(&rewritten.template)?)
            .map_err(|error| template_error(&error))?;
        let reads_output =
            rewritten.reads_output || roles.values().any(|token| Brackets::may_be_in(token));
        Ok(Self {
            environment,
            roles: roles.clone(),
            has_generation: rewritten.has_generation,
            reads_output,
            with_images: false,
        })
    }

    /// The same template for messages that may have images, for which it writes placeholders.
    #[must_use]
    pub fn with_images(self) -> Self {
        Self { with_images: true, ..self }
    }

    /// Whether the template marks what an assistant writes.
    #[must_use]
    pub fn has_generation(&self) -> bool {
        self.has_generation
    }

    /// # Errors
    /// When a message is not valid, or the template fails.
    pub fn render(&self, conversation: &Conversation) -> Result<Rendered> {
        let messages = messages::prepared(&conversation.messages, self.with_images)?;
        let context = self.context(conversation, &messages, conversation.add_generation_prompt);
        if !self.has_generation {
            return Ok(Rendered { text: self.run(context, None)?, spans: Vec::new() });
        }
        let kwargs = Json::Object(conversation.template_kwargs.clone());
        let optional = [&conversation.tools, &conversation.documents].into_iter().flatten();
        let brackets = Brackets::unused(
            &[&conversation.messages, &kwargs].into_iter().chain(optional).collect::<Vec<_>>(),
        )?;
        let plain = if self.reads_output { Some(self.run(context.clone(), None)?) } else { None };
        let rendered = generation::spans(&self.run(context, Some(brackets))?, brackets)?;
        if plain.is_some_and(|plain| plain != rendered.text) {
            return Err(Error::TemplateSpans);
        }
        Ok(rendered)
    }

    /// As [`Self::render`], of the messages and the `completion` after them, if there is one,
    /// without what an assistant wrote.
    ///
    /// # Errors
    /// When a message is not valid, or the template fails.
    pub fn render_text(
        &self,
        conversation: &Conversation,
        completion: Option<&Json>,
    ) -> Result<Rendered> {
        let mut messages = messages::prepared(&conversation.messages, self.with_images)?;
        if let Some(completion) = completion {
            messages.extend(messages::prepared(completion, self.with_images)?);
        }
        let text = self
            .run(self.context(conversation, &messages, conversation.add_generation_prompt), None)?;
        Ok(Rendered { text, spans: Vec::new() })
    }

    /// As [`Self::render`], for a template that does not mark what an assistant writes: the span of
    /// an assistant's turn is what the messages up to it render past the messages before it with a
    /// generation prompt.
    ///
    /// # Errors
    /// As [`Self::render`]; when one of these texts is not the beginning of the whole.
    pub fn render_by_prefix(&self, conversation: &Conversation) -> Result<Rendered> {
        self.render_turns(conversation, usize::MAX)
    }

    /// As [`Self::render_by_prefix`], but only with the span of the last turn of an assistant.
    ///
    /// # Errors
    /// As [`Self::render_by_prefix`], for that turn.
    pub fn render_last_turn(&self, conversation: &Conversation) -> Result<Rendered> {
        self.render_turns(conversation, 1)
    }

    /// The spans are those of the last `most` turns of an assistant.
    fn render_turns(&self, conversation: &Conversation, most: usize) -> Result<Rendered> {
        let messages = messages::prepared(&conversation.messages, self.with_images)?;
        let text = self
            .run(self.context(conversation, &messages, conversation.add_generation_prompt), None)?;
        let mut spans = Vec::new();
        let turns = messages.iter().enumerate().filter(|(_, message)| message.is_assistant);
        let turns: Vec<usize> = turns.map(|(turn, _)| turn).collect();
        for turn in turns.iter().skip(turns.len().saturating_sub(most)).copied() {
            let before = self.run(
                self.context(conversation, messages.get(..turn).unwrap_or_default(), true),
                None,
            )?;
            let through = self.run(
                self.context(conversation, messages.get(..=turn).unwrap_or_default(), false),
                None,
            )?;
            if !text.starts_with(&through) || !through.starts_with(&before) {
                return Err(Error::TemplatePrefix { turn });
            }
            spans.push(before.len()..through.len());
        }
        Ok(Rendered { text, spans })
    }

    /// As [`Self::render`], of the messages and the `completion` after them. The span is what that
    /// adds to the messages with a generation prompt.
    ///
    /// # Errors
    /// As [`Self::render`]; when the text of the messages is not the beginning of the whole.
    pub fn render_completion(
        &self,
        conversation: &Conversation,
        completion: &Json,
    ) -> Result<Rendered> {
        let mut messages = messages::prepared(&conversation.messages, self.with_images)?;
        let prompt = self.run(self.context(conversation, &messages, true), None)?;
        messages.extend(messages::prepared(completion, self.with_images)?);
        let text = self.run(self.context(conversation, &messages, false), None)?;
        if !text.starts_with(&prompt) {
            return Err(Error::TemplateCompletion);
        }
        let spans =
            Some(prompt.len()..text.len()).filter(|span| !span.is_empty()).into_iter().collect();
        Ok(Rendered { text, spans })
    }

    fn context(
        &self,
        conversation: &Conversation,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Value {
        let optional =
            |value: &Option<Json>| value.as_ref().map_or(Value::from(()), environment::value);
        let mut variables: Vec<(String, Value)> = self
            .roles
            .iter()
            .map(|(role, token)| (role.clone(), Value::from(token.as_str())))
            .collect();
        variables.extend(
            conversation
                .template_kwargs
                .iter()
                .map(|(name, value)| (name.clone(), environment::value(value))),
        );
        variables.push((
            "messages".to_owned(),
            messages.iter().map(|message| message.value.clone()).collect(),
        ));
        variables.push(("tools".to_owned(), optional(&conversation.tools)));
        variables.push(("documents".to_owned(), optional(&conversation.documents)));
        variables.push(("add_generation_prompt".to_owned(), Value::from(add_generation_prompt)));
        Value::from_pairs(variables)
    }

    fn run(&self, context: Value, brackets: Option<Brackets>) -> Result<String> {
        crate::caught::caught(|| {
            let template =
                self.environment.get_template(NAME).map_err(|error| template_error(&error))?;
            let mut output = Limited(Vec::new());
            let rendered = environment::with_brackets(brackets, || {
                template.render_captured_to(context, &mut output).map(drop)
            });
            rendered.map_err(|error| template_error(&error))?;
            String::from_utf8(output.0).map_err(|_| Error::Template {
                line: None,
                reason: "the text is not UTF-8".to_owned(),
            })
        })
    }
}

/// Output up to a limit.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_BYTES {
            return Err(io::Error::other("the text has more than 64 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
