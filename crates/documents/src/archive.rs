//! One open tar archive: its members by name, and what is damaged in it.
//!
//! A compressed archive is decompressed once into an unnamed temporary file, so memory stays
//! bounded regardless of the archive. The invariant: a listed member lies completely inside the
//! archive. A name shared by several members is ambiguous.

use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::{
    ArchiveEnd, Compression, Entry, LinkFault, Links, Member, TarError, Target, inflate, normal,
    sniff_compression, walk_members,
};
use shardmill_storage::{
    AnyStore, Error, LocalFile, RangeRead, Result, SequentialRead, Spool, Store,
};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Seek};
use std::ops::ControlFlow;
use std::sync::Arc;

const SNIFF_LEN: usize = 16;
const INFLATE_BUFFER_LEN: usize = 1 << 20;

/// Approximate memory per member, in addition to its name.
const MEMBER_BYTES: u64 = 128;

#[derive(Debug)]
pub struct Archive {
    pub object: Arc<dyn RangeRead>,
    pub path: String,
    /// If there is one, offsets refer to the decompressed copy, and must not be stored.
    pub compression: Compression,
    /// Files. A member that is a link has the place of the file that it points to.
    pub members: Vec<Member>,
    by_name: HashMap<String, Named>,
    /// Where and why reading ended before the end of the archive, or what is wrong with its end.
    pub damage: Option<Damage>,
    /// Members that are complete but cannot be read, e.g. sparse files.
    pub unreadable: Vec<Damage>,
    /// Links that do not point to a file of the archive, by their normal names.
    pub lost: BTreeMap<String, (Member, LinkFault)>,
}

#[derive(Debug, Clone)]
pub struct Damage {
    pub member: Option<String>,
    pub offset: u64,
    pub reason: String,
}

impl Damage {
    fn at(offset: u64, reason: String) -> Self {
        Self { member: None, offset, reason }
    }
}

/// Indices of the members with one name.
#[derive(Debug, Clone, Copy)]
struct Named {
    first: usize,
    /// The next member with the same name.
    second: Option<usize>,
}

/// The members that a name may refer to.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    None,
    One(usize, &'a Member),
    /// Several; these are the first two.
    Several(&'a Member, &'a Member),
}

impl Archive {
    /// As [`Archive::open_with`], for callers that report faults of a file:
    /// the inner error is damage.
    ///
    /// # Errors
    /// When the temporary copy of a compressed archive cannot be written.
    pub fn examined(path: &str, ignores_zeros: bool) -> Result<Result<Self>> {
        match Self::open_with(path, ignores_zeros, DecodeLimit::default()) {
            Err(error @ Error::Stage { .. }) => Err(error),
            opened => Ok(opened),
        }
    }

    /// Members after the first end of the archive are included only with `ignores_zeros`. `limit`
    /// bounds the memory for the members.
    ///
    /// # Errors
    /// When the file cannot be read, or the temporary copy of a compressed one cannot be written.
    /// Damage inside is not an error.
    pub fn open_with(path: &str, ignores_zeros: bool, limit: DecodeLimit) -> Result<Self> {
        Self::over_with(AnyStore.open(path)?, ignores_zeros, limit)
    }

    /// As [`Archive::open_with`], for a file that is already open, with all members
    /// of concatenated archives.
    ///
    /// # Errors
    /// As [`Archive::open_with`].
    pub fn over(object: Arc<dyn RangeRead>) -> Result<Self> {
        Self::over_with(object, true, DecodeLimit::default())
    }

    fn over_with(
        object: Arc<dyn RangeRead>,
        ignores_zeros: bool,
        limit: DecodeLimit,
    ) -> Result<Self> {
        let path = object.path().to_owned();
        let file = Spool::over(object)?;
        let mut prefix = vec![0; SNIFF_LEN.min(usize::try_from(file.size()).unwrap_or(SNIFF_LEN))];
        file.read_at(0, &mut prefix)?;
        let compression = sniff_compression(&prefix);
        let (object, inflate_error) = match compression {
            Compression::None => (file, None),
            _ => inflated(&file, compression)?,
        };
        let (members, by_name) = (Vec::new(), HashMap::new());
        let mut archive = Self {
            object,
            path,
            compression,
            members,
            by_name,
            damage: None,
            unreadable: Vec::new(),
            lost: BTreeMap::new(),
        };
        // A truncated stream still yields complete members. A corrupt one is only detected at the
        // end, so none of its members can be trusted.
        if matches!(inflate_error, None | Some(TarError::TruncatedStream { .. })) {
            archive.walk(ignores_zeros, limit)?;
        }
        archive.damage = match inflate_error {
            Some(TarError::Compression { compression }) => {
                let reason = format!(
                    "the archive is compressed with {compression}, which cannot be read; \
                     compress it with gzip or zstd, or not at all"
                );
                Some(Damage::at(0, reason))
            }
            Some(error) => Some(Damage::at(archive.object.size(), error.to_string())),
            None => archive.damage,
        };
        for (index, member) in archive.members.iter().enumerate() {
            let named = archive
                .by_name
                .entry(normal(&member.name).into_owned())
                .or_insert(Named { first: index, second: None });
            if named.first != index {
                named.second.get_or_insert(index);
            }
        }
        Ok(archive)
    }

    fn walk(&mut self, ignores_zeros: bool, limit: DecodeLimit) -> Result<()> {
        let mut kept = 0_u64;
        let (mut names, mut links) = (Links::default(), Vec::new());
        let object = Arc::clone(&self.object);
        // Most members are images: bytes after a header would be read twice.
        let end = walk_members(&*object, ignores_zeros, 0, |offset, step| {
            match step {
                Ok(Some(entry)) => {
                    let Some(target) = names.note(&entry) else {
                        return Ok(ControlFlow::Continue(()));
                    };
                    kept += MEMBER_BYTES + 2 * entry.name().len() as u64;
                    let place = || format!("`{}`", entry.name());
                    let checked = limit.check(
                        &self.path,
                        kept.saturating_add(names.bytes()),
                        "the names of its members take",
                        place,
                    );
                    if let Err(refusal) = checked {
                        self.damage = Some(Damage::at(offset, refusal.to_string()));
                        return Ok(ControlFlow::Break(()));
                    }
                    match entry {
                        Entry::File(member) => self.members.push(member),
                        Entry::Link(link) => {
                            links.push((self.members.len(), target));
                            self.members.push(link.member);
                        }
                        Entry::Directory(_) => {}
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let (member, offset) = match &error {
                        TarError::Truncated { member, offset, .. } => (member.clone(), *offset),
                        TarError::Unreadable { member, offset, .. } => {
                            (Some(member.clone()), *offset)
                        }
                        _ => (None, offset),
                    };
                    let damage = Damage { member, offset, reason: error.to_string() };
                    if error.ends_walk() {
                        self.damage = Some(damage);
                        return Ok(ControlFlow::Break(()));
                    }
                    self.unreadable.push(damage);
                }
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        self.follow(&names, links);
        if self.damage.is_some() {
            return Ok(());
        }
        let end = end.unwrap_or(ArchiveEnd::Missing { offset: self.object.size() });
        if !end.is_sound() {
            let hint = if matches!(end, ArchiveEnd::Followed { .. }) {
                "; ignore_zeros=True (--ignore-zeros) reads on, as `tar -i`"
            } else {
                ""
            };
            self.damage = Some(Damage::at(end.offset(), format!("the archive {end}{hint}")));
        }
        Ok(())
    }

    /// Gives members that are links the places of their files, and removes those that do not point
    /// to a file.
    fn follow(&mut self, names: &Links, links: Vec<(usize, Target)>) {
        let mut without_file = Vec::new();
        for (index, target) in links {
            let Some(member) = self.members.get_mut(index) else { continue };
            match names.file(&target) {
                Ok(Some((offset, size))) => (member.offset, member.size) = (offset, size),
                Ok(None) => without_file.push(index),
                Err(fault) => {
                    self.lost.insert(normal(&member.name).into_owned(), (member.clone(), fault));
                    without_file.push(index);
                }
            }
        }
        let mut index = 0..;
        self.members.retain(|_| {
            index.next().is_some_and(|index| without_file.binary_search(&index).is_err())
        });
    }

    /// Why there is no member with that name, if it is the name of a link.
    #[must_use]
    pub fn lost_link(&self, name: &str) -> Option<&LinkFault> {
        self.lost.get(normal(name).as_ref()).map(|(_, fault)| fault)
    }

    /// The members with that name. Redundant path components (`./`, `//`)
    /// are ignored on both sides.
    #[must_use]
    pub fn find(&self, name: &str) -> Found<'_> {
        let Some(named) = self.by_name.get(normal(name).as_ref()) else { return Found::None };
        match (
            self.members.get(named.first),
            named.second.and_then(|second| self.members.get(second)),
        ) {
            (Some(first), Some(second)) => Found::Several(first, second),
            (Some(first), None) => Found::One(named.first, first),
            _ => Found::None,
        }
    }
}

fn inflated(
    file: &Arc<dyn RangeRead>,
    compression: Compression,
) -> Result<(Arc<dyn RangeRead>, Option<TarError>)> {
    let failed =
        |source| Error::Stage { path: format!("temporary copy of {}", file.path()), source };
    let copy = tempfile::tempfile().map_err(failed)?;
    let mut writer = BufWriter::with_capacity(INFLATE_BUFFER_LEN, copy);
    let reader = io::BufReader::with_capacity(INFLATE_BUFFER_LEN, SequentialRead::new(&**file));
    let error = match inflate(compression, reader, &mut writer) {
        Ok(_) => None,
        Err(TarError::WriteInflated { source, .. }) => return Err(failed(source)),
        Err(error) => Some(error),
    };
    let mut copy = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    copy.rewind().map_err(failed)?;
    Ok((Arc::new(LocalFile::from_file(file.path(), copy)?), error))
}
