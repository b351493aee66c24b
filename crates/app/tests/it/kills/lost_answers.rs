//! Calls over MCP whose answers are lost: a proxy between client and server breaks connections off at seeded bytes of the request or of
//! the answer, and the server is killed at seeded moments. The client does what the protocol tells it to, and sends each call again under
//! another id until it has a whole answer. Each change is made once.

use super::Seeded;
use super::process::{KEYED, PLAIN, Process, USER_HEADER};
use super::shop::Shop;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Calls, where nothing else is said.
const CALLS: u64 = 60;
/// Says something else than [`CALLS`]: `cargo xtask soak --lost-answers N` does.
const CALLS_VARIABLE: &str = "WINDLASS_TEST_LOST_ANSWERS";
/// Connections of one call that are broken off at most. The next ones are left alone.
const CUTS_MAX: u64 = 4;
/// A little more than an answer has, so that some come through.
const ANSWER_BYTES: u64 = 1_200;
/// How often a call is sent until its server must have answered.
const TRIES_MAX: u64 = 40;
/// How often what cannot be known yet is asked again, and the pause before.
const LATER_TRIES_MAX: u64 = 240;
const LATER: Duration = Duration::from_millis(250);
/// Only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Calls of one user, who has no more changes in a day than conversations.
const CALLS_OF_A_USER: u64 = 20;

/// After how many bytes a connection is broken off, each way.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    request: Option<usize>,
    answer: Option<usize>,
}

/// Stands between the client and whichever server lives.
struct Proxy {
    address: String,
    next: Arc<Mutex<(String, Cut)>>,
}

impl Proxy {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let next = Arc::new(Mutex::new((String::new(), Cut::default())));
        let shared = next.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, cut) = shared.lock().unwrap().clone();
                // A server that was just killed is not there: then the client hears nothing.
                if let Ok(server) = TcpStream::connect(server) {
                    carry(&client, &server, cut);
                }
            }
        });
        Self { address, next }
    }

    /// The fate of the next connection.
    fn lead(&self, server: &str, cut: Cut) {
        *self.next.lock().unwrap() = (server.to_owned(), cut);
    }
}

/// Carries both ways at a time, until either is over.
fn carry(client: &TcpStream, server: &TcpStream, cut: Cut) {
    for (from, to, bytes_max) in [(client, server, cut.request), (server, client, cut.answer)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut piece = [0; 256];
            let mut left = bytes_max.unwrap_or(usize::MAX);
            while let Ok(read @ 1..) = from.read(&mut piece) {
                let taken = read.min(left);
                left -= taken;
                if to.write_all(&piece[..taken]).is_err() || left == 0 {
                    break;
                }
            }
            for end in [&from, &to] {
                // The other way may have ended it already.
                let _ = end.shutdown(Shutdown::Both);
            }
        });
    }
}

/// One call of the client.
struct Call {
    number: u64,
    tool: &'static str,
    item: String,
    key: Option<String>,
    /// Whether it takes its answers as streams.
    takes_events: bool,
}

impl Call {
    /// Half of the calls have a key, and half of either are of a tool whose orders can be looked up, and sent again under their keys.
    fn new(number: u64) -> Self {
        Self {
            number,
            tool: if number & 2 == 0 { PLAIN } else { KEYED },
            item: format!("item-{number}"),
            key: (number & 1 == 0).then(|| format!("key-{number}")),
            takes_events: number & 4 == 0,
        }
    }

    fn request(&self, id: u64) -> Vec<u8> {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let Some(key) = &self.key {
            meta["dev.windlass/idempotency-key"] = key.as_str().into();
        }
        let params = json!({"name": self.tool, "arguments": {"item": self.item}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            .to_string();
        let accept = match self.takes_events {
            true => "application/json, text/event-stream",
            false => "application/json",
        };
        let head = [
            "POST /mcp HTTP/1.1".to_owned(),
            "Host: 127.0.0.1".to_owned(),
            "Connection: close".to_owned(),
            "Content-Type: application/json".to_owned(),
            format!("Accept: {accept}"),
            "MCP-Protocol-Version: 2026-07-28".to_owned(),
            "Mcp-Method: tools/call".to_owned(),
            format!("Mcp-Name: {}", self.tool),
            format!("{USER_HEADER}: user-{}", self.number / CALLS_OF_A_USER),
            format!("Content-Length: {}", body.len()),
        ];
        format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
    }
}

/// Sends a request; the message that answers it, if that came whole.
fn send(address: &str, request: &[u8], id: u64) -> Option<Value> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The proxy may have left.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no end comes");
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let message = match head.contains("text/event-stream") {
        // An event is whole with the empty line after it.
        true => body.split_once("data: ")?.1.split_once("\n\n")?.0,
        false => {
            let length = head.split_once("content-length: ")?.1;
            let length: usize = length.split("\r\n").next()?.parse().ok()?;
            body.get(..length)?
        }
    };
    let message: Value = serde_json::from_str(message).unwrap();
    assert_eq!(message["id"], id, "{message}");
    Some(message)
}

/// The outcomes of all calls together.
#[derive(Debug, Default)]
struct Tally {
    tries: u64,
    cut_requests: u64,
    lost_answers: u64,
    kills: u64,
    replayed: u64,
    /// Orders that nobody can look up.
    unknown: u64,
    /// Calls of the tool with a lookup, once no request of theirs can arrive any more.
    known_later: u64,
}

/// The outcome of a call by its answer.
#[derive(Debug, PartialEq)]
enum End {
    Made,
    /// The outcome is not known.
    Unknown,
    /// Nothing yet.
    Open,
}

/// The client, with everything that stands between it and what its calls change.
struct Scene {
    folder: tempfile::TempDir,
    shop: Shop,
    proxy: Proxy,
    server: Process,
    seeded: Seeded,
    tally: Tally,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::open();
        let server = Process::start_for_programs(folder.path(), &shop.address);
        Self {
            folder,
            shop,
            proxy: Proxy::open(),
            server,
            seeded: Seeded(seed),
            tally: Tally::default(),
        }
    }

    /// Where the connection of a try breaks off. Of four, one breaks in the request or behind it, two in the answer.
    fn cut(&mut self, cuts: u64, request: &[u8]) -> Cut {
        let below = |seeded: &mut Seeded, bound: u64| usize::try_from(seeded.below(bound)).unwrap();
        if cuts == 0 {
            return Cut::default();
        }
        match self.seeded.below(8) {
            0 => Cut {
                request: Some(1 + below(&mut self.seeded, request.len() as u64)),
                answer: None,
            },
            // The whole request, and not a word of the answer.
            1 => Cut {
                request: Some(request.len()),
                answer: None,
            },
            2..6 => Cut {
                request: None,
                answer: Some(1 + below(&mut self.seeded, ANSWER_BYTES)),
            },
            _ => Cut::default(),
        }
    }

    /// Sends a call until it has a whole answer that ends it, and judges what was done.
    fn call(&mut self, call: &Call) -> End {
        let mut cuts = self.seeded.below(CUTS_MAX + 1);
        let mut kills_at = (self.seeded.below(4) == 0).then(|| self.seeded.below(2));
        let mut was_killed = false;
        for number in 0..TRIES_MAX {
            let id = call.number * 1_000 + number;
            let request = call.request(id);
            let cut = self.cut(cuts, &request);
            cuts = cuts.saturating_sub(1);
            self.proxy.lead(&self.server.address, cut);
            self.tally.tries += 1;
            let is_killed = kills_at.take_if(|at| *at == number).is_some();
            let answer = match is_killed {
                true => self.send_and_kill(&request, id),
                false => send(&self.proxy.address, &request, id),
            };
            was_killed |= is_killed;
            let Some(answer) = answer else {
                match cut.request {
                    Some(_) => self.tally.cut_requests += 1,
                    None => self.tally.lost_answers += 1,
                }
                continue;
            };
            match self.end(call, &answer, was_killed) {
                End::Open => std::thread::sleep(LATER),
                end => return end,
            }
        }
        panic!("call {} is never answered", call.number);
    }

    /// Sends a call whose outcome nobody knew until it was looked up, and until it was made after that where nothing was found.
    fn call_later(&mut self, call: &Call) {
        self.proxy.lead(&self.server.address, Cut::default());
        for number in 0..LATER_TRIES_MAX {
            let id = call.number * 1_000 + TRIES_MAX + number;
            let answer = send(&self.proxy.address, &call.request(id), id);
            let is_made = answer.is_some_and(|answer| self.end(call, &answer, true) == End::Made);
            if is_made {
                self.tally.known_later += 1;
                return;
            }
            std::thread::sleep(LATER);
        }
        panic!("what became of call {} is never known", call.number);
    }

    /// The server is killed some time after the request was begun, and the next one is there before the answer is looked at.
    fn send_and_kill(&mut self, request: &[u8], id: u64) -> Option<Value> {
        let pause = Duration::from_micros(self.seeded.below(8_000));
        let (server, address) = (&mut self.server, &self.proxy.address);
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(pause);
                server.kill();
            });
            send(address, request, id)
        });
        self.tally.kills += 1;
        self.server = Process::start_for_programs(self.folder.path(), &self.shop.address);
        answer
    }

    fn end(&mut self, call: &Call, answer: &Value, was_killed: bool) -> End {
        let result = &answer["result"];
        let orders = self.shop.orders(&call.item);
        let case = format!("call {} {}: {answer}", call.number, call.tool);
        if result["isError"] != true {
            assert_eq!(orders, 1, "{case}");
            let receipt = json!(self.shop.receipt(&call.item));
            assert_eq!(result["structuredContent"]["receipt"], receipt, "{case}");
            let replayed = &result["_meta"]["dev.windlass/replayed"];
            self.tally.replayed += u64::from(*replayed == true);
            return End::Made;
        }
        // Once its server is dead nobody knows what became of an order, unless it is found.
        assert!(was_killed && orders <= 1, "{case}");
        match result["_meta"]["dev.windlass/error"]["code"].as_str() {
            Some("CONFIRMATION_REQUIRED") => {
                // It is not certain yet that nothing was done.
                let words = result["content"].to_string();
                assert!(words.contains("nobody knows whether it happened"), "{case}");
                End::Unknown
            }
            Some("TRANSIENT") => End::Open,
            _ => panic!("{case}"),
        }
    }
}

#[test]
fn a_call_whose_answer_is_lost_again_and_again_is_one_change() {
    let calls = std::env::var(CALLS_VARIABLE).map_or(CALLS, |calls| calls.parse().unwrap());
    let mut scene = Scene::new(7);
    let mut unknown = Vec::new();
    for call in (0..calls).map(Call::new) {
        if scene.call(&call) == End::Unknown {
            unknown.push(call);
        }
    }
    let (keyed, plain): (Vec<Call>, Vec<Call>) =
        unknown.into_iter().partition(|call| call.tool == KEYED);
    scene.tally.unknown = plain.len() as u64;
    for call in &keyed {
        scene.call_later(call);
    }
    let Scene { shop, tally, .. } = scene;
    println!("answers lost again and again: {calls} calls, {tally:?}");
    let mut items = shop.items();
    let made = items.len() as u64;
    items.sort();
    items.dedup();
    assert_eq!(items.len() as u64, made, "something was ordered twice");
    assert_eq!(shop.keys_asked_twice(), Vec::<String>::new());
    assert!(made + tally.unknown >= calls, "{made} {tally:?}");
    let Tally {
        cut_requests,
        lost_answers,
        kills,
        replayed,
        ..
    } = tally;
    assert!(
        cut_requests > 0 && lost_answers > 0 && kills > 0 && replayed > 0,
        "{tally:?}"
    );
}
