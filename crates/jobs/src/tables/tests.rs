//! Rows that are done are skipped, reading only their ids.

use super::ids::{IdPolicy, NullIds};
use super::read::Reader;
use super::{TableJob, TableOptions, run};
use crate::pipeline::Choices;
use crate::report::SplitReport;
use crate::results::ResultSchemas;
use crate::sink::{Mode, Publishing, SinkFormat, SinkOptions};
use crate::stage::Stage;
use crate::stage::filter::Filter;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use shardmill_documents::materialize::OnMaterializeError;
use shardmill_engine::{Cancel, CoreSlots};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::parquet::{
    ParquetCompression, ParquetTable, ParquetWriter, ParquetWriterOptions,
};
use shardmill_formats::records::Declared;
use shardmill_formats::table::TableFile;
use shardmill_load::{FileOpener, Format, TableReader, TextOptions};
use shardmill_plan::{Expression, FilePart, InputFile, Split};
use shardmill_resume::DoneIds;
use shardmill_storage::{Identity, LocalFile, RangeRead, Replace, Unpublished};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOB_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
struct Done {
    columns: Vec<String>,
    ids: HashSet<String>,
    /// The response to a lookup with the bounds of a block.
    may_contain: bool,
    probed: AtomicU64,
}

impl DoneIds for Done {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn contains(&self, ids: &[ArrayRef]) -> shardmill_resume::Result<BooleanBuffer> {
        let strings = strings(&ids[0]);
        self.probed.fetch_add(strings.len() as u64, Ordering::Relaxed);
        Ok(strings.iter().map(|id| id.is_some_and(|id| self.ids.contains(id))).collect())
    }

    fn may_contain(&self, _min: &ArrayRef, _max: &ArrayRef) -> bool {
        self.may_contain
    }
}

fn strings(array: &ArrayRef) -> StringArray {
    cast(array, &DataType::Utf8).unwrap().as_string::<i32>().clone()
}

#[derive(Debug)]
struct Counting(LocalFile, AtomicU64);

impl RangeRead for Counting {
    fn path(&self) -> &str {
        self.0.path()
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> shardmill_storage::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buffer)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> shardmill_storage::Result<Vec<Bytes>> {
        self.1
            .fetch_add(ranges.iter().map(|range| range.end - range.start).sum(), Ordering::Relaxed);
        self.0.read_ranges(ranges)
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("blob", DataType::Binary, false),
    ]))
}

/// Row groups of four rows: an id, and an incompressible blob.
fn write(path: &Path, ids: &[Option<&str>], blob_bytes: usize) -> InputFile {
    let schema = schema();
    let options = ParquetWriterOptions {
        compression: ParquetCompression::None,
        ..ParquetWriterOptions::default()
    };
    let path = path.display().to_string();
    let mut writer = ParquetWriter::new(
        &path,
        std::fs::File::create(&path).unwrap(),
        Arc::clone(&schema),
        &options,
    )
    .unwrap();
    for (group, ids) in ids.chunks(4).enumerate() {
        let blobs: Vec<Vec<u8>> = (0..ids.len())
            .map(|row| vec![u8::try_from(group * 4 + row).unwrap(); blob_bytes])
            .collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(ids.to_vec())),
            Arc::new(BinaryArray::from_iter_values(blobs)),
        ];
        writer
            .write_row_group(&RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
            .unwrap();
    }
    writer.finish().unwrap();
    InputFile::of(path).unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("row-{number}")).collect()
}

fn some(names: &[String]) -> Vec<Option<&str>> {
    names.iter().map(|name| Some(name.as_str())).collect()
}

fn policy(done: Done) -> IdPolicy {
    IdPolicy { columns: vec!["id".to_owned()], done: Some(Arc::new(done)), ..IdPolicy::default() }
}

fn done(ids: &[String]) -> Done {
    Done { ids: ids.iter().cloned().collect(), may_contain: true, ..Done::default() }
}

fn sink(directory: &Path) -> SinkOptions {
    SinkOptions {
        path: directory.display().to_string(),
        format: SinkFormat::Parquet,
        mode: Mode::Resume,
        materialize_on_write: true,
        on_materialize_error: OnMaterializeError::Raise,
        compression: "zstd".to_owned(),
        row_group_size: Some(1000),
        binary_compression: "none".to_owned(),
        image_sizes: false,
    }
}

/// Runs `work` with a job that writes to `directory`.
fn with_job<T>(
    directory: &Path,
    ids: &IdPolicy,
    stages: &[Stage],
    work: impl FnOnce(&TableJob<'_>) -> T,
) -> T {
    let opener =
        FileOpener::new(Format::Parquet, &TextOptions::default(), DecodeLimit::default(), &[])
            .unwrap();
    let reader = TableReader::new(opener, schema(), Declared::nothing());
    let (options, sink, unpublished, cancel) =
        (TableOptions::default(), sink(directory), Unpublished::default(), Cancel::default());
    let publishing = Publishing {
        replace: Replace::Atomically,
        unpublished: &unpublished,
        attempt: None,
        version: "",
    };
    let (choices, results, slots) =
        (Choices::default(), ResultSchemas::new(1, &[]), CoreSlots::new(1));
    let turn = results.turn(0, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
    work(&TableJob {
        options: &options,
        reader: &reader,
        stages,
        sink: &sink,
        choices: &choices,
        turn: &turn,
        ids,
        publishing,
        cancel: &cancel,
        chunk_bytes: 32 << 20,
    })
}

/// The ids that a reader delivers, and the number of bytes that it requested.
fn read(
    file: &InputFile,
    ids: &IdPolicy,
    report: &mut SplitReport,
) -> crate::Result<(Vec<Option<String>>, u64)> {
    let object = Arc::new(Counting(LocalFile::open(&file.path)?, AtomicU64::new(0)));
    let mut delivered = Vec::new();
    with_job(Path::new("unused"), ids, &[], |job| {
        Reader::new(job)?.read_object(
            file,
            Arc::clone(&object) as Arc<dyn RangeRead>,
            report,
            &mut |rows, _ids, _report| {
                assert_eq!(rows.schema().field(0).data_type(), &DataType::Utf8);
                delivered.extend(
                    rows.column(0).as_string::<i32>().iter().map(|id| id.map(str::to_owned)),
                );
                Ok(())
            },
        )
    })?;
    Ok((delivered, object.1.load(Ordering::Relaxed)))
}

#[test]
fn blobs_of_done_rows_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let ids = names(16);
    let file = write(&directory.path().join("a.parquet"), &some(&ids), BLOB_BYTES);
    let mut report = SplitReport::default();
    let (delivered, bytes) = read(&file, &policy(done(&ids)), &mut report).unwrap();
    assert!(delivered.is_empty());
    // The tail of the file is always read as a whole.
    assert!(bytes < 80 << 10, "{bytes} bytes were read");
    assert_eq!((report.ledger.input.rows, report.ledger.rows_dropped["done"]), (16, 16));
}

#[test]
fn only_blocks_with_pending_rows_are_read_and_give_those_rows_alone() {
    let directory = tempfile::tempdir().unwrap();
    let ids = names(16);
    let file = write(&directory.path().join("a.parquet"), &some(&ids), BLOB_BYTES);
    let (skipped, pending): (Vec<String>, Vec<String>) =
        ids.iter().cloned().partition(|id| id != "row-5");
    let (delivered, bytes) =
        read(&file, &policy(done(&skipped)), &mut SplitReport::default()).unwrap();
    assert_eq!(delivered, pending.into_iter().map(Some).collect::<Vec<_>>());
    assert!(bytes < 5 * BLOB_BYTES as u64, "{bytes} bytes were read");
}

#[test]
fn block_whose_bounds_rule_out_every_done_id_is_not_probed() {
    let directory = tempfile::tempdir().unwrap();
    let ids = names(8);
    let file = write(&directory.path().join("a.parquet"), &some(&ids), 10);
    let known = Arc::new(Done { may_contain: false, ..done(&ids) });
    let policy =
        IdPolicy { done: Some(Arc::clone(&known) as Arc<dyn DoneIds>), ..policy(Done::default()) };
    let (delivered, _bytes) = read(&file, &policy, &mut SplitReport::default()).unwrap();
    assert_eq!((delivered.len(), known.probed.load(Ordering::Relaxed)), (8, 0));
}

#[test]
fn null_id_is_an_error_that_names_its_row_or_is_always_processed() {
    let directory = tempfile::tempdir().unwrap();
    let ids = [Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), None];
    let file = write(&directory.path().join("a.parquet"), &ids, 10);
    let all = ["a", "b", "c", "d"].map(str::to_owned);
    let error =
        read(&file, &policy(done(&all)), &mut SplitReport::default()).unwrap_err().to_string();
    assert_eq!(error, format!("Id column `id` is null in row 5 of `{}`", file.path));
    let second =
        InputFile { part: Some(FilePart { first_block: 1, end_block: 2 }), ..file.clone() };
    assert_eq!(
        read(&second, &policy(done(&all)), &mut SplitReport::default()).unwrap_err().to_string(),
        error
    );
    let tolerant = IdPolicy { nulls: NullIds::AlwaysProcess, ..policy(done(&all)) };
    let (delivered, _bytes) = read(&file, &tolerant, &mut SplitReport::default()).unwrap();
    assert_eq!(delivered, [Some("e".to_owned()), None]);
}

#[test]
fn parts_of_a_file_give_each_row_once() {
    let directory = tempfile::tempdir().unwrap();
    let ids = names(14);
    let file = write(&directory.path().join("a.parquet"), &some(&ids), 10);
    let part = |first_block, end_block| InputFile {
        part: Some(FilePart { first_block, end_block }),
        ..file.clone()
    };
    let mut delivered = Vec::new();
    for part in [part(0, 1), part(1, 3), part(3, 4)] {
        delivered.extend(
            read(&part, &policy(done(&ids[2..4])), &mut SplitReport::default())
                .unwrap()
                .0
                .into_iter()
                .flatten(),
        );
    }
    assert_eq!(
        delivered,
        ids.iter().filter(|id| !ids[2..4].contains(id)).cloned().collect::<Vec<_>>()
    );
}

#[test]
fn ids_of_rows_that_a_stage_dropped_are_recorded_and_those_of_done_and_null_rows_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let ids = [Some("a"), None, Some("b"), Some("c"), Some("d"), Some("e")];
    let file = write(&directory.path().join("a.parquet"), &ids, 10);
    let expression = Expression::IsNull { operand: "id".into(), nan_is_null: false };
    let stages = [Stage::Filter(Filter { expression, per: None, drop_invalid_rows: true })];
    let ids = IdPolicy { nulls: NullIds::AlwaysProcess, ..policy(done(&["b".to_owned()])) };
    let path = directory.path().join("ids.parquet").display().to_string();
    let mut report = SplitReport::default();
    with_job(&directory.path().join("out"), &ids, &stages, |job| {
        std::fs::create_dir(directory.path().join("out")).unwrap();
        let outcome = run(&Split::new(0, vec![file]), job, Some(&path), &mut report).unwrap();
        assert!(!Path::new(&path).exists(), "a file is not visible before it is published");
        outcome
            .ids
            .unwrap()
            .publish(job.publishing, 2, "ids", &mut SplitReport::default())
            .unwrap();
    });
    let table = ParquetTable::open(Arc::new(LocalFile::open(&path).unwrap())).unwrap();
    let recorded = strings(table.read(0, &[0], None).unwrap().column(0));
    assert_eq!(recorded.iter().flatten().collect::<Vec<_>>(), ["a", "c", "d", "e"]);
    assert_eq!(table.schema().fields().len(), 1);
    assert_eq!(
        (
            report.ledger.input.rows,
            report.output.rows,
            report.ledger.rows_dropped["done"],
            report.ledger.rows_dropped["filter expression"]
        ),
        (6, 1, 1, 4)
    );
}
