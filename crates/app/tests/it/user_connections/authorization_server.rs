//! An authorization server on loopback, and the service that takes its tokens, with the faults that a test asks for.

use crate::support::model_server::read_request;
use base64_simd::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::thread;

/// How the token endpoint behaves.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// It waits once when it is asked, and once more before it answers.
    Waits(Arc<Barrier>),
    /// It never answers.
    Hangs,
    /// It sends to another address.
    Redirects(String),
    /// It answers with 50 MB.
    Floods,
    /// It is overloaded.
    Fails,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) mood: Mood,
    /// By code: the PKCE challenge, the redirect and the user.
    codes: BTreeMap<String, (String, String, String)>,
    /// By token: the user.
    pub(crate) access: BTreeMap<String, String>,
    pub(crate) refresh: BTreeMap<String, String>,
    /// All tokens that there ever were.
    pub(crate) given: Vec<String>,
    pub(crate) refreshes: usize,
    pub(crate) token_requests: usize,
    pub(crate) revoked: Vec<String>,
    /// Users whose tokens the service saw.
    pub(crate) served: Vec<String>,
    /// Requests with a token that does not count wait for each other.
    pub(crate) crowd: Option<Arc<Barrier>>,
    /// Whether an answer to a refresh leaves the refresh token as it is.
    pub(crate) keeps_refresh_token: bool,
}

pub(crate) struct AuthorizationServer {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl AuthorizationServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || serve(stream, &state, port));
            }
        });
        Self { port, state }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What a browser does at the page to which it was sent: the user agrees, and is sent back; the query of that address.
    pub(crate) fn agree(&self, address: &str, user: &str) -> BTreeMap<String, String> {
        let (page, query) = address.split_once('?').unwrap();
        assert_eq!(page, format!("{}/authorize", self.issuer()));
        let asked = fields(query);
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["client_id"], "windlass");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["scope"], "orders");
        assert_eq!(asked["resource"], self.issuer());
        let mut state = self.state();
        let code = format!("code-{}", state.given.len() + state.codes.len());
        let kept = (
            asked["code_challenge"].clone(),
            asked["redirect_uri"].clone(),
            user.to_owned(),
        );
        state.codes.insert(code.clone(), kept);
        BTreeMap::from([
            ("code".to_owned(), code),
            ("state".to_owned(), asked["state"].clone()),
            ("iss".to_owned(), self.issuer()),
        ])
    }
}

/// A form or a query, without what escapes stand for but for that which addresses hold.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let plain = |text: &str| text.replace("%3A", ":").replace("%2F", "/");
    pairs
        .map(|(name, value)| (name.to_owned(), plain(value)))
        .collect()
}

fn serve(stream: TcpStream, state: &Mutex<State>, port: u16) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (head, body) = read_request(&mut reader)?;
        let line = head.lines().next()?.to_owned();
        let path = line.split(' ').nth(1)?.to_owned();
        let body = String::from_utf8(body).ok()?;
        let (status, answer) = match path.as_str() {
            "/.well-known/oauth-authorization-server" => (200, metadata(port)),
            "/token" => {
                let mood = {
                    let mut state = state.lock().unwrap();
                    state.token_requests += 1;
                    state.mood.clone()
                };
                match mood {
                    Mood::Well => token(&mut state.lock().unwrap(), &head, &fields(&body)),
                    Mood::Waits(barrier) => {
                        barrier.wait();
                        barrier.wait();
                        token(&mut state.lock().unwrap(), &head, &fields(&body))
                    }
                    Mood::Fails => (503, json!({})),
                    Mood::Hangs => {
                        let mut rest = Vec::new();
                        return reader.read_to_end(&mut rest).ok().map(|_| ());
                    }
                    Mood::Redirects(target) => {
                        let head = format!(
                            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
                        );
                        writer.write_all(head.as_bytes()).ok()?;
                        continue;
                    }
                    Mood::Floods => {
                        let head = "HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n";
                        writer.write_all(head.as_bytes()).ok()?;
                        let piece = [b' '; 65_536];
                        while writer.write_all(&piece).is_ok() {}
                        return None;
                    }
                }
            }
            "/revoke" => {
                let token = fields(&body)["token"].clone();
                state.lock().unwrap().revoked.push(token);
                (200, json!({}))
            }
            "/orders" => orders(state, &head),
            "/mcp" => mcp(state, &head, &body),
            _ => (404, json!({})),
        };
        let answer = answer.to_string();
        write!(
            writer,
            "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        )
        .ok()?;
    }
}

fn metadata(port: u16) -> Value {
    let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
    json!({
        "issuer": at(""), "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "revocation_endpoint": at("/revoke"), "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn token(state: &mut State, head: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
    // `windlass` and `open/sesame`, each escaped.
    if header(head, "authorization") != Some("Basic d2luZGxhc3M6b3BlbiUyRnNlc2FtZQ==") {
        return (401, json!({"error": "invalid_client"}));
    }
    let refused = (400, json!({"error": "invalid_grant"}));
    let (user, is_refresh) = match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some((challenge, redirect, user)) = state.codes.remove(&form["code"]) else {
                return refused;
            };
            let digest = Sha256::digest(form["code_verifier"].as_bytes());
            if URL_SAFE_NO_PAD.encode_to_string(digest) != challenge
                || form["redirect_uri"] != redirect
            {
                return refused;
            }
            (user, false)
        }
        _ => {
            state.refreshes += 1;
            let used = &form["refresh_token"];
            let Some(user) = state.refresh.get(used).cloned() else {
                return refused;
            };
            if !state.keeps_refresh_token {
                state.refresh.remove(used);
            }
            (user, true)
        }
    };
    let number = state.given.len();
    let [access, refresh] =
        ["access", "refresh"].map(|kind| format!("{kind}-of-{user}-number-{number}"));
    state.access.retain(|_, known| *known != user);
    state.access.insert(access.clone(), user.clone());
    state.given.extend([access.clone(), refresh.clone()]);
    let mut answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": 3_600});
    if !(is_refresh && state.keeps_refresh_token) {
        state.refresh.insert(refresh.clone(), user);
        answer["refresh_token"] = refresh.into();
    }
    (200, answer)
}

/// The one tool of the shop's MCP server.
pub(crate) fn definition() -> Value {
    json!({"name": "orders", "description": "Shows orders.", "inputSchema": {"type": "object", "properties": {}}})
}

/// An MCP server of the revision 2025-11-25 that takes no request without a token.
fn mcp(state: &Mutex<State>, head: &str, body: &str) -> (u16, Value) {
    let (status, found) = orders(state, head);
    if status != 200 {
        return (status, found);
    }
    let message: Value = serde_json::from_str(body).unwrap();
    let id = &message["id"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"},
        }),
        "tools/list" => json!({"tools": [definition()]}),
        "tools/call" => {
            json!({"content": [{"type": "text", "text": found.to_string()}], "structuredContent": found})
        }
        _ if id.is_null() => return (202, json!({})),
        _ => {
            let error = json!({"code": -32_601, "message": "no such method"});
            return (200, json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    (200, json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn orders(state: &Mutex<State>, head: &str) -> (u16, Value) {
    let shown = header(head, "authorization").unwrap_or_default();
    let token = shown.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    let crowd = {
        let mut state = state.lock().unwrap();
        if let Some(user) = state.access.get(&token).cloned() {
            state.served.push(user.clone());
            return (200, json!({"orders_of": user}));
        }
        state.crowd.clone()
    };
    if let Some(crowd) = crowd {
        crowd.wait();
    }
    (401, json!({"error": "invalid_token"}))
}
