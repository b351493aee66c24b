//! The other sessions of a session's conversation: what they are told, and what is heard of them.

use super::{CallDriver, told};
use crate::store_thread::Reading;
use std::collections::VecDeque;
use windlass_session::io::Input;
use windlass_session::model::ModelEvent;
use windlass_session::news::Membership;

impl CallDriver {
    /// No other session is of the conversation, or will be: nobody has to be told what is read or changed in it.
    pub(crate) fn alone(mut self) -> Self {
        self.membership = None;
        self
    }

    /// The session has been of its conversation for longer than it has been begun.
    pub(crate) fn member(mut self, membership: Membership) -> Self {
        self.membership = Some(membership);
        self
    }

    /// The store has been told of something that the others do not know, and answers them behind that.
    pub(super) fn tell_others(&mut self) {
        if let Some(membership) = &mut self.membership {
            membership.tell_others();
        }
    }

    /// Whether another session has changed something since this was asked last.
    pub(crate) fn take_news(&mut self) -> bool {
        let membership = self.membership.as_mut();
        membership.is_some_and(Membership::take_news)
    }

    /// What the core is to hear now: before calls come to it, that others have changed something.
    pub(crate) fn news_before(&mut self, input: Input, inputs: &mut VecDeque<Input>) -> Input {
        let may_change = matches!(input, Input::Model(ModelEvent::Calls(_)));
        if !may_change || !self.take_news() {
            return input;
        }
        inputs.push_front(input);
        Input::ChangedElsewhere
    }

    pub(super) fn note_reading(&mut self, inputs: &mut VecDeque<Input>) {
        if self.membership.is_none() {
            return;
        }
        let answer = self.shared.store.note_reading(Reading {
            conversation_id: self.identity.conversation_id.clone(),
            session_id: self.identity.session_id.clone(),
            now_unix_ms: self.now_unix_ms(),
        });
        let become_input = told("that a conversation holds what others wrote could not be stored");
        self.expect(answer, |answer| become_input(answer.map(|()| None)), inputs);
    }
}
