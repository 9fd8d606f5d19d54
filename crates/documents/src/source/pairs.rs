//! Pairs of an image and its caption in a tar, as img2dataset writes them: `X.jpg`, `X.txt`, and
//! `X.json` without texts and images.

use super::keys::SampleKeys;
use super::webdataset_options::WebDatasetOptions;
use crate::Result;
use crate::archive::{Archive, Found};
use crate::source::keys::read_object;
use serde_json::{Map, Value};
use shardmill_formats::tar::Member;

const TEXT: &str = ".txt";

/// The members beside the JSON of a pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub image: &'a Member,
    pub caption: &'a Member,
    pub caption_index: usize,
}

impl<'a> Pair<'a> {
    /// The pair of a JSON member; `None` if it is another document, or names several members.
    pub(super) fn of(
        archive: &'a Archive,
        member: &Member,
        json: &Map<String, Value>,
        keys: &SampleKeys,
    ) -> Option<Self> {
        if keys.has_lists(json) {
            return None;
        }
        let stem = keys.stem_of(member)?;
        let found = |extension: &str| match archive.find(&format!("{stem}{extension}")) {
            Found::One(index, member) => Some((index, member)),
            Found::None | Found::Several(..) => None,
        };
        let (caption_index, caption) = found(TEXT)?;
        let mut images = keys.image_extensions.iter().filter_map(|extension| found(extension));
        let (_, image) = images.next().filter(|_| images.next().is_none())?;
        Some(Self { image, caption, caption_index })
    }

    /// The name of the image in the directory of its JSON.
    pub(super) fn image_name(&self) -> &'a str {
        self.image.name.rsplit('/').next().unwrap_or(&self.image.name)
    }
}

/// Whether the first document of a file that can be read is a pair.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn begins_with_pair(path: &str, options: &WebDatasetOptions) -> Result<bool> {
    let archive = Archive::open_with(path, options.ignore_zeros, options.limit())?;
    let documents = options.keys.documents(&archive, options.limit());
    let mut members = documents.iter().filter_map(|index| archive.members.get(*index));
    Ok(members
        .find_map(|member| {
            let json = read_object(&archive, member, options.limit()).ok()?;
            Some(Pair::of(&archive, member, &json, &options.keys).is_some())
        })
        .unwrap_or(false))
}
