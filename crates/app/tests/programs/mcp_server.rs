//! An MCP server for tests, over its standard input and output or over HTTP, in both revisions, as good or bad as it is asked to be.
//! Its tools are those of the file `tools.json` in its folder, its resources and prompts those of `resources.json` and `prompts.json`
//! where there are such files; what was done with them is in the file `log` there.
//!
//! `mcp_server FOLDER [older|newer|silent|fragile|listless] [http|stream]`

use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What it knows of the protocol.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Both revisions.
    Both,
    /// The one with a handshake alone.
    Older,
    /// The one without.
    Newer,
    /// The older one, without a word to anything that comes before the handshake.
    Silent,
    /// The older one; anything else before the handshake ends it.
    Fragile,
    /// Both, and the list of tools never comes.
    Listless,
}

struct Server {
    folder: PathBuf,
    manner: Manner,
    streams: bool,
    /// Requests of its own that were answered.
    answered: (Mutex<usize>, Condvar),
}

const SESSION: &str = "s-1";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or_else(|| Error::other("name a folder"))?;
    let (mut manner, mut http, mut streams) = (Manner::Both, false, false);
    for argument in arguments {
        match argument.as_str() {
            "older" => manner = Manner::Older,
            "newer" => manner = Manner::Newer,
            "silent" => manner = Manner::Silent,
            "fragile" => manner = Manner::Fragile,
            "listless" => manner = Manner::Listless,
            "http" => http = true,
            "stream" => (http, streams) = (true, true),
            _ => return Err(Error::other("no such manner")),
        }
    }
    let server = Arc::new(Server {
        folder: folder.into(),
        manner,
        streams,
        answered: (Mutex::default(), Condvar::new()),
    });
    server.log("started");
    match http {
        true => server.serve_http(),
        false => server.serve_lines(),
    }
}

/// What one message is answered with, in this order.
enum Said {
    Message(Value),
    /// Bytes of one message that is none, or is too long.
    Raw(Vec<u8>),
    /// Goes on when so many requests of its own are answered, where answers come in while it speaks.
    Await(usize),
    End,
}

/// How long it waits for the answers to its own requests.
const PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    fn log(&self, line: &str) {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("log"));
        if let Ok(mut file) = file {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn serve_lines(&self) -> Result<()> {
        let mut output = std::io::stdout();
        for line in std::io::stdin().lock().lines() {
            let Ok(message) = serde_json::from_str::<Value>(&line?) else {
                continue;
            };
            for said in self.answer(&message) {
                match said {
                    Said::Message(value) => output.write_all(format!("{value}\n").as_bytes())?,
                    Said::Raw(bytes) => output.write_all(&bytes)?,
                    Said::Await(_) => {}
                    Said::End => return Ok(()),
                }
                output.flush()?;
            }
        }
        self.log("ended by itself");
        Ok(())
    }

    fn serve_http(self: Arc<Self>) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut output = std::io::stdout();
        writeln!(output, "http://{}", listener.local_addr()?)?;
        output.flush()?;
        for stream in listener.incoming() {
            let (server, stream) = (self.clone(), stream?);
            std::thread::spawn(move || server.serve_connection(stream));
        }
        Ok(())
    }

    fn serve_connection(&self, mut stream: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let header = |name: &str| {
                head.lines().find_map(|line| {
                    let (known, value) = line.split_once(':')?;
                    known.eq_ignore_ascii_case(name).then(|| value.trim())
                })
            };
            let length = header("content-length").and_then(|length| length.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body)?;
            let message: Value = serde_json::from_slice(&body).map_err(Error::other)?;
            for name in ["mcp-method", "mcp-name", "mcp-param-text", "authorization"] {
                if let Some(value) = header(name) {
                    self.log(&format!("header {name}: {value}"));
                }
            }
            let older =
                message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null();
            let is_beginning = message["method"] == "initialize";
            // Who has forgotten its sessions says so.
            if older && !is_beginning && header("mcp-session-id") != Some(&*self.session()) {
                respond(&mut stream, "404 Not Found", "", b"{}")?;
                continue;
            }
            if message.get("id").is_none() || message.get("method").is_none() {
                let version = header("mcp-protocol-version").unwrap_or("none");
                if message.get("method").is_none() {
                    self.log(&format!("in {version}"));
                }
                self.answer(&message);
                respond(&mut stream, "202 Accepted", "", b"")?;
                continue;
            }
            let session = match is_beginning {
                true => format!("Mcp-Session-Id: {}\r\n", self.session()),
                false => String::new(),
            };
            let said = self.answer(&message);
            if said.is_empty() {
                // Until the other side gives up.
                let _ = reader.read(&mut [0; 1]);
                self.log("closed");
                return Ok(());
            }
            if !self.respond_all(&mut stream, &session, said)? {
                return Ok(());
            }
        }
    }

    /// `false` where the connection ends with it.
    fn respond_all(&self, stream: &mut TcpStream, session: &str, said: Vec<Said>) -> Result<bool> {
        if self.streams {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
            stream.write_all(format!("{head}{session}\r\n: hello\r\n\r\n").as_bytes())?;
            for said in said {
                match said {
                    Said::Message(value) => {
                        stream
                            .write_all(format!("event: message\ndata: {value}\n\n").as_bytes())?;
                    }
                    Said::Raw(bytes) => {
                        stream.write_all(b"data: ")?;
                        stream.write_all(&bytes)?;
                    }
                    Said::Await(count) => {
                        let (answered, change) = &self.answered;
                        let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
                        let _ = change
                            .wait_timeout_while(answered, PATIENCE, |answered| *answered < count);
                    }
                    Said::End => return Ok(false),
                }
            }
            return Ok(false);
        }
        // Without a stream there is one message.
        let mut answers = said.into_iter().filter_map(|said| match said {
            Said::Message(value) if value.get("id").is_some() => {
                Some(value.to_string().into_bytes())
            }
            Said::Raw(bytes) => Some(bytes),
            Said::Message(_) | Said::Await(_) | Said::End => None,
        });
        match answers.next_back() {
            Some(body) => respond(stream, "200 OK", session, &body).map(|()| true),
            None => Ok(false),
        }
    }

    /// Another one whenever the test says so.
    fn session(&self) -> String {
        let generation = std::fs::read_to_string(self.folder.join("session"));
        generation.unwrap_or_else(|_| SESSION.to_owned())
    }

    /// The items of a file, where there is one.
    fn items(&self, name: &str) -> Option<Vec<Value>> {
        let text = std::fs::read_to_string(self.folder.join(format!("{name}.json")));
        serde_json::from_str(&text.ok()?).ok()
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({});
        for name in ["tools", "resources", "prompts"] {
            if self.items(name).is_some() {
                capabilities[name] = json!({"listChanged": name == "tools"});
            }
        }
        capabilities
    }

    /// Whether one more request is to be refused for its version: as many are as the test says.
    fn refuses(&self) -> bool {
        let file = self.folder.join("refusals");
        let left = std::fs::read_to_string(&file).ok();
        let left = left.and_then(|left| left.trim().parse::<u32>().ok());
        let left = left.and_then(|left| left.checked_sub(1));
        left.is_some_and(|left| std::fs::write(&file, left.to_string()).is_ok())
    }

    fn answer(&self, message: &Value) -> Vec<Said> {
        let id = message["id"].clone();
        if message.get("method").is_none() {
            let said = match message["error"]["code"].as_i64() {
                Some(code) => code.to_string(),
                None => message["result"].to_string(),
            };
            self.log(&format!("answered {id} {said}"));
            let (answered, change) = &self.answered;
            *answered.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            change.notify_all();
            return Vec::new();
        }
        let params = &message["params"];
        let is_newer = params["_meta"]
            .get("io.modelcontextprotocol/protocolVersion")
            .is_some();
        let result = |result: Value| {
            vec![Said::Message(
                json!({"jsonrpc": "2.0", "id": id.clone(), "result": result}),
            )]
        };
        let error = |code: i32, words: &str| {
            let error = json!({"code": code, "message": words});
            vec![Said::Message(
                json!({"jsonrpc": "2.0", "id": id.clone(), "error": error}),
            )]
        };
        if self.refuses() {
            return vec![Said::Message(json!({"jsonrpc": "2.0", "id": id, "error": {
                "code": -32022, "message": "not in this version",
                "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"},
            }}))];
        }
        let knows_newer = matches!(self.manner, Manner::Both | Manner::Newer | Manner::Listless);
        let knows_older = self.manner != Manner::Newer;
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if knows_newer => result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities(),
            })),
            "server/discover" => match self.manner {
                Manner::Silent => Vec::new(),
                Manner::Fragile => vec![Said::End],
                _ => error(-32601, "no such method"),
            },
            "initialize" if knows_older => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": self.capabilities(),
                "serverInfo": {"name": "shop", "version": "1"},
            })),
            "initialize" => error(-32602, "this server speaks 2026-07-28"),
            "ping" => result(json!({})),
            "notifications/cancelled" => {
                self.log("cancelled");
                Vec::new()
            }
            "notifications/initialized" => {
                self.log("initialized");
                Vec::new()
            }
            // It tells of changes when it is asked for its list.
            "subscriptions/listen" => Vec::new(),
            _ if (is_newer && !knows_newer) || (!is_newer && !knows_older) => {
                error(-32022, "not in this revision")
            }
            "tools/list" if self.manner == Manner::Listless => Vec::new(),
            "tools/list" => match self.items("tools") {
                Some(tools) => result(page("tools", tools, params)),
                None => error(-32601, "no such method"),
            },
            "resources/list" => match self.items("resources") {
                Some(resources) => result(page("resources", resources, params)),
                None => error(-32601, "no such method"),
            },
            "prompts/list" => match self.items("prompts") {
                Some(prompts) => result(page("prompts", prompts, params)),
                None => error(-32601, "no such method"),
            },
            "resources/read" => {
                let mut resources = self.items("resources").unwrap_or_default();
                resources.retain(|resource| resource["uri"] == params["uri"]);
                match resources.is_empty() {
                    true if is_newer => error(-32602, "no such resource"),
                    true => error(-32002, "no such resource"),
                    false => result(json!({"resultType": "complete", "contents": resources})),
                }
            }
            "prompts/get" => {
                let prompts = self.items("prompts").unwrap_or_default();
                let prompt = prompts
                    .iter()
                    .find(|prompt| prompt["name"] == params["name"]);
                match prompt {
                    None => error(-32602, "no such prompt"),
                    Some(prompt) => {
                        let about = params["arguments"]["about"].as_str().unwrap_or_default();
                        let text =
                            format!("{} {about}", prompt["says"].as_str().unwrap_or_default());
                        result(json!({"resultType": "complete", "messages": [
                            {"role": "user", "content": {"type": "text", "text": text}}]}))
                    }
                }
            }
            "tools/call" => self.call(&id, params),
            _ => error(-32601, "no such method"),
        }
    }

    /// A call that needs an answer of the user's: `who` a form, `pay` a page, `again` the same call once more and nothing of the user.
    fn asking(&self, text: &str, id: &Value, params: &Value) -> Vec<Said> {
        let result = |result: Value| {
            vec![Said::Message(
                json!({"jsonrpc": "2.0", "id": id, "result": result}),
            )]
        };
        let known = params["requestState"].as_str();
        let state = match (text, known) {
            // It asks once more.
            ("more", Some("state of more" | "more state")) => "more state".to_owned(),
            _ => format!("state of {text}"),
        };
        let requests = match (text, known) {
            (_, Some(known)) if known == state => {
                let said = format!("answered {}", params["inputResponses"]);
                self.log(&said);
                let failed = params["inputResponses"]["k"]["action"] == "decline";
                return result(
                    json!({"resultType": "complete", "content": [{"type": "text", "text": said}], "isError": failed}),
                );
            }
            ("again", _) => json!({}),
            _ if !can_ask(params) => {
                self.log("nobody to ask");
                return result(
                    json!({"content": [{"type": "text", "text": "it needs a person"}], "isError": true}),
                );
            }
            ("who" | "more", _) => json!({"k": {"method": "elicitation/create", "params": {
            "mode": "form", "message": "Ignore the agent. Who orders?", "requestedSchema": {
                "type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "minLength": 2, "title": "Your name"},
                    "cups": {"type": "integer", "minimum": 1, "maximum": 9},
                }}}}}),
            _ => json!({"k": {"method": "elicitation/create", "params": {
                "mode": "url", "message": "Pay there.", "url": "https://pay.example/till"}}}),
        };
        result(
            json!({"resultType": "input_required", "inputRequests": requests, "requestState": state}),
        )
    }

    fn call(&self, id: &Value, params: &Value) -> Vec<Said> {
        let text = params["arguments"]["text"].as_str().unwrap_or_default();
        self.log(&format!(
            "run {} {text}",
            params["name"].as_str().unwrap_or_default()
        ));
        if let Some(key) = params["_meta"]["dev.windlass/idempotency-key"].as_str() {
            self.log(&format!("key {key}"));
        }
        let message = |id: &Value, result: Value| {
            Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        };
        let text_of =
            |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
        let error = |code: i32| {
            let error = json!({"code": code, "message": "it cannot"});
            vec![Said::Message(
                json!({"jsonrpc": "2.0", "id": id, "error": error}),
            )]
        };
        match text {
            "structured" => vec![message(
                id,
                json!({"content": [{"type": "text", "text": "{\"n\":1.50}"}], "structuredContent": {"n": 1}}),
            )],
            "failed" => vec![message(
                id,
                json!({"content": [{"type": "text", "text": "No such file"}], "isError": true}),
            )],
            "refused" => error(-32602),
            "internal" => error(-32603),
            "hang" => Vec::new(),
            "dies" => vec![Said::End],
            "twice" => vec![message(id, text_of("twice")), message(id, text_of("again"))],
            "other" => vec![message(&json!(4_711), text_of("other"))],
            "rubbish" => vec![
                Said::Raw(b"no message\n".to_vec()),
                message(id, text_of("rubbish")),
            ],
            "long" => {
                let text = "x".repeat(2_000_000);
                vec![message(id, text_of(&text))]
            }
            "huge" => {
                let mut bytes = vec![b'x'; 50_000_000];
                bytes.push(b'\n');
                vec![Said::Raw(bytes)]
            }
            "progress" => {
                let params =
                    json!({"progressToken": id, "progress": 1, "total": 4, "message": "a quarter"});
                vec![
                    Said::Message(
                        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                    ),
                    message(id, text_of("progress")),
                ]
            }
            "asks" => {
                let request = |id: Value, method: &str| {
                    Said::Message(json!({"jsonrpc": "2.0", "id": id, "method": method}))
                };
                vec![
                    request(json!("p-1"), "ping"),
                    request(json!(7), "roots/list"),
                    Said::Await(2),
                    message(id, text_of("asks")),
                ]
            }
            "asks much" => {
                let request = |id: usize| {
                    Said::Message(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
                };
                let mut said: Vec<Said> = (0..100).map(request).collect();
                said.push(Said::Await(32));
                said.push(message(id, text_of("asks much")));
                said
            }
            "who" | "pay" | "again" | "more" => self.asking(text, id, params),
            "changed" => vec![
                Said::Message(
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                ),
                message(id, text_of("changed")),
            ],
            "environment" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                let secret = std::env::var("SHOP_KEY").unwrap_or_default();
                vec![message(
                    id,
                    text_of(&format!("{} {secret}", names.join(","))),
                )]
            }
            text => vec![message(id, text_of(text))],
        }
    }
}

/// Whether a request says that its user can be asked, both by forms and by links.
fn can_ask(params: &Value) -> bool {
    let capabilities = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    let elicitation = &capabilities["elicitation"];
    elicitation["form"].is_object() && elicitation["url"].is_object()
}

/// Two items of a list to a page.
fn page(member: &str, mut items: Vec<Value>, params: &Value) -> Value {
    let start = params["cursor"]
        .as_str()
        .and_then(|cursor| cursor.parse().ok());
    let start = start.unwrap_or(0_usize);
    let rest = items.split_off(start.min(items.len()));
    let mut page = json!({"resultType": "complete"});
    page[member] = rest.iter().take(2).cloned().collect();
    if rest.len() > 2 {
        page["nextCursor"] = (start + 2).to_string().into();
    }
    page
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
