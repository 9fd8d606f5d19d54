//! Finds the pages of a TIFF and copies one of them into a TIFF of its own.
//!
//! Ranges of one payload enter; [`TiffWalk`] makes the index of its pages once per document, [`PageExtraction`] plans the copy of one page. No
//! strip or tile is read to plan: the caller copies them. Invariant: byte order and flavour of the source are kept, because tag values and
//! samples wider than a byte are in file order.
//!
//! # Copy of a page
//!
//! ```text
//! | header | directory | values, word-aligned | EXIF, GPS and interop directories | strips or tiles of the source |
//! ```

mod copy;
mod directory;
mod encode;
mod entry;
mod extract;
mod fetch;
mod layout;
mod old_jpeg;
mod page;
mod plan;
mod relocate;
mod segments;
mod tags;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use page::FirstPage;

pub use copy::{PageCopy, extract_page};
pub use extract::PageExtraction;
pub use page::TiffPage;
pub use walk::{TiffIndex, TiffWalk, tiff_index};
