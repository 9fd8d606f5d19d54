//! Any members in any order as a WebDataset shard: every JSON member becomes a document or is
//! quarantined, and no row holds a wrong image.
#![no_main]

mod source;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use shardmill_documents::{Chunk, Modality};
use shardmill_documents::materialize::Bodies;
use shardmill_documents::schema::{JobSchema, SchemaChoice, canonical_schema};
use shardmill_documents::source::SplitContext;
use shardmill_documents::source::keys::SampleKeys;
use shardmill_documents::source::webdataset::read_webdataset;
use shardmill_documents::source::webdataset_options::WebDatasetOptions;
use shardmill_documents::table::to_table;
use shardmill_formats::tar::{end_of_archive, member_header, padding};

const EXTENSIONS: [&str; 4] = ["tiff", "jpg", "png", "bin"];

#[derive(Debug, Arbitrary)]
struct Shard<'a> {
    samples: Vec<Sample<'a>>,
    is_located: bool,
    max_batch_bytes: Option<u16>,
    /// Bytes that are missing at the end.
    cut: u16,
}

#[derive(Debug, Arbitrary)]
struct Sample<'a> {
    stem: u8,
    texts: Vec<Token<'a>>,
    images: Vec<Token<'a>>,
    extra: Vec<(u8, Token<'a>)>,
    /// In place of the JSON made of the above.
    raw_json: Option<&'a [u8]>,
    /// Number of the extension, and the payload.
    image: Option<(u8, &'a [u8])>,
    is_image_first: bool,
}

#[derive(Debug, Arbitrary)]
enum Token<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
    OwnMember,
    Page(u8),
    List(Vec<u8>),
}

impl Sample<'_> {
    fn member(&self) -> String {
        format!(
            "s{}.{}",
            self.stem % 8,
            self.image.map_or("tiff", |(number, _)| EXTENSIONS[usize::from(number % 4)])
        )
    }

    fn json(&self) -> Vec<u8> {
        if let Some(raw) = self.raw_json {
            return raw.to_vec();
        }
        let value = |token: &Token<'_>| match token {
            Token::Null => Value::Null,
            Token::Boolean(boolean) => json!(boolean),
            Token::Integer(integer) => json!(integer),
            Token::Float(float) => json!(float),
            Token::Text(text) => json!(text),
            Token::OwnMember => json!(self.member()),
            Token::Page(page) => json!(format!("page_{page}_image_1")),
            Token::List(items) => json!(items),
        };
        let list = |tokens: &[Token<'_>]| Value::Array(tokens.iter().map(value).collect());
        let mut object = json!({
            "texts": list(&self.texts),
            "images": list(&self.images),
            "image_metadata": list(&self.images),
        });
        for (name, token) in &self.extra {
            object[format!("k{}", name % 4)] = value(token);
        }
        object.to_string().into_bytes()
    }
}

fn archive(shard: &Shard<'_>) -> Vec<u8> {
    let mut tar = Vec::new();
    let mut member = |name: &str, body: &[u8]| {
        tar.extend(member_header(name, body.len() as u64));
        tar.extend_from_slice(body);
        tar.resize(tar.len() + padding(body.len() as u64), 0);
    };
    for sample in &shard.samples {
        let json_name = format!("s{}.json", sample.stem % 8);
        let image = |member: &mut dyn FnMut(&str, &[u8])| {
            if let Some((_, body)) = sample.image {
                member(&sample.member(), body);
            }
        };
        if sample.is_image_first {
            image(&mut member);
        }
        member(&json_name, &sample.json());
        if !sample.is_image_first {
            image(&mut member);
        }
    }
    let end = end_of_archive(tar.len() as u64);
    tar.extend(end);
    tar.truncate(tar.len().saturating_sub(usize::from(shard.cut)));
    tar
}

fn options(shard: &Shard<'_>) -> WebDatasetOptions {
    WebDatasetOptions {
        fields: None,
        per_image_fields: vec!["image_metadata".to_owned()],
        per_text_fields: Vec::new(),
        keys: SampleKeys {
            sample_id_field: Some("k0".to_owned()),
            image_member_field: Some("k1".to_owned()),
            image_extensions: [".jpg", ".png", ".tiff"].map(str::to_owned).to_vec(),
            ..SampleKeys::default()
        },
        max_batch_bytes: shard.max_batch_bytes.map(|limit| u64::from(limit) + 1),
        max_decoded_bytes: None,
        materialize_on_read: false,
        ignore_zeros: false,
    }
}

fn check(chunk: &mut Chunk, tar: &[u8]) {
    source::check_documents(chunk);
    for range in chunk.document_ranges() {
        let rows = &chunk.rows[range];
        assert_eq!((&rows[0].modality, rows[0].position), (&Modality::Metadata, -1));
        assert!(rows[1..].iter().all(|row| row.position >= 0 && row.modality.is_content()));
        assert!(rows.is_sorted_by_key(|row| row.position));
    }
    let bodies = Bodies::read(chunk, Vec::new()).expect("the archive is in memory");
    for (index, row) in chunk.rows.iter().enumerate() {
        assert!(
            row.error.is_none() || bodies.get(index).is_none(),
            "an error goes with null bytes"
        );
        let is_verbatim = row.content_type.as_deref() != Some("image/tiff");
        if let Some(body) = bodies.get(index).filter(|body| is_verbatim && !body.is_empty()) {
            assert!(
                tar.windows(body.len()).any(|window| window == body),
                "the bytes are in the shard"
            );
        }
    }
    let table = to_table(chunk, &bodies.into_column()).expect("types were made to fit");
    assert_eq!(table.num_rows(), chunk.rows.len());
}

fuzz_target!(|shard: Shard<'_>| {
    let tar = archive(&shard);
    let mut documents = 0;
    let mut emit = |mut chunk: Chunk, _: &mut SplitContext<'_>| {
        documents += chunk.documents.len();
        check(&mut chunk, &tar);
        Ok(())
    };
    let report = source::read(&tar, shard.is_located, 1 << 12, |split, context| {
        // Every passthrough value is rescued.
        let (agreed, choice) = (canonical_schema([]), SchemaChoice::default());
        let job = JobSchema { agreed: &agreed, choice: &choice };
        read_webdataset(split, &options(&shard), job, context, &mut emit)
            .expect("bad samples are quarantined");
    });
    let quarantined = report.quarantined.iter().filter(|item| !item.is_shard).count();
    assert!(documents + quarantined <= shard.samples.len());
    if shard.cut == 0 {
        assert_eq!(documents + quarantined, shard.samples.len());
    }
});
