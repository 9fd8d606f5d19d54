//! Finds the pages of a TIFF and copies one of them into a separate TIFF.
//!
//! [`TiffWalk`] creates the index of the pages once per document, [`PageExtraction`] plans the copy
//! of one page. Planning reads no strips or tiles: the caller copies them. Invariant: byte order
//! and flavour of the source are kept, because tag values and samples wider than a byte
//! are in file order.
//!
//! # Copy of a page
//!
//! ```text
//! | header | directory | values, word-aligned | EXIF, GPS and interop directories
//!     | strips or tiles of the source |
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
mod values;
mod walk;

pub(crate) use layout::Layout;
pub(crate) use page::{FirstPage, PageDirectory, PageSize};

pub use copy::{PageCopy, extract_page};
pub use extract::PageExtraction;
pub use page::TiffPage;
pub use values::{PageTags, page_tags};
pub use walk::{TiffIndex, TiffWalk, tiff_index};
