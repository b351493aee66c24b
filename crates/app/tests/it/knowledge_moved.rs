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

/// The server that the test set-up has started. Says so if there is none, unless `CI` is set and one is needed.
#[cfg(feature = "postgres")]
#[expect(clippy::print_stdout, reason = "a test that has nothing to do says so")]
pub(crate) fn database() -> Option<String> {
    let database = std::env::var(VARIABLE).ok();
    let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(
        database.is_some() || !is_needed,
        "{VARIABLE} names no server"
    );
    if database.is_none() {
        println!("skipped: {VARIABLE} names no server; `cargo xtask test` starts one");
    }
    database
}

/// The program has one schema only: the test that holds this is alone in it.
#[cfg(feature = "postgres")]
pub(crate) fn alone() -> fs::File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("usual-schema.lock");
    let lock = fs::File::create(path).unwrap();
    lock.lock().unwrap();
    lock
}

pub(crate) fn kb(folder: &Path, database: &str, arguments: &[&str]) -> Run {
    run(command(folder)
        .arg("kb")
        .args(arguments)
        .args(["--kb", "kb", "--data", "data"])
        .env("WINDLASS_KNOWLEDGE_POSTGRES", database))
}

#[test]
#[cfg(feature = "postgres")]
fn a_moved_base_is_searched_in_the_database() {
    let Some(database) = database() else {
        return;
    };
    let _alone = alone();
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

#[test]
#[cfg(feature = "postgres")]
fn a_root_certificate_that_cannot_be_read_is_said_in_a_line() {
    let folder = place(None);
    let mut search = command(folder.path());
    search.args(["kb", "search", "oak", "--kb", "kb", "--data", "data"]);
    search.env("WINDLASS_KNOWLEDGE_POSTGRES", "postgres://ada@host/base");
    let variable = "WINDLASS_KNOWLEDGE_POSTGRES_ROOT_CERTIFICATE";
    let run = run(search.env(variable, "nowhere.pem"));
    assert_eq!(run.code, 1);
    let [line] = &run.problems[..] else {
        panic!("{:?}", run.problems);
    };
    let said = "windlass: the certificates in nowhere.pem cannot be read: ";
    assert!(line.starts_with(said), "{line}");
}

fn run_without_database(folder: &Path) -> Run {
    run(command(folder).args(["kb", "move", "--kb", "kb", "--data", "data"]))
}
