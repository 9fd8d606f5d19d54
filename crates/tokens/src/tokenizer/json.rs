//! `tokenizer.json`: what it must keep to, beyond what the engine checks.

use super::added::declarations;
use super::engine::MARKERS;
use super::hugging_face::HuggingFace;
use super::model::{Model, Template};
use super::normalizers;
use super::settings::Settings;
use super::unigram::Unigram;
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use crate::quote::{quoted, shortened};
use serde_json::{Map, Value, json};

const MODELS: [&str; 4] = ["BPE", "Unigram", "WordPiece", "WordLevel"];

/// A `tokenizer.json` in the form that the engine reads.
pub(crate) struct Document {
    pub(crate) model: Model,
    /// Truncation and padding, which are not applied.
    pub(crate) ignored: Vec<String>,
    /// Tokens by role, such as `eos_token`.
    pub(crate) roles: Vec<(String, String)>,
}

impl Document {
    pub(crate) fn new(path: &str, mut value: Value, settings: &Settings) -> Result<Self> {
        let Some(root) =
            value.as_object_mut().filter(|root| root.get("model").is_some_and(Value::is_object))
        else {
            return Err(Error::UnknownType { path: path.to_owned() });
        };
        let ignored = ["truncation", "padding"]
            .into_iter()
            .filter_map(|key| {
                root.remove(key)
                    .filter(|settings| !settings.is_null())
                    .map(|settings| format!("{key} {}", shortened(&settings.to_string())))
            })
            .collect();
        check_kind(path, root.get("model"))?;
        settings.check_document(&value)?;
        HuggingFace::canonicalize(path, &mut value)?;
        let (mut vocabulary, changes) = Vocabulary::read(path, &value, settings)?;
        check_suffix(path, &value)?;
        check_unknown(path, &value, &vocabulary)?;
        check_merges(path, &value, &vocabulary)?;
        let spaces = normalizers::take_spaces(&mut value);
        value
            .get_mut("normalizer")
            .map_or(Ok(()), |normalizer| normalizers::translate(path, normalizer))?;
        normalizers::check(path, value.get("normalizer"), spaces.as_ref())?;
        normalizers::check_decoder(path, value.get("decoder"))?;
        let template = template(value.get("post_processor"));
        let roles =
            value.get("role_to_token").and_then(Value::as_object).map_or_else(Vec::new, roles);
        let splitter =
            value.get_mut("pre_tokenizer").map(Value::take).filter(|splitter| !splitter.is_null());
        let splitter = splitter.or_else(|| {
            (spaces.is_none() && marks_spaces(&value)).then(|| json!({"type": MARKERS}))
        });
        let has_byte_tokens =
            value.pointer("/model/byte_fallback").and_then(Value::as_bool).unwrap_or(false);
        let is_unigram = value.pointer("/model/type").and_then(Value::as_str) == Some("Unigram");
        let unigram = if is_unigram {
            value.get("model").map(|model| Unigram::of_json(path, model)).transpose()?
        } else {
            None
        };
        if unigram.is_some() {
            vocabulary.assign_without_model();
        }
        if let Some(root) = value.as_object_mut() {
            if unigram.is_some() {
                root.insert("model".to_owned(), Unigram::stand_in());
                root.insert("post_processor".to_owned(), Value::Null);
            }
            root.insert("added_tokens".to_owned(), declarations(vocabulary.added()));
        }
        let model = Model {
            text: value.to_string(),
            splitter,
            normalizer: None,
            spaces,
            has_byte_tokens,
            vocabulary,
            unigram,
            changes,
            template,
        };
        Ok(Self { model, ignored, roles })
    }
}

/// A BPE model with spaces as markers, and one before the text, whose pieces the engine would
/// otherwise merge as one word.
fn marks_spaces(value: &Value) -> bool {
    let normalizer = |place: usize, key: &str| {
        value.pointer(&format!("/normalizer/normalizers/{place}{key}")).and_then(Value::as_str)
    };
    let is_pair = value
        .pointer("/normalizer/normalizers")
        .and_then(Value::as_array)
        .is_some_and(|members| members.len() == 2);
    let prepends =
        normalizer(0, "/type") == Some("Prepend") && normalizer(0, "/prepend") == Some("\u{2581}");
    let replaces = normalizer(1, "/type") == Some("Replace")
        && normalizer(1, "/pattern/String") == Some(" ")
        && normalizer(1, "/content") == Some("\u{2581}");
    is_pair
        && prepends
        && replaces
        && value.pointer("/model/type").and_then(Value::as_str) == Some("BPE")
}

fn roles(roles: &Map<String, Value>) -> Vec<(String, String)> {
    roles
        .iter()
        .filter_map(|(role, token)| Some((role.clone(), token.as_str()?.to_owned())))
        .collect()
}

/// Files before the first version do not tell the type, which follows from their keys.
fn check_kind(path: &str, model: Option<&Value>) -> Result<()> {
    match model.and_then(|model| model.get("type")) {
        Some(Value::String(kind)) if !MODELS.contains(&kind.as_str()) => {
            let what = format!(
                "its model has the type {}, and only {} are supported",
                quoted(kind),
                MODELS.join(", ")
            );
            Err(Error::Unsupported { path: path.to_owned(), what })
        }
        _ => Ok(()),
    }
}

fn invalid(path: &str, problem: impl Into<String>) -> Error {
    Error::Invalid { path: path.to_owned(), problem: problem.into() }
}

/// The engine marks the end of a word only where the word has two characters or more.
fn check_suffix(path: &str, value: &Value) -> Result<()> {
    match value.pointer("/model/end_of_word_suffix").and_then(Value::as_str) {
        Some(suffix) if !suffix.is_empty() => {
            let what = format!("its BPE model has the end_of_word_suffix {}", quoted(suffix));
            Err(Error::Unsupported { path: path.to_owned(), what })
        }
        _ => Ok(()),
    }
}

/// A model without an unknown token fails at the first text that needs it.
fn check_unknown(path: &str, value: &Value, vocabulary: &Vocabulary) -> Result<()> {
    let model = &value["model"];
    match model.get("type").and_then(Value::as_str) {
        Some(kind @ ("WordPiece" | "WordLevel")) => {
            let token = model.get("unk_token").and_then(Value::as_str).unwrap_or_default();
            if vocabulary.model_id(token).is_none() {
                return Err(invalid(
                    path,
                    format!("the {kind} model has no token {}, its unknown token", quoted(token)),
                ));
            }
        }
        Some("Unigram") => {
            let size = model.get("vocab").and_then(Value::as_array).map_or(0, Vec::len) as u64;
            if model.get("unk_id").and_then(Value::as_u64).is_none_or(|id| id >= size) {
                return Err(invalid(path, "the Unigram model has no unknown token"));
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_merges(path: &str, value: &Value, vocabulary: &Vocabulary) -> Result<()> {
    let model = &value["model"];
    let Some(merges) = model.get("merges").and_then(Value::as_array) else {
        return Ok(());
    };
    let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or_default();
    let mut joined = String::new();
    for (number, merge) in merges.iter().enumerate() {
        let (Some(left), Some(right)) =
            (merge.get(0).and_then(Value::as_str), merge.get(1).and_then(Value::as_str))
        else {
            return Err(invalid(path, format!("merge {number} is not a pair of tokens")));
        };
        let Some(tail) = right.get(prefix.len()..) else {
            return Err(invalid(
                path,
                format!(
                    "merge {number} has {}, which is shorter than the prefix {}",
                    quoted(right),
                    quoted(prefix)
                ),
            ));
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(tail);
        if let Some(token) =
            [left, right, &joined].into_iter().find(|token| vocabulary.model_id(token).is_none())
        {
            return Err(Error::UnknownMergeToken {
                path: path.to_owned(),
                merge: number,
                token: token.to_owned(),
            });
        }
    }
    Ok(())
}

/// `single` of the canonical form: runs of ids around the text.
fn template(processor: Option<&Value>) -> Template {
    let mut template = Template::default();
    let mut is_after = false;
    let pieces = processor.and_then(|processor| processor.get("single")).and_then(Value::as_array);
    for piece in pieces.into_iter().flatten() {
        is_after |= piece.get("seq").is_some();
        let ids = piece.get("ids").and_then(Value::as_array).into_iter().flatten();
        let ids = ids.filter_map(|id| u32::try_from(id.as_u64()?).ok());
        if is_after { template.suffix.extend(ids) } else { template.prefix.extend(ids) }
    }
    template
}
