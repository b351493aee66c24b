//! Deliberate mistakes in the ledger's decision and in the code that performs it, one at a time (cargo-mutants): each has to fail a
//! test. Knows how to start them, the list of mutated files, and which survivors are accepted; knows no rule of the ledger.

use crate::parts::Missing;
use crate::report::{Problem, Report};
use crate::tools;
use crate::workspace::Workspace;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

const MINUTES: u64 = 60;
/// The list of files that are mutated.
const PATHS: &str = "xtask/mutants/paths.txt";
/// Survivors with a reason.
const SURVIVORS: &str = "xtask/mutants/survivors.txt";
/// The crates whose tests have to find a mistake: the tables, and 300 worlds.
const ORACLES: [&str; 4] = [
    "windlass-store",
    "windlass-driver",
    "windlass-contract",
    "windlass-world",
];
/// Seconds for the tests of one mutant; those of the unchanged code take a fraction of it.
const TEST_SECONDS_MAX: u64 = 300;
/// How `timeout` ends where the time was up.
const TIME_IS_UP: i32 = 124;
/// How cargo-mutants ends where mutants survived, and where some ran into the time limit, which counts as found.
const SOME_SURVIVED: i32 = 2;
const SOME_TIMED_OUT: i32 = 3;

/// A contributor's request on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Minutes for all mutants together.
    minutes: u64,
    /// One file alone, of the list or not.
    file: Option<String>,
}

impl Request {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut request = Self {
            minutes: MINUTES,
            file: None,
        };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--minutes" => request.minutes = value.parse().ok()?,
                [name, value] if name == "--file" => request.file = Some(value.clone()),
                _ => return None,
            }
        }
        (request.minutes > 0).then_some(request)
    }
}

/// A survivor that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Accepted {
    file: String,
    change: String,
    reason: String,
}

/// A mutant that no test has found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Survivor {
    file: String,
    line: usize,
    change: String,
}

pub(crate) fn mutants(workspace: &Workspace, report: &mut Report, request: &Request) {
    if let Err(Missing(reason)) = tools::install(workspace, report, tools::MUTANTS) {
        report.leave_out("mutants", &reason);
        return;
    }
    let lists = paths(workspace).and_then(|paths| Ok((paths, accepted(workspace)?)));
    let (paths, accepted) = match lists {
        Ok(lists) => lists,
        Err(problem) => return report.check("mutants", || vec![problem]),
    };
    let paths = match &request.file {
        Some(file) => vec![file.clone()],
        None => paths,
    };
    let output = workspace.target().join("mutants");
    let mut notices = Vec::new();
    report.check("mutants", || {
        let run = run(workspace, &output, &paths, request.minutes);
        let found = run.and_then(|status| judged(&output, status, &accepted, &mut notices));
        found.unwrap_or_else(|problem| vec![problem])
    });
    for notice in notices {
        report.notice(&notice);
    }
}

fn run(
    workspace: &Workspace,
    output: &Path,
    paths: &[String],
    minutes: u64,
) -> Result<ExitStatus, Problem> {
    let failed = |error: std::io::Error| Problem::general(format!("cargo-mutants: {error}"));
    fs::create_dir_all(output).map_err(failed)?;
    let mut command: Command = workspace.command("timeout", "");
    // An interrupted run sums up its results.
    command.args(["--signal=INT", "--kill-after=60"]);
    command.arg(format!("{minutes}m"));
    command.args(["cargo", "mutants", "--workspace", "--no-shuffle"]);
    command.arg("--colors=never");
    command.arg("--output").arg(output);
    command.args(["--timeout", &TEST_SECONDS_MAX.to_string()]);
    for path in paths {
        let all = if path.ends_with('/') { "**" } else { "" };
        command.args(["--file", &format!("{path}{all}")]);
    }
    for package in ORACLES {
        command.args(["--test-package", package]);
    }
    // The tests' debug information is not needed: it only says where a test panics.
    command.env("CARGO_PROFILE_TEST_DEBUG", "0");
    tools::with(workspace, &mut command, tools::MUTANTS);
    command.status().map_err(failed)
}

/// Problems in the outcome of a run: survivors that are not accepted.
fn judged(
    output: &Path,
    status: ExitStatus,
    accepted: &[Accepted],
    notices: &mut Vec<String>,
) -> Result<Vec<Problem>, Problem> {
    let folder = output.join("mutants.out");
    match status.code() {
        Some(0 | SOME_SURVIVED | SOME_TIMED_OUT) => {}
        Some(TIME_IS_UP) => notices.push("the time was up before the last mutant".to_owned()),
        _ => {
            return Err(Problem::general(format!(
                "cargo-mutants ended with {status}; {} says more",
                folder.join("log").display()
            )));
        }
    }
    let list = |name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file)
            .map_err(|error| Problem::general(format!("{}: {error}", file.display())))
    };
    let lines = |name: &str| Ok::<usize, Problem>(list(name)?.lines().count());
    notices.push(format!(
        "{} mutants were found by a test, {} by the time limit, {} did not compile",
        lines("caught.txt")?,
        lines("timeout.txt")?,
        lines("unviable.txt")?,
    ));
    let missed = list("missed.txt")?;
    let mut problems = Vec::new();
    for line in missed.lines() {
        let Some(survivor) = survivor(line) else {
            problems.push(Problem::general(format!(
                "a survivor in no known form: {line}"
            )));
            continue;
        };
        let reason = accepted
            .iter()
            .find(|known| known.file == survivor.file && known.change == survivor.change);
        match reason {
            Some(known) => notices.push(format!(
                "{}:{}: {} survives, as is accepted: {}",
                survivor.file, survivor.line, survivor.change, known.reason
            )),
            None => problems.push(Problem::at(
                &survivor.file,
                survivor.line,
                format!(
                    "no test finds this: {}; write one, or name it in {SURVIVORS} with the reason",
                    survivor.change
                ),
            )),
        }
    }
    Ok(problems)
}

/// `crates/store/src/decide.rs:12:5: replace is_over -> bool with true`
fn survivor(line: &str) -> Option<Survivor> {
    let (place, change) = line.split_once(": ")?;
    let mut place = place.split(':');
    Some(Survivor {
        file: place.next()?.to_owned(),
        line: place.next()?.parse().ok()?,
        change: change.to_owned(),
    })
}

fn paths(workspace: &Workspace) -> Result<Vec<String>, Problem> {
    let text = workspace.read(PATHS)?;
    Ok(entries(&text).map(|(_, line)| line.to_owned()).collect())
}

fn accepted(workspace: &Workspace) -> Result<Vec<Accepted>, Problem> {
    let text = workspace.read(SURVIVORS)?;
    let parse = |(number, line): (usize, &str)| {
        read_accepted(line).ok_or_else(|| {
            Problem::at(
                SURVIVORS,
                number,
                "is not of the form `PATH: CHANGE | REASON`",
            )
        })
    };
    entries(&text).map(parse).collect()
}

fn read_accepted(line: &str) -> Option<Accepted> {
    let (mutant, reason) = line.rsplit_once(" | ")?;
    let (file, change) = mutant.split_once(": ")?;
    let accepted = Accepted {
        file: file.trim().to_owned(),
        change: change.trim().to_owned(),
        reason: reason.trim().to_owned(),
    };
    let is_whole = !accepted.change.is_empty() && !accepted.reason.is_empty();
    is_whole.then_some(accepted)
}

/// The lines that say something, with their numbers.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(str::trim);
    (1..)
        .zip(lines)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn what_is_mutated_or_accepted_exists() {
        let workspace = Workspace::of_this_program();
        let paths = paths(&workspace).unwrap();
        assert!(!paths.is_empty());
        for path in paths {
            assert!(workspace.exists(&path), "{PATHS} names {path}");
            assert_eq!(
                path.ends_with('/'),
                workspace.path(&path).is_dir(),
                "{path}"
            );
        }
        for survivor in accepted(&workspace).unwrap() {
            let file = &survivor.file;
            assert!(workspace.exists(file), "{SURVIVORS} names {file}");
        }
    }

    #[test]
    fn an_accepted_survivor_has_a_reason() {
        let line = "crates/a.rs: replace a | b -> bool with true | it is the same in this case";
        let expected = Accepted {
            file: "crates/a.rs".to_owned(),
            change: "replace a | b -> bool with true".to_owned(),
            reason: "it is the same in this case".to_owned(),
        };
        assert_eq!(read_accepted(line), Some(expected));
        for line in [
            "crates/a.rs: replace a",
            "crates/a.rs: replace a | ",
            "a | b",
        ] {
            assert_eq!(read_accepted(line), None, "{line}");
        }
    }

    #[test]
    fn a_survivor_that_nobody_has_accepted_is_a_problem_with_its_place() {
        let folder = std::env::temp_dir().join(format!("windlass-mutants-{}", std::process::id()));
        let lists = folder.join("mutants.out");
        fs::create_dir_all(&lists).unwrap();
        let write = |name: &str, text: &str| fs::write(lists.join(name), text).unwrap();
        write("caught.txt", "a\nb\n");
        write("timeout.txt", "");
        write("unviable.txt", "c\n");
        write(
            "missed.txt",
            "crates/a.rs:7:5: replace one -> bool with true\ncrates/a.rs:9:5: replace two -> bool with true\n",
        );
        let accepted = [Accepted {
            file: "crates/a.rs".to_owned(),
            change: "replace one -> bool with true".to_owned(),
            reason: "it is never asked".to_owned(),
        }];
        let check = |code: i32| {
            let mut notices = Vec::new();
            // The exit code is the upper byte of a process's wait status.
            let status = ExitStatus::from_raw(code << 8);
            let problems = judged(&folder, status, &accepted, &mut notices);
            (problems, notices)
        };
        let (problems, notices) = check(SOME_SURVIVED);
        let problems: Vec<String> = problems.unwrap().iter().map(Problem::to_string).collect();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("crates/a.rs:9: no test finds this: replace two"));
        assert_eq!(
            notices,
            [
                "2 mutants were found by a test, 0 by the time limit, 1 did not compile",
                "crates/a.rs:7: replace one -> bool with true survives, as is accepted: it is never asked",
            ]
        );
        assert!(check(TIME_IS_UP).1[0].contains("the time was up"));
        assert!(check(4).0.is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_time_and_a_file_may_be_asked_for() {
        let request = |minutes, file: Option<&str>| {
            let file = file.map(str::to_owned);
            Some(Request { minutes, file })
        };
        for (arguments, expected) in [
            (&[][..], request(MINUTES, None)),
            (&["--minutes", "9"], request(9, None)),
            (&["--file", "a.rs"], request(MINUTES, Some("a.rs"))),
            (&["--minutes", "0"], None),
            (&["--file"], None),
            (&["a.rs"], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(Request::parse(&arguments), expected, "{arguments:?}");
        }
    }
}
