//! Pages of handmade TIFFs, valid and hostile.
#![expect(clippy::cast_possible_truncation, reason = "the files are small and built here")]

mod builder;
mod copies;
mod hostile;
mod mutations;
mod special;

use crate::endian::Endian;
use crate::tiff::layout::Layout;

/// Both byte orders in both flavours.
const LAYOUTS: [Layout; 4] = [
    layout(Endian::Little, false),
    layout(Endian::Big, false),
    layout(Endian::Little, true),
    layout(Endian::Big, true),
];

const fn layout(endian: Endian, is_big: bool) -> Layout {
    Layout { endian, is_big }
}
