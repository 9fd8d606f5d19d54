//! Images that cannot be read, in stages and in the sink.

use crate::report::SplitReport;
use crate::stage::headers::SizeFilter;
use crate::stage::reencode::{NativeCodec, ReencodeImages};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use shardmill_documents::materialize::Bodies;
use shardmill_documents::payload::{Located, Payload};
use shardmill_documents::{Chunk, Error as DocumentError, Lineage, Modality, Row};
use shardmill_formats::limit::DecodeLimit;
use shardmill_storage::{Error as StorageError, Identity, RangeRead, Result as StorageResult};
use std::io::ErrorKind;
use std::sync::Arc;

/// An open object that cannot be read.
#[derive(Debug)]
struct Failing(ErrorKind);

impl RangeRead for Failing {
    fn path(&self) -> &str {
        "s3://bucket/a.tar"
    }

    fn identity(&self) -> Identity {
        Identity { size: 100, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StorageResult<()> {
        Err(StorageError::Read {
            path: self.path().to_owned(),
            offset,
            len: buffer.len(),
            source: self.0.into(),
        })
    }
}

fn chunk(kind: ErrorKind) -> Chunk {
    let payload = Payload::Located(Located::verbatim(Arc::new(Failing(kind)), 0..100));
    let source_ref = Some(r#"{"path": "s3://bucket/a.tar", "member": "x.png"}"#.to_owned());
    let schema = Arc::new(Schema::empty());
    Chunk {
        documents: vec!["a".to_owned()],
        rows: vec![Row { modality: Modality::Image, payload, source_ref, ..Row::default() }],
        extras: RecordBatch::new_empty(Arc::clone(&schema)),
        schema,
        lineage: Lineage::default(),
    }
}

/// What the sink and the native stages make of the chunk.
fn outcomes(kind: ErrorKind) -> [(Result<()>, Option<String>); 3] {
    let mut report = SplitReport::default();
    let reencode = ReencodeImages {
        name: String::new(),
        codec: NativeCodec::Png,
        quality: 90,
        max_side: None,
    };
    let size = SizeFilter { min_side: Some(1), max_pixels: None, drop_invalid_rows: true };
    let run = |work: &mut dyn FnMut(&mut Chunk) -> Result<()>| {
        let mut chunk = chunk(kind);
        let result = work(&mut chunk);
        (result, chunk.rows.pop().and_then(|row| row.error))
    };
    [
        run(&mut |chunk| Ok(Bodies::read(chunk, Vec::new()).map(drop)?)),
        run(&mut |chunk| reencode.apply(chunk, DecodeLimit::default())),
        run(&mut |chunk| size.apply(chunk, &mut report)),
    ]
}

#[test]
fn failure_of_the_store_or_the_disk_stops_the_split_and_blames_no_row() {
    for kind in [
        ErrorKind::TimedOut,
        ErrorKind::ConnectionRefused,
        ErrorKind::PermissionDenied,
        ErrorKind::StorageFull,
    ] {
        for (result, row) in outcomes(kind) {
            let Err(Error::Documents(DocumentError::Storage(error))) = result else {
                panic!("{kind}: {result:?}");
            };
            assert_eq!((error.io_kind(), row), (Some(kind), None));
        }
    }
}

#[test]
fn image_that_cannot_be_read_is_an_error_of_its_row() {
    for (result, row) in outcomes(ErrorKind::UnexpectedEof) {
        assert!(result.is_ok());
        assert_eq!(row.as_deref(), Some("range read error for member 'x.png'"));
    }
}
