//! What a text session has to do with those before it and after it: what it is told when it begins, and which of its changes
//! count as answered for whoever goes on.

use super::TurnSink;
use super::patience::Patience;
use super::session::{TextSession, Wake};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use windlass_session::io::{Input, Output};
use windlass_session::news::Membership;

/// What is known of the conversation's earlier sessions when one begins.
pub enum Past {
    /// There are none: the conversation's id has just been made, so that nobody can have changed anything under it.
    None,
    /// The same, and nobody will go on with it: what is read in it concerns this session alone.
    Alone,
    /// The store is asked what the conversation has changed.
    Unknown,
    /// What [`crate::effects::inherited`] has of them, the ledger among it.
    Inherited {
        inputs: Vec<Input>,
        /// Since before they were read, so that what others change meanwhile is news.
        membership: Membership,
    },
}

impl TextSession {
    /// A turn has come to its end in words: where what was said is kept, its changes count as answered.
    pub(super) fn hand_over_answered(&mut self, sink: &mut dyn TurnSink) {
        if self.answered.is_empty() {
            return;
        }
        let mut inputs = VecDeque::new();
        for effect_id in sink.answered(std::mem::take(&mut self.answered)) {
            let mark = Output::MarkAnswered { effect_id };
            self.calls.obey(mark, &mut inputs);
        }
    }

    /// Waits until it is known what the conversation has changed, so that the model hears of it before it answers; not for long.
    pub(super) async fn await_past(
        &mut self,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) {
        if self.calls.take_news() {
            self.awaits_past = true;
            self.feed(Input::ChangedElsewhere, sink);
        }
        let longest = Duration::from_millis(self.core.config().limits.reserve_timeout_ms);
        let until = patience.until;
        patience.until = until.min(Instant::now() + longest);
        while self.awaits_past {
            let nothing = std::future::pending::<()>();
            match self.wait(nothing, patience, sink).await {
                Wake::Model(()) | Wake::Core => {}
                Wake::Cancelled | Wake::Late => break,
            }
        }
        patience.until = until;
    }
}
