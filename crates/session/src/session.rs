//! The session itself: one input in, outputs out, and which deadline comes next. It routes inputs to its components, which own
//! their state: turns, calls, approvals, the link to the model, speech. What the model and the client do is in `conversation`,
//! what becomes of calls in `requests`.

mod conversation;
mod requests;

use crate::approvals::Approvals;
use crate::calls::{Calls, LATE_MAX};
use crate::client::{ClientUpdate, ErrorCode};
use crate::deadlines::{Deadline, Deadlines};
use crate::event::{EndReason, SessionEvent, StateChange};
use crate::io::{Input, News, Output};
use crate::limits::Limits;
use crate::link::{Link, NOTICES_MAX};
use crate::model::{HistoryEntry, ModelProfile};
use crate::speech::{Transcript, UserTurn};
use crate::state::StateController;
use crate::time::Timestamp;
use crate::turn::Turns;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use windlass_store::{Epoch, LegRef, Nonce};
use windlass_tool::id::{CallNumber, ConversationId, EffectId, SessionId, TenantId, UserId};
use windlass_tool::json::hex;
use windlass_tool::kind::Mode;
use windlass_tool::registry::Registry;

/// What a session is created with and keeps for its whole life.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    pub session_id: SessionId,
    /// How often the session has been taken over; 1 for a new one. With the session's id it names the leg.
    pub epoch: Epoch,
    pub tenant: TenantId,
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
    /// What was said before, from the log of the conversation or from the client's own account.
    pub history: Vec<HistoryEntry>,
    /// The highest number that a call of the conversation had: the client knows calls by their numbers.
    pub last_call: CallNumber,
    /// Whether there is a client who can be asked for consent.
    pub can_ask: bool,
    /// What the user wants answered at once.
    pub pending_request: Option<String>,
}

fn no_registry() -> Arc<Registry> {
    Arc::new(Registry::new("", None, Vec::new()))
}

impl SessionConfig {
    pub fn leg(&self) -> LegRef {
        LegRef {
            leg: self.session_id.clone(),
            epoch: self.epoch,
        }
    }
}

/// One session of one user.
pub struct Session {
    config: SessionConfig,
    now: Timestamp,
    state: StateController,
    turns: Turns,
    calls: Calls,
    approvals: Approvals,
    deadlines: Deadlines,
    link: Link,
    transcript: Transcript,
    user_turn: UserTurn,
    /// The store has been told that the model has read what others wrote.
    is_tainted: bool,
    /// Seed of the jitter of retries.
    seed: u64,
    /// Blocks that were made, or are being made, in this session.
    blocks_made: u32,
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
    /// Over but for the started `writes` calls, which run to their end, and answers that the ledger has not taken yet.
    Draining(EndReason),
    Over,
}

/// How much a session holds of what grows while it runs, beside what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub name: &'static str,
    pub held: usize,
    pub most: usize,
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
        Self {
            now: Timestamp::default(),
            state: StateController::new(config.mode, config.limits.trail_entries_max),
            turns: Turns::default(),
            calls: Calls::new(&config.limits, config.last_call),
            approvals: Approvals::default(),
            deadlines: Deadlines::default(),
            link: Link::default(),
            transcript: Transcript::default(),
            user_turn: UserTurn::default(),
            is_tainted: false,
            seed: seed_of(&config.session_id),
            blocks_made: 0,
            audio_ends: Timestamp::default(),
            told: Told::default(),
            lifecycle: Lifecycle::Running,
            config,
        }
    }

    /// Takes one input. All outputs that it causes are appended to `out`, in the order in which they are to be performed.
    /// Once the session is over, inputs cause nothing.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Output>) {
        if self.is_over() {
            return;
        }
        self.now = self.now.max(now);
        let is_running = self.lifecycle == Lifecycle::Running;
        match input {
            Input::Model(event) if is_running => self.on_model(event, out),
            Input::Client(event) if is_running => self.on_client(event, out),
            Input::Model(_) | Input::Client(_) => {}
            Input::Connection(event) => self.on_connection(event, out),
            Input::Began(began) => self.on_began(*began, out),
            Input::Answered { question, approved } => self.on_answered(question, approved, out),
            Input::Decided { call, reply } => self.on_decided(call, reply, out),
            Input::Recorded { call, reply } => self.on_recorded(call, reply, out),
            Input::News(news) => {
                // What a run wants is done before anybody is told of the run.
                let is_asked = |one: &News| matches!(one, News::Asked(_));
                let (asked, others): (Vec<News>, Vec<News>) = news.into_iter().partition(is_asked);
                for one in asked.into_iter().chain(others) {
                    self.on_news(one, out);
                }
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

    fn on_tick(&mut self, out: &mut Vec<Output>) {
        while let Some(deadline) = self.deadlines.take_due(self.now) {
            match deadline {
                Deadline::Attempt(call) => self.on_timeout(call, out),
                Deadline::Lease(call) => self.ask_again(call, out),
                Deadline::Retry(call) => self.on_retry_due(call, out),
                Deadline::Store(call) => self.on_store_timeout(call, out),
                Deadline::Question(number) => self.on_question_expired(number, out),
                Deadline::ProviderSilence => self.on_provider_silence(out),
                Deadline::ResultSilence => {
                    let milliseconds = self.config.limits.result_silence_seconds * 1_000;
                    let event = SessionEvent::ProviderSilentAfterResult { milliseconds };
                    out.push(Output::Event(event));
                    self.nudge(out);
                }
                Deadline::Farewell => self.end_by_intent(out),
                Deadline::Rotation => self.rotate(out),
                Deadline::Reconnect => self.reconnect(out),
                Deadline::ClientGrace => self.finish(EndReason::ClientLost, out),
            }
        }
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
        let current = self.turns.current();
        current.is_some_and(|turn| turn.summary.wound_up)
    }

    /// The highest number that a call of the conversation had so far; zero before the first.
    pub fn last_call(&self) -> CallNumber {
        self.calls.last_number()
    }

    /// Whether a call that changes something has been begun and has not ended.
    pub fn is_changing(&self) -> bool {
        self.calls.iter().any(|call| call.tool().writes())
    }

    /// Whether something comes to its end by itself that no user and no model is asked about. Its deadlines are due then, whether
    /// or not anybody speaks.
    pub fn is_working(&self) -> bool {
        !self.is_over() && (self.calls.len() > 0 || self.approvals.is_pending())
    }

    /// Whether the model owes an answer, or is to say something to a result, and it is counted how long that takes.
    pub fn expects_model(&self) -> bool {
        let awaited = [Deadline::ProviderSilence, Deadline::ResultSilence];
        awaited
            .iter()
            .any(|deadline| self.deadlines.is_set(*deadline))
    }

    /// The number of the last turn that began; zero before the first.
    pub fn last_turn(&self) -> u64 {
        self.turns.last_number()
    }

    /// Whether the user is asked about this call and has not answered, as far as this session knows.
    pub fn is_asked(&self, call: CallNumber) -> bool {
        self.approvals.open().any(|asked| asked.call == call)
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
        self.link.unconfirmed.shrink_to_fit();
        self.link.confirmed.shrink_to_fit();
    }

    /// How much it holds now of what grows while it runs.
    pub fn held(&self) -> [Held; 8] {
        let limits = &self.config.limits;
        let open = limits.open_calls_max;
        // What the user approves runs beside the others.
        let running = open + limits.open_confirmations_max;
        let of = |name, held, most| Held { name, held, most };
        let unconfirmed_max = 2 * open + running;
        [
            of("calls", self.calls.len(), running),
            of("late results", self.link.late.len(), open),
            of(
                "unconfirmed answers",
                self.link.unconfirmed.len(),
                unconfirmed_max,
            ),
            of("confirmed answers", self.link.confirmed.len(), open),
            of("notices", self.link.notices.len(), 2 * NOTICES_MAX),
            of("questions", self.approvals.len(), 64 + LATE_MAX),
            of(
                "recorded responses",
                self.calls.deliveries.recorded(),
                limits.recorded_responses_max,
            ),
            of(
                "bytes of transcript",
                self.transcript.recorded_bytes(),
                limits.transcript_characters_max,
            ),
        ]
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
        self.set_deadline(Deadline::ProviderSilence, Duration::from_secs(seconds));
    }

    fn set_deadline(&mut self, deadline: Deadline, after: Duration) {
        self.deadlines.set(deadline, self.now + after);
    }

    /// Milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64 {
        self.config.started_unix_ms + self.now.as_millis()
    }

    /// From which the session counts what the ledger knows by number: higher than any process before it can have come, whatever
    /// of that was saved.
    fn numbers_of_epochs_before(&self) -> u64 {
        u64::from(self.config.epoch.0.saturating_sub(1)) << 32
    }

    /// A name for a command to the ledger, and an id for the effect that it may begin. Both follow from the session's random id, so
    /// that a replay makes the same; a later epoch of the session makes others.
    fn mint(&mut self) -> (Nonce, EffectId) {
        let mut hasher = Sha256::new();
        hasher.update(self.config.session_id.as_str().as_bytes());
        hasher.update(self.config.epoch.0.to_be_bytes());
        hasher.update(self.config.started_unix_ms.to_be_bytes());
        hasher.update(self.calls.next_nonce().to_be_bytes());
        let hash: [u8; 32] = hasher.finalize().into();
        let (nonce, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let effect_id = EffectId::minted(self.unix_ms(), &hex(&hash[16..]));
        (Nonce(*nonce), effect_id)
    }
}
