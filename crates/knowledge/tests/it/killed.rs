//! A process that indexes is killed in the middle, a hundred times: what it had acknowledged is there, and nothing is mixed.

use crate::support::{WordVectors, index, now, request, search};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use windlass_knowledge::{EmbedderPresence, Embedding, KnowledgeBase, Observer, Options};

/// Says to the test's own program that it is the one to be killed, and where it is to index.
const ROLE: &str = "WINDLASS_TEST_KILLED";
const KILLS: usize = 100;
const RECORDS: usize = 60;
/// Batches of four records each, between the lines that say that it begins and that it has ended.
const LINES: usize = RECORDS / 4 + 2;

fn options(data: &Path, embedding: Embedding) -> Options {
    Options {
        embedder: EmbedderPresence::Present(Arc::new(WordVectors::new())),
        data: Some(data.to_owned()),
        embedding,
        ..Options::default()
    }
}

/// Every record says which round wrote it.
fn write_records(folder: &Path, round: usize) {
    for number in 0..RECORDS {
        let text = format!("---\ntitle: Record {number}\n---\nRound {round}, number {number}.\n");
        fs::write(folder.join(format!("r{number}.md")), text).unwrap();
    }
}

/// Indexes and prints a line for every batch, after it was made durable.
fn index_and_tell(folder: &Path, data: &Path) {
    // Time flies, so that every batch is due to be kept.
    let clock = AtomicU64::new(0);
    let clock_ms = || clock.fetch_add(1_000, Ordering::Relaxed);
    let mut observer = Observer {
        clock_ms: &clock_ms,
        progress: &mut |progress| println!("line: {}", progress.done),
    };
    println!("line: 0");
    let options = options(data, Embedding::All);
    now(KnowledgeBase::index_folder(folder, &options, &mut observer)).unwrap();
    println!("line: {RECORDS}");
}

/// How many records the process had acknowledged when it was killed, after so many lines.
fn kill_after(lines: usize, folder: &Path, data: &Path) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::a_process_that_is_killed_loses_nothing_that_it_acknowledged",
            "--nocapture",
        ])
        .env(ROLE, format!("{}|{}", folder.display(), data.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let told = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.rsplit_once("line: ")?.1.parse().ok())
        .take(lines)
        .last();
    child.kill().unwrap();
    child.wait().unwrap();
    told.unwrap()
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_acknowledged() {
    if let Some(paths) = std::env::var_os(ROLE) {
        let paths = paths.into_string().unwrap();
        let (folder, data) = paths.split_once('|').unwrap();
        return index_and_tell(folder.as_ref(), data.as_ref());
    }
    let (root, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folder = root.path().join("public/doc");
    fs::create_dir_all(&folder).unwrap();
    for round in 0..KILLS {
        write_records(&folder, round);
        let acknowledged = kill_after(1 + round % LINES, root.path(), data.path());
        // What is there now, as a server that starts would serve it.
        let (base, report) = index(root.path(), &options(data.path(), Embedding::AtHand)).unwrap();
        assert_eq!(report.notices, [""; 0], "{round}");
        let kept = base.vector_count();
        assert!(kept >= acknowledged, "{round}: {kept} of {acknowledged}");
        assert_eq!(kept + report.missing, RECORDS, "{round}");
        // Every second time the next round finds what this one has left.
        if round % 2 == 0 {
            let (base, report) = index(root.path(), &options(data.path(), Embedding::All)).unwrap();
            assert_eq!(report.embedded, RECORDS - kept, "{round}");
            assert_eq!(base.vector_count(), RECORDS, "{round}");
            let found = search(&base, request(&format!("round {round} number 7"))).unwrap();
            assert_eq!(found.hits[0].record.id, "doc:r7", "{round}");
        }
    }
}
