//! WebDataset archives as tables: a row is a run of members with one key, a column is an extension.
//!
//! One walk over the headers of an archive, which may be compressed, tells where every part of every sample lies; rows are then read by offset. Called by the
//! data set of the `load` crate. The invariant: rows are those of WebDataset's own reader, in its order, and none is left out because of damage: an archive
//! that is not sound to its end is an error, and so is one that ends without the zeros that end an archive.
//!
//! A plain archive is cut into blocks of a few MB, of which only the wanted members are read. A compressed one is one block, since its bytes cannot be reached
//! but by decompressing all that lies before them.

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

pub use columns::{DECODING, KEY};
pub(super) use content::Content;
pub use error::Error;
pub use file::WebDatasetFile;
