//! `windlass call --confirm` before a person, a script and nobody: what is asked, which answers are a yes, and the exit codes.

use crate::support::program::{command, folders};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

/// Where the program's input comes from.
#[derive(Debug)]
enum Input {
    /// Typed at a terminal.
    Typed(&'static str),
    /// Of another program.
    Piped(&'static str),
    Nothing,
}

/// The end of input, typed at the beginning of a line.
const END: &str = "\u{4}";
const QUESTION: &str = "Run it? Type yes to run it, anything else to leave it.";

/// A terminal, and what keeps it open.
pub(crate) fn terminal() -> (OwnedFd, File) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    let terminal = options
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (controller, terminal)
}

struct Ended {
    code: Option<i32>,
    response: Value,
    said: String,
}

fn call(folder: &Path, arguments: &[&str], input: &Input) -> Ended {
    let mut command = command(folder);
    command
        .arg("call")
        .args(arguments)
        .args(folders(&folder.join("data")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut controller = None;
    match input {
        Input::Typed(keys) => {
            let (kept, terminal) = terminal();
            let mut kept = File::from(kept);
            kept.write_all(keys.as_bytes()).unwrap();
            controller = Some(kept);
            command.stdin(terminal);
        }
        Input::Piped(_) => {
            command.stdin(Stdio::piped());
        }
        Input::Nothing => {}
    }
    let mut child = command.spawn().unwrap();
    if let (Input::Piped(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // A program that asks nothing may be gone by now.
        let _ = pipe.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().unwrap();
    drop(controller);
    Ended {
        code: output.status.code(),
        response: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        said: String::from_utf8(output.stderr).unwrap(),
    }
}

fn careful(folder: &Path) {
    let tools = ["kb_search", "kb_get"];
    let rules = tools.map(|tool| format!("[tools.{tool}]\nrequires_confirmation = true\n"));
    fs::write(folder.join("windlass.toml"), rules.concat()).unwrap();
}

const SEARCH: [&str; 2] = ["kb_search", "{\"query\": \"Fram\"}"];

#[test]
fn only_a_plain_yes_runs_a_call_that_needs_consent() {
    let folder = tempfile::tempdir().unwrap();
    careful(folder.path());
    for (input, runs) in [
        (Input::Typed("yes\n"), true),
        (Input::Typed("y\n"), false),
        (Input::Typed("YES\n"), true),
        (Input::Typed("no\n"), false),
        (Input::Typed("yes please\n"), false),
        (Input::Typed("\n"), false),
        (Input::Typed(END), false),
        (Input::Piped("yes\n"), true),
        (Input::Piped(" Yes \n"), true),
        (Input::Piped("Y\n"), false),
        (Input::Piped("no\n"), false),
        (Input::Piped(""), false),
        (Input::Piped("\u{fffd}\n"), false),
        (Input::Nothing, false),
    ] {
        let ended = call(
            folder.path(),
            &[&SEARCH[..], &["--confirm"]].concat(),
            &input,
        );
        assert!(ended.said.contains(QUESTION), "{input:?}: {}", ended.said);
        assert!(ended.said.contains("Fram"), "the arguments are shown");
        let response = &ended.response;
        assert_eq!(response["ok"], runs, "{input:?}: {response}");
        if runs {
            assert_eq!(ended.code, Some(0), "{input:?}");
        } else {
            assert_eq!(ended.code, Some(1), "{input:?}");
            assert_eq!(response["error"]["type"], "CONFIRMATION_DECLINED");
        }
    }
}

#[test]
fn exit_codes_tell_what_ran_from_what_did_not_and_from_what_was_asked_wrongly() {
    let folder = tempfile::tempdir().unwrap();
    let yes = Input::Piped("yes\n");
    let confirmed = |call: [&'static str; 2]| [&call[..], &["--confirm"]].concat();
    // What needs no consent is not asked for.
    let plain = call(folder.path(), &confirmed(SEARCH), &yes);
    assert_eq!((plain.code, &plain.response["ok"]), (Some(0), &true.into()));
    assert!(!plain.said.contains(QUESTION), "{}", plain.said);

    careful(folder.path());
    for (arguments, code, error) in [
        (SEARCH.to_vec(), 1, "CONFIRMATION_REQUIRED"),
        (
            confirmed(["kb_get", "{\"id\": \"person:nobody\"}"]),
            1,
            "NOT_FOUND",
        ),
        (confirmed(["kb_search", "{\"query\": 1}"]), 1, "VALIDATION"),
    ] {
        let ended = call(folder.path(), &arguments, &yes);
        let said = &ended.response["error"]["type"];
        assert_eq!(
            (ended.code, said),
            (Some(code), &error.into()),
            "{arguments:?}"
        );
        let is_asked = error == "NOT_FOUND";
        assert_eq!(ended.said.contains(QUESTION), is_asked, "{arguments:?}");
    }
    for arguments in [
        &["kb_search", "--confirm"][..],
        &["kb_search", "{", "--confirm"],
    ] {
        let ended = call(folder.path(), arguments, &yes);
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(!ended.said.contains(QUESTION), "{}", ended.said);
    }
}

#[test]
fn what_is_asked_on_a_terminal_cannot_rewrite_the_question() {
    let folder = tempfile::tempdir().unwrap();
    careful(folder.path());
    // An escape sequence that clears the screen, and a mark that turns the direction of writing.
    let query = "{\"query\": \"Fram\\u001b[2J\\u202egnihton\"}";
    let ended = call(
        folder.path(),
        &["kb_search", query, "--confirm"],
        &Input::Typed("no\n"),
    );
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains(QUESTION), "{}", ended.said);
    for hidden in ['\u{1b}', '\u{202e}'] {
        assert!(!ended.said.contains(hidden), "{:?}", ended.said);
    }
}
