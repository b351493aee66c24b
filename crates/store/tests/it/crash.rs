//! What a process leaves behind that is killed while it writes, and what a disk without space does. The tests start
//! themselves again as the process that comes to grief.

use crate::support::{ask, hash, outcome, proposal, reserve};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use windlass_store::{
    DATABASE_FILE, EffectState, OutcomeState, Recorded, Reserved, SqliteStore, Store,
    StoreUnavailable,
};
use windlass_tool::id::{ConversationId, EffectId};
use windlass_tool::sensitive::Sensitive;

/// Names the data folder of the process that comes to grief.
const FOLDER: &str = "WINDLASS_TEST_STORE_FOLDER";

/// Reserves with a grant and records, over and over, and says what is durable as soon as it is. Runs as a test of its own
/// only in the process that another test starts; alone it has nothing to do.
#[test]
fn writer_that_comes_to_grief() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = SqliteStore::open(Path::new(&folder)).unwrap();
    let store: &dyn Store = &store;
    let say = |what: &str, number: u64| {
        let mut output = std::io::stdout().lock();
        writeln!(output, "\n{what} {number}").unwrap();
        output.flush().unwrap();
    };
    for number in 0_u64.. {
        let (effect, token) = (format!("effect-{number}"), format!("token-{number}"));
        let mut request = reserve(&effect, &effect, 1_000);
        request.conversation_id = ConversationId::new(format!("conversation-{}", number / 100));
        request.grant = Some(hash(&token));
        let reserved = store.ask(|tables| {
            tables.propose(&proposal(&token, &request))?;
            tables.reserve(&request)
        });
        match reserved {
            Ok(reserved) => assert_eq!(reserved, Reserved::Reserved),
            Err(error) => return say_end(store, &error),
        }
        say("reserved", number);
        let mut done = outcome(&effect, OutcomeState::Succeeded);
        done.response = Some(Sensitive("x".repeat(1_000)));
        match store.ask(|tables| tables.record(&done)) {
            Ok(recorded) => assert_eq!(recorded, Recorded::Stored),
            Err(error) => return say_end(store, &error),
        }
        say("recorded", number);
    }
}

/// A store that cannot write any more still answers.
fn say_end(store: &dyn Store, error: &StoreUnavailable) {
    let kind = match error {
        StoreUnavailable::DiskFull { .. } => "full",
        StoreUnavailable::Locked { .. }
        | StoreUnavailable::Moved { .. }
        | StoreUnavailable::Overloaded
        | StoreUnavailable::Failed { .. } => "failed",
    };
    let first = store.ask(|tables| tables.effect(&EffectId::new("effect-0")));
    let reads = matches!(first, Ok(Some(_)));
    println!("\nended {kind} {reads} {error}");
}

fn start(folder: &Path, shell: Option<&str>) -> Child {
    let program = std::env::current_exe().unwrap();
    let arguments = [
        "crash::writer_that_comes_to_grief",
        "--exact",
        "--nocapture",
    ];
    let mut command = match shell {
        None => Command::new(&program),
        Some(script) => {
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&program);
            command
        }
    };
    command
        .args(arguments)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// What the process said before it ended, and how it ended if it said so.
#[derive(Default)]
struct Said {
    reserved: BTreeSet<u64>,
    recorded: BTreeSet<u64>,
    end: Option<String>,
}

/// Reads on until the process has ended; kills it once it has said so many lines.
fn listen(mut child: Child, kill_after: Option<usize>) -> Said {
    let mut said = Said::default();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = 0;
    for line in output.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("reserved", number)) => drop(said.reserved.insert(number.parse().unwrap())),
            Some(("recorded", number)) => drop(said.recorded.insert(number.parse().unwrap())),
            Some(("ended", end)) => said.end = Some(end.to_owned()),
            _ => continue,
        }
        lines += 1;
        if kill_after == Some(lines) {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    said
}

/// Everything that was said to be durable is there, and at most one step more.
fn check_ledger(folder: &Path, said: &Said) {
    let store = SqliteStore::open(folder).unwrap();
    let store: &dyn Store = &store;
    let state = |number: u64| {
        let effect = EffectId::new(format!("effect-{number}"));
        ask(store, |tables| tables.effect(&effect)).map(|effect| effect.state)
    };
    for number in &said.recorded {
        assert_eq!(state(*number), Some(EffectState::Succeeded), "{number}");
    }
    for number in said.reserved.difference(&said.recorded) {
        let state = state(*number);
        assert!(state.is_some(), "reservation {number} is lost");
    }
    let next = said.reserved.last().map_or(0, |last| last + 1);
    for number in [next, next + 1] {
        let token = hash(&format!("token-{number}"));
        let grant = ask(store, |tables| tables.grant(&token));
        assert_eq!(
            grant.is_some(),
            state(number).is_some(),
            "half a transaction"
        );
    }
    assert_eq!(state(next + 1), None);
    drop(
        Connection::open(folder.join(DATABASE_FILE)).map(|connection| {
            let verdict: String = connection
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .unwrap();
            assert_eq!(verdict, "ok");
        }),
    );
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_a_whole_ledger() {
    for kill_after in [1, 2, 7, 30, 101, 250] {
        let folder = tempfile::tempdir().unwrap();
        let said = listen(start(folder.path(), None), Some(kill_after));
        assert!(said.reserved.len() + said.recorded.len() >= kill_after);
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
    let shell = "trap '' XFSZ; ulimit -f 700; exec \"$0\" \"$@\"";
    let said = listen(start(folder.path(), Some(shell)), None);
    let end = said.end.as_deref().unwrap_or_default();
    assert!(
        end.starts_with("full true the store's disk is full"),
        "{end}"
    );
    assert!(!said.recorded.is_empty());
    check_ledger(folder.path(), &said);
    let store = SqliteStore::open(folder.path()).unwrap();
    let reserved = ask(&store, |tables| {
        tables.reserve(&reserve("later", "later", 1_000))
    });
    assert_eq!(reserved, Reserved::Reserved);
}
