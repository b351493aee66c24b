//! The destination of a provider message's contents: audio goes to the client at once, events go to the core afterwards. Knows no
//! policy.

use super::client_side::ClientSide;
use crate::codec::Sink;
use crate::pump::Pump;
use std::time::Duration;
use windlass_session::model::ModelEvent;
use windlass_session::time::Timestamp;

/// Sends the audio of one provider message on its way and keeps its events for the core.
pub(super) struct FrameSink<'a> {
    pub(super) pump: &'a mut Pump,
    pub(super) client: &'a mut ClientSide,
    pub(super) at: Timestamp,
    pub(super) events: Vec<ModelEvent>,
    /// The beginning of an answer: the client gets its announcement before its audio.
    pub(super) beginning: Vec<u8>,
}

impl Sink for FrameSink<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.events.push(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        let begins = matches!(self.events.last(), Some(ModelEvent::AudioStarted));
        if begins || !self.beginning.is_empty() {
            return self.beginning.extend_from_slice(pcm);
        }
        if !self.pump.admits_speech(pcm.len()) {
            return;
        }
        if self.client.speak(pcm) {
            self.pump.spoken(self.at, pcm.len());
        } else {
            self.pump.client_slow(pcm.len());
        }
    }

    fn unplayed(&self) -> Duration {
        self.pump.unplayed(self.at)
    }
}
