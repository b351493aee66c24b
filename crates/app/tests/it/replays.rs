//! Replays of recorded sessions far from where they were recorded, with the real program.

use crate::support::program::{command, folders, run};
use std::fs;

#[test]
fn a_replay_needs_neither_the_configuration_nor_the_knowledge_base_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let configuration = path.join("windlass.toml");
    let careful = "[tools.kb_search]\nrequires_confirmation = true\n";
    fs::write(&configuration, careful).unwrap();
    let recorded = run(command(path)
        .env("WINDLASS_JOURNAL_ENABLED", "true")
        .args(["call", "kb_search", "{\"query\": \"Fram\"}"])
        .args(folders(&path.join("data"))));
    assert_ne!(recorded.code, 0, "nobody was there to consent");
    fs::remove_file(configuration).unwrap();
    let journal = fs::read_dir(path.join("data/journal")).unwrap().next();
    let journal = journal.unwrap().unwrap().path();
    let elsewhere = run(command(path).arg("replay").arg(&journal));
    assert_eq!(elsewhere.code, 0, "{:?}", elsewhere.problems);
    assert!(
        elsewhere.output.starts_with("same: "),
        "{}",
        elsewhere.output
    );
}
