//! The work that is due without a request: attempts whose lease is over become unknown, unknown effects are looked up, and effects
//! without a line in the audit are listed for it. Its host says when, asks the handlers, and writes the audit.

use crate::effects::{LookedUp, lookup_of};
use crate::executor::EffectLookup;
use crate::ledger::{Ledger, PendingReplies};
use std::sync::Arc;
use windlass_contract::handler::Finding;
use windlass_contract::registry::Registry;
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;
use windlass_store::command::{Command, Found, FoundState, Reply};
use windlass_store::{Batch, ConversationRef, Effect, EffectState, StoreUnavailable};

/// The number of effects that are listed for the audit in one round.
const UNAUDITED_MAX: usize = 256;
/// Milliseconds that the process that ran an effect has to write its line.
const UNAUDITED_AFTER_MS: u64 = 30_000;

/// The result of a handler's finding.
#[derive(Debug, Default)]
pub struct FoundOut {
    /// The effect, if its outcome is known now.
    pub settled: Option<(ConversationRef, Effect)>,
    /// The events of the intents of the found result; empty if nothing was settled.
    pub events: Vec<SessionEvent>,
}

/// Goes over the whole ledger, round by round.
pub struct Sweep {
    ledger: Arc<dyn Ledger>,
    /// A process that has just begun has no line to write.
    unaudited_after_ms: u64,
}

/// The result of a round.
#[derive(Debug, Default)]
pub struct Swept {
    /// Effects that are committed as unknown now.
    pub settled: Vec<(ConversationRef, Effect)>,
    /// Effects whose handlers are to be asked; the findings go to [`Sweep::found`].
    pub lookups: Vec<DueLookup>,
    /// Ended or unknown effects without a line in the audit. Effects that were settled now are not among them.
    pub unaudited: Vec<(ConversationRef, Effect)>,
}

/// One lookup at a handler, on behalf of no session.
#[derive(Debug)]
pub struct DueLookup {
    pub conversation: ConversationRef,
    pub effect: Effect,
    pub lookup: EffectLookup,
    /// The time when the handler is asked, by the ledger's clock.
    pub began_unix_ms: u64,
}

impl Sweep {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self {
            ledger,
            unaudited_after_ms: 0,
        }
    }

    /// One round. Effects whose handlers cannot be asked are put off as if the handlers had found nothing out.
    pub async fn round(&mut self, registry: &Arc<Registry>) -> Result<Swept, StoreUnavailable> {
        let ledger = self.ledger.clone();
        let mut swept = Swept::default();
        let mut due = ledger.store().due()?;
        if !due.lapsed.is_empty() {
            let lapsed = std::mem::take(&mut due.lapsed);
            let replies = self.ask_each(lapsed.into_iter().map(|of| (of, Command::Settle)));
            for (conversation, reply) in replies.await {
                if let Reply::Settled(effects) = reply {
                    let settled = effects.into_iter();
                    let settled = settled.map(|effect| (conversation.clone(), effect));
                    swept.settled.extend(settled);
                }
            }
            due = ledger.store().due()?;
        }
        let lookups = due.lookups.into_iter().map(|(conversation, effect)| {
            let effect_id = effect.effect_id;
            (conversation, Command::LookUp { effect_id })
        });
        for (conversation, reply) in self.ask_each(lookups).await {
            let Reply::LookUp {
                effect,
                now_unix_ms,
            } = reply
            else {
                continue;
            };
            match lookup_of(&effect, registry) {
                Some(lookup) => swept.lookups.push(DueLookup {
                    conversation,
                    effect: *effect,
                    lookup,
                    began_unix_ms: now_unix_ms,
                }),
                None => {
                    let unknown = Command::Found(Box::new(Found {
                        effect_id: effect.effect_id,
                        began_unix_ms: now_unix_ms,
                        finding: FoundState::Unknown,
                        receipt: None,
                        values: None,
                    }));
                    drop(self.apply(conversation, unknown));
                }
            }
        }
        swept.unaudited = ledger.store().unaudited(UNAUDITED_MAX)?;
        let now_unix_ms = ledger.store().now_unix_ms();
        let after_ms = std::mem::replace(&mut self.unaudited_after_ms, UNAUDITED_AFTER_MS);
        swept.unaudited.retain(|(_, effect)| {
            let mut settled = swept.settled.iter();
            let age_ms = now_unix_ms.saturating_sub(effect.changed_at_unix_ms);
            age_ms >= after_ms && !settled.any(|(_, known)| known.effect_id == effect.effect_id)
        });
        Ok(swept)
    }

    /// Stores a handler's finding. The limits are those of the conversation's sessions.
    pub async fn found(
        &self,
        due: DueLookup,
        (registry, limits): (&Arc<Registry>, &Arc<Limits>),
        finding: &Finding,
    ) -> FoundOut {
        let looked_up = LookedUp {
            store: self.ledger.store(),
            conversation: &due.conversation,
            registry,
            limits,
            effect: &due.effect,
            version: Some(&due.lookup.tool.version),
            began_unix_ms: due.began_unix_ms,
        };
        let (command, events) = looked_up.found(finding);
        let replies = self.apply(due.conversation.clone(), command).await;
        match replies.ok().and_then(|mut replies| replies.pop()) {
            Some(Reply::Recorded(effect)) if is_settled(&effect) => FoundOut {
                settled: Some((due.conversation, *effect)),
                events,
            },
            _ => FoundOut::default(),
        }
    }

    /// The audit has a line of each of these.
    pub fn audited<'e>(&self, effects: impl IntoIterator<Item = &'e (ConversationRef, Effect)>) {
        for (conversation, effect) in effects {
            let audited = Command::Audited(vec![effect.effect_id.clone()]);
            drop(self.apply(conversation.clone(), audited));
        }
    }

    /// Sends all commands at once, so that they share a flush. A failed one is due again in the next round.
    async fn ask_each(
        &self,
        commands: impl Iterator<Item = (ConversationRef, Command)>,
    ) -> Vec<(ConversationRef, Reply)> {
        let asked: Vec<(ConversationRef, PendingReplies)> = commands
            .map(|(conversation, command)| {
                let replies = self.apply(conversation.clone(), command);
                (conversation, replies)
            })
            .collect();
        let mut answered = Vec::with_capacity(asked.len());
        for (conversation, replies) in asked {
            if let Some(reply) = replies.await.ok().and_then(|mut replies| replies.pop()) {
                answered.push((conversation, reply));
            }
        }
        answered
    }

    fn apply(&self, conversation: ConversationRef, command: Command) -> PendingReplies {
        self.ledger.apply(Batch {
            conversation,
            commands: vec![command],
        })
    }
}

fn is_settled(effect: &Effect) -> bool {
    match effect.state {
        EffectState::Done | EffectState::NotDone => true,
        EffectState::Running | EffectState::Unknown => false,
    }
}
