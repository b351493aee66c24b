//! Audits of sessions that come and go by chance, of processes that end and files that fill up: the chain holds and no number is
//! missing; and whatever is then taken out, moved or changed by chance is found.

use crate::audit_chain::{identity, note, open};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use windlass_runtime::audit::{files_of, verify};
use windlass_runtime::subscriber::Subscriber;
use windlass_session::event::{EndReason, SessionEvent};

/// A multiplicative generator: the same seed gives the same audit.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// So small that some files fill up.
const FILE_BYTES_MAX: u64 = 3_000;

/// What three sessions note in some processes, and how often.
fn written(path: &Path, random: &mut Random) -> u64 {
    let mut audit = open(path, FILE_BYTES_MAX);
    let mut noted = 0;
    for _ in 0..60 {
        let session = ["s-1", "s-2", "s-3"][random.below(3)];
        match random.below(10) {
            0 => {
                let reason = EndReason::Stopped;
                let ended = SessionEvent::SessionEnded { reason };
                audit.event(&identity(session), 1_700_000_000_000, &ended);
            }
            1 => {
                audit.close();
                audit = open(path, FILE_BYTES_MAX);
            }
            _ => {
                note(&audit, session, noted);
                noted += 1;
            }
        }
    }
    audit.close();
    noted
}

fn lines(files: &[PathBuf]) -> Vec<Value> {
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

#[test]
fn whatever_sessions_and_processes_do_no_record_is_missing() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let noted = written(&path, &mut random);
        let files = files_of(&path).unwrap();
        assert_eq!(verify(&files).unwrap().records, noted, "seed {seed}");
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for (number, line) in (0..).zip(lines(&files)) {
            assert_eq!(line["data"]["number"], number, "seed {seed}: {line}");
            let session = line["sessionId"].as_str().unwrap();
            let sequence = line["sequence"].as_u64().unwrap();
            let before = last.insert(session.to_owned(), sequence).unwrap_or(0);
            // With a session's end, and with a process, its numbers begin anew.
            assert!(
                sequence == before + 1 || sequence == 1,
                "seed {seed}: {line}"
            );
        }
    }
}

#[test]
fn whatever_is_taken_out_moved_or_changed_is_found() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        written(&path, &mut random);
        let files = files_of(&path).unwrap();
        let file = &files[random.below(files.len())];
        let text = fs::read_to_string(file).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() < 3 {
            continue;
        }
        // What is cut off the newest end nobody can miss.
        let at = random.below(lines.len() - 2);
        match random.below(3) {
            0 => _ = lines.remove(at),
            1 => lines.swap(at, at + 1),
            _ => lines[at] = lines[at].replacen("noted", "nothing", 1),
        }
        fs::write(file, lines.join("\n") + "\n").unwrap();
        let verified = verify(&files);
        assert!(verified.is_err(), "seed {seed}: {verified:?}");
    }
}
