//! The contributor's commands: `cargo xtask check`, `test`, `tidy`, `edges`, `database`, `soak`, `fuzz`, `mutants`, `supply`,
//! `advisories`, `release`, `shape`, `firefox` and `packages`. Knows the project's rules and the tools that enforce them; knows nothing
//! of the product's work.

#![expect(
    clippy::print_stdout,
    reason = "telling a contributor what happened is this program's purpose"
)]

mod cache;
mod edges;
mod fuzz;
mod mutants;
mod parts;
mod plan;
mod postgres;
mod release;
mod report;
mod shape;
mod soak;
mod supply;
mod tidy;
mod tools;
mod workspace;

use report::{Report, Strictness};
use std::path::Path;
use std::process::ExitCode;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  check   format, tidy, crate edges, lints, licences, tests, doc tests
  test    all of check, then the browser and SDK tests, with what they need installed first
  tidy    only the rules that no other tool checks
  edges   only which crate may depend on which
  database
          starts the PostgreSQL of the tests, says where it is, and stops it when its input ends
  soak    worlds of faults around the session core, 10,000 of them; or --seeds N, or --minutes N,
          or one of them with its trace: --seed N; or servers killed in the middle of a change: --kills N;
          or calls over MCP whose answers are lost: --lost-answers N;
          or minutes of clients that come and go, after which nothing may be left or done twice: --churn N
  fuzz    every parser that strangers reach, with mutated input: --minutes N for all of them together, two at a time;
          --target NAME for one of them
  mutants deliberate mistakes in the ledger's decision and its driver, each of which a test has to find: --minutes N for all of
          them together, or --file PATH for those of one file; installs cargo-mutants for this machine
  supply  licences, sources and advisories of the dependencies; installs cargo-deny for this machine
  advisories FOLDER
          copies what is known against dependencies out of a clone of github.com/rustsec/advisory-db
  release [--trial] [MACHINE…]
          the program as it is given out, under target/dist, for x86_64, aarch64, or else this machine: a static program in an
          archive, its checksum, npm's packages, and its list of parts (SBOM); refused where the copy of the advisories is older
          than 30 days or a dependency was taken back, but for a trial
  shape [--seed N]
          how long the code is, and a sample of its comments, names, subjects and sentences for somebody to judge who did not write them
  firefox the tests of the page in Firefox, which it installs where it runs as root
  packages
          the installer, the package for npm, and the image's root file system, with the program of the tests

WINDLASS_CACHE names the folder for what is installed once for this machine, in place of ~/.cache/windlass.
With CI=true, a test that has to be left out is a failure. What only has a note at the end is none.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let workspace = Workspace::of_this_program();
    let mut report = Report::new(strictness());
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", arguments.as_slice()),
    };
    match (command, rest) {
        ("check", []) => plan::check(&workspace, &mut report),
        ("test", []) => plan::test(&workspace, &mut report),
        ("tidy", []) => {
            for advice in tidy::advise(&workspace) {
                println!("advice: {advice}");
            }
            report.check("tidy", || tidy::check(&workspace));
        }
        ("edges", []) => report.check("crate edges", || edges::check(&workspace)),
        ("database", []) => postgres::keep(&workspace, &mut report),
        ("supply", []) => supply::check(&workspace, &mut report, supply::Tools::Install),
        ("advisories", [folder]) => supply::copy(&workspace, &mut report, Path::new(folder)),
        ("release", rest) if let Some(request) = release::Request::parse(rest) => {
            release::release(&workspace, &mut report, &request);
        }
        ("shape", rest) if let Some(seed) = shape::seed_of(rest) => {
            match shape::shape(&workspace, seed) {
                Ok(shape) => print!("{shape}"),
                Err(problem) => report.check("shape", || vec![problem]),
            }
        }
        ("firefox", []) => plan::firefox(&workspace, &mut report),
        ("packages", []) => plan::package_tests(&workspace, &mut report),
        ("soak", rest) if let Some(request) = soak::Request::parse(rest) => {
            soak::soak(&workspace, &mut report, &request);
        }
        ("fuzz", rest) if let Some(request) = fuzz::Request::parse(rest) => {
            fuzz::fuzz(&workspace, &mut report, &request);
        }
        ("mutants", rest) if let Some(request) = mutants::Request::parse(rest) => {
            mutants::mutants(&workspace, &mut report, &request);
        }
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            print!("this is no command: `{}`\n\n{USAGE}", arguments.join(" "));
            return ExitCode::from(2);
        }
    }
    println!("{report}");
    if report.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn strictness() -> Strictness {
    match std::env::var("CI").as_deref() {
        Ok("true") => Strictness::NothingLeftOut,
        _ => Strictness::MayLeaveOut,
    }
}
