//! The fuzzer: `cargo xtask fuzz` builds and runs it, one target at a time.

#![no_main]

use std::sync::LazyLock;

/// The target. Not an argument: those are libFuzzer's own.
static TARGET: LazyLock<jobwright_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    jobwright_fuzz::target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET names no target: {name:?}"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.check)(input));
