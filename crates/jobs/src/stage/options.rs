//! Stages as data.

use super::filter::Filter;
use super::headers::{AspectRatioFilter, SizeFilter};
use super::image_to_text::ImageToTextRatioFilter;
use super::pixels::{BlurFilter, DamageFilter};
use super::reencode::ReencodeImages;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StageOptions {
    AspectRatio(AspectRatioFilter),
    Size(SizeFilter),
    Blur(BlurFilter),
    Damage(DamageFilter),
    ImageToTextRatio(ImageToTextRatioFilter),
    Filter(Filter),
    Reencode(ReencodeImages),
    /// A stage outside of this crate, by its index in the list that is passed with the spec.
    User {
        index: usize,
    },
}
