//! Shards and indexes, byte for byte.

use crate::mds::{
    Columns, EncodedShard, Error, INDEX_NAME, Index, ShardEncoder, ShardOptions, index_json,
};
use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int16Builder, ListBuilder, UInt16Builder,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int64Array,
    LargeBinaryArray, RecordBatch, StringArray, StructArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn shards(
    columns: &[(&str, &str)],
    options: ShardOptions,
    batches: &[RecordBatch],
) -> Result<Vec<EncodedShard>, Error> {
    let mut encoder = ShardEncoder::new(Columns::new(columns.iter().copied())?, options);
    let mut shards = Vec::new();
    for batch in batches {
        shards.extend(encoder.push(batch)?);
    }
    shards.extend(encoder.finish()?);
    Ok(shards)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

/// The bytes of the only value of a column, after its length if it has one.
fn encoded(encoding: &str, array: ArrayRef) -> Result<Vec<u8>, String> {
    let columns = Columns::new([("x", encoding)]).map_err(|error| error.to_string())?;
    let is_variable = columns.get(0).is_some_and(|column| column.encoding.size().is_none());
    let shards = shards(&[("x", encoding)], ShardOptions::default(), &[batch(vec![("x", array)])])
        .map_err(|error| error.to_string())?;
    let bytes = &shards[0].bytes;
    let start = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize
        + if is_variable { 4 } else { 0 };
    Ok(bytes[start..].to_vec())
}

pub(super) fn golden() -> (Vec<(&'static str, &'static str)>, RecordBatch) {
    let mut emb = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for row in [[0.5, -1.0], [2.0, 3.0]] {
        emb.values().append_slice(&row);
        emb.append(true);
    }
    // The two arrays have one and two dimensions, so they come in separate batches;
    // here both have one.
    let mut tok = ListBuilder::new(UInt16Builder::new());
    tok.values().append_slice(&[1, 2, 300]);
    tok.append(true);
    tok.values().append_slice(&[9]);
    tok.append(true);
    let rows = batch(vec![
        ("text", Arc::new(StringArray::from(vec!["hé", ""]))),
        ("id", Arc::new(Int64Array::from(vec![7, -1]))),
        ("tok", Arc::new(tok.finish())),
        ("emb", Arc::new(emb.finish())),
    ]);
    (
        vec![
            ("text", "str"),
            ("id", "int"),
            ("tok", "ndarray:uint16"),
            ("emb", "ndarray:float32:2"),
        ],
        rows,
    )
}

const GOLDEN_CONFIG: &str = concat!(
    r#"{"column_encodings": ["ndarray:float32:2", "int", "str", "ndarray:uint16"], "#,
    r#""column_names": ["emb", "id", "text", "tok"], "#,
    r#""column_sizes": [8, 8, null, null], "compression": null, "format": "mds", "#,
    r#""hashes": ["sha1", "xxh3_64"], "size_limit": 67108864, "version": 2}"#,
);

const GOLDEN_INDEX: &str = concat!(
    r#"{"shards": ["#,
    r#"{"column_encodings": ["ndarray:float32:2", "int", "str", "ndarray:uint16"], "#,
    r#""column_names": ["emb", "id", "text", "tok"], "#,
    r#""column_sizes": [8, 8, null, null], "compression": null, "format": "mds", "#,
    r#""hashes": ["sha1", "xxh3_64"], "#,
    r#""raw_data": {"basename": "shard.00000.mds", "bytes": 344, "#,
    r#""hashes": {"sha1": "499827f61a32fb7702c8b09c45bc7618a22c04c0", "#,
    r#""xxh3_64": "95349382529236ca"}}, "#,
    r#""samples": 2, "size_limit": 67108864, "version": 2, "zip_data": null}], "version": 2}"#,
);

#[test]
fn golden_vector_is_written_byte_for_byte() {
    let (columns, rows) = golden();
    // The second array of the vector has two dimensions, which is another Arrow type: it comes in a
    // second batch.
    let mut inner = ListBuilder::new(ListBuilder::new(UInt16Builder::new()));
    inner.values().values().append_value(9);
    inner.values().append(true);
    inner.append(true);
    let second = rows.slice(1, 1);
    let schema = second.schema();
    let arrays = second.columns().iter().zip(schema.fields()).map(|(array, field)| {
        let array =
            if field.name() == "tok" { Arc::new(inner.finish()) } else { Arc::clone(array) };
        (field.name().clone(), array as ArrayRef)
    });
    let second = RecordBatch::try_from_iter(arrays.collect::<Vec<_>>()).unwrap();
    let options = ShardOptions::parse(Some(1 << 26), None, &["xxh3_64", "sha1", "sha1"]).unwrap();
    let shards = shards(&columns, options, &[rows.slice(0, 1), second]).unwrap();
    let [shard] = shards.as_slice() else { panic!("{} shards", shards.len()) };
    let mut expected = hex("02000000 18010000 3b010000 58010000");
    expected.extend_from_slice(GOLDEN_CONFIG.as_bytes());
    expected
        .extend(hex("03000000 08000000 0000003f000080bf 0700000000000000 68c3a9 0403010002002c01"));
    expected.extend(hex("00000000 05000000 0000004000004040 ffffffffffffffff 0801010900"));
    assert_eq!(shard.bytes, expected);
    assert_eq!(shard.basename, "shard.00000.mds");
    assert_eq!(index_json(std::slice::from_ref(&shard.entry)), GOLDEN_INDEX);
    let index = Index::parse(INDEX_NAME, GOLDEN_INDEX.as_bytes()).unwrap();
    assert_eq!(
        (index.shards.as_slice(), index.to_json().as_str()),
        ([shard.entry.clone()].as_slice(), GOLDEN_INDEX)
    );
}

#[test]
fn shards_are_cut_where_the_table_of_the_format_says() {
    /// Sizes of the rows, the limit, and the samples and bytes of each shard.
    type Case<'a> = (&'a [usize], u32, &'a [(u64, u64)]);
    let table: &[Case<'_>] = &[
        (&[5000, 10], 1024, &[(0, 172), (1, 5180), (1, 190)]),
        (&[10, 5000, 10], 1024, &[(1, 190), (1, 5180), (1, 190)]),
        (&[100; 7], 494, &[(2, 387), (2, 387), (2, 387), (1, 279)]),
        (&[100; 7], 495, &[(3, 495), (3, 495), (1, 279)]),
        (&[100; 3], 1, &[(0, 169), (1, 277), (1, 277), (1, 277)]),
        (&[50; 3], 300, &[(2, 287), (1, 229)]),
    ];
    for (sizes, limit, expected) in table {
        let values: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
        let rows = batch(vec![("b", Arc::new(BinaryArray::from_iter_values(&values)))]);
        let options = ShardOptions { size_limit: Some(*limit), ..ShardOptions::default() };
        // The split into batches does not matter.
        for batches in
            [vec![rows.clone()], (0..rows.num_rows()).map(|row| rows.slice(row, 1)).collect()]
        {
            let shards = shards(&[("b", "bytes")], options.clone(), &batches).unwrap();
            let found: Vec<_> = shards
                .iter()
                .map(|shard| (shard.entry.samples, shard.entry.raw_data.bytes))
                .collect();
            assert_eq!(found, *expected, "{sizes:?} {limit}");
            assert!(
                shards.iter().all(|shard| shard.bytes.len() as u64 == shard.entry.raw_data.bytes)
            );
            assert_eq!(
                shards.last().unwrap().basename,
                format!("shard.{:05}.mds", shards.len() - 1)
            );
        }
    }
}

#[test]
fn no_rows_make_no_shard_and_an_empty_index() {
    let rows = batch(vec![("b", Arc::new(BinaryArray::from_iter_values(Vec::<&[u8]>::new())))]);
    assert!(shards(&[("b", "bytes")], ShardOptions::default(), &[rows]).unwrap().is_empty());
    assert_eq!(index_json(&[]), r#"{"shards": [], "version": 2}"#);
}

#[test]
fn no_limit_and_a_limit_of_zero_are_recorded_as_null() {
    for limit in [None, Some(0)] {
        let rows = batch(vec![("b", Arc::new(BinaryArray::from_iter_values([[1; 9]; 3])))]);
        let shards = shards(
            &[("b", "bytes")],
            ShardOptions { size_limit: limit, ..ShardOptions::default() },
            &[rows],
        )
        .unwrap();
        assert_eq!((shards.len(), shards[0].entry.config.size_limit), (1, None));
    }
}

#[test]
fn values_of_each_encoding_have_the_bytes_of_the_specification() {
    let mut lists = ListBuilder::new(ListBuilder::new(Int16Builder::new()));
    for row in [[0, 1, 2], [3, 4, 5]] {
        lists.values().values().append_slice(&row);
        lists.values().append(true);
    }
    lists.append(true);
    let grid: ArrayRef = Arc::new(lists.finish());
    let mut tall = ListBuilder::new(ListBuilder::new(Int16Builder::new()));
    for number in 0..300 {
        tall.values().values().append_value(number);
        tall.values().append(true);
    }
    tall.append(true);
    let values = "0000 0100 0200 0300 0400 0500";
    assert_eq!(
        encoded("ndarray:int16", Arc::clone(&grid)).unwrap(),
        hex(&format!("08 02 03 {values}"))
    );
    assert_eq!(encoded("ndarray:int16:2,3", Arc::clone(&grid)).unwrap(), hex(values));
    assert_eq!(
        encoded("ndarray", Arc::clone(&grid)).unwrap(),
        hex(&format!("11 08 02 03 {values}"))
    );
    assert_eq!(encoded("ndarray", Arc::new(tall.finish())).unwrap()[..6], hex("11 09 2c01 0100"));
    assert!(
        encoded("ndarray:int16:3,2", Arc::clone(&grid))
            .unwrap_err()
            .contains("its shape is [2, 3]")
    );
    assert_eq!(encoded("ndarray:uint8", grid).unwrap(), hex("08 02 03 00 01 02 03 04 05"));

    let mut blobs = ListBuilder::new(arrow_array::builder::BinaryBuilder::new());
    blobs.values().append_value([1]);
    blobs.values().append_value([2, 3]);
    blobs.append(true);
    let blobs: ArrayRef = Arc::new(blobs.finish());
    assert_eq!(
        encoded("jpeg_array", Arc::clone(&blobs)).unwrap(),
        hex("02000000 01000000 02000000 01 0203")
    );
    assert_eq!(
        encoded("list[pil]", blobs).unwrap(),
        hex("00000000 02000000 01000000 02000000 01 0203")
    );

    assert_eq!(
        encoded("int", Arc::new(Int64Array::from(vec![-2]))).unwrap(),
        hex("feffffffffffffff")
    );
    assert_eq!(
        encoded("int", Arc::new(BooleanArray::from(vec![true]))).unwrap(),
        hex("0100000000000000")
    );
    assert_eq!(encoded("uint8", Arc::new(Int64Array::from(vec![255]))).unwrap(), [255]);
    assert_eq!(encoded("float16", Arc::new(Float64Array::from(vec![1.5]))).unwrap(), hex("003e"));
    assert_eq!(
        encoded("pkl", Arc::new(LargeBinaryArray::from_iter_values([b"\x80\x04"]))).unwrap(),
        b"\x80\x04"
    );
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    assert_eq!(encoded("str", text("hé")).unwrap(), hex("68c3a9"));
    for (encoding, value) in [
        ("str_int", "-12"),
        ("str_float", "1e+22"),
        ("str_decimal", "1.50"),
        ("json", r#"{"b": [1, NaN, "NaN\""]}"#),
    ] {
        assert_eq!(encoded(encoding, text(value)).unwrap(), value.as_bytes());
    }
    for (encoding, value) in [
        ("str_int", "1.5"),
        ("str_float", "x"),
        ("str_decimal", ""),
        ("json", "{"),
        ("json", "{'a': 1}"),
        ("json", "NaNs"),
    ] {
        assert!(
            encoded(encoding, text(value)).unwrap_err().contains("row `0`"),
            "{encoding} {value}"
        );
    }
    for (value, expected) in [
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (1e16, "1e+16"),
        (1e15, "1000000000000000.0"),
        (-2.5e-7, "-2.5e-07"),
        (0.0001, "0.0001"),
    ] {
        assert_eq!(
            encoded("str_float", Arc::new(Float64Array::from(vec![value]))).unwrap(),
            expected.as_bytes()
        );
        assert_eq!(
            encoded("json", Arc::new(Float64Array::from(vec![value]))).unwrap(),
            expected.as_bytes()
        );
    }
}

#[test]
fn structs_are_json_as_python_writes_it() {
    let mut numbers = ListBuilder::new(arrow_array::builder::Float64Builder::new());
    numbers.values().append_option(Some(2.5));
    numbers.values().append_option(None);
    numbers.append(true);
    let rows = StructArray::from(vec![
        (
            Arc::new(Field::new("b", DataType::new_list(DataType::Float64, true), true)),
            Arc::new(numbers.finish()) as ArrayRef,
        ),
        (
            Arc::new(Field::new("a\u{7f}", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["é\n\u{1f600}\"/"])) as ArrayRef,
        ),
    ]);
    let expected = r#"{"b": [2.5, null], "a\u007f": "\u00e9\n\ud83d\ude00\"/"}"#;
    assert_eq!(String::from_utf8(encoded("json", Arc::new(rows)).unwrap()).unwrap(), expected);
}

#[test]
fn what_cannot_be_written_is_refused_by_column_and_row() {
    let one = |array: ArrayRef| vec![batch(vec![("x", array)])];
    let nulls = one(Arc::new(Int64Array::from(vec![Some(1), None])));
    let error = shards(&[("x", "int")], ShardOptions::default(), &nulls).unwrap_err();
    assert!(matches!(&error, Error::Null { column, row: 1 } if column == "x"), "{error}");
    let large = one(Arc::new(UInt64Array::from(vec![1, 2, u64::MAX])));
    let error = shards(&[("x", "int")], ShardOptions::default(), &large).unwrap_err();
    assert!(matches!(&error, Error::Cast { row: 2, .. }), "{error}");
    let error = shards(
        &[("x", "uint8")],
        ShardOptions::default(),
        &one(Arc::new(Float64Array::from(vec![1.0]))),
    )
    .unwrap_err();
    assert!(matches!(error, Error::UnsupportedType { .. }), "{error}");
    let error =
        shards(&[("y", "int")], ShardOptions::default(), &one(Arc::new(Int64Array::from(vec![1]))))
            .unwrap_err();
    assert!(matches!(error, Error::MissingColumn { .. }), "{error}");
    let mut ragged = ListBuilder::new(ListBuilder::new(Int16Builder::new()));
    for row in [vec![1], vec![2, 3]] {
        ragged.values().values().append_slice(&row);
        ragged.values().append(true);
    }
    ragged.append(true);
    let error =
        shards(&[("x", "ndarray:int16")], ShardOptions::default(), &one(Arc::new(ragged.finish())))
            .unwrap_err();
    assert!(error.to_string().contains("unequal lengths"), "{error}");
    let mut empty = ListBuilder::new(Int16Builder::new());
    empty.append(true);
    let error =
        shards(&[("x", "ndarray:int16")], ShardOptions::default(), &one(Arc::new(empty.finish())))
            .unwrap_err();
    assert!(error.to_string().contains("dimension of 0"), "{error}");
    for (encoding, reason) in [
        ("ndarray:bool", "number type"),
        ("ndarray:int8:0", "above 0"),
        ("shake", "does not exist"),
        ("ndarray:int8:2:2", "above 0"),
    ] {
        assert!(
            Columns::new([("x", encoding)]).unwrap_err().to_string().contains(reason),
            "{encoding}"
        );
    }
    assert!(Columns::new([("x", "int"), ("x", "str")]).is_err());
}

#[test]
fn row_that_exceeds_the_offsets_is_named_and_nothing_is_returned() {
    // Views of one large value: the gathered samples really take that much memory,
    // so only a few fit.
    let value = vec![0u8; 1 << 20];
    let rows = batch(vec![("b", Arc::new(LargeBinaryArray::from_iter_values([&value])))]);
    let mut encoder = ShardEncoder::new(
        Columns::new([("b", "bytes")]).unwrap(),
        ShardOptions { size_limit: None, ..ShardOptions::default() },
    );
    encoder.pretend_size(u64::from(u32::MAX) - (1 << 20) - 8);
    assert!(encoder.push(&rows).unwrap().is_empty());
    let error = encoder.push(&rows).unwrap_err();
    assert!(matches!(error, Error::ShardTooLarge { row: 1, .. }), "{error}");
}

#[test]
fn schema_decides_about_encodings() {
    let fixed = |item: DataType, size| {
        DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), size)
    };
    let list = |item: DataType| DataType::new_list(item, true);
    let cases = [
        (DataType::BinaryView, "bytes"),
        (DataType::LargeUtf8, "str"),
        (DataType::Int64, "int"),
        (DataType::Boolean, "uint8"),
        (DataType::Float16, "float16"),
        (DataType::UInt64, "uint64"),
        (DataType::Decimal128(9, 2), "str_decimal"),
        (list(DataType::UInt16), "ndarray:uint16"),
        (fixed(fixed(DataType::Float32, 3), 2), "ndarray:float32:2,3"),
        (list(list(DataType::Int8)), "json"),
        (list(DataType::Utf8), "json"),
        (DataType::Struct(vec![Field::new("a", DataType::Utf8, true)].into()), "json"),
        (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), "str"),
    ];
    for (data_type, expected) in cases {
        let columns =
            Columns::of_schema(&Schema::new(vec![Field::new("x", data_type.clone(), true)]))
                .unwrap();
        assert_eq!(columns.get(0).unwrap().encoding_name, expected, "{data_type}");
    }
    let schema = Schema::new(vec![Field::new("x", DataType::Date32, true)]);
    assert!(matches!(Columns::of_schema(&schema), Err(Error::NoEncoding { .. })));
}

#[test]
fn shards_of_several_pieces_have_the_layout_of_the_format() {
    // Rows of odd sizes, so that neither pieces nor shards end at a multiple of anything.
    let texts: Vec<String> =
        (0..40).map(|row| (row % 7).to_string().repeat(190_001 + 977 * row)).collect();
    let rows = batch(vec![("text", Arc::new(StringArray::from(texts.clone())))]);
    let options = ShardOptions { size_limit: Some(5_000_000), ..ShardOptions::default() };
    let shards =
        shards(&[("text", "str")], options, &[rows.slice(0, 17), rows.slice(17, 23)]).unwrap();
    assert!(shards.len() > 1);
    let mut texts = texts.iter();
    for shard in &shards {
        let word =
            |at: usize| u32::from_le_bytes(shard.bytes[at..at + 4].try_into().unwrap()) as usize;
        assert!(shard.bytes.len() <= 5_000_000);
        assert_eq!(shard.entry.raw_data.bytes, shard.bytes.len() as u64);
        for row in 0..word(0) {
            let sample = &shard.bytes[word(4 + 4 * row)..word(8 + 4 * row)];
            let text = texts.next().unwrap();
            assert_eq!(sample[..4], u32::try_from(text.len()).unwrap().to_le_bytes());
            assert!(&sample[4..] == text.as_bytes(), "row {row} of {}", shard.basename);
        }
        assert_eq!(word(4 + 4 * word(0)), shard.bytes.len());
    }
    assert_eq!(texts.next(), None);
}

#[test]
fn null_among_the_values_of_a_dictionary_is_refused_like_any_other() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let words = DictionaryArray::try_new(Int8Array::from(vec![0, 1]), values).unwrap();
    let refused =
        shards(&[("x", "str")], ShardOptions::default(), &[batch(vec![("x", Arc::new(words))])]);
    assert!(matches!(&refused, Err(Error::Null { row: 1, .. })), "{refused:?}");
}
