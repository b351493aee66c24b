//! How the program is linked. Owns one choice.
//!
//! The table of addresses that the loader fills in at the start takes a megabyte as it is by default, and a hundredth of it in the
//! packed form, which glibc reads since 2.36 (<https://sourceware.org/bugzilla/show_bug.cgi?id=27924>). An older one refuses
//! such a program, so the packed form is taken only where the machine that builds has it, for itself and those like it.

use std::process::Command;

const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_for_this_machine = value_of("HOST") == value_of("TARGET");
    let is_glibc =
        value_of("CARGO_CFG_TARGET_OS") == "linux" && value_of("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_glibc {
        return;
    }
    if is_for_this_machine && glibc_version().is_some_and(|found| found >= PACKED_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn value_of(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The version of glibc, such as 2.36, as `getconf` says it; `None` where it cannot be found out.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = answer.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
