//! The texts and images of documents, in the order in which they become tokens.

use crate::error::counted;
use crate::images::{Encoded, of_document};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, Int32Array, ListArray, StringViewArray};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use shardmill_documents::Modality;
use std::ops::Range;
use std::sync::Arc;

/// The columns that sequences are computed from: lists with an item for each part of a document.
/// `sizes` are those of stated widths and heights, in place of the bytes of images.
pub(super) fn sources(sizes: &[String]) -> Vec<String> {
    let bytes = ["binary_content".to_owned()];
    let images = if sizes.is_empty() { &bytes } else { sizes };
    let texts = ["modality", "text_content"].map(str::to_owned);
    let errors = ["materialize_error".to_owned()];
    [&texts, images, &errors].concat()
}

/// Places of the columns among the sources.
const MODALITIES: usize = 0;
pub(super) const TEXTS: usize = 1;
const IMAGES: usize = 2;

/// The parts of the documents of a batch.
pub(super) struct Parts<'a> {
    /// First part of each document, and the end.
    offsets: &'a [i32],
    modalities: StringViewArray,
    texts: StringViewArray,
    images: Images,
    errors: StringViewArray,
}

/// What images are planned from.
enum Images {
    Bytes(BinaryViewArray),
    /// Widths and heights, and the same as they are stated.
    Sizes([Int32Array; 2], [ArrayRef; 2]),
}

impl<'a> Parts<'a> {
    pub(super) fn of(sources: &'a [ArrayRef]) -> Result<Self, String> {
        let [modalities, texts, images @ .., errors] = sources else {
            return Err("a column is missing".to_owned());
        };
        let stated = |source: &ArrayRef| -> Result<ArrayRef, String> {
            let lists = source.as_list_opt::<i32>().ok_or("a column has no lists")?;
            Ok(Arc::clone(lists.values()))
        };
        let items = |source: &ArrayRef, data_type: DataType| {
            cast(&stated(source)?, &data_type).map_err(|error| error.to_string())
        };
        let strings = |source: &ArrayRef| {
            items(source, DataType::Utf8View).map(|items| items.as_string_view().clone())
        };
        // A number that is not a side becomes null.
        let sides = |source: &ArrayRef| {
            items(source, DataType::Int32).map(|items| items.as_primitive::<Int32Type>().clone())
        };
        let images = match images {
            [width, height] => {
                let own = [stated(width)?, stated(height)?];
                Images::Sizes([sides(width)?, sides(height)?], own)
            }
            [bytes] => Images::Bytes(items(bytes, DataType::BinaryView)?.as_binary_view().clone()),
            _ => return Err("a column is missing".to_owned()),
        };
        let offsets = modalities.as_list_opt::<i32>().map(ListArray::value_offsets);
        Ok(Self {
            offsets: offsets.unwrap_or_default(),
            modalities: strings(modalities)?,
            texts: strings(texts)?,
            images,
            errors: strings(errors)?,
        })
    }

    /// The parts of a document.
    fn of_document(&self, document: usize) -> Range<usize> {
        let place = |document: usize| {
            self.offsets.get(document).and_then(|part| usize::try_from(*part).ok())
        };
        place(document).unwrap_or_default()..place(document + 1).unwrap_or_default()
    }

    /// The last text of a document, unless it is null.
    pub(super) fn last_text(&self, document: usize) -> Option<usize> {
        let is_text =
            |part: &usize| matches!(Modality::new(self.modalities.value(*part)), Modality::Text);
        let last = self.of_document(document).rev().find(is_text);
        last.filter(|part| self.texts.is_valid(*part))
    }

    /// Why an image cannot be as its size states it, if that is known.
    pub(super) fn contradiction(&self, part: usize) -> Option<&str> {
        let has_sizes = matches!(self.images, Images::Sizes(..));
        (has_sizes && self.errors.is_valid(part)).then(|| self.errors.value(part))
    }

    /// What an image is planned from, or why it has no plan.
    pub(super) fn image(&self, part: usize) -> Result<Encoded<'_>, String> {
        let (image, missing) = match &self.images {
            Images::Bytes(bytes) => {
                let bytes = bytes.is_valid(part).then(|| bytes.value(part));
                let image = bytes.map(|bytes| Encoded { bytes: Some(bytes), ..Encoded::default() });
                (image, "its bytes are null".to_owned())
            }
            Images::Sizes(sides, stated) => {
                let [width, height] =
                    sides.each_ref().map(|sides| sides.is_valid(part).then(|| sides.value(part)));
                let size = width.zip(height);
                let image = size.map(|size| Encoded { size: Some(size), ..Encoded::default() });
                (image, unstated(stated, part))
            }
        };
        let known = || self.errors.is_valid(part).then(|| self.errors.value(part).to_owned());
        image.ok_or_else(|| known().unwrap_or(missing))
    }

    /// The texts and images of a document.
    pub(super) fn pieces(
        &self,
        document: usize,
        marker: Option<&str>,
    ) -> Result<Vec<Piece<'_>>, Fault> {
        let parts = self.of_document(document);
        let (mut pieces, mut images) = (Vec::with_capacity(parts.len()), Vec::new());
        for (number, part) in (0..).zip(parts) {
            let own = Part { number, part };
            match Modality::new(self.modalities.value(part)) {
                Modality::Text if self.texts.is_valid(part) => {
                    pieces.push(Piece::Text { own, text: self.texts.value(part), is_start: true });
                }
                Modality::Image if marker.is_some() => images.push(Piece::Image(own)),
                Modality::Image => pieces.push(Piece::Image(own)),
                Modality::Other(name) => {
                    let reason = format!("Sequences has no place for the modality {name:?}");
                    return Err(own.fault(MODALITIES, &reason));
                }
                Modality::Text | Modality::Metadata => {}
            }
        }
        match marker {
            Some(marker) => marked(&pieces, images, marker),
            None => Ok(pieces),
        }
    }
}

/// Why a size, of which a side is null as a 32-bit number, is none.
fn unstated(sides: &[ArrayRef; 2], part: usize) -> String {
    let side = |side: &ArrayRef| array_value_to_string(side, part).ok();
    let is_stated = sides.iter().all(|side| side.is_valid(part));
    match sides.each_ref().map(side) {
        [Some(width), Some(height)] if is_stated => {
            format!("its stated size, {width} x {height}, is out of range")
        }
        _ => "its stated size is null".to_owned(),
    }
}

/// The pieces of texts, with the images in place of the markers.
fn marked<'a>(
    texts: &[Piece<'a>],
    images: Vec<Piece<'a>>,
    marker: &str,
) -> Result<Vec<Piece<'a>>, Fault> {
    let (count, mut images) = (images.len(), images.into_iter());
    let (mut pieces, mut markers) = (Vec::new(), 0);
    for piece in texts {
        let Piece::Text { own, text, .. } = piece else { continue };
        let mut is_start = true;
        for (number, text) in text.split(marker).enumerate() {
            if number > 0 {
                markers += 1;
                pieces.extend(images.next());
            }
            if !text.is_empty() {
                pieces.push(Piece::Text { own: *own, text, is_start });
                is_start = false;
            }
        }
    }
    if markers == count {
        return Ok(pieces);
    }
    let (markers, images) = (counted(markers, "marker"), counted(count, "image"));
    let reason = format!("the texts have {markers} {marker:?} for {images}");
    Err(Fault { source: TEXTS, reason, hint: None })
}

/// A part of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// In its document.
    number: usize,
    /// In the batch.
    pub(super) part: usize,
}

/// What becomes tokens.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// `is_start` says whether it begins a text, and does not continue one after an image.
    Text {
        own: Part,
        text: &'a str,
        is_start: bool,
    },
    Image(Part),
}

impl Part {
    pub(super) fn bad_text(self, reason: &str) -> Fault {
        self.fault(TEXTS, reason)
    }

    pub(super) fn bad_image(self, reason: &str) -> Fault {
        self.fault(IMAGES, reason)
    }

    fn fault(self, source: usize, reason: &str) -> Fault {
        Fault { source, reason: of_document(self.number as u64, reason), hint: None }
    }
}

/// Why a document has no sequence.
pub(super) struct Fault {
    /// Number of the source column.
    pub(super) source: usize,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}
