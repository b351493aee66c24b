//! How the program is linked. Owns two choices.
//!
//! The table of addresses that the loader fills in at the start takes a megabyte as it is by default, and a hundredth of it in the
//! packed form, which glibc reads since 2.36 (<https://sourceware.org/bugzilla/show_bug.cgi?id=27924>). An older one refuses
//! such a program, so the packed form is taken only where the machine that builds has it, for itself and those like it.
//!
//! The functions that a start and a conversation run lie side by side in a release build, since a program is mapped in pieces of
//! 64 KiB: `function-order.txt` names them.
//! GNU's linker and LLVM's, one of which is used unless a machine is set up otherwise, read the script that says so. A name that
//! is not in the program any more does nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKED_SINCE: (u32, u32) = (2, 36);
const FUNCTION_ORDER: &str = "function-order.txt";
/// Set where the order is about to be written anew.
const UNORDERED: &str = "WINDLASS_UNORDERED";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={FUNCTION_ORDER}");
    println!("cargo:rerun-if-env-changed={UNORDERED}");
    let is_for_this_machine = value_of("HOST") == value_of("TARGET");
    let is_glibc =
        value_of("CARGO_CFG_TARGET_OS") == "linux" && value_of("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_glibc {
        return;
    }
    if is_for_this_machine && glibc_version().is_some_and(|found| found >= PACKED_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if value_of("PROFILE") == "release" && is_usual_linker() && value_of(UNORDERED).is_empty() {
        match write_script(Path::new(&value_of("OUT_DIR"))) {
            Ok(script) => println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display()),
            Err(error) => println!(
                "cargo:warning={FUNCTION_ORDER} is not used, so that the program takes more memory: {error}"
            ),
        }
    }
}

fn value_of(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether nobody has chosen a linker, as far as cargo says.
fn is_usual_linker() -> bool {
    let flags = value_of("CARGO_ENCODED_RUSTFLAGS");
    value_of("RUSTC_LINKER").is_empty() && !flags.contains("link") && !flags.contains("-fuse-ld")
}

/// A linker script that puts a section with the named functions before all others.
fn write_script(folder: &Path) -> std::io::Result<PathBuf> {
    let names = std::fs::read_to_string(FUNCTION_ORDER)?;
    let names = names.lines().filter(|line| !line.starts_with('#'));
    let sections: String = names
        .map(|name| format!("    *(.text.{name} .text.unlikely.{name})\n"))
        .collect();
    let script =
        format!("SECTIONS\n{{\n  .text.usual :\n  {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n");
    let path = folder.join("function-order.ld");
    std::fs::write(&path, script)?;
    Ok(path)
}

/// What `getconf` says, such as `glibc 2.36`; `None` where that cannot be found out.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = answer.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
