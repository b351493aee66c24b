//! The files of a release: for each kind of machine the program in an archive, the archive's checksum and npm's package of it, and the
//! list of all parts that the program is built of (SBOM, CycloneDX 1.5). Knows the tools' command lines; decides no version.

use crate::parts::Missing;
use crate::report::{Problem, Report};
use crate::workspace::{Workspace, output_of, succeeds};
use crate::{supply, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "windlass";
const PACKAGE: &str = "windlass-app";
const MANIFEST: &str = "crates/app/Cargo.toml";
/// Features that are otherwise built on demand: users of an archive cannot build them.
const FEATURES: &str = "windlass-app/documents,windlass-app/postgres,windlass-app/typescript";
/// The SBOM's name without its ending. cargo-cyclonedx writes one beside every package's manifest.
const PARTS: &str = "windlass.cdx";
const INSTALLER: &str = "packaging/install.sh";
const SERVICE: &str = "packaging/systemd/windlass.service";
const CREATOR: &str = "packaging/npm/create-windlass";

/// A kind of machine that a program is made for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    name: &'static str,
    triple: &'static str,
    /// The linker for this machine on another machine. Static programs need the C library's own archive beside it.
    linker: &'static str,
    npm: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        linker: "x86_64-linux-gnu-gcc",
        npm: "x64",
    },
    Machine {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        linker: "aarch64-linux-gnu-gcc",
        npm: "arm64",
    },
];

/// A contributor's request on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    machines: Vec<&'static Machine>,
    /// Made to be tried and not to be given out: its parts are not checked.
    is_trial: bool,
}

impl Request {
    /// The named machines; this one where none is named. `None` for an unknown name.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let (is_trial, names) = match arguments {
            [first, names @ ..] if first == "--trial" => (true, names),
            names => (false, names),
        };
        let here = [std::env::consts::ARCH.to_owned()];
        let names = if names.is_empty() { &here } else { names };
        let known = |name: &String| MACHINES.iter().find(|machine| machine.name == name);
        let machines = names.iter().map(known).collect::<Option<_>>()?;
        Some(Self { machines, is_trial })
    }
}

pub(crate) fn release(workspace: &Workspace, report: &mut Report, request: &Request) {
    if request.is_trial {
        report.notice("a trial, whose parts nobody looked at: it is not to be given out");
    } else if !supply::release_check(workspace, report) {
        report.notice("nothing was built (`cargo xtask release --trial` builds it without these checks, to be tried)");
        return;
    }
    for machine in &request.machines {
        let name = format!("program for {}", machine.name);
        if let Err(problem) = machine.can_be_built_for(workspace) {
            report.check(&name, || vec![problem]);
            continue;
        }
        if report.run(&name, machine.build(workspace)) {
            report.check(&format!("archive for {}", machine.name), || {
                match pack(workspace, machine) {
                    Ok(()) => Vec::new(),
                    Err(problem) => vec![problem],
                }
            });
        }
    }
    if let Err(Missing(reason)) = tools::install(workspace, report, tools::CYCLONEDX) {
        report.leave_out("list of parts", &reason);
        return;
    }
    let mut list = workspace.cargo(&["cyclonedx", "--quiet", "--format", "json"]);
    list.args(["--spec-version", "1.5", "--manifest-path", MANIFEST]);
    list.args(["--features", FEATURES, "--override-filename", PARTS]);
    tools::with(workspace, &mut list, tools::CYCLONEDX);
    if report.run("list of parts", list) {
        report.check(
            "list of parts, put beside the archives",
            || match keep_parts(workspace) {
                Ok(()) => Vec::new(),
                Err(problem) => vec![problem],
            },
        );
    }
}

impl Machine {
    fn is_this_one(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    fn can_be_built_for(&self, workspace: &Workspace) -> Result<(), Problem> {
        let Self {
            name,
            triple,
            linker,
            ..
        } = self;
        let mut rustc = workspace.command("rustc", "");
        rustc.args(["--print", "target-libdir", "--target", triple]);
        let library = output_of(rustc, "rustc --print target-libdir")?;
        if !Path::new(library.trim()).is_dir() {
            return Err(Problem::general(format!(
                "no program for {name} can be made here: Rust's library for it is missing (`rustup target add {triple}`)"
            )));
        }
        let mut found = workspace.command(linker, "");
        found.arg("--version");
        if !self.is_this_one() && !succeeds(found) {
            return Err(Problem::general(format!(
                "no program for {name} can be made here: {linker} is missing (package `gcc-{}-linux-gnu` of the system)",
                name.replace('_', "-")
            )));
        }
        Ok(())
    }

    /// A static program: it runs whatever C library a system has, and in an image without any.
    fn build(&self, workspace: &Workspace) -> Command {
        let mut build = workspace.cargo(&["build", "--release", "--locked", "--package", PACKAGE]);
        build.args([
            "--bin",
            PROGRAM,
            "--features",
            FEATURES,
            "--target",
            self.triple,
        ]);
        let variable = |name: &str| {
            let triple = self.triple.to_uppercase().replace('-', "_");
            format!("CARGO_TARGET_{triple}_{name}")
        };
        build.env(variable("RUSTFLAGS"), "-C target-feature=+crt-static");
        if !self.is_this_one() {
            build.env(variable("LINKER"), self.linker);
        }
        build
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Problem {
    let path = path.display().to_string();
    move |error| Problem::general(format!("{path}: {error}"))
}

fn dist(workspace: &Workspace) -> Result<PathBuf, Problem> {
    let folder = workspace.target().join("dist");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    Ok(folder)
}

fn pack(workspace: &Workspace, machine: &Machine) -> Result<(), Problem> {
    let Machine {
        name, triple, npm, ..
    } = machine;
    let dist = dist(workspace)?;
    let built = workspace
        .target()
        .join(triple)
        .join("release")
        .join(PROGRAM);
    let program = fs::read(&built).map_err(failed(&built))?;
    if !is_static(&program) {
        return Err(Problem::general(format!(
            "the program for {name} is not static, so it would need the C library of the machine that built it"
        )));
    }
    let folder = dist.join(triple);
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    fs::copy(&built, folder.join(PROGRAM)).map_err(failed(&built))?;
    let archive = format!("{PROGRAM}-{triple}.tar.gz");
    let mut tar = workspace.command("tar", "");
    tar.arg("-C").arg(&folder).args(["-czf"]);
    tar.arg(dist.join(&archive)).arg(PROGRAM);
    tar.arg("-C").arg(workspace.path(""));
    tar.args(["LICENSE-APACHE", "LICENSE-MIT", SERVICE]);
    output_of(tar, "tar")?;
    let mut sum = workspace.command("sha256sum", "");
    sum.current_dir(&dist).arg(&archive);
    let sum = output_of(sum, "sha256sum")?;
    let file = dist.join(format!("{archive}.sha256"));
    fs::write(&file, sum).map_err(failed(&file))?;
    let installer = workspace.path(INSTALLER);
    fs::copy(&installer, dist.join("install.sh")).map_err(failed(&installer))?;
    let manifest = format!(
        "{{\n  \"name\": \"@windlass/linux-{npm}\",\n  \"version\": \"{}\",\n  \"license\": \"MIT OR Apache-2.0\",\n  \"os\": [\"linux\"],\n  \"cpu\": [\"{npm}\"],\n  \"files\": [\"{PROGRAM}\"]\n}}\n",
        env!("CARGO_PKG_VERSION")
    );
    let file = folder.join("package.json");
    fs::write(&file, manifest).map_err(failed(&file))?;
    for package in [folder, workspace.path(CREATOR)] {
        let mut npm = workspace.command("npm", "");
        npm.args(["pack", "--silent", "--pack-destination"]);
        npm.arg(&dist).arg(package);
        output_of(npm, "npm pack")?;
    }
    Ok(())
}

/// Whether an ELF program of 64 bits names no loader, and so no library of the system.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(program.get(at..at.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(value))
    };
    let kinds = || -> Option<Vec<u64>> {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let place = |index| usize::try_from(start.checked_add(index * size)?).ok();
        (0..count).map(|index| number(place(index)?, 4)).collect()
    };
    program.starts_with(b"\x7fELF\x02\x01")
        && kinds().is_some_and(|kinds| !kinds.contains(&INTERPRETER))
}

fn keep_parts(workspace: &Workspace) -> Result<(), Problem> {
    let parts = take_parts(workspace)?;
    let file = dist(workspace)?.join(format!("{PARTS}.json"));
    fs::write(&file, parts).map_err(failed(&file))
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
        // Some manifests belong to no package.
        drop(fs::remove_file(&file));
    }
    let parts = program_parts.ok_or_else(|| {
        Problem::general(format!("cargo-cyclonedx wrote no list beside {MANIFEST}"))
    })?;
    // The path of the build is private, and would make each list another one.
    Ok(parts.replace(&workspace.path("").display().to_string(), "/windlass/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_those_that_were_named_and_this_one_else() {
        let parsed = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let request = Request::parse(&arguments)?;
            let names: Vec<_> = request
                .machines
                .iter()
                .map(|machine| machine.name)
                .collect();
            Some((names, request.is_trial))
        };
        let here = std::env::consts::ARCH;
        assert_eq!(
            parsed(&["aarch64", "x86_64"]),
            Some((vec!["aarch64", "x86_64"], false))
        );
        assert_eq!(
            parsed(&["--trial", "aarch64"]),
            Some((vec!["aarch64"], true))
        );
        assert_eq!(parsed(&["--trial"]), Some((vec![here], true)));
        assert_eq!(parsed(&["z80"]), None);
        assert_eq!(parsed(&[]), Some((vec![here], false)));
    }

    #[test]
    fn a_program_that_names_a_loader_is_not_static() {
        // The header of a file of 64 bits, and two entries behind it.
        let program = |kinds: [u8; 2]| {
            let mut bytes = vec![0; 64 + 2 * 56];
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            (bytes[32], bytes[54], bytes[56]) = (64, 56, 2);
            (bytes[64], bytes[64 + 56]) = (kinds[0], kinds[1]);
            bytes
        };
        assert!(is_static(&program([1, 2])));
        assert!(!is_static(&program([1, 3])));
        assert!(!is_static(&program([1, 2])[..70]));
        assert!(!is_static(b"#!/bin/sh\n"));
        // The tests themselves are built as everything is by default: with the system's library.
        let this = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&this));
    }

    #[test]
    fn the_package_for_npm_has_the_programs_version() {
        let file = Workspace::of_this_program().path(&format!("{CREATOR}/package.json"));
        let manifest = fs::read_to_string(file).unwrap();
        let version = format!("\": \"{}\"", env!("CARGO_PKG_VERSION"));
        // The package's own version, and that of a package for each machine.
        assert_eq!(manifest.matches(&version).count(), 1 + MACHINES.len());
    }
}
