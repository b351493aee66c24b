//! Churn: conversations and sessions that come and go, changes that are asked for twice, pictures, connections that say half of what
//! they want, and at the end kills. No change happens twice, and memory, descriptors and files grow by what was done alone.

use super::shop::Shop;
use crate::chat::user;
use crate::support::http::answer_on;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long it goes on, where nothing else is said: `cargo xtask soak --churn MINUTES` does.
const SECONDS: u64 = 6;
const SECONDS_VARIABLE: &str = "WINDLASS_TEST_CHURN_SECONDS";
/// Looks at the process, evenly over the time.
const LOOKS: u32 = 20;
/// How often the server is killed after that.
const KILLS: u32 = 5;
/// Changes for which one conversation is used.
const ORDERS_A_CONVERSATION: u64 = 20;
/// Connections at a time that say half of a head.
const HALF_HEADS: usize = 50;
/// What memory may grow by without a reason that is looked at: an allocator keeps what was freed.
const SLACK_BYTES: u64 = 48 << 20;
/// Bytes of the data folder for each turn: its words, its calls, its effect, its answer, and its line in the audit.
const TURN_BYTES_MAX: u64 = 24 << 10;
/// Bytes of the data folder beside that: pictures, and what stands at the beginning.
const STORED_BYTES_MAX: u64 = 8 << 20;
/// Bytes of the database's own journal, which begins anew at 16 MiB and is folded by the writer itself at 32 MiB.
const JOURNAL_BYTES_MAX: u64 = 48 << 20;
const JOURNAL: &str = "windlass.db-wal";
/// How long a server that is left alone may take to be done with everything.
const REST: Duration = Duration::from_secs(60);

struct Scene {
    folder: tempfile::TempDir,
    shop: Shop,
    model: ModelServer,
    turns: Arc<AtomicU64>,
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Look {
    memory_bytes: u64,
    descriptors: usize,
    threads: u64,
    /// Of the data folder without the journal.
    stored_bytes: u64,
    journal_bytes: u64,
    turns: u64,
}

impl Scene {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::open_to_many();
        write_tool(folder.path(), &shop);
        let model = ModelServer::start_without_memory(|last| {
            let said = last["content"].to_string();
            let item = said
                .split_once("Order ")
                .and_then(|(_, rest)| rest.split_once('.'));
            match (last["role"].as_str(), item) {
                (Some("user"), Some((item, _))) => Says::Calls("order", json!({ "item": item })),
                _ => Says::Words("Very well."),
            }
        });
        Self {
            folder,
            shop,
            model,
            turns: Arc::default(),
        }
    }

    fn start(&self) -> (Running, String) {
        let mut server = command(self.folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
            .args(["--tools", "tools", "--data", "data"])
            .args(["--text-provider-url", &self.model.url])
            .args(["--allow-fetch", &self.shop.address])
            // Refusals are tested elsewhere.
            .env("WINDLASS_SHARES_ADDRESS_TURNS_PER_MINUTE_MAX", "10000000")
            .env("WINDLASS_SHARES_TENANT_TURNS_PER_MINUTE_MAX", "10000000")
            .env(
                "WINDLASS_SHARES_ADDRESS_REQUESTS_PER_MINUTE_MAX",
                "10000000",
            )
            .env("WINDLASS_SHARES_TENANT_REQUESTS_PER_MINUTE_MAX", "10000000")
            .env("WINDLASS_LOG_LEVEL", "error");
        let mut running = Running::start(&mut server);
        let address = running.address();
        (running, address)
    }

    fn look(&self, server: &Running) -> Look {
        let process = format!("/proc/{}", server.id());
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let value = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let data = self.folder.path().join("data");
        let journal_bytes = fs::metadata(data.join(JOURNAL)).unwrap().len();
        Look {
            memory_bytes: value("VmRSS:") * 1_024,
            descriptors: fs::read_dir(format!("{process}/fd")).unwrap().count(),
            threads: value("Threads:"),
            stored_bytes: bytes_in(&data).saturating_sub(journal_bytes),
            journal_bytes,
            turns: self.turns.load(Ordering::Relaxed),
        }
    }
}

fn write_tool(folder: &Path, shop: &Shop) {
    let directory = folder.join("tools/order");
    fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": "order", "version": "1.0.0", "description": "Orders something.", "category": "action", "sideEffects": "writes",
        "idempotent": false, "requiresConfirmation": false, "allowedModes": ["text", "voice"], "latencyBudgetMs": 3_000,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["item"],
            "properties": {"item": {"type": "string", "description": "What to order."}},
        },
    });
    let url = format!("http://{}/orders/{{item}}", shop.address);
    let handler = json!({"kind": "http", "method": "POST", "url": url});
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(directory.join("guide.md"), "# Order\n\nOrders something.\n").unwrap();
    fs::write(directory.join("handler.json"), handler.to_string()).unwrap();
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(known) if known.is_dir() => bytes_in(&entry.path()),
        Ok(known) => known.len(),
        // It was renamed in this moment.
        Err(_) => 0,
    });
    bytes.sum()
}

/// Posts to the chat. Nothing where the server is gone, or goes in the middle of the answer.
fn chat(address: &str, body: &Value) -> Option<(u16, String)> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    // An answer that is cut off is none.
    let answer = thread::spawn(move || answer_on(&mut reader)).join();
    let answer = answer.ok().flatten()?;
    Some((answer.status, answer.body))
}

/// Orders one thing after the other, each message twice. Adds what it has certainly asked for.
fn order(
    scene: &Scene,
    address: &str,
    name: &str,
    is_over: &AtomicBool,
    asked: &Mutex<BTreeSet<String>>,
) {
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let item = format!("{name}-{number}");
        let id = format!("{name}-{}", number / ORDERS_A_CONVERSATION);
        let message = user(&item, &format!("Order {item}."));
        let body = json!({"id": id, "messages": [message]});
        let answers = [chat(address, &body), chat(address, &body)];
        // An answer may also say that the order was not made.
        let is_made = |answer: &Option<(u16, String)>| matches!(answer, Some((200, said)) if said.contains("\"tool-output-available\""));
        if answers.iter().any(is_made) {
            asked.lock().unwrap().insert(item);
        }
        scene.turns.fetch_add(1, Ordering::Relaxed);
    }
}

/// Conversations of one message, one in ten with a picture.
fn greet(scene: &Scene, address: &str, is_over: &AtomicBool) {
    // A pixel, and as many bytes behind it as a small photograph has.
    let picture = picture();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut message = user("a", "Good day.");
        if number % 10 == 0 {
            let part = json!({"type": "file", "mediaType": "image/png", "url": picture});
            message["parts"].as_array_mut().unwrap().push(part);
        }
        chat(
            address,
            &json!({"id": format!("greeting-{number}"), "messages": [message]}),
        );
        scene.turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn picture() -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.resize(60_000, 7);
    format!(
        "data:image/png;base64,{}",
        base64_simd::STANDARD.encode_to_string(bytes)
    )
}

/// Connections that say half of what they want and go.
fn say_half(address: &str, is_over: &AtomicBool) {
    let mut held = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            // The server may have ended it.
            let _ = stream.write_all(b"POST /api/chat HTTP/1.1\r\nHost: ");
            held.push(stream);
        }
        if held.len() >= HALF_HEADS {
            held.clear();
        }
    }
}

/// Voice sessions that are opened and stopped.
fn speak(address: &str, is_over: &AtomicBool) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut sessions = 0;
    while !is_over.load(Ordering::Relaxed) {
        runtime.block_on(async {
            let (mut client, _) = VoiceClient::start(address, json!({"type": "start"})).await;
            client.send(json!({"type": "stop"})).await;
            client.expect("stopped").await;
        });
        sessions += 1;
    }
    sessions
}

/// Runs everybody until the time is over, and looks at the server meanwhile.
fn churn(
    scene: &Scene,
    server: &Running,
    address: &str,
    time: Duration,
) -> (BTreeSet<String>, Vec<Look>) {
    let is_over = AtomicBool::new(false);
    let asked = Mutex::new(BTreeSet::new());
    let mut looks = Vec::new();
    thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let (is_over, asked) = (&is_over, &asked);
            scope.spawn(move || order(scene, address, name, is_over, asked));
        }
        scope.spawn(|| greet(scene, address, &is_over));
        scope.spawn(|| say_half(address, &is_over));
        let speaking = scope.spawn(|| speak(address, &is_over));
        let begun = Instant::now();
        for look in 1..=LOOKS {
            let due = time / LOOKS * look;
            // Nothing is waited for: this is when the process is looked at.
            thread::sleep(due.saturating_sub(begun.elapsed()));
            looks.push(scene.look(server));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(speaking.join().unwrap() > 0, "nobody spoke");
    });
    (asked.into_inner().unwrap(), looks)
}

/// The items that were ordered more often than once.
fn ordered_twice(shop: &Shop) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut items = shop.items();
    items.retain(|item| !seen.insert(item.clone()));
    items
}

#[test]
fn minutes_of_churn_double_nothing_and_leave_nothing_behind() {
    let seconds =
        std::env::var(SECONDS_VARIABLE).map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let scene = Scene::open();
    let (server, address) = scene.start();
    chat(
        &address,
        &json!({"id": "first", "messages": [user("a", "Good day.")]}),
    );
    let first = scene.look(&server);
    let (asked, looks) = churn(&scene, &server, &address, Duration::from_secs(seconds));

    assert_eq!(ordered_twice(&scene.shop), Vec::<String>::new());
    let items: BTreeSet<String> = scene.shop.items().into_iter().collect();
    assert!(
        asked.is_subset(&items),
        "an order was answered and not made"
    );
    assert!(asked.len() as u64 > seconds, "{} orders", asked.len());

    // Once everybody is served, memory is what it was after two fifths of the time.
    let settled = looks[looks.len() * 2 / 5];
    let last = *looks.last().unwrap();
    println!("churn: first {first:?}, settled {settled:?}, last {last:?}");
    assert!(last.memory_bytes < settled.memory_bytes + settled.memory_bytes / 4 + SLACK_BYTES);
    assert!(last.threads <= settled.threads + 16);
    assert!(last.stored_bytes < STORED_BYTES_MAX + last.turns * TURN_BYTES_MAX);
    assert!(last.journal_bytes < JOURNAL_BYTES_MAX);
    let begun = Instant::now();
    while scene.look(&server).descriptors > first.descriptors + 8 {
        assert!(
            begun.elapsed() < REST,
            "{:?} and then {:?}",
            first,
            scene.look(&server)
        );
        thread::sleep(Duration::from_millis(50));
    }
    server.kill();

    let mut all = asked;
    for kill in 0..KILLS {
        let (server, address) = scene.start();
        let is_over = AtomicBool::new(false);
        let asked = Mutex::new(BTreeSet::new());
        thread::scope(|scope| {
            let name = format!("kill{kill}");
            let (scene, address, is_over, asked) = (&scene, &address, &is_over, &asked);
            scope.spawn(move || order(scene, address, &name, is_over, asked));
            // In the middle of whatever it does.
            thread::sleep(Duration::from_millis(u64::from(300 + 70 * kill)));
            server.kill();
            is_over.store(true, Ordering::Relaxed);
        });
        all.append(&mut asked.into_inner().unwrap());
    }
    assert_eq!(ordered_twice(&scene.shop), Vec::<String>::new());
    let items: BTreeSet<String> = scene.shop.items().into_iter().collect();
    assert!(all.is_subset(&items), "an order was answered and lost");
}
