//! The sweep of a process, every few seconds: attempts whose lease is over become unknown, the handlers of unknown effects are
//! asked, and the audit gets a line of each end that no session reports. Owns the schedule; the driver's sweep says what is due.

use crate::audit::Audit;
use crate::executor::{Executor, HandlerThreads};
use crate::intent_log::tell_apart;
use crate::subscriber::{SessionIdentity, Subscriber};
use futures_util::StreamExt;
use futures_util::stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use windlass_contract::handler::Capabilities;
use windlass_contract::id::{ClientId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::rights::Rights;
use windlass_driver::{DueLookup, Ledger, Sweep};
use windlass_session::limits::Limits;
use windlass_store::{ConversationRef, Effect};

/// Pause between sweeps.
const EVERY: Duration = Duration::from_secs(10);
/// Handlers that are asked at one time.
const LOOKUPS_MAX: usize = 8;

/// The parts of a process that a sweep needs.
pub struct Sweeper {
    pub ledger: Arc<dyn Ledger>,
    pub capabilities: Arc<dyn Capabilities>,
    pub audit: Option<Arc<Audit>>,
    pub threads: HandlerThreads,
    /// The current tools.
    pub registry: Arc<dyn Fn() -> Arc<Registry> + Send + Sync>,
    /// The limits of text sessions.
    pub limits: Arc<Limits>,
    /// The user of a conversation in the form of sessions and the audit.
    pub user_of: Arc<dyn Fn(&ConversationRef) -> UserId + Send + Sync>,
}

impl Sweeper {
    /// Sweeps at once, and then again and again, until it is dropped.
    pub async fn run(self) {
        let mut sweep = Sweep::new(self.ledger.clone());
        let mut times = tokio::time::interval_at(Instant::now(), EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            self.round(&mut sweep).await;
        }
    }

    /// Runs one sweep.
    pub async fn round(&self, sweep: &mut Sweep) {
        let registry = (self.registry)();
        let swept = match sweep.round(&registry).await {
            Ok(swept) => swept,
            Err(error) => return tracing::warn!(%error, "the ledger cannot be swept"),
        };
        for (conversation, effect) in &swept.settled {
            tracing::warn!(
                effect = %effect.effect_id, tool = %effect.tool,
                "a change ended without anybody hearing how, and counts as unknown"
            );
            self.write(sweep, conversation, effect);
        }
        for (conversation, effect) in &swept.unaudited {
            self.write(sweep, conversation, effect);
        }
        let (sweep, registry) = (&*sweep, &registry);
        let lookups = stream::iter(swept.lookups)
            .map(|due| self.look_up(sweep, registry, due))
            .buffer_unordered(LOOKUPS_MAX)
            .collect::<Vec<_>>();
        for (conversation, effect) in lookups.await.into_iter().flatten() {
            tracing::info!(
                effect = %effect.effect_id, tool = %effect.tool, state = ?effect.state,
                "what became of an unknown change is known now"
            );
            self.write(sweep, &conversation, &effect);
        }
    }

    /// Has the audit write a line. The ledger is notified once the line is written.
    fn write(&self, sweep: &Sweep, conversation: &ConversationRef, effect: &Effect) {
        match &self.audit {
            // While the disk refuses writes the ledger remembers the effects without a line.
            Some(audit) if audit.admits_writes().is_err() => {}
            Some(audit) => {
                let user_id = (self.user_of)(conversation);
                audit.found(
                    conversation,
                    user_id,
                    effect,
                    self.capabilities.now_unix_ms(),
                );
            }
            // Without an audit no line is needed.
            None => sweep.audited([&(conversation.clone(), effect.clone())]),
        }
    }

    async fn look_up(
        &self,
        sweep: &Sweep,
        registry: &Arc<Registry>,
        due: DueLookup,
    ) -> Option<(ConversationRef, Effect)> {
        let identity = SessionIdentity {
            client_id: ClientId::new("sweep"),
            session_id: due.effect.leg.clone(),
            user_id: (self.user_of)(&due.conversation),
            tenant: due.conversation.tenant.clone(),
            rights: Rights::Anonymous,
            conversation_id: due.conversation.conversation_id.clone(),
            mode: Mode::Text,
            ledger: Some(due.conversation.clone()),
        };
        let version = registry.version().clone();
        let (capabilities, threads) = (self.capabilities.clone(), self.threads.clone());
        let executor = Executor::new(identity.clone(), version, capabilities, threads);
        let finding = executor.look_up_alone(&due.lookup).await;
        let found = sweep.found(due, (registry, &self.limits), &finding).await;
        let audit = self.audit.clone().map(|audit| audit as Arc<dyn Subscriber>);
        let now_unix_ms = self.capabilities.now_unix_ms();
        tell_apart(audit.as_slice(), &identity, now_unix_ms, &found.events);
        found.settled
    }
}
