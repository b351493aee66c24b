//! The project on this machine: its root, its files, its build directory, and commands started there. Knows no rule about any of them.

use crate::cache::Cache;
use crate::report::Problem;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn of_this_program() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package
            .parent()
            .expect("the package lies in the workspace's folder")
            .to_path_buf();
        Self { root }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    /// The build directory. This program itself lies in `debug` there, which also holds for a `CARGO_TARGET_DIR` or a
    /// configured directory.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::current_exe()
            .ok()
            .and_then(|program| program.ancestors().nth(2).map(Path::to_path_buf))
            .unwrap_or_else(|| self.path("target"))
    }

    /// One of our programs, as the tests' profile builds it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.target().join("debug").join(name)
    }

    /// The cache that this machine has for all clones.
    pub(crate) fn cache(&self) -> Cache {
        Cache::of_this_machine(&self.target().join("cache"))
    }

    pub(crate) fn read(&self, relative: &str) -> Result<String, Problem> {
        fs::read_to_string(self.path(relative))
            .map_err(|error| Problem::of_file(relative, format!("cannot be read: {error}")))
    }

    /// A command that runs in the workspace's root, or a folder of it.
    pub(crate) fn command(&self, program: impl AsRef<Path>, folder: &str) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.path(folder));
        // `cargo run` describes this package in the environment. Build scripts that watch those variables would run
        // again each time that a contributor alternates between this program and plain cargo.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(PathBuf::from(program), "");
        command.args(arguments);
        command
    }

    /// Every file that is, or could be, committed: relative paths with `/`, in order.
    pub(crate) fn files(&self) -> Result<Vec<String>, Problem> {
        let mut command = self.command("git", "");
        command.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let listing = output_of(command, "git ls-files")?;
        let mut files: Vec<String> = listing
            .split('\0')
            .filter(|name| !name.is_empty() && self.path(name).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// The output of a command that is expected to succeed.
pub(crate) fn output_of(mut command: Command, name: &str) -> Result<String, Problem> {
    let output = command
        .output()
        .map_err(|error| Problem::general(format!("`{name}` cannot be started: {error}")))?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr);
        return Err(Problem::general(format!(
            "`{name}` failed: {}",
            cause.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command can be started and succeeds: how an optional tool is looked for.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
