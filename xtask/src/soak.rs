//! Worlds of faults around the session core, servers that are killed, and churn around one, in the requested number. Knows how to start
//! them, and nothing of their work.

use crate::report::Report;
use crate::workspace::Workspace;
use std::time::{Duration, Instant};

/// How many worlds `cargo xtask test` runs.
const SEEDS: u64 = 10_000;
pub(crate) const PROGRAM: &str = "windlass-soak";

/// A contributor's request on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// One world, with everything that happens in it.
    Replay {
        seed: u64,
    },
    Seeds {
        seeds: u64,
    },
    /// One world after another for this time.
    Minutes {
        minutes: u64,
    },
    /// No worlds, but real servers that are killed in the middle of a change.
    Kills {
        kills: u64,
    },
    /// No worlds, but calls over MCP whose answers are lost.
    LostAnswers {
        calls: u64,
    },
    /// No worlds, but a real server with clients that come and go for this time.
    Churn {
        minutes: u64,
    },
}

impl Request {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let [name, value] = arguments else {
            return arguments.is_empty().then_some(Self::Seeds { seeds: SEEDS });
        };
        let number = value.parse().ok()?;
        match name.as_str() {
            "--seed" => Some(Self::Replay { seed: number }),
            "--seeds" => Some(Self::Seeds { seeds: number }),
            "--minutes" => Some(Self::Minutes { minutes: number }),
            "--kills" => Some(Self::Kills { kills: number }),
            "--lost-answers" => Some(Self::LostAnswers { calls: number }),
            "--churn" => Some(Self::Churn { minutes: number }),
            _ => None,
        }
    }
}

pub(crate) fn soak(workspace: &Workspace, report: &mut Report, request: &Request) {
    let of_servers = |filter: &str, variable: &str, value: u64| {
        let mut test = workspace.cargo(&["test", "--package", "windlass-app", "--test", "it"]);
        test.args([filter, "--", "--nocapture"]);
        test.env(variable, value.to_string());
        test
    };
    match request {
        Request::Kills { kills } => {
            let test = of_servers("kills::", "WINDLASS_TEST_KILLS", *kills);
            report.run("servers killed", test);
            return;
        }
        Request::LostAnswers { calls } => {
            let variable = "WINDLASS_TEST_LOST_ANSWERS";
            let test = of_servers("kills::lost_answers::", variable, *calls);
            report.run("answers lost", test);
            return;
        }
        Request::Churn { minutes } => {
            let seconds = minutes.saturating_mul(60);
            let test = of_servers("kills::churn::", "WINDLASS_TEST_CHURN_SECONDS", seconds);
            report.run("churn", test);
            return;
        }
        Request::Replay { .. } | Request::Seeds { .. } | Request::Minutes { .. } => {}
    }
    let mut build = workspace.cargo(&["build", "--package", "windlass-world"]);
    build.args(["--profile=test", "--bin", PROGRAM]);
    if report.run("worlds built", build) {
        run(workspace, report, request);
    }
}

/// Runs the seeds for `cargo xtask test`, which has built the program with everything else.
pub(crate) fn prove(workspace: &Workspace, report: &mut Report) {
    run(workspace, report, &Request::Seeds { seeds: SEEDS });
}

fn run(workspace: &Workspace, report: &mut Report, request: &Request) {
    let run = |report: &mut Report, arguments: &[(&str, u64)]| {
        let mut command = workspace.command(workspace.program(PROGRAM), "");
        for (name, value) in arguments {
            command.arg(name).arg(value.to_string());
        }
        report.run("worlds of faults", command)
    };
    match request {
        Request::Kills { .. } | Request::LostAnswers { .. } | Request::Churn { .. } => {}
        Request::Replay { seed } => {
            run(report, &[("--seed", *seed)]);
        }
        Request::Seeds { seeds } => {
            // One in twenty has its rows in a file.
            run(report, &[("--seeds", *seeds), ("--sqlite", *seeds / 20)]);
        }
        Request::Minutes { minutes } => {
            let started = Instant::now();
            let time = Duration::from_secs(minutes.saturating_mul(60));
            let mut first = 0;
            while started.elapsed() < time && run(report, &[("--first", first), ("--seeds", SEEDS)])
            {
                first += SEEDS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_is_asked_for_in_one_of_six_ways() {
        for (arguments, expected) in [
            (&[][..], Some(Request::Seeds { seeds: SEEDS })),
            (&["--seed", "7"], Some(Request::Replay { seed: 7 })),
            (&["--seeds", "50"], Some(Request::Seeds { seeds: 50 })),
            (&["--minutes", "3"], Some(Request::Minutes { minutes: 3 })),
            (&["--kills", "200"], Some(Request::Kills { kills: 200 })),
            (
                &["--lost-answers", "1000"],
                Some(Request::LostAnswers { calls: 1_000 }),
            ),
            (&["--churn", "20"], Some(Request::Churn { minutes: 20 })),
            (&["--hours", "3"], None),
            (&["--seed"], None),
            (&["--seed", "x"], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(Request::parse(&arguments), expected, "{arguments:?}");
        }
    }
}
