//! Resolves image tokens to members (interleaved specification §2.3).
//!
//! The invariant: a token never resolves to another sample's image. A missing or ambiguous name
//! stays unresolved, and its row gets an error. A name is first searched in the directory of the
//! JSON member, then from the root of the archive.

use crate::archive::{Archive, Found};
use crate::locate::{ambiguous_member, lost_member, missing_member};
use shardmill_formats::tar::{LinkFault, Member, normal, without_compression};

/// The default extensions, tried in this order after a stem.
pub const IMAGE_EXTENSIONS: [&str; 8] =
    [".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif"];

/// The MIME type of a name with an unknown extension.
pub const UNKNOWN: &str = "application/octet-stream";

/// The MIME type of the last extension; the table is fixed, so that results
/// do not depend on the host.
#[must_use]
pub fn content_type(name: &str) -> &'static str {
    match extension(name).to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" | "jpe" => "image/jpeg",
        "png" => "image/png",
        "tif" | "tiff" => "image/tiff",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "gif" => "image/gif",
        "avif" => "image/avif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "jxl" => "image/jxl",
        "jp2" => "image/jp2",
        "svg" => "image/svg+xml",
        "ico" => "image/vnd.microsoft.icon",
        _ => UNKNOWN,
    }
}

fn extension(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Why a token cannot be resolved.
#[derive(Debug, Clone, Copy)]
pub enum Unresolved<'a> {
    Missing,
    /// A link has the name, but does not point to a member.
    Lost(&'a LinkFault),
    /// It may refer to either.
    Ambiguous(&'a Member, &'a Member),
    /// Two JSON members have the name of its document.
    OfOneName(&'a Member, &'a Member),
}

impl Unresolved<'_> {
    /// The text for `materialize_error`.
    #[must_use]
    pub fn text(&self, token: &str) -> String {
        match self {
            Self::Missing => missing_member(token),
            Self::Lost(fault) => lost_member(token, fault),
            Self::Ambiguous(first, second) => ambiguous_member(token, first, second),
            Self::OfOneName(first, second) => format!(
                "ambiguous member '{token}': its document may be '{}' at byte {} \
                 or '{}' at byte {}",
                first.name, first.offset, second.name, second.offset
            ),
        }
    }
}

/// The context of a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenScope<'a> {
    pub archive: &'a Archive,
    /// Name of the JSON member.
    pub json_name: &'a str,
    pub sample_id: &'a str,
    /// Value of the configured image-member field.
    pub image_member: Option<&'a str>,
    /// Tried in this order after a stem; each with a leading dot.
    pub extensions: &'a [String],
}

impl<'a> TokenScope<'a> {
    /// The member that `token` names. `is_only` states that the sample has no other token.
    ///
    /// # Errors
    /// [`Unresolved`], when there is none or the name is ambiguous.
    pub fn resolve(
        &self,
        token: Option<&str>,
        is_only: bool,
    ) -> Result<(usize, &'a Member), Unresolved<'a>> {
        match self.found(token, is_only) {
            Found::None => Err(token
                .and_then(|token| self.lost(token))
                .map_or(Unresolved::Missing, Unresolved::Lost)),
            Found::Several(first, second) => Err(Unresolved::Ambiguous(first, second)),
            // With two documents of the same name, the owner of the image is ambiguous too.
            Found::One(index, member) => match self.archive.find(self.json_name) {
                Found::Several(first, second) => Err(Unresolved::OfOneName(first, second)),
                _ => Ok((index, member)),
            },
        }
    }

    fn found(&self, token: Option<&str>, is_only: bool) -> Found<'a> {
        match token.map_or(Found::None, |token| self.named(token)) {
            Found::None => {}
            found => return found,
        }
        if token.is_some_and(|token| self.looks_like_a_file(token)) {
            return Found::None;
        }
        match self.default_member() {
            Found::One(_, member) if !is_only && content_type(&member.name) != "image/tiff" => {
                Found::None
            }
            found => found,
        }
    }

    fn named(&self, token: &str) -> Found<'a> {
        if token.is_empty() {
            return Found::None;
        }
        let from_root = self.archive.find(token);
        if token.starts_with('/') {
            return from_root;
        }
        match (self.archive.find(&self.beside(token)), from_root) {
            (Found::None, from_root) => from_root,
            // A token with a directory may be relative to either.
            (Found::One(near, beside), Found::One(far, from_root))
                if near != far && normal(token).contains('/') =>
            {
                Found::Several(beside, from_root)
            }
            (beside, _) => beside,
        }
    }

    fn lost(&self, token: &str) -> Option<&'a LinkFault> {
        self.archive.lost_link(&self.beside(token)).or_else(|| self.archive.lost_link(token))
    }

    /// The member for opaque tokens.
    fn default_member(&self) -> Found<'a> {
        match self.image_member.map_or(Found::None, |name| self.named(name)) {
            Found::None => {}
            found => return found,
        }
        let stem = stem(self.json_name);
        // An id that names another document's JSON would resolve to that document's image.
        let is_of_another = self.sample_id != stem
            && !matches!(
                self.archive.find(&self.beside(&format!("{}.json", self.sample_id))),
                Found::None
            );
        let bases = [Some(stem), (!is_of_another).then_some(self.sample_id)];
        let names = bases.into_iter().flatten().flat_map(|base| {
            self.extensions.iter().map(move |extension| format!("{base}{extension}"))
        });
        names
            .map(|name| self.archive.find(&self.beside(&name)))
            .find(|found| !matches!(found, Found::None))
            .unwrap_or(Found::None)
    }

    fn beside(&self, name: &str) -> String {
        match self.json_name.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        }
    }

    fn looks_like_a_file(&self, token: &str) -> bool {
        let lower = token.to_ascii_lowercase();
        self.extensions.iter().any(|extension| lower.ends_with(&extension.to_ascii_lowercase()))
            || content_type(token) != UNKNOWN
    }
}

/// The file name of a document without its directory, the ending of its compression,
/// and its last extension.
#[must_use]
pub fn stem(member_name: &str) -> &str {
    let file = without_compression(member_name.rsplit('/').next().unwrap_or(member_name));
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stem_drops_the_last_extension_only() {
        let names = ["dir/a.b.json", "a.json", ".json", "x", "a.b.JSON.gz"];
        assert_eq!(names.map(stem), ["a.b", "a", ".json", "x", "a.b"]);
    }

    #[test]
    fn content_type_follows_the_last_extension_in_any_case() {
        assert_eq!(
            [content_type("a/b.TIF"), content_type("b.jpg.png"), content_type("dir.png/x")],
            ["image/tiff", "image/png", "application/octet-stream"]
        );
    }
}
