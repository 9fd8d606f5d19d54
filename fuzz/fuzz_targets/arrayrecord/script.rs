//! A file as a short script of what stands in it, which an input is read as. All of it is as it
//! should be until a step says otherwise.

use super::Input;
use super::container::{Chunk, Container, Lies, put_bytes, put_field, put_number};
use brotlic::{BlockSize, BrotliEncoderOptions, CompressorWriter, Quality};
use std::io::Write;

const MAGIC: u64 = 0x7193_0e70_4fda_e05e;
/// No chunk claims to decode to more, unless to so much that it has to be refused.
pub const CLAIM_MAX: u64 = 4 << 20;
pub const REFUSED_FROM: u64 = 1 << 31;
const FILE_MAX: usize = 400_000;

#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: u64,
    decoded_size: u64,
    num_records: u64,
}

struct Script {
    file: Container,
    entries: Vec<Entry>,
    /// More records of the footer, as they are.
    raw_entries: Vec<Vec<u8>>,
    metadata: Metadata,
    footer_codec: u8,
    footer_lies: Lies,
    footer_records: u64,
    postscript: Postscript,
    /// Where bytes are changed once the file is whole, counted from its end or its begin.
    damage: Vec<(bool, u64, Vec<u8>)>,
}

struct Metadata {
    version: u64,
    num_chunks: u64,
    num_records: u64,
    options: Vec<u8>,
    raw: Option<Vec<u8>>,
}

struct Postscript {
    offset: u64,
    magic: u64,
    copies: usize,
    raw: Option<Vec<u8>>,
}

/// The file that an input stands for.
pub fn file(bytes: &[u8]) -> Vec<u8> {
    let mut input = Input(bytes);
    if input.byte() & 1 == 1 {
        return raw(&mut input);
    }
    let mut script = Script::new();
    while !input.is_empty() && script.file.bytes.len() < FILE_MAX {
        script.step(&mut input);
    }
    script.finish()
}

/// Bytes as they come, and after them the last block's.
fn raw(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = input.bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(1 << 16), 0);
    let last = &input.0[..input.0.len().min(1 << 16)];
    bytes.extend_from_slice(last);
    bytes.resize(bytes.len().next_multiple_of(1 << 16), 0);
    bytes
}

/// A claim that takes little memory to believe, or one that nobody may believe.
pub fn claim(value: u64) -> u64 {
    if value >= REFUSED_FROM { value } else { value % (CLAIM_MAX + 1) }
}

pub fn lies(input: &mut Input<'_>) -> Lies {
    let flags = input.byte();
    let mut number = |flag: u8| if flags & flag == 0 { None } else { Some(input.number()) };
    Lies {
        data_size: number(1),
        previous: number(2).unwrap_or(0),
        next: number(4).unwrap_or(0),
        data_hash: u64::from(flags & 8),
        header_hash: u64::from(flags & 16),
        block_hash: u64::from(flags & 32),
        is_short: flags & 64 > 0,
    }
}

/// A file of this chunk alone.
pub fn file_of(chunk: &Chunk) -> Vec<u8> {
    let mut script = Script::new();
    script.add(chunk.clone());
    script.finish()
}

impl Script {
    fn new() -> Self {
        Self {
            file: Container::new(),
            entries: Vec::new(),
            raw_entries: Vec::new(),
            metadata: Metadata {
                version: 1,
                num_chunks: 0,
                num_records: 0,
                options: b"group_size:1,uncompressed".to_vec(),
                raw: None,
            },
            footer_codec: 0,
            footer_lies: Lies::default(),
            footer_records: 0,
            postscript: Postscript { offset: 0, magic: MAGIC, copies: 3, raw: None },
            damage: Vec::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() & 15 {
            0 => {
                let kind = input.byte();
                let (lies, num_records, decoded_size) =
                    (lies(input), input.number() & (u64::MAX >> 8), claim(input.number()));
                self.add(Chunk {
                    kind,
                    num_records,
                    decoded_size,
                    data: input.bytes().to_vec(),
                    lies,
                });
            }
            1 => {
                let chunk = simple(input);
                self.add(chunk);
            }
            2 => {
                let chunk = transposed(input);
                self.add(chunk);
            }
            3 => self.file.skip((input.number() % 140_000) as usize),
            4 => {
                let before = usize::from(input.byte());
                let to_boundary = (1 << 16) - self.file.bytes.len() % (1 << 16);
                self.file.skip(to_boundary.saturating_sub(before));
            }
            5 => self.change_entry(input),
            6 => {
                self.metadata.version = input.number();
                self.metadata.num_chunks = input.number();
                self.metadata.num_records = input.number();
                self.metadata.options = input.bytes().to_vec();
            }
            7 => self.metadata.raw = Some(input.bytes().to_vec()),
            8 => {
                self.postscript.offset = input.number();
                self.postscript.magic ^= input.number();
                self.postscript.copies = usize::from(input.byte() % 8);
            }
            9 => self.postscript.raw = Some(input.bytes().to_vec()),
            10 => self.footer_codec = input.byte(),
            11 => {
                self.footer_lies = lies(input);
                self.footer_records = input.number();
            }
            12 => self.damage.push((false, input.number(), input.bytes().to_vec())),
            13 => self.damage.push((true, input.number(), input.bytes().to_vec())),
            14 => self.raw_entries.push(input.bytes().to_vec()),
            _ => self.file.to_boundary(),
        }
    }

    fn add(&mut self, chunk: Chunk) {
        let offset = self.file.add(&chunk);
        self.entries.push(Entry {
            offset,
            decoded_size: chunk.decoded_size,
            num_records: chunk.num_records,
        });
    }

    fn change_entry(&mut self, input: &mut Input<'_>) {
        let (place, what, number) = (usize::from(input.byte()), input.byte(), input.number());
        if self.entries.is_empty() {
            return;
        }
        let place = place % self.entries.len();
        let entry = &mut self.entries[place];
        match what % 7 {
            0 => entry.offset = entry.offset.wrapping_add(number),
            1 => entry.offset = number,
            2 => entry.decoded_size = number,
            3 => entry.num_records = number,
            4 => drop(self.entries.remove(place)),
            5 => self.entries.push(self.entries[place]),
            _ => entry.num_records = entry.num_records.wrapping_add(number),
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let mut records = vec![self.metadata.encoded(&self.entries)];
        for Entry { offset, decoded_size, num_records } in &self.entries {
            let mut record = Vec::new();
            [*offset, *decoded_size, *num_records]
                .into_iter()
                .zip(1..)
                .for_each(|(value, number)| put_field(number, value, &mut record));
            records.push(record);
        }
        records.append(&mut self.raw_entries);
        let (sizes, values) = (
            records.iter().flat_map(|record| number(record.len())).collect::<Vec<_>>(),
            records.concat(),
        );
        let footer = Chunk {
            data: simple_data(self.footer_codec, &sizes, &values),
            num_records: (records.len() as u64).wrapping_add(self.footer_records) & (u64::MAX >> 8),
            lies: self.footer_lies,
            ..Chunk::simple(&records)
        };
        let offset = self.file.add(&footer);
        self.file.to_boundary();
        let mut message = Vec::new();
        put_field(1, offset.wrapping_add(self.postscript.offset), &mut message);
        put_field(2, self.postscript.magic, &mut message);
        self.file.add(&Chunk::simple(&vec![
            self.postscript.raw.unwrap_or(message);
            self.postscript.copies
        ]));
        self.file.to_boundary();
        let mut bytes = self.file.bytes;
        for (is_at_end, place, change) in self.damage {
            let base = if is_at_end { bytes.len() - (1 << 16) } else { 0 };
            let place = base + (place % (bytes.len() - base) as u64) as usize;
            bytes[place..].iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
        }
        bytes
    }
}

impl Metadata {
    fn encoded(&self, entries: &[Entry]) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let num_records =
            entries.iter().fold(self.num_records, |sum, entry| sum.wrapping_add(entry.num_records));
        let mut inner = Vec::new();
        let numbers =
            [self.version, (entries.len() as u64).wrapping_add(self.num_chunks), num_records];
        numbers
            .into_iter()
            .zip(1..)
            .for_each(|(value, number)| put_field(number, value, &mut inner));
        inner.push(4 << 3 | 2);
        put_bytes(&self.options, &mut inner);
        let mut message = vec![1 << 3 | 2];
        put_bytes(&inner, &mut message);
        message
    }
}

fn number(value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(value as u64, &mut out);
    out
}

/// A simple chunk whose parts are compressed after the input has its way with them.
pub fn simple(input: &mut Input<'_>) -> Chunk {
    let (codec, lies, num_records, decoded_size) =
        (input.byte(), lies(input), input.number() & (u64::MAX >> 8), claim(input.number()));
    let (sizes, values) = (input.bytes(), input.bytes());
    Chunk { kind: b'r', num_records, decoded_size, data: simple_data(codec, sizes, values), lies }
}

fn simple_data(codec: u8, sizes: &[u8], values: &[u8]) -> Vec<u8> {
    let mut data = vec![codec_byte(codec)];
    put_bytes(&compressed(codec, sizes), &mut data);
    data.extend(compressed(codec, values));
    data
}

/// A transposed chunk whose parts are compressed after the input has its way with them; its header
/// states the true lengths of the compressed buckets.
pub fn transposed(input: &mut Input<'_>) -> Chunk {
    let (codec, lies, num_records, decoded_size) =
        (input.byte(), lies(input), input.number() & (u64::MAX >> 8), claim(input.number()));
    let buckets: Vec<Vec<u8>> =
        (0..input.byte() % 16).map(|_| compressed(codec, input.bytes())).collect();
    let (num_buffers, rest, transitions) = (input.number(), input.bytes(), input.bytes());
    let mut header = number(buckets.len());
    put_number(num_buffers, &mut header);
    buckets.iter().for_each(|bucket| put_number(bucket.len() as u64, &mut header));
    header.extend_from_slice(rest);
    let mut data = vec![codec_byte(codec)];
    put_bytes(&compressed(codec, &header), &mut data);
    data.extend(buckets.concat());
    data.extend(compressed(codec, transitions));
    Chunk { kind: b't', num_records, decoded_size, data, lies }
}

fn codec_byte(codec: u8) -> u8 {
    [0, b'z', b's', b'b'][usize::from(codec % 4)]
}

/// With the length in plain before it, where the codec wants one.
fn compressed(codec: u8, payload: &[u8]) -> Vec<u8> {
    let block = match codec % 4 {
        0 => return payload.to_vec(),
        1 => zstd::bulk::compress(payload, 1).expect("zstd compresses anything"),
        2 => snap::raw::Encoder::new().compress_vec(payload).expect("snappy compresses any 64 KiB"),
        _ => brotli(payload),
    };
    let mut out = number(payload.len());
    out.extend(block);
    out
}

fn brotli(payload: &[u8]) -> Vec<u8> {
    let quality = Quality::new(1).expect("1 is a level");
    let encoder = BrotliEncoderOptions::new()
        .quality(quality)
        .block_size(BlockSize::best())
        .build()
        .expect("the settings are right");
    let mut sink = CompressorWriter::with_encoder(encoder, Vec::new());
    sink.write_all(payload).expect("memory takes all");
    sink.into_inner().expect("memory takes all")
}
