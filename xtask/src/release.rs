//! What is given out: the program in an archive, the archive's checksum, and the list of all parts that the program is built of
//! (SBOM, CycloneDX 1.5). Knows the tools' command lines; decides no version.

use crate::parts::Missing;
use crate::report::{Problem, Report};
use crate::tools;
use crate::workspace::{Workspace, output_of};
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "windlass";
const PACKAGE: &str = "windlass-app";
const MANIFEST: &str = "crates/app/Cargo.toml";
/// The SBOM's name without its ending. cargo-cyclonedx writes one beside every package's manifest.
const PARTS: &str = "windlass.cdx";

pub(crate) fn release(workspace: &Workspace, report: &mut Report) {
    if let Err(Missing(reason)) = tools::install(workspace, report, tools::CYCLONEDX) {
        report.leave_out("release", &reason);
        return;
    }
    let arguments = ["build", "--release", "--locked", "--package", PACKAGE];
    let mut build = workspace.cargo(&arguments);
    build.args(["--bin", PROGRAM]);
    if !report.run("program", build) {
        return;
    }
    let mut list = workspace.cargo(&["cyclonedx", "--quiet", "--format", "json"]);
    list.args(["--spec-version", "1.5", "--manifest-path", MANIFEST]);
    list.args(["--override-filename", PARTS]);
    tools::with(workspace, &mut list, tools::CYCLONEDX);
    if report.run("list of parts", list) {
        report.check("release", || match pack(workspace) {
            Ok(()) => Vec::new(),
            Err(problem) => vec![problem],
        });
    }
}

fn pack(workspace: &Workspace) -> Result<(), Problem> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Problem::general(format!("{path}: {error}"))
    };
    let folder = workspace.target().join("dist");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let parts = take_parts(workspace)?;
    let file = folder.join(format!("{PARTS}.json"));
    fs::write(&file, parts).map_err(failed(&file))?;
    let program = workspace.target().join("release").join(PROGRAM);
    let copy = folder.join(PROGRAM);
    fs::copy(&program, &copy).map_err(failed(&program))?;
    let archive = format!("{PROGRAM}-{}.tar.gz", host(workspace)?);
    let mut tar = workspace.command("tar", "");
    tar.arg("-C").arg(&folder).args(["-czf"]);
    tar.arg(folder.join(&archive)).arg(PROGRAM);
    tar.arg("-C").arg(workspace.path(""));
    tar.args(["LICENSE-APACHE", "LICENSE-MIT"]);
    output_of(tar, "tar")?;
    let mut sum = workspace.command("sha256sum", "");
    sum.current_dir(&folder).arg(&archive);
    let sum = output_of(sum, "sha256sum")?;
    let file = folder.join(format!("{archive}.sha256"));
    fs::write(&file, sum).map_err(failed(&file))
}

/// The program's own list. The others, of our other packages, are part of it, and removed.
fn take_parts(workspace: &Workspace) -> Result<String, Problem> {
    let mut program_parts = None;
    for manifest in workspace.files()? {
        let Some(folder) = manifest.strip_suffix("Cargo.toml") else {
            continue;
        };
        let file: PathBuf = workspace.path(&format!("{folder}{PARTS}.json"));
        if manifest == MANIFEST {
            program_parts = fs::read_to_string(&file).ok();
        }
        // Not every manifest is a package's.
        drop(fs::remove_file(&file));
    }
    let parts = program_parts.ok_or_else(|| {
        Problem::general(format!("cargo-cyclonedx wrote no list beside {MANIFEST}"))
    })?;
    // Where the program was built concerns nobody, and would make each list another one.
    Ok(parts.replace(&workspace.path("").display().to_string(), "/windlass/"))
}

fn host(workspace: &Workspace) -> Result<String, Problem> {
    let mut rustc = workspace.command("rustc", "");
    rustc.arg("-vV");
    let version = output_of(rustc, "rustc")?;
    let mut lines = version.lines();
    lines
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Problem::general("`rustc -vV` names no host"))
}
