//! Options of a writer, and the option string that is stored in a file.

use super::super::Error;
use super::grammar::{COUNT_MAX, Item, items};

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

const KEYS: [&str; 12] = [
    DEFAULT,
    "group_size",
    "max_parallelism",
    "saturation_delay_ms",
    "transpose",
    "transpose_bucket_size",
    "uncompressed",
    "brotli",
    "zstd",
    "snappy",
    WINDOW_LOG,
    "pad_to_block_boundary",
];
const DEFAULT: &str = "default";
const WINDOW_LOG: &str = "window_log";

const TRANSPOSE_BUCKET_SIZE: u64 = 256;
const ZSTD_LEVEL: i32 = 3;
const ZSTD_WINDOW_LOG: u8 = 20;
const BROTLI_LEVEL: u8 = 6;

impl Default for WriterOptions {
    fn default() -> Self {
        let compression = Compression::Zstd { level: ZSTD_LEVEL, window_log: ZSTD_WINDOW_LOG };
        Self { group_size: 1, compression, pad_to_block_boundary: false, transpose_bucket_size: None }
    }
}

impl WriterOptions {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let items = items(text, &KEYS)?;
        let mut options = Self::default();
        let (mut codec, mut window_log) = (None, None);
        let (mut transpose, mut bucket_size) = (false, TRANSPOSE_BUCKET_SIZE);
        for (position, item) in items.iter().enumerate() {
            match item.key {
                DEFAULT if position > 0 => return Err(item.refused("must be the first")),
                DEFAULT => {}
                "group_size" => options.group_size = item.integer(1..=COUNT_MAX)?,
                // These two control waiting in the original's threads. They are checked and have no effect.
                "max_parallelism" => drop(item.unless_auto(|item| item.integer(1..=COUNT_MAX))?),
                "saturation_delay_ms" => drop(item.integer(1..=COUNT_MAX)?),
                "transpose" => transpose = item.one_of(&[("", true), ("true", true), ("false", false)])?,
                "transpose_bucket_size" => bucket_size = item.unless_auto(|item| item.bytes(1..=u64::MAX))?.unwrap_or(TRANSPOSE_BUCKET_SIZE),
                "pad_to_block_boundary" => options.pad_to_block_boundary = item.one_of(&[("", false), ("true", true), ("false", false)])?,
                WINDOW_LOG => window_log = Some(item),
                _codec => match codec.replace(item) {
                    Some(earlier) => return Err(item.refused(format!("conflicts with `{}`", earlier.key))),
                    None => options.compression = Compression::parse(item)?,
                },
            }
        }
        if let Some(item) = window_log {
            options.compression.take_window_log(item)?;
        }
        options.transpose_bucket_size = transpose.then_some(bucket_size);
        Ok(options)
    }

    /// The string that is stored in a file. The parallelism is always 1 there, because the output does not depend on threads.
    #[must_use]
    pub fn recorded(&self) -> String {
        let Self { group_size, compression, pad_to_block_boundary, transpose_bucket_size } = self;
        let transpose = transpose_bucket_size.is_some();
        let bucket_size = transpose_bucket_size.map_or_else(String::new, |size| format!(",transpose_bucket_size:{size}"));
        let compression = compression.recorded();
        format!(
            "group_size:{group_size},transpose:{transpose},pad_to_block_boundary:{pad_to_block_boundary}{bucket_size},{compression},max_parallelism:1"
        )
    }
}

impl Compression {
    /// Parses the item of a codec.
    fn parse(item: &Item<'_>) -> Result<Self, Error> {
        let bare = item.value.is_empty();
        match item.key {
            "uncompressed" => item.bare().map(|()| Self::None),
            "brotli" => Ok(Self::Brotli { level: if bare { BROTLI_LEVEL } else { item.integer(0..=11)? }, window_log: None }),
            "zstd" => Ok(Self::Zstd { level: if bare { ZSTD_LEVEL } else { item.integer(-131_072..=22)? }, window_log: ZSTD_WINDOW_LOG }),
            _snappy if bare => Ok(Self::Snappy),
            _snappy => item.integer(1..=2u8).map(|_level| Self::Snappy),
        }
    }

    fn take_window_log(&mut self, item: &Item<'_>) -> Result<(), Error> {
        match self {
            Self::Brotli { window_log, .. } => *window_log = item.unless_auto(|item| item.integer(10..=30))?,
            Self::Zstd { window_log, .. } => *window_log = item.unless_auto(|item| item.integer(10..=31))?.unwrap_or(ZSTD_WINDOW_LOG),
            Self::None | Self::Snappy => return Err(item.refused(format!("conflicts with `{}`", self.codec()))),
        }
        Ok(())
    }

    fn recorded(self) -> String {
        match self {
            Self::None => "uncompressed".to_owned(),
            Self::Brotli { level, window_log: None } => format!("brotli:{level}"),
            Self::Brotli { level, window_log: Some(window_log) } => format!("brotli:{level},window_log:{window_log}"),
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
            format!("group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:{size},zstd:3,window_log:20,max_parallelism:1")
        };
        for (text, recorded) in [
            ("", with("zstd:3,window_log:20")),
            (",,", with("zstd:3,window_log:20")),
            ("default", with("zstd:3,window_log:20")),
            (",default:1,brotli", with("brotli:6")),
            ("group_size:+7", format!("group_size:7,{FRONT},zstd:3,window_log:20,max_parallelism:1")),
            ("group_size:\u{b} 2147483647\t", format!("group_size:2147483647,{FRONT},zstd:3,window_log:20,max_parallelism:1")),
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
            ("pad_to_block_boundary:true,snappy", "group_size:1,transpose:false,pad_to_block_boundary:true,snappy,max_parallelism:1".to_owned()),
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
        for text in ["", "brotli,window_log:25,group_size:9", "uncompressed,transpose", "snappy,pad_to_block_boundary:true"] {
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
        assert_eq!(message("zstd:23"), "Option `zstd` of ArrayRecord: value `23`, expected an integer in -131072..22");
        assert_eq!(message("group_size"), "Option `group_size` of ArrayRecord: has no value, expected an integer in 1..2147483647");
        assert_eq!(message("snappy,zstd"), "Option `zstd` of ArrayRecord: conflicts with `snappy`");
        assert!(message("gzip:1").starts_with("Option `gzip` of ArrayRecord: there is no such option; the options are default, group_size,"));
    }
}
