//! The server as its runner sees it: who may connect, and the connection of each input.

use super::requests::Session;
use crate::runner::{ConnectionId, Input, Options, Output, Refusals, Rejection, Upgrade};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_session::time::Timestamp;

/// A simulated Realtime service. Its frames are text.
#[derive(Debug)]
pub struct Server {
    options: Options,
    refusals: Refusals,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
}

#[derive(Debug)]
enum Connection {
    /// Its first event is due.
    New {
        model: String,
    },
    /// It will be told that the beta has ended.
    Beta,
    Live(Box<Session>),
}

/// The service accepts audio of 15 MiB in an event.
const CLIENT_FRAME_BYTES_MAX: usize = 16 << 20;

impl Server {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            refusals: Refusals::default(),
            connections: BTreeMap::new(),
            next_connection: 0,
        }
    }

    /// Decides on an HTTP upgrade; the connection begins with `Ok`. Every key is accepted, in the header or in the name of a subprotocol,
    /// with two exceptions: `bad-` is refused with 401, `quota-` with 429.
    ///
    /// # Errors
    ///
    /// The status with which the upgrade is refused.
    pub fn connect(&mut self, upgrade: &Upgrade) -> Result<ConnectionId, Rejection> {
        let refuse = |http_status, cause| Err(Rejection { http_status, cause });
        if let Some(http_status) = self.options.settings.upgrade_status {
            return refuse(http_status, "the script says so");
        }
        self.refusals.admit()?;
        let target = upgrade.target.split_once('?');
        let (path, query) = target.unwrap_or((&upgrade.target, ""));
        if !path.ends_with("/realtime") {
            return refuse(404, "no such method");
        }
        let model = query
            .split('&')
            .find_map(|parameter| parameter.strip_prefix("model="));
        let Some(model) = model.filter(|model| !model.is_empty()) else {
            return refuse(400, "the request names no model");
        };
        let header = |name: &str| {
            let mut headers = upgrade.headers.iter();
            let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| value.as_str())
        };
        let protocols = header("sec-websocket-protocol").split(',').map(str::trim);
        let mut keys = protocols.filter_map(|name| name.strip_prefix("openai-insecure-api-key."));
        let bearer = header("authorization").strip_prefix("Bearer ");
        match bearer.or_else(|| keys.next()).unwrap_or_default() {
            "" => return refuse(401, "the request lacks a key"),
            key if key.starts_with("bad-") => return refuse(401, "the key is not valid"),
            key if key.starts_with("quota-") => return refuse(429, "the quota is exhausted"),
            _ => {}
        }
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let connection = if header("openai-beta").is_empty() {
            Connection::New {
                model: model.to_owned(),
            }
        } else {
            Connection::Beta
        };
        self.connections.insert(id, connection);
        Ok(id)
    }

    /// Takes one input of a connection and appends the resulting outputs. `now` never goes back. Input for an ended connection does
    /// nothing.
    pub fn handle(
        &mut self,
        now: Timestamp,
        id: ConnectionId,
        input: Input<'_>,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        if matches!(input, Input::Closed) {
            return;
        }
        let mut session = match connection {
            Connection::Beta => return refuse_beta(out),
            Connection::New { model } => {
                let mut session = Box::new(Session::new(model, self.options.clone()));
                session.begin(out);
                session
            }
            Connection::Live(session) => session,
        };
        session.advance(now, out);
        if let Input::Frame(frame) = input
            && !session.is_over()
        {
            if frame.len() > CLIENT_FRAME_BYTES_MAX {
                out.push(Output::Close {
                    code: 1009,
                    reason: "The message is too large.".to_owned(),
                });
                return;
            }
            session.take(now, frame, out);
            session.advance(now, out);
        }
        if let Some(connections) = session.refuses_next.take() {
            self.refusals.turn_away(connections);
        }
        if !session.is_over() {
            self.connections.insert(id, Connection::Live(session));
        }
    }

    /// The latest time for the connection's next [`Input::Tick`].
    pub fn next_deadline(&self, id: ConnectionId) -> Option<Timestamp> {
        match self.connections.get(&id)? {
            Connection::New { .. } | Connection::Beta => Some(Timestamp::default()),
            Connection::Live(session) => session.next_deadline(),
        }
    }
}

fn refuse_beta(out: &mut Vec<Output>) {
    let event: Value = json!({"type": "error", "event_id": "event_1", "error": {
        "type": "invalid_request_error", "code": "beta_api_shape_disabled",
        "message": "The beta of this API has ended.", "param": null, "event_id": null}});
    out.push(Output::Send(event.to_string().into_bytes()));
    out.push(Output::Close {
        code: 4000,
        reason: "invalid_request_error.beta_api_shape_disabled".to_owned(),
    });
}
