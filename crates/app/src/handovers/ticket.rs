//! One ticket: its content, people's answers, and the forms in which it is kept and shown.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::{Handover, NewHandover, Urgency};
use windlass_contract::id::{ConversationId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;

/// The version of the stored form.
const VERSION: u32 = 1;
/// Characters of an id.
const ID_CHARACTERS_MAX: usize = 64;

/// A conversation that waits for a person, or has had one's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    version: u32,
    pub(crate) id: String,
    pub(crate) tenant: TenantId,
    pub(crate) conversation_id: ConversationId,
    pub(crate) user_id: UserId,
    pub(crate) reason: Sensitive<String>,
    pub(crate) summary: Sensitive<String>,
    pub(crate) urgency: Urgency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<Sensitive<String>>,
    pub(crate) opened_at_unix_ms: u64,
    pub(crate) changed_at_unix_ms: u64,
    #[serde(default)]
    pub(crate) replies: Vec<Written>,
    /// The number of answers, from the first on, that the conversation has got.
    #[serde(default)]
    pub(crate) delivered_count: usize,
    /// The webhook has accepted the ticket.
    #[serde(default)]
    pub(crate) is_sent: bool,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) author: Option<String>,
    pub(crate) text: Sensitive<String>,
    pub(crate) at_unix_ms: u64,
}

impl Ticket {
    pub(super) fn new(request: NewHandover, tenant: TenantId, now_unix_ms: u64) -> Self {
        Self {
            version: VERSION,
            id: request.id,
            tenant,
            conversation_id: request.conversation_id,
            user_id: request.user_id,
            reason: request.reason,
            summary: request.summary,
            urgency: request.urgency,
            contact: request.contact,
            opened_at_unix_ms: now_unix_ms,
            changed_at_unix_ms: now_unix_ms,
            replies: Vec::new(),
            delivered_count: 0,
            is_sent: false,
        }
    }

    /// Reads the kept form of the ticket with this id.
    pub(super) fn read(text: &[u8], id: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if ticket.version > VERSION {
            return Err("it was written by a newer windlass; run that one".to_owned());
        }
        match ticket.id == id {
            true => Ok(ticket),
            false => Err("it is another ticket than its name says".to_owned()),
        }
    }

    /// Whether it has no answer yet.
    pub(crate) fn is_open(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether it has an answer, and the conversation has every answer.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_open() && !self.has_undelivered()
    }

    pub(super) fn has_undelivered(&self) -> bool {
        self.delivered_count < self.replies.len()
    }

    pub(super) fn handover(&self) -> Handover {
        Handover {
            id: self.id.clone(),
            urgency: self.urgency,
            opened_at_unix_ms: self.opened_at_unix_ms,
        }
    }

    /// The form for the people who answer it.
    pub(crate) fn json(&self) -> Value {
        let replies = self.replies.iter().map(|reply| {
            json!({
                "author": reply.author,
                "text": reply.text.expose(),
                "at": rfc3339(reply.at_unix_ms),
            })
        });
        json!({
            "id": self.id,
            "status": if self.is_open() { "open" } else { "answered" },
            "reason": self.reason.expose(),
            "summary": self.summary.expose(),
            "urgency": self.urgency,
            "contact": self.contact.as_ref().map(Sensitive::expose),
            "conversationId": self.conversation_id.as_str(),
            "userId": self.user_id.as_str(),
            "openedAt": rfc3339(self.opened_at_unix_ms),
            "replies": replies.collect::<Vec<Value>>(),
        })
    }
}

/// Whether an id can be a ticket's: it is the name of a file, too.
pub(super) fn is_id(id: &str) -> bool {
    (1..=ID_CHARACTERS_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
