//! The knowledge base in PostgreSQL, from the command line: moved there, found there, kept current there.

use crate::knowledge::place;
#[cfg(feature = "postgres")]
use crate::knowledge::{HULL, json_of};
use crate::support::program::{Run, command, run};
#[cfg(feature = "postgres")]
use std::fs;
use std::path::Path;

#[cfg(feature = "postgres")]
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

fn kb(folder: &Path, database: &str, arguments: &[&str]) -> Run {
    run(command(folder)
        .arg("kb")
        .args(arguments)
        .args(["--kb", "kb", "--data", "data"])
        .env("WINDLASS_KNOWLEDGE_POSTGRES", database))
}

/// The one test that uses the usual schema of the server.
#[test]
#[cfg(feature = "postgres")]
fn a_moved_base_is_searched_in_the_database() {
    let Ok(database) = std::env::var(VARIABLE) else {
        let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!is_needed, "{VARIABLE} names no server");
        println!("skipped: {VARIABLE} names no server; `cargo xtask test` starts one");
        return;
    };
    let folder = place(None);
    let records = folder.path().join("kb/public/doc");
    let moved = json_of(&kb(folder.path(), &database, &["move", "--format", "json"]));
    assert_eq!(
        (&moved["records"], &moved["verified"]),
        (&1.into(), &1.into())
    );
    let search = ["search", "oak", "--format", "json"];
    let found = json_of(&kb(folder.path(), &database, &search));
    assert_eq!(found["results"][0]["id"], "doc:hull");
    assert_eq!(found["retrieval"], "lexical");

    // The folder is not read again until somebody indexes it.
    let sails = HULL.replace("The hull", "The sails");
    fs::write(records.join("sails.md"), sails).unwrap();
    let stats = ["stats", "--format", "json"];
    assert_eq!(json_of(&kb(folder.path(), &database, &stats))["records"], 1);
    let indexed = json_of(&kb(
        folder.path(),
        &database,
        &["index", "--format", "json"],
    ));
    assert_eq!(indexed["postgres"]["records"], 2);
    assert_eq!(json_of(&kb(folder.path(), &database, &stats))["records"], 2);

    fs::remove_file(records.join("sails.md")).unwrap();
    let moved = json_of(&kb(
        folder.path(),
        "",
        &["move", "--to", &database, "--format", "json"],
    ));
    assert_eq!(
        (&moved["written"], &moved["removed"]),
        (&0.into(), &1.into())
    );

    fs::remove_file(records.join("hull.md")).unwrap();
    let refused = kb(folder.path(), &database, &["move"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.problems[0].contains("nothing was removed"),
        "{:?}",
        refused.problems
    );
}

#[test]
fn a_database_that_cannot_be_asked_is_said_in_a_line() {
    let folder = place(None);
    let run = kb(
        folder.path(),
        "postgres://ada:hunter2@127.0.0.1:1/base",
        &["search", "oak"],
    );
    assert_eq!((run.code, run.output.as_str()), (1, ""));
    let line = run.problems.join("\n");
    let cause = match cfg!(feature = "postgres") {
        true => "the PostgreSQL database does not answer",
        false => "this program was built without PostgreSQL",
    };
    assert!(line.contains(cause), "{line}");
    assert!(!line.contains("hunter2"), "{line}");
    let nowhere = run_without_database(folder.path());
    assert_eq!(nowhere.code, 2);
}

fn run_without_database(folder: &Path) -> Run {
    run(command(folder).args(["kb", "move", "--kb", "kb", "--data", "data"]))
}
