//! The link to the model: the current connection, whether it takes input, and the input that waits for the next one.
//! `policy/reconnect.rs` decides when there is a next one. Knows no call and no answer.

use crate::client::{ClientUpdate, ErrorCode, MessageKey};
use crate::deadlines::Deadline;
use crate::event::SessionEvent;
use crate::facts::Delivered;
use crate::io::Output;
use crate::model::{HistoryEntry, HistoryInput, LostReason, ModelCommand};
use crate::policy::{Reconnect, Verdict};
use crate::saved::WaitingText;
use crate::step::SessionStep;
use std::time::Duration;
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

/// The number of typed messages that wait for the provider. More are refused.
const WAITING_TEXTS_MAX: usize = 8;
/// The message to a model that said nothing about a result.
const NUDGE: &str = "The result of your tool call has arrived. Please go on.";

/// The state of the newest connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The connection does not take input yet.
    Opening,
    Ready,
    /// The connection is gone, or given up, and no other has taken its place yet.
    Lost,
}

/// The provider's connection and its input.
#[derive(Debug)]
pub(crate) struct Link {
    /// The number of the newest connection or request, from 1; 0 before the first.
    generation: u64,
    phase: Phase,
    plan: Reconnect,
    /// The request of the user that is put to the model first.
    pending_request: Option<String>,
    /// The user's typed messages while the provider was not ready.
    waiting_texts: Vec<WaitingText>,
    /// The history for a connection that begins afresh: announced when it is opened, sent when it is ready.
    seed: Vec<HistoryEntry>,
    /// The user's question that no connection has answered yet.
    unanswered: Option<String>,
    /// The nudges left for the last result, if it asks for words.
    nudges_left: u32,
    /// The client was told that the provider is gone.
    is_told_lost: bool,
}

impl Link {
    /// A text model needs no connection: the next request carries the whole conversation.
    pub(crate) fn new(mode: Mode, pending_request: Option<String>) -> Self {
        Self {
            generation: 0,
            phase: match mode {
                Mode::Voice => Phase::Opening,
                Mode::Text => Phase::Ready,
            },
            plan: Reconnect::default(),
            pending_request,
            waiting_texts: Vec::new(),
            seed: Vec::new(),
            unanswered: None,
            nudges_left: 0,
            is_told_lost: false,
        }
    }

    /// Takes up the messages and the question that another process has left, before there is a connection.
    pub(crate) fn restore(&mut self, waiting_texts: Vec<WaitingText>, unanswered: Option<String>) {
        self.phase = Phase::Lost;
        self.waiting_texts = waiting_texts;
        self.unanswered = unanswered;
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation of the newest connection that was asked for.
    pub(crate) fn newest_generation(&self) -> u64 {
        self.plan.generation()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// Whether a delivery can be answered on the connection that it came over.
    pub(crate) fn carries(&self, delivered: &Delivered) -> bool {
        delivered.generation == self.generation && !self.is_lost()
    }

    pub(crate) fn pending_request(&self) -> Option<&String> {
        self.pending_request.as_ref()
    }

    pub(crate) fn waiting_texts(&self) -> &[WaitingText] {
        &self.waiting_texts
    }

    /// Something was said to the model.
    pub(crate) fn said(&mut self) {
        self.plan.said();
    }

    /// The model produces something.
    pub(crate) fn heard(&mut self) {
        self.plan.heard();
    }

    /// A turn has ended as it should.
    pub(crate) fn proved(&mut self) {
        self.plan.proved();
    }

    /// Keeps a typed message until the provider is ready.
    pub(crate) fn wait(
        &mut self,
        text: String,
        message: Option<MessageKey>,
        step: &mut SessionStep,
    ) {
        if self.waiting_texts.len() < WAITING_TEXTS_MAX {
            let text = Sensitive(text);
            self.waiting_texts.push(WaitingText { text, message });
        } else {
            let message = "too many messages before the model is ready";
            step.error(ErrorCode::TooLarge, message);
        }
    }

    /// Takes the input that waits for the provider, in its order.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = WaitingText> + use<> {
        let pending = self.pending_request.take().map(|text| WaitingText {
            text: Sensitive(text),
            message: None,
        });
        pending
            .into_iter()
            .chain(std::mem::take(&mut self.waiting_texts))
    }

    /// Keeps a question that the next connection is asked again.
    pub(crate) fn ask_again(&mut self, words: String) {
        self.unanswered = Some(words);
    }

    pub(crate) fn is_asking_again(&self) -> bool {
        self.unanswered.is_some()
    }

    pub(crate) fn take_unanswered(&mut self) -> Option<String> {
        self.unanswered.take()
    }

    /// Sets how often the model is asked for words, if it says nothing to the results that went out now.
    pub(crate) fn nudges(&mut self, nudges: u32) {
        self.nudges_left = nudges;
    }

    /// Asks a model that says nothing about a result for words, if the configuration wants that.
    pub(crate) fn nudge(&mut self, step: &mut SessionStep) {
        if self.nudges_left == 0 || !self.is_ready() {
            return;
        }
        self.nudges_left -= 1;
        step.tell_model(ModelCommand::UserText(NUDGE.to_owned().into()));
        step.expect_answer();
    }
}

// Connections that come and go.
impl Link {
    /// A request carries the whole conversation, and its answer comes by itself.
    pub(crate) fn requested(&mut self, number: u64) {
        self.generation = number;
        self.phase = Phase::Ready;
    }

    pub(crate) fn connected(&mut self, generation: u64, resumed: bool, step: &mut SessionStep) {
        self.generation = generation;
        if self.is_lost() {
            self.phase = Phase::Opening;
        }
        step.event(SessionEvent::ProviderConnected {
            generation,
            resumed,
        });
    }

    /// The provider takes input. Returns the part of the conversation before this connection that it has to be told; `said_after` gives
    /// the words after so many entries of the transcript.
    pub(crate) fn ready(
        &mut self,
        said_after: impl FnOnce(u64) -> Vec<HistoryEntry>,
        step: &mut SessionStep,
    ) -> Vec<HistoryEntry> {
        self.phase = Phase::Ready;
        self.plan.ready(step.now);
        if std::mem::take(&mut self.is_told_lost) {
            step.tell_client(ClientUpdate::Reconnected);
        }
        if self.plan.generation() <= 1 {
            return step.config.history.clone();
        }
        if !self.plan.is_resuming() {
            return std::mem::take(&mut self.seed);
        }
        // Models that take history at the beginning only take none in a resumed session.
        match step.config.profile.history {
            HistoryInput::ClientContent => said_after(self.plan.recorded()),
            HistoryInput::InitialClientContent => Vec::new(),
        }
    }

    /// A connection ended, or failed to open. Returns the verdict, and the error for the client if no other connection follows.
    pub(crate) fn lost(
        &mut self,
        generation: u64,
        reason: LostReason,
        step: &mut SessionStep,
    ) -> (Verdict, ErrorCode, String) {
        let verdict = self.plan.lost(&reason, step.now, step.limits());
        let (code, message) = describe_loss(&reason);
        step.event(SessionEvent::ProviderLost { generation, reason });
        (verdict, code, message)
    }

    /// Tells the client that the next connection is tried.
    pub(crate) fn tell_lost(&mut self, step: &mut SessionStep) {
        self.is_told_lost = true;
        let attempt = self.plan.attempts();
        step.tell_client(ClientUpdate::Reconnecting { attempt });
    }

    pub(crate) fn go_away(&mut self, time_left: Option<Duration>, step: &mut SessionStep) {
        let time_left_ms =
            time_left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        step.event(SessionEvent::ProviderGoAway { time_left_ms });
        let at = self.plan.go_away(step.now, time_left, step.limits());
        step.deadlines.set(Deadline::Rotation, at);
    }

    /// The provider gave a handle, or says that there is none now. The handle covers the first `recorded` entries of the transcript.
    pub(crate) fn resumable(
        &mut self,
        handle: Option<Sensitive<String>>,
        holds_everything: bool,
        recorded: u64,
        step: &mut SessionStep,
    ) {
        let resumable = handle.is_some();
        step.event(SessionEvent::ProviderResumable { resumable });
        self.plan.update(handle, holds_everything, recorded);
    }

    /// Whether the state of the connection lets it be left for the next.
    pub(crate) fn may_rotate(&self, step: &SessionStep) -> bool {
        let can_resume = step.config.profile.resumption;
        self.plan.is_leaving() && self.plan.may_rotate(can_resume, step.now)
    }

    /// The connection is given up for the next.
    pub(crate) fn give_up(&mut self, step: &SessionStep) {
        self.plan.left(step.now);
    }

    /// The connection is gone, or given up.
    pub(crate) fn leave(&mut self, step: &mut SessionStep) {
        self.phase = Phase::Lost;
        step.heard_provider();
        step.clear(Deadline::Rotation);
    }

    /// Opens the next connection. A connection that begins afresh is told the conversation so far.
    pub(crate) fn reconnect(
        &mut self,
        said: impl FnOnce() -> Vec<HistoryEntry>,
        step: &mut SessionStep,
    ) {
        step.clear(Deadline::Reconnect);
        step.clear(Deadline::Rotation);
        let opening = self.plan.open(step.config.profile.resumption);
        self.seed.clear();
        if opening.handle.is_none() {
            self.seed.extend_from_slice(&step.config.history);
            self.seed.extend(said());
        }
        step.push(Output::Connect {
            generation: opening.generation,
            handle: opening.handle,
            history_follows: !self.seed.is_empty(),
        });
    }
}

/// The error for the client about a lost provider. The details are for the log.
fn describe_loss(reason: &LostReason) -> (ErrorCode, String) {
    let unavailable = |message: &str| (ErrorCode::ProviderUnavailable, message.to_owned());
    match reason {
        LostReason::Unauthorized => (
            ErrorCode::ProviderAuth,
            "the model's provider refused the server's key".to_owned(),
        ),
        LostReason::NoKey => (
            ErrorCode::ProviderAuth,
            "no key was sent to the model's provider; set provider.api_key, or its variable"
                .to_owned(),
        ),
        LostReason::Closed { code, .. } => unavailable(&format!(
            "the model's provider ended the session (close code {code})"
        )),
        LostReason::Network { .. } => unavailable("the model's provider cannot be reached"),
        LostReason::NoWay { .. } => unavailable(
            "this server cannot connect to the model's provider safely; its operator finds why in the log",
        ),
        LostReason::Dropped { .. } => unavailable("the connection to the model's provider broke"),
        LostReason::Refused { status } => unavailable(&format!(
            "the model's provider refused the session (HTTP {status})"
        )),
        LostReason::SetupTimeout => {
            unavailable("the model's provider did not answer the setup in time")
        }
        LostReason::SetupUnreadable => unavailable(
            "the model's provider answered the setup with something that cannot be read",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(link: &mut Link, step: &mut SessionStep) -> Vec<HistoryEntry> {
        link.connected(link.newest_generation(), false, step);
        link.ready(|_| Vec::new(), step)
    }

    fn lost() -> LostReason {
        LostReason::Dropped {
            problem: "gone".to_owned(),
        }
    }

    #[test]
    fn what_is_typed_before_the_model_can_hear_waits_behind_the_first_request() {
        let mut step = SessionStep::for_tests();
        let mut link = Link::new(Mode::Voice, Some("first".to_owned()));
        for number in 0..=WAITING_TEXTS_MAX {
            assert!(step.take_names().is_empty());
            link.wait(number.to_string(), None, &mut step);
        }
        assert_eq!(step.take_names(), ["Error"], "one too many");
        ready(&mut link, &mut step);
        let texts: Vec<WaitingText> = link.take_waiting().collect();
        assert_eq!(texts.len(), 1 + WAITING_TEXTS_MAX);
        assert_eq!(texts[0].text.expose(), "first");
        assert_eq!(link.take_waiting().count(), 0);
    }

    #[test]
    fn a_connection_that_is_left_carries_nothing_and_the_next_is_told_what_was_said() {
        let mut step = SessionStep::for_tests();
        let mut link = Link::new(Mode::Voice, None);
        ready(&mut link, &mut step);
        assert!(link.is_ready() && !link.is_lost());
        let (verdict, _, _) = link.lost(1, lost(), &mut step);
        assert_eq!(verdict, Verdict::Retry(Duration::ZERO));
        link.leave(&mut step);
        assert!(link.is_lost() && !link.is_ready());
        let said = HistoryEntry {
            role: crate::model::Role::User,
            text: Sensitive("hello".to_owned()),
        };
        link.reconnect(|| vec![said.clone()], &mut step);
        assert_eq!(
            step.take_names(),
            ["ProviderConnected", "ProviderLost", "Connect"]
        );
        assert_eq!(ready(&mut link, &mut step), [said]);
        assert_eq!(link.generation(), 2);
    }

    #[test]
    fn a_silent_model_is_nudged_so_often_as_is_allowed() {
        let mut step = SessionStep::for_tests();
        let mut link = Link::new(Mode::Voice, None);
        link.nudges(1);
        link.nudge(&mut step);
        assert!(step.take_names().is_empty(), "nobody can hear it");
        ready(&mut link, &mut step);
        step.take_names();
        link.nudge(&mut step);
        link.nudge(&mut step);
        assert_eq!(step.take_names(), ["UserText"]);
    }
}
