//! A person's answer to a ticket on its way into the conversation that opened it: an entry of the log, which the next turn's model
//! reads, every page shows, and a voice session delivers in a silence. Knows no ticket's file.

use super::ChatHost;
use crate::handovers::{HandoverDesk, Ticket};
use std::sync::Arc;
use tokio::sync::watch;
use windlass_contract::id::{ClientId, SessionId};
use windlass_contract::kind::Mode;
use windlass_runtime::ids;
use windlass_session::log_text::{Said, TicketReply};
use windlass_store::command::{Command, NewLeg, Reply};
use windlass_store::{Batch, ConversationRef, Epoch, LegRef, NewEntry, StoreUnavailable};

/// How long the leg that says it could last; it is over in the same transaction.
const LEG_MS: u64 = 60_000;

impl ChatHost {
    /// Writes a ticket's undelivered answers into the conversation, up to and including the answer at this position. False where the
    /// conversation no longer exists.
    pub(crate) async fn deliver_ticket_replies(
        &self,
        desk: &Arc<HandoverDesk>,
        ticket: &Ticket,
        place: usize,
    ) -> Result<bool, StoreUnavailable> {
        let mut is_delivered = false;
        for place in ticket.delivered_count.min(place)..=place {
            is_delivered = self.deliver_ticket_reply(ticket, place).await?;
        }
        let (desk, id) = (desk.clone(), ticket.id.clone());
        // An answer whose delivery cannot be noted is delivered once more, which changes nothing.
        let noted = tokio::task::spawn_blocking(move || desk.note_delivered(&id, place + 1));
        drop(noted.await);
        Ok(is_delivered)
    }

    /// Delivers all undelivered answers to the conversations, also those that an earlier process had taken, with growing pauses while
    /// the log takes nothing. Runs until the server is over.
    pub(crate) async fn deliver_ticket_replies_until_over(
        self: Arc<Self>,
        desk: Arc<HandoverDesk>,
        mut is_over: watch::Receiver<bool>,
    ) {
        let following = async {
            let mut failures = None;
            loop {
                failures = match self.deliver_all(&desk).await {
                    Ok(()) => None,
                    Err(problem) => {
                        tracing::warn!(%problem, "an answer to a ticket cannot be told yet");
                        Some(failures.map_or(0, |failures: u32| failures.saturating_add(1)))
                    }
                };
                desk.wait_for_delivery(failures).await;
            }
        };
        tokio::select! {
            // An error says that the server is gone, too.
            _ = is_over.wait_for(|is_over| *is_over) => {}
            () = following => {}
        }
    }

    async fn deliver_all(&self, desk: &Arc<HandoverDesk>) -> Result<(), StoreUnavailable> {
        let reading = desk.clone();
        // Other tasks write files while they hold the table.
        let reading = tokio::task::spawn_blocking(move || reading.undelivered());
        for ticket in reading.await.unwrap_or_default() {
            let Some(last) = ticket.replies.len().checked_sub(1) else {
                continue;
            };
            self.deliver_ticket_replies(desk, &ticket, last).await?;
        }
        Ok(())
    }

    /// Writes an answer of a ticket, by its place, into the log of the conversation, once. False where there is no such conversation
    /// any more.
    async fn deliver_ticket_reply(
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
        // A conversation that its user has deleted has an empty log, and nothing is written to it.
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
                    // The token opens nothing: the leg is gone before anybody could see it.
                    resume_token: ids::digest(name.as_bytes()),
                    expires_in_ms: LEG_MS,
                })),
                // The answer is text of others.
                Command::Taint,
                Command::Append {
                    leg: leg.clone(),
                    entries: vec![entry],
                },
                Command::Leave(leg),
            ],
        };
        let replies = self.ledger().apply(batch).await?;
        let is_written = replies
            .iter()
            .any(|reply| matches!(reply, Reply::Appended(_)));
        if !is_written {
            tracing::error!(ticket = %ticket.id, "the log of the conversation refuses an answer to a ticket; store.entry_bytes_max may be too small");
        }
        Ok(is_written)
    }
}
