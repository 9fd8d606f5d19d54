use super::super::{MegatronRows, TokenOptions, TokenTable};
use crate::table::TableFile;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type};
use arrow_buffer::BooleanBuffer;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use shardmill_storage::{Error as StorageError, Identity, RangeRead};
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Memory(&'static str, Vec<u8>);

impl RangeRead for Memory {
    fn path(&self) -> &str {
        self.0
    }

    fn identity(&self) -> Identity {
        Identity { size: self.1.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StorageError> {
        let short = || StorageError::ShortRead {
            path: self.0.to_owned(),
            offset,
            len: buffer.len(),
            end: offset,
        };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.1.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}

/// As `IndexedDatasetBuilder` writes uint16: documents are lists of sequences.
struct Pair {
    bin: Vec<u8>,
    idx: Vec<u8>,
}

fn written(documents: &[Vec<Vec<u16>>], modes: Option<&[i8]>, gap: usize) -> Pair {
    let (mut bin, mut lengths, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let mut firsts = vec![0_u64];
    for document in documents {
        for sequence in document {
            lengths.push(i32::try_from(sequence.len()).unwrap());
            starts.push(bin.len() as u64);
            bin.extend(sequence.iter().flat_map(|id| id.to_le_bytes()));
            bin.extend(vec![0xff; gap * 2]);
        }
        firsts.push(lengths.len() as u64);
    }
    let mut idx = b"MMIDIDX\0\0".to_vec();
    idx.extend(1_u64.to_le_bytes());
    idx.push(8);
    idx.extend((lengths.len() as u64).to_le_bytes());
    idx.extend((firsts.len() as u64).to_le_bytes());
    idx.extend(lengths.iter().flat_map(|entry| entry.to_le_bytes()));
    idx.extend(starts.iter().flat_map(|entry| entry.to_le_bytes()));
    idx.extend(firsts.iter().flat_map(|entry| entry.to_le_bytes()));
    idx.extend(modes.unwrap_or_default().iter().map(|mode| mode.cast_unsigned()));
    Pair { bin, idx }
}

/// `[[1, 2, 3], [], [4, 5, 6, 7], [9]]`, the third as sequences of 2 and 2.
fn example() -> Pair {
    written(&[vec![vec![1, 2, 3]], vec![], vec![vec![4, 5], vec![6, 7]], vec![vec![9]]], None, 0)
}

impl Pair {
    fn open_as(&self, options: &TokenOptions) -> Result<TokenTable, String> {
        let bin = Arc::new(Memory("x.bin", self.bin.clone()));
        let idx = Arc::new(Memory("x.idx", self.idx.clone()));
        TokenTable::megatron(bin, idx, options).map_err(|error| error.to_string())
    }

    fn open(&self) -> Result<TokenTable, String> {
        self.open_as(&TokenOptions::default())
    }

    fn with_idx(mut self, at: usize, bytes: &[u8]) -> Self {
        self.idx[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

fn whole(table: &TokenTable, columns: &[usize]) -> Result<Vec<RecordBatch>, String> {
    (0..table.blocks().len())
        .map(|block| table.read(block, columns, None).map_err(|error| error.to_string()))
        .collect()
}

fn lists(batch: &RecordBatch, column: usize) -> Vec<Vec<i32>> {
    let lists = batch.column(column).as_list::<i32>();
    lists.iter().map(|list| list.unwrap().as_primitive::<Int32Type>().values().to_vec()).collect()
}

fn refusal(pair: &Pair) -> String {
    match pair.open().and_then(|table| whole(&table, &[0])) {
        Ok(rows) => panic!("read as {rows:?}"),
        Err(error) => error,
    }
}

/// The documents by the bytes of the index alone.
fn stated(pair: &Pair) -> Vec<Vec<i32>> {
    let entry = |at: usize| usize::from_le_bytes(*pair.idx[at..].first_chunk().unwrap());
    let length = |at: usize| u32::from_le_bytes(*pair.idx[at..].first_chunk().unwrap()) as usize;
    let (sequences, entries) = (entry(18), entry(26));
    let (starts, firsts) = (34 + 4 * sequences, 34 + 12 * sequences);
    let tokens = |sequence: usize| {
        let start = entry(starts + 8 * sequence);
        let bytes = &pair.bin[start..start + 2 * length(34 + 4 * sequence)];
        bytes.as_chunks::<2>().0.iter().map(|id| i32::from(u16::from_le_bytes(*id)))
    };
    let first = |document: usize| entry(firsts + 8 * document);
    (0..entries - 1)
        .map(|document| (first(document)..first(document + 1)).flat_map(tokens).collect())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn documents_have_their_tokens_and_sequences() {
    let pair = example();
    assert_eq!(pair.idx.len(), 122);
    assert!(hex(&pair.idx).starts_with("3f10fe56fab4ee45"));
    assert!(hex(&pair.bin).starts_with("6b21eb33ed68b7cb"));
    let rows = whole(&pair.open().unwrap(), &[0, 1, 2]).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(lists(&rows[0], 0), [vec![1, 2, 3], vec![], vec![4, 5, 6, 7], vec![9]]);
    assert_eq!(lists(&rows[0], 1), [vec![3], vec![], vec![2, 2], vec![1]]);
    assert_eq!(rows[0].column(2).as_primitive::<Int64Type>().values(), &[3, 0, 4, 1]);
}

#[test]
fn sequences_and_their_modes_are_rows() {
    let documents = [vec![vec![1, 2, 3]], vec![], vec![vec![4, 5], vec![6, 7]]];
    let pair = written(&documents, Some(&[0, 1, -1]), 3);
    let rows = whole(&pair.open().unwrap(), &[0, 1]).unwrap();
    assert_eq!(lists(&rows[0], 0), [vec![1, 2, 3], vec![], vec![4, 5, 6, 7]]);
    let modes = rows[0].column(1).as_list::<i32>();
    assert_eq!(modes.values().as_primitive::<Int8Type>().values(), &[0, 1, -1]);
    assert_eq!(modes.value_length(2), 2);
    let options = TokenOptions { rows: MegatronRows::Sequences, ..TokenOptions::default() };
    let rows = whole(&pair.open_as(&options).unwrap(), &[0]).unwrap();
    assert_eq!(lists(&rows[0], 0), [vec![1, 2, 3], vec![4, 5], vec![6, 7]]);
}

#[test]
fn pair_without_sequences_has_no_rows() {
    let table = written(&[], None, 0).open().unwrap();
    assert_eq!(table.blocks().len(), 0);
    let rows = whole(&written(&[vec![], vec![]], None, 0).open().unwrap(), &[0]).unwrap();
    assert_eq!(lists(&rows[0], 0), [vec![], Vec::<i32>::new()]);
}

#[test]
fn index_cut_anywhere_is_an_error() {
    let idx = example().idx;
    for len in 0..idx.len() {
        let pair = Pair { idx: idx[..len].to_vec(), ..example() };
        assert!(refusal(&pair).contains("`x.idx`"), "{len}");
    }
    let longer = Pair { idx: [idx, vec![0]].concat(), ..example() };
    assert!(refusal(&longer).contains("the size is 123, expected 122, or 126 with modes"));
}

#[test]
fn tokens_cut_anywhere_are_an_error() {
    for len in 0..16 {
        let pair = Pair { bin: example().bin[..len].to_vec(), ..example() };
        assert!(refusal(&pair).contains("the end of the last sequence is 16"), "{len}");
    }
}

#[test]
fn lies_are_errors_that_name_field_and_values() {
    let (lengths, starts, firsts) = (34, 34 + 16, 34 + 48);
    let cases: [(usize, &[u8], &str); 16] = [
        (0, b"X", "the start is \"XMIDIDX\\x00\\x00\""),
        (9, &[2], "the version is 2, expected 1"),
        (17, &[0], "the dtype is 0"),
        (17, &[6], "the dtype is 6 (floats)"),
        (17, &[9], "the dtype is 9"),
        (18, &[0xff; 8], "the size is 122, expected less than 2^64"),
        (26, &[6], "the size is 122, expected 130, or 134 with modes"),
        (lengths, &(-1_i32).to_le_bytes(), "the length of a sequence is -1"),
        (lengths, &[4], "the start of a sequence is 6, expected at least 8, where the previous"),
        (lengths + 12, &[2], "the end of the last sequence is 18, expected at most 16"),
        (starts + 8, &(-2_i64).to_le_bytes(), "the start of a sequence is -2"),
        (starts + 8, &[9], "the start of a sequence is 9, expected a multiple of 2, the bytes of"),
        (starts + 8, &[16], "the start of a sequence is 16, expected at most 12, so that"),
        (firsts, &[1], "the first sequence of a document is 1, expected 0"),
        (firsts + 8, &[3], "the first sequence of a document is 1, expected 3 to 4"),
        (firsts + 32, &[3], "the first sequence of a document is 3, expected 4"),
    ];
    for (at, bytes, expected) in cases {
        let found = refusal(&example().with_idx(at, bytes));
        assert!(found.contains(expected), "{found}, not {expected}");
        assert!(found.contains("x.idx"), "{found}");
    }
}

#[test]
fn id_outside_of_the_vocabulary_is_an_error_with_its_byte() {
    let options = TokenOptions { vocab_size: Some(7), ..TokenOptions::default() };
    let error = whole(&example().open_as(&options).unwrap(), &[0]).unwrap_err();
    assert_eq!(error, "Byte 12 of `x.bin`: token 7 is not below 7");
    let options = TokenOptions { vocab_size: Some(10), ..TokenOptions::default() };
    assert!(whole(&example().open_as(&options).unwrap(), &[0]).is_ok());
}

#[test]
fn lie_in_the_middle_is_an_error_at_its_block() {
    let documents: Vec<_> = (0..20).map(|id| vec![vec![id; 1 << 20]]).collect();
    let pair = written(&documents, None, 0);
    let starts = 34 + 20 * 4;
    let table = pair.with_idx(starts + 9 * 8, &0_i64.to_le_bytes()).open().unwrap();
    let failed: Vec<usize> =
        (0..table.blocks().len()).filter(|block| table.read(*block, &[0], None).is_err()).collect();
    assert_eq!(failed, [2]);
}

fn documents() -> impl Strategy<Value = Vec<Vec<Vec<u16>>>> {
    let sequence = prop_oneof![
        9 => prop::collection::vec(any::<u16>(), 0..20),
        // Blocks have 8 MiB.
        1 => (0..6_000_000_usize, any::<u16>()).prop_map(|(len, id)| vec![id; len]),
    ];
    prop::collection::vec(prop::collection::vec(sequence, 0..4), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn blocks_have_all_documents_in_order(documents in documents(), gap in 0..3_usize) {
        let table = written(&documents, None, gap).open().unwrap();
        let mut read = Vec::new();
        for (number, block) in table.blocks().iter().enumerate() {
            prop_assert!(block.rows > 0);
            prop_assert!(block.rows == 1 || block.stored_bytes <= 8 << 20);
            let rows = table.read(number, &[0], None).unwrap();
            prop_assert_eq!(rows.num_rows() as u64, block.rows);
            let lengths = lists(&rows, 0);
            let lengths: Vec<u32> =
                lengths.iter().map(|tokens| u32::try_from(tokens.len()).unwrap()).collect();
            prop_assert_eq!(table.row_lengths(number, 0, None).unwrap(), Some(lengths));
            let odd = BooleanBuffer::collect_bool(rows.num_rows(), |row| row % 2 == 1);
            let some = lists(&table.read(number, &[0], Some(&odd)).unwrap(), 0);
            read.extend(lists(&rows, 0));
            let expected: Vec<_> = lists(&rows, 0).into_iter().skip(1).step_by(2).collect();
            prop_assert_eq!(some, expected);
        }
        let expected: Vec<Vec<i32>> = documents
            .iter()
            .map(|document| document.iter().flatten().map(|id| i32::from(*id)).collect())
            .collect();
        prop_assert!(read == expected);
    }

    #[test]
    fn changed_index_never_leads_outside_of_its_ranges(
        changes in prop::collection::vec((0..122_usize, any::<u8>()), 1..4),
    ) {
        let mut pair = example();
        for (at, byte) in changes {
            pair.idx[at] = byte;
        }
        // Lengths of other types are compared by the fuzz target.
        if pair.idx[17] == 8
            && let Ok(rows) = pair.open().and_then(|table| whole(&table, &[0]))
        {
            let read: Vec<_> = rows.iter().flat_map(|rows| lists(rows, 0)).collect();
            prop_assert_eq!(read, stated(&pair));
        }
    }
}
