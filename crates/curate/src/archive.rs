//! One open tar archive: its members by name, and what is damaged in it.
//!
//! A compressed archive is inflated once into an unnamed temporary file, so memory stays bounded whatever the archive claims. The invariant: a member
//! that is listed here lies whole inside the archive.

use shardmill_formats::tar::{Compression, Member, TarError, Walk, inflate, sniff_compression};
use shardmill_storage::{Error, LocalFile, RangeRead, Result, SequentialRead, Spool, store_of};
use std::collections::HashMap;
use std::io::{self, BufWriter, Seek};
use std::sync::Arc;

const SNIFF_LEN: usize = 16;
const INFLATE_BUFFER_LEN: usize = 1 << 20;

#[derive(Debug)]
pub struct Archive {
    pub object: Arc<dyn RangeRead>,
    pub path: String,
    /// Offsets then mean the inflated copy, and must not be written down.
    pub is_compressed: bool,
    pub members: Vec<Member>,
    by_name: HashMap<String, usize>,
    /// Where and why reading ended before the archive did.
    pub damage: Option<Damage>,
    /// Members that are whole but cannot be offered, e.g. sparse files.
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

impl Archive {
    /// # Errors
    /// When the file cannot be read, or the temporary copy of a compressed one cannot be written. Damage inside is no error.
    pub fn open(path: &str) -> Result<Self> {
        let file = Spool::over(store_of(path)?.open(path)?)?;
        let mut prefix = vec![0; SNIFF_LEN.min(usize::try_from(file.size()).unwrap_or(SNIFF_LEN))];
        file.read_at(0, &mut prefix)?;
        let compression = sniff_compression(&prefix);
        let (object, inflate_error) = match compression {
            Compression::Gzip => inflated(&file)?,
            _ => (file, None),
        };
        let is_compressed = !matches!(compression, Compression::None);
        let mut archive =
            Self { object, path: path.to_owned(), is_compressed, members: Vec::new(), by_name: HashMap::new(), damage: None, unreadable: Vec::new() };
        if !matches!(compression, Compression::None | Compression::Gzip) {
            archive.damage = Some(Damage::at(0, format!("{compression:?} compression is not supported; use gzip or none")));
            return Ok(archive);
        }
        // A gzip stream that ends early still gave whole members. One whose content is wrong shows it only at the end: nothing of it can be trusted.
        if matches!(inflate_error, None | Some(TarError::TruncatedGzip { .. })) {
            archive.walk()?;
        }
        if let Some(error) = inflate_error {
            archive.damage = Some(Damage::at(archive.object.size(), error.to_string()));
        }
        archive.by_name = archive.members.iter().enumerate().map(|(index, member)| (normal(&member.name).to_owned(), index)).collect();
        Ok(archive)
    }

    fn walk(&mut self) -> Result<()> {
        let mut walk = Walk::new(self.object.size());
        let mut window = Vec::new();
        while let Some(range) = walk.needs() {
            window.clear();
            crate::payload::append_range(&*self.object, &range, &mut window)?;
            match walk.push(&window) {
                Ok(Some(member)) => self.members.push(member),
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
        Ok(())
    }

    /// The member of that name; a leading `./` does not count on either side. The last one wins, as in `tarfile`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &Member)> {
        let index = *self.by_name.get(normal(name))?;
        Some((index, self.members.get(index)?))
    }
}

fn normal(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
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
