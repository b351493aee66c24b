//! Messages for a client that resumes: its session, and the messages that it missed. Knows no socket.

use crate::client_protocol::ServerMessage;
use std::collections::VecDeque;
use windlass_contract::sensitive::Sensitive;
use windlass_session::session::SessionConfig;

/// The message to a client at the start of its session, and again when it resumes.
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

/// The newest messages for an absent client.
#[derive(Default)]
pub(super) struct Missed {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Bytes of messages that are kept for a client that resumes.
const MISSED_BYTES_MAX: usize = 256 * 1024;

impl Missed {
    /// Keeps a message. Approval requests are not kept: a resuming client is asked again about the open ones. Pieces of results
    /// are not kept either, because the whole results come.
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

    /// All kept messages, oldest first.
    pub(super) fn take(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(self).messages
    }
}
