//! What the chain of the audit brings: every change of what was written is found and named, a full file gives way to the
//! next, and a disk that takes nothing stops what writes until it takes something again.

use crate::support::tools::{ready, tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_contract::id::{CallNumber, ClientId, ConversationId, SessionId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::audit::{
    Audit, AuditSettings, AuditedArguments, Checkpoint, Fault, Link, Standing, VerifyError,
    files_of, verify,
};
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::event::{EndReason, SessionEvent};

pub(crate) fn identity(session: &str) -> SessionIdentity {
    SessionIdentity {
        client_id: ClientId::new("client"),
        session_id: SessionId::new(session),
        user_id: UserId::new("ada"),
        tenant: windlass_contract::id::TenantId::default(),
        rights: windlass_contract::rights::Rights::Anonymous,
        conversation_id: ConversationId::new("c-1"),
        mode: Mode::Voice,
        ledger: None,
    }
}

pub(crate) fn note(audit: &Audit, session: &str, number: u64) {
    let event = SessionEvent::AuditNote {
        call: CallNumber(number),
        tool: Arc::new(tool("noting", |_| ready(serde_json::json!({})))),
        arguments: Sensitive(Arc::default()),
        event: "noted".to_owned(),
        data: Sensitive(serde_json::json!({ "number": number, "half": 0.5 })),
    };
    audit.event(&identity(session), 1_700_000_000_000, &event);
}

pub(crate) fn open(path: &Path, file_bytes_max: u64) -> Audit {
    Audit::open_with(AuditSettings {
        path: path.to_owned(),
        arguments: AuditedArguments::Hash,
        file_bytes_max,
    })
    .unwrap()
}

/// Six lines of two sessions, written by two processes one after the other.
fn written(folder: &Path) -> PathBuf {
    let path = folder.join("audit.jsonl");
    for numbers in [0..4, 4..6] {
        let audit = open(&path, 1_000_000);
        for number in numbers {
            note(&audit, ["s-1", "s-2"][number % 2], number as u64);
        }
        audit.close();
    }
    path
}

fn records(files: &[PathBuf]) -> u64 {
    verify(files).unwrap().records
}

#[test]
fn what_several_processes_wrote_one_after_the_other_is_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let verified = verify(std::slice::from_ref(&path)).unwrap();
    assert_eq!((verified.records, verified.is_from_genesis), (6, true));
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.trim_end()
            .ends_with(&format!("{}\"}}", verified.last.as_str()))
    );
}

#[test]
fn several_processes_may_write_one_chain_at_once_and_others_verify_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audits: Vec<Arc<Audit>> = (0..3).map(|_| Arc::new(open(&path, 2_000))).collect();
    std::thread::scope(|scope| {
        for (index, audit) in audits.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..10 {
                    note(audit, &format!("s-{index}"), number);
                }
                audit.close();
            });
        }
        scope.spawn(|| while Standing::of(&path).unwrap().verify().unwrap().records < 30 {});
    });
    assert_eq!(records(&files_of(&path).unwrap()), 30);
}

#[test]
fn an_audit_is_verified_as_it_stood_whatever_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    assert!(Standing::of(&path).unwrap().is_empty());
    assert!(Standing::of(&path.join("none")).unwrap().is_empty());
    let write = |numbers: std::ops::Range<u64>| {
        let audit = open(&path, 1_000);
        for number in numbers {
            note(&audit, "s-1", number);
        }
        audit.close();
        files_of(&path).unwrap().len()
    };
    let before = write(0..10);
    let standing = Standing::of(&path).unwrap();
    let last = verify(&files_of(&path).unwrap()).unwrap().last;
    assert!(write(10..20) > before + 1, "the file has another name now");
    let verified = standing.verify().unwrap();
    assert_eq!((verified.records, verified.files), (10, before));
    assert_eq!((verified.is_from_genesis, verified.last), (true, last));
    assert_eq!(Standing::of(&path).unwrap().verify().unwrap().records, 20);
}

/// Changes the lines of an audit and compares the place and the kind of the first fault.
fn check(change: impl Fn(&mut Vec<String>), expected: Option<(u64, Fault)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(
        &path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let found = match verify(std::slice::from_ref(&path)) {
        Ok(_) => None,
        Err(VerifyError::Bad(bad)) => {
            assert_eq!(bad.path, path);
            Some((bad.line, bad.fault))
        }
        Err(error @ (VerifyError::Unreadable { .. } | VerifyError::Rewritten(_))) => {
            panic!("{error}")
        }
    };
    assert_eq!(found, expected);
}

fn gap(session: &str, before: u64, found: u64) -> Fault {
    Fault::Gap {
        session: session.to_owned(),
        before,
        found,
    }
}

#[test]
fn the_first_bad_record_is_named_with_what_is_wrong() {
    check(|_| {}, None);
    check(
        |lines| lines[2] = lines[2].replace("\"number\":2", "\"number\":7"),
        Some((3, Fault::Edited)),
    );
    check(|lines| lines[2].insert(1, ' '), Some((3, Fault::Edited)));
    check(|lines| drop(lines.remove(2)), Some((3, Fault::Unlinked)));
    check(|lines| lines.swap(0, 1), Some((1, Fault::Beheaded)));
    check(|lines| lines.swap(1, 2), Some((2, Fault::Unlinked)));
    check(|lines| lines.swap(0, 3), Some((1, Fault::Beheaded)));
    check(|lines| drop(lines.drain(1..3)), Some((2, Fault::Unlinked)));
    check(
        |lines| lines.insert(3, lines[2].clone()),
        Some((4, gap("s-1", 2, 2))),
    );
    check(|lines| lines[4].clear(), Some((5, Fault::NoRecord)));
    check(
        |lines| "{\"event\":\"forged\"}".clone_into(&mut lines[0]),
        Some((1, Fault::NoRecord)),
    );
    check(|lines| drop(lines.remove(0)), Some((1, Fault::Beheaded)));
}

#[test]
fn a_record_that_was_made_up_with_its_own_hash_breaks_the_chain_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let elsewhere = other.path().join("audit.jsonl");
    let audit = open(&elsewhere, 1_000_000);
    note(&audit, "s-9", 1);
    audit.close();
    let (mine, foreign) = (
        fs::read_to_string(&path).unwrap(),
        fs::read_to_string(elsewhere).unwrap(),
    );
    fs::write(&path, format!("{mine}{foreign}")).unwrap();
    let Err(VerifyError::Bad(bad)) = verify(std::slice::from_ref(&path)) else {
        panic!("a foreign record has to be found");
    };
    assert_eq!((bad.line, bad.fault), (7, Fault::Unlinked));
}

#[test]
fn a_line_that_was_cut_off_is_named_and_repaired_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    let Err(VerifyError::Bad(bad)) = verify(std::slice::from_ref(&path)) else {
        panic!("a cut line has to be found");
    };
    assert_eq!((bad.line, bad.fault), (6, Fault::Truncated));
    let audit = open(&path, 1_000_000);
    note(&audit, "s-3", 1);
    audit.close();
    assert_eq!(records(std::slice::from_ref(&path)), 7);
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.lines()
            .nth(5)
            .unwrap()
            .contains("\"event\":\"audit_repaired\""),
        "{text}"
    );
}

/// Where a file is that was put away.
fn away(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.away", file.display()))
}

#[test]
fn a_full_file_gives_way_to_the_next_and_the_chain_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    for _ in 0..2 {
        let audit = open(&path, 1_000);
        for number in 0..5 {
            note(&audit, "s-1", number);
        }
        audit.close();
    }
    let files = files_of(&path).unwrap();
    assert!(files.len() > 2, "{files:?}");
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() <= 1_000, "{file:?}");
    }
    assert_eq!(records(&files), 10);
    assert!(!verify(&files[1..]).unwrap().is_from_genesis);
    // Full files may be put away, oldest first, and their numbers are not used again.
    for file in &files[..files.len() - 1] {
        assert!(!file.ends_with("audit.jsonl"), "{file:?}");
        fs::rename(file, away(file)).unwrap();
        assert!(!verify(&files_of(&path).unwrap()).unwrap().is_from_genesis);
    }
    let audit = open(&path, 1_000);
    for number in 5..10 {
        note(&audit, "s-1", number);
    }
    audit.close();
    let later = files_of(&path).unwrap();
    assert!(later.len() > 1 && !files.contains(&later[0]), "{later:?}");
    for file in &files[..files.len() - 1] {
        fs::rename(away(file), file).unwrap();
    }
    let whole = verify(&files_of(&path).unwrap()).unwrap();
    assert_eq!((whole.records, whole.is_from_genesis), (15, true));
    let mut holed = files.clone();
    holed.remove(1);
    assert!(matches!(verify(&holed), Err(VerifyError::Bad(bad)) if bad.line == 1));
    let none = verify(&[]).unwrap();
    assert_eq!((none.records, none.last), (0, Link::genesis()));
}

#[test]
fn an_audit_that_was_written_anew_lacks_the_record_of_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let write = |numbers: std::ops::RangeInclusive<u64>| {
        let audit = open(&path, 1_000_000);
        for number in numbers {
            note(&audit, "s-1", number);
        }
        audit.close();
    };
    write(1..=3);
    let then = Standing::of(&path).unwrap().verify().unwrap();
    let checkpoint = Checkpoint::new(then.records, then.last, 1_700_000_000_000);
    let verified = || {
        Standing::of(&path)
            .unwrap()
            .verify_against(vec![checkpoint.clone()])
    };
    assert_eq!(verified().unwrap().records, 3);
    write(4..=6);
    assert_eq!(verified().unwrap().records, 6);
    // A whole chain of other records, and one that was cut off before the checkpoint.
    let whole = fs::read_to_string(&path).unwrap();
    for lines in [0, 2] {
        let left: String = whole
            .lines()
            .take(lines)
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(&path, left).unwrap();
        assert!(Standing::of(&path).unwrap().verify().is_ok());
        assert!(
            matches!(verified(), Err(VerifyError::Rewritten(_))),
            "{lines}"
        );
    }
    fs::remove_file(&path).unwrap();
    write(2..=9);
    assert!(Standing::of(&path).unwrap().verify().is_ok());
    assert!(matches!(verified(), Err(VerifyError::Rewritten(_))));
}

#[test]
fn an_audit_that_ends_in_no_record_steps_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut text = fs::read_to_string(written(folder.path())).unwrap();
    text.push_str("{\"event\":\"tool_execution\",\"sequence\":1}\n");
    fs::write(&path, text).unwrap();
    let audit = open(&path, 1_000_000);
    note(&audit, "s-1", 1);
    audit.close();
    assert_eq!(records(std::slice::from_ref(&path)), 1);
    assert_eq!(files_of(&path).unwrap().len(), 2);
}

#[test]
fn nothing_is_written_to_a_file_that_holds_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let lock = folder.path().join("audit.jsonl.lock");
    let record = fs::read_to_string(written(folder.path())).unwrap();
    let record = record.split_inclusive('\n').next().unwrap();
    fs::remove_file(&path).unwrap();
    for (text, is_audit) in [
        (&b"SQLite format 3\0\x10\0\x01\x01\0"[..], false),
        (&b"\x8f\x13\n\0key of 32 bytes"[..], false),
        (b"{\"version\": 1}", false),
        (b"{\n\"version\": 1}\n", false),
        (b"{\"event\":\"tool_execution\",\"sequence\":1}\n", false),
        (b"\n", false),
        (b"", true),
        // Of an audit whose first record was broken off by a kill.
        (b"{", true),
        (&record.as_bytes()[..record.len() - 90], true),
        (&record.as_bytes()[..record.len() - 1], true),
        (record.as_bytes(), true),
    ] {
        let shown = String::from_utf8_lossy(text);
        let opened = |path: &Path| Audit::open(path, AuditedArguments::Hash).map(drop);
        fs::write(&path, text).unwrap();
        let _ = fs::remove_file(&lock);
        match opened(&path) {
            Ok(()) => assert!(is_audit, "{shown}"),
            Err(error) => {
                assert!(!is_audit, "{shown}: {error}");
                let said = error.to_string();
                let ending = "the file holds something else, and is left as it is; set audit.path to a file of its own";
                assert!(
                    said.contains("audit.jsonl:") && said.ends_with(ending),
                    "{said}"
                );
                assert_eq!(fs::read(&path).unwrap(), text);
                assert!(!lock.exists(), "{shown}");
            }
        }
    }
    // The file beside it is written to as well.
    fs::write(&lock, "name = \"somebody's\"\n").unwrap();
    let refused = Audit::open(&path, AuditedArguments::Hash).err().unwrap();
    assert!(
        refused.to_string().contains("audit.jsonl.lock:"),
        "{refused}"
    );
}

#[test]
fn a_sessions_lines_are_numbered_without_gaps_and_the_numbers_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = open(&path, 1_000_000);
    for number in 0..2 {
        note(&audit, "s-1", number);
        note(&audit, "s-2", number);
    }
    let ended = SessionEvent::SessionEnded {
        reason: EndReason::Stopped,
    };
    audit.event(&identity("s-1"), 1_700_000_000_000, &ended);
    note(&audit, "s-1", 2);
    note(&audit, "s-2", 2);
    audit.close();
    let text = fs::read_to_string(&path).unwrap();
    let numbers: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| {
            format!(
                "{}:{}",
                line["sessionId"].as_str().unwrap(),
                line["sequence"]
            )
        })
        .collect();
    assert_eq!(
        numbers,
        ["s-1:1", "s-2:1", "s-1:2", "s-2:2", "s-1:1", "s-2:3"]
    );
    assert_eq!(records(std::slice::from_ref(&path)), 6);
}

#[test]
fn a_disk_that_takes_nothing_stops_what_writes_until_it_takes_something() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = open(&path, 1_000_000);
    assert!(audit.admits_writes().is_ok());
    // A folder in the file's place refuses every write, for root, too.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    note(&audit, "s-1", 1);
    while audit.admits_writes().is_ok() {
        std::thread::yield_now();
    }
    note(&audit, "s-1", 2);
    let said = audit.admits_writes().unwrap_err().to_string();
    assert!(said.contains("free space where it is"), "{said}");
    fs::remove_dir(&path).unwrap();
    while audit.admits_writes().is_err() {
        std::thread::yield_now();
    }
    audit.close();
    assert_eq!(records(std::slice::from_ref(&path)), 2);
}
