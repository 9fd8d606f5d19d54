//! Files of token ids as other trainers write them, as a table with one document per row.
//!
//! Megatron-LM writes `P.bin` and `P.idx`, datatrove `X.ds` and
//! `X.ds.index`; files of llm.c and nanoGPT have no index, those of OLMo a CSV
//! file. A format says where documents are ([`Documents`]);
//! [`TokenTable`] cuts them into blocks and reads their tokens. Used by the `load` crate. The
//! invariant: every entry of an index is checked before a token that it locates is delivered, so
//! an index that lies is an error at its block.

mod blocks;
mod column;
mod datatrove;
mod documents;
mod dtype;
mod ends;
mod entries;
mod flat;
mod megatron;
mod npy;
mod table;
#[cfg(test)]
mod tests;

pub use crate::token_error::Error;
pub use column::STORED_DTYPE;
pub use datatrove::DatatroveFiles;
pub use dtype::Dtype;
pub use flat::{FlatFile, Separator, llm_c_header};
pub use megatron::{MegatronIndex, MegatronRows, megatron_header};
pub use table::{TokenOptions, TokenTable};
