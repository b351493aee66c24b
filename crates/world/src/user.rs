//! The user and the user's program: speaks, types, interrupts, approves and declines, and does each of it once too often,
//! too late, or with somebody else's token.

use crate::count::Fault;
use crate::world::World;
use windlass_session::client::{ClientEvent, MessageKey};
use windlass_session::io::{Input, TokenHash};
use windlass_session::model::ModelEvent;

impl World {
    pub(crate) fn user_acts(&mut self, index: usize) {
        let text = || "please".to_owned().into();
        // A client may know its messages, and send one again.
        let message = match self.random.below(6) {
            0 => Some(MessageKey::of("m-1")),
            1 => Some(MessageKey::of("m-2")),
            _ => None,
        };
        match self.random.below(24) {
            0..=4 => self.client(
                index,
                ClientEvent::Text {
                    text: text(),
                    message,
                },
            ),
            5..=11 if self.lanes[index].is_connected => {
                self.lanes[index].inputs += 1;
                let heard = ModelEvent::InputTranscript {
                    text: text(),
                    finished: false,
                };
                self.feed(index, Input::Model(heard));
            }
            12 if self.lanes[index].is_connected => {
                self.lanes[index].inputs += 1;
                self.feed(index, Input::Model(ModelEvent::SpeechStarted));
            }
            13 => self.client(index, ClientEvent::TurnComplete),
            14 | 15 => self.client(index, ClientEvent::Interrupt),
            16 => self.client(index, ClientEvent::PlaybackDone),
            17 => self.client_comes_back(index),
            18 => {
                self.fault(Fault::ClientFloods);
                for _ in 0..40 {
                    self.client(
                        index,
                        ClientEvent::Text {
                            text: text(),
                            message,
                        },
                    );
                }
            }
            19 if self.random.one_in(2) => self.client(index, ClientEvent::Stop),
            21 if self.random.one_in(4) => {
                self.lanes[index].has_microphone = true;
                self.feed(index, Input::Client(ClientEvent::MicrophoneOpened));
            }
            20 if self.random.one_in(3) => {
                self.lanes[index].is_client_here = false;
                self.client(index, ClientEvent::Lost);
            }
            _ => {
                if self.lanes[index].is_connected {
                    self.feed(index, Input::Model(ModelEvent::SpeechEnded));
                }
            }
        }
    }

    fn client(&mut self, index: usize, event: ClientEvent) {
        self.lanes[index].inputs += 1;
        self.feed(index, Input::Client(event));
    }

    /// A client that comes back knows no token any more, and is given new ones.
    pub(crate) fn client_comes_back(&mut self, index: usize) {
        self.fault(Fault::ClientCameBack);
        self.lanes[index].is_client_here = true;
        self.feed(index, Input::Client(ClientEvent::Connected));
    }

    pub(crate) fn client_confirms(&mut self, index: usize) {
        let Some(token) = self.lanes[index].tokens.last().copied() else {
            return self.user_acts(index);
        };
        match self.random.below(12) {
            0..=3 => self.confirm(index, token, true),
            4 => self.confirm(index, token, false),
            5 => {
                self.fault(Fault::ConfirmedTwice);
                self.confirm(index, token, true);
                self.confirm(index, token, true);
            }
            6 => {
                self.fault(Fault::ConfirmedAndDeclined);
                let first = self.random.one_in(2);
                self.confirm(index, token, first);
                self.confirm(index, token, !first);
            }
            7 => {
                self.fault(Fault::ConfirmedForged);
                self.confirm(index, [9; 32], true);
            }
            8 if self.seats > 1 => {
                let other = 1 - index;
                if let Some(token) = self.lanes[other].tokens.last().copied() {
                    self.fault(Fault::ConfirmedForeign);
                    self.confirm(index, token, true);
                }
            }
            _ => {
                let place = self.random.index(self.lanes[index].tokens.len());
                let token = self.lanes[index].tokens[place];
                self.confirm(index, token, true);
            }
        }
    }

    pub(crate) fn confirm(&mut self, index: usize, token_hash: TokenHash, approved: bool) {
        self.note_answer(index, &token_hash, approved);
        self.lanes[index].inputs += 1;
        let event = ClientEvent::Confirm {
            token_hash,
            approved,
        };
        self.feed(index, Input::Client(event));
    }
}
