//! Finds the bytes that a `source_ref` names: a byte range, a tar member, or a whole file; and in it a TIFF page.
//!
//! Error texts are part of the data model (interleaved specification §3): they are stored in `materialize_error` and compared by users. The invariant:
//! a range is never taken from a compressed archive's raw bytes, and an error concerns one row only.

use crate::archive::Archive;
use crate::payload::Located;
use crate::source_ref::SourceRef;
use crate::tiff_pages::TiffPages;
use shardmill_formats::tar::{Compression, sniff_compression};
use shardmill_storage::OpenFiles;
use shardmill_storage::{RangeRead, is_remote, options_of, store_of};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The members of so many archives stay known. Rows that were written together mostly come from one.
const MAX_ARCHIVES: usize = 8;

/// Looks at each file and each archive once, as long as rows keep their order.
#[derive(Debug, Default)]
pub struct Locator {
    open: OpenFiles,
    files: HashMap<String, Option<OpenFile>>,
    /// The last used one first.
    archives: VecDeque<(String, Option<Arc<Archive>>)>,
    /// Rows of one document follow each other, so the last TIFF is the next one, mostly.
    last_tiff: Option<(String, TiffPages)>,
}

#[derive(Debug, Clone)]
struct OpenFile {
    object: Arc<dyn RangeRead>,
    is_compressed: bool,
}

impl Locator {
    /// # Errors
    /// The text for `materialize_error`.
    pub fn locate(&mut self, locator: &SourceRef) -> Result<Located, String> {
        let path = locator.path.as_deref().filter(|path| !path.is_empty()).ok_or("missing path")?;
        // Paths of rows are data, and data must not decide which hosts are asked with the user's credentials: only buckets that the user named are read.
        if is_remote(path) && options_of(path).is_none() {
            return Err("failed to resolve filesystem".to_owned());
        }
        let (object, range) = match (&locator.member, locator.range()) {
            (None, _) => {
                let file = self.file(path)?;
                let size = file.object.size();
                (file.object, 0..size)
            }
            (Some(member), Some(range)) => {
                let file = self.file(path)?;
                if file.is_compressed { self.member(path, member)? } else { (Arc::clone(&file.object), checked(&*file.object, range, member)?) }
            }
            (Some(member), None) => self.member(path, member)?,
        };
        let name = locator.member.as_deref().unwrap_or(path);
        match locator.frame_index {
            None => Ok(Located::verbatim(object, range)),
            Some(frame) => self.page(path, object, range, frame).ok_or_else(|| frame_error(frame, name)),
        }
    }

    fn file(&mut self, path: &str) -> Result<OpenFile, String> {
        let open = || -> Option<OpenFile> {
            let object = self.open.open(path).ok()?;
            let mut prefix = [0; 16];
            let len = usize::try_from(object.size()).unwrap_or(usize::MAX).min(prefix.len());
            let prefix = prefix.get_mut(..len)?;
            object.read_at(0, prefix).ok()?;
            let is_compressed = !matches!(sniff_compression(prefix), Compression::None);
            Some(OpenFile { object, is_compressed })
        };
        if let Err(shardmill_storage::Error::UnsupportedScheme { .. }) = store_of(path) {
            return Err("failed to resolve filesystem".to_owned());
        }
        self.files.entry(path.to_owned()).or_insert_with(open).clone().ok_or_else(|| "failed to read path".to_owned())
    }

    fn member(&mut self, path: &str, member: &str) -> Result<(Arc<dyn RangeRead>, Range<u64>), String> {
        let known = self.archives.iter().position(|(known, _)| known == path).and_then(|index| self.archives.remove(index));
        let (path, archive) = known.unwrap_or_else(|| (path.to_owned(), Archive::open(path).ok().map(Arc::new)));
        self.archives.truncate(MAX_ARCHIVES - 1);
        self.archives.push_front((path, archive.clone()));
        let archive = archive.ok_or("failed to read path")?;
        let (_, found) = archive.find(member).ok_or_else(|| missing_member(member))?;
        Ok((Arc::clone(&archive.object), found.offset..found.offset + found.size))
    }

    fn page(&mut self, path: &str, object: Arc<dyn RangeRead>, range: Range<u64>, frame: u64) -> Option<Located> {
        let is_last = self.last_tiff.as_ref().is_some_and(|(last, pages)| last == path && pages.is_member(&range));
        if !is_last {
            self.last_tiff = Some((path.to_owned(), TiffPages::open(object, range)));
        }
        self.last_tiff.as_ref()?.1.page(frame).ok()
    }
}

fn checked(object: &dyn RangeRead, range: Range<u64>, member: &str) -> Result<Range<u64>, String> {
    if range.start >= object.size() {
        Err(format!("empty range read for member '{member}'"))
    } else if range.end > object.size() {
        Err(format!("short range read for member '{member}'"))
    } else {
        Ok(range)
    }
}

#[must_use]
pub fn missing_member(member: &str) -> String {
    format!("missing member '{member}'")
}

#[must_use]
pub fn frame_error(frame: u64, member: &str) -> String {
    format!("failed to extract frame {frame} from '{member}'")
}

/// The text for an object that was located and then could not be read.
#[must_use]
pub fn read_error(locator: &SourceRef) -> String {
    match &locator.member {
        Some(member) => format!("range read error for member '{member}'"),
        None => "failed to read path".to_owned(),
    }
}
