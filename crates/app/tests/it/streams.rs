//! What becomes of the program where its standard streams take nothing: a server goes on, and a result that is lost is a
//! failure.

use crate::support::http::get;
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::json;
use std::fs::File;
use std::process::Stdio;

/// A disk without room.
fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader has gone.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_log_cannot_be_written_goes_on() {
    for errors in [full, unread] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path());
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(folders(&folder.path().join("data")))
            .env("WINDLASS_LOG_LEVEL", "debug");
        let mut server = Running::start_with(&mut command, errors());
        let address = server.address();
        for _ in 0..2 {
            let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
            client.say("Who designed the ship Fram?").await;
            client.expect("tool_call_finished").await;
            client.send(json!({"type": "stop"})).await;
            client.expect("session_complete").await;
        }
        assert_eq!(get(&address, "/ready").status, 200);
        server.signal("-TERM");
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_call_whose_log_cannot_be_written_has_its_result() {
    for errors in [full, unread] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path());
        command
            .args(["call", "kb_get", "{\"id\": \"person:colin_archer\"}"])
            .args(folders(&folder.path().join("data")))
            .env("WINDLASS_LOG_LEVEL", "debug")
            .stdout(Stdio::piped())
            .stderr(errors());
        let ended = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0));
        let response: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(response["ok"], true);
    }
}

#[test]
fn a_result_that_is_lost_ends_with_1_and_one_whose_reader_has_gone_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let data = folders(&folder.path().join("data"));
    let call = ["call", "kb_get", "{\"id\": \"person:colin_archer\"}"];
    let call: Vec<&str> = call
        .into_iter()
        .chain(data.iter().map(String::as_str))
        .collect();
    let lost = "windlass: the output could not be written: No space left on device (os error 28); \
                free space there, or send it elsewhere";
    for arguments in [&["config"][..], &["--version"], &["serve", "--help"], &call] {
        let (output, errors) = (folder.path().join("out"), folder.path().join("errors"));
        let status = |output: Stdio| {
            let mut command = command(folder.path());
            command
                .args(arguments)
                .stdout(output)
                .stderr(File::create(&errors).unwrap());
            command.status().unwrap().code()
        };
        assert_eq!(status(full()), Some(1), "{arguments:?}");
        let said = std::fs::read_to_string(&errors).unwrap();
        let said: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with("20"))
            .collect();
        assert_eq!(said, [lost], "{arguments:?}");
        assert_eq!(status(unread()), Some(0), "{arguments:?}");
        assert_eq!(status(File::create(output).unwrap().into()), Some(0));
    }
}
