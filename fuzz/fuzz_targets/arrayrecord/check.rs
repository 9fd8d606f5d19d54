//! What holds of any file: every way to read it tells the same, and none takes more memory than the
//! file and what its chunks may claim.

use super::allocation::measured;
use super::container::BLOCK;
use super::memory::Memory;
use super::script::{CLAIM_MAX, REFUSED_FROM};
use arrow_array::{Array, BinaryArray, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use shardmill_formats::arrayrecord::{
    ArrayRecordFile, ArrayRecordTable, Gathered, MAX_DECODED_BYTES, Scratch, Verify,
};
use shardmill_formats::table::TableFile;
use std::sync::Arc;

/// Records of one chunk, one after the other, and where each ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    pub values: Vec<u8>,
    pub ends: Vec<usize>,
}

/// `None` for one that cannot be read.
type Chunks = Vec<Option<Delivered>>;

/// Contexts of codecs, and what few bytes may decode to.
const MEMORY_FLOOR: usize = 16 << 20;
/// Of what a chunk claims to decode to, the header of a transposed chunk may be eight times as
/// large, and its states are larger than their bytes.
const PER_CLAIM: usize = 24;

impl Delivered {
    fn add<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) {
        for record in records {
            self.values.extend_from_slice(record);
            self.ends.push(self.values.len());
        }
    }

    pub fn get(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.values[start..self.ends[place]]
    }

    fn bytes(&self) -> usize {
        self.values.len() + self.ends.len() * size_of::<usize>()
    }

    /// All up to the first that is absent.
    pub fn of<'a>(chunks: impl Iterator<Item = &'a Option<Self>>) -> Self {
        let mut all = Self::default();
        for chunk in chunks.map_while(Option::as_ref) {
            let before = all.values.len();
            all.values.extend_from_slice(&chunk.values);
            all.ends.extend(chunk.ends.iter().map(|end| before + end));
        }
        all
    }
}

/// Opens and reads `bytes` in every way; gives the records of the chunks that can be read, when all
/// hashes are compared.
pub fn file(bytes: Vec<u8>) -> Option<Chunks> {
    let object = Arc::new(Memory { path: "memory", bytes });
    let open = |verify| ArrayRecordFile::open(Arc::<Memory>::clone(&object), verify);
    let (opened, held) = measured(|| open(Verify::Full));
    let bound = MEMORY_FLOOR + 64 * object.bytes.len() + PER_CLAIM * CLAIM_MAX as usize;
    assert!(held <= bound, "{held} bytes to open {}", object.bytes.len());
    let lax = [open(Verify::Header), open(Verify::None)];
    assert!(
        lax.iter().all(|lax| lax.is_ok() == opened.is_ok()),
        "the index is compared with its hashes always"
    );
    let file = opened.ok()?;
    let claims: Vec<u64> = (0..file.num_chunks())
        .map(|chunk| claim(&object.bytes, file.range_of(chunk).expect("it is there").start))
        .collect();
    let limit = object.bytes.len() as u64 + MAX_DECODED_BYTES;
    assert!(limit < REFUSED_FROM);
    if claims.iter().any(|claim| (CLAIM_MAX + 1..=limit).contains(claim)) {
        return None;
    }
    index(&file);
    let full = chunks(&file, &object.bytes);
    for (chunk, claim) in full.iter().zip(&claims) {
        assert!(chunk.is_none() || *claim <= limit, "a claim above the limit was believed");
    }
    let [headers, none] = lax.map(|lax| lax.expect("as the first was"));
    let (of_headers, of_none) = (chunks(&headers, &object.bytes), chunks(&none, &object.bytes));
    for ((full, of_headers), of_none) in full.iter().zip(of_headers).zip(&of_none) {
        assert!(
            full.is_none() || *full == of_headers && *full == *of_none,
            "what passes all checks passes fewer"
        );
        assert!(
            of_headers.is_none() || of_headers == *of_none,
            "what passes some checks passes none"
        );
    }
    agreement(&file, &full, &object.bytes);
    agreement(&none, &of_none, &object.bytes);
    table(&object, &full);
    Some(full)
}

/// What the header of the chunk at `begin` says that the chunk decodes to.
fn claim(bytes: &[u8], begin: u64) -> u64 {
    let mut position = begin as usize;
    let mut header = Vec::new();
    while header.len() < 40 {
        if position.is_multiple_of(BLOCK) {
            position += 24;
        }
        let Some(byte) = bytes.get(position) else { return 0 };
        header.push(*byte);
        position += 1;
    }
    u64::from_le_bytes(header[32..].try_into().expect("eight bytes"))
}

/// Records fall to chunks without a gap, and are found where they fall.
fn index(file: &ArrayRecordFile) {
    let (mut next, mut end) = (0, 64);
    for chunk in 0..file.num_chunks() {
        let (records, range) = (file.records_of(chunk), file.range_of(chunk).expect("it is there"));
        assert!(records.start == next && records.end >= next);
        assert!(range.start >= end && range.end >= range.start + 40 && range.end <= file.size());
        for record in [
            records.start,
            records.start + (records.end - records.start) / 2,
            records.end.wrapping_sub(1),
        ] {
            if records.contains(&record) {
                assert_eq!(file.locate(record), Some((chunk, (record - records.start) as usize)));
            }
        }
        (next, end) = (records.end, range.end);
    }
    assert_eq!(next, file.num_records());
    assert_eq!(file.locate(next), None);
    assert!(file.range_of(file.num_chunks()).is_err());
}

fn chunks(file: &ArrayRecordFile, bytes: &[u8]) -> Chunks {
    let mut scratch = Scratch::default();
    let read_all = || (0..file.num_chunks()).map(|chunk| one(file, chunk, &mut scratch)).collect();
    let (chunks, held): (Chunks, usize) = measured(read_all);
    let delivered: usize = chunks.iter().flatten().map(Delivered::bytes).sum();
    let bound = MEMORY_FLOOR + 64 * bytes.len() + PER_CLAIM * CLAIM_MAX as usize + 3 * delivered;
    assert!(held <= bound, "{held} bytes for a file of {} and {delivered} of records", bytes.len());
    chunks
}

/// Runs of chunks and single records are what the chunks are.
fn agreement(file: &ArrayRecordFile, chunks: &Chunks, bytes: &[u8]) {
    let mut scratch = Scratch::default();
    runs(file, chunks, &mut scratch);
    for record in (0..file.num_records()).take(16) {
        let (chunk, place) = file.locate(record).expect("it is there");
        match (file.plain_range(record, &mut scratch), &chunks[chunk]) {
            (Ok(range), Some(records)) => {
                assert!(
                    range.is_none_or(|range| bytes[range.start as usize..range.end as usize]
                        == *records.get(place))
                );
            }
            (Err(_), None) => {}
            (range, records) => panic!("record {record}: {range:?} beside {records:?}"),
        }
    }
}

fn one(file: &ArrayRecordFile, chunk: usize, scratch: &mut Scratch) -> Option<Delivered> {
    let numbers = file.records_of(chunk);
    let records = file.read_chunk(chunk, scratch).ok()?;
    assert_eq!(records.len() as u64, numbers.end - numbers.start);
    assert!(
        records.ends().is_sorted()
            && records.ends().last().copied().unwrap_or(0) == records.values().len()
    );
    let all = Delivered { values: records.values().to_vec(), ends: records.ends().to_vec() };
    let mut one_by_one = Delivered::default();
    one_by_one.add(records.iter());
    assert_eq!(one_by_one, all);
    assert!((0..records.len().min(100)).all(|place| records.get(place) == Some(all.get(place))));
    assert_eq!(records.get(records.len()), None);
    Some(all)
}

/// Both ways to read many chunks at once deliver those before the first that cannot be read.
fn runs(file: &ArrayRecordFile, chunks: &Chunks, scratch: &mut Scratch) {
    let every: Vec<usize> = (0..chunks.len()).collect();
    let second: Vec<usize> = every.iter().copied().step_by(2).collect();
    let readable: Vec<usize> =
        every.iter().copied().filter(|chunk| chunks[*chunk].is_some()).collect();
    for wanted in [every, second, readable] {
        let runs = file.runs(&wanted, 1 << 16).expect("all are there");
        assert!(runs.iter().flat_map(Clone::clone).eq(0..wanted.len()), "each is in one run");
        for run in runs {
            let wanted = &wanted[run];
            let expected = Delivered::of(wanted.iter().map(|chunk| &chunks[*chunk]));
            let is_whole = wanted.iter().all(|chunk| chunks[*chunk].is_some());
            let mut gathered = Gathered::default();
            gathered.push(b"before");
            assert_eq!(file.append_chunks(wanted, scratch, &mut gathered).is_ok(), is_whole);
            assert_eq!(gathered.values.strip_prefix(b"before"), Some(expected.values.as_slice()));
            assert!(
                gathered
                    .ends
                    .iter()
                    .copied()
                    .eq([6].into_iter().chain(expected.ends.iter().map(|end| end + 6)))
            );
            let mut seen = Delivered::default();
            let result =
                file.read_chunks(wanted, scratch, |_chunk, records| seen.add(records.iter()));
            assert_eq!(result.is_ok(), is_whole);
            assert_eq!(seen, expected);
        }
    }
}

/// Blocks are the chunks, and a selection of rows is of them.
fn table(object: &Arc<Memory>, chunks: &Chunks) {
    let table =
        ArrayRecordTable::open(Arc::<Memory>::clone(object)).expect("the file was opened before");
    assert_eq!(
        table.blocks().iter().map(|block| block.rows).sum::<u64>(),
        table.file().num_records()
    );
    let is_whole = chunks.iter().all(Option::is_some);
    let (mut all, mut selected, mut first) = (Delivered::default(), Delivered::default(), 0);
    for (block, stated) in table.blocks().iter().enumerate() {
        assert_eq!(
            table.read(block, &[], None).expect("no column is read").num_rows() as u64,
            stated.rows
        );
        let every_third =
            BooleanBuffer::collect_bool(stated.rows as usize, |row| (first + row) % 3 == 1);
        for (selection, out) in [(None, &mut all), (Some(&every_third), &mut selected)] {
            let rows = selection.map_or(stated.rows as usize, BooleanBuffer::count_set_bits);
            match table.read(block, &[0], selection) {
                Ok(batch) => {
                    assert_eq!(batch.num_rows(), rows);
                    let records: &BinaryArray = batch.column(0).as_binary();
                    assert_eq!(records.null_count(), 0);
                    out.add(records.iter().flatten());
                }
                Err(error) => assert!(!is_whole, "{error}"),
            }
        }
        first += stated.rows as usize;
    }
    if is_whole {
        let expected = Delivered::of(chunks.iter());
        assert_eq!(all, expected);
        let mut every_third = Delivered::default();
        every_third
            .add((0..expected.ends.len()).skip(1).step_by(3).map(|record| expected.get(record)));
        assert_eq!(selected, every_third);
    }
}
