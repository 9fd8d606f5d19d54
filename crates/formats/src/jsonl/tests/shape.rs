//! Files that begin with blanks.

use super::*;
use shardmill_storage::{Error, Identity, RangeRead};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Notes the longest read.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn RangeRead>,
    longest: Arc<AtomicUsize>,
}

impl RangeRead for Noting {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.longest.fetch_max(buffer.len(), Ordering::Relaxed);
        self.inner.read_at(offset, buffer)
    }
}

#[test]
fn blanks_before_the_first_object_are_never_in_memory_together() {
    let fields = schema(&[("a", DataType::Int64)]);
    for blank in [" ", "\n"] {
        for (end, rows) in [("", 0), ("{\"a\": 1}", 1), ("[{\"a\": 1}, {\"a\": 2}]", 2)] {
            let longest = Arc::<AtomicUsize>::default();
            let inner = memory("a.jsonl", format!("{}{end}", blank.repeat(3 << 20)));
            let object = Arc::new(Noting { inner, longest: Arc::clone(&longest) });
            let file = JsonlFile::open(object, &fields, JsonlOptions::default()).expect("a file");
            assert_eq!(file.blocks().iter().map(|block| block.rows).sum::<u64>(), rows, "{end}");
            assert!(longest.load(Ordering::Relaxed) <= 1 << 20);
        }
    }
}

#[test]
fn form_of_a_file_does_not_depend_on_how_many_blanks_it_has() {
    let fields = schema(&[("a", DataType::Int64)]);
    for mark in ["", "\u{feff}"] {
        for blanks in [0, 1, 255, 256, 257, 700, 5000] {
            let (spaces, lines) = (" ".repeat(blanks), "\n".repeat(blanks));
            // An array, because of a line end or an object after the bracket.
            let arrays = [
                format!("{mark}{spaces}[{spaces}\n{spaces}{{\"a\": 1}}, {{\"a\": 2}}]"),
                format!("{mark}{lines}[{spaces}{{\"a\": 1}}, {{\"a\": 2}}]"),
                format!("{mark}{lines}{{\"a\": 1}}\n{spaces}{{\"a\": 2}}"),
            ];
            for text in arrays {
                let file = open(&text, &fields, BadLines::Error, 1 << 20);
                assert_eq!(
                    read_all(&file).expect("rows"),
                    by_arrow_json("{\"a\": 1}\n{\"a\": 2}", &fields),
                    "{blanks}"
                );
            }
            // A line end before the bracket says nothing: this is a bad line.
            let file = open(
                format!("{mark}{lines}[{spaces}1, 2]\n{{\"a\": 1}}"),
                &fields,
                BadLines::Skip,
                1 << 20,
            );
            assert_eq!(
                read_all(&file).expect("rows"),
                by_arrow_json("{\"a\": 1}", &fields),
                "{blanks}"
            );
        }
    }
}
