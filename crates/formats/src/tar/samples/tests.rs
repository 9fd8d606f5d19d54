//! Blocks, selections, compression, and damaged archives.

use super::{DECODING, Error, WebDatasetFile};
use crate::limit::DecodeLimit;
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use crate::tar::{ArchiveEnd, TarError, end_of_archive, member_header, padding};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use proptest::prelude::*;
use shardmill_storage::{AnyStore, Store};
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

type Members = Vec<(String, Vec<u8>)>;

fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, body) in members {
        bytes.extend(member_header(name, body.len() as u64));
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len() + padding(body.len() as u64), 0);
    }
    bytes.extend(end_of_archive(bytes.len() as u64));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn open(bytes: &[u8]) -> Result<WebDatasetFile, Error> {
    WebDatasetFile::open_with_blocks(memory("a.tar", bytes), false, 3000, DecodeLimit::default())
}

fn rows(file: &WebDatasetFile) -> Result<RecordBatch, TableError> {
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let batches = (0..file.blocks().len())
        .map(|block| file.read(block, &columns, None))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(file.schema(), &batches).unwrap_or_else(|error| panic!("{error}")))
}

fn member(name: &str, body: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), body.to_vec())
}

fn mixed() -> Members {
    vec![
        member("__index__/all.json", b"{}"),
        member("a/0.TXT", "é and a text that is too long for a view".as_bytes()),
        member("nodot", b"-"),
        member("a/0.cls", b"7\n"),
        member("a/0.seg.Jpg", &[0xff; 2000]),
        member("a/1.cls", b"-8"),
        member("a/1.json", b"{\"x\": 1}"),
        member("a/0.txt", b""),
    ]
}

#[test]
fn consecutive_members_of_one_key_are_a_row_and_extensions_are_columns_in_byte_order() {
    let file = open(&archive(&mixed())).unwrap();
    let fields: Vec<_> = file
        .declared_schema()
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type().clone()))
        .collect();
    let (text, number, bytes) = (DataType::Utf8, DataType::Int64, DataType::Binary);
    assert_eq!(
        fields,
        [
            ("__key__", text.clone()),
            ("cls", number),
            ("json", text.clone()),
            ("seg.jpg", bytes),
            ("txt", text)
        ]
    );
    assert_eq!(file.schema().field(2).metadata().get(DECODING).map(String::as_str), Some("json"));
    let rows = rows(&file).unwrap();
    let keys: Vec<_> = rows.column(0).as_string_view().iter().flatten().collect();
    assert_eq!(keys, ["a/0", "a/1", "a/0"]);
    assert_eq!(
        rows.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(7), Some(-8), None]
    );
    assert_eq!(
        rows.column(2).as_string_view().iter().collect::<Vec<_>>(),
        [None, Some("{\"x\": 1}"), None]
    );
    assert_eq!(rows.column(3).as_binary_view().value(0), [0xff; 2000]);
    assert_eq!(
        rows.column(4).as_string_view().iter().collect::<Vec<_>>(),
        [Some("é and a text that is too long for a view"), None, Some("")]
    );
}

#[test]
fn heads_truncate_binary_members_only() {
    let plain = archive(&mixed());
    let file = open(&plain).unwrap();
    let (whole, heads) = (rows(&file).unwrap(), file.heads(16).unwrap());
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let read: Vec<_> =
        (0..file.blocks().len()).map(|block| heads.read(block, &columns, None).unwrap()).collect();
    let cut = concat_batches(file.schema(), &read).unwrap();
    assert_eq!(cut.column(3).as_binary_view().value(0), [0xff; 16]);
    for column in [0, 1, 2, 4] {
        assert_eq!(cut.column(column), whole.column(column));
    }
    assert!(open(&gzip(&plain)).unwrap().heads(16).is_none());
}

#[test]
fn compressed_archive_is_one_block_with_the_same_rows() {
    let plain = archive(&mixed());
    let expected = rows(&open(&plain).unwrap()).unwrap();
    for compressed in [gzip(&plain), zstd::encode_all(plain.as_slice(), 3).unwrap()] {
        let file = open(&compressed).unwrap();
        assert_eq!(file.blocks().len(), 1);
        assert_eq!(rows(&file).unwrap(), expected);
    }
}

#[test]
fn repeated_extension_names_the_member() {
    let error = open(&archive(&[member("a.txt", b"1"), member("a.TXT", b"2")])).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::RepeatedExtension { member, offset: 1536, first: Some(512), .. }
                if member == "a.TXT"
        ),
        "{error:?}"
    );
    let error = open(&archive(&[member("a.__key__", b"1")])).unwrap_err();
    assert!(matches!(&error, Error::RepeatedExtension { .. }), "{error:?}");
}

#[test]
fn text_and_numbers_that_are_none_name_member_and_offset() {
    let file = open(&archive(&[member("a/b.txt", b"\xff"), member("a/b.cls", b"x")])).unwrap();
    let error = file.read(0, &[2], None).unwrap_err().to_string();
    assert_eq!(error, "Member `a/b.txt` of `a.tar`, at byte 512, is not valid UTF-8");
    let error = file.read(0, &[1], None).unwrap_err().to_string();
    assert_eq!(
        error,
        "Member `a/b.cls` of `a.tar`, at byte 1536, is not a whole number of 64 bits: x"
    );
    assert_eq!(file.read(0, &[0], None).unwrap().num_rows(), 1);
}

#[test]
fn member_of_two_gigabytes_is_an_error_only_where_it_is_read() {
    const SIZE: u32 = 1 << 31;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tar");
    let mut sparse = std::fs::File::create(&path).unwrap();
    sparse.write_all(&member_header("a.bin", u64::from(SIZE))).unwrap();
    sparse.seek(SeekFrom::Current(i64::from(SIZE))).unwrap();
    sparse.write_all(&archive(&[member("a.txt", b"x")])).unwrap();
    let name = path.display().to_string();
    let object = AnyStore.open(&name).unwrap();
    let file = WebDatasetFile::open(object, false, DecodeLimit::new(u64::MAX)).unwrap();
    assert_eq!(file.read(0, &[0, 2], None).unwrap().num_rows(), 1);
    let error = file.read(0, &[1], None).unwrap_err();
    assert!(
        matches!(
            &error,
            TableError::WebDataset(Error::TooLong { size, .. }) if *size == u64::from(SIZE)
        ),
        "{error:?}"
    );
}

#[test]
fn archive_without_samples_has_no_rows() {
    for members in [vec![], vec![member("nodot", b"x")]] {
        let file = open(&archive(&members)).unwrap();
        assert_eq!((file.blocks().len(), file.schema().fields().len()), (0, 1));
    }
}

#[test]
fn stream_that_ends_inside_a_member_says_which() {
    let plain = archive(&mixed());
    let cut = &plain[..plain.iter().rposition(|byte| *byte == 0xff).unwrap()];
    for bytes in [cut.to_vec(), gzip(cut)] {
        let error = open(&bytes).unwrap_err();
        let Error::Archive { source: TarError::Truncated { member, needed, found, .. }, .. } =
            error
        else {
            panic!("{error:?}")
        };
        assert_eq!((member.as_deref(), needed, found), (Some("a/0.seg.Jpg"), 2000, 1999));
    }
}

/// Reads everything readable; must not panic.
fn exhaust(bytes: &[u8]) -> Option<usize> {
    let file = open(bytes).ok()?;
    rows(&file).ok().map(|rows| rows.num_rows())
}

#[test]
fn archive_cut_anywhere_has_all_of_its_rows_or_is_an_error() {
    let plain = archive(&mixed());
    let whole = rows(&open(&plain).unwrap()).unwrap();
    let gzipped = gzip(&plain);
    for len in 0..plain.len() {
        let found = open(&plain[..len]).map(|file| rows(&file).unwrap());
        assert!(found.as_ref().is_ok_and(|found| *found == whole) || found.is_err(), "{len}");
        // A stream of the same bytes ends in the same place.
        if len % 64 == 0 {
            assert_eq!(
                exhaust(&gzip(&plain[..len])),
                found.ok().map(|found| found.num_rows()),
                "{len}"
            );
        }
    }
    for len in 0..gzipped.len() {
        assert_eq!(exhaust(&gzipped[..len]), None, "{len}");
    }
}

#[test]
fn archive_cut_between_two_members_says_where_it_ends() {
    let plain = archive(&mixed());
    let borders: Vec<usize> = (512..plain.len() - 1024)
        .step_by(512)
        .filter(|at| plain[*at..].starts_with(b"a/"))
        .collect();
    let next = borders[3];
    for bytes in
        [plain[..next].to_vec(), gzip(&plain[..next]), zstd::encode_all(&plain[..next], 3).unwrap()]
    {
        let error = open(&bytes).unwrap_err();
        assert!(
            matches!(
                error,
                Error::NoEnd { end: ArchiveEnd::Missing { offset }, .. } if offset == next as u64
            ),
            "{error:?}"
        );
        assert!(error.hint().unwrap().contains("truncate -s +1024"));
    }
}

#[test]
fn bytes_after_the_end_are_an_error_and_joined_archives_are_read_on() {
    let (first, second) = (archive(&mixed()), archive(&[member("b/9.txt", b"9")]));
    let end = first.iter().rposition(|byte| *byte != 0).unwrap().next_multiple_of(512);
    // The last member is empty: it consists of its header only.
    for zeros in [512, 1024] {
        let joined = [&first[..end], &vec![0; zeros], &second].concat();
        for bytes in
            [joined.clone(), gzip(&joined), zstd::encode_all(joined.as_slice(), 3).unwrap()]
        {
            let error = open(&bytes).unwrap_err();
            let expected =
                ArchiveEnd::Followed { marker: end as u64, offset: (end + zeros) as u64 };
            assert!(matches!(&error, Error::NoEnd { end, .. } if *end == expected), "{error:?}");
            assert!(error.hint().unwrap().contains("ignore_zeros=True"));
            let file = WebDatasetFile::open(memory("a.tar", &bytes), true, DecodeLimit::default())
                .unwrap();
            assert_eq!(rows(&file).unwrap().num_rows(), 4);
        }
    }
    let lone = [&first[..end], &[0; 512]].concat();
    assert!(matches!(
        open(&lone).unwrap_err(),
        Error::NoEnd { end: ArchiveEnd::Missing { .. }, .. }
    ));
}

#[test]
fn parts_of_a_sample_that_lie_apart_are_an_error_with_both_offsets() {
    let apart = [
        member("a.jpg", b"1"),
        member("b.jpg", b"2"),
        member("a.txt", b"3"),
        member("b.txt", b"4"),
    ];
    let error = open(&archive(&apart)).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::TornSample { member, offset: 2560, first: 512, .. } if member == "a.txt"
        ),
        "{error:?}"
    );
    let last = [member("a.jpg", b"1"), member("b.jpg", b"2"), member("a.txt", b"3")];
    assert!(matches!(open(&archive(&last)).unwrap_err(), Error::TornSample { .. }));
    // As in the `webdataset` package, a repeated key with a repeated extension is another sample.
    let again = [
        member("a.jpg", b"1"),
        member("b.jpg", b"2"),
        member("a.txt", b"3"),
        member("a.jpg", b"4"),
    ];
    assert_eq!(rows(&open(&archive(&again)).unwrap()).unwrap().num_rows(), 3);
}

#[test]
fn invalid_json_names_member_offset_and_fault() {
    let file =
        open(&archive(&[member("a.json", b"[NaN]"), member("b.json", b"{\"x\": }")])).unwrap();
    let error = file.read(0, &[1], None).unwrap_err().to_string();
    assert_eq!(
        error,
        "Member `b.json` of `a.tar`, at byte 1536, is not valid JSON: \
         expected value at line 1 column 7"
    );
    let first = BooleanBuffer::from_iter([true, false]);
    assert_eq!(
        file.read(0, &[1], Some(&first)).unwrap().column(0).as_string_view().value(0),
        "[NaN]"
    );
}

proptest! {
    #[test]
    fn flipped_bytes_are_an_error_or_rows(
        position in 0_usize..9000,
        value in any::<u8>(),
        form in 0_usize..3,
    ) {
        let plain = archive(&mixed());
        let mut bytes = match form {
            0 => plain,
            1 => gzip(&plain),
            _ => zstd::encode_all(plain.as_slice(), 3).unwrap(),
        };
        let position = position % bytes.len();
        bytes[position] = value;
        exhaust(&bytes);
    }

    #[test]
    fn blocks_and_selections_give_the_rows_of_the_whole(
        sizes in prop::collection::vec(
            (
                prop::option::of(0_usize..1500),
                prop::option::of(0_usize..30),
                prop::option::of(0_usize..5000),
            ),
            1..25,
        ),
        seed in any::<u64>(),
    ) {
        let mut members = Vec::new();
        for (sample, (jpg, txt, bin)) in sizes.iter().enumerate() {
            for (extension, size) in [("jpg", jpg), ("txt", txt), ("bin", bin)] {
                members.extend(size.map(|size| {
                    (
                        format!("{sample}.{extension}"),
                        vec![b'a' + u8::try_from(sample).unwrap(); size],
                    )
                }));
            }
        }
        let bytes = archive(&members);
        let file = open(&bytes).unwrap();
        let all = rows(&file).unwrap();
        prop_assert_eq!(
            &all,
            &rows(
                &WebDatasetFile::open(memory("a.tar", &bytes), false, DecodeLimit::default())
                    .unwrap()
            )
            .unwrap()
        );
        let expected = sizes
            .iter()
            .enumerate()
            .filter(|(_, (jpg, txt, bin))| jpg.or(*txt).or(*bin).is_some())
            .map(|(sample, _)| sample.to_string());
        prop_assert!(all.column(0).as_string_view().iter().flatten().eq(expected));
        for (column, field) in all.columns().iter().zip(file.schema().fields()).skip(1) {
            for row in 0..all.num_rows() {
                let sample: usize = all.column(0).as_string_view().value(row).parse().unwrap();
                let size = match field.name().as_str() {
                    "jpg" => sizes[sample].0,
                    "txt" => sizes[sample].1,
                    _ => sizes[sample].2,
                };
                let found = column.is_valid(row).then(|| match column.data_type() {
                    DataType::Utf8View => column.as_string_view().value(row).as_bytes().to_vec(),
                    _ => column.as_binary_view().value(row).to_vec(),
                });
                prop_assert_eq!(
                    found,
                    size.map(|size| vec![b'a' + u8::try_from(sample).unwrap(); size])
                );
            }
        }
        let columns: Vec<usize> = (0..file.schema().fields().len()).rev().collect();
        for block in 0..file.blocks().len() {
            let whole = file.read(block, &columns, None).unwrap();
            prop_assert_eq!(whole.num_rows() as u64, file.blocks()[block].rows);
            let bits =
                BooleanBuffer::collect_bool(whole.num_rows(), |row| seed >> (row % 64) & 1 == 1);
            let selected = file.read(block, &columns, Some(&bits)).unwrap();
            prop_assert_eq!(
                selected,
                filter_record_batch(&whole, &arrow_array::BooleanArray::new(bits, None)).unwrap()
            );
        }
        if !file.blocks().is_empty() {
            prop_assert_eq!(file.read(0, &[], None).unwrap().schema(), Arc::new(Schema::empty()));
        }
    }
}
