//! Texts and images of a document as rows.
//!
//! The invariant: a reference stays below the directory that it is relative to; one that leads out
//! of it is an error of its row.

use super::parts::{Content, Part};
use super::picture::Picture;
use super::tokens::{UNKNOWN, content_type};
use crate::locate::OUTSIDE;
use crate::payload::Payload;
use crate::source_ref::SourceRef;
use crate::{Modality, Row};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value};
use shardmill_images::sniff;

/// A text in base64 of which this much is an image is not a path.
const SNIFFED_CHARS: usize = 88;

const BROKEN_BASE64: &str = "the image is not valid base64";

/// Where a document is from.
pub(super) struct Origin<'a> {
    pub path: &'a str,
    /// The directory of references, if the user names one.
    pub image_root: Option<&'a str>,
}

impl Origin<'_> {
    /// The id of the document with this number if it states none: the name of the file, numbered.
    pub(super) fn numbered_id(&self, number: u64) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        format!("{stem}-{number}")
    }

    /// The row of metadata with the values of the document, and those of the parts with theirs.
    pub(super) fn rows(
        &self,
        values: Map<String, Value>,
        parts: Vec<Part>,
    ) -> impl Iterator<Item = (Row, Map<String, Value>)> {
        let source_ref =
            SourceRef { path: Some(self.path.to_owned()), ..SourceRef::default() }.to_json();
        let metadata = Row {
            position: -1,
            content_type: Some("application/json".to_owned()),
            source_ref: Some(source_ref.clone()),
            ..Row::default()
        };
        let rows = parts.into_iter().map(move |part| {
            let row = match part.content {
                Content::Text(text) => Row {
                    modality: Modality::Text,
                    content_type: Some("text/plain".to_owned()),
                    text: Some(text),
                    source_ref: Some(source_ref.clone()),
                    ..Row::default()
                },
                Content::Image(picture) => self.image(picture),
            };
            (Row { position: part.position, ..row }, part.values)
        });
        std::iter::once((metadata, values)).chain(rows)
    }

    fn image(&self, picture: Picture) -> Row {
        match picture {
            Picture::Bytes(bytes, name) => of_bytes(bytes, name),
            Picture::Missing(problem) => failed(problem, None),
            Picture::Named(text) => of_base64(&text).unwrap_or_else(|| self.named(text)),
        }
    }

    fn named(&self, name: String) -> Row {
        let mime = content_type(name.split(['?', '#']).next().unwrap_or(&name));
        let content_type = Some(mime).filter(|mime| *mime != UNKNOWN).map(str::to_owned);
        let row = match self.joined(&name) {
            Some(path) => Row { source_ref: Some(reference(Some(path), None)), ..image_row() },
            None => failed(OUTSIDE, Some(name)),
        };
        Row { content_type, ..row }
    }

    /// The path of a reference; `None` if it leaves its root.
    fn joined(&self, name: &str) -> Option<String> {
        if name.starts_with('/') || name.contains("://") {
            return Some(name.to_owned());
        }
        let mut depth = 0_usize;
        for part in name.split('/') {
            match part {
                ".." => depth = depth.checked_sub(1)?,
                "" | "." => {}
                _ => depth += 1,
            }
        }
        let own = self.path.rsplit_once('/').map(|(directory, _)| directory);
        match self.image_root.map(|root| root.trim_end_matches('/')).or(own) {
            Some(root) => Some(format!("{root}/{name}")),
            None => Some(name.to_owned()),
        }
    }
}

fn image_row() -> Row {
    Row { modality: Modality::Image, ..Row::default() }
}

fn reference(path: Option<String>, member: Option<String>) -> String {
    SourceRef { path, member, ..SourceRef::default() }.to_json()
}

fn failed(problem: &str, path: Option<String>) -> Row {
    Row { source_ref: Some(reference(path, None)), error: Some(problem.to_owned()), ..image_row() }
}

/// Bytes that are in the file; the name is only kept.
fn of_bytes(bytes: Bytes, name: Option<String>) -> Row {
    Row {
        content_type: sniff(&bytes).map(|format| format.mime().to_owned()),
        source_ref: Some(reference(None, name)),
        payload: Payload::Memory(bytes),
        ..image_row()
    }
}

/// The row of a text that is an image in base64, with or without the scheme `data:`.
pub(super) fn of_base64(text: &str) -> Option<Row> {
    decoded(text).map(|bytes| match bytes {
        Ok(bytes) => of_bytes(bytes, None),
        Err(problem) => failed(problem, None),
    })
}

fn decoded(text: &str) -> Option<Result<Bytes, &'static str>> {
    let bytes = |text: &str| match STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)) {
        Ok(bytes) => Ok(Bytes::from(bytes)),
        Err(_) => Err(BROKEN_BASE64),
    };
    if let Some(data) = text.strip_prefix("data:") {
        let (head, body) = data.split_once(',')?;
        return Some(if head.ends_with(";base64") { bytes(body) } else { Err(BROKEN_BASE64) });
    }
    let start = text.get(..SNIFFED_CHARS.min(text.len() / 4 * 4))?;
    STANDARD.decode(start).ok().filter(|start| sniff(start).is_some()).map(|_| bytes(text))
}
