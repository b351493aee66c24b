//! The first start of a server that others reach, as an image does it, and whether one that runs says so.

use crate::support::http::{get, post_with};
use crate::support::program::{Running, command, folders, run};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

fn serve(folder: &Path, listen: &str) -> Command {
    let mut serve = command(folder);
    serve.args([
        "serve",
        "--first-key",
        "--provider",
        "demo",
        "--listen",
        listen,
    ]);
    serve.args(folders(&folder.join("data")));
    serve
}

fn keys_of(folder: &Path) -> String {
    let data = folder.join("data").display().to_string();
    run(command(folder).args(["keys", "list", "--data", &data])).output
}

#[test]
fn the_first_start_prints_a_link_that_signs_in_and_the_next_one_prints_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(&mut serve(folder.path(), "0.0.0.0:0"));
    let link = server.line();
    let (_, link) = link.split_once("http://").unwrap();
    let (place, key) = link.split_once("/#ticket=").unwrap();
    let address = server.address().replace("0.0.0.0", "127.0.0.1");
    assert_eq!(place.replace("localhost", "127.0.0.1"), address);
    let bearer = format!("Bearer {key}");
    let signed_in = post_with(&address, "/api/session", &[("Authorization", &bearer)], b"");
    assert_eq!(signed_in.status, 200, "{}", signed_in.body);
    let stranger = post_with(&address, "/api/chat", &[], br#"{"message": "Ahoy"}"#);
    assert_eq!(stranger.status, 401);
    server.kill();
    let mut again = Running::start(&mut serve(folder.path(), "0.0.0.0:0"));
    assert!(again.line().starts_with("windlass is ready at "));
    assert_eq!(keys_of(folder.path()).lines().count(), 1);
}

#[test]
fn a_first_start_that_fails_leaves_no_key_that_nobody_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let refused = run(&mut serve(folder.path(), &listen));
    assert_eq!(refused.code, 1, "{:?}", refused.problems);
    assert_eq!(refused.output, "");
    assert_eq!(keys_of(folder.path()), "");
}

#[test]
fn a_healthcheck_tells_a_server_from_none_and_from_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(&mut serve(folder.path(), "0.0.0.0:0"));
    server.line();
    let address = server.address();
    let reached = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(&reached, "/ready").status, 200);
    let check =
        |address: &str| run(command(folder.path()).args(["healthcheck", "--listen", address]));
    let well = check(&address);
    assert_eq!((well.code, well.problems.len()), (0, 0), "{}", well.output);
    server.kill();
    let gone = check(&address);
    assert_eq!(gone.code, 1);
    assert!(
        gone.problems[0].contains("does not answer"),
        "{:?}",
        gone.problems
    );
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        // What is not read would end the connection before the answer is.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut part = [0; 1024];
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "the request breaks off");
            request.extend_from_slice(&part[..length]);
        }
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let foreign = check(&address);
    answering.join().unwrap();
    assert_eq!(foreign.code, 1);
    assert!(
        foreign.problems[0].contains("is no windlass"),
        "{:?}",
        foreign.problems
    );
    fs::write(
        folder.path().join("windlass.toml"),
        "[server]\nlisten = \"nowhere\"\n",
    )
    .unwrap();
    assert_eq!(run(command(folder.path()).arg("healthcheck")).code, 1);
}
