//! Where the audit may be written: to no file that the server has for something else. Real processes.

use crate::support::program::{Run, command, folders, run};
use std::fs;
use std::path::Path;

const CALL: [&str; 3] = ["call", "kb_search", "{\"query\": \"Fram\"}"];
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

fn windlass(folder: &Path, audit: Option<&str>, arguments: &[&str]) -> Run {
    let path = audit.map(|path| format!("[audit]\npath = \"{path}\"\n"));
    fs::write(folder.join("windlass.toml"), path.unwrap_or_default()).unwrap();
    run(command(folder)
        .args(arguments)
        .args(folders(&folder.join("data"))))
}

#[track_caller]
fn refused(run: &Run, path: &str) {
    assert_eq!((run.code, run.problems.len()), (1, 1), "{:?}", run.problems);
    let problem = &run.problems[0];
    let beginning = format!("windlass: the audit cannot be written to {path}: ");
    assert!(problem.starts_with(&beginning), "{problem}");
    assert!(
        problem.ends_with("; set audit.path to a file of its own"),
        "{problem}"
    );
}

#[test]
fn no_file_of_the_servers_own_becomes_its_audit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Before there is any data folder, too.
    let store = "data/windlass.db";
    refused(&windlass(path, Some(store), &CALL), store);
    assert!(!path.join("data").exists());
    assert_eq!(windlass(path, None, &CALL).code, 0);
    fs::write(path.join("data/client.key"), [7; 32]).unwrap();
    fs::write(path.join("data/notes.md"), "# Notes\n").unwrap();
    std::os::unix::fs::symlink("windlass.db", path.join("data/link")).unwrap();
    for name in [
        "windlass.db",
        "windlass.db-wal",
        "windlass.db-shm",
        "windlass.db-journal",
        "client.key",
        "tool_registry.json",
        "audit.jsonl.lock",
        "link",
        "../data/windlass.db",
        "notes.md",
    ] {
        let (audit, file) = (format!("data/{name}"), path.join("data").join(name));
        let before = fs::read(&file).ok();
        refused(&windlass(path, Some(&audit), &CALL), &audit);
        assert_eq!(fs::read(&file).ok(), before, "{name}");
        assert!(!path.join(format!("{audit}.lock")).exists(), "{name}");
    }
    for audit in [store, "data/client.key", "data/notes.md"] {
        refused(&windlass(path, Some(audit), &SERVE), audit);
    }
    assert_eq!(windlass(path, None, &CALL).code, 0);
    assert_eq!(fs::read(path.join("data/client.key")).unwrap(), [7; 32]);
    let audit = fs::read_to_string(path.join("data/audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 2, "{audit}");
}
