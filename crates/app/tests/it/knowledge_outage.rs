//! The knowledge base in a PostgreSQL server that goes away and comes back, as a conversation meets it.

use crate::chat::{Chat, chat, words};
use crate::knowledge::place;
use crate::knowledge_moved::{alone, database, kb};
use crate::support::model_server::Says;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What lies between the program and its database, and can be shut.
struct Way {
    /// The database's address, by this way.
    address: String,
    is_open: Arc<watch::Sender<bool>>,
}

impl Way {
    /// Nothing gets through any more once this has returned, and nothing that was under way is.
    async fn shut(&self) {
        self.is_open.send_replace(false);
        self.is_open.closed().await;
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }

    async fn to(database: &str) -> Self {
        let (login, place) = database.split_once('@').unwrap();
        let (host, name) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let end = if name.contains('?') { '&' } else { '?' };
        let address = format!("{login}@127.0.0.1:{port}/{name}{end}sslmode=disable");
        let host: Arc<str> = host.replace("%2F", "/").into();
        let is_open = Arc::new(watch::Sender::new(true));
        let opening = is_open.clone();
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                if *opening.borrow() {
                    tokio::spawn(carry(opening.subscribe(), near, host.clone()));
                }
            }
        });
        Self { address, is_open }
    }
}

async fn carry(
    mut is_open: watch::Receiver<bool>,
    mut near: TcpStream,
    host: Arc<str>,
) -> io::Result<()> {
    trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
    impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}
    let mut far: Box<dyn Wire> = match host.starts_with('/') {
        true => Box::new(UnixStream::connect(format!("{host}/.s.PGSQL.5432")).await?),
        false if host.contains(':') => Box::new(TcpStream::connect(&*host).await?),
        false => Box::new(TcpStream::connect((&*host, 5432)).await?),
    };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = is_open.wait_for(|is_open| !is_open) => {}
    }
    Ok(())
}

/// A model that searches whatever it is asked, and says what it was told.
fn searcher(last: &Value) -> Says {
    if last["role"] != "tool" {
        return Says::Calls("kb_search", json!({"query": "oak"}));
    }
    let told = last["content"].to_string();
    Says::Words(
        match (told.contains("doc:hull"), told.contains("TRANSIENT")) {
            (true, false) => "Found.",
            (false, true) => "Down.",
            _ => "Wrong.",
        },
    )
}

async fn served(way: &Way, retries_max: &str) -> Chat {
    let keys = [
        ("knowledge.postgres", way.address.as_str()),
        ("knowledge.embedder", "none"),
        ("text.limits.turn.retries_max", retries_max),
    ];
    chat(searcher, &keys).await
}

/// Waits until the audit has it that often that the base did not answer.
fn expect_outages(chat: &Chat, count: usize) {
    let begun = Instant::now();
    loop {
        let audit = fs::read_to_string(chat.data.path().join("audit.jsonl")).unwrap_or_default();
        let told = audit.matches("knowledge_unavailable").count();
        assert!(told <= count, "{audit}");
        if told == count {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{audit}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_tried_again_until_the_database_is_back() {
    let Some(database) = database() else {
        return;
    };
    let _alone = alone();
    let folder = place(None);
    assert_eq!(kb(folder.path(), &database, &["move"]).code, 0);
    let way = Way::to(&database).await;
    // So often that the last attempt is half a minute away when the first has failed.
    let patient = served(&way, "12").await;
    let hurried = served(&way, "1").await;
    let ask = |chat: &Chat| words(&chat.ask(&json!({"message": "What is it made of?"})));
    assert_eq!(ask(&patient), "Found.");

    way.shut().await;
    assert_eq!(ask(&hurried), "Down.", "nothing is found in its place");
    // Its two attempts.
    expect_outages(&hurried, 2);
    let (mut client, _) = VoiceClient::start(&hurried.address, json!({"type": "start"})).await;
    client.say("call kb_search {\"query\": \"oak\"}").await;
    let finished = client.expect("tool_call_finished").await;
    assert_eq!(
        (&finished["ok"], &finished["errorType"]),
        (&json!(false), &json!("TRANSIENT")),
        "{finished}"
    );

    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&patient));
        expect_outages(&patient, 1);
        way.open();
        assert_eq!(asking.join().unwrap(), "Found.");
    });
    assert_eq!(ask(&hurried), "Found.");
}
