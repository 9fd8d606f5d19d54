//! Rules by which images become tokens: from oriented sizes alone, before a pixel is read.
//!
//! A [`Rule`] gives the size that an image is resized to, its tokens and its patches. The reference
//! are the pixels that the image processors of transformers 5.23 return, so all is computed in
//! `f64`, in the order that they write. Invariant: equal rules and sizes give equal numbers on
//! every machine.

mod idefics3;
mod pixtral;
mod planned;
mod qwen2_vl;
mod rounding;
mod siglip2;
mod tiles;

pub use planned::{Piece, PlannedImage, Refusal, Sides};

use idefics3::Idefics3;
use pixtral::Pixtral;
use qwen2_vl::Qwen2Vl;
use serde::Deserialize;
use siglip2::Siglip2;
use std::num::NonZeroU16;
use tiles::Tiles;

/// Raised when a rule gives other numbers for the same options.
pub const RULES_VERSION: u32 = 1;

/// One rule with its options.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Rule {
    Qwen2Vl(Qwen2Vl),
    Fixed(Fixed),
    Tiles(Tiles),
    Pixtral(Pixtral),
    Idefics3(Idefics3),
    Siglip2(Siglip2),
}

/// One size for all images, as in LLaVA, CLIP and SigLIP.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Height and width.
    size: (NonZeroU16, NonZeroU16),
    tokens: u32,
}

impl Rule {
    /// The tokens and patches that no image exceeds, if the rule bounds them.
    #[must_use]
    pub fn most(&self) -> Option<(u64, u64)> {
        match self {
            Self::Qwen2Vl(rule) => Some(rule.most()),
            Self::Fixed(rule) => Some((rule.tokens.into(), 1)),
            _ => None,
        }
    }

    /// Plans an image of an oriented size.
    ///
    /// # Errors
    /// If a side is not that of an image, or the rule has no target for it.
    pub fn plan(&self, height: i32, width: i32) -> Result<PlannedImage, Refusal> {
        let image = self.unchecked(Sides::checked(height, width)?)?;
        image.numbers()?;
        Ok(image)
    }

    /// The numbers of all images: first all target heights, then widths, tokens, patches, rows and
    /// columns. Those of images without a target are 0.
    pub fn plan_all(&self, heights: &[i32], widths: &[i32]) -> Vec<i32> {
        let len = heights.len().min(widths.len());
        let mut planned = vec![0; 6 * len];
        for (index, (&height, &width)) in heights.iter().zip(widths).enumerate() {
            let image = Sides::checked(height, width).and_then(|sides| self.unchecked(sides));
            let Ok(numbers) = image.and_then(|image| image.numbers()) else { continue };
            for (number, place) in
                numbers.into_iter().zip(planned.iter_mut().skip(index).step_by(len))
            {
                *place = number;
            }
        }
        planned
    }

    /// What takes the place of the placeholder of an image, in order, with how often each comes.
    pub fn expansion(&self, image: &PlannedImage) -> Vec<(Piece, u64)> {
        match self {
            Self::Tiles(_) => Tiles::expansion(image),
            Self::Pixtral(_) => Pixtral::expansion(image),
            Self::Idefics3(idefics3) => idefics3.expansion(image),
            _ => vec![(Piece::Placeholder, image.tokens)],
        }
    }

    /// What [`Self::expansion`] may have before the first placeholder, and what it has after the
    /// last one.
    #[must_use]
    pub fn around(&self) -> (Vec<Vec<Piece>>, Vec<Piece>) {
        let tile = Piece::Tile { row: 1, col: 1 };
        match self {
            Self::Tiles(_) => (vec![vec![Piece::Start]], vec![Piece::End]),
            Self::Pixtral(_) => (vec![Vec::new()], vec![Piece::End]),
            Self::Idefics3(_) => {
                let first = [tile, Piece::Overview].map(|tag| vec![Piece::Start, tag]);
                (first.to_vec(), vec![Piece::End])
            }
            Self::Qwen2Vl(_) | Self::Fixed(_) | Self::Siglip2(_) => (vec![Vec::new()], Vec::new()),
        }
    }

    /// The pieces that [`Self::expansion`] may contain besides the placeholder.
    pub fn pieces(&self) -> Vec<Piece> {
        match self {
            Self::Tiles(_) => vec![Piece::Start, Piece::End],
            Self::Pixtral(_) => vec![Piece::RowBreak, Piece::End],
            Self::Idefics3(rule) => rule.pieces(),
            Self::Qwen2Vl(_) | Self::Fixed(_) | Self::Siglip2(_) => Vec::new(),
        }
    }

    /// The sizes that an image of this oriented size is resized to, in order, before its tiles are
    /// made.
    ///
    /// # Errors
    /// If a side is not valid for an image.
    pub fn stages(&self, height: i32, width: i32) -> Result<Vec<Sides>, Refusal> {
        let sides = Sides::checked(height, width)?;
        Ok(match self {
            Self::Idefics3(rule) => rule.stages(sides),
            _ => Vec::new(),
        })
    }

    /// The most patches that images with this number of tokens may have.
    pub fn most_patches(&self, tokens: u64) -> u64 {
        match self {
            Self::Qwen2Vl(rule) => tokens.saturating_mul(rule.patches_a_token()),
            Self::Pixtral(rule) => tokens.saturating_mul(rule.patches_a_token()),
            Self::Fixed(rule) => tokens / u64::from(rule.tokens.max(1)),
            Self::Tiles(rule) => tokens / rule.tokens_a_tile(),
            Self::Idefics3(rule) => tokens / rule.tokens_a_tile(),
            Self::Siglip2(rule) => rule.most_patches(tokens),
        }
    }

    fn unchecked(&self, sides: Sides) -> Result<PlannedImage, Refusal> {
        Ok(match self {
            Self::Qwen2Vl(rule) => return rule.plan(sides),
            Self::Fixed(rule) => rule.plan(),
            Self::Tiles(rule) => rule.plan(sides),
            Self::Pixtral(rule) => rule.plan(sides),
            Self::Idefics3(rule) => rule.plan(sides),
            Self::Siglip2(rule) => rule.plan(sides),
        })
    }
}

impl Fixed {
    fn plan(self) -> PlannedImage {
        let (height, width) = (u64::from(self.size.0.get()), u64::from(self.size.1.get()));
        let tokens = u64::from(self.tokens);
        PlannedImage { height, width, tokens, patches: 1, rows: 1, cols: 1 }
    }
}

#[cfg(test)]
mod tests;
