//! Checks that the keys named by options exist in the samples.
//!
//! The invariant: a job whose options name a key that no sample has does not start, because its
//! output would silently lack the values of the key.

use crate::ledger::Ledger;
use crate::source::heads::{Seen, read_heads};
use crate::source::keys::SampleKeys;
use crate::source::pairs::begins_with_pair;
use crate::source::webdataset_options::WebDatasetOptions;
use crate::{Error, Result};
use serde_json::{Map, Value};
use shardmill_engine::Cancel;
use shardmill_formats::tar::{Member, Role, role, without_compression};
use shardmill_plan::InputFile;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Maximal number of keys and endings in a message.
const SHOWN: usize = 12;

const LISTS: &str = "texts_field and images_field";

/// Keys and members seen so far.
#[derive(Debug, Clone, Default)]
pub struct NamedKeys {
    wanted: Vec<Wanted>,
    samples: u64,
    /// Members that are not samples.
    others: usize,
    there: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Wanted {
    option: &'static str,
    /// One of them is enough.
    keys: Vec<String>,
    is_met: bool,
    need: Need,
}

/// When a key is required.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    Always,
    /// Samples without both lists are metadata-only documents, unless there are members that they
    /// should reference.
    WithOthers,
    /// Values of entries are required if the list of this key has entries.
    WithEntries {
        list: String,
        are_there: bool,
    },
}

impl NamedKeys {
    /// Requires the keys that the user named instead of a default, and one of the two lists if
    /// there are members that it may reference.
    #[must_use]
    pub fn of_samples(keys: &SampleKeys) -> Self {
        let default = SampleKeys::default();
        let mut named = Self::default();
        named.want(
            "texts_field",
            Some(&keys.texts_field).filter(|key| **key != default.texts_field),
        );
        named.want(
            "images_field",
            Some(&keys.images_field).filter(|key| **key != default.images_field),
        );
        named.wanted.push(Wanted {
            option: LISTS,
            keys: vec![keys.texts_field.clone(), keys.images_field.clone()],
            is_met: false,
            need: Need::WithOthers,
        });
        named.want("sample_id_field", keys.sample_id_field.as_ref());
        named.want("image_member_field", keys.image_member_field.as_ref());
        named
    }

    /// The same, plus the keys that become columns.
    #[must_use]
    pub fn of_source(options: &WebDatasetOptions) -> Self {
        let mut named = Self::of_samples(&options.keys);
        named.want("fields", options.fields.iter().flatten());
        for (option, keys, list) in [
            ("per_image_fields", &options.per_image_fields, &options.keys.images_field),
            ("per_text_fields", &options.per_text_fields, &options.keys.texts_field),
        ] {
            let need = Need::WithEntries { list: list.clone(), are_there: false };
            named.wanted.extend(keys.iter().map(|key| Wanted {
                option,
                keys: vec![key.clone()],
                is_met: false,
                need: need.clone(),
            }));
        }
        named
    }

    /// Requires each of the two lists.
    #[must_use]
    pub fn of_lists(keys: &SampleKeys) -> Self {
        let mut named = Self::default();
        named.want("texts_field", Some(&keys.texts_field));
        named.want("images_field", Some(&keys.images_field));
        named
    }

    pub(super) fn want<'a>(
        &mut self,
        option: &'static str,
        keys: impl IntoIterator<Item = &'a String>,
    ) {
        self.wanted.extend(keys.into_iter().map(|key| Wanted {
            option,
            keys: vec![key.clone()],
            is_met: false,
            need: Need::Always,
        }));
    }

    pub fn observe(&mut self, object: &Map<String, Value>) {
        self.samples += 1;
        for wanted in self.wanted.iter_mut().filter(|wanted| !wanted.is_met) {
            wanted.is_met = wanted.keys.iter().any(|key| object.contains_key(key));
            if let Need::WithEntries { list, are_there } = &mut wanted.need {
                *are_there |= object
                    .get(list)
                    .and_then(Value::as_array)
                    .is_some_and(|list| list.iter().any(|entry| !entry.is_null()));
            }
        }
        for key in object.keys() {
            if self.there.len() < SHOWN && !self.there.contains(key) {
                self.there.insert(key.clone());
            }
        }
    }

    /// Whether there are samples, and none has one of the lists.
    fn lacks_lists(&self) -> bool {
        self.samples > 0
            && self.wanted.iter().any(|wanted| wanted.option == LISTS && !wanted.is_met)
    }

    /// The samples are pairs of an image and a caption, which have no lists.
    fn meet_lists(&mut self) {
        for wanted in self.wanted.iter_mut().filter(|wanted| wanted.option == LISTS) {
            wanted.is_met = true;
        }
    }

    /// Counts members that are not samples.
    pub fn pass(&mut self, members: usize) {
        self.others += members;
    }

    #[must_use]
    pub fn are_met(&self) -> bool {
        self.wanted.iter().all(|wanted| wanted.is_met)
    }

    /// Keys that no sample has, one error per option; none if there are no samples.
    pub fn absent(&self) -> impl Iterator<Item = Error> {
        self.unmet().map(|wanted| Error::AbsentKey {
            option: wanted.option,
            keys: quoted(wanted.keys.iter()),
            samples: self.samples,
            there: self.keys_there(),
        })
    }

    /// The same as warnings, with identical text for files with the same keys.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.unmet().map(|wanted| {
            let (option, keys, there) =
                (wanted.option, quoted(wanted.keys.iter()), self.keys_there());
            format!("no sample of a file has the key {keys} ({option}); the keys there are {there}")
        })
    }

    fn unmet(&self) -> impl Iterator<Item = &Wanted> {
        let is_needed = |wanted: &Wanted| match wanted.need {
            Need::Always => true,
            Need::WithOthers => self.others > 0,
            Need::WithEntries { are_there, .. } => are_there,
        };
        self.wanted
            .iter()
            .filter(move |wanted| !wanted.is_met && self.samples > 0 && is_needed(wanted))
    }

    fn keys_there(&self) -> String {
        if self.there.is_empty() { "none".to_owned() } else { quoted(self.there.iter()) }
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{}`", name.escape_debug())).collect::<Vec<_>>().join(", ")
}

/// Reads until each key named by the options, or by a filter, is found in a sample. Files that
/// cannot be read are handled by the run.
///
/// # Errors
/// [`Error::AbsentKey`] when there are samples and none has the key, and cancellation.
pub fn check_keys<'a>(
    files: impl Iterator<Item = &'a InputFile>,
    options: &WebDatasetOptions,
    filtered: &[String],
    cancel: &Cancel,
) -> Result<()> {
    let mut named = NamedKeys::of_source(options);
    named.want("expression", filtered);
    for file in files {
        cancel.check()?;
        // Damage is quarantined by the run.
        let _damage = read_heads(&file.path, options, cancel, &mut named, |named, seen| {
            match seen {
                Seen::Document(object, _) => named.observe(object),
                Seen::Others(members) => named.pass(*members),
            }
            if named.are_met() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if named.lacks_lists() && begins_with_pair(&file.path, options).unwrap_or(false) {
            named.meet_lists();
        }
        if named.are_met() {
            return Ok(());
        }
    }
    cancel.check()?;
    named.absent().next().map_or(Ok(()), Err)
}

/// The ending of a member's name in messages, with that of its compression.
fn ending(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or_default();
    let plain = without_compression(file);
    match plain.rsplit_once('.').or_else(|| file.rsplit_once('.')) {
        Some((stem, _)) => file.get(stem.len()..).unwrap_or_default().escape_debug().to_string(),
        None => "no extension".to_owned(),
    }
}

/// Counts the members that are not documents and that no document names as warnings, by their
/// endings.
pub(crate) fn warn_of_unnamed<'a>(
    members: impl Iterator<Item = &'a Member>,
    keys: &SampleKeys,
    ledger: &mut Ledger,
) {
    let mut texts: BTreeMap<String, u64> = BTreeMap::new();
    for member in members {
        let (kind, ending) = (role(&member.name, &keys.json_extensions), ending(&member.name));
        let lower = without_compression(&ending).to_ascii_lowercase();
        let text = match kind {
            Role::Foreign | Role::Hidden => {
                format!("hidden members ({ending}) that no document names")
            }
            Role::Document { .. } => {
                format!(
                    "members ({ending}) next to a document with a shorter name, \
                     without `{}` and `{}`",
                    keys.texts_field, keys.images_field
                )
            }
            Role::Other if matches!(lower.as_str(), ".jsonl" | ".ndjson") => {
                format!(
                    "members ({ending}) that no document names; a document is one JSON object \
                     in a separate member, so split these members"
                )
            }
            Role::Other => format!("members ({ending}) that no document names"),
        };
        let text = if texts.len() < SHOWN || texts.contains_key(&text) {
            text
        } else {
            "other members that no document names".to_owned()
        };
        *texts.entry(text).or_default() += 1;
    }
    for (text, times) in texts {
        ledger.warn_times(text, times);
    }
}

/// Why an archive with members has no sample, and the endings of its members.
#[must_use]
pub fn no_sample(members: &[Member], keys: &SampleKeys) -> String {
    let mut endings: BTreeMap<String, usize> = BTreeMap::new();
    for member in members {
        *endings.entry(ending(&member.name)).or_default() += 1;
    }
    let more = if endings.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<String> =
        endings.iter().take(SHOWN).map(|(ending, count)| format!("{ending} ({count})")).collect();
    format!(
        "none of the {} members is a sample: no name ends in {}; json_extensions \
         of WebDatasetSource (--json-extension of curate) names the ending of documents, \
         and the endings there are {}{more}",
        members.len(),
        keys.json_extensions.join(" or "),
        shown.join(", ")
    )
}
