//! The fuzzer's program: hands what libFuzzer makes up to the one parser that the environment names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use windlass_fuzz::Target;

/// Which parser: a target's name.
const VARIABLE: &str = "WINDLASS_FUZZ_TARGET";

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("set {VARIABLE} to one of {}", Target::names()))
});

fuzz_target!(|data: &[u8]| TARGET.read(data));
