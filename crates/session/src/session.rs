//! The session itself: one input in, outputs out, and which deadline comes next. Each kind of input has a file of its own
//! beneath this one; the gates of a call are in `policy`.

mod call_input;
mod client_input;
mod confirmation;
mod connection_input;
mod continuation;
mod declined;
mod delivery;
mod elsewhere;
mod ending;
pub mod held;
mod known_late;
mod late_results;
mod ledger;
mod lookup;
mod model_input;
mod neighbours;
mod notice;
mod remembered;
mod reopened;
mod restored;
mod settlement;
mod unrecorded;
mod unsettled;

use crate::calls::Calls;
use crate::client::{ClientUpdate, ErrorCode};
use crate::confirmations::Confirmations;
use crate::connection::Connection;
use crate::deadlines::{Deadline, Deadlines};
use crate::event::{EndReason, SessionEvent, StateChange};
use crate::io::{Input, Output, TokenHash};
use crate::limits::Limits;
use crate::model::{HistoryEntry, ModelProfile};
use crate::policy::{Deliveries, Settled};
use crate::state::StateController;
use crate::time::Timestamp;
use crate::transcript::Transcript;
use crate::turn::Turns;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::id::{CallNumber, ConversationId, SessionId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::registry::Registry;

/// What a session is created with and keeps for its whole life.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    pub session_id: SessionId,
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub mode: Mode,
    /// Pinned: a reload serves new sessions only. A journal names its version alone.
    #[serde(skip, default = "no_registry")]
    pub registry: Arc<Registry>,
    pub limits: Arc<Limits>,
    pub profile: Arc<ModelProfile>,
    /// Milliseconds since the Unix epoch at timestamp zero.
    pub started_unix_ms: u64,
    /// What was said before, in this conversation or in the client's own account of it.
    pub history: Vec<HistoryEntry>,
    /// What the user wants answered at once.
    pub pending_request: Option<String>,
    /// A program that is built with this field cannot be shipped by mistake: it does not compile without naming it.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<crate::planted::PlantedBug>,
}

fn no_registry() -> Arc<Registry> {
    Arc::new(Registry::new("", None, Vec::new()))
}

/// One session of one user.
pub struct Session {
    pub(crate) config: SessionConfig,
    pub(crate) now: Timestamp,
    pub(crate) state: StateController,
    pub(crate) turns: Turns,
    pub(crate) calls: Calls,
    pub(crate) deliveries: Deliveries,
    pub(crate) deadlines: Deadlines,
    pub(crate) connection: Connection,
    pub(crate) confirmations: Confirmations,
    /// Tokens of questions of which this session knows nothing and the store may, one for each answer that waits, with what it was.
    sought: Vec<(TokenHash, bool)>,
    /// Questions of others to which the user said no while the store could not say anything of them.
    unheard_refusals: Vec<TokenHash>,
    unsettled: unsettled::Unsettled,
    notices: notice::Notices,
    /// The model has read text that others wrote, here or in another session of the conversation.
    pub(crate) external_in_context: bool,
    /// The store has been told that it was here.
    is_reading_noted: bool,
    /// From which the jitter of retries comes.
    seed: u64,
    /// When the first session of this one's line began, in milliseconds since the Unix epoch: a session whose process
    /// ended goes on in another.
    pub(crate) began_unix_ms: u64,
    /// Blocks that were made, or are being made, in this session.
    pub(crate) blocks_made: u32,
    transcript: Transcript,
    /// When the user will have heard what the model had said by the end of its last answer.
    audio_ends: Timestamp,
    told: Told,
    lifecycle: Lifecycle,
}

/// What the driver was last told, so that it is told only news.
#[derive(Debug, Default)]
struct Told {
    audio_suppressed: bool,
    microphone_held: bool,
    discarding_audio: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Lifecycle {
    Running,
    /// Over but for the started `writes` calls, which run to their end.
    Draining(EndReason),
    Over,
}

/// What a refused call costs its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// It could not even be read: nothing of the budgets, but it counts as a refusal.
    Nothing,
    /// One call of the total.
    Now,
    /// It was charged when it passed the budgets; a retrieval that does not run is given back.
    Already,
}

/// A session's id is minted from randomness, so that a number made of it is as good as one minted beside it (FNV-1a).
fn seed_of(session: &SessionId) -> u64 {
    session
        .as_str()
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
}

impl Session {
    /// Begins the session. Its first outputs go into `out`.
    pub fn new(config: SessionConfig, out: &mut Vec<Output>) -> Self {
        out.push(Output::Event(SessionEvent::SessionStarted));
        out.push(Output::ReadLedger);
        let seed = seed_of(&config.session_id);
        #[cfg(feature = "planted-bugs")]
        let seed = match config.planted_bug {
            Some(crate::planted::PlantedBug::ActsByChance) => crate::planted::chance(),
            Some(_) | None => seed,
        };
        Self {
            now: Timestamp::default(),
            state: StateController::new(config.mode, config.limits.trail_entries_max),
            turns: Turns::default(),
            calls: Calls::default(),
            deliveries: Deliveries::new(&config.limits),
            deadlines: Deadlines::default(),
            connection: Connection::default(),
            confirmations: Confirmations::default(),
            sought: Vec::new(),
            unheard_refusals: Vec::new(),
            unsettled: unsettled::Unsettled::of_new_session(),
            notices: notice::Notices::default(),
            external_in_context: false,
            is_reading_noted: false,
            seed,
            began_unix_ms: config.started_unix_ms,
            blocks_made: 0,
            transcript: Transcript::default(),
            audio_ends: Timestamp::default(),
            told: Told::default(),
            lifecycle: Lifecycle::Running,
            config,
        }
    }

    /// Takes one input. All outputs that it causes are appended to `out`, in the order in which they are to be obeyed.
    /// Once the session is over, inputs cause nothing.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Output>) {
        if self.is_over() && !has_bug!(self, IgnoresTheEnd) {
            return;
        }
        self.now = self.now.max(now);
        match input {
            Input::Model(event) => {
                if self.lifecycle == Lifecycle::Running {
                    self.on_model(event, out);
                }
            }
            Input::Connection(event) => self.on_connection(event, out),
            Input::Client(event) => {
                if self.lifecycle == Lifecycle::Running {
                    self.on_client(event, out);
                }
            }
            Input::Ledger(ledger) => self.on_ledger(ledger, out),
            Input::ChangedElsewhere => self.on_changed_elsewhere(out),
            Input::Continued(continued) => self.on_continued(continued, out),
            Input::Restored(restored) => self.on_restored(*restored, out),
            Input::Proposed { call, outcome } => self.on_proposed(call, outcome, out),
            Input::Reserved(reservation) => self.on_reserved(reservation, out),
            Input::Recorded {
                effect_id,
                state,
                stored,
            } => self.on_recorded(&effect_id, state, stored, out),
            Input::Declined { token_hash, stored } => self.on_declined(&token_hash, stored, out),
            Input::LookedUp { call, finding } => self.on_looked_up(call, finding, out),
            Input::LookupSpared { call, reason } => self.on_lookup_spared(call, reason, out),
            Input::EffectAwaited { call, entry } => {
                self.on_effect_awaited(call, entry.as_deref(), out);
            }
            Input::ApprovalFound { token_hash, found } => {
                self.on_approval_found(token_hash, found, out);
            }
            Input::RateChecked { call, decision } => self.on_rate_checked(call, decision, out),
            Input::CallFinished { call, result } => self.on_call_finished(call, result, out),
            Input::HandlerMessage { call, message } => self.on_handler_message(call, message, out),
            Input::Shutdown => {
                self.error(ErrorCode::ShuttingDown, "the server is shutting down", out);
                self.finish(EndReason::Shutdown, out);
            }
            Input::Tick => self.on_tick(out),
        }
        self.deliver_late(out);
        self.rotate_if_quiet(out);
        self.close_if_drained(out);
    }

    /// When the next [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.is_over() {
            None
        } else {
            self.deadlines.next()
        }
    }

    /// Whether [`Output::Close`] has been given.
    pub fn is_over(&self) -> bool {
        self.lifecycle == Lifecycle::Over
    }

    /// Whether the model was refused so often in the current turn that it is to be asked for words alone.
    pub fn is_wound_up(&self) -> bool {
        self.turns
            .current()
            .is_some_and(|turn| turn.summary.wound_up)
    }

    /// The highest number that a call of the conversation had so far; zero before the first.
    pub fn last_call(&self) -> CallNumber {
        self.calls.last_number()
    }

    /// Whether a call that changes something has been begun and has not ended.
    pub fn is_changing(&self) -> bool {
        self.calls.iter().any(|call| call.tool().writes())
    }

    /// Whether something comes to its end by itself that no user and no model is asked about: a call that has begun, an outcome
    /// that the store did not take, or a no of which it has not heard. Its deadlines are due then, whether or not anybody speaks.
    pub fn is_working(&self) -> bool {
        let is_busy = self.calls.len() > 0 || self.confirmations.is_any_no_untold();
        !self.is_over() && (is_busy || self.has_unrecorded_outcomes())
    }

    /// Whether the model owes an answer, or is to say something to a result, and it is counted how long that takes.
    pub fn expects_model(&self) -> bool {
        let awaited = [Deadline::ProviderSilence, Deadline::ResultSilence];
        awaited
            .iter()
            .any(|deadline| self.deadlines.is_set(*deadline))
    }

    /// Whether the user is asked the question of this token and has not answered.
    pub fn asks(&self, token_hash: &TokenHash) -> bool {
        let mut open = self.confirmations.iter_open();
        open.any(|(asked, _)| asked.question.token_hash == *token_hash)
    }

    /// The number of the last turn that began; zero before the first.
    pub fn last_turn(&self) -> u64 {
        self.turns.last_number()
    }

    /// What the user was asked, answered or not: the call of each question, and the hash of its token.
    pub fn questions(&self) -> impl Iterator<Item = (CallNumber, TokenHash)> {
        self.confirmations.iter()
    }

    /// Whether the user is asked about this call and has not answered.
    pub fn is_asked(&self, call: CallNumber) -> bool {
        let mut open = self.confirmations.iter_open();
        open.any(|(entry, _)| entry.question.call == call)
    }

    /// The call that the user was asked about with this token, whatever became of the question.
    pub fn call_of_question(&self, token_hash: &TokenHash) -> Option<CallNumber> {
        self.confirmations.call_of(token_hash)
    }

    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Every transition of the application state so far, oldest first, within its limit: when, which call asked, and what
    /// changed or why it was rejected.
    pub fn trail(
        &self,
    ) -> impl Iterator<Item = (Timestamp, Option<CallNumber>, Result<&StateChange, &str>)> {
        self.state.trail().map(|entry| {
            (
                entry.at,
                entry.call,
                entry.change.as_ref().map_err(String::as_str),
            )
        })
    }

    /// Keeps no room for what is to come, for a session that may rest for a day. Changes nothing that can be seen.
    pub fn give_room_back(&mut self) {
        self.calls.give_room_back();
        self.turns.give_room_back();
        self.transcript.give_room_back();
        self.connection.unconfirmed.shrink_to_fit();
    }

    fn on_tick(&mut self, out: &mut Vec<Output>) {
        while let Some(deadline) = self.deadlines.take_due(self.now) {
            match deadline {
                Deadline::Attempt(call) => self.on_timeout(call, out),
                Deadline::Lookup(call) => self.on_lookup_timeout(call, out),
                Deadline::Elsewhere(call) => self.on_elsewhere_timeout(call, out),
                Deadline::Approvals => self.give_up_seeking(out),
                Deadline::Retry(call) => self.on_retry_due(call, out),
                Deadline::Store(call) => self.on_store_timeout(call, out),
                Deadline::Declined(call) => self.tell_declined(call, false, out),
                Deadline::RecordAgain => self.record_again(out),
                Deadline::LedgerAgain => self.ask_ledger_again(out),
                Deadline::Confirmation(call) => self.on_confirmation_expired(call, out),
                Deadline::ProviderSilence => self.on_provider_silence(out),
                Deadline::ResultSilence => {
                    let milliseconds = self.config.limits.result_silence_seconds * 1_000;
                    let event = SessionEvent::ProviderSilentAfterResult { milliseconds };
                    out.push(Output::Event(event));
                    self.nudge(out);
                }
                Deadline::Farewell => self.on_farewell_over(out),
                Deadline::Rotation => self.rotate(out),
                Deadline::Reconnect => self.reconnect(out),
                Deadline::ClientGrace => self.finish(EndReason::ClientLost, out),
            }
        }
        if has_bug!(self, NeverRests) {
            self.deadlines.set(Deadline::RecordAgain, self.now);
        }
    }

    /// The model is given this to read. What others wrote may come up again in each session of the conversation.
    pub(crate) fn note_reading(&mut self, settled: &Settled, out: &mut Vec<Output>) {
        if !settled.quoted || !settled.response.is_ok() {
            return;
        }
        self.external_in_context = true;
        let is_noted = std::mem::replace(&mut self.is_reading_noted, true);
        if !is_noted && !has_bug!(self, KeepsReadingsToItself) {
            out.push(Output::NoteReading);
        }
    }

    fn on_provider_silence(&mut self, out: &mut Vec<Output>) {
        let seconds = self.config.limits.provider_silence_seconds;
        let message = format!("the model has said nothing for {seconds} seconds");
        self.error(ErrorCode::ProviderSilent, message, out);
        self.end_turn(false, out);
    }

    fn error(&self, code: ErrorCode, message: impl Into<String>, out: &mut Vec<Output>) {
        let update = ClientUpdate::Error {
            code,
            message: message.into(),
            details: None,
        };
        out.push(Output::SendClient(update));
    }

    /// From now on something is owed by the provider.
    fn expect_answer(&mut self) {
        let seconds = self.config.limits.provider_silence_seconds;
        let at = self.now + Duration::from_secs(seconds);
        self.deadlines.set(Deadline::ProviderSilence, at);
    }

    /// Milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64 {
        self.config.started_unix_ms + self.now.as_millis()
    }

    /// Tells the driver whether the microphone is to be held back.
    pub(crate) fn hold_microphone(&mut self, out: &mut Vec<Output>) {
        let hold = self.config.profile.hold_microphone && self.calls.any_blocks();
        if std::mem::replace(&mut self.told.microphone_held, hold) != hold {
            out.push(Output::HoldMicrophone(hold));
        }
    }

    /// Tells the driver whether the model may be heard.
    fn suppress_audio(&mut self, out: &mut Vec<Output>) {
        let suppress = self.state.get().suppress_audio;
        if std::mem::replace(&mut self.told.audio_suppressed, suppress) != suppress {
            out.push(Output::SuppressAudio(suppress));
        }
    }
}
