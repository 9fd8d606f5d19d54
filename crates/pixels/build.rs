//! Finds out what the JPEG library that is linked was built from: its version, and whether it has
//! SIMD code.
//!
//! The library itself is asked, since its build silently omits SIMD code
//! where it finds no assembler.

use std::path::Path;
use std::{env, fs};

/// Functions that only a build with SIMD code has.
const SIMD_FUNCTIONS: [&str; 3] =
    ["jsimd_idct_islow_avx2", "jsimd_idct_islow_sse2", "jsimd_idct_islow_neon"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let include = env::var("DEP_TURBOJPEG_INCLUDE").unwrap_or_default();
    let include = Path::new(include.split(',').next().unwrap_or_default());
    let config = fs::read_to_string(include.join("jconfig.h")).unwrap_or_default();
    let version = config
        .lines()
        .find_map(|line| line.strip_prefix("#define LIBJPEG_TURBO_VERSION"))
        .unwrap_or("unknown");
    let names = ["libturbojpeg.a", "turbojpeg-static.lib"];
    let library =
        names.iter().find_map(|name| fs::read(include.with_file_name("lib").join(name)).ok());
    let has = |library: &Vec<u8>, name: &str| {
        library.windows(name.len()).any(|window| window == name.as_bytes())
    };
    let simd = match library {
        Some(library) if SIMD_FUNCTIONS.iter().any(|name| has(&library, name)) => "yes",
        Some(_) => "no",
        None => "unknown",
    };
    if simd == "no" {
        println!(
            "cargo:warning=libjpeg-turbo was built without SIMD: JPEG decoding is slower. \
             On x86-64, install nasm and build again"
        );
    }
    println!("cargo:rustc-env=LIBJPEG_TURBO_VERSION={}", version.trim());
    println!("cargo:rustc-env=LIBJPEG_TURBO_SIMD={simd}");
}
