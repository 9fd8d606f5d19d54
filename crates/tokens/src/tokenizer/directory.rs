//! What the other files of a directory say about a tokenizer.

use super::json::parse;
use super::sources::Sources;
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// Roles of tokens and the chat template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// By role, such as `bos_token`.
    pub(crate) roles: BTreeMap<String, String>,
    pub(crate) chat_template: Option<String>,
    /// For conversations with tools.
    pub(crate) tool_template: Option<String>,
}

impl Configuration {
    pub(crate) fn read(sources: &Sources) -> Result<Self> {
        let mut configuration = Self::default();
        // The later one wins.
        for name in ["special_tokens_map.json", "tokenizer_config.json"] {
            if let Some(bytes) = sources.configuration(name) {
                let path = sources.path_of(name);
                configuration.add(&path, &parse(&path, bytes)?)?;
            }
        }
        if let Some(bytes) = sources.configuration("chat_template.jinja") {
            let path = sources.path_of("chat_template.jinja");
            let text = std::str::from_utf8(bytes).map_err(|error| Error::NotText { path, offset: error.valid_up_to() })?;
            configuration.chat_template = Some(text.to_owned());
            configuration.tool_template = None;
        }
        Ok(configuration)
    }

    fn add(&mut self, path: &str, value: &Value) -> Result<()> {
        let Value::Object(entries) = value else {
            return Err(Error::Invalid { path: path.to_owned(), problem: "it is not a JSON object".to_owned() });
        };
        for (key, value) in entries {
            // A token is its text, or an object with the text as `content`.
            let token = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
            if let Some(token) = token.filter(|_| key.ends_with("_token")) {
                self.roles.insert(key.clone(), token.to_owned());
            }
        }
        let stated = |name| entries.get("chat_template").and_then(|value| chat_template(value, name));
        self.chat_template = stated("default").or_else(|| self.chat_template.take());
        self.tool_template = stated("tool_use").or_else(|| self.tool_template.take());
        Ok(())
    }
}

/// One template, which is the default, or several with names.
fn chat_template(value: &Value, name: &str) -> Option<String> {
    let named = || value.as_array()?.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?.get("template")?.as_str();
    value.as_str().filter(|_| name == "default").or_else(named).map(str::to_owned)
}
