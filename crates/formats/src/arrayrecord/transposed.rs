use super::Fault;
use super::codec::Zstd;

pub(super) fn decode(_data: &[u8], _num_records: usize, _decoded_size: usize, _zstd: &mut Zstd) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    Err(Fault::Malformed("transposed"))
}
