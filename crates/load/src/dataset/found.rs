//! Finds the files of a data set below paths, and lists those that are skipped.
//!
//! The invariant: every file below the paths is a file of the data set, is listed as skipped, or is
//! an error; a file counts once, or as often as it was named.

use super::format::signature_of;
use super::mds::DirectoryIndex;
use super::text_shards::text_shards;
use super::token_pairs::{index_of, listing_of_pair, pairs};
use super::{Format, MdsShards};
use crate::{Error, Result};
use shardmill_documents::source::tokens::content_type;
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::signature::Signature;
use shardmill_plan::{DataFile, SideCar, listing};
use shardmill_storage::{AnyStore, RealNames, Store, is_remote};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Threads that usually wait for a store.
pub(super) const REQUESTING_THREADS: usize = 64;

/// A file that is not part of the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
    /// A side-car file by its name, which is data only if it is named explicitly.
    pub is_side_car: bool,
}

impl From<SideCar> for LeftOut {
    fn from(file: SideCar) -> Self {
        Self { path: file.path, reason: file.reason.to_owned(), is_side_car: !file.is_surprising }
    }
}

/// The files of a data set.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// `None` if there are no files.
    pub(super) format: Option<Format>,
    pub(super) files: Vec<DataFile>,
    pub(super) left_out: Vec<LeftOut>,
    /// Numbers of rows of files, as listed by an index.
    pub(super) samples: HashMap<String, u64>,
}

/// A file that may be data.
struct Candidate {
    file: DataFile,
    /// By its own path, not by that of a directory or a glob.
    is_named: bool,
    /// The format according to an index.
    format: Option<Format>,
    /// The number of the path below which it was found.
    path: usize,
}

/// The data files at or below `paths`, their common format (`format`, or from names and first
/// bytes; `None` if there are no files), and the files that are not part of the data set.
///
/// # Errors
/// For a path that does not exist, and files of several or unknown formats.
pub fn files_of_one_format(
    paths: &[String],
    format: Option<Format>,
) -> Result<(Option<Format>, Vec<DataFile>, Vec<LeftOut>)> {
    let found = find_files(paths, format, &mut MdsShards::default())?;
    Ok((found.format, found.files, found.left_out))
}

/// As [`files_of_one_format`], with the skipped files; the entries of MDS indexes are
/// added to `shards`.
pub(super) fn find_files(
    paths: &[String],
    format: Option<Format>,
    shards: &mut MdsShards,
) -> Result<Found> {
    let mut found = Found::default();
    let mut candidates = Candidates::default();
    let mut is_indexed = false;
    for (number, path) in paths.iter().enumerate() {
        let index = if matches!(format, None | Some(Format::Mds | Format::Jsonl)) {
            DirectoryIndex::of(path)?
        } else {
            None
        };
        if let Some(index) = &index
            && format != Some(Format::Jsonl)
            && let Some(files) = shards.list(index)?
        {
            is_indexed = true;
            found.leave_out_unlisted(path, &files);
            candidates.add(number, files, false, Some(Format::Mds));
            continue;
        }
        if let Some(index) = &index
            && format != Some(Format::Mds)
            && let Some(files) = text_shards(index)?
        {
            found
                .samples
                .extend(files.iter().map(|shard| (shard.file.path.clone(), shard.samples)));
            let files: Vec<DataFile> = files.into_iter().map(|shard| shard.file).collect();
            found.leave_out_unlisted(path, &files);
            candidates.add(number, files, false, Some(Format::Jsonl));
            continue;
        }
        let listed = listing_of_pair(path)?;
        listed.refuse_lake(path)?;
        found.left_out.extend(listed.side_cars.into_iter().map(LeftOut::from));
        candidates.add(number, listed.files, listed.is_named, None);
    }
    let mut candidates = candidates.files;
    if matches!(format, None | Some(Format::Megatron)) {
        let may_be_tokens: Vec<&mut Candidate> = candidates
            .iter_mut()
            .filter(|candidate| {
                candidate.format.is_none() && index_of(&candidate.file.path).is_some()
            })
            .collect();
        mark_pairs(may_be_tokens, &found.left_out)?;
    }
    // A file skipped below one path may be named by another one.
    let read: HashSet<&str> =
        candidates.iter().map(|candidate| candidate.file.path.as_str()).collect();
    found.left_out.retain(|file| !read.contains(file.path.as_str()));
    if candidates.is_empty() {
        found.format = is_indexed.then_some(Format::Mds).filter(|_| format.is_none());
        return Ok(found);
    }
    match format {
        Some(format) => choose(format, candidates, &mut found, paths)?,
        None => agree(candidates, &mut found, paths)?,
    }
    Ok(found)
}

/// Files in the order of the paths.
#[derive(Default)]
struct Candidates {
    files: Vec<Candidate>,
    names: RealNames,
    /// Files that were found, and those of them that were also named.
    found: HashSet<String>,
    named: HashSet<String>,
}

impl Candidates {
    /// A file found again below another path, or by another link, counts once; a file named again
    /// counts again. Shards of an index count as often as it lists them.
    fn add(&mut self, path: usize, files: Vec<DataFile>, is_named: bool, format: Option<Format>) {
        for file in files {
            let name = if format.is_some() {
                self.names.of(&file.path)
            } else {
                self.names.target_of(&file.path)
            };
            let is_new = if is_named {
                // A file that was found and is then named for the first time counts once.
                let is_first = self.named.insert(name.clone());
                !(is_first && self.found.contains(&name))
            } else {
                !self.named.contains(&name) && self.found.insert(name)
            };
            if is_new {
                self.files.push(Candidate { file, is_named, format, path });
            }
        }
    }
}

/// Tells which of these are files of tokens with an index beside them.
fn mark_pairs(candidates: Vec<&mut Candidate>, left_out: &[LeftOut]) -> Result<()> {
    if candidates.is_empty() {
        return Ok(());
    }
    let listed: HashSet<&str> = left_out.iter().map(|file| file.path.as_str()).collect();
    let paths: Vec<&str> =
        candidates.iter().map(|candidate| candidate.file.path.as_str()).collect();
    let found = pairs(&paths, |path| listed.contains(path), REQUESTING_THREADS)?;
    for (candidate, is_pair) in candidates.into_iter().zip(found) {
        if is_pair {
            candidate.format = Some(Format::Megatron);
        }
    }
    Ok(())
}

/// A file that is named, or that an index lists, is read. From a directory or a glob, the files
/// with an extension of the format are read; if there are none, those without a known extension.
fn choose(
    format: Format,
    candidates: Vec<Candidate>,
    found: &mut Found,
    paths: &[String],
) -> Result<()> {
    let by_name = |candidate: &Candidate| {
        let path = &candidate.file.path;
        if format.may_be(path) { Some(format) } else { Format::of(path) }
    };
    let is_meant = |candidate: &Candidate| candidate.is_named || candidate.format.is_some();
    let has_extension = |candidate: &&Candidate| {
        !candidate.is_named && by_name(candidate).or(candidate.format) == Some(format)
    };
    let with_extension: HashSet<usize> =
        candidates.iter().filter(has_extension).map(|candidate| candidate.path).collect();
    let mut other = None;
    for candidate in candidates {
        match by_name(&candidate) {
            _ if is_meant(&candidate) => found.files.push(candidate.file),
            Some(own) if own == format => found.files.push(candidate.file),
            None if !with_extension.contains(&candidate.path) => found.files.push(candidate.file),
            None => {
                let reason = format!(
                    "its name does not have the extension of {0} files, and other files \
                     of the directory do",
                    format.name()
                );
                found.leave_out(candidate.file.path, reason);
            }
            Some(Format::Csv) if format == Format::Npy => found.left_out.push(LeftOut {
                path: candidate.file.path,
                reason: "it says where the documents of another file are".to_owned(),
                is_side_car: true,
            }),
            Some(own) => {
                other.get_or_insert(own);
                found.leave_out(
                    candidate.file.path,
                    format!(
                        "its name is that of a {} file, but format=\"{}\" is set",
                        own.name(),
                        format.name()
                    ),
                );
            }
        }
    }
    match other {
        Some(other) if found.files.is_empty() => Err(Error::OtherFormat {
            paths: paths.join(", "),
            wanted: format.name(),
            found: other.name(),
        }),
        _ => {
            found.format = Some(format);
            Ok(())
        }
    }
}

/// The common format of all files.
fn agree(candidates: Vec<Candidate>, found: &mut Found, paths: &[String]) -> Result<()> {
    let signatures = signatures(&candidates)?;
    let mut known: Vec<(Candidate, Format)> = Vec::with_capacity(candidates.len());
    let mut arrow = None;
    for candidate in candidates {
        let by_name = candidate.format.or_else(|| Format::of(&candidate.file.path));
        let signature = signatures.get(&candidate.file.path);
        match by_name.or_else(|| {
            signature.and_then(|signature| Format::of_signature(signature.as_ref().ok().copied()?))
        }) {
            Some(format) => known.push((candidate, format)),
            None => match signature {
                Some(Err(error)) if candidate.is_named => return Err(error.clone()),
                Some(Err(error)) => found.leave_out(candidate.file.path, error.to_string()),
                signature => {
                    let looks = signature
                        .and_then(|signature| signature.as_ref().ok())
                        .map_or("binary data", |signature| signature.name());
                    let is_meant = candidate.is_named
                        || [".arrow", ".feather", ".ipc"]
                            .iter()
                            .any(|extension| has_extension(&candidate, extension));
                    if is_meant && looks.starts_with("an Arrow") {
                        arrow.get_or_insert_with(|| candidate.file.path.clone());
                    }
                    if candidate.is_named && arrow.is_none() {
                        let path = candidate.file.path;
                        return Err(if is_image(&path) {
                            Error::ImageFile { path }
                        } else {
                            Error::UnknownContents { path, found: looks }
                        });
                    }
                    found.leave_out(
                        candidate.file.path,
                        format!(
                            "its name has no known extension, and its first bytes look like {looks}"
                        ),
                    );
                }
            },
        }
    }
    // Files with only the extension `.json` among others are taken for descriptions of these.
    let describes = |candidate: &Candidate| {
        !candidate.is_named && candidate.format.is_none() && has_extension(candidate, ".json")
    };
    // As `save_to_disk` of Hugging Face writes them.
    if let Some(path) = arrow.filter(|_| known.iter().all(|(candidate, _)| describes(candidate))) {
        return Err(Error::ArrowFile { path });
    }
    if known.iter().any(|(_, format)| *format != Format::Jsonl) {
        let (others, kept): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|(candidate, _)| describes(candidate));
        for (candidate, _) in others {
            found.leave_out(
                candidate.file.path,
                "a .json file beside files of another format describes them".to_owned(),
            );
        }
        known = kept;
    }
    let Some(format) = known.first().map(|(_, format)| *format) else {
        return Err(match found.left_out.iter().find(|file| is_image(&file.path)) {
            Some(image) => Error::ImageFile { path: image.path.clone() },
            None => Error::UnknownFormat { paths: paths.join(", ") },
        });
    };
    if known.iter().any(|(_, other)| *other != format) {
        return Err(mixed_formats(&known));
    }
    found.format = Some(format);
    found.files = known.into_iter().map(|(candidate, _)| candidate.file).collect();
    Ok(())
}

fn is_image(path: &str) -> bool {
    content_type(path).starts_with("image/")
}

fn has_extension(candidate: &Candidate, extension: &str) -> bool {
    candidate.file.path.to_ascii_lowercase().ends_with(extension)
}

fn mixed_formats(known: &[(Candidate, Format)]) -> Error {
    // Each with its number of files and the first of them, in the order of the files.
    let mut formats: Vec<(Format, usize, &Candidate)> = Vec::new();
    for (candidate, format) in known {
        match formats.iter_mut().find(|(other, ..)| other == format) {
            Some((_, count, _)) => *count += 1,
            None => formats.push((*format, 1, candidate)),
        }
    }
    let counted = formats.iter().map(|(format, count, first)| {
        let files = if *count == 1 { "file" } else { "files, such as" };
        format!("{count} {} {files} `{}`", format.name(), first.file.path)
    });
    let hint = match formats
        .iter()
        .filter(|(.., first)| !first.is_named)
        .max_by_key(|(_, count, _)| *count)
    {
        Some((format, ..)) => format!(
            "format=\"{}\" reads these files only, and so does a glob of their names",
            format.name()
        ),
        None => "read them as separate data sets".to_owned(),
    };
    Error::MixedFormats { counts: counted.collect::<Vec<_>>().join(", "), hint }
}

/// The first bytes of files whose names are inconclusive, with one read each.
fn signatures(candidates: &[Candidate]) -> Result<HashMap<String, Result<Signature>>> {
    let unnamed = |candidate: &&Candidate| {
        candidate.format.is_none() && Format::of(&candidate.file.path).is_none()
    };
    let paths: Vec<String> =
        candidates.iter().filter(unnamed).map(|candidate| candidate.file.path.clone()).collect();
    let threads = if paths.iter().any(|path| is_remote(path)) { REQUESTING_THREADS } else { 1 };
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let (count, asked) = (paths.len(), paths.clone());
    let read = move |number: usize| {
        let read = |path: &String| -> Result<Signature> {
            Ok(signature_of(AnyStore.open(path)?.as_ref())?)
        };
        ControlFlow::Continue(asked.get(number).map(read))
    };
    let read = run_in_order(count, threads.min(count), &Cancel::default(), read)?
        .map(|read| read.map_err(Error::from));
    let read = read.collect::<Result<Vec<_>>>()?;
    Ok(paths
        .into_iter()
        .zip(read)
        .filter_map(|(path, signature)| Some((path, signature?)))
        .collect())
}

impl Found {
    /// Skips files that the index of their directory does not list. In a store listing them would
    /// cost a request, and metadata from a listing would be used when files are opened later.
    fn leave_out_unlisted(&mut self, directory: &str, shards: &[DataFile]) {
        let Some(listed) = (!is_remote(directory)).then(|| listing(directory).ok()).flatten()
        else {
            return;
        };
        let shards: HashSet<&str> = shards.iter().map(|shard| shard.relative.as_str()).collect();
        let others = listed
            .files
            .into_iter()
            .filter(|file| !shards.contains(file.relative.as_str()))
            .map(|file| file.path);
        let unlisted = others.map(|path| LeftOut {
            path,
            reason: "the index of its directory does not list it".to_owned(),
            is_side_car: true,
        });
        self.left_out.extend(unlisted);
        self.left_out.extend(listed.side_cars.into_iter().map(LeftOut::from));
    }

    fn leave_out(&mut self, path: String, reason: String) {
        self.left_out.push(LeftOut { path, reason, is_side_car: false });
    }
}
