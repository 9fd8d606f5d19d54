//! The frame of a file: chunks with their hashes, headers of blocks between their bytes, and zeros
//! where a reader looks at nothing.

use highway::{HighwayHash, HighwayHasher, Key};

pub const BLOCK: usize = 1 << 16;
const KEY: Key = Key([
    0x2f69_6c65_6765_6952,
    0x0a73_6472_6f63_6572,
    0x2f69_6c65_6765_6952,
    0x0a73_6472_6f63_6572,
]);
/// A chunk is filled up to as many bytes as it claims records, if they are not more than these.
const FILLED_MAX: u64 = 100_000;

pub fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

pub fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number, or bytes with their length, as a field of a message.
pub fn put_field(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3);
    put_number(value, out);
}

pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// What a chunk tells of itself that is not so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lies {
    /// In place of the true length of the data.
    pub data_size: Option<u64>,
    pub data_hash: u64,
    pub header_hash: u64,
    /// Added to what the headers of blocks say.
    pub previous: u64,
    pub next: u64,
    pub block_hash: u64,
    /// Not as long as it has records.
    pub is_short: bool,
}

#[derive(Debug, Clone)]
pub struct Chunk {
    pub kind: u8,
    pub num_records: u64,
    pub decoded_size: u64,
    pub data: Vec<u8>,
    pub lies: Lies,
}

impl Chunk {
    pub fn simple(records: &[Vec<u8>]) -> Self {
        let (mut sizes, mut data) = (Vec::new(), vec![0]);
        records.iter().for_each(|record| put_number(record.len() as u64, &mut sizes));
        put_bytes(&sizes, &mut data);
        data.extend(records.concat());
        let decoded_size = records.iter().map(|record| record.len() as u64).sum();
        Self {
            kind: b'r',
            num_records: records.len() as u64,
            decoded_size,
            data,
            lies: Lies::default(),
        }
    }

    fn header(&self) -> Vec<u8> {
        let data_size = self.lies.data_size.unwrap_or(self.data.len() as u64);
        let fields = [
            data_size,
            hash(&self.data) ^ self.lies.data_hash,
            u64::from(self.kind) | self.num_records << 8,
            self.decoded_size,
        ]
        .map(u64::to_le_bytes);
        let fields = fields.concat();
        [&(hash(&fields) ^ self.lies.header_hash).to_le_bytes(), fields.as_slice()].concat()
    }
}

#[derive(Debug)]
pub struct Container {
    pub bytes: Vec<u8>,
}

impl Container {
    pub fn new() -> Self {
        let mut container = Self { bytes: Vec::new() };
        container.add(&Chunk {
            kind: b's',
            num_records: 0,
            decoded_size: 0,
            data: Vec::new(),
            lies: Lies::default(),
        });
        container
    }

    /// Gives where the chunk begins.
    pub fn add(&mut self, chunk: &Chunk) -> u64 {
        let begin = self.bytes.len();
        let content = [chunk.header(), chunk.data.clone()].concat();
        let headers = (content.len() + (begin + BLOCK - 25) % BLOCK) / (BLOCK - 24) * 24;
        let mut end = begin + content.len() + headers;
        if chunk.num_records <= FILLED_MAX && !chunk.lies.is_short {
            end = end.max(legal(begin + chunk.num_records as usize));
        }
        let mut rest = content.as_slice();
        while self.bytes.len() < end {
            let position = self.bytes.len();
            if position.is_multiple_of(BLOCK) {
                let previous =
                    ((position - begin) as u64).wrapping_add(chunk.lies.previous).to_le_bytes();
                let next = ((end - position) as u64).wrapping_add(chunk.lies.next).to_le_bytes();
                let fields = [previous, next].concat();
                self.bytes.extend((hash(&fields) ^ chunk.lies.block_hash).to_le_bytes());
                self.bytes.extend(fields);
            }
            let room = end.min((position / BLOCK + 1) * BLOCK).saturating_sub(self.bytes.len());
            let (part, behind) = rest.split_at(room.min(rest.len()));
            self.bytes.extend_from_slice(part);
            self.bytes.resize(self.bytes.len() + room - part.len(), 0);
            rest = behind;
        }
        begin as u64
    }

    /// Zeros up to a place where a chunk may begin, at least so many bytes on.
    pub fn skip(&mut self, len: usize) {
        self.bytes.resize(legal(self.bytes.len() + len), 0);
    }

    pub fn to_boundary(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }
}

fn legal(position: usize) -> usize {
    match position % BLOCK {
        1..=24 => position / BLOCK * BLOCK + 25,
        _ => position,
    }
}
