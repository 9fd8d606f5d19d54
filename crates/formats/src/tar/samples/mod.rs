//! WebDataset archives as tables: a row is a run of members with the same key,
//! a column is an extension.
//!
//! One walk over the headers of an archive, which may be compressed, finds every part
//! of every sample; rows are then read by offset. Used by the data set of the `load` crate.
//! The invariant: rows are those of WebDataset's own reader, in its order, and none is lost
//! because of damage: an archive that is not sound to its end is an error, and so is one without
//! the zeros that end an archive.
//!
//! An uncompressed archive is split into blocks of a few MB, of which only the selected members are
//! read. A compressed one is one block, since its bytes can only be reached by decompressing
//! everything before them.

mod columns;
mod content;
mod error;
mod file;
mod index;
mod key;
mod payload;
mod stream;
#[cfg(test)]
mod tests;

pub use columns::DECODING;
pub(super) use content::Content;
pub use error::Error;
pub use file::WebDatasetFile;
pub use key::KEY;
pub(super) use key::is_meta;
