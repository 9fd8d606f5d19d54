//! The samples of an archive, from its headers: their keys, and the positions of their parts.
//!
//! Members are added in the order of the archive. Offsets refer to the decompressed archive.

use super::Error;
use super::key::{KEY, is_meta, split};
use crate::limit::DecodeLimit;
use crate::tar::{
    ArchiveEnd, Entry, LinkFault, Links, Member, Role, TarError, Target, role, walk_members,
};
use arrow_buffer::Buffer;
use shardmill_storage::RangeRead;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Maximal number of bytes that a walk reads together when headers are close to each other.
const MAX_WINDOW_BYTES: u64 = 256 << 10;

/// One member of a sample. A link has the place of the file that it points to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Index in [`Index::extensions`].
    pub(super) extension: usize,
    pub(super) offset: u64,
    pub(super) size: u64,
}

#[derive(Debug)]
pub(super) struct Index {
    /// In byte order.
    pub(super) extensions: Vec<String>,
    parts: Vec<Part>,
    /// For each sample, the end of its key in `keys`, and of its parts in `parts`.
    ends: Vec<(usize, usize)>,
    keys: Buffer,
    /// Parts that are links, by their number.
    links: BTreeMap<usize, LinkPart>,
    pub(super) digest: u128,
}

/// A part whose bytes are not at its own place in the archive.
#[derive(Debug)]
struct LinkPart {
    /// Where its bytes would be if it were a file.
    place: u64,
    fault: Option<LinkFault>,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn parts_of(&self, sample: usize) -> &[Part] {
        self.parts.get(part_range(&self.ends, sample)).unwrap_or_default()
    }

    /// Why a part cannot be read, with the offset of its link.
    pub(super) fn fault(&self, sample: usize, part: usize) -> Option<(u64, &LinkFault)> {
        let link = self.links.get(&(part_range(&self.ends, sample).start + part))?;
        link.fault.as_ref().map(|fault| (link.place, fault))
    }

    /// Bytes of the archive from the first part of some samples to the end of their last part.
    /// Links count at their own places.
    pub(super) fn span(&self, samples: &Range<usize>) -> u64 {
        let parts = part_range(&self.ends, samples.start).start
            ..part_range(&self.ends, samples.end.saturating_sub(1)).end;
        let place = |number: usize| match self.links.get(&number) {
            Some(link) => link.place..link.place,
            None => self
                .parts
                .get(number)
                .map_or(0..0, |part| part.offset..part.offset.saturating_add(part.size)),
        };
        parts
            .end
            .checked_sub(1)
            .map_or(0, |last| place(last).end.saturating_sub(place(parts.start).start))
    }

    /// For each sample, the number of bytes that links point to in all samples before it; empty if
    /// there are no links.
    pub(super) fn linked_before(&self) -> Vec<u64> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let mut before = vec![0_u64];
        for sample in 0..self.len() {
            let sizes = self
                .links
                .range(part_range(&self.ends, sample))
                .filter_map(|(number, _)| Some(self.parts.get(*number)?.size));
            before
                .push(sizes.fold(before.last().copied().unwrap_or_default(), u64::saturating_add));
        }
        before
    }

    /// Range in [`Index::keys`] of the keys from the first to the last sample.
    pub(super) fn key_range(&self, sample: usize) -> Range<usize> {
        let start = sample
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |(end, _)| *end);
        start..self.ends.get(sample).map_or(start, |(end, _)| *end)
    }

    pub(super) fn keys(&self) -> &Buffer {
        &self.keys
    }

    pub(super) fn key(&self, sample: usize) -> &str {
        self.keys
            .as_slice()
            .get(self.key_range(sample))
            .and_then(|key| std::str::from_utf8(key).ok())
            .unwrap_or_default()
    }

    /// The name of a part for messages; its extension is lower case here.
    pub(super) fn name(&self, sample: usize, part: &Part) -> String {
        format!(
            "{}.{}",
            self.key(sample),
            self.extensions.get(part.extension).map_or("", String::as_str)
        )
    }
}

/// Groups members into samples.
pub(super) struct Grouping {
    path: String,
    numbers: HashMap<String, usize>,
    parts: Vec<Part>,
    ends: Vec<(usize, usize)>,
    keys: Vec<u8>,
    /// The last sample of each key, by the hash of the key.
    samples: HashMap<u128, usize>,
    /// All names of the archive, and the parts whose files are found at the end.
    names: Links,
    links: Vec<(usize, Target)>,
    /// The earlier sample with the same key as the open one, and the first member of the open one:
    /// until both have a member with the same extension.
    torn: Option<(usize, Member)>,
    hash: Xxh3,
    limit: DecodeLimit,
}

impl Grouping {
    /// `limit` bounds the memory for the members.
    pub(super) fn new(path: &str, limit: DecodeLimit) -> Self {
        let (numbers, parts, ends, keys, samples) =
            (HashMap::new(), Vec::new(), Vec::new(), Vec::new(), HashMap::new());
        let (names, links, hash) = (Links::default(), Vec::new(), Xxh3::new());
        Self {
            path: path.to_owned(),
            numbers,
            parts,
            ends,
            keys,
            samples,
            names,
            links,
            torn: None,
            hash,
            limit,
        }
    }

    /// Adds the next entry.
    fn add(&mut self, entry: &Entry) -> Result<(), Error> {
        let Some(target) = self.names.note(entry) else { return Ok(()) };
        let kept = self.parts.len() * size_of::<Part>()
            + self.ends.len() * size_of::<(usize, usize)>()
            + self.keys.len();
        let kept = self.names.bytes().saturating_add(kept as u64);
        self.limit.check(&self.path, kept, "the names of its members take", || {
            format!("`{}`", entry.name())
        })?;
        match entry {
            Entry::File(member) => self.add_member(member, None),
            Entry::Link(link) => self.add_member(&link.member, Some((&link.target, target))),
            Entry::Directory(_) => Ok(()),
        }
    }

    fn add_member(&mut self, member: &Member, link: Option<(&str, Target)>) -> Result<(), Error> {
        if is_meta(&member.name) || role(&member.name, &[]) == Role::Foreign {
            return Ok(());
        }
        let Some((key, extension)) = split(&member.name) else { return Ok(()) };
        for word in [member.offset, member.size, member.name.len() as u64] {
            self.hash.update(&word.to_le_bytes());
        }
        self.hash.update(member.name.as_bytes());
        if let Some((target, _)) = &link {
            self.hash.update(target.as_bytes());
        }
        if self.open_key() != Some(key.as_bytes()) {
            self.close()?;
            let earlier = self.samples.insert(xxh3_128(key.as_bytes()), self.ends.len());
            self.torn = earlier.map(|earlier| (earlier, member.clone()));
            self.keys.extend_from_slice(key.as_bytes());
            self.ends.push((self.keys.len(), self.parts.len()));
        }
        let extension = extension.to_lowercase();
        let known = self.numbers.len();
        let number = *self.numbers.entry(extension.clone()).or_insert(known);
        let path = || self.path.clone();
        let first =
            self.open_parts().iter().find(|part| part.extension == number).map(|part| part.offset);
        if extension == KEY || first.is_some() {
            return Err(Error::RepeatedExtension {
                path: path(),
                member: member.name.clone(),
                offset: member.offset,
                extension,
                first,
            });
        }
        if self.torn.as_ref().is_some_and(|(earlier, _)| {
            self.parts_of(*earlier).iter().any(|part| part.extension == number)
        }) {
            self.torn = None;
        }
        self.links.extend(link.map(|(_, target)| (self.parts.len(), target)));
        self.parts.push(Part { extension: number, offset: member.offset, size: member.size });
        if let Some((_, end)) = self.ends.last_mut() {
            *end = self.parts.len();
        }
        Ok(())
    }

    /// Handles a result of the walk. A member that cannot be read would be missing from its sample.
    pub(super) fn take(&mut self, walked: Result<Option<Entry>, TarError>) -> Result<(), Error> {
        match walked {
            Ok(Some(entry)) => self.add(&entry),
            Ok(None) => Ok(()),
            Err(source) => Err(Error::Archive { path: self.path.clone(), source }),
        }
    }

    /// Called at the end of the walk.
    pub(super) fn end(&self, end: ArchiveEnd) -> Result<(), Error> {
        if end.is_sound() {
            self.close()
        } else {
            Err(Error::NoEnd { path: self.path.clone(), end })
        }
    }

    /// A repeated key is a new sample if it repeats an extension of the earlier one, as in the
    /// `webdataset` package. Otherwise the two are parts of one sample.
    fn close(&self) -> Result<(), Error> {
        let Some((earlier, member)) = &self.torn else { return Ok(()) };
        let key = split(&member.name).map_or("", |(key, _)| key).to_owned();
        let first = self.parts_of(*earlier).first().map_or(0, |part| part.offset);
        Err(Error::TornSample {
            path: self.path.clone(),
            member: member.name.clone(),
            offset: member.offset,
            key,
            first,
        })
    }

    fn parts_of(&self, sample: usize) -> &[Part] {
        self.parts.get(part_range(&self.ends, sample)).unwrap_or_default()
    }

    fn open_key(&self) -> Option<&[u8]> {
        let (end, _) = *self.ends.last()?;
        let start = self.ends.iter().rev().nth(1).map_or(0, |(end, _)| *end);
        self.keys.get(start..end)
    }

    fn open_parts(&self) -> &[Part] {
        let start = self.ends.iter().rev().nth(1).map_or(0, |(_, end)| *end);
        self.parts.get(start..).unwrap_or_default()
    }

    /// Gives parts that are links the places of their files, and removes those
    /// that point to directories.
    fn follow_links(&mut self) -> BTreeMap<usize, LinkPart> {
        let (mut links, mut directories) = (BTreeMap::new(), Vec::new());
        for (number, target) in std::mem::take(&mut self.links) {
            let file = self.names.file(&target);
            let (Some(part), Some(kept)) =
                (self.parts.get_mut(number), number.checked_sub(directories.len()))
            else {
                continue;
            };
            let place = part.offset;
            let fault = match file {
                Ok(Some((offset, size))) => {
                    (part.offset, part.size) = (offset, size);
                    None
                }
                Ok(None) => {
                    directories.push(number);
                    continue;
                }
                Err(fault) => Some(fault),
            };
            links.insert(kept, LinkPart { place, fault });
        }
        if !directories.is_empty() {
            self.leave_out(&directories);
        }
        links
    }

    /// Removes parts, whose numbers ascend, and samples that have no other part.
    fn leave_out(&mut self, numbers: &[usize]) {
        let (mut ends, mut keys) =
            (Vec::with_capacity(self.ends.len()), Vec::with_capacity(self.keys.len()));
        let (mut key_start, mut part_end) = (0, 0);
        for (key_end, end) in &self.ends {
            let end = end - numbers.partition_point(|number| number < end);
            if end > part_end {
                keys.extend_from_slice(self.keys.get(key_start..*key_end).unwrap_or_default());
                ends.push((keys.len(), end));
                part_end = end;
            }
            key_start = *key_end;
        }
        let mut number = 0..;
        self.parts.retain(|_| {
            number.next().is_some_and(|number| numbers.binary_search(&number).is_err())
        });
        (self.ends, self.keys) = (ends, keys);
        let used: HashSet<usize> = self.parts.iter().map(|part| part.extension).collect();
        self.numbers.retain(|_, number| used.contains(number));
    }

    pub(super) fn finish(mut self) -> Index {
        let links = self.follow_links();
        let mut places = vec![0; self.numbers.values().max().map_or(0, |last| last + 1)];
        let mut extensions: Vec<(String, usize)> = self.numbers.into_iter().collect();
        extensions.sort_unstable();
        for (place, (_, number)) in extensions.iter().enumerate() {
            if let Some(slot) = places.get_mut(*number) {
                *slot = place;
            }
        }
        for part in &mut self.parts {
            part.extension = places.get(part.extension).copied().unwrap_or_default();
        }
        let extensions = extensions.into_iter().map(|(extension, _)| extension).collect();
        Index {
            extensions,
            parts: self.parts,
            ends: self.ends,
            keys: Buffer::from_vec(self.keys),
            links,
            digest: self.hash.digest128(),
        }
    }
}

/// Numbers of the parts of a sample.
fn part_range(ends: &[(usize, usize)], sample: usize) -> Range<usize> {
    let start =
        sample.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |(_, end)| *end);
    start..ends.get(sample).map_or(start, |(_, end)| *end)
}

/// Walks an uncompressed archive.
pub(super) fn index(
    object: &dyn RangeRead,
    ignores_zeros: bool,
    limit: DecodeLimit,
) -> Result<Index, Error> {
    let mut grouping = Grouping::new(object.path(), limit);
    let end = walk_members(object, ignores_zeros, MAX_WINDOW_BYTES, |_, step| {
        grouping.take(step).map(ControlFlow::Continue)
    })?;
    grouping.end(end.unwrap_or(ArchiveEnd::Missing { offset: object.size() }))?;
    Ok(grouping.finish())
}
