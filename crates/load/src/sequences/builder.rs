//! Builds the sequences of a batch of documents.

use super::blocks::blocks_of;
use super::messages::Messages;
use super::parts::{Fault, Part, Parts, Piece, TEXTS};
use super::{LabelKind, SequenceLabels, Sequences};
use crate::dataset::{Affixes, Counted, Derive};
use crate::error::counted;
use crate::tokenize::{Lists, TokenTotals};
use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field};
use shardmill_plan::images::{Piece as ImagePiece, PlannedImage};
use shardmill_tokens::SpecialInText;
use std::ops::Range;
use std::sync::Arc;

const LEAVE_OUT: &str = "on_error=\"null\" of sm.ImageOutput leaves such images out, or without \
                         pixels if their size is stated";

const PLACEHOLDERS: &str = "the chat template writes a placeholder for each part of the type \
                            \"image\", and one that is spelled out in a text counts too: remove it \
                            from the text, or add the image to the column of images_from=";

pub(super) struct Builder<'a> {
    sequences: &'a Sequences,
    lists: Lists,
    /// First placeholder and number of tokens of each image.
    index: Vec<i32>,
    shapes: Vec<i64>,
    /// Images up to the end of each document, after a zero.
    image_ends: Vec<i32>,
    pub(super) totals: TokenTotals,
    /// If documents are only counted, what is counted of those that are done: nothing else is kept
    /// of them.
    counting: Option<Counting>,
    /// Of the images of the document, if documents are counted.
    patches: Vec<u64>,
}

#[derive(Default)]
struct Counting {
    counted: Counted,
    documents: usize,
    /// If the places of images are counted.
    affixes: Option<Affixes>,
}

impl<'a> Builder<'a> {
    /// A builder that counts documents.
    pub(super) fn counting(
        sequences: &'a Sequences,
        documents: usize,
        affixes: Option<Affixes>,
    ) -> Self {
        let numbers = documents.saturating_mul(sequences.counts_of_row());
        let counted = Counted { numbers: Vec::with_capacity(numbers), ..Counted::default() };
        let counting = Some(Counting { counted, documents: 0, affixes });
        Self { counting, ..Self::new(sequences, 0) }
    }

    pub(super) fn new(sequences: &'a Sequences, documents: usize) -> Self {
        Self {
            sequences,
            lists: Lists::with_rows(documents),
            index: Vec::new(),
            shapes: Vec::new(),
            image_ends: vec![0],
            totals: TokenTotals::default(),
            counting: None,
            patches: Vec::new(),
        }
    }

    /// Adds the sequence of a document.
    pub(super) fn add(&mut self, parts: &Parts<'_>, document: usize) -> Result<(), Fault> {
        let sequences = self.sequences;
        let options = &sequences.options;
        let start = self.lists.tokens.len();
        self.lists.tokens.extend(options.bos);
        self.label(true);
        let content = self.lists.tokens.len();
        // The only part that is labelled, if not all texts are.
        let completion =
            (self.label_kind() == Some(LabelKind::Completion)).then(|| parts.last_text(document));
        let mut follows_text = false;
        for piece in parts.pieces(document, options.marker.as_deref())? {
            match piece {
                Piece::Text { own, text, is_start } => {
                    if follows_text && is_start {
                        self.lists.tokens.extend(&options.separator);
                        self.label(completion.is_none());
                    }
                    self.add_text(text).map_err(|reason| own.bad_text(&reason))?;
                    self.label(completion.is_none_or(|last| last == Some(own.part)));
                    follows_text = true;
                }
                Piece::Image(own) => {
                    let added = self.add_image(parts, own.part, start);
                    follows_text &= !added.map_err(|reason| self.bad_image(own, &reason))?;
                }
            }
        }
        if self.lists.tokens.len() == content {
            self.lists.tokens.truncate(start);
            self.lists.labels.truncate(start);
        } else {
            self.lists.tokens.extend(options.eos);
            self.label(completion.is_none_or(|last| last.is_some()));
            // No token predicts the first one.
            if let (Some(label), Some(labels)) = (self.lists.labels.get_mut(start), &options.labels)
            {
                *label = labels.ignore_index;
            }
            self.check_labels(start)?;
        }
        self.end_document()
    }

    /// Adds the sequence of a conversation: images take the places of its placeholders.
    pub(super) fn add_chat(
        &mut self,
        parts: &Parts<'_>,
        messages: &Messages,
        document: usize,
    ) -> Result<(), Fault> {
        let placeholder = self.sequences.options.placeholder;
        let start = self.lists.tokens.len();
        let (tokens, labels) = messages.of_row(document);
        let images = parts.pieces(document, None)?;
        let is_placeholder = |token: &i32| u32::try_from(*token) == Ok(placeholder);
        let places = tokens.iter().filter(|token| is_placeholder(token)).count();
        if places != images.len() {
            let [places, images] = [(places, "placeholder"), (images.len(), "image")]
                .map(|(number, noun)| counted(number, noun));
            let reason = format!("the messages have {places} for {images}");
            let hint = Some(PLACEHOLDERS.to_owned());
            return Err(Fault { source: self.sequences.sources.len(), reason, hint });
        }
        let mut images = images.into_iter();
        let mut labels = labels.into_iter();
        for token in tokens {
            let label = labels.next();
            if is_placeholder(&token) {
                let Some(Piece::Image(own)) = images.next() else { continue };
                let planned = self.planned(parts, own.part);
                if let Some(image) = planned.map_err(|reason| self.bad_image(own, &reason))? {
                    let added = self.add_pieces(&image, start);
                    added.map_err(|reason| self.bad_image(own, &reason))?;
                }
            } else {
                self.lists.tokens.extend(u32::try_from(token));
                self.lists.labels.extend(label);
            }
        }
        self.end_document()
    }

    fn end_document(&mut self) -> Result<(), Fault> {
        if let Some(Counting { counted, documents, affixes }) = &mut self.counting {
            let [tokens, images] = [self.lists.tokens.len(), self.patches.len()];
            let numbers = [tokens as u64, images as u64, self.patches.iter().sum()];
            let numbers = numbers.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            counted.numbers.extend(numbers.into_iter().take(self.sequences.counts_of_row()));
            if let Some(affixes) = affixes {
                let patches = self.patches.iter().copied();
                let blocks = blocks_of(&self.lists.tokens, &self.index, patches, affixes);
                counted.blocks.add(*documents, blocks);
            }
            *documents += 1;
            self.lists.tokens.clear();
            self.lists.labels.clear();
            self.index.clear();
            self.shapes.clear();
            self.patches.clear();
            return Ok(());
        }
        let images = i32::try_from(self.index.len() / 2);
        let images = images.ok().filter(|_| self.lists.end_row());
        self.image_ends.push(images.ok_or_else(|| Fault {
            source: 0,
            reason: "a block has more than 2,147,483,647 tokens".to_owned(),
            hint: None,
        })?);
        Ok(())
    }

    fn bad_image(&self, own: Part, reason: &str) -> Fault {
        let hint = self.sequences.images.as_ref().map(|_| LEAVE_OUT.to_owned());
        Fault { hint, ..own.bad_image(reason) }
    }

    /// How tokens are labelled. Documents that are counted need labels only where one without any is
    /// refused.
    fn labels(&self) -> Option<&'a SequenceLabels> {
        let is_needed = |labels: &&SequenceLabels| {
            self.counting.is_none() || labels.kind == LabelKind::Completion
        };
        self.sequences.options.labels.as_ref().filter(is_needed)
    }

    fn label_kind(&self) -> Option<LabelKind> {
        self.sequences.options.labels.as_ref().map(|labels| labels.kind)
    }

    /// Reports a document in which no token has a label. `start` is its first token.
    fn check_labels(&mut self, start: usize) -> Result<(), Fault> {
        let Some(labels) = self.labels() else { return Ok(()) };
        let mut own = self.lists.labels.iter().skip(start);
        if own.any(|label| *label != labels.ignore_index) {
            return Ok(());
        }
        self.totals.rows_without_labels += 1;
        if labels.kind != LabelKind::Completion {
            return Ok(());
        }
        let found = self.sequences.unlabelled.found(labels.required);
        found.map_err(|(reason, hint)| Fault { source: TEXTS, reason, hint })
    }

    /// Adds labels of the tokens that have none.
    fn label(&mut self, is_labelled: bool) {
        let Some(labels) = self.labels() else { return };
        let ids = self.lists.tokens.get(self.lists.labels.len()..).unwrap_or_default();
        let label = |id: &u32| if is_labelled { i64::from(*id) } else { labels.ignore_index };
        self.lists.labels.extend(ids.iter().map(label));
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        self.totals.text_bytes += text.len() as u64;
        let tokenizer = &self.sequences.tokenizer;
        tokenizer
            .encode_into(text, SpecialInText::Text, &mut self.lists.tokens)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Adds the block of an image, unless it is left out. `start` is the
    /// first token of the document.
    fn add_image(&mut self, parts: &Parts<'_>, part: usize, start: usize) -> Result<bool, String> {
        let Some(image) = self.planned(parts, part)? else { return Ok(false) };
        let options = &self.sequences.options;
        self.lists.tokens.extend(&options.prefix);
        self.label_around();
        self.add_pieces(&image, start)?;
        self.lists.tokens.extend(&options.suffix);
        self.label_around();
        Ok(true)
    }

    /// The plan of an image, `None` if it is left out.
    fn planned(&mut self, parts: &Parts<'_>, part: usize) -> Result<Option<PlannedImage>, String> {
        let Some(images) = &self.sequences.images else {
            return Err("an image, and Sequences has no images=".to_owned());
        };
        let planned = parts.image(part).and_then(|image| images.plan(image));
        let fills_bad = images.options().fills_bad;
        if let Some(reason) = parts.contradiction(part).filter(|_| !fills_bad) {
            return Err(reason.to_owned());
        }
        let is_left_out = match &planned {
            Ok(image) => !images.has_room(image),
            Err(_) => fills_bad,
        };
        if is_left_out {
            self.totals.images_left_out += 1;
            return Ok(None);
        }
        planned.map(Some)
    }

    /// Labels the tokens around the placeholders of an image.
    fn label_around(&mut self) {
        self.label(self.label_kind() == Some(LabelKind::All));
    }

    /// Adds the pieces that replace the placeholder of an image.
    fn add_pieces(&mut self, image: &PlannedImage, start: usize) -> Result<(), String> {
        let small = |number: usize| i32::try_from(number).map_err(|_| "too many tokens".to_owned());
        let (sequences, mut placeholders) = (self.sequences, None::<Range<usize>>);
        let planned =
            sequences.images.as_ref().and_then(|images| images.options().planned.as_ref());
        let pieces = planned.map_or_else(Vec::new, |planned| planned.rule.expansion(image));
        for (piece, count) in pieces {
            if piece == ImagePiece::Placeholder {
                let count = small(usize::try_from(count).unwrap_or(usize::MAX))?;
                let first = self.lists.tokens.len();
                let end = first + usize::try_from(count).unwrap_or_default();
                self.lists.tokens.resize(end, sequences.options.placeholder);
                self.label(false);
                placeholders = Some(placeholders.map_or(first, |all| all.start)..end);
            } else {
                let ids = sequences.pieces.get(&piece);
                self.lists.tokens.extend(ids.ok_or_else(|| format!("no token for {piece:?}"))?);
                self.label_around();
            }
        }
        let Range { start: first, end } = placeholders.unwrap_or_default();
        self.index.extend([small(first.saturating_sub(start))?, small(end - first)?]);
        let shape = sequences.images.as_ref().and_then(|images| images.shape());
        self.patches.push(shape.map_or(1, |_| image.patches));
        self.shapes.extend(shape.into_iter().flat_map(|shape| shape.of(image)));
        Ok(())
    }

    /// What was counted.
    pub(super) fn into_counted(self) -> Counted {
        self.counting.unwrap_or_default().counted
    }

    /// The columns of [`Sequences::new`].
    pub(super) fn finish(self) -> Result<Vec<ArrayRef>, ArrowError> {
        let Self { sequences, lists, index, shapes, image_ends, .. } = self;
        let (of_tokens, of_images) = sequences.outputs.split_at(sequences.lists);
        let mut arrays = lists.into_arrays(of_tokens)?;
        let number = Arc::new(Field::new("item", DataType::Int32, false));
        let index = Arc::new(Int32Array::from(index));
        let mut items: Vec<ArrayRef> =
            vec![Arc::new(FixedSizeListArray::try_new(number, 2, index, None)?)];
        let shape = sequences.images.as_ref().and_then(|images| images.shape());
        items.extend(shape.map(|shape| shape.items(shapes)).transpose()?);
        for (field, items) in of_images.iter().zip(items) {
            let DataType::List(item) = field.data_type() else { continue };
            let ends = OffsetBuffer::new(image_ends.clone().into());
            arrays.push(Arc::new(ListArray::try_new(Arc::clone(item), ends, items, None)?));
        }
        Ok(arrays)
    }
}
