//! Images of documents, whose sizes and tokens a rule decides from their headers.
//!
//! The invariant: tokens and pixels of an image are planned by the same function of its bytes.

use super::Images;
use super::canvas::cause_of;
use arrow_schema::{DataType, Field, FieldRef};
use shardmill_pixels::decode::checked_facts;
use shardmill_pixels::{Layout, Sides};
use shardmill_plan::images::{PlannedImage, Rule};
use std::sync::Arc;

/// How the images of a document become pixels.
#[derive(Debug, Clone)]
pub struct Planned {
    pub rule: Rule,
    /// Name of the column of pixels.
    pub output: String,
    /// Whether packs have positions of three axes.
    pub has_rope: bool,
}

impl Images {
    /// The plan of an image, or why there is none.
    pub(crate) fn plan(&self, payload: &[u8]) -> Result<PlannedImage, String> {
        let Some(planned) = &self.options().planned else {
            return Err("its column has no rule".to_owned());
        };
        let facts = checked_facts(payload, &self.options().decode);
        let size = facts.map_err(|error| cause_of(&error))?.oriented;
        let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
        let image = planned.rule.plan(side(size.height), side(size.width));
        image.map_err(|refusal| format!("unplannable ({refusal})"))
    }

    /// Whether pixels are patches.
    pub(crate) fn has_grid(&self) -> bool {
        matches!(self.options().spec.layout, Layout::Patches(_))
    }

    /// Whether packs have positions of three axes.
    pub(crate) fn has_rope(&self) -> bool {
        self.options().planned.as_ref().is_some_and(|planned| planned.has_rope)
    }

    /// Patches on a side of the square that is one token.
    pub(crate) fn merge(&self) -> i64 {
        match self.options().spec.layout {
            Layout::Patches(patches) => i64::try_from(patches.merge).unwrap_or(i64::MAX),
            _ => 1,
        }
    }

    /// Size of the pixels of images that have this many tokens.
    pub(crate) fn bytes_of_tokens(&self, tokens: u64) -> u64 {
        let (Some(part), Some(planned)) = (self.part(), &self.options().planned) else { return 0 };
        let bytes = (part.iter().product::<usize>() * self.options().spec.dtype.bytes()) as u64;
        match self.options().spec.layout {
            Layout::Patches(patches) => {
                let merged = (patches.merge * patches.merge) as u64;
                tokens.saturating_mul(merged).saturating_mul(bytes)
            }
            // All images have the size of the rule.
            _ => {
                let each = planned.rule.plan(1, 1).map_or(1, |image| image.tokens.max(1));
                (tokens / each).saturating_mul(bytes)
            }
        }
    }

    /// Shape of each of the equal parts that the pixels of an image consist of: its patches, or the
    /// image itself.
    pub(super) fn part(&self) -> Option<Vec<usize>> {
        let (spec, _) = (&self.options().spec, self.options().planned.as_ref()?);
        let channels = spec.channels.count();
        match (spec.layout, spec.size) {
            (Layout::Patches(patches), _) => {
                Some(vec![channels * patches.frames * patches.size * patches.size])
            }
            (_, Some(Sides { height, width })) => Some(vec![channels, height, width]),
            (_, None) => None,
        }
    }
}

/// The column of the parts of all images of a row.
pub(super) fn field(name: &str, part: DataType) -> FieldRef {
    let item = Arc::new(Field::new("item", part, false));
    Arc::new(Field::new(name, DataType::List(item), false))
}

/// The size of the plan.
pub(super) fn target(image: &PlannedImage) -> Sides {
    let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
    Sides { height: side(image.height), width: side(image.width) }
}
