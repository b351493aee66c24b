//! What a client is told that comes back: its session, and what was said while it was away. Knows no socket.

use crate::client_protocol::ServerMessage;
use std::collections::VecDeque;
use windlass_session::session::SessionConfig;
use windlass_tool::sensitive::Sensitive;

/// What a client is told at the start of its session, and again when it comes back.
pub(super) fn started_message<'a>(
    session: &'a SessionConfig,
    resume_token: &'a Sensitive<String>,
) -> ServerMessage<'a> {
    ServerMessage::Started {
        session_id: session.session_id.as_str(),
        conversation_id: session.conversation_id.as_str(),
        resume_token: resume_token.expose(),
        mode: session.mode,
        registry_version: session.registry.version(),
        tools: session.offered().map(|tool| &tool.id).collect(),
    }
}

/// Messages for a client that is not there, the newest of them.
#[derive(Default)]
pub(super) struct Missed {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Bytes of messages that are kept for a client that comes back.
const MISSED_BYTES_MAX: usize = 256 * 1024;

impl Missed {
    /// Questions are not kept: the client that comes back is asked again what is still open. Nor are pieces of results, which come
    /// whole.
    pub(super) fn keep(&mut self, message: &ServerMessage<'_>) {
        if matches!(
            message,
            ServerMessage::ConfirmationRequest { .. } | ServerMessage::ToolOutput { .. }
        ) {
            return;
        }
        let mut written = Vec::new();
        message.write(&mut written);
        self.bytes += written.len();
        self.messages.push_back(written);
        while self.bytes > MISSED_BYTES_MAX
            && let Some(oldest) = self.messages.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// All that was kept, oldest first.
    pub(super) fn take(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(self).messages
    }
}
