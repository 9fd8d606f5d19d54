//! Token sequences of documents: texts, and in place of each image the tokens that its header
//! plans.
//!
//! ```text
//! parts of a document → ids of texts, blocks of images → tokens, labels, place of each image
//! ```
//!
//! The invariants: a text never becomes a placeholder, whatever it spells; the sequence of a
//! document depends on its parts and on the options alone, and no pixel is decoded for it.

mod blocks;
mod builder;
mod messages;
mod parts;

pub(crate) use blocks::blocks_of;

use crate::dataset::{Affixes, CountRows, Counted, Derive, Limited, Underivable};
use crate::images::{ImageLimits, Images, Shape};
use crate::tokenize::{CountsDirectory, TokenColumns, TokenCounts, Unlabelled, add_totals};
use crate::{Dataset, Result, UnderivableRow};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use builder::Builder;
use messages::Messages;
use parts::{Fault, Parts};
use shardmill_engine::Cancel;
use shardmill_plan::images::Piece;
use shardmill_tokens::Tokenizer;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// First placeholder of each image, and the number of tokens up to its last one.
pub const IMAGE_INDEX: &str = "image_index";

/// What is counted of a document with images: its tokens, its images, and the patches of these.
pub(crate) const COUNTS_WITH_IMAGES: usize = 3;

/// How documents become sequences.
#[derive(Debug, Clone, Default)]
pub struct SequenceOptions {
    /// Ids around every document that is not empty.
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// Ids between adjacent texts.
    pub separator: Vec<u32>,
    /// Ids around the placeholders of an image.
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
    pub placeholder: u32,
    /// Ids of the pieces of the rule of images, in their order.
    pub pieces: Vec<Vec<u32>>,
    /// In texts, the place of the next image; without it, images have places of their own.
    pub marker: Option<String>,
    pub labels: Option<SequenceLabels>,
    /// The column of tokens.
    pub tokens: String,
}

/// Labels of tokens; the first one of a document and placeholders are never labelled.
#[derive(Debug, Clone)]
pub struct SequenceLabels {
    pub column: String,
    pub ignore_index: i64,
    pub kind: LabelKind,
    /// Whether a document in which all labels are ignored is an error. Only for
    /// [`LabelKind::Completion`].
    pub required: bool,
}

/// Which tokens are labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelKind {
    /// All tokens but those of images.
    Texts,
    /// Also the tokens around the placeholders of images.
    All,
    /// Only the tokens of the last text of a document, and the token at its end.
    Completion,
}

/// Tokens of conversations, in which a placeholder stands for each image of the row.
#[derive(Debug, Clone)]
pub struct Chats {
    pub tokens: Arc<dyn Derive>,
    /// Columns that they are computed from.
    pub columns: Vec<String>,
}

/// Sequences of documents.
pub struct Sequences {
    tokenizer: Arc<Tokenizer>,
    /// `None` if documents with images are refused.
    images: Option<Arc<Images>>,
    /// Ids of the pieces of an image, besides placeholders.
    pieces: HashMap<Piece, Vec<u32>>,
    options: SequenceOptions,
    /// If conversations are the documents.
    chats: Option<Chats>,
    /// The columns of parts of documents.
    sources: Vec<String>,
    outputs: Vec<FieldRef>,
    /// Of the outputs, those that are as long as the tokens.
    lists: usize,
    counts: CountsDirectory,
    unlabelled: Arc<Unlabelled>,
}

impl Sequences {
    #[must_use]
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        images: Option<Arc<Images>>,
        options: SequenceOptions,
        chats: Option<Chats>,
        counts: CountsDirectory,
    ) -> Self {
        let labels = options.labels.as_ref().map(|labels| labels.column.clone());
        let tokens = options.tokens.clone();
        let mut outputs = TokenColumns { tokens, is_wide: false, labels }.fields();
        let lists = outputs.len();
        if let Some(images) = &images {
            outputs.push(index_field());
            outputs.extend(images.shape().map(Shape::field));
        }
        let rule = images.as_ref().and_then(|images| images.options().planned.as_ref());
        let pieces = rule.map_or_else(Vec::new, |planned| planned.rule.pieces());
        let pieces = pieces.into_iter().zip(options.pieces.iter().cloned()).collect();
        let sources = parts::sources(images.as_ref().map_or(&[], |images| images.size_lists()));
        let unlabelled = Arc::default();
        Self {
            tokenizer,
            images,
            pieces,
            options,
            chats,
            sources,
            outputs,
            lists,
            counts,
            unlabelled,
        }
    }

    /// Names of the columns that are computed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let pixels = self.images.iter().flat_map(|images| images.outputs());
        self.outputs.iter().chain(pixels).map(|field| field.name().as_str())
    }
}

impl Dataset {
    /// The data set of documents with the columns of their sequences.
    ///
    /// # Errors
    /// When a column of such a name exists.
    pub fn with_sequences(&self, sequences: &Arc<Sequences>) -> Result<Self> {
        let mut names = sequences.sources.clone();
        names.extend(sequences.chats.iter().flat_map(|chats| chats.columns.iter().cloned()));
        let sources = self.columns(&names)?;
        let derive: Arc<dyn Derive> = Arc::clone(sequences) as Arc<dyn Derive>;
        let dataset = self.with_derived(&derive, &sources)?;
        match &sequences.images {
            Some(images) => dataset.with_images(images),
            None => Ok(dataset),
        }
    }
}

/// Two numbers for each image of a document.
fn index_field() -> FieldRef {
    let item = |data_type| Arc::new(Field::new("item", data_type, false));
    let numbers = DataType::FixedSizeList(item(DataType::Int32), 2);
    Arc::new(Field::new(IMAGE_INDEX, DataType::List(item(numbers)), false))
}

impl fmt::Debug for Sequences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sequences")
            .field("tokenizer", &self.tokenizer.path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Sequences {
    /// The sequences of documents, which `new` begins to build.
    fn built<'a>(
        &'a self,
        sources: &[ArrayRef],
        new: impl Fn(&'a Self, usize) -> Builder<'a>,
    ) -> std::result::Result<Builder<'a>, Underivable> {
        let (sources, of_chats) = sources.split_at(sources.len().min(self.sources.len()));
        let parts = Parts::of(sources).map_err(Underivable::Batch)?;
        let before = self.sources.len();
        let chats = self.chats.as_ref().map(|chats| Messages::of(&*chats.tokens, of_chats, before));
        let chats = chats.transpose()?;
        let documents = sources.first().map_or(0, Array::len);
        let mut builder = new(self, documents);
        let mut failures = Vec::new();
        for document in 0..documents {
            let added = match &chats {
                Some(chats) => builder.add_chat(&parts, chats, document),
                None => builder.add(&parts, document),
            };
            if let Err(Fault { source, reason, hint }) = added {
                let row =
                    UnderivableRow { row: document, source, reason, hint, ..Default::default() };
                failures.push(row);
                builder = new(self, documents);
            }
        }
        if !failures.is_empty() {
            return Err(Underivable::Rows(failures));
        }
        add_totals(builder.totals);
        Ok(builder)
    }
}

impl CountRows for Sequences {
    fn count(
        &self,
        sources: &[ArrayRef],
        has_blocks: bool,
    ) -> std::result::Result<Counted, Underivable> {
        let affixes = has_blocks.then(|| self.affixes());
        let new = |own, documents| Builder::counting(own, documents, affixes.clone());
        self.built(sources, new).map(Builder::into_counted)
    }
}

impl Derive for Sequences {
    fn accepts(&self, source: usize, data_type: &DataType) -> bool {
        match (source.checked_sub(self.sources.len()), &self.chats) {
            (Some(source), Some(chats)) => chats.tokens.accepts(source, data_type),
            _ => matches!(data_type, DataType::List(_)),
        }
    }

    fn outputs(&self) -> &[FieldRef] {
        &self.outputs
    }

    fn compute(&self, sources: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, Underivable> {
        let built = self.built(sources, Builder::new)?;
        built.finish().map_err(|error| Underivable::Batch(error.to_string()))
    }

    fn counter(&self) -> Option<&dyn CountRows> {
        Some(self)
    }

    fn counts(&self, cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        self.counts.open(cancel)
    }

    fn counts_of_row(&self) -> usize {
        if self.images.is_some() { COUNTS_WITH_IMAGES } else { 1 }
    }

    fn affixes(&self) -> Affixes {
        let SequenceOptions { prefix, suffix, .. } = &self.options;
        let ids = |pieces: Vec<Piece>| -> Vec<u32> {
            pieces.iter().filter_map(|piece| self.pieces.get(piece)).flatten().copied().collect()
        };
        let rule = self.images.as_ref().and_then(|images| images.options().planned.as_ref());
        let (before, after) = rule.map(|planned| planned.rule.around()).unwrap_or_default();
        let (before, after) = (before.into_iter().map(ids), ids(after));
        // In conversations, the template writes the prefix and the suffix.
        Affixes {
            before: before.flat_map(|ids| [[prefix.clone(), ids.clone()].concat(), ids]).collect(),
            after: vec![[after.clone(), suffix.clone()].concat(), after],
        }
    }

    fn with_image_limits(&self, limits: ImageLimits) -> Option<Limited> {
        let affixes = self.options.prefix.len() + self.options.suffix.len();
        let affixes = u32::try_from(affixes).unwrap_or(u32::MAX);
        let tokens = limits.tokens.saturating_sub(affixes);
        let of_image = ImageLimits { tokens, ..limits };
        // What is counted without limits serves all packings.
        let images = self.images.as_ref().filter(|images| images.may_exceed(of_image))?;
        let images = Arc::new(images.limited(of_image));
        let sequences = Self {
            tokenizer: Arc::clone(&self.tokenizer),
            images: Some(Arc::clone(&images)),
            pieces: self.pieces.clone(),
            options: self.options.clone(),
            chats: self.chats.clone(),
            sources: self.sources.clone(),
            outputs: self.outputs.clone(),
            lists: self.lists,
            counts: self.counts.beside(&format!("{}-{}", limits.tokens, limits.patches)),
            unlabelled: Arc::clone(&self.unlabelled),
        };
        Some((Arc::new(sequences), images))
    }

    fn output_bytes(&self, source_bytes: u64) -> u64 {
        // A token has a few bytes of text, or some hundred of an encoded image.
        source_bytes / 2
    }
}
