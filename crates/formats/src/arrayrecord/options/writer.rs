//! Options of a writer, and the option string that is stored in a file.

use super::super::Error;
use super::grammar::Numbers::{Any, Bytes, Integers, Never};
use super::grammar::{COUNT_MAX, Items, Key, refused};

/// How chunks are created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Records per chunk.
    pub group_size: u32,
    pub compression: Compression,
    /// Each chunk begins a block, after padding.
    pub pad_to_block_boundary: bool,
    /// Bucket size of transposed chunks in bytes; `None` for simple chunks.
    pub transpose_bucket_size: Option<u64>,
}

/// The codec of chunk data, with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    None,
    Brotli { level: u8, window_log: Option<u8> },
    Zstd { level: i32, window_log: u8 },
    Snappy,
}

const DEFAULT: &str = "default";
const BUCKET_SIZE: &str = "transpose_bucket_size";
const PAD: &str = "pad_to_block_boundary";
const WINDOW_LOG: &str = "window_log";

const TABLE: [Key; 12] = [
    (DEFAULT, &[], Any),
    ("group_size", &[], Integers(1, COUNT_MAX)),
    // These two control waiting in the original's threads. They have no effect.
    ("max_parallelism", &["auto"], Integers(1, COUNT_MAX)),
    ("saturation_delay_ms", &[], Integers(1, COUNT_MAX)),
    ("transpose", &["", "true", "false"], Never),
    (BUCKET_SIZE, &["auto"], Bytes(1, u64::MAX)),
    ("uncompressed", &[""], Never),
    ("brotli", &[""], Integers(0, 11)),
    ("zstd", &[""], Integers(-131_072, 22)),
    ("snappy", &[""], Integers(1, 2)),
    // The codec decides.
    (WINDOW_LOG, &[], Any),
    (PAD, &["", "true", "false"], Never),
];

const TRANSPOSE_BUCKET_SIZE: u64 = 256;
const ZSTD_LEVEL: i32 = 3;
const ZSTD_WINDOW_LOG: u8 = 20;
const BROTLI_LEVEL: u8 = 6;

impl Default for WriterOptions {
    fn default() -> Self {
        let compression = Compression::Zstd { level: ZSTD_LEVEL, window_log: ZSTD_WINDOW_LOG };
        Self {
            group_size: 1,
            compression,
            pad_to_block_boundary: false,
            transpose_bucket_size: None,
        }
    }
}

impl WriterOptions {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let items = Items::parse(text, &TABLE)?;
        if items.keys().skip(1).any(|key| key == DEFAULT) {
            return Err(refused(DEFAULT, "must be the first"));
        }
        let bucket_size = items.number(BUCKET_SIZE).unwrap_or(TRANSPOSE_BUCKET_SIZE);
        Ok(Self {
            group_size: items.number("group_size").unwrap_or(1),
            compression: Compression::of(&items)?,
            pad_to_block_boundary: items.text(PAD) == Some("true"),
            transpose_bucket_size: items
                .text("transpose")
                .filter(|text| *text != "false")
                .map(|_| bucket_size),
        })
    }

    /// The string that is stored in a file. The parallelism is always 1 there, because the output
    /// does not depend on threads.
    #[must_use]
    pub fn recorded(&self) -> String {
        let Self { group_size, compression, pad_to_block_boundary, transpose_bucket_size } = self;
        let transpose = transpose_bucket_size.is_some();
        let bucket_size = transpose_bucket_size
            .map_or_else(String::new, |size| format!(",transpose_bucket_size:{size}"));
        let compression = compression.recorded();
        format!(
            "group_size:{group_size},transpose:{transpose},\
             pad_to_block_boundary:{pad_to_block_boundary}{bucket_size},\
             {compression},max_parallelism:1"
        )
    }
}

impl Compression {
    fn of(items: &Items<'_>) -> Result<Self, Error> {
        let mut codecs = items
            .keys()
            .filter(|key| matches!(*key, "uncompressed" | "brotli" | "zstd" | "snappy"));
        let codec = codecs.next().unwrap_or("zstd");
        if let Some(other) = codecs.next() {
            return Err(refused(other, format!("conflicts with `{codec}`")));
        }
        let window_log = |most| items.number_of(&(WINDOW_LOG, &["auto"], Integers(10, most)));
        match codec {
            "brotli" => Ok(Self::Brotli {
                level: items.number(codec).unwrap_or(BROTLI_LEVEL),
                window_log: window_log(30)?,
            }),
            "zstd" => Ok(Self::Zstd {
                level: items.number(codec).unwrap_or(ZSTD_LEVEL),
                window_log: window_log(31)?.unwrap_or(ZSTD_WINDOW_LOG),
            }),
            _ if items.text(WINDOW_LOG).is_some() => {
                Err(refused(WINDOW_LOG, format!("conflicts with `{codec}`")))
            }
            "snappy" => Ok(Self::Snappy),
            _uncompressed => Ok(Self::None),
        }
    }

    fn recorded(self) -> String {
        match self {
            Self::None => "uncompressed".to_owned(),
            Self::Brotli { level, window_log: None } => format!("brotli:{level}"),
            Self::Brotli { level, window_log: Some(window_log) } => {
                format!("brotli:{level},window_log:{window_log}")
            }
            Self::Zstd { level, window_log } => format!("zstd:{level},window_log:{window_log}"),
            Self::Snappy => "snappy".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_is_recorded_as_the_original_records_it() {
        const FRONT: &str = "transpose:false,pad_to_block_boundary:false";
        let with = |codec: &str| format!("group_size:1,{FRONT},{codec},max_parallelism:1");
        let bucket = |size: u64| {
            format!(
                "group_size:1,transpose:true,\
                 pad_to_block_boundary:false,transpose_bucket_size:{size},\
                 zstd:3,window_log:20,max_parallelism:1"
            )
        };
        for (text, recorded) in [
            ("", with("zstd:3,window_log:20")),
            (",,", with("zstd:3,window_log:20")),
            ("default", with("zstd:3,window_log:20")),
            (",default:1,brotli", with("brotli:6")),
            (
                "group_size:+7",
                format!("group_size:7,{FRONT},zstd:3,window_log:20,max_parallelism:1"),
            ),
            (
                "group_size:\u{b} 2147483647\t",
                format!("group_size:2147483647,{FRONT},zstd:3,window_log:20,max_parallelism:1"),
            ),
            ("max_parallelism:5,saturation_delay_ms:1", with("zstd:3,window_log:20")),
            ("max_parallelism:auto", with("zstd:3,window_log:20")),
            ("uncompressed", with("uncompressed")),
            ("uncompressed:", with("uncompressed")),
            ("brotli:-0", with("brotli:0")),
            ("brotli,window_log:auto", with("brotli:6")),
            ("window_log:30,brotli:11", with("brotli:11,window_log:30")),
            ("zstd: 5", with("zstd:5,window_log:20")),
            ("zstd:0", with("zstd:0,window_log:20")),
            ("zstd:-131072,window_log:31", with("zstd:-131072,window_log:31")),
            ("window_log:10", with("zstd:3,window_log:10")),
            ("window_log:auto", with("zstd:3,window_log:20")),
            ("snappy", with("snappy")),
            ("snappy:2", with("snappy")),
            ("pad_to_block_boundary", with("zstd:3,window_log:20")),
            (
                "pad_to_block_boundary:true,snappy",
                "group_size:1,transpose:false,pad_to_block_boundary:true,snappy,max_parallelism:1"
                    .to_owned(),
            ),
            ("transpose", bucket(256)),
            ("transpose:,transpose_bucket_size:auto", bucket(256)),
            ("transpose:false,transpose_bucket_size:1M", with("zstd:3,window_log:20")),
            ("transpose_bucket_size:1.5k,transpose:true", bucket(1536)),
            ("transpose,transpose_bucket_size: 1 k", bucket(1024)),
            ("transpose,transpose_bucket_size:.5K", bucket(512)),
            ("transpose,transpose_bucket_size:2.5", bucket(3)),
            ("transpose,transpose_bucket_size:2B", bucket(2)),
            ("transpose,transpose_bucket_size:1E5", bucket(100_000)),
            ("transpose,transpose_bucket_size:1E", bucket(1 << 60)),
            ("transpose,transpose_bucket_size:16E", bucket(u64::MAX)),
            ("transpose,transpose_bucket_size:inf", bucket(u64::MAX)),
        ] {
            assert_eq!(WriterOptions::parse(text).unwrap().recorded(), recorded, "{text}");
        }
    }

    #[test]
    fn recorded_string_means_the_same_again() {
        for text in [
            "",
            "brotli,window_log:25,group_size:9",
            "uncompressed,transpose",
            "snappy,pad_to_block_boundary:true",
        ] {
            let options = WriterOptions::parse(text).unwrap();
            assert_eq!(WriterOptions::parse(&options.recorded()).unwrap(), options);
        }
    }

    #[test]
    fn strings_that_the_original_refuses_are_refused() {
        for text in [
            ":",
            "gzip",
            " zstd",
            "Zstd",
            "group_size=1",
            "group_size",
            "group_size:0",
            "group_size:2147483648",
            "group_size:1:2",
            "group_size:+ 3",
            "group_size:0x10",
            "group_size:1e3",
            "group_size:3,group_size:3",
            "group_size:3,default",
            "default,default",
            "uncompressed:1",
            "uncompressed,window_log:20",
            "window_log:auto,uncompressed",
            "snappy:0",
            "snappy:3",
            "snappy,window_log:auto",
            "brotli:12",
            "brotli,window_log:31",
            "window_log:31,brotli",
            "brotli,window_log:9",
            "zstd:23",
            "zstd:-131073",
            "zstd,window_log:9",
            "window_log:32",
            "window_log",
            "zstd,brotli",
            "brotli:3,zstd:4",
            "pad_to_block_boundary:TRUE",
            "transpose:auto",
            "transpose_bucket_size",
            "transpose_bucket_size:0",
            "transpose_bucket_size:0.49",
            "transpose_bucket_size:-1",
            "transpose_bucket_size:nan",
            "transpose_bucket_size:16MB",
            "transpose_bucket_size:1e",
            "max_parallelism",
            "max_parallelism:0",
            "saturation_delay_ms",
            "saturation_delay_ms:auto",
            "saturation_delay_ms:0",
        ] {
            assert!(matches!(WriterOptions::parse(text), Err(Error::Option { .. })), "{text}");
        }
    }

    #[test]
    fn refusal_names_the_option_and_what_it_may_be() {
        let message = |text: &str| WriterOptions::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("zstd:23"),
            "Option `zstd` of ArrayRecord: value `23`, expected an integer in -131072..22"
        );
        assert_eq!(
            message("group_size"),
            "Option `group_size` of ArrayRecord: has no value, expected an integer in 1..2147483647"
        );
        assert_eq!(message("snappy,zstd"), "Option `zstd` of ArrayRecord: conflicts with `snappy`");
        assert!(message("gzip:1").starts_with(
            "Option `gzip` of ArrayRecord: there is no such option; \
             the options are default, group_size,"
        ));
    }
}
