//! What the other files of a directory say about a tokenizer.

use super::sources::{Sources, TOOL_TEMPLATE, parse};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
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

/// A JSON object of the directory.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) path: String,
    pub(crate) entries: Map<String, Value>,
}

/// The files that describe a tokenizer.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    /// `tokenizer_config.json`.
    pub(crate) config: Option<Table>,
    /// `special_tokens_map.json`.
    pub(crate) map: Option<Table>,
    /// `added_tokens.json`.
    pub(crate) added_tokens: Option<Table>,
}

impl Configured {
    pub(crate) fn read(sources: &Sources) -> Result<Self> {
        let table = |name: &str| {
            let read = |bytes: &[u8]| {
                let path = sources.path_of(name);
                match parse(&path, bytes)? {
                    Value::Object(entries) => Ok(Table { path, entries }),
                    _ => {
                        Err(Error::Invalid { path, problem: "it is not a JSON object".to_owned() })
                    }
                }
            };
            sources.configuration(name).map(read).transpose()
        };
        Ok(Self {
            config: table("tokenizer_config.json")?,
            map: table("special_tokens_map.json")?,
            added_tokens: table("added_tokens.json")?,
        })
    }
}

impl Configuration {
    pub(crate) fn read(sources: &Sources, configured: &Configured) -> Result<Self> {
        let mut configuration = Self::default();
        // The later one wins. As in transformers, that is the map, unless the other one declares
        // the added tokens, as newer versions write it.
        let mut tables = [configured.map.as_ref(), configured.config.as_ref()];
        if configured
            .config
            .as_ref()
            .is_some_and(|config| !config.entries.contains_key("added_tokens_decoder"))
        {
            tables.reverse();
        }
        tables.into_iter().flatten().for_each(|table| configuration.add(&table.entries));
        let template = |name: &str| {
            let text = sources.configuration(name).map(std::str::from_utf8).transpose();
            text.map(|text| text.map(str::to_owned)).map_err(|error| Error::NotText {
                path: sources.path_of(name),
                offset: error.valid_up_to(),
            })
        };
        if let Some(text) = template("chat_template.jinja")? {
            configuration.chat_template = Some(text);
            configuration.tool_template = None;
        }
        configuration.tool_template =
            template(TOOL_TEMPLATE)?.or_else(|| configuration.tool_template.take());
        Ok(configuration)
    }

    fn add(&mut self, entries: &Map<String, Value>) {
        let named = ["extra_special_tokens", "model_specific_special_tokens"]
            .into_iter()
            .filter_map(|key| entries.get(key)?.as_object())
            .flatten();
        for (key, value) in entries.iter().filter(|(key, _)| key.ends_with("_token")).chain(named) {
            // A token is its text, or an object with the text as `content`.
            if let Some(token) =
                value.as_str().or_else(|| value.get("content").and_then(Value::as_str))
            {
                self.roles.insert(key.clone(), token.to_owned());
            } else if value.is_null() {
                self.roles.remove(key);
            }
        }
        let stated =
            |name| entries.get("chat_template").and_then(|value| chat_template(value, name));
        self.chat_template = stated("default").or_else(|| self.chat_template.take());
        self.tool_template = stated("tool_use").or_else(|| self.tool_template.take());
    }
}

/// One template, which is the default, or several with names.
fn chat_template(value: &Value, name: &str) -> Option<String> {
    let named = || {
        value
            .as_array()?
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?
            .get("template")?
            .as_str()
    };
    value.as_str().filter(|_| name == "default").or_else(named).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(files: &[(&str, &str)]) -> Configuration {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let sources = Sources::directory("m", files);
        Configuration::read(&sources, &Configured::read(&sources).unwrap()).unwrap()
    }

    #[test]
    fn map_of_special_tokens_goes_before_a_configuration_without_added_tokens() {
        let map = r#"{"eos_token": {"content": "</s>"}, "unk_token": "<unk>"}"#;
        for (config, eos) in [
            (r#"{"eos_token": "", "bos_token": "<s>"}"#, "</s>"),
            (r#"{"eos_token": "<end>", "added_tokens_decoder": {}}"#, "<end>"),
        ] {
            let read = configuration(&[
                ("tokenizer_config.json", config),
                ("special_tokens_map.json", map),
            ]);
            assert_eq!(
                (read.roles["eos_token"].as_str(), read.roles["unk_token"].as_str()),
                (eos, "<unk>")
            );
        }
    }

    #[test]
    fn null_takes_a_role_away_and_further_tokens_have_roles_too() {
        let map = r#"{"eos_token": "</s>", "pad_token": "<pad>"}"#;
        let config = concat!(
            r#"{"eos_token": null, "added_tokens_decoder": {}, "#,
            r#""extra_special_tokens": {"image_token": "<image>", "turn": {"content": "<turn>"}}}"#,
        );
        let read =
            configuration(&[("tokenizer_config.json", config), ("special_tokens_map.json", map)]);
        let roles = read
            .roles
            .iter()
            .map(|(role, token)| (role.as_str(), token.as_str()))
            .collect::<Vec<_>>();
        assert_eq!(roles, [("image_token", "<image>"), ("pad_token", "<pad>"), ("turn", "<turn>")]);
    }

    #[test]
    fn files_of_templates_go_before_the_configuration() {
        let config = concat!(
            r#"{"chat_template": ["#,
            r#"{"name": "default", "template": "a"}, "#,
            r#"{"name": "tool_use", "template": "b"}]}"#,
        );
        let (config, default, tools) =
            (("tokenizer_config.json", config), ("chat_template.jinja", "c"), (TOOL_TEMPLATE, "d"));
        for (files, expected) in [
            (vec![config], ("a", Some("b"))),
            (vec![config, default], ("c", None)),
            (vec![config, default, tools], ("c", Some("d"))),
        ] {
            let read = configuration(&files);
            assert_eq!(
                (read.chat_template.as_deref(), read.tool_template.as_deref()),
                (Some(expected.0), expected.1)
            );
        }
    }
}
