//! Where a server listens: not before it can serve, at an address that can be opened, and for whom.

use crate::support::config;
use crate::support::http::get;
use crate::support::program::{Running, command, folders, run};
use crate::support::voice_client::VoiceClient;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_app::server::{Setup, start};
use windlass_runtime::transport::websocket::ConnectError;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_never_lets_anybody_in() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("kb")).unwrap();
    fs::write(folder.path().join("kb/fram.md"), "# Fram\n\nA ship.\n").unwrap();
    // It is a while until it is known that this file's name is too long to be one.
    let deep: PathBuf = std::iter::repeat_n("d", 400).collect();
    let audit = folder.path().join(deep).join("a".repeat(300));
    // Nobody else listens at this address of the machine.
    let free = std::net::TcpListener::bind("127.83.41.7:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let keys = [
        ("folders.knowledge", folder.path().join("kb")),
        ("audit.path", audit),
        ("server.listen", PathBuf::from(address.to_string())),
    ];
    let keys = keys.map(|(key, value)| (key, value.display().to_string()));
    let keys = keys.each_ref().map(|(key, value)| (*key, value.as_str()));
    let is_over = Arc::new(AtomicBool::new(false));
    let (knocked, has_knocked) = std::sync::mpsc::channel();
    let knocking = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let mut let_in = 0;
            while !is_over.load(Ordering::Acquire) {
                let_in += u32::from(TcpStream::connect(address).is_ok());
                // It knocks from now on.
                let _ = knocked.send(());
            }
            let_in
        }
    });
    has_knocked.recv().unwrap();
    let started = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    });
    let failure = started.await.err().map(|failure| format!("{failure:?}"));
    is_over.store(true, Ordering::Release);
    assert_eq!(knocking.join().unwrap(), 0);
    assert!(failure.unwrap().contains("cannot be opened"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_every_address_says_so_and_lets_in_whoever_shows_a_key_from_its_own_pages() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let serve = || {
        let mut serve = command(folder.path());
        serve
            .args(["serve", "--listen", "0.0.0.0:0", "--provider", "demo"])
            .args(folders(&data));
        serve
    };
    let refused = run(&mut serve());
    assert_eq!(refused.code, 1);
    let problem = refused.problems.join(" ");
    for cure in [
        "windlass keys add NAME",
        "access.oidc.issuer",
        "server.user_header",
        "--listen 127.0.0.1:8080",
    ] {
        assert!(problem.contains(cure), "{problem}");
    }
    let added = run(command(folder.path())
        .args(["keys", "add", "shop", "--data"])
        .arg(&data));
    let key = format!("Bearer {}", added.output.trim());
    let mut server = Running::start(&mut serve());
    let address = server.address();
    assert!(address.starts_with("0.0.0.0:"), "{address}");
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(&address, "/ready").status, 200);
    let status = |connected: Result<VoiceClient, ConnectError>| match connected {
        Ok(_) => 101,
        Err(ConnectError::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
    };
    let own = format!("http://{address}");
    for (origin, expected) in [
        ("", 101),
        ("http://evil.example", 403),
        ("null", 403),
        (own.as_str(), 101),
    ] {
        let origin = [("Origin", origin)];
        let origin = origin.iter().filter(|(_, origin)| !origin.is_empty());
        let with_key = origin.copied().chain([("Authorization", key.as_str())]);
        let with_key: Vec<(&str, &str)> = with_key.collect();
        let connected = VoiceClient::connect(&address, &with_key).await;
        assert_eq!(status(connected), expected, "{with_key:?}");
        let without = &with_key[..with_key.len() - 1];
        let connected = VoiceClient::connect(&address, without).await;
        let expected = if expected == 101 { 401 } else { expected };
        assert_eq!(status(connected), expected, "{without:?}");
    }
}
