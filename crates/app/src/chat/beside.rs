//! Questions of a conversation that another user was asked than the one whom its session by text is for, as by a voice session
//! that is gone: they are answered in a session of that user's. Knows no model's protocol.

use super::conversation::{Asked, Conversation};
use super::held::SessionMaker;
use super::sink::ChatSink;
use super::{ChatHost, refuse};
use windlass_runtime::effects::Ended;
use windlass_runtime::text::{Consent, Past, TextSession, TurnInput};
use windlass_tool::id::UserId;

impl ChatHost {
    /// Of a question that another user was asked than the one whom the conversation's session is for, that user.
    pub(super) fn of_another_user(
        &self,
        conversation: &Conversation,
        maker: &SessionMaker,
        input: &TurnInput,
        session: Option<&TextSession>,
    ) -> Option<SessionMaker> {
        let TurnInput::Confirm(consents) = input else {
            return None;
        };
        let Consent { token_hash, .. } = consents.last()?;
        // What was asked by text was asked by the conversation's session, whoever has spoken to it since.
        let asked = conversation
            .asked(token_hash)
            .filter(|asked| asked.by_voice);
        let Asked {
            user_id, client_id, ..
        } = asked?;
        let live = session.filter(|session| !session.is_over());
        let live = live.map(|session| session.user_id().clone());
        let of_session = live.or_else(|| conversation.ended().map(|(user_id, _)| user_id));
        if of_session.as_ref().unwrap_or(&maker.user_id) == &user_id {
            return None;
        }
        let client_id = client_id.unwrap_or_else(|| maker.client_id.clone());
        Some(SessionMaker {
            world: self.world.of_known_user(&client_id, &user_id),
            client_id,
            user_id,
        })
    }

    /// Answers such a question in a session of that user's own, beside the conversation's. The conversation keeps nothing of
    /// it but what it changed.
    pub(super) async fn answer_beside(
        &self,
        conversation: &Conversation,
        maker: SessionMaker,
        input: TurnInput,
        sink: &mut ChatSink,
        given_up: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Option<(UserId, Ended)> {
        let (toolbox, id) = (self.toolbox.load_full(), conversation.id.clone());
        let session = self.session(maker, id, toolbox, conversation.said(), Past::Unknown);
        let Ok(mut session) = session else {
            refuse(sink, "the server cannot begin a session now");
            return None;
        };
        let instruction = session.instruction();
        session.turn(input, &instruction, sink, given_up).await;
        session.suspend().await;
        None
    }
}
