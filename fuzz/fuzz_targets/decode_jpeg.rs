//! Any JPEG, decoded with any options.
#![no_main]

#[path = "pixels/decoding.rs"]
mod decoding;

use libfuzzer_sys::fuzz_target;
use shardmill_images::ImageFormat;

fuzz_target!(|input: &[u8]| decoding::check(ImageFormat::Jpeg, input));
