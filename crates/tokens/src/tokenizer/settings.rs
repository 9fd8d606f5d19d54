//! Settings of a directory that change ids, with the meaning that transformers gives them.
//!
//! Each setting is applied or refused by name. For a `.model`, the settings depend on the class
//! that `tokenizer_config.json` names, because that class turns the file into a tokenizer.

use super::added::{Added, Bounds};
use super::directory::Configured;
use crate::error::{Error, Result};
use crate::quote::quoted;
use serde_json::{Map, Value};

/// In the order in which they get ids.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The classes that have no rules of their own.
const GENERIC: [&str; 4] =
    ["PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", "PythonBackend"];

#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// `tokenizer_config.json`, for errors.
    path: String,
    /// In the order of their ids.
    declared: Vec<Declared>,
    /// Those that have a role.
    named: Vec<Added>,
    extra: Vec<Added>,
    /// Whether `extra` is more than `additional_special_tokens` of `special_tokens_map.json`.
    has_own_extra: bool,
    /// The roles that the directory mentions.
    roles: Vec<String>,
    pub(crate) class: Option<String>,
    pub(crate) add_prefix_space: Option<bool>,
    /// The rule of earlier versions: a space goes before the text after each added token.
    pub(crate) is_legacy: bool,
    pub(crate) splits_special_tokens: bool,
    /// `add_bos_token` and `add_eos_token`.
    adds: (bool, bool),
    /// Settings of the class `BertTokenizer`, with their values in the file.
    pub(crate) folding: Vec<(&'static str, bool)>,
}

/// A token with an id and flags, and the file that has it.
#[derive(Debug)]
struct Declared {
    file: String,
    id: u32,
    token: Added,
}

impl Settings {
    /// Reads the settings from the files of a directory.
    pub(super) fn read(configured: &Configured) -> Result<Self> {
        let (config, map) = (configured.config.as_ref(), configured.map.as_ref());
        let get = |key: &str| config.and_then(|config| config.entries.get(key));
        let flag = |key: &str| get(key).and_then(Value::as_bool);
        let declares = get("added_tokens_decoder");
        // As in transformers, `special_tokens_map.json` is ignored if the configuration declares
        // the added tokens.
        let map = map.filter(|_| declares.is_none());
        let value = |key: &str| {
            map.and_then(|map| map.entries.get(key))
                .or_else(|| get(key))
                .filter(|value| !value.is_null())
        };
        let mut named: Vec<Added> =
            NAMED.into_iter().filter_map(|key| special(value(key)?)).collect();
        let of_map = |key: &str| map.and_then(|map| map.entries.get(key));
        let list = |value: Option<&Value>| {
            value
                .and_then(Value::as_array)
                .filter(|list| !list.is_empty())
                .cloned()
                .unwrap_or_default()
        };
        let [own, older] = ["extra_special_tokens", "additional_special_tokens"].map(get);
        let stated = Some(list(own)).filter(|list| !list.is_empty()).unwrap_or_else(|| list(older));
        let mut extra: Vec<Added> = stated.iter().filter_map(special).collect();
        for token in list(of_map("extra_special_tokens")).iter().filter_map(special) {
            if extra.iter().all(|known| known.content != token.content) {
                extra.push(token);
            }
        }
        let has_own_extra = !extra.is_empty();
        let of_roles: Vec<Added> = named.iter().chain(&extra).cloned().collect();
        if extra.is_empty()
            && older.is_none()
            && own.is_none_or(Value::is_object)
            && !of_map("extra_special_tokens").is_some_and(Value::is_array)
        {
            extra = list(of_map("additional_special_tokens")).iter().filter_map(special).collect();
        }
        let is_other = |key: &String| key.ends_with("_token") && !NAMED.contains(&key.as_str());
        let others = config
            .iter()
            .flat_map(|config| config.entries.iter())
            .filter(|(key, value)| is_other(key) && value.is_string());
        named.extend(others.filter_map(|(_, value)| special(value)));
        let tables = ["extra_special_tokens", "model_specific_special_tokens"]
            .into_iter()
            .flat_map(|key| [get(key), of_map(key)]);
        named.extend(
            tables.filter_map(|table| table?.as_object()).flat_map(Map::values).filter_map(special),
        );
        let others = map.iter().flat_map(|map| map.entries.iter()).filter(|(key, _)| is_other(key));
        named.extend(others.filter_map(|(_, value)| special(value)));
        let mut declared = match (declares, &config, &configured.added_tokens) {
            (Some(Value::Object(entries)), Some(config), _) => with_flags(&config.path, entries)?,
            (Some(_), Some(config), _) => {
                return Err(invalid(&config.path, "added_tokens_decoder is not an object"));
            }
            (_, _, Some(file)) => of_ids(&file.path, &file.entries, &of_roles)?,
            _ => Vec::new(),
        };
        for Declared { token, .. } in &mut declared {
            token.is_special |= named.iter().any(|named| named.content == token.content);
        }
        let folding = ["do_lower_case", "strip_accents", "tokenize_chinese_chars"];
        Ok(Self {
            path: config.map(|config| config.path.clone()).unwrap_or_default(),
            declared,
            named,
            extra,
            has_own_extra,
            roles: NAMED
                .into_iter()
                .filter(|key| get(key).or_else(|| map?.entries.get(*key)).is_some())
                .map(str::to_owned)
                .collect(),
            class: get("tokenizer_class")
                .and_then(Value::as_str)
                .map(|class| class.strip_suffix("Fast").unwrap_or(class).to_owned()),
            add_prefix_space: flag("add_prefix_space"),
            is_legacy: flag("legacy").unwrap_or(false),
            splits_special_tokens: flag("split_special_tokens").unwrap_or(false),
            adds: (flag("add_bos_token").unwrap_or(false), flag("add_eos_token").unwrap_or(false)),
            folding: folding.into_iter().filter_map(|key| Some((key, flag(key)?))).collect(),
        })
    }

    /// Whether the class is one without rules of its own.
    pub(super) fn is_generic(&self) -> bool {
        self.class.as_deref().is_some_and(|class| {
            GENERIC.iter().any(|generic| generic.strip_suffix("Fast").unwrap_or(generic) == class)
        })
    }

    pub(super) fn is_llama(&self) -> bool {
        self.class.as_deref() == Some("LlamaTokenizer")
    }

    /// A setting that would change ids in transformers and is not applied.
    pub(super) fn refused(&self, setting: &str, reason: impl Into<String>) -> Error {
        Error::Setting {
            path: self.path.clone(),
            setting: setting.to_owned(),
            reason: reason.into(),
        }
    }

    /// Special tokens that a class names, by role, for roles that the directory does not mention.
    pub(super) fn name<'a>(&mut self, defaults: impl IntoIterator<Item = (&'static str, &'a str)>) {
        let defaults =
            defaults.into_iter().filter(|(role, _)| !self.roles.iter().any(|known| known == role));
        let named = defaults.map(|(_, token)| Added::special(token, 0)).collect::<Vec<_>>();
        self.named.extend(named);
    }

    /// Sets tokens of a file that transformers uses as extra tokens if the configuration lists
    /// none, instead of those of `special_tokens_map.json`.
    pub(super) fn set_extra(&mut self, tokens: Vec<Added>) {
        if !self.has_own_extra {
            self.extra = tokens;
        }
    }

    /// Adds the tokens of the directory to those of the file, and returns what changed.
    ///
    /// `known` returns the id of a token of the model, which has `size` tokens. A token that is in
    /// neither gets the next id. A declared token with another id is refused.
    pub(super) fn add(
        &self,
        added: &mut Vec<Added>,
        known: impl Fn(&str) -> Option<u32>,
        size: u32,
    ) -> Result<Vec<String>> {
        let mut changes = Vec::new();
        for Declared { file, id, token } in &self.declared {
            if change(added, token, &mut changes) {
                continue;
            }
            let next = next_id(added, size);
            let own = known(&token.content);
            if own.is_none() && next != *id {
                let problem = format!(
                    "token {} has id {id}, but the next id of the tokenizer is {next}",
                    quoted(&token.content)
                );
                return Err(invalid(file, problem));
            }
            push(added, token, own.unwrap_or(next), &mut changes);
        }
        for token in self.named.iter().chain(&self.extra) {
            add_named(added, token, &known, size, &mut changes);
        }
        Ok(changes)
    }

    /// As [`Self::add`], for ranks: each declared token gets its id and is special. Extra tokens of
    /// the configuration come before those with a role.
    pub(super) fn add_to_ranks(
        &self,
        added: &mut Vec<Added>,
        known: impl Fn(&str) -> Option<u32>,
        size: u32,
    ) -> Result<Vec<String>> {
        let mut changes = Vec::new();
        for Declared { file, id, token } in &self.declared {
            let token = Added { is_special: true, ..token.clone() };
            if change(added, &token, &mut changes) {
                continue;
            }
            let own = known(&token.content);
            if let Some(other) = added.iter().find(|other| own.is_none() && other.id == *id) {
                let (first, second) = (other.content.clone(), token.content.clone());
                return Err(Error::DuplicateId {
                    path: file.clone(),
                    id: u64::from(*id),
                    first,
                    second,
                });
            }
            push(added, &token, own.unwrap_or(*id), &mut changes);
        }
        let (first, second) = if self.has_own_extra {
            (&self.extra, &self.named)
        } else {
            (&self.named, &self.extra)
        };
        for token in first.iter().chain(second) {
            add_named(added, token, &known, size, &mut changes);
        }
        Ok(changes)
    }

    /// Refuses settings with which the class would build a different tokenizer than a
    /// `tokenizer.json`, in any version, describes.
    pub(super) fn check_document(&self, document: &Value) -> Result<()> {
        let mut steps = Vec::new();
        ["normalizer", "pre_tokenizer"]
            .iter()
            .filter_map(|key| document.get(key))
            .for_each(|value| flatten(value, &mut steps));
        let space = steps.iter().find_map(|step| space_before(step));
        if let (Some(wanted), Some(space)) = (self.add_prefix_space, space)
            && wanted != space
        {
            let what =
                if space { "puts a space before a text" } else { "puts no space before a text" };
            return Err(self.refused(
                &format!("add_prefix_space: {wanted}"),
                format!("the tokenizer.json {what}"),
            ));
        }
        for (key, wanted) in &self.folding {
            let found = match *key {
                "do_lower_case" => Some(steps.iter().any(|step| {
                    kind(step) == "Lowercase" || flag(step, "lowercase") == Some(true)
                })),
                "strip_accents" => steps.iter().find_map(|step| {
                    flag(step, "strip_accents").or_else(|| flag(step, "lowercase"))
                }),
                _ => steps.iter().find_map(|step| flag(step, "handle_chinese_chars")),
            };
            if found.is_some_and(|found| found != *wanted) {
                return Err(self.refused(
                    &format!("{key}: {wanted}"),
                    "the normalizer of the tokenizer.json behaves differently",
                ));
            }
        }
        Ok(())
    }

    /// Refuses settings that a `file` contradicts which neither puts a space before a text nor
    /// changes its letters.
    pub(super) fn check_plain(&self, file: &str) -> Result<()> {
        if self.add_prefix_space == Some(true) {
            return Err(self
                .refused("add_prefix_space: true", format!("{file} puts no space before a text")));
        }
        self.check_letters(file)
    }

    pub(super) fn check_letters(&self, file: &str) -> Result<()> {
        match self.folding.iter().find(|(key, wanted)| *wanted && *key != "tokenize_chinese_chars")
        {
            Some((key, _)) => {
                Err(self
                    .refused(&format!("{key}: true"), format!("{file} does not change letters")))
            }
            None => Ok(()),
        }
    }

    /// The ids that go before and after a text.
    pub(super) fn template(&self, id_of: impl Fn(&str) -> Option<u32>) -> (Vec<u32>, Vec<u32>) {
        let ids = |is_added: bool, role: &str| {
            is_added.then(|| id_of(role)).flatten().into_iter().collect()
        };
        (ids(self.adds.0, "bos_token"), ids(self.adds.1, "eos_token"))
    }
}

/// Gives an existing token the flags of `token`. Returns whether there is one.
fn change(added: &mut [Added], token: &Added, changes: &mut Vec<String>) -> bool {
    let mut is_known = false;
    for known in added.iter_mut().filter(|known| known.content == token.content) {
        is_known = true;
        let before = known.clone();
        // A special token stays special.
        known.is_special |= token.is_special;
        (known.is_normalized, known.bounds, known.is_piece) =
            (token.is_normalized, token.bounds, false);
        changes.extend((*known != before).then(|| format!("{known:?}")));
    }
    is_known
}

fn add_named(
    added: &mut Vec<Added>,
    token: &Added,
    known: &impl Fn(&str) -> Option<u32>,
    size: u32,
    changes: &mut Vec<String>,
) {
    if !added.iter().any(|other| other.content == token.content) {
        let id = known(&token.content).unwrap_or_else(|| next_id(added, size));
        push(added, token, id, changes);
    }
}

fn push(added: &mut Vec<Added>, token: &Added, id: u32, changes: &mut Vec<String>) {
    let token = Added { id, assigned: id, declared: id, ..token.clone() };
    changes.push(format!("{token:?}"));
    added.push(token);
}

fn next_id(added: &[Added], size: u32) -> u32 {
    let highest = added.iter().map(|known| known.id).max();
    highest.filter(|highest| *highest >= size).map_or(size, |highest| highest.saturating_add(1))
}

/// The members of a sequence one by one.
fn flatten<'a>(value: &'a Value, steps: &mut Vec<&'a Value>) {
    let members =
        ["normalizers", "pretokenizers"].into_iter().find_map(|key| value.get(key)?.as_array());
    match members {
        Some(members) => members.iter().for_each(|member| flatten(member, steps)),
        None => steps.push(value),
    }
}

fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn flag(step: &Value, key: &str) -> Option<bool> {
    step.get(key).and_then(Value::as_bool)
}

/// Whether a step puts a space before a text; `None` if it does not decide.
fn space_before(step: &Value) -> Option<bool> {
    match kind(step) {
        "ByteLevel" => Some(flag(step, "add_prefix_space").unwrap_or(true)),
        "Metaspace" => match step.get("prepend_scheme").and_then(Value::as_str) {
            Some(scheme) => Some(scheme != "never"),
            None => Some(flag(step, "add_prefix_space").unwrap_or(true)),
        },
        "Prepend" => Some(true),
        _ => None,
    }
}

/// A special token: its text, or an object with flags. `None` if the text is empty.
fn special(value: &Value) -> Option<Added> {
    let content = value
        .as_str()
        .or_else(|| value.get("content")?.as_str())
        .filter(|content| !content.is_empty())?;
    Some(Added { is_special: true, ..flagged(content, value, true) })
}

fn flagged(content: &str, value: &Value, is_special: bool) -> Added {
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let is_special = flag("special").unwrap_or(is_special);
    Added {
        is_special,
        // A token given as text has no flags.
        is_normalized: flag("normalized").unwrap_or(!is_special),
        bounds: Bounds {
            is_word: flag("single_word").unwrap_or(false),
            takes_left: flag("lstrip").unwrap_or(false),
            takes_right: flag("rstrip").unwrap_or(false),
        },
        ..Added::special(content, 0)
    }
}

/// `added_tokens_decoder`: tokens with flags, by id.
fn with_flags(path: &str, entries: &Map<String, Value>) -> Result<Vec<Declared>> {
    let mut tokens = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let content = value.get("content").and_then(Value::as_str);
        let (Ok(id), Some(content)) = (key.parse::<u32>(), content) else {
            return Err(invalid(
                path,
                format!(
                    "entry {} of added_tokens_decoder is not an id with an object that has content",
                    quoted(key)
                ),
            ));
        };
        let token = flagged(content, value, false);
        tokens.extend((!content.is_empty()).then(|| Declared { file: path.to_owned(), id, token }));
    }
    tokens.sort_by_key(|declared| declared.id);
    Ok(tokens)
}

/// `added_tokens.json`: ids by text. Those that have a role are special.
fn of_ids(path: &str, entries: &Map<String, Value>, named: &[Added]) -> Result<Vec<Declared>> {
    let mut tokens = Vec::with_capacity(entries.len());
    for (content, id) in entries {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| {
            invalid(path, format!("token {} has no id below 2^32", quoted(content)))
        })?;
        let is_special = named.iter().any(|named| named.content == *content);
        let token = Added { is_special, is_normalized: !is_special, ..Added::special(content, 0) };
        tokens.extend((!content.is_empty()).then(|| Declared { file: path.to_owned(), id, token }));
    }
    tokens.sort_by_key(|declared| declared.id);
    Ok(tokens)
}

fn invalid(path: &str, problem: impl Into<String>) -> Error {
    Error::Invalid { path: path.to_owned(), problem: problem.into() }
}
