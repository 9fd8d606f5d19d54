use super::files::parts;
use super::*;
use crate::Error;
use uuid::Uuid;

fn key(block: u32, counts: u64) -> BlockKey {
    BlockKey { size: 1, digest: [0; 16], block, counts }
}

#[test]
fn counts_that_an_interrupted_look_did_not_read_are_read_by_the_next_one() {
    let directory =
        std::env::temp_dir().join(format!("shardmill-counts-{}", Uuid::new_v4().simple()));
    let [reader, writer] = [(); 2]
        .map(|()| TokenCounts::open(directory.to_str().unwrap(), &Cancel::default()).unwrap());
    writer.add(key(0, 2), "a.parquet", Arc::from([3_u32, 4]));
    writer.publish();
    let interrupted = Cancel::default();
    interrupted.cancel();
    assert!(matches!(reader.refresh(&interrupted), Err(Error::Engine(_))));
    assert!(reader.take_warnings().is_empty());
    reader.refresh(&Cancel::default()).unwrap();
    assert_eq!(reader.of(&key(0, 2)).as_deref(), Some(&[3_u32, 4][..]));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn counts_of_many_blocks_are_written_in_parts() {
    let most = PUBLISHED_COUNTS as u64;
    let entries: Vec<_> = (0..)
        .zip([most - 1, 1, 2, most, 0])
        .map(|(block, rows)| (key(block, rows), String::new()))
        .collect();
    assert_eq!(parts(&entries).map(<[_]>::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(parts(&[]).count(), 0);
}
