//! The user and the user's program: wants something, speaks, types, interrupts, approves and denies, and does each of it once too often,
//! too late, elsewhere, or with another user's token.

use crate::count::Fault;
use crate::shown::ShownRequest;
use crate::world::World;
use std::collections::VecDeque;
use windlass_contract::id::CallNumber;
use windlass_contract::kind::Mode;
use windlass_driver::SaidAnswer;
use windlass_session::client::{CancelWay, ClientEvent, MessageKey};
use windlass_session::io::Input;
use windlass_session::model::{ModelEvent, RequestEvent};
use windlass_store::QuestionNumber;
use windlass_store::WantedTasks;
use windlass_store::command::Command;

impl World {
    pub(crate) fn user_acts(&mut self, slot: usize) {
        match self.random.below(24) {
            0..=9 => self.user_wants(slot),
            10..=13 => self.user_barges_in(slot),
            14 => self.client(slot, ClientEvent::TurnComplete),
            15 => self.user_interrupts(slot),
            16 => self.client(slot, ClientEvent::PlaybackDone),
            17 => {
                self.fault(Fault::ClientCameBack);
                self.client(slot, ClientEvent::Connected);
            }
            18 => {
                self.fault(Fault::ClientFloods);
                for _ in 0..40 {
                    self.speak(slot);
                }
            }
            19 if self.random.one_in(2) => self.client(slot, ClientEvent::Stop),
            21 if self.random.one_in(2) => self.user_revokes(slot),
            19 => self.user_stops_call(slot),
            20 => {
                self.fault(Fault::ClientLost);
                self.client(slot, ClientEvent::Lost);
            }
            21 => self.client(slot, ClientEvent::MicrophoneOpened),
            22 => self.user_types_again(slot),
            _ => self.feed(slot, Input::Model(ModelEvent::SpeechEnded)),
        }
    }

    /// The user begins to speak, about something new or a repeat.
    fn user_wants(&mut self, slot: usize) {
        let intent = self.some_intent(slot);
        let wanted = self.intents.get(intent);
        let asked = self
            .intents
            .asked(wanted.conversation, &wanted.tool, &wanted.text);
        self.fault_if(asked > 0, Fault::WantedASecondTime);
        self.slots[slot].wanted = Some(intent);
        self.speak(slot);
        if self.is_connected(slot) && !self.random.one_in(4) {
            self.model_calls(slot);
        }
    }

    /// The user speaks into the model's words ("uh, yes, please"), and a model asks for the same again.
    fn user_barges_in(&mut self, slot: usize) {
        if !self.is_connected(slot) {
            return;
        }
        self.fault(Fault::BargeIn);
        self.slots[slot].onsets += 1;
        self.feed(slot, Input::Model(ModelEvent::SpeechStarted));
        if self.random.one_in(2) {
            self.feed(slot, Input::Model(ModelEvent::Interrupted));
        }
        let heard = ModelEvent::InputTranscript {
            text: "uh, yes, please".to_owned().into(),
            finished: true,
        };
        self.feed(slot, Input::Model(heard));
        if self.random.one_in(2) {
            self.fault(Fault::AskedAgainAfterBargeIn);
            self.model_asks_again(slot);
        }
    }

    /// In text mode: the client's connection breaks while a change runs, and the user types the message again.
    fn user_types_again(&mut self, slot: usize) {
        let is_running = self.slots[slot]
            .live
            .and_then(|id| self.lives[id].as_deref())
            .is_some_and(|live| live.running.values().any(|attempt| attempt.run.is_some()));
        if self.slots[slot].mode != Mode::Text || !is_running {
            return self.user_interrupts(slot);
        }
        self.fault(Fault::MessageTypedAgain);
        self.user_interrupts(slot);
        let pause_us = (300 + self.random.below(700)) * 1_000;
        self.advance(self.now_us + pause_us);
        if !self.is_connected(slot) {
            return;
        }
        self.slots[slot].onsets += 1;
        let typed = ClientEvent::Text {
            text: "please".to_owned().into(),
            message: Some(MessageKey::of(&self.mint("m"))),
        };
        self.feed(slot, Input::Client(typed));
        self.model_begins_anew(slot);
        self.model_asks_again(slot);
    }

    /// The user wants a task stopped, wherever it was begun, and whatever its state.
    fn user_cancels_task(&mut self, slot: usize) -> bool {
        let of = self.conversations[self.slots[slot].conversation].clone();
        let store = self.any_store();
        let tasks = store.inner().tasks_of(&WantedTasks {
            tenant: &of.tenant,
            user_id: &of.user_id,
            prefix: None,
            conversation_id: Some(&of.conversation_id),
            only_running: !self.random.one_in(4),
            behind: None,
            tasks_max: 1,
        });
        let task = tasks.unwrap_or_default().pop();
        let serving = self.serving();
        let (Some((_, task)), false) = (task, serving.is_empty()) else {
            return false;
        };
        self.fault(match task.is_accepted() {
            true => Fault::AcceptedTaskCancelled,
            false => Fault::TaskCancelled,
        });
        let process = *self.random.pick(&serving);
        let effect_id = task.effect_id;
        drop(self.apply(process, &of, Command::CancelTask { effect_id }));
        self.plan_commit(process);
        true
    }

    /// The user wants one call stopped: one of the last, or one that does not exist.
    fn user_stops_call(&mut self, slot: usize) {
        if self.random.one_in(2) && self.user_cancels_task(slot) {
            return;
        }
        let live = self.slots[slot].live;
        let live = live.and_then(|id| self.lives[id].as_deref());
        let Some(last) = live.map(|live| live.session.last_call()) else {
            return;
        };
        self.fault(Fault::CallStoppedByUser);
        let call = CallNumber(last.0.saturating_sub(self.random.below(3)));
        let way = CancelWay::Socket;
        self.feed(slot, Input::Client(ClientEvent::Cancel { call, way }));
    }

    /// The user revokes a standing approval, or one that does not exist.
    fn user_revokes(&mut self, slot: usize) {
        let conversation = self.slots[slot].conversation;
        let standing = self.judge.standing.iter().rev();
        let mut own = standing.filter(|known| known.conversation == conversation);
        let number = own.next().map(|known| known.question.number);
        let approval = number.unwrap_or(QuestionNumber(1));
        self.fault(Fault::StandingRevoked);
        self.feed(slot, Input::Client(ClientEvent::Revoke { approval }));
    }

    fn speak(&mut self, slot: usize) {
        self.slots[slot].onsets += 1;
        let text = || "please".to_owned().into();
        // A client may know its messages, and send one again.
        let message = match self.random.below(6) {
            0 => Some(MessageKey::of("m-1")),
            1 => Some(MessageKey::of("m-2")),
            _ => None,
        };
        let input = match self.random.below(3) {
            0 if self.is_connected(slot) => Input::Model(ModelEvent::InputTranscript {
                text: text(),
                finished: false,
            }),
            1 if self.is_connected(slot) => Input::Model(ModelEvent::SpeechStarted),
            _ => Input::Client(ClientEvent::Text {
                text: text(),
                message,
            }),
        };
        self.feed(slot, input);
    }

    /// The user wants no more of the answer.
    fn user_interrupts(&mut self, slot: usize) {
        match self.slots[slot].mode {
            Mode::Voice => self.client(slot, ClientEvent::Interrupt),
            Mode::Text => {
                self.slots[slot].onsets += 1;
                self.feed(slot, Input::Request(RequestEvent::GivenUp));
            }
        }
    }

    fn client(&mut self, slot: usize, event: ClientEvent) {
        // Some of it begins a turn of the user's.
        self.slots[slot].onsets += 1;
        let live = self.slots[slot]
            .live
            .and_then(|id| self.lives[id].as_deref_mut());
        match (&event, live) {
            (ClientEvent::Lost, Some(live)) => live.is_client_gone = true,
            (ClientEvent::Connected, Some(live)) => live.is_client_gone = false,
            _ => {}
        }
        self.feed(slot, Input::Client(event));
    }

    pub(crate) fn user_answers(&mut self, slot: usize) {
        let conversation = self.slots[slot].conversation;
        let known = self.tokens.iter().rev();
        let mut own = known.filter(|token| token.conversation == conversation);
        let back = self.random.index(3).min(self.random.index(3));
        let Some(token) = own.nth(back).cloned() else {
            return self.user_acts(slot);
        };
        self.the_shown_end_is_the_ledgers(&token);
        match self.random.below(12) {
            0..=4 => self.answer(slot, &token, true),
            5 => self.answer(slot, &token, false),
            6 => {
                self.fault(Fault::AnsweredTwice);
                self.answer(slot, &token, true);
                self.answer(slot, &token, true);
            }
            7 => {
                self.fault(Fault::AnsweredBothWays);
                let first = self.random.one_in(2);
                self.answer(slot, &token, first);
                self.answer(slot, &token, !first);
            }
            8 => {
                self.fault(Fault::AnsweredForged);
                self.answer(slot, &token.forged(), true);
            }
            9 => {
                let strangers = 0..self.slots.len();
                let stranger = strangers
                    .filter(|other| self.slots[*other].conversation != conversation)
                    .find(|other| self.is_served(*other));
                if let Some(stranger) = stranger {
                    self.fault(Fault::AnsweredByStranger);
                    self.answer(stranger, &token, true);
                }
            }
            10 => {
                self.fault(Fault::AnsweredLate);
                let wait_us = self.random.below(400_000) * 1_000;
                self.advance(self.now_us + wait_us);
                let approved = !self.random.one_in(3);
                self.answer(slot, &token, approved);
            }
            _ => {
                self.answer(slot, &token, true);
                if self.random.one_in(2) {
                    self.user_barges_in(slot);
                }
            }
        }
    }

    fn answer(&mut self, slot: usize, token: &ShownRequest, approved: bool) {
        if !self.is_served(slot) {
            return;
        }
        if let Some(id) = self.slots[slot].live {
            self.answer_in(id, slot, token, approved);
        }
    }

    /// A program of the user's posts the answer, whether or not a session of the conversation is there.
    pub(crate) fn user_answers_over_http(&mut self, slot: usize) {
        let conversation = self.slots[slot].conversation;
        let known = self.tokens.iter().rev();
        let mut own = known.filter(|token| token.conversation == conversation);
        let back = self.random.index(3).min(self.random.index(3));
        let Some(token) = own.nth(back).cloned() else {
            return;
        };
        let serving = self.serving();
        let process = *self.random.pick(&serving);
        let Some(id) = self.begin_apart(slot, process) else {
            return;
        };
        self.fault(Fault::AnsweredOverHttp);
        self.fault_if(
            token.is_orphaned(&self.lives),
            Fault::AnsweredAfterSessionEnd,
        );
        self.go_on();
        let approved = !self.random.one_in(5);
        self.answer_in(id, slot, &token, approved);
    }

    fn answer_in(&mut self, id: usize, slot: usize, token: &ShownRequest, approved: bool) {
        let is_meant = self.slots[slot].conversation == token.conversation;
        if is_meant && token.slot != slot {
            self.fault(Fault::AnsweredOnAnotherLeg);
        }
        self.trace(|| format!("slot {slot} ANSWERS {:?} {approved}", token.question));
        let is_known = self.tokens.iter().any(|known| known.text == token.text);
        let input = self.input_answer(token, approved);
        let fits = input.as_ref().is_none_or(|input| input.fits);
        self.fault_if(
            token.is_orphaned(&self.lives),
            Fault::AnsweredAfterSessionEnd,
        );
        if let Some(input) = &input
            && is_meant
            && is_known
            && fits
        {
            self.note_input(token, approved, &input.sent);
        }
        if approved && is_meant && is_known && fits {
            let place = (token.conversation, token.question);
            self.judge.approved.insert(place);
        }
        // A client may want an approval remembered, even if that was not offered.
        let remember = approved && self.random.one_in(2);
        if remember && is_meant && is_known {
            let place = (token.conversation, token.question);
            self.judge.remembers.insert(place);
        }
        let said = SaidAnswer {
            approved,
            reason: Some("Yes, do it."),
            remember,
            input: input.as_ref().map(|input| &input.sent),
        };
        let mut inputs = VecDeque::new();
        if let Some(live) = self.lives[id].as_deref_mut() {
            // If the store cannot be read, the host tells the client so, and no one else has heard it.
            let heard = live.driver.answer(&token.text, said, &mut inputs);
            if heard.is_err() {
                return;
            }
        }
        if is_meant && is_known && fits {
            self.clicks(token, id);
        }
        for input in inputs {
            self.hear(id, input);
        }
        self.go_on();
    }
}
