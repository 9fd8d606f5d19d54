//! One open tar archive: its members by name, and what is damaged in it.
//!
//! A compressed archive is decompressed once into an unnamed temporary file, so memory stays bounded regardless of the archive. The invariant: a
//! listed member lies completely inside the archive. A name shared by several members is ambiguous.

use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::{ArchiveEnd, Compression, Member, TarError, Walk, inflate, sniff_compression};
use shardmill_storage::{Error, LocalFile, RangeRead, Result, SequentialRead, Spool, store_of};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufWriter, Seek};
use std::sync::Arc;

const SNIFF_LEN: usize = 16;
const INFLATE_BUFFER_LEN: usize = 1 << 20;

/// Approximate memory per member, in addition to its name.
const MEMBER_BYTES: u64 = 128;

#[derive(Debug)]
pub struct Archive {
    pub object: Arc<dyn RangeRead>,
    pub path: String,
    /// Offsets then refer to the decompressed copy, and must not be stored.
    pub is_compressed: bool,
    pub members: Vec<Member>,
    by_name: HashMap<String, Named>,
    /// Where and why reading ended before the end of the archive, or what is wrong with its end.
    pub damage: Option<Damage>,
    /// Members that are complete but cannot be read, e.g. sparse files.
    pub unreadable: Vec<Damage>,
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
    /// As [`Archive::open_with`], with all members of concatenated archives.
    ///
    /// # Errors
    /// See [`Archive::open_with`].
    pub fn open(path: &str) -> Result<Self> {
        Self::open_with(path, true, DecodeLimit::default())
    }

    /// As [`Archive::open_with`], for callers that report faults of a file: the inner error is damage.
    ///
    /// # Errors
    /// When the temporary copy of a compressed archive cannot be written.
    pub(crate) fn examined(path: &str, ignores_zeros: bool) -> Result<Result<Self>> {
        match Self::open_with(path, ignores_zeros, DecodeLimit::default()) {
            Err(error @ Error::Stage { .. }) => Err(error),
            opened => Ok(opened),
        }
    }

    /// Members after the first end of the archive are included only with `ignores_zeros`. `limit` bounds the memory for the members.
    ///
    /// # Errors
    /// When the file cannot be read, or the temporary copy of a compressed one cannot be written. Damage inside is not an error.
    pub fn open_with(path: &str, ignores_zeros: bool, limit: DecodeLimit) -> Result<Self> {
        Self::over_with(store_of(path)?.open(path)?, ignores_zeros, limit)
    }

    /// As [`Archive::open`], for a file that is already open.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn over(object: Arc<dyn RangeRead>) -> Result<Self> {
        Self::over_with(object, true, DecodeLimit::default())
    }

    fn over_with(object: Arc<dyn RangeRead>, ignores_zeros: bool, limit: DecodeLimit) -> Result<Self> {
        let path = object.path().to_owned();
        let file = Spool::over(object)?;
        let mut prefix = vec![0; SNIFF_LEN.min(usize::try_from(file.size()).unwrap_or(SNIFF_LEN))];
        file.read_at(0, &mut prefix)?;
        let compression = sniff_compression(&prefix);
        let (object, inflate_error) = match compression {
            Compression::Gzip => inflated(&file)?,
            _ => (file, None),
        };
        let is_compressed = !matches!(compression, Compression::None);
        let mut archive = Self { object, path, is_compressed, members: Vec::new(), by_name: HashMap::new(), damage: None, unreadable: Vec::new() };
        if !matches!(compression, Compression::None | Compression::Gzip) {
            archive.damage = Some(Damage::at(0, format!("{compression} compression is not supported; use gzip or none")));
            return Ok(archive);
        }
        // A truncated gzip stream still yields complete members. A corrupt one is only detected at the end, so none of its members can be trusted.
        if matches!(inflate_error, None | Some(TarError::TruncatedGzip { .. })) {
            archive.walk(ignores_zeros, limit)?;
        }
        if let Some(error) = inflate_error {
            archive.damage = Some(Damage::at(archive.object.size(), error.to_string()));
        }
        for (index, member) in archive.members.iter().enumerate() {
            let named = archive.by_name.entry(normal(&member.name).into_owned()).or_insert(Named { first: index, second: None });
            if named.first != index {
                named.second.get_or_insert(index);
            }
        }
        Ok(archive)
    }

    fn walk(&mut self, ignores_zeros: bool, limit: DecodeLimit) -> Result<()> {
        let mut kept = 0_u64;
        let mut walk = Walk::new(self.object.size()).reading_on(ignores_zeros);
        let mut window = Vec::new();
        while let Some(range) = walk.needs() {
            window.clear();
            crate::payload::append_range(&*self.object, &range, &mut window)?;
            match walk.push(&window) {
                Ok(Some(member)) => {
                    kept += MEMBER_BYTES + 2 * member.name.len() as u64;
                    let checked = limit.check(&self.path, kept, "the names of its members take", || format!("byte {}", member.header_offset));
                    if let Err(refusal) = checked {
                        self.damage = Some(Damage::at(member.header_offset, refusal.to_string()));
                        return Ok(());
                    }
                    self.members.push(member);
                }
                Ok(None) => {}
                Err(error) => {
                    let (member, offset) = match &error {
                        TarError::Truncated { member, offset, .. } => (member.clone(), *offset),
                        TarError::Unreadable { member, offset, .. } => (Some(member.clone()), *offset),
                        _ => (None, range.start),
                    };
                    let damage = Damage { member, offset, reason: error.to_string() };
                    if error.ends_walk() {
                        self.damage = Some(damage);
                        return Ok(());
                    }
                    self.unreadable.push(damage);
                }
            }
        }
        let end = walk.end().unwrap_or(ArchiveEnd::Missing { offset: self.object.size() });
        if !end.is_sound() {
            let hint = if matches!(end, ArchiveEnd::Followed { .. }) { "; ignore_zeros=True (--ignore-zeros) reads on, as `tar -i`" } else { "" };
            self.damage = Some(Damage::at(end.offset(), format!("the archive {end}{hint}")));
        }
        Ok(())
    }

    /// The members with that name. Redundant path components (`./`, `//`) are ignored on both sides.
    #[must_use]
    pub fn find(&self, name: &str) -> Found<'_> {
        let Some(named) = self.by_name.get(normal(name).as_ref()) else { return Found::None };
        match (self.members.get(named.first), named.second.and_then(|second| self.members.get(second))) {
            (Some(first), Some(second)) => Found::Several(first, second),
            (Some(first), None) => Found::One(named.first, first),
            _ => Found::None,
        }
    }
}

/// The name without redundant path components.
pub(crate) fn normal(name: &str) -> Cow<'_, str> {
    let name = name.strip_prefix("./").unwrap_or(name);
    if !name.contains("//") && !name.contains("./") {
        return Cow::Borrowed(name);
    }
    let root = if name.starts_with('/') { "/" } else { "" };
    let steps: Vec<&str> = name.split('/').filter(|step| !step.is_empty() && *step != ".").collect();
    Cow::Owned(format!("{root}{}", steps.join("/")))
}

fn inflated(file: &Arc<dyn RangeRead>) -> Result<(Arc<dyn RangeRead>, Option<TarError>)> {
    let failed = |source| Error::Stage { path: format!("temporary copy of {}", file.path()), source };
    let copy = tempfile::tempfile().map_err(failed)?;
    let mut writer = BufWriter::with_capacity(INFLATE_BUFFER_LEN, copy);
    let reader = io::BufReader::with_capacity(INFLATE_BUFFER_LEN, SequentialRead::new(&**file));
    let error = match inflate(reader, &mut writer) {
        Ok(_) => None,
        Err(TarError::WriteInflated { source, .. }) => return Err(failed(source)),
        Err(error) => Some(error),
    };
    let mut copy = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    copy.rewind().map_err(failed)?;
    Ok((Arc::new(LocalFile::from_file(file.path(), copy)?), error))
}
