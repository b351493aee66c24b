//! The lives of sessions: a session begins, is resumed, takes its inputs and has its outputs performed by the driver that is shipped;
//! and the host's acts beside it.

use crate::agenda::Of;
use crate::count::{Fault, State};
use crate::judge::Rule;
use crate::prove::Journal;
use crate::slot::{Live, SessionFacts};
use crate::tools::{Edition, Offer};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use windlass_contract::id::{ClientId, SessionId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::history::{self, Found};
use windlass_driver::{Driver, DriverConfig};
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::event::{EndReason, SessionEvent};
use windlass_session::io::{Input, Output, RateDecision};
use windlass_session::limits::Limits;
use windlass_session::model::{ConnectionEvent, LostReason, ModelEvent, RequestEvent};
use windlass_session::saved::{Began, Saved};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_store::command::{Command, NewLeg, Reply};
use windlass_store::{Beginner, Epoch, Hash, Presented};

/// The number of inputs that a session takes before time goes on; more is a circle.
const INPUTS_MAX: usize = 5_000;
/// Milliseconds for which a leg can be resumed.
const GRACE_MS: u64 = 3_600_000;
const LOG_ENTRIES_MAX: usize = 2_000;
/// Microseconds for which a session lives that was begun for one answer.
const APART_US: u64 = 60_000_000;

impl World {
    /// The client of a slot comes: with its session by voice, or anew.
    pub(crate) fn come(&mut self, slot: usize) {
        let serving = self.serving();
        let process = *self.random.pick(&serving);
        let resumable = self.slots[slot].resumable.clone();
        let is_pending = self.processes[process]
            .resuming
            .iter()
            .any(|(resuming, _)| *resuming == slot);
        if is_pending {
            return;
        }
        match resumable {
            Some(leg) if !self.random.one_in(6) => self.resume(slot, process, &leg),
            Some(_) | None => self.begin(slot, process, None),
        }
    }

    fn resume(&mut self, slot: usize, process: usize, leg: &SessionId) {
        let of = self.conversations[self.slots[slot].conversation].clone();
        let presented = Presented {
            resume_token: token_of(leg),
            client_id: ClientId::new("client"),
            user_id: of.user_id.clone(),
        };
        let replies = self.apply(process, &of, Command::Resume(presented));
        self.processes[process].resuming.push((slot, replies));
    }

    pub(crate) fn is_resumed(&mut self, slot: usize, process: usize, reply: Option<Reply>) {
        let Some(Reply::Resumed(resumed)) = reply else {
            if matches!(reply, Some(Reply::NotResumed)) {
                self.slots[slot].resumable = None;
            }
            return;
        };
        let Ok(saved) = serde_json::from_slice::<Saved>(resumed.leg.body.expose()) else {
            // The process died before anything of the session was saved.
            self.slots[slot].resumable = None;
            return;
        };
        self.fault(Fault::LegTakenOver);
        let of = self.conversations[self.slots[slot].conversation].clone();
        let ledger = self.processes[process].ledger.clone();
        let leg = (resumed.leg.leg.clone(), resumed.leg.epoch);
        let found = history::resumed(&*ledger, &of, *resumed, saved);
        self.begin(slot, process, Some((leg, found)));
    }

    /// Begins a session of a slot's, in place of the session that its people have left.
    pub(crate) fn begin(
        &mut self,
        slot: usize,
        process: usize,
        resumed: Option<((SessionId, Epoch), Found)>,
    ) {
        let of = self.conversations[self.slots[slot].conversation].clone();
        let mode = self.slots[slot].mode;
        let ledger = self.processes[process].ledger.clone();
        let is_new = resumed.is_none();
        let (leg, found) = match resumed {
            Some(resumed) => resumed,
            None => match history::find(&*ledger, &of, LOG_ENTRIES_MAX) {
                Ok(found) => ((SessionId::new(self.mint("session")), Epoch(1)), found),
                // No client is served without the store.
                Err(_) => return,
            },
        };
        self.leave(slot);
        let number = self.lives.len();
        let seat = &mut self.slots[slot];
        seat.number += 1;
        seat.live = Some(number);
        seat.leg = Some(leg.0.clone());
        seat.resumable = (mode == Mode::Voice).then(|| leg.0.clone());
        self.client_begins(slot);
        self.enter(slot, process, mode, (leg, found), is_new);
        let connect = Of::Connect {
            generation: 1,
            outcome: Ok(false),
        };
        self.within_live(number, process, 0, connect);
    }

    /// Begins a session that has no people and no model: a program gives it an answer, and it ends.
    pub(crate) fn begin_apart(&mut self, slot: usize, process: usize) -> Option<usize> {
        let of = self.conversations[self.slots[slot].conversation].clone();
        let ledger = self.processes[process].ledger.clone();
        let found = history::find(&*ledger, &of, LOG_ENTRIES_MAX).ok()?;
        let leg = (SessionId::new(self.mint("session")), Epoch(1));
        let found = Found {
            began: Began {
                state: found.began.state,
                ..Began::default()
            },
            ..found
        };
        let number = self.lives.len();
        self.enter(slot, process, Mode::Text, (leg, found), true);
        if let Some(live) = self.lives[number].as_deref_mut() {
            live.is_left = true;
        }
        let end = Of::Hear(Input::Shutdown);
        self.within_live(number, process, APART_US, end);
        Some(number)
    }

    fn enter(
        &mut self,
        slot: usize,
        process: usize,
        mode: Mode,
        (leg, found): ((SessionId, Epoch), Found),
        is_new: bool,
    ) {
        let seat = &self.slots[slot];
        let of = self.conversations[seat.conversation].clone();
        let ledger = self.processes[process].ledger.clone();
        let (profile, can_ask) = (seat.profile.clone(), seat.can_ask);
        let can_ask_input = can_ask && seat.can_ask_input;
        // A session that only gives an answer has the mode of its request, and the limits of that mode.
        let limits = match mode == seat.mode {
            true => seat.limits.clone(),
            false => Arc::new(Limits::of(mode)),
        };
        // Some users are given the other version, always the same ones, as a hash of the user would do it.
        let offer = Offer {
            current: self.edition,
            chooses_beside: slot % 2 == 1,
        };
        let registry = offer.registry();
        if self.edition != Edition::First {
            self.fault(Fault::RegistryReloaded);
        }
        self.fault_if(offer.edition() == Edition::Beside, Fault::VersionBeside);
        self.judge.offers.insert(leg.0.clone(), offer);
        let newest = self.judge.epochs.entry(leg.0.clone()).or_insert(leg.1);
        *newest = leg.1.max(*newest);
        let number = self.lives.len();
        let config = SessionConfig {
            session_id: leg.0.clone(),
            epoch: leg.1,
            tenant: of.tenant.clone(),
            user_id: of.user_id.clone(),
            rights: windlass_contract::rights::Rights::Anonymous,
            given: windlass_contract::condition::Given::default(),
            conversation_id: of.conversation_id.clone(),
            mode,
            registry: registry.clone(),
            limits,
            profile,
            model: "model".into(),
            estimate: None,
            started_unix_ms: self.processes[process].clock.unix_ms(),
            history: windlass_session::log_text::history(&found.log, None, 8_000),
            last_call: found.last_call,
            can_ask,
            can_ask_input,
            pending_request: None,
        };
        let mut driver = Driver::new(
            DriverConfig {
                conversation: of,
                leg: config.leg(),
                registry,
                limits: config.limits.clone(),
                after: Some(found.after),
            },
            ledger,
            Default::default(),
        );
        driver.know(&found.asked);
        if is_new {
            driver.attach(
                NewLeg {
                    leg: leg.0.clone(),
                    mode,
                    client_id: ClientId::new("client"),
                    resume_token: token_of(&leg.0),
                    expires_in_ms: GRACE_MS,
                },
                Beginner::default(),
            );
        }
        self.trace(|| {
            format!(
                "slot {slot} begins life {number} as {:?} in process {process}",
                leg
            )
        });
        let mut outputs = Vec::new();
        let recorded = self.digest.is_some().then(|| config.clone());
        let session = Session::new(config, &mut outputs);
        let mut live = Box::new(Live {
            slot,
            process,
            process_life: self.processes[process].life,
            session,
            driver,
            inputs: VecDeque::new(),
            started_us: self.now_us,
            clock: self.processes[process].clock.clone(),
            generation: 0,
            opening: 1,
            is_connected: false,
            is_left: false,
            is_client_gone: false,
            is_superseded: false,
            is_closed: false,
            running: BTreeMap::new(),
            asked: BTreeMap::new(),
            all_at_once: BTreeSet::new(),
            last_reply: 0,
            runs: BTreeMap::new(),
            fates: BTreeMap::new(),
            journal: recorded.map(|config| Journal::begin(&config, &outputs)),
            facts: SessionFacts::default(),
        });
        let began = found.began;
        self.report
            .counts
            .states(State::QuestionTakenUp, began.questions.len());
        self.report
            .counts
            .states(State::UnheardTaken, began.unheard.len());
        if began.saved.is_some()
            || !began.questions.is_empty()
            || !began.unheard.is_empty()
            || !began.at_work.is_empty()
            || !began.unheard_questions.is_empty()
            || began.state.is_some()
            || !began.warned_models.is_empty()
        {
            live.inputs.push_back(Input::Began(Box::new(began)));
        }
        live.inputs.push_back(Input::Client(ClientEvent::Connected));
        self.perform_all(number, &mut live, &mut outputs);
        self.lives.push(Some(live));
        self.dirty.insert(number);
    }

    /// The people of a slot turn away from their session.
    pub(crate) fn leave(&mut self, slot: usize) {
        let Some(id) = self.slots[slot].live.take() else {
            return;
        };
        let Some(live) = self.lives[id].as_deref_mut() else {
            return;
        };
        live.is_left = true;
        let (process, mode) = (live.process, live.session.config().mode);
        let input = match mode {
            Mode::Voice => Input::Client(ClientEvent::Lost),
            Mode::Text => Input::Shutdown,
        };
        let after_us = self.random.below(6_000) * 1_000;
        self.within_live(id, process, after_us, Of::Hear(input));
    }

    /// Gives the session of a slot an input.
    pub(crate) fn feed(&mut self, slot: usize, input: Input) {
        if let Some(live) = self.slots[slot].live {
            self.hear(live, input);
            self.go_on();
        }
    }

    pub(crate) fn hear(&mut self, id: usize, input: Input) {
        if let Some(live) = self.lives[id].as_deref_mut() {
            live.inputs.push_back(input);
            self.dirty.insert(id);
        }
    }

    /// Whether the session of a slot can be spoken to.
    pub(crate) fn is_served(&self, slot: usize) -> bool {
        let live = self.slots[slot]
            .live
            .and_then(|id| self.lives[id].as_deref());
        live.is_some_and(|live| !live.is_over() && !self.is_stopped(live.process))
    }

    pub(crate) fn is_connected(&self, slot: usize) -> bool {
        let live = self.slots[slot]
            .live
            .and_then(|id| self.lives[id].as_deref());
        self.is_served(slot) && live.is_some_and(|live| live.is_connected)
    }

    pub(crate) fn generation(&self, slot: usize) -> u64 {
        let live = self.slots[slot]
            .live
            .and_then(|id| self.lives[id].as_deref());
        live.map_or(0, |live| live.generation)
    }

    /// A session takes all its inputs.
    pub(crate) fn pump(&mut self, id: usize) {
        let Some(mut live) = self.lives[id].take() else {
            return;
        };
        let process = live.process;
        if self.is_stopped(process) {
            self.lives[id] = Some(live);
            return;
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut inputs = 0;
        loop {
            let input = match live.inputs.pop_front() {
                Some(input) => input,
                None => match live.driver.poll_input(&mut context) {
                    Poll::Ready(input) => input,
                    Poll::Pending => break,
                },
            };
            inputs += 1;
            if inputs > INPUTS_MAX {
                self.broken(
                    Rule::EverythingSettles,
                    format!("life {id} goes round in circles"),
                );
            }
            self.handle(id, &mut live, input);
            if self.is_broken() || self.is_dead(&live) {
                break;
            }
        }
        live.driver.take_heard();
        if live.driver.is_superseded() && !std::mem::replace(&mut live.is_superseded, true) {
            live.inputs.push_back(Input::Shutdown);
            self.dirty.insert(id);
        }
        let counts = &mut self.report.counts;
        counts.states(State::IntentOfLookup, live.driver.take_events().len());
        for problem in live.driver.take_problems() {
            self.trace(|| format!("life {id} PROBLEM {problem}"));
        }
        let is_dead = self.is_dead(&live);
        if is_dead || (live.is_over() && live.driver.is_idle()) {
            self.is_gone(id, *live, is_dead);
        } else {
            self.lives[id] = Some(live);
        }
    }

    /// Whether its process is dead.
    fn is_dead(&self, live: &Live) -> bool {
        let process = &self.processes[live.process];
        !process.is_up || process.life != live.process_life
    }

    fn is_gone(&mut self, id: usize, live: Live, is_dead: bool) {
        self.trace(|| format!("life {id} is gone"));
        let slot = &mut self.slots[live.slot];
        slot.live = slot.live.filter(|live| *live != id);
        if let Some(difference) = live.journal.as_ref().and_then(Journal::difference) {
            self.broken(Rule::AReplayGivesTheSameOutputs, difference);
        }
        if !is_dead {
            self.judge_end(id, &live);
        }
    }

    fn handle(&mut self, id: usize, live: &mut Live, input: Input) {
        self.trace(|| format!("life {id} <- {input:?}"));
        self.before_input(id, live, &input);
        let mut saves = input.brings_words();
        let mut outputs = Vec::new();
        let at = Timestamp(live.clock.passed_us(self.now_us - live.started_us));
        let recorded = live.journal.is_some().then(|| input.clone());
        live.session.handle(at, input, &mut outputs);
        if let (Some(journal), Some(input)) = (&mut live.journal, recorded) {
            journal.step(at, input, &outputs);
        }
        saves |= outputs.iter().any(Output::is_worth_saving);
        self.perform_all(id, live, &mut outputs);
        if self.is_dead(live) {
            return;
        }
        if saves && live.session.config().mode == Mode::Voice && !live.is_over() {
            let body = serde_json::to_vec(&live.session.saved());
            let body = body.expect("what is saved has text keys and whole numbers");
            live.driver.save(Sensitive(body), GRACE_MS);
        }
        self.after_input(id, live);
    }

    fn perform_all(&mut self, id: usize, live: &mut Live, outputs: &mut Vec<Output>) {
        for output in outputs.drain(..) {
            if let Some(left) = &mut self.processes[live.process].crash_in {
                match left.checked_sub(1) {
                    Some(less) => *left = less,
                    None => {
                        self.processes[live.process].crash_in = None;
                        self.fault(Fault::ProcessCrashedAtOutput);
                        return self.crash(live.process);
                    }
                }
            }
            self.trace(|| format!("life {id} -> {output:?}"));
            if let Some(digest) = &mut self.digest {
                digest.take(id, &output);
            }
            self.judge_output(id, live, &output);
            if let Some(output) = live.driver.perform(output, &mut live.inputs) {
                self.perform(id, live, output);
            }
        }
        self.take_work(id, live);
    }

    /// Performs the host's outputs: for the provider, the client, the user's limits, and the subscribers to events.
    fn perform(&mut self, id: usize, live: &mut Live, output: Output) {
        match output {
            Output::CheckRate { call, .. } => {
                let is_refused = !self.is_calm && self.random.one_in(3);
                let decision = match is_refused {
                    true => {
                        self.fault(Fault::LimitSpent);
                        let retry_after = Duration::from_secs(30);
                        RateDecision::Refused { retry_after }
                    }
                    false => RateDecision::Allowed,
                };
                live.inputs.push_back(Input::RateChecked { call, decision });
            }
            Output::Connect {
                generation, handle, ..
            } => {
                live.is_connected = false;
                live.opening = generation;
                let outcome = self.outcome_of_connecting(handle.is_some());
                let after_us = self.random.below(3_000) * 1_000;
                let what = Of::Connect {
                    generation,
                    outcome,
                };
                self.within_live(id, live.process, after_us, what);
            }
            Output::SendClient(ClientUpdate::ConfirmationRequest(question)) => {
                self.shows(id, live, &question);
            }
            Output::SendClient(ClientUpdate::ConfirmationResult {
                call: Some(call),
                response,
            }) => self.is_told_end(id, live, call, response.expose()),
            Output::Event(event) => self.on_event(id, live, &event),
            Output::Close(reason) => {
                live.is_closed = true;
                live.is_connected = false;
                let slot = &mut self.slots[live.slot];
                if reason != EndReason::Shutdown {
                    live.driver.leave();
                    let is_own = slot.resumable.as_ref() == Some(&live.driver.leg().leg);
                    if is_own {
                        slot.resumable = None;
                    }
                }
                self.report.counts.state(match reason {
                    EndReason::Stopped => State::EndedStopped,
                    EndReason::Intent(_) => State::EndedByIntent,
                    EndReason::ClientLost | EndReason::ProviderLost => State::EndedByLoss,
                    EndReason::Shutdown => State::EndedByShutdown,
                });
            }
            _ => {}
        }
    }

    /// The audit has its line of an ended call.
    fn on_event(&mut self, id: usize, live: &mut Live, event: &SessionEvent) {
        let ended = match event {
            SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallSettled(record) => record,
            _ => return,
        };
        if let Some(effect_id) = &ended.effect_id {
            let of = live.driver.conversation().clone();
            let audited = Command::Audited(vec![effect_id.clone()]);
            drop(self.apply(live.process, &of, audited));
        }
        let _ = id;
    }

    fn outcome_of_connecting(&mut self, has_handle: bool) -> Result<bool, LostReason> {
        if !self.is_calm && self.random.one_in(6) {
            self.fault(Fault::ConnectionRefused);
            return Err(LostReason::Refused { status: 503 });
        }
        let is_resumed = has_handle && self.random.one_in(2);
        self.fault(match is_resumed {
            true => Fault::ConnectionResumed,
            false => Fault::ConnectionAnew,
        });
        Ok(is_resumed)
    }

    pub(crate) fn happen_to(&mut self, id: usize, what: Of) {
        let Some(live) = self.lives[id].as_deref_mut() else {
            return;
        };
        match what {
            Of::Hear(input) => self.hear(id, input),
            Of::Connect {
                generation,
                outcome,
            } => {
                // A connection that was given up since has no more events.
                if live.opening == generation && !live.is_over() {
                    self.connect(id, generation, outcome);
                }
            }
            Of::Close { generation } => {
                if live.generation == generation && live.is_connected {
                    self.lose_socket(id);
                }
            }
            Of::Say(call, message) => self.say(id, call, message),
            Of::Send(call) => self.send(id, call),
            Of::Return(call, result) => self.hand_over(id, call, result),
            Of::LookedUp(effect_id, finding) => self.looked_up(id, effect_id, finding),
        }
    }

    fn connect(&mut self, id: usize, generation: u64, outcome: Result<bool, LostReason>) {
        let Some(live) = self.lives[id].as_deref_mut() else {
            return;
        };
        let resumed = match outcome {
            Ok(resumed) => resumed,
            Err(reason) => {
                let lost = ConnectionEvent::Lost { generation, reason };
                return self.hear(id, Input::Connection(lost));
            }
        };
        live.generation = generation;
        live.is_connected = true;
        let (slot, is_left) = (live.slot, live.is_left);
        let mode = live.session.config().mode;
        match mode {
            Mode::Voice => {
                let connected = ConnectionEvent::Connected {
                    generation,
                    resumed,
                };
                self.hear(id, Input::Connection(connected));
                let ready = ModelEvent::Ready {
                    provider_session_id: None,
                };
                self.hear(id, Input::Model(ready));
            }
            Mode::Text => {
                let sent = RequestEvent::Sent { number: generation };
                self.hear(id, Input::Request(sent));
            }
        }
        self.go_on();
        // A model that has lost its context, or the latest words, asks again.
        if generation > 1 && !is_left && !self.is_calm && !self.random.one_in(4) {
            self.fault(Fault::AskedAgainAfterReconnect);
            self.model_asks_again(slot);
        }
    }

    pub(crate) fn lose_socket(&mut self, id: usize) {
        self.fault(Fault::SocketLost);
        let Some(live) = self.lives[id].as_deref_mut() else {
            return;
        };
        // In text mode only the answer is lost: the request is sent once more.
        if live.session.config().mode == Mode::Text {
            let slot = live.slot;
            return self.model_begins_anew(slot);
        }
        live.is_connected = false;
        let generation = live.generation;
        if self.random.one_in(2) {
            self.fault(Fault::SocketLostMidFrame);
            let problem = "the frame breaks off".to_owned();
            self.hear(id, Input::Model(ModelEvent::Malformed { problem }));
        }
        let code = *self.random.pick(&[1006, 1008, 1011]);
        let reason = LostReason::Closed {
            code,
            reason: "gone".to_owned(),
        };
        let lost = ConnectionEvent::Lost { generation, reason };
        self.hear(id, Input::Connection(lost));
    }
}

/// The token that its client shows to take a leg over.
fn token_of(leg: &SessionId) -> Hash {
    let mut token = [0; 32];
    let name = leg.as_str().as_bytes();
    let length = name.len().min(token.len());
    token[..length].copy_from_slice(&name[..length]);
    token
}
