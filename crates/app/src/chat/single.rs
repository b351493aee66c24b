//! Sessions that belong to no conversation of the server's: a completion's, which is forgotten after its one turn, and the
//! terminal's, which its caller holds. Knows no store of conversations.

use super::asker::Asker;
use super::owner::ConversationOwner;
use super::session_cache::{HeldSession, SessionMaker, SessionRequest};
use super::{ChatHost, ChatRefusal, broken, refuse_blocked, unavailable};
use crate::clock::UserZone;
use crate::crowding;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;
use windlass_contract::id::{ClientId, ConversationId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;
use windlass_runtime::caller::{Caller, Validity};
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::text::{Past, TurnEnd, TurnInput, TurnMemory, TurnSink, UserInput};
use windlass_session::model::HistoryEntry;
use windlass_store::Beginner;

/// A program's request for an answer.
pub(crate) struct Completion<'a> {
    pub(crate) asker: Asker,
    /// The conversation of a request that may come again, so that another process recognizes its changes, too; `None` makes a new
    /// conversation.
    pub(crate) conversation: Option<ConversationId>,
    /// The user for whom the program says it speaks.
    pub(crate) named: Option<&'a str>,
    /// That user's time zone, if the program knows it.
    pub(crate) zone: Option<UserZone>,
    /// The conversation so far.
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) input: UserInput,
    /// The program's instructions to the model, beside the server's own.
    pub(crate) instructions: &'a str,
}

/// Counts the sessions that have not ended, so that a caller can wait for their end, and says when that is waited for.
#[derive(Clone, Default)]
pub(crate) struct Completing {
    sessions: Arc<watch::Sender<usize>>,
    is_closed: Arc<watch::Sender<bool>>,
}

impl Completing {
    pub(super) fn begin(&self) -> Counted {
        self.sessions.send_modify(|sessions| *sessions += 1);
        Counted(self.sessions.clone())
    }

    /// Nothing is waited for from now on that could be left out.
    pub(super) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    pub(super) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut is_closed = self.is_closed.subscribe();
        async move {
            // An error says that the server is gone, too.
            drop(is_closed.wait_for(|is_closed| *is_closed).await);
        }
    }

    /// Waits until all have ended, with the changes that they have begun.
    pub(super) async fn drained(&self) {
        let mut sessions = self.sessions.subscribe();
        // The sender is ours, so that the wait cannot fail.
        let _ = sessions.wait_for(|sessions| *sessions == 0).await;
    }
}

/// One of them, for as long as it lives.
pub(super) struct Counted(Arc<watch::Sender<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|sessions| *sessions -= 1);
    }
}

impl ChatHost {
    /// One turn of a session that is forgotten afterwards. Its caller runs it to its end, even if the client has left: a change
    /// that it has begun is over only then.
    pub(crate) async fn complete(
        &self,
        completion: Completion<'_>,
        sink: &mut dyn TurnSink,
        cancelled: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Result<TurnEnd, ChatRefusal> {
        let Completion {
            asker,
            conversation,
            named,
            zone,
            history,
            input,
            instructions,
        } = completion;
        let Asker {
            caller,
            beginner,
            memory,
        } = asker;
        let caller = caller.speaking_for(named);
        let zone = zone.or_else(|| UserZone::of_name(caller.zone.as_deref()));
        let (user_id, capabilities) = self.capabilities.of_user(&caller, named);
        refuse_blocked(&user_id, capabilities.as_ref())?;
        self.refuse_crowded(&caller.tenant, &beginner)?;
        let counted = self.completing.begin();
        let whose = ConversationOwner::begun_by(&caller, Some(&user_id));
        let conversation_id = match conversation {
            Some(known) => known,
            None => ids::conversation_id().map_err(|error| broken(&error))?,
        };
        let toolbox = self.toolbox.load_full();
        let request = SessionRequest {
            reference: whose.reference(&caller.tenant, &conversation_id),
            maker: SessionMaker {
                user_id,
                client_id: caller.client_id,
                zone: zone.clone(),
                page: None,
                rights: caller.rights,
                validity: caller.validity.clone(),
                capabilities,
                beginner,
                past: None,
                memory,
                shown: Vec::new(),
            },
            mode: Mode::Text,
            limits: self.limits.clone(),
            settings: self.settings.clone(),
            history,
            past: Past::none(),
            can_ask: false,
            can_ask_input: false,
        };
        let begun = self.held_session(request, &toolbox, &toolbox.completions);
        let mut session = begun.map_err(|error| broken(&error))?;
        let own = session.instruction(zone.as_ref());
        let instruction = match instructions.trim() {
            "" => own,
            theirs => {
                format!("{own}\n\n# What the calling program asks of you\n\n{theirs}\n").into()
            }
        };
        let mut given_up = std::pin::pin!(async {
            tokio::select! {
                () = cancelled => {}
                () = caller.validity.over() => {}
            }
        });
        let end = session
            .turn(
                TurnInput::User(input),
                &instruction,
                sink,
                given_up.as_mut(),
            )
            .await;
        tokio::spawn(async move {
            session.end_for_good().await;
            drop(counted);
        });
        Ok(end)
    }

    /// A session that its caller holds, as the terminal does.
    pub(crate) fn session_of(
        &self,
        client_id: ClientId,
        user_id: UserId,
        rights: Rights,
    ) -> Result<HeldSession, NoRandomness> {
        let toolbox = self.toolbox.load_full();
        let whose = ConversationOwner {
            owner: Some(client_id.clone()),
            user_id: user_id.clone(),
        };
        let conversation_id = ids::conversation_id()?;
        let request = SessionRequest {
            maker: SessionMaker {
                user_id,
                client_id,
                zone: None,
                page: None,
                rights,
                validity: Validity::default(),
                capabilities: Arc::new(self.capabilities.clone()),
                beginner: Beginner::default(),
                past: None,
                memory: TurnMemory::default(),
                shown: Vec::new(),
            },
            reference: whose.reference(&TenantId::default(), &conversation_id),
            mode: Mode::Text,
            limits: self.limits.clone(),
            settings: self.settings.clone(),
            history: Vec::new(),
            past: Past::none(),
            can_ask: true,
            // A terminal shows no forms.
            can_ask_input: false,
        };
        self.held_session(request, &toolbox, toolbox.of(Mode::Text))
    }

    /// Refuses where a party has as many conversations as its share.
    pub(super) fn refuse_crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<(), ChatRefusal> {
        let crowded = self.conversations.store().crowded(tenant, beginner);
        match crowded.map_err(unavailable)? {
            Some(kind) => Err(ChatRefusal::Crowded(crowding::note(kind, &self.metrics))),
            None => Ok(()),
        }
    }

    /// Whether the user may be served at all.
    pub(crate) fn check_user(
        &self,
        caller: &Caller,
        named: Option<&str>,
    ) -> Result<(), ChatRefusal> {
        let caller = caller.speaking_for(named);
        let (user_id, capabilities) = self.capabilities.of_user(&caller, named);
        refuse_blocked(&user_id, capabilities.as_ref())
    }

    /// The same for the user of a session that its caller holds.
    pub(crate) fn check_user_of_session(&self, user_id: &UserId) -> Result<(), ChatRefusal> {
        refuse_blocked(user_id, &self.capabilities)
    }
}
