//! The program as a process: its arguments, its streams and its exit code.

use super::root;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Variables of the machine that would change what the program does.
const OURS: [&str; 15] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "PORT",
    "NO_COLOR",
];

/// The program in a folder, without any configuration of the machine's.
pub(crate) fn command(folder: &Path) -> Command {
    command_of(Path::new(env!("CARGO_BIN_EXE_windlass")), folder)
}

/// One of the package's example programs, which are built with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    program.with_file_name("examples").join(name)
}

/// The same of another program.
pub(crate) fn command_of(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for name in OURS {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WINDLASS_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// What one run said and how it ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) output: String,
    /// Standard error without the log, whose lines begin with a time.
    pub(crate) problems: Vec<String>,
}

pub(crate) fn run(command: &mut Command) -> Run {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let errors = String::from_utf8(stderr).unwrap();
    assert!(
        !errors.contains("panicked") && !errors.contains("backtrace"),
        "{errors}"
    );
    Run {
        code: status.code().expect("the program ends by itself"),
        output: String::from_utf8(stdout).unwrap(),
        problems: errors
            .lines()
            .filter(|line| !line.starts_with("20"))
            .map(str::to_owned)
            .collect(),
    }
}

/// Arguments that name the repository's folders.
pub(crate) fn folders(data: &Path) -> Vec<String> {
    let folder = |name: &str| root().join(name).display().to_string();
    [
        "--tools".to_owned(),
        folder("tools"),
        "--kb".to_owned(),
        folder("kb"),
        "--data".to_owned(),
        data.display().to_string(),
    ]
    .into()
}

/// A process that goes on until it is ended. Killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The lines of standard error, read by a thread so that the process never waits for a reader.
    log: Receiver<String>,
}

/// How long a line that must come may take; only a broken program takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    /// The same with another standard error. Nothing of it is read here unless it is a pipe.
    pub(crate) fn start_with(command: &mut Command, errors: Stdio) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, log) = channel();
        if let Some(errors) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines() {
                    if sender.send(line.unwrap()).is_err() {
                        break;
                    }
                }
            });
        }
        Self { child, output, log }
    }

    /// Waits for a line of the log that holds a text.
    pub(crate) fn expect_log(&self, text: &str) {
        self.log_until(text);
    }

    /// The same, and what it said until then, that line included.
    pub(crate) fn log_until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.log.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("the log never said {text}"));
            let is_last = line.contains(text);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    /// The next line of its output; empty where it has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Types a line, where its standard input is a pipe.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    /// Its standard input, which ends when this is dropped.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The host and port in its next line.
    pub(crate) fn address(&mut self) -> String {
        let line = self.line();
        let (_, address) = line
            .split_once("://")
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        address.to_owned()
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(status.success());
    }

    /// SIGKILL, without a moment's delay; nothing of it lives on.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end: the exit code, and what the log has said since it was last looked at.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let log: Vec<String> = self.log.iter().collect();
        (self.child.wait().unwrap().code(), log.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already where a test waited for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
