//! Every parser that strangers reach, under a coverage-guided fuzzer (libFuzzer), two at a time. Knows how to build and start it, and
//! how to keep a finding; the parsers are in `fuzz`.

use crate::report::{Problem, Report};
use crate::workspace::{Workspace, output_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const MINUTES: u64 = 3;
const AT_ONCE: usize = 2;
const PROGRAM: &str = "windlass-fuzz";
const TARGET_VARIABLE: &str = "WINDLASS_FUZZ_TARGET";
/// The committed inputs: one or more for each parser, and earlier finds.
const SEEDS: &str = "fuzz/seeds";
/// An input that takes longer counts as a hang.
const SECONDS_PER_INPUT_MAX: u64 = 10;
const MEMORY_MIB_MAX: u64 = 2_048;
const INPUT_BYTES_MAX: u64 = 65_536;
/// The flags that let libFuzzer see which way an input took. The stable compiler has them.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
];

/// A contributor's request on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Minutes for all parsers together.
    minutes: u64,
    /// One parser alone.
    target: Option<String>,
}

impl Request {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut request = Self {
            minutes: MINUTES,
            target: None,
        };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--minutes" => request.minutes = value.parse().ok()?,
                [name, value] if name == "--target" => request.target = Some(value.clone()),
                _ => return None,
            }
        }
        (request.minutes > 0).then_some(request)
    }
}

pub(crate) fn fuzz(workspace: &Workspace, report: &mut Report, request: &Request) {
    let mut targets = match targets(workspace) {
        Ok(targets) => targets,
        Err(problem) => return report.check("parsers", || vec![problem]),
    };
    if let Some(chosen) = &request.target {
        targets.retain(|target| target == chosen);
        if targets.is_empty() {
            let problem = format!("there is no folder {SEEDS}/{chosen}: name a folder of {SEEDS}");
            return report.check("parsers", || vec![Problem::general(problem)]);
        }
    }
    let folder = workspace.target().join("fuzz");
    let Some(program) = build(workspace, report, &folder) else {
        return;
    };
    let at_once = AT_ONCE.min(targets.len());
    let rounds = targets.len().div_ceil(at_once);
    let seconds = (request.minutes * 60 / rounds as u64).max(1);
    let waiting = Mutex::new(targets);
    let problems = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().ok().and_then(|mut targets| targets.pop());
            let Some(target) = next else {
                return;
            };
            let found = run(workspace, &program, &folder, &target, seconds);
            match (found, problems.lock()) {
                (Ok(line), _) => println!("{target}: {line}"),
                (Err(problem), Ok(mut problems)) => problems.push(problem),
                (Err(problem), Err(_)) => println!("{problem}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    report.check("parsers under the fuzzer", || {
        problems
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    });
}

/// The parsers by their folders of seeds, in reverse order: the last is taken first.
fn targets(workspace: &Workspace) -> Result<Vec<String>, Problem> {
    let unreadable =
        |error: std::io::Error| Problem::of_file(SEEDS, format!("cannot be read: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace.path(SEEDS)).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_by(|left, right| right.cmp(left));
    Ok(names)
}

fn build(workspace: &Workspace, report: &mut Report, folder: &Path) -> Option<PathBuf> {
    let mut rustc = workspace.command("rustc", "");
    rustc.args(["--print", "host-tuple"]);
    let host = match output_of(rustc, "rustc") {
        Ok(host) => host.trim().to_owned(),
        Err(problem) => {
            report.check("fuzzer", || vec![problem]);
            return None;
        }
    };
    let mut build = workspace.cargo(&["build", "--release", "--package", PROGRAM]);
    build.args(["--features", "engine", "--bin", PROGRAM]);
    // With a target the flags do not apply to build scripts and macros.
    build
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(folder);
    build.env("RUSTFLAGS", COVERAGE.join(" "));
    build.env("CARGO_PROFILE_RELEASE_LTO", "off");
    build.env("CARGO_PROFILE_RELEASE_STRIP", "none");
    report
        .run("fuzzer", build)
        .then(|| folder.join(host).join("release").join(PROGRAM))
}

/// Runs the fuzzer on one parser. Returns its last line of figures.
fn run(
    workspace: &Workspace,
    program: &Path,
    folder: &Path,
    target: &str,
    seconds: u64,
) -> Result<String, Problem> {
    let corpus = folder.join("corpus").join(target);
    let findings = folder.join("findings").join(target);
    for folder in [&corpus, &findings] {
        fs::create_dir_all(folder)
            .map_err(|error| Problem::general(format!("{}: {error}", folder.display())))?;
    }
    let mut command: Command = workspace.command(program, "");
    command.env(TARGET_VARIABLE, target);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-timeout={SECONDS_PER_INPUT_MAX}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
    command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-artifact_prefix={}/", findings.display()));
    command.args(["-print_final_stats=1"]);
    command.arg(&corpus).arg(workspace.path(SEEDS).join(target));
    let output = command
        .output()
        .map_err(|error| Problem::general(format!("{}: {error}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let mut done = text.lines().filter(|line| line.starts_with("Done "));
        return Ok(done.next_back().unwrap_or("done").to_owned());
    }
    let lines: Vec<&str> = text.lines().collect();
    let end = &lines[lines.len().saturating_sub(30)..];
    Err(Problem::general(format!(
        "{target}: an input in {} ends the parser; copy it into {SEEDS}/{target} with a name that says what it is, and mend the parser\n{}",
        findings.display(),
        end.join("\n"),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_a_parser_may_be_asked_for() {
        let request = |minutes, target: Option<&str>| {
            let target = target.map(str::to_owned);
            Some(Request { minutes, target })
        };
        for (arguments, expected) in [
            (&[][..], request(MINUTES, None)),
            (&["--minutes", "9"], request(9, None)),
            (&["--target", "audit"], request(MINUTES, Some("audit"))),
            (
                &["--target", "audit", "--minutes", "1"],
                request(1, Some("audit")),
            ),
            (&["--minutes", "0"], None),
            (&["--minutes"], None),
            (&["--minutes", "x"], None),
            (&["audit"], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(Request::parse(&arguments), expected, "{arguments:?}");
        }
    }
}
