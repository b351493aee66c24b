//! A person's answer to a ticket on its way into the conversation that opened it: an entry of the log, which the next turn's model
//! reads, every page shows, and a voice session tells when nobody speaks. Knows no ticket's file.

use super::ChatHost;
use crate::handovers::Ticket;
use windlass_runtime::ids;
use windlass_session::said::{Said, TicketReply};
use windlass_store::command::{Command, NewLeg, Reply};
use windlass_store::{Batch, ConversationRef, Epoch, LegRef, NewEntry, StoreUnavailable};
use windlass_tool::id::{ClientId, SessionId};
use windlass_tool::kind::Mode;

/// How long the leg that says it could last; it is over in the same transaction.
const LEG_MS: u64 = 60_000;

impl ChatHost {
    /// Writes an answer of a ticket, by its place, into the log of the conversation, once. False where there is no such conversation
    /// any more.
    pub(crate) async fn tell_ticket_reply(
        &self,
        ticket: &Ticket,
        place: usize,
    ) -> Result<bool, StoreUnavailable> {
        let Some(written) = ticket.replies.get(place) else {
            return Ok(false);
        };
        let store = self.conversations.store();
        let id = &ticket.conversation_id;
        let known = store.conversation(&ticket.tenant, id)?;
        // What is left of one that its user has deleted has an empty log, and stays so.
        let Some(known) = known.filter(|known| known.first_entry <= known.last_entry) else {
            return Ok(false);
        };
        let name = format!("reply-{}-{place}", ticket.id);
        let leg = LegRef {
            leg: SessionId::new(name.as_str()),
            epoch: Epoch(1),
        };
        let said = Said::TicketReply(TicketReply {
            ticket: ticket.id.clone(),
            author: written.author.clone(),
            text: written.text.clone(),
        });
        let entry = NewEntry {
            leg_number: None,
            key: Some(format!("ticket-reply:{}:{place}", ticket.id)),
            event: said.event(),
        };
        let batch = Batch {
            conversation: ConversationRef {
                tenant: ticket.tenant.clone(),
                conversation_id: id.clone(),
                user_id: known.user_id,
            },
            commands: vec![
                Command::Attach(Box::new(NewLeg {
                    leg: leg.leg.clone(),
                    mode: Mode::Text,
                    client_id: ClientId::new(name.as_str()),
                    // Nobody can show it: the leg is gone before anybody could see it.
                    resume_token: ids::digest(name.as_bytes()),
                    expires_in_ms: LEG_MS,
                })),
                // What a person wrote is text of others.
                Command::Taint,
                Command::Append {
                    leg: leg.clone(),
                    entries: vec![entry],
                },
                Command::Leave(leg),
            ],
        };
        let replies = self.ledger().apply(batch).await?;
        Ok(replies
            .iter()
            .any(|reply| matches!(reply, Reply::Appended(_))))
    }
}
