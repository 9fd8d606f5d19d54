//! One chunk of a file whose rest is right, in two ways: parts of a chunk under each codec are
//! whatever the input says, and it is refused or every way to read it tells the same; or records
//! that the writer encodes, and they come back.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
mod arrayrecord;

use arrayrecord::check::Delivered;
use arrayrecord::container::Chunk;
use arrayrecord::script::REFUSED_FROM;
use arrayrecord::{Input, check, script};
use libfuzzer_sys::fuzz_target;
use shardmill_formats::arrayrecord::{
    ChunkEncoder, Compression, EncodedChunks, FileWriter, WriterOptions,
};

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    match input.byte() % 3 {
        0 => hostile(&script::simple(&mut input)),
        1 => hostile(&script::transposed(&mut input)),
        _ => written(&mut input),
    }
});

fn hostile(chunk: &Chunk) {
    let Some(chunks) = check::file(script::file_of(chunk)) else { return };
    let [delivered] = chunks.as_slice() else { panic!("{} chunks of one", chunks.len()) };
    if let Some(Delivered { values, ends }) = delivered {
        assert_eq!(
            (ends.len() as u64, values.len() as u64),
            (chunk.num_records, chunk.decoded_size)
        );
        assert!(chunk.decoded_size < REFUSED_FROM);
    }
}

fn written(input: &mut Input<'_>) {
    let flags = input.byte();
    let level = i32::from(input.byte());
    let compression = match flags & 3 {
        0 => Compression::None,
        1 => Compression::Zstd { level: level % 8 - 2, window_log: 10 + (level % 15) as u8 },
        2 => Compression::Snappy,
        _ => Compression::Brotli {
            level: (level % 5) as u8,
            window_log: (flags & 64 > 0).then_some(10 + (level % 21) as u8),
        },
    };
    let transpose_bucket_size = (flags & 4 > 0).then(|| 1 << (level % 20));
    let group_size = u32::from(input.byte()).max(1);
    let options = WriterOptions {
        group_size,
        compression,
        pad_to_block_boundary: flags & 8 > 0,
        transpose_bucket_size,
    };
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut size = 0;
    while !input.is_empty() && size < 1 << 19 {
        let len = usize::from(input.byte());
        // One that reaches over blocks now and then.
        let times = if len == 255 { 1 + usize::from(input.byte()) * 2 } else { 1 };
        let (record, rest) = input.0.split_at(len.min(input.0.len()));
        input.0 = rest;
        size += record.len() * times;
        records.push(record.repeat(times));
    }
    let mut encoder = ChunkEncoder::new(&options).expect("the settings are right");
    let mut writer = FileWriter::new(Vec::new(), "memory", options).expect("memory takes all");
    for group in
        records.chunks(group_size as usize).take(if flags & 8 > 0 { 4 } else { usize::MAX })
    {
        let lengths: Vec<u64> = group.iter().map(|record| record.len() as u64).collect();
        let mut chunk = EncodedChunks::default();
        encoder.encode(&lengths, &group.concat(), &mut chunk).expect("any records can be encoded");
        writer.append(&chunk).expect("memory takes all");
    }
    let count = writer.num_records() as usize;
    records.truncate(count);
    let chunks = check::file(writer.finish().expect("memory takes all"))
        .expect("what was written can be opened");
    let delivered = Delivered::of(chunks.iter());
    assert_eq!(delivered.ends.len(), records.len());
    assert!((0..records.len()).all(|place| delivered.get(place) == records[place]), "{records:?}");
}
