use super::*;
use crate::parquet::{ParquetWriter, ParquetWriterOptions};
use crate::records::memory::memory;
use arrow_array::{ArrayRef, Int32Array};

#[test]
fn sizes_of_a_hostile_footer_give_a_batch_size() {
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
    let mut writer = ParquetWriter::new(
        "a.parquet",
        Vec::new(),
        batch.schema(),
        &ParquetWriterOptions::default(),
    )
    .unwrap();
    (0..3).for_each(|_| writer.write_row_group(&batch).unwrap());
    let file = ParquetFile::open(memory("a.parquet", writer.finish().unwrap())).unwrap();
    for (size, expected) in [(i64::MAX, 1), (i64::MIN, 4096)] {
        let groups =
            file.footer.row_groups().iter().map(|group| {
                group.clone().into_builder().set_total_byte_size(size).build().unwrap()
            });
        let footer = ParquetMetaData::clone(&file.footer)
            .into_builder()
            .set_row_groups(groups.collect())
            .build();
        let hostile = ParquetFile { footer: Arc::new(footer), ..file.clone() };
        assert_eq!(hostile.batch_rows(1 << 20), expected);
    }
}
