//! The bodies that strangers send over HTTP, read as the server reads them and without it. For the
//! fuzzer, and for programs that check a body beforehand.

use crate::chat::picture::PictureLimits;
use crate::chat::request;
use crate::mcp;
use crate::web::{access, cancel, chat, completions, conversations, revoke};

/// The kind of request that a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// `POST /api/chat`.
    Chat,
    /// `POST /v1/chat/completions`.
    Completion,
    /// `POST /api/confirm`.
    Confirmation,
    /// `POST /api/cancel`.
    Cancellation,
    /// `POST /api/tickets`.
    Ticket,
    /// `PATCH /api/conversations/{id}`.
    Title,
    /// `POST /api/revoke`.
    Revocation,
    /// `POST /mcp`, and a line of `windlass mcp serve`.
    McpMessage,
}

impl BodyKind {
    pub const ALL: &[Self] = &[
        Self::Chat,
        Self::Completion,
        Self::Confirmation,
        Self::Cancellation,
        Self::Ticket,
        Self::Title,
        Self::Revocation,
        Self::McpMessage,
    ];
}

/// Whether some server would take this for a request of its kind.
pub fn is_understood(kind: BodyKind, body: &[u8]) -> bool {
    let limits = PictureLimits::WIDEST;
    match kind {
        BodyKind::Chat => request::parse(body, limits).is_ok(),
        BodyKind::Completion => completions::understands(body, limits),
        BodyKind::Confirmation => chat::understands_answer(body),
        BodyKind::Cancellation => cancel::understands(body),
        BodyKind::Ticket => access::understands_wish(body),
        BodyKind::Title => conversations::understands_title(body),
        BodyKind::Revocation => revoke::understands(body),
        BodyKind::McpMessage => mcp::message::understands(body),
    }
}
