//! What a process leaves behind that is killed while it writes, and what a disk without space does. The tests start
//! themselves again as the process that comes to grief.

use crate::ledger::{conversation, new_leg};
use crate::support::{appended, attach, open, recorded, requested, said};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use windlass_contract::id::EffectId;
use windlass_store::command::Reply;
use windlass_store::{
    AttemptOutcome, Batch, ConversationRef, DATABASE_FILE, EffectState, EntryNumber, SqliteStore,
    Store, StoreUnavailable,
};

/// Names the data folder of the process that comes to grief.
const FOLDER: &str = "WINDLASS_TEST_STORE_FOLDER";

/// How many effects a conversation has.
const EFFECTS: u64 = 50;

fn talk(number: u64) -> ConversationRef {
    conversation(&format!("talk-{}", number / EFFECTS), "alice")
}

/// A conversation whose log has an entry for each effect of all others.
fn mirror() -> ConversationRef {
    conversation("mirror", "bob")
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

/// Begins effects and records their ends, over and over, and says what is durable as soon as it is. Runs as a test of its
/// own only in the process that another test starts; alone it has nothing to do.
#[test]
fn writer_that_comes_to_grief() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = open(Path::new(&folder));
    let say = |what: &str, number: u64| {
        let mut output = std::io::stdout().lock();
        writeln!(output, "\n{what} {number}").unwrap();
        output.flush().unwrap();
    };
    let mirror_leg = attach(&store, &mirror(), "mirror");
    let mut leg = attach(&store, &talk(0), "leg");
    for number in 0_u64.. {
        if number > 0 && number % EFFECTS == 0 {
            leg = attach(&store, &talk(number), "leg");
        }
        let own = number % EFFECTS + 1;
        let begin = Batch {
            conversation: talk(number),
            commands: vec![
                appended(&leg, vec![said(own, Some(&key(number)), &"x".repeat(500))]),
                requested(number, &leg),
            ],
        };
        let reflect = Batch {
            conversation: mirror(),
            commands: vec![appended(
                &mirror_leg,
                vec![said(number + 1, Some(&key(number)), "x")],
            )],
        };
        match store.commit(&[begin, reflect]) {
            Ok(replies) => assert!(matches!(replies[0][1], Reply::Run(_)), "{replies:?}"),
            Err(error) => return say_end(&store, &error),
        }
        say("begun", number);
        let end = Batch {
            conversation: talk(number),
            commands: vec![recorded(number, AttemptOutcome::Succeeded)],
        };
        match store.commit(&[end]) {
            Ok(replies) => assert!(matches!(replies[0][0], Reply::Recorded(_)), "{replies:?}"),
            Err(error) => return say_end(&store, &error),
        }
        say("recorded", number);
    }
}

/// A store that cannot write any more still answers.
fn say_end(store: &SqliteStore, error: &StoreUnavailable) {
    let kind = match error {
        StoreUnavailable::DiskFull { .. } => "full",
        StoreUnavailable::Locked { .. }
        | StoreUnavailable::Moved { .. }
        | StoreUnavailable::Overloaded
        | StoreUnavailable::Failed { .. } => "failed",
    };
    let first = store.effect(&talk(0).tenant, &EffectId::new("effect-0"));
    let reads = matches!(first, Ok(Some(_)));
    println!("\nended {kind} {reads} {error}");
}

/// The process that comes to grief.
pub(crate) struct Writer {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    said: Said,
}

/// What the process said before it ended, and how it ended if it said so.
#[derive(Default)]
struct Said {
    begun: BTreeSet<u64>,
    recorded: BTreeSet<u64>,
    end: Option<String>,
}

impl Writer {
    pub(crate) fn start(folder: &Path, shell: Option<&str>) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match shell {
            None => Command::new(&program),
            Some(script) => {
                let mut command = Command::new("sh");
                command.args(["-c", script]).arg(&program);
                command
            }
        };
        let test = "crash::writer_that_comes_to_grief";
        command
            .args([test, "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            output,
            said: Said::default(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads on until it has said something; `false` where it has ended.
    pub(crate) fn wait_for_a_line(&mut self) -> bool {
        while let Some(Ok(line)) = self.output.next() {
            let said = match line.split_once(' ') {
                Some(("begun", number)) => self.said.begun.insert(number.parse().unwrap()),
                Some(("recorded", number)) => self.said.recorded.insert(number.parse().unwrap()),
                Some(("ended", end)) => self.said.end.replace(end.to_owned()).is_none(),
                _ => continue,
            };
            return said;
        }
        false
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it said until it ended, or was killed after so many lines.
    fn said(mut self, kill_after: Option<usize>) -> Said {
        let mut lines = 0;
        while self.wait_for_a_line() {
            lines += 1;
            if Some(lines) == kill_after {
                self.child.kill().unwrap();
            }
        }
        self.child.wait().unwrap();
        self.said
    }
}

/// What was said to be durable is there; of the rest, all of a transaction or nothing.
fn check_ledger(folder: &Path, said: &Said) {
    let store = open(folder);
    let state = |number: u64| {
        let effect_id = EffectId::new(format!("effect-{number}"));
        let found = store.effect(&talk(number).tenant, &effect_id).unwrap();
        found.map(|(of, effect)| {
            assert_eq!(of, talk(number));
            effect.state
        })
    };
    for number in &said.recorded {
        assert_eq!(state(*number), Some(EffectState::Done), "{number}");
    }
    for number in said.begun.difference(&said.recorded) {
        assert!(state(*number).is_some(), "effect {number} is lost");
    }
    let next = said.begun.last().map_or(0, |last| last + 1);
    for number in 0..next + 2 {
        let own = store.entry_of_key(&talk(number), &key(number)).unwrap();
        let mirrored = store.entry_of_key(&mirror(), &key(number)).unwrap();
        let is_there = state(number).is_some();
        assert_eq!(own.is_some(), is_there, "half a command: {number}");
        assert_eq!(mirrored.is_some(), is_there, "half a commit: {number}");
    }
    assert_eq!(state(next + 1), None);
    for of in [talk(0), talk(next), mirror()] {
        let entries = store.entries(&of, EntryNumber(0), usize::MAX).unwrap();
        let numbers = entries.iter().map(|entry| entry.number.0);
        let last = entries.len() as u64;
        assert!(numbers.eq(1..=last), "the log has gaps");
    }
    assert!(
        store
            .leg(&new_leg("mirror").resume_token)
            .unwrap()
            .is_some()
    );
    drop(store);
    let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_a_whole_ledger() {
    for kill_after in [1, 2, 7, 30, 101, 250] {
        let folder = tempfile::tempdir().unwrap();
        let said = Writer::start(folder.path(), None).said(Some(kill_after));
        assert!(said.begun.len() + said.recorded.len() >= kill_after);
        check_ledger(folder.path(), &said);
    }
}

/// A limit on the size of files stands for the disk: a process that ignores its signal gets an error from the write that
/// would exceed it.
#[cfg(unix)]
#[test]
fn a_full_disk_is_named_and_loses_nothing_and_leaves_reading_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    // `ulimit -f` counts blocks of 512 or 1,024 bytes, as the shell likes.
    let shell = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"";
    let said = Writer::start(folder.path(), Some(shell)).said(None);
    let end = said.end.as_deref().unwrap_or_default();
    let expected = "full true the store's disk is full";
    assert!(end.starts_with(expected), "{end}");
    assert!(!said.recorded.is_empty());
    check_ledger(folder.path(), &said);
    // With space, the next process goes on.
    let store = open(folder.path());
    let leg = attach(&store, &mirror(), "later");
    let reply = crate::ledger::one(&store, &mirror(), requested(1_000_000, &leg));
    assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
}
