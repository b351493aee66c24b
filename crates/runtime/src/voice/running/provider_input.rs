//! Input from the provider's connection to the core: messages, losses, and the next connection in place of a lost one. Knows no
//! wire format; that is the codec's.

use super::Running;
use crate::codec::Sink;
use crate::transport::websocket::Reading;
use crate::voice::client_side::ClientSide;
use crate::voice::frame_sink::FrameSink;
use crate::voice::link::{Link, Wanted};
use std::collections::VecDeque;
use tokio::time::Instant;
use windlass_session::io::Input;
use windlass_session::model::{ConnectionEvent, LostReason, ModelEvent};
use windlass_session::time::Timestamp;

impl Running {
    /// Opens the next connection in place of the current one.
    pub(super) fn connect(&mut self, wanted: &Wanted, now: Instant) {
        let settings = &self.service.settings;
        let next = Link::open(
            self.provider.as_ref(),
            self.core.config(),
            wanted,
            now + settings.setup_timeout,
        );
        self.link.replace(next, now + settings.close_timeout);
    }

    pub(super) fn read(&mut self, mut reading: Reading, client: &mut ClientSide, now: Instant) {
        let at = self.timestamp(now);
        let generation = self.link.generation();
        // Messages of a replaced connection are ignored.
        while self.ended.is_none() && self.link.generation() == generation {
            let message = match reading.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    let problem = error.to_string();
                    return self.link_lost(LostReason::Dropped { problem }, client, now);
                }
            };
            if !self.hear(client, now, at, |link, sink| link.take(message, sink)) {
                return;
            }
        }
        self.link.finish(reading);
    }

    /// Takes the codec's own output.
    pub(super) fn worked(&mut self, client: &mut ClientSide, now: Instant) {
        let at = self.timestamp(now);
        self.hear(client, now, at, Link::work);
    }

    /// Passes the codec's events to the core and the client. Returns false if the connection is lost.
    fn hear(
        &mut self,
        client: &mut ClientSide,
        now: Instant,
        at: Timestamp,
        say: impl FnOnce(&mut Link, &mut dyn Sink) -> Result<(), LostReason>,
    ) -> bool {
        let generation = self.link.generation();
        let mut sink = FrameSink {
            pump: &mut self.pump,
            client,
            at,
            events: Vec::new(),
            beginning: Vec::new(),
        };
        let outcome = say(&mut self.link, &mut sink);
        let (events, mut beginning) = (sink.events, sink.beginning);
        for event in events {
            if self.link.generation() == generation {
                let begins = event == ModelEvent::AudioStarted;
                self.model_event(event, client, now);
                if begins {
                    self.play(&std::mem::take(&mut beginning), client, at);
                }
            }
        }
        if let Err(reason) = outcome
            && self.link.generation() == generation
        {
            self.link_lost(reason, client, now);
            return false;
        }
        true
    }

    fn play(&mut self, pcm: &[u8], client: &mut ClientSide, at: Timestamp) {
        let mut sink = FrameSink {
            pump: &mut self.pump,
            client,
            at,
            events: Vec::new(),
            beginning: Vec::new(),
        };
        sink.audio(pcm);
    }

    fn model_event(&mut self, event: ModelEvent, client: &mut ClientSide, now: Instant) {
        match event {
            ModelEvent::Ready { .. } if self.link.is_ready() => {}
            ModelEvent::Ready { .. } => {
                self.link.becomes_ready(now);
                let connected = ConnectionEvent::Connected {
                    generation: self.link.generation(),
                    resumed: self.link.is_resuming(),
                };
                let inputs = [Input::Connection(connected), Input::Model(event)];
                self.feed(VecDeque::from(inputs), client, now);
                if let Err(reason) = self.link.send_held(&mut self.pump) {
                    self.link_lost(reason, client, now);
                }
            }
            ModelEvent::TurnComplete { idle, reason, .. } => {
                let unplayed = self.pump.unplayed(self.timestamp(now));
                let event = ModelEvent::TurnComplete {
                    idle,
                    reason,
                    unplayed,
                };
                self.input(Input::Model(event), client, now);
            }
            ModelEvent::GenerationComplete => {
                let unplayed = self.pump.unplayed(self.timestamp(now));
                let mut inputs = VecDeque::from([Input::Model(event)]);
                if !unplayed.is_zero() {
                    inputs.push_front(Input::Model(ModelEvent::Unplayed(unplayed)));
                }
                self.feed(inputs, client, now);
            }
            other => self.input(Input::Model(other), client, now),
        }
    }

    pub(super) fn link_lost(&mut self, reason: LostReason, client: &mut ClientSide, now: Instant) {
        let input = self.lose_link(reason);
        self.input(input, client, now);
    }

    pub(super) fn lose_link(&mut self, reason: LostReason) -> Input {
        self.link.close();
        let session = &self.calls.identity.session_id;
        tracing::warn!(%session, ?reason, "the provider's connection is lost");
        Input::Connection(ConnectionEvent::Lost {
            generation: self.link.generation(),
            reason,
        })
    }
}
