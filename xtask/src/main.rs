//! What a contributor runs: `cargo xtask check`, `test`, `tidy`, `edges`, `database` and `soak`. Knows the project's
//! rules and the tools that enforce them; knows nothing of what the product does.

#![expect(
    clippy::print_stdout,
    reason = "telling a contributor what happened is this program's purpose"
)]

mod edges;
mod parts;
mod plan;
mod postgres;
mod report;
mod soak;
mod tidy;
mod workspace;

use report::{Report, Strictness};
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
          or one of them with its trace: --seed N; or servers killed in the middle of a change: --kills N

With CI=true, a test that has to be left out is a failure. What only has a note at the end is none.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, soak) = match arguments.as_slice() {
        [command] if command != "soak" => (command, None),
        [command, rest @ ..] if command == "soak" => (command, soak::Request::parse(rest)),
        _ => {
            print!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let workspace = Workspace::of_this_program();
    let mut report = Report::new(strictness());
    match (command.as_str(), soak) {
        ("check", _) => plan::check(&workspace, &mut report),
        ("test", _) => plan::test(&workspace, &mut report),
        ("tidy", _) => {
            for advice in tidy::advise(&workspace) {
                println!("advice: {advice}");
            }
            report.check("tidy", || tidy::check(&workspace));
        }
        ("edges", _) => report.check("crate edges", || edges::check(&workspace)),
        ("database", _) => postgres::keep(&workspace, &mut report),
        ("soak", Some(request)) => soak::soak(&workspace, &mut report, &request),
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        (other, _) => {
            print!("unknown command `{other}`\n\n{USAGE}");
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
