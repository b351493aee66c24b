//! The server as its runner sees it: connections, frames and time come in, frames and closes go out. Knows who may connect, and the
//! session of each handle; a session decides its own behaviour.

use super::address::{self, Backend};
use super::context::{Context, Shared};
use super::frames;
use super::memory::{HandleProblem, Memory, Sessions};
use super::refusal::Refusal;
use super::session::Session;
use super::setup::Setup;
use super::wire;
use crate::runner::{ConnectionId, Input, Options, Output, Refusals, Rejection, Upgrade};
use crate::script::SetupAnswer;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use windlass_session::time::Timestamp;

#[derive(Debug)]
enum Connection {
    AwaitsSetup(Backend),
    /// The setup is never answered.
    Deaf,
    Live(Box<Session>),
    /// Refused before there was a session.
    Over,
}

/// A simulated Gemini Live service.
#[derive(Debug)]
pub struct Server {
    shared: Shared,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
}

/// A client's message above this is refused with code 1009.
const CLIENT_FRAME_BYTES_MAX: usize = 16 << 20;

impl Server {
    pub fn new(options: Options) -> Self {
        Self {
            shared: Shared {
                settings: options.settings,
                sessions: Sessions::default(),
                refusals: Refusals::default(),
                exchanges: options.exchanges,
                calls_minted: 0,
            },
            connections: BTreeMap::new(),
            next_connection: 0,
        }
    }

    /// Decides on an HTTP upgrade; the connection begins with `Ok`.
    pub fn connect(&mut self, upgrade: &Upgrade) -> Result<ConnectionId, Rejection> {
        if let Some(http_status) = self.shared.settings.upgrade_status {
            return Err(Rejection {
                http_status,
                cause: "the script says so",
            });
        }
        self.shared.refusals.admit()?;
        let backend = address::admit(upgrade)?;
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        self.connections
            .insert(id, Connection::AwaitsSetup(backend));
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
        let Some(mut connection) = self.connections.remove(&id) else {
            return;
        };
        let mut context = Context {
            now,
            shared: &mut self.shared,
            out,
        };
        // Due output is sent before the results of the new input.
        if let Connection::Live(session) = &mut connection {
            session.advance(&mut context);
        }
        let closed = matches!(input, Input::Closed);
        if let Input::Frame(frame) = input
            && !is_over(&connection)
        {
            take_frame(&mut context, id, &mut connection, frame);
        }
        if !closed && !is_over(&connection) {
            self.connections.insert(id, connection);
        } else if let Connection::Live(session) = connection
            && let Some(stored) = session.stored_as
        {
            self.shared.sessions.release(stored, session.memory, now);
        }
    }

    /// The latest time for the connection's next [`Input::Tick`].
    pub fn next_deadline(&self, id: ConnectionId) -> Option<Timestamp> {
        match self.connections.get(&id)? {
            Connection::Live(session) => session.next_deadline(),
            Connection::AwaitsSetup(_) | Connection::Deaf | Connection::Over => None,
        }
    }

    /// Whether the connection is still open at the server's side.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id)
    }
}

fn is_over(connection: &Connection) -> bool {
    match connection {
        Connection::Live(session) => session.over,
        Connection::Over => true,
        Connection::AwaitsSetup(_) | Connection::Deaf => false,
    }
}

fn take_frame(
    context: &mut Context<'_>,
    id: ConnectionId,
    connection: &mut Connection,
    frame: &[u8],
) {
    let message = if frame.len() > CLIENT_FRAME_BYTES_MAX {
        Err(Refusal::new(1009, "The message is too large."))
    } else {
        wire::read(frame)
    };
    let taken = message.and_then(|message| match connection {
        Connection::Deaf | Connection::Over => Ok(None),
        Connection::Live(session) => session.take(context, &message).map(|()| None),
        Connection::AwaitsSetup(backend) => set_up(context, id, *backend, &message).map(Some),
    });
    match (taken, &mut *connection) {
        (Ok(None), _) => {}
        (Ok(Some(next)), _) => *connection = next,
        // A client may resume the session, so its memory is kept.
        (Err(refusal), Connection::Live(session)) => session.refuse(context, refusal),
        (Err(refusal), Connection::AwaitsSetup(_) | Connection::Deaf | Connection::Over) => {
            let Refusal { code, reason } = refusal;
            context.out.push(Output::Close { code, reason });
            *connection = Connection::Over;
        }
    }
}

fn set_up(
    context: &mut Context<'_>,
    id: ConnectionId,
    backend: Backend,
    message: &Map<String, Value>,
) -> Result<Connection, Refusal> {
    let (Some(Value::Object(body)), 1) = (message.get("setup"), message.len()) else {
        return Err(Refusal::invalid_argument());
    };
    let setup = Setup::read(body, backend, context.shared.settings.profile)?;
    match &context.shared.settings.setup {
        SetupAnswer::Answer => {}
        SetupAnswer::Ignore => return Ok(Connection::Deaf),
        SetupAnswer::Close(closing) => {
            return Err(Refusal::new(closing.code, closing.reason.clone()));
        }
    }
    let handle = setup
        .resumption
        .as_ref()
        .and_then(|resumption| resumption.handle.clone());
    let resumed = handle.is_some();
    if resumed && context.shared.settings.refuse_resumption {
        return Err(Refusal::invalid_argument());
    }
    let sessions = &mut context.shared.sessions;
    let (stored_as, memory) = match (&setup.resumption, handle) {
        (None, _) => (None, Memory::default()),
        (Some(_), None) => (Some(sessions.begin(id, &setup.model)), Memory::default()),
        (Some(_), Some(handle)) => {
            let code = context.shared.settings.unknown_handle_code;
            let (session, memory) = sessions
                .resume(&handle, &setup.model, id, context.now)
                .map_err(|problem| match problem {
                    HandleProblem::Unknown => {
                        Refusal::new(code, "BidiGenerateContent session not found")
                    }
                    HandleProblem::Held => Refusal::internal(),
                    HandleProblem::OtherModel => Refusal::invalid_argument(),
                })?;
            (Some(session), memory)
        }
    };
    let session_id = setup.profile.vertex.then(|| session_id(id));
    context.send(frames::setup_complete(session_id));
    let mut session = Session::new(setup, memory, stored_as, resumed);
    session.begin(context, resumed);
    Ok(Connection::Live(Box::new(session)))
}

/// The id of a session. Vertex uses UUIDs; ours are counted.
fn session_id(id: ConnectionId) -> String {
    format!("00000000-0000-4000-8000-{:012x}", id.0)
}
