//! Which member does an image token name? (interleaved specification §2.3)
//!
//! The invariant: a token never leads to a neighbour's image. What cannot be resolved stays unresolved and is said so on its row.

use crate::archive::Archive;
use shardmill_formats::tar::Member;

/// Tried in this order behind a stem, unless the user says otherwise.
pub const IMAGE_EXTENSIONS: [&str; 8] = [".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif"];

/// The MIME type of a name whose extension says nothing.
const UNKNOWN: &str = "application/octet-stream";

/// MIME type by the last extension; the table is fixed, so that results do not depend on the host.
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

/// What surrounds a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenScope<'a> {
    pub archive: &'a Archive,
    /// Name of the JSON member.
    pub json_name: &'a str,
    pub sample_id: &'a str,
    /// Value of the configured image-member field.
    pub image_member: Option<&'a str>,
    /// Tried in this order behind a stem; with a leading dot each.
    pub extensions: &'a [String],
}

impl<'a> TokenScope<'a> {
    /// The member that `token` names. `is_only` says that the sample has no other token.
    #[must_use]
    pub fn resolve(&self, token: Option<&str>, is_only: bool) -> Option<(usize, &'a Member)> {
        if let Some(found) = token.and_then(|token| self.named(token)) {
            return Some(found);
        }
        if token.is_some_and(|token| self.looks_like_a_file(token)) {
            return None;
        }
        let (index, member) = self.default_member()?;
        (is_only || content_type(&member.name) == "image/tiff").then_some((index, member))
    }

    fn named(&self, token: &str) -> Option<(usize, &'a Member)> {
        if token.is_empty() {
            return None;
        }
        self.archive.find(token).or_else(|| self.archive.find(&self.beside(token.strip_prefix("./").unwrap_or(token))))
    }

    /// The member that opaque tokens stand for.
    fn default_member(&self) -> Option<(usize, &'a Member)> {
        if let Some(found) = self.image_member.and_then(|name| self.named(name)) {
            return Some(found);
        }
        let stem = stem(self.json_name);
        [stem, self.sample_id]
            .iter()
            .flat_map(|base| self.extensions.iter().map(move |extension| format!("{base}{extension}")))
            .find_map(|name| self.archive.find(&self.beside(&name)))
    }

    fn beside(&self, name: &str) -> String {
        match self.json_name.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        }
    }

    fn looks_like_a_file(&self, token: &str) -> bool {
        let lower = token.to_ascii_lowercase();
        self.extensions.iter().any(|extension| lower.ends_with(&extension.to_ascii_lowercase())) || content_type(token) != UNKNOWN
    }
}

/// The file name without its directory and its last extension.
#[must_use]
pub fn stem(member_name: &str) -> &str {
    let file = member_name.rsplit('/').next().unwrap_or(member_name);
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
        assert_eq!([stem("dir/a.b.json"), stem("a.json"), stem(".json"), stem("x")], ["a.b", "a", ".json", "x"]);
    }

    #[test]
    fn content_type_follows_the_last_extension_in_any_case() {
        assert_eq!(
            [content_type("a/b.TIF"), content_type("b.jpg.png"), content_type("dir.png/x")],
            ["image/tiff", "image/png", "application/octet-stream"]
        );
    }
}
