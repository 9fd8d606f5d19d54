//! Reads shards as rows.

mod builders;
mod file;
mod head;
mod layout;
mod rebuild;
mod stored;

pub use file::{MdsFile, MdsOptions};
pub use layout::ArrayTypes;
pub use rebuild::{RebuiltShard, rebuild_shard};
pub use stored::check_file_hashes;
