//! Walks one tar: the archive, each JSON, the header of each image that an entry names.
//!
//! Headers, JSON and image headers are read; payloads only of a compressed tar, whose checksum is
//! at its end. A tar without an interleaved document is a WebDataset of rows, and is walked as a
//! table.

use super::Walk;
use crate::image_header::{Header, faults};
use crate::problem::{Problem, Rule};
use crate::visitor::{Document, Visitor, text_of};
use serde_json::{Map, Value};
use shardmill_documents::Result;
use shardmill_documents::archive::Archive;
use shardmill_documents::image_bytes::ImageBytes;
use shardmill_documents::source::keys::{read_object, sample_id};
use shardmill_documents::source::tokens::{Unresolved, stem};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::Member;
use shardmill_load::Format;
use std::collections::HashMap;

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    pub(super) fn tar(&mut self) -> Result<()> {
        let Some(archive) = self.readable(Archive::examined(self.path, self.options.ignore_zeros)?)
        else {
            return Ok(());
        };
        let documents = self.options.keys.documents(&archive, DecodeLimit::default());
        if !self.visitor.archive(&archive, &documents) {
            return self.table(self.path, Format::WebDataset, None);
        }
        for damage in archive.damage.iter().chain(&archive.unreadable) {
            let problem = Problem::new(Rule::Readable, &damage.reason);
            self.visitor.problem(Problem {
                member: damage.member.clone(),
                offset: Some(damage.offset),
                ..problem
            });
        }
        let mut headers = HashMap::new();
        for member in documents.iter().filter_map(|index| archive.members.get(*index)) {
            self.cancel.check()?;
            self.visitor.file().samples += 1;
            match read_object(&archive, member, DecodeLimit::default()) {
                Ok(object) => self.document(&archive, member, &object, &mut headers),
                Err(what) => {
                    let problem = Problem::new(Rule::Json, what).of_sample(stem(&member.name));
                    self.visitor.problem(problem.at_member(&member.name, member.offset));
                }
            }
        }
        self.visitor.archive_end(&archive, &documents);
        Ok(())
    }

    /// `headers` are those of the images that earlier entries name; one TIFF serves many rows.
    fn document(
        &mut self,
        archive: &Archive,
        member: &Member,
        object: &Map<String, Value>,
        headers: &mut HashMap<usize, Header>,
    ) {
        let keys = &self.options.keys;
        let [texts, images] = [&keys.texts_field, &keys.images_field].map(|field| {
            object.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        });
        let id = sample_id(object, keys.sample_id_field.as_deref(), &member.name);
        let document = Document { member, object, id, texts, images };
        let tokens: Vec<&Value> = images.iter().filter(|token| !token.is_null()).collect();
        let rows = &mut self.visitor.file().rows;
        rows.metadata += 1;
        rows.text += texts.iter().filter(|text| !text.is_null()).count() as u64;
        rows.image += tokens.len() as u64;
        self.visitor.document(&document);

        let scope = keys.scope(archive, member, &document.id, keys.image_member(object));
        let mut named = Vec::new();
        for token in &tokens {
            match self.visitor.resolve(&scope, token.as_str(), tokens.len() == 1) {
                Ok(found) => named.push(found),
                // A thorough visitor reports members of one name.
                Err(Unresolved::OfOneName(..)) if V::IS_THOROUGH => {}
                Err(unresolved) => self
                    .visitor
                    .problem(document.problem(Rule::Structure, unresolved.text(&text_of(token)))),
            }
        }
        for (index, image) in &named {
            headers.entry(*index).or_insert_with(|| {
                let header = Self::header(ImageBytes::Member(
                    &*archive.object,
                    &(image.offset..image.offset + image.size),
                ));
                self.visitor.image(image, &header);
                for what in faults(&header).filter(|_| V::IS_THOROUGH || header.is_err()) {
                    self.visitor.problem(
                        document.problem(Rule::Image, what).at_member(&image.name, image.offset),
                    );
                }
                header
            });
        }
        self.visitor.images(&document, &named, headers);
    }
}
