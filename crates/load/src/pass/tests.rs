use super::*;
use crate::{DatasetOptions, Format};
use shardmill_plan::order::{Lanes, Tail};
use std::path::PathBuf;
use uuid::Uuid;

/// A file of one column that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn of(rows: &[String]) -> Self {
        let path = std::env::temp_dir().join(format!("shardmill-pass-{}.csv", Uuid::new_v4()));
        std::fs::write(&path, format!("x\n{}\n", rows.join("\n"))).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn opened(files: &[&Scratch]) -> (Arc<Dataset>, Arc<RowSet>) {
    let paths = files.iter().map(|file| file.0.to_str().unwrap().to_owned()).collect();
    let dataset = Arc::new(
        Dataset::open(&DatasetOptions::new(paths, Some(Format::Csv)), &Cancel::default()).unwrap(),
    );
    let rows = RowSet::build(&dataset, None, 1, &Cancel::default()).unwrap();
    (dataset, Arc::new(rows))
}

/// Batches of two rows of a block of twenty, which are one superbatch, in the smallest memory.
fn pass(
    threads: usize,
    finish: impl Fn(RecordBatch, &[BatchRows]) -> Result<usize> + Send + Sync + 'static,
) -> (Scratch, Pass<usize>) {
    let file = Scratch::of(&(0..20).map(|row| row.to_string()).collect::<Vec<_>>());
    let (dataset, rows) = opened(&[&file]);
    let options = PassOptions {
        order: Arc::new(RowOrder::sequential(&rows.order_blocks())),
        steps: Steps {
            lanes: Lanes::new(rows.num_rows(), 1),
            batch_size: 2,
            world_size: 1,
            tail: Tail::Uneven,
        },
        rank: 0,
        consumed: 0,
        stride: 1,
        columns: vec![0],
        least_row_bytes: 0,
        threads,
        prefetch_bytes: 1,
        bad_rows: BadRowPolicy::default(),
        is_audited: false,
        memory: None,
        packs: None,
    };
    (file, Pass::start(&dataset, &rows, options, &Cancel::default(), finish).unwrap())
}

/// What is delivered, and the error that ends the pass.
fn all(pass: &mut Pass<usize>) -> (Vec<usize>, Option<Error>) {
    let mut delivered = Vec::new();
    loop {
        match pass.poll(Duration::from_secs(1)) {
            Poll::Ready(superbatch) => match superbatch.unwrap() {
                Ok(superbatch) => delivered.push(superbatch.content),
                Err(error) => return (delivered, Some(error)),
            },
            Poll::Pending => {}
            Poll::Finished => return (delivered, None),
        }
    }
}

#[test]
fn batches_that_are_too_large_together_are_delivered_one_by_one() {
    for threads in [0, 2] {
        let (_file, mut pass) = pass(threads, |rows, batches| match batches {
            [_] => Ok(rows.num_rows()),
            _ => Err(Error::TooManyPixels { column: "x".to_owned() }),
        });
        let (delivered, error) = all(&mut pass);
        assert_eq!((delivered, error.map(|error| error.to_string())), (vec![2; 10], None));
        let report = pass.progress().report();
        assert_eq!(
            (
                report.superbatches_ahead,
                report.bytes_ahead,
                report.superbatches,
                report.superbatches_ready
            ),
            (0, 0, 10, 0)
        );
    }
}

#[test]
fn batches_before_a_failed_one_are_delivered_before_its_error() {
    let (_file, mut pass) = pass(2, |rows, batches| match batches {
        [batch] if batch.first < 6 => Ok(rows.num_rows()),
        _ => Err(Error::NoSuchFormat { name: "x".to_owned() }),
    });
    let (delivered, error) = all(&mut pass);
    assert_eq!(delivered, [2; 3]);
    assert!(matches!(error, Some(Error::NoSuchFormat { .. })));
}

#[test]
fn row_is_as_large_as_those_that_most_of_the_data_consists_of() {
    let (short, long) =
        (Scratch::of(&vec!["a".to_owned(); 1_000]), Scratch::of(&vec!["a".repeat(100_000); 2]));
    let (dataset, rows) = opened(&[&short, &long]);
    let order = RowOrder::sequential(&rows.order_blocks());
    let bytes = row_bytes(&dataset, &rows, &order, &[0]);
    assert!((90_000..=100_100).contains(&bytes), "{bytes}");
}
