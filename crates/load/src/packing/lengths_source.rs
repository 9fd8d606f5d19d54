//! Where the number of tokens of each row comes from.

use crate::Dataset;
use crate::dataset::{Affixes, OpenFile};
use shardmill_plan::packing::Unit;

/// The source of lengths: a column of the data set, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthsSource {
    /// The lists themselves. With `has_blocks`, the places of images in them are found too.
    Lists { column: usize, nulls_are_empty: bool, has_blocks: bool },
    /// A column with the lengths.
    Stated { column: usize },
    /// A column with the lengths, which may be floats.
    Numbers { column: usize },
}

impl LengthsSource {
    pub(super) fn column(self) -> usize {
        match self {
            Self::Lists { column, .. } | Self::Stated { column } | Self::Numbers { column } => {
                column
            }
        }
    }

    pub(super) fn is_stated(self) -> bool {
        !matches!(self, Self::Lists { .. })
    }

    /// Whether rows with images may be cut.
    pub(super) fn has_blocks(self) -> bool {
        matches!(self, Self::Lists { has_blocks: true, .. })
    }

    /// What is around the placeholders of images in a file, if their places are needed.
    pub(super) fn affixes(self, file: Option<&OpenFile>) -> Option<Affixes> {
        file.filter(|_| self.has_blocks()).map(|file| file.affixes(self.column()))
    }

    pub(super) fn unit(self, dataset: &Dataset) -> Unit {
        let field = dataset.schema().fields().get(self.column());
        let is_float = field.is_some_and(|field| field.data_type().is_floating());
        match self {
            Self::Numbers { .. } if is_float => Unit::Float,
            _ => Unit::Tokens,
        }
    }
}
