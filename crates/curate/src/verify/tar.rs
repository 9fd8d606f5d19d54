//! Checks one WebDataset tar: the archive, each sample, each image.
//!
//! Headers, JSON and image headers are read; payloads only of a compressed tar, whose checksum is at its end. A tar without an interleaved document
//! is a WebDataset of rows: all of its values are decoded, as in a [`shardmill_formats::tar::samples::WebDatasetFile`].

use super::{FileCheck, Layout, Problem, Rule, VerifyOptions, report_image};
use crate::Result;
use crate::archive::{Archive, Found};
use crate::error::reason;
use crate::image_header::ImageBytes;
use crate::json::json_text;
use crate::source::keys::{list_at, read_object, sample_id};
use crate::source::named_keys::{NamedKeys, no_sample};
use crate::source::tokens::{Unresolved, content_type, stem};
use serde_json::{Map, Value};
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_formats::tar::Member;
use shardmill_formats::tar::samples::WebDatasetFile;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The first keys that the sink writes into each JSON.
const WRITTEN_KEYS: [&str; 3] = ["sample_id", "texts", "images"];
/// Number of samples that are checked for the writer of the file.
const SAMPLES_ASKED: usize = 16;

pub(super) fn verify_tar(path: &str, options: &VerifyOptions, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let Some(archive) = check.readable(Archive::examined(path, options.ignore_zeros)?) else { return Ok(()) };
    for damage in archive.damage.iter().chain(&archive.unreadable) {
        let problem = Problem::new(Rule::Readable, &damage.reason);
        check.report(Problem { member: damage.member.clone(), offset: Some(damage.offset), ..problem });
    }
    if options.layout == Layout::Auto && !has_document(&archive, options, cancel)? {
        return verify_rows(&archive, options, cancel, check);
    }
    TarCheck::new(&archive, options, check).run(cancel)
}

/// Whether a sample has one of the lists of an interleaved document.
fn has_document(archive: &Archive, options: &VerifyOptions, cancel: &Cancel) -> Result<bool> {
    for index in options.keys.documents(archive, DecodeLimit::default()) {
        cancel.check()?;
        let object = archive.members.get(index).map(|member| read_object(archive, member, DecodeLimit::default()));
        if object.is_some_and(|object| object.is_ok_and(|object| options.keys.has_lists(&object))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decodes all rows of a WebDataset whose samples are rows.
fn verify_rows(archive: &Archive, options: &VerifyOptions, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    check.is_written = Some(false);
    if archive.damage.is_some() || !archive.unreadable.is_empty() {
        return Ok(());
    }
    let file = match WebDatasetFile::open(Arc::clone(&archive.object), options.ignore_zeros, DecodeLimit::default()) {
        Ok(file) => file,
        Err(error) => {
            check.report(Problem::new(Rule::Structure, reason(&error)));
            return Ok(());
        }
    };
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    for (number, block) in file.blocks().iter().enumerate() {
        cancel.check()?;
        check.samples += block.rows;
        check.rows.other += block.rows;
        if let Err(error) = file.read(number, &columns, None) {
            check.report(Problem::new(Rule::Readable, reason(&error)));
        }
    }
    Ok(())
}

struct TarCheck<'a> {
    archive: &'a Archive,
    options: &'a VerifyOptions,
    check: &'a mut FileCheck,
    /// Indices of the documents.
    documents: Vec<usize>,
    is_written: bool,
    named: NamedKeys,
    /// How many entries name each member, and its pages once it was checked.
    uses: HashMap<usize, u64>,
    pages: HashMap<usize, Option<usize>>,
    ids: HashSet<String>,
    /// Names of broken samples, whose images are not reported as unreferenced.
    broken: Vec<&'a str>,
}

/// A sample while it is checked.
struct Sample<'a> {
    member: &'a Member,
    name: &'a str,
    object: Map<String, Value>,
}

impl<'a> TarCheck<'a> {
    fn new(archive: &'a Archive, options: &'a VerifyOptions, check: &'a mut FileCheck) -> Self {
        let named = NamedKeys::of_samples(&options.keys);
        let (uses, pages, ids, broken) = (HashMap::new(), HashMap::new(), HashSet::new(), Vec::new());
        let documents = options.keys.documents(archive, DecodeLimit::default());
        let mut tar = Self { archive, options, check, documents, is_written: false, named, uses, pages, ids, broken };
        tar.is_written = match options.layout {
            Layout::Auto => tar.samples().into_iter().take(SAMPLES_ASKED).any(|member| {
                read_object(archive, member, DecodeLimit::default())
                    .is_ok_and(|object| object.keys().zip(WRITTEN_KEYS).filter(|(key, written)| key == written).count() == 3)
            }),
            layout => layout == Layout::Written,
        };
        tar.check.is_written = Some(tar.is_written);
        tar
    }

    fn samples(&self) -> Vec<&'a Member> {
        self.documents.iter().filter_map(|index| self.archive.members.get(*index)).collect()
    }

    fn run(mut self, cancel: &Cancel) -> Result<()> {
        self.names();
        for member in self.samples() {
            cancel.check()?;
            self.sample(member);
        }
        self.leftovers();
        Ok(())
    }

    /// A repeated name makes a member ambiguous.
    fn names(&mut self) {
        for member in &self.archive.members {
            if let Found::Several(first, _) = self.archive.find(&member.name)
                && first.offset != member.offset
            {
                let what = format!("it hides another member of the same name, `{}` at byte {}", first.name, first.offset);
                self.check.report(Problem::new(Rule::Structure, what).at_member(&member.name, member.offset));
            }
        }
    }

    fn sample(&mut self, member: &'a Member) {
        let name = stem(&member.name);
        self.check.samples += 1;
        let object = match read_object(self.archive, member, DecodeLimit::default()) {
            Ok(object) => object,
            Err(what) => {
                self.broken.push(member.name.strip_suffix(".json").unwrap_or(&member.name));
                self.check.report(Problem::new(Rule::Json, what).of_sample(name).at_member(&member.name, member.offset));
                return;
            }
        };
        self.named.observe(&object);
        if !self.is_written {
            for (field, option) in [(&self.options.keys.texts_field, "texts_field"), (&self.options.keys.images_field, "images_field")] {
                if let Err(what) = list_at(&object, field, option) {
                    self.check.report(Problem::new(Rule::Structure, what).of_sample(name).at_member(&member.name, member.offset));
                }
            }
        }
        let sample = Sample { member, name, object };
        self.check.rows.metadata += 1;
        let [texts, images] = [&self.options.keys.texts_field, &self.options.keys.images_field].map(|field| sample.list(field));
        self.check.rows.text += texts.iter().filter(|text| !text.is_null()).count() as u64;
        self.check.rows.image += images.iter().filter(|image| !image.is_null()).count() as u64;
        let id = self.id(&sample);
        if !self.ids.insert(id.clone()) {
            self.check.duplicate_sample_ids += 1;
        }
        if self.is_written {
            self.written(&sample, texts, images);
        }
        if self.options.is_renumbered {
            self.renumbered(&sample, texts, images);
        }
        self.images(&sample, &id, images);
    }

    fn id(&self, sample: &Sample<'_>) -> String {
        let field = if self.is_written { Some("sample_id") } else { self.options.keys.sample_id_field.as_deref() };
        sample_id(&sample.object, field, &sample.member.name)
    }

    /// The rules for the JSON of a written sample.
    fn written(&mut self, sample: &Sample<'_>, texts: &[Value], images: &[Value]) {
        if sample.object.get("sample_id").is_none_or(Value::is_null) {
            self.check.report(sample.problem(Rule::Structure, "the JSON has no `sample_id`"));
        }
        for field in [&self.options.keys.texts_field, &self.options.keys.images_field] {
            if !sample.object.get(field).is_some_and(Value::is_array) {
                self.check.report(sample.problem(Rule::Structure, format!("`{field}` is not a list")));
                return;
            }
        }
        if texts.len() != images.len() {
            let what = format!("the lists have {} texts and {} images, not the same length", texts.len(), images.len());
            self.check.report(sample.problem(Rule::Structure, what));
        }
    }

    fn renumbered(&mut self, sample: &Sample<'_>, texts: &[Value], images: &[Value]) {
        let filled = |list: &[Value], index: usize| list.get(index).is_some_and(|value| !value.is_null());
        for index in 0..texts.len().max(images.len()) {
            let what = match (filled(texts, index), filled(images, index)) {
                (true, true) => format!("index {index} is filled in both lists although positions were renumbered"),
                (false, false) => format!("index {index} is empty in both lists although positions were renumbered"),
                _ => continue,
            };
            self.check.report(sample.problem(Rule::Ordering, &what));
            return self.check.report(sample.problem(Rule::Structure, what));
        }
    }

    fn images(&mut self, sample: &Sample<'a>, id: &str, images: &[Value]) {
        let tokens: Vec<&Value> = images.iter().filter(|token| !token.is_null()).collect();
        let keys = &self.options.keys;
        let scope = keys.scope(self.archive, sample.member, id, keys.image_member(&sample.object));
        let mut entries: Vec<(usize, &Member, u64)> = Vec::new();
        for token in &tokens {
            let found = match (self.is_written, token.as_str()) {
                (true, name) => match name.map_or(Found::None, |name| self.archive.find(name)) {
                    Found::One(index, member) => Ok((index, member)),
                    Found::None => Err(Unresolved::Missing),
                    Found::Several(first, second) => Err(Unresolved::Ambiguous(first, second)),
                },
                (false, name) => scope.resolve(name, tokens.len() == 1),
            };
            let (index, member) = match found {
                Ok(found) => found,
                // Members with the same name were reported separately.
                Err(Unresolved::OfOneName(..)) => continue,
                Err(unresolved) => {
                    let name = token.as_str().map_or_else(|| json_text(token), str::to_owned);
                    self.check.report(sample.problem(Rule::Structure, unresolved.text(&name)));
                    continue;
                }
            };
            *self.uses.entry(index).or_default() += 1;
            match entries.iter_mut().find(|(other, ..)| *other == index) {
                Some((.., uses)) => *uses += 1,
                None => entries.push((index, member, 1)),
            }
            if self.is_written && !belongs(&member.name, &sample.member.name) {
                let what = format!("entry `{}` is an image of another sample", member.name);
                self.check.report(sample.problem(Rule::Structure, what));
            }
        }
        for (index, member, uses) in entries {
            self.image(sample, index, member, uses);
        }
    }

    /// Checks the header of one member, and whether it has as many pages as the sample has entries for it.
    fn image(&mut self, sample: &Sample<'_>, index: usize, member: &Member, entries: u64) {
        let pages = match self.pages.get(&index) {
            Some(pages) => *pages,
            None => {
                let range = member.offset..member.offset + member.size;
                let place = |problem: Problem| problem.of_sample(sample.name).at_member(&member.name, member.offset);
                let pages = report_image(ImageBytes::Member(&*self.archive.object, &range), self.check, place);
                self.pages.insert(index, pages);
                pages
            }
        };
        let is_paged = content_type(&member.name) == "image/tiff";
        if let Some(pages) = pages
            && is_paged
            && pages as u64 != entries
        {
            let what = format!("the TIFF has {pages} pages, the sample has {entries} entries for them");
            self.check.report(Problem::new(Rule::Image, what).of_sample(sample.name).at_member(&member.name, member.offset));
        }
    }

    /// Reports members that no sample names, and in a written tar those that several entries name.
    fn leftovers(&mut self) {
        if self.check.samples == 0 && !self.archive.members.is_empty() {
            self.check.report(Problem::new(Rule::Structure, no_sample(&self.archive.members, &self.options.keys)));
        }
        self.named.pass(self.archive.members.len() - self.documents.len());
        for absent in self.named.absent().collect::<Vec<_>>() {
            self.check.report(Problem::new(Rule::Structure, absent.to_string()));
        }
        for (member, fault) in self.archive.lost.values() {
            self.check.report(Problem::new(Rule::Structure, fault.to_string()).at_member(&member.name, member.offset));
        }
        for (index, member) in self.archive.members.iter().enumerate() {
            if self.documents.binary_search(&index).is_ok() {
                continue;
            }
            let uses = self.uses.get(&index).copied().unwrap_or_default();
            self.check.unreferenced_members += u64::from(uses == 0);
            let is_of_broken = self.broken.iter().any(|sample| member.name.strip_prefix(sample).is_some_and(|rest| rest.starts_with('.')));
            let is_hidden = matches!(self.archive.find(&member.name), Found::Several(..));
            if !self.is_written || uses == 1 || is_of_broken || is_hidden {
                continue;
            }
            let what = if uses == 0 { "no sample names this member".to_owned() } else { format!("{uses} entries name this member") };
            self.check.report(Problem::new(Rule::Structure, what).at_member(&member.name, member.offset));
        }
    }
}

impl Sample<'_> {
    fn list(&self, field: &str) -> &[Value] {
        self.object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn problem(&self, rule: Rule, what: impl Into<String>) -> Problem {
        Problem::new(rule, what).of_sample(self.name).at_member(&self.member.name, self.member.offset)
    }
}

/// `s.0.png` belongs to `s.json`, and `s.1.0.png` to `s.1.json`: the exact stem, then a dot.
fn belongs(image: &str, json: &str) -> bool {
    let sample = json.strip_suffix(".json").unwrap_or(json);
    image.strip_prefix(sample).is_some_and(|rest| rest.starts_with('.'))
}
