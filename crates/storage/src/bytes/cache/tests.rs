use super::*;
use bytes::Bytes;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

const SIZE: u64 = 1_000_003;

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

/// A store that counts its requests.
#[derive(Default)]
struct Source(AtomicU64);

impl Source {
    fn fetch(&self, spans: &[Range<u64>]) -> Vec<Bytes> {
        let content = content();
        self.0.fetch_add(spans.iter().map(|span| span.end - span.start).sum(), Ordering::Relaxed);
        spans.iter().map(|span| Bytes::copy_from_slice(&content[place(span)])).collect()
    }

    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn place(span: &Range<u64>) -> Range<usize> {
    usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()
}

fn read_all(object: &CachedObject, source: &Source) {
    read(object, source, std::slice::from_ref(&(0..SIZE)));
}

fn read(object: &CachedObject, source: &Source, spans: &[Range<u64>]) {
    let content = content();
    for (span, bytes) in
        spans.iter().zip(object.read(spans, |spans| Ok(source.fetch(&spans))).unwrap())
    {
        assert_eq!(bytes, content[place(span)], "{span:?}");
    }
}

fn opened(directory: &Path) -> (Arc<Cache>, CachedObject) {
    let cache = Cache::open(directory, 1 << 30).unwrap();
    let object = cache.object("s3://bucket/key", "tag", SIZE).unwrap().unwrap();
    (cache, object)
}

#[test]
fn each_byte_is_fetched_once_by_all_who_read_it_and_survives_them() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let spans = [10..20, 65_530..200_000, 100_000..100_001, 999_999..SIZE, 0..0];
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| read(&opened(directory.path()).1, &source, &spans));
        }
    });
    assert_eq!(
        source.bytes(),
        4 * (64 << 10) + SIZE % (64 << 10),
        "four whole blocks and the last one"
    );
    read(&opened(directory.path()).1, &source, &spans);
    read_all(&opened(directory.path()).1, &source);
    read_all(&opened(directory.path()).1, &source);
    assert_eq!(source.bytes(), SIZE);
}

#[test]
fn directory_is_looked_through_each_time_a_part_of_its_limit_was_added() {
    let eviction = Eviction::new(32 * 100 + 7);
    assert_eq!(
        [99, 1, 99, 0, 500].map(|bytes| eviction.is_due(bytes)),
        [false, true, false, false, true]
    );
}

#[test]
fn block_that_was_damaged_is_fetched_again() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let (_cache, object) = opened(directory.path());
    read_all(&object, &source);
    let file = walk(directory.path(), "bytes");
    File::options().write(true).open(&file).unwrap().write_at(b"?", 70_000).unwrap();
    read_all(&object, &source);
    assert_eq!(source.bytes(), SIZE + (64 << 10));
    read_all(&object, &source);
    assert_eq!(source.bytes(), SIZE + (64 << 10), "it was mended");
    // A missing or corrupt index costs a fetch as well.
    fs::write(walk(directory.path(), "blocks"), vec![7; 64]).unwrap();
    let (_cache, object) = opened(directory.path());
    read_all(&object, &source);
}

fn walk(directory: &Path, extension: &str) -> PathBuf {
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|found| found == extension) {
            return path;
        }
    }
    panic!("no file with {extension}");
}

#[test]
fn what_was_damaged_before_it_was_kept_is_replaced_when_fresh_bytes_are_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let (_cache, object) = opened(directory.path());
    let whole = Range { start: 0, end: SIZE };
    let whole = std::slice::from_ref(&whole);
    let flipped = |spans: Vec<Range<u64>>| {
        Ok(source
            .fetch(&spans)
            .iter()
            .map(|bytes| bytes.iter().map(|byte| !byte).collect())
            .collect())
    };
    assert_ne!(object.read(whole, flipped).unwrap(), [content()]);
    assert_ne!(object.read(whole, |_| panic!("it is kept")).unwrap(), [content()]);
    crate::with_fresh_bytes(|| read_all(&object, &source));
    assert_eq!(object.read(whole, |_| panic!("it is kept")).unwrap(), [content()]);
}

#[test]
fn write_that_finds_the_disk_full_leaves_out_the_next_writes_and_not_all() {
    let directory = tempfile::tempdir().unwrap();
    let (cache, object) = opened(directory.path());
    let fetched = std::cell::Cell::new(0);
    let read_block = || {
        let fetch = |_| {
            fetched.update(|count| count + 1);
            Ok(vec![Bytes::from(vec![7; 64 << 10])])
        };
        assert_eq!(object.read(std::slice::from_ref(&(0..1)), fetch).unwrap(), [[7].as_slice()]);
    };
    cache.not_kept(&io::ErrorKind::StorageFull.into());
    (0..LEFT_OUT).for_each(|_| read_block());
    assert_eq!(fetched.get(), LEFT_OUT);
    (0..3).for_each(|_| read_block());
    assert_eq!(fetched.get(), LEFT_OUT + 1, "it is kept again");
}

#[test]
fn write_that_fails_for_another_reason_leaves_out_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let (cache, object) = opened(directory.path());
    cache.not_kept(&io::Error::other("the disk failed once"));
    read_all(&object, &source);
    read_all(&object, &source);
    assert_eq!(source.bytes(), SIZE);
}

#[test]
fn another_version_is_another_object() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let (cache, object) = opened(directory.path());
    read(&object, &source, std::slice::from_ref(&(0..10)));
    let other = cache.object("s3://bucket/key", "tag 2", SIZE).unwrap().unwrap();
    read(&other, &source, std::slice::from_ref(&(0..10)));
    assert_eq!(source.bytes(), 2 * (64 << 10));
    assert_eq!(cache_entries(&directory.path().display().to_string()).unwrap().len(), 2);
}

#[test]
fn what_was_used_longest_ago_goes_when_the_limit_is_passed() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let cache = Cache::open(directory.path(), 3 << 20).unwrap();
    for number in 0..6 {
        let object = cache.object(&format!("s3://bucket/{number}"), "tag", SIZE).unwrap().unwrap();
        read_all(&object, &source);
        drop(object);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let name = directory.path().display().to_string();
    let entries = cache_entries(&name).unwrap();
    assert!(entries.iter().map(|entry| entry.bytes).sum::<u64>() <= 4 << 20, "{entries:?}");
    assert_eq!(entries[0].path, "s3://bucket/5");
    assert!(entries.iter().all(|entry| entry.path != "s3://bucket/0"));
    assert!(
        cache.object("s3://bucket/large", "tag", 4 << 20).unwrap().is_none(),
        "larger than the cache"
    );
    assert!(clear_cache(&name).unwrap() > 0 && cache_entries(&name).unwrap().is_empty());
}

#[test]
fn cache_that_is_opened_with_a_lower_limit_shrinks_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    read_all(&opened(directory.path()).1, &Source::default());
    let kept_with = |limit| {
        Cache::open(directory.path(), limit).unwrap();
        cache_entries(&directory.path().display().to_string()).unwrap().len()
    };
    assert_eq!((kept_with(2 << 20), kept_with(SIZE / 2)), (1, 0));
}

#[test]
fn object_that_is_evicted_while_it_is_read_is_still_read_and_kept_again_under_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::default();
    let (_cache, object) = opened(directory.path());
    read(&object, &source, std::slice::from_ref(&(0..100)));
    clear_cache(&directory.path().display().to_string()).unwrap();
    read_all(&object, &source);
    let entries = cache_entries(&directory.path().display().to_string()).unwrap();
    assert!(entries.len() == 1 && entries[0].size == SIZE, "{entries:?}");
    let fetched = source.bytes();
    read_all(&object, &source);
    assert_eq!(source.bytes(), fetched);
}

#[test]
fn directory_that_cannot_be_written_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        Cache::open(&file, 1),
        Err(Error::Cache { directory, .. }) if directory.ends_with("file")
    ));
}
