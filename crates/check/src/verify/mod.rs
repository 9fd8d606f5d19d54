//! Judges what a walk finds: interleaved documents must follow the rules of their layout.

mod document_order;

use crate::files::FileFormat;
use crate::image_header::{Header, ImageHeader, faults};
use crate::options::{CheckOptions, Layout};
use crate::problem::{Problem, Rule};
use crate::visitor::{Document, FileSummary, Pass, Resolved, Row, Visitor};
use document_order::DocumentOrder;
use serde::Serialize;
use serde_json::{Map, Value};
use shardmill_documents::archive::{Archive, Found};
use shardmill_documents::image_bytes::ImageBytes;
use shardmill_documents::source::keys::{list_at, read_object, sample_id};
use shardmill_documents::source::named_keys::{NamedKeys, no_sample};
use shardmill_documents::source::tokens::{TokenScope, Unresolved, content_type};
use shardmill_documents::source_ref::SourceRef;
use shardmill_formats::arrayrecord::WalkedChunk;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::mds::{FileEntry, HashAlgorithm};
use shardmill_formats::tar::{Compression, Member};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The first keys that the sink writes into each JSON.
const WRITTEN_KEYS: [&str; 3] = ["sample_id", "texts", "images"];
/// Number of readable samples that are checked for their layout.
const SAMPLES_ASKED: usize = 16;

/// The outcome of checking one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    #[serde(flatten)]
    pub file: FileSummary,
    /// Tar only: whether the rules for written tars were applied.
    pub is_written: Option<bool>,
    /// Index only: the number of shards that it lists.
    pub shards: Option<u64>,
    /// Two documents may share an id; filters distinguish them.
    pub duplicate_sample_ids: u64,
    /// Members that no sample names; allowed in a source.
    pub unreferenced_members: u64,
    pub ordering_valid: bool,
    /// Null for anything but a tar.
    pub wds_valid: Option<bool>,
    /// Number of all problems; `problems` lists the first ones.
    pub problem_count: u64,
    pub problems: Vec<Problem>,
    /// What is unusual, and no problem.
    pub notes: Vec<String>,
}

pub(crate) struct Verify<'a> {
    options: &'a CheckOptions,
    check: FileCheck,
    ids: HashSet<String>,
    order: DocumentOrder,
    named: NamedKeys,
    /// How many entries name each member of a tar.
    uses: HashMap<usize, u64>,
    /// Names of broken samples, whose images are not reported as unreferenced.
    broken: Vec<String>,
}

impl Verify<'_> {
    pub(crate) fn finish(self) -> FileCheck {
        self.check
    }

    fn is_written(&self) -> bool {
        self.check.is_written == Some(true)
    }

    fn check_positions(&mut self, document: &Document<'_>) {
        let filled =
            |list: &[Value], index: usize| list.get(index).is_some_and(|value| !value.is_null());
        for index in 0..document.texts.len().max(document.images.len()) {
            let state = match (filled(document.texts, index), filled(document.images, index)) {
                (true, true) => "filled",
                (false, false) => "empty",
                _ => continue,
            };
            let what = format!(
                "index {index} is {state} in both lists although positions were renumbered"
            );
            self.problem(document.problem(Rule::Ordering, &what));
            return self.problem(document.problem(Rule::Structure, what));
        }
    }

    /// Counts a document of this id.
    fn count_id(&mut self, id: &str) {
        if !self.ids.insert(id.to_owned()) {
            self.check.duplicate_sample_ids += 1;
        }
    }
}

impl<'a> Visitor<'a> for Verify<'a> {
    const IS_THOROUGH: bool = true;
    const PASSES: &'static [Pass] = &[Pass {
        columns: &[
            "sample_id",
            "modality",
            "position",
            "binary_content",
            "source_ref",
            "materialize_error",
        ],
        reads_others: true,
        batch_bytes: 16 << 20,
    }];

    fn new(file: FileSummary, options: &'a CheckOptions) -> Self {
        let wds_valid = (file.format == FileFormat::Tar).then_some(true);
        Self {
            options,
            check: FileCheck { file, ordering_valid: true, wds_valid, ..FileCheck::default() },
            ids: HashSet::new(),
            order: DocumentOrder::new(options.is_renumbered),
            named: NamedKeys::of_samples(&options.keys),
            uses: HashMap::new(),
            broken: Vec::new(),
        }
    }

    fn file(&mut self) -> &mut FileSummary {
        &mut self.check.file
    }

    fn problem(&mut self, problem: Problem) {
        // The order of unreadable data is unknown.
        if matches!(problem.rule, Rule::Readable | Rule::Json | Rule::Ordering) {
            self.check.ordering_valid = false;
        }
        if matches!(problem.rule, Rule::Readable | Rule::Json | Rule::Structure)
            && let Some(wds_valid) = &mut self.check.wds_valid
        {
            *wds_valid = false;
        }
        if problem.rule == Rule::Json {
            self.broken.extend(problem.member.clone());
        }
        self.check.problem_count += 1;
        if self.check.problems.len() < self.options.max_problems {
            self.check.problems.push(problem);
        }
    }

    fn note(&mut self, note: String) {
        self.check.notes.push(note);
    }

    /// Counts it, and reports hashes of unsupported algorithms, each algorithm once.
    fn shard(&mut self, files: &[&FileEntry], name: &str) {
        *self.check.shards.get_or_insert_default() += 1;
        let names = files.iter().flat_map(|file| file.hashes.keys());
        let unknown: BTreeSet<&String> =
            names.filter(|name| HashAlgorithm::parse(name).is_none()).collect();
        for algorithm in unknown {
            self.problem(
                Problem::new(
                    Rule::Structure,
                    format!("hash `{algorithm}` cannot be computed here"),
                )
                .at_member(name, 0),
            );
        }
    }

    fn row(&mut self, row: &Row<'_>) {
        let (Some(id), Some(modality), Some(position)) = (row.id, row.modality, row.position)
        else {
            let nulls = [
                ("sample_id", row.id.is_none()),
                ("modality", row.modality.is_none()),
                ("position", row.position.is_none()),
            ];
            let names: Vec<&str> =
                nulls.into_iter().filter(|(_, is_null)| *is_null).map(|(name, _)| name).collect();
            self.problem(
                Problem::new(Rule::Row, format!("{} is null", names.join(", "))).at_row(row.number),
            );
            return self.order.interrupt();
        };
        let place =
            |rule: Rule, what: String| Problem::new(rule, what).of_sample(id).at_row(row.number);
        self.check.file.rows.add(modality);
        let verdict = self.order.row(id, modality, position);
        if verdict.is_new_document {
            self.check.file.samples += 1;
            self.count_id(id);
        }
        if let Some(what) = verdict.problem {
            self.problem(place(Rule::Ordering, what));
        }
        if let Err(error) = SourceRef::parse(row.source_ref) {
            self.problem(place(Rule::Row, error.to_string()));
        }
        let Some(bytes) = row.image else { return };
        if let Some(error) = row.error {
            self.problem(place(
                Rule::Row,
                format!("the row has bytes although it has an error: {error}"),
            ));
        }
        match modality {
            "image" => {}
            "metadata" | "text" => {
                return self.problem(place(Rule::Row, format!("a {modality} row has bytes")));
            }
            // The content of other modalities is not specified.
            _ => return,
        }
        let header = ImageHeader::read(ImageBytes::Memory(bytes), true);
        faults(&header).for_each(|what| self.problem(place(Rule::Image, what.clone())));
        if let Ok(header) = header
            && header.pages.len() != 1
        {
            self.problem(place(
                Rule::Image,
                format!("the image has {} pages, a row has one", header.pages.len()),
            ));
        }
    }

    fn chunk(&mut self, chunk: &WalkedChunk) {
        self.check.file.add_rows(chunk.num_records);
    }

    /// A tar has documents if one of the first that can be read (of all, if a filter wrote them)
    /// has a list of texts or images, or damage hides all members, or the caller names a layout.
    fn archive(&mut self, archive: &Archive, documents: &[usize]) -> bool {
        let members = documents.iter().filter_map(|index| archive.members.get(*index));
        let mut objects =
            members.filter_map(|member| read_object(archive, member, DecodeLimit::default()).ok());
        let first: Vec<_> = objects.by_ref().take(SAMPLES_ASKED).collect();
        let has_lists = |object: &Map<String, Value>| self.options.keys.has_lists(object);
        let is_plain = if archive.members.is_empty() {
            // Nothing is read from this compression; the reader of rows says so.
            archive.compression != Compression::None && archive.damage.is_some()
        } else {
            !(first.iter().any(has_lists)
                || self.options.is_renumbered && objects.any(|object| has_lists(&object)))
        };
        if self.options.layout == Layout::Auto && is_plain {
            return false;
        }
        self.check.is_written = Some(match self.options.layout {
            Layout::Auto => first.iter().any(|object| object.keys().take(3).eq(WRITTEN_KEYS)),
            layout => layout == Layout::Written,
        });
        true
    }

    fn document(&mut self, document: &Document<'_>) {
        let (object, keys, is_written) = (document.object, &self.options.keys, self.is_written());
        self.named.observe(object);
        let id = if is_written {
            sample_id(object, Some("sample_id"), &document.member.name)
        } else {
            document.id.clone()
        };
        self.count_id(&id);
        if is_written && object.get("sample_id").is_none_or(Value::is_null) {
            self.problem(document.problem(Rule::Structure, "the JSON has no `sample_id`"));
        }
        let mut are_lists = true;
        for (field, option) in
            [(&keys.texts_field, "texts_field"), (&keys.images_field, "images_field")]
        {
            if !is_written {
                if let Err(what) = list_at(object, field, option) {
                    self.problem(document.problem(Rule::Structure, what));
                }
            } else if are_lists && !object.get(field).is_some_and(Value::is_array) {
                are_lists = false;
                self.problem(document.problem(Rule::Structure, format!("`{field}` is not a list")));
            }
        }
        let (texts, images) = (document.texts, document.images);
        if is_written && are_lists && texts.len() != images.len() {
            let what = format!(
                "the lists have {} texts and {} images, not the same length",
                texts.len(),
                images.len()
            );
            self.problem(document.problem(Rule::Structure, what));
        }
        if self.options.is_renumbered {
            self.check_positions(document);
        }
    }

    fn resolve<'d>(
        &self,
        scope: &TokenScope<'d>,
        token: Option<&str>,
        is_only: bool,
    ) -> Resolved<'d> {
        if !self.is_written() {
            return scope.resolve(token, is_only);
        }
        match token.map_or(Found::None, |name| scope.archive.find(name)) {
            Found::One(index, member) => Ok((index, member)),
            Found::None => Err(Unresolved::Missing),
            Found::Several(first, second) => Err(Unresolved::Ambiguous(first, second)),
        }
    }

    /// Checks which images the entries name, and whether a TIFF has as many pages as the sample has
    /// entries for it.
    fn images(
        &mut self,
        document: &Document<'_>,
        images: &[(usize, &Member)],
        headers: &HashMap<usize, Header>,
    ) {
        let mut entries: HashMap<usize, usize> = HashMap::new();
        images.iter().for_each(|(index, _)| *entries.entry(*index).or_default() += 1);
        for (index, member) in images {
            *self.uses.entry(*index).or_default() += 1;
            if self.is_written() && !belongs(&member.name, &document.member.name) {
                self.problem(document.problem(
                    Rule::Structure,
                    format!("entry `{}` is an image of another sample", member.name),
                ));
            }
            // Once for each member.
            let Some(entries) = entries.remove(index) else { continue };
            if content_type(&member.name) == "image/tiff"
                && let Some(Ok(header)) = headers.get(index)
                && header.pages.len() != entries
            {
                let what = format!(
                    "the TIFF has {} pages, the sample has {entries} entries for them",
                    header.pages.len()
                );
                self.problem(
                    document.problem(Rule::Image, what).at_member(&member.name, member.offset),
                );
            }
        }
    }

    /// Reports repeated names, members that no sample names, and in a written tar those that
    /// several entries name.
    fn archive_end(&mut self, archive: &Archive, documents: &[usize]) {
        if documents.is_empty() && !archive.members.is_empty() {
            self.problem(Problem::new(
                Rule::Structure,
                no_sample(&archive.members, &self.options.keys),
            ));
        }
        self.named.pass(archive.members.len() - documents.len());
        for absent in self.named.absent().collect::<Vec<_>>() {
            self.problem(Problem::new(Rule::Structure, absent.to_string()));
        }
        for (member, fault) in archive.lost.values() {
            self.problem(
                Problem::new(Rule::Structure, fault.to_string())
                    .at_member(&member.name, member.offset),
            );
        }
        for (index, member) in archive.members.iter().enumerate() {
            let place = |what: String| {
                Problem::new(Rule::Structure, what).at_member(&member.name, member.offset)
            };
            let is_hidden = match archive.find(&member.name) {
                // A repeated name makes a member ambiguous.
                Found::Several(first, _) if first.offset != member.offset => {
                    self.problem(place(format!(
                        "it hides another member of the same name, `{}` at byte {}",
                        first.name, first.offset
                    )));
                    true
                }
                found => matches!(found, Found::Several(..)),
            };
            if documents.binary_search(&index).is_ok() {
                continue;
            }
            let uses = self.uses.get(&index).copied().unwrap_or_default();
            self.check.unreferenced_members += u64::from(uses == 0);
            let is_of_broken = || self.broken.iter().any(|sample| belongs(&member.name, sample));
            if !self.is_written() || uses == 1 || is_hidden || is_of_broken() {
                continue;
            }
            let what = if uses == 0 {
                "no sample names this member".to_owned()
            } else {
                format!("{uses} entries name this member")
            };
            self.problem(place(what));
        }
    }
}

/// `s.0.png` belongs to `s.json`, and `s.1.0.png` to `s.1.json`: the exact stem, then a dot.
fn belongs(image: &str, json: &str) -> bool {
    let sample = json.strip_suffix(".json").unwrap_or(json);
    image.strip_prefix(sample).is_some_and(|rest| rest.starts_with('.'))
}
