//! Answers to the model and its reactions to them: answers of one message that travel together, answers and notices without a reaction
//! yet, and results whose connection is gone. Knows no connection and no turn.

use crate::config::SessionConfig;
use crate::facts::{CallRequest, Delivered, DeliveryKey, HashedKey};
use crate::hash::{BuildQuickHasher, bound};
use crate::model::ModelToolResponse;
use crate::policy::Settled;
use lru::LruCache;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::kind::Scheduling;
use windlass_store::QuestionNumber;

/// The kinds of model output. Each proves another part of the earlier answers to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produced {
    Words,
    Calls,
    /// A transcript of spoken words. Their message may be over already.
    Transcript,
    /// Words that were heard before, and that the provider only now attributes to an answer.
    ConfirmedLater,
}

#[derive(Debug, Default)]
pub(crate) struct Answers {
    batches: Vec<Batch>,
    last_batch: u64,
    closed_ids: ClosedIds,
    messages: Messages,
    notices: Notices,
    /// Answers without a reaction of the model yet.
    unconfirmed: Vec<Unconfirmed>,
    /// Answers with an effect that the model reacted to in the current turn. If the connection is lost before the turn ends, the next
    /// one is asked the same question, and its model knows none of them.
    confirmed: Vec<CallAnswer>,
    /// Results whose connection is gone, for the next silence.
    late: VecDeque<CallAnswer>,
}

#[derive(Debug)]
struct Batch {
    id: u64,
    total: usize,
    unanswered: usize,
    ready: Vec<(CallNumber, ModelToolResponse)>,
}

/// The answers that the settling of one delivery releases.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) answers: Vec<ModelToolResponse>,
    /// The number of calls of the message, if this delivery was its last.
    pub(crate) complete: Option<usize>,
}

impl Answers {
    /// Opens a provider message with this many calls.
    pub(crate) fn open_batch(&mut self, total: usize) -> u64 {
        self.last_batch += 1;
        let batch = Batch {
            id: self.last_batch,
            total,
            unanswered: total,
            ready: Vec::new(),
        };
        self.batches.push(batch);
        self.last_batch
    }

    /// Settles one delivery of a message, with its answer if it gets one. With `together`, answers are held until the last of the
    /// message is ready, and come in the message's order.
    pub(crate) fn settle(
        &mut self,
        batch: u64,
        number: CallNumber,
        answer: Option<ModelToolResponse>,
        together: bool,
    ) -> Released {
        let Some(index) = self.batches.iter().position(|entry| entry.id == batch) else {
            return Released {
                answers: answer.into_iter().collect(),
                complete: None,
            };
        };
        let entry = &mut self.batches[index];
        entry.unanswered = entry.unanswered.saturating_sub(1);
        let is_last = entry.unanswered == 0;
        let answers = if is_last && entry.ready.is_empty() {
            // Most messages have one call, whose answer waits for no other.
            answer.map(|answer| vec![answer]).unwrap_or_default()
        } else {
            entry.ready.extend(answer.map(|answer| (number, answer)));
            if is_last || !together {
                entry.ready.sort_by_key(|(number, _)| *number);
                entry.ready.drain(..).map(|(_, answer)| answer).collect()
            } else {
                Vec::new()
            }
        };
        let complete = is_last.then(|| self.batches.remove(index).total);
        Released { answers, complete }
    }

    /// Whether the answer to a delivery waits for the others of its message.
    fn holds(&self, batch: u64, number: CallNumber) -> bool {
        let mut of_message = self.batches.iter().filter(|entry| entry.id == batch);
        of_message.any(|entry| entry.ready.iter().any(|(ready, _)| *ready == number))
    }

    /// The provider took back a call whose answer waits for the others of its message: the answer is not sent. Returns the calls of the
    /// withdrawn answers.
    fn withdraw_answer(&mut self, id: &str) -> Vec<CallNumber> {
        let mut withdrawn = Vec::new();
        for batch in &mut self.batches {
            let is_under =
                |(_, answer): &(CallNumber, ModelToolResponse)| answer.id.as_deref() == Some(id);
            let answers = batch.ready.iter().filter(|ready| is_under(ready));
            withdrawn.extend(answers.map(|(call, _)| *call));
            batch.ready.retain(|ready| !is_under(ready));
        }
        withdrawn
    }

    /// Keeps a result whose connection is gone, for the next silence. Returns the call of a result that was dropped because more than
    /// `late_max` wait.
    pub(crate) fn keep_late(&mut self, newest: CallAnswer, late_max: usize) -> Option<CallNumber> {
        let late = &mut self.late;
        // An earlier answer that the call is still at work is obsolete.
        late.retain(|late| {
            let is_at_work = late.settled.response.meta.accepted_until.is_some();
            !is_at_work || late.call_request.number != newest.call_request.number
        });
        if late
            .iter()
            .any(|late| late.settled.is_of_one_run(&newest.settled))
        {
            return None;
        }
        // Several calls may be answered with one effect. The model is told of the effect once.
        if let Some(known) = late
            .iter_mut()
            .find(|late| late.is_of_effect(&newest.settled))
        {
            *known = newest;
            return None;
        }
        late.push_back(newest);
        if late.len() <= late_max {
            return None;
        }
        // Refusals make room for outcomes.
        let refusal = late.iter().position(|late| !late.settled.is_outcome);
        let dropped = late.remove(refusal.unwrap_or(0));
        dropped.map(|dropped| dropped.call_request.number)
    }

    /// Corrects undelivered and unconfirmed answers of unknown outcome, now that more is known of the effect.
    pub(crate) fn correct(&mut self, settled: &Settled) {
        let unconfirmed = self.unconfirmed.iter_mut().map(|answer| &mut answer.answer);
        for late in self.late.iter_mut().chain(unconfirmed) {
            let is_in_doubt = late.settled.response.error_type() == Some(ErrorType::OutcomeUnknown);
            if is_in_doubt && late.is_of_effect(settled) {
                late.settled = settled.clone();
            }
        }
    }

    /// Awaits the model's reaction to an answer that went out, or that waits for others of its message. Returns the deliveries whose
    /// answer is final by that.
    pub(crate) fn await_reaction(
        &mut self,
        answer: CallAnswer,
        config: &SessionConfig,
    ) -> Vec<CallRequest> {
        let is_held = self.holds(answer.call_request.batch, answer.call_request.number);
        let mut superseding = Vec::new();
        if !is_held {
            superseding.extend(self.supersede(&answer));
        }
        let heard_from = (!is_held).then(|| self.heard_from(&answer.call_request, config));
        let forgotten = self.keep_unconfirmed(answer, heard_from, config.limits.open_calls_max);
        // The sending of a forgotten answer will not be noticed any more.
        if let Some(forgotten) = forgotten.filter(|answer| answer.heard_from.is_none()) {
            superseding.extend(self.supersede(&forgotten.answer));
        }
        superseding
    }

    /// The held answers of a message have gone out. Returns the deliveries whose answer is final by that.
    pub(crate) fn await_reactions(
        &mut self,
        call_request: &CallRequest,
        config: &SessionConfig,
    ) -> Vec<CallRequest> {
        let mut superseding = Vec::new();
        if self.unconfirmed.is_empty() {
            return superseding;
        }
        // The model may wait for some calls of a message and not for others.
        let mut unconfirmed = std::mem::take(&mut self.unconfirmed);
        for answer in &mut unconfirmed {
            let Delivered { batch, number, .. } = *answer.answer.call_request;
            if batch == call_request.batch
                && answer.heard_from.is_none()
                && !self.holds(batch, number)
            {
                superseding.extend(self.supersede(&answer.answer));
                answer.heard_from = Some(self.heard_from(&answer.answer.call_request, config));
            }
        }
        self.unconfirmed = unconfirmed;
        superseding
    }

    /// The first message of the model that can follow the answer to this call, if the answer goes out now.
    fn heard_from(&self, call_request: &CallRequest, config: &SessionConfig) -> u64 {
        self.messages.next(config.waits_for(&call_request.name))
    }

    /// The model asked again and has its answer. Results of earlier connections that say the same are dropped, and calls of those
    /// connections that ask for the same need no answer.
    fn supersede(&mut self, told: &CallAnswer) -> Option<CallRequest> {
        self.late.retain(|late| !told.stands_for(late));
        let has_earlier = told.call_request.generation > 1;
        (has_earlier && told.answers_whoever_asked()).then(|| told.call_request.clone())
    }

    /// Returns the answer that is forgotten for lack of room.
    fn keep_unconfirmed(
        &mut self,
        newest: CallAnswer,
        heard_from: Option<u64>,
        unconfirmed_max: usize,
    ) -> Option<Unconfirmed> {
        let unconfirmed = &mut self.unconfirmed;
        // The repeated delivery has been answered again. Its earlier answer is not told twice.
        unconfirmed.retain(|known| known.answer.call_request.key != newest.call_request.key);
        if newest.settled.effect_id.is_some() {
            // The newest answer about an effect replaces earlier ones. Answers that wait for others stay: one may go out and the other
            // not.
            unconfirmed.retain(|known| {
                known.heard_from.is_none() || !known.answer.is_like(&newest.call_request)
            });
        }
        let forgotten = make_room(unconfirmed, unconfirmed_max, |_| true);
        unconfirmed.push(Unconfirmed {
            answer: newest,
            heard_from,
        });
        forgotten
    }

    /// Notes an output of the model. Returns the message up to which the model has reacted.
    pub(crate) fn reacted(&mut self, what: Produced) -> Option<u64> {
        match what {
            Produced::Words => Some(self.messages.produced()),
            Produced::Calls => Some(self.messages.called()),
            Produced::Transcript => self.messages.transcribed(),
            Produced::ConfirmedLater => None,
        }
    }

    /// The model has produced something in this message, so the answers that it can follow have arrived. Returns the effects and
    /// approval requests that the model has heard of for good. The newest `kept_max` effects are kept back.
    pub(crate) fn confirm(
        &mut self,
        message: u64,
        kept_max: usize,
    ) -> (Vec<EffectId>, Vec<QuestionNumber>) {
        if self.unconfirmed.is_empty() && self.notices.sent.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let heard =
            |answer: &mut Unconfirmed| answer.heard_from.is_some_and(|from| from <= message);
        let heard = self.unconfirmed.extract_if(.., heard);
        let effects = heard.filter(|answer| answer.answer.settled.effect_id.is_some());
        self.confirmed.extend(effects.map(|answer| answer.answer));
        let (mut effects, questions) = self.notices.confirm(message);
        effects.extend(self.take_confirmed(kept_max));
        (effects, questions)
    }

    /// Takes the effects that the model has heard of for good. The newest `kept_max` are kept back.
    pub(crate) fn take_confirmed(&mut self, kept_max: usize) -> Vec<EffectId> {
        let heard = self.confirmed.len().saturating_sub(kept_max);
        let heard = self.confirmed.drain(..heard);
        heard
            .filter_map(|answer| answer.settled.effect_id)
            .collect()
    }

    /// Takes the answers that the model has heard in the current turn, for another connection that has not.
    pub(crate) fn take_back_confirmed(&mut self) -> Vec<CallAnswer> {
        std::mem::take(&mut self.confirmed)
    }

    /// The first message that can follow an answer sent now.
    pub(crate) fn next_message(&self, is_waited_for: bool) -> u64 {
        self.messages.next(is_waited_for)
    }

    /// A message of the model is over. With `with_turn`, nothing of it can trail.
    pub(crate) fn message_ended(&mut self, with_turn: bool) {
        self.messages.ended(with_turn);
    }

    /// Ends a delivery. Returns true if it was still owed an answer on this connection.
    pub(crate) fn close(&mut self, call_request: &CallRequest) -> bool {
        call_request.provider_id().is_none_or(|id| {
            self.closed_ids
                .close(id, &call_request.key, call_request.number)
        })
    }

    /// A call has come and is owed an answer.
    pub(crate) fn open(&mut self, delivered: &Delivered) {
        if let Some(id) = delivered.provider_id() {
            self.closed_ids.reopen(id, &delivered.key);
        }
    }

    /// The provider took back an id. The deliveries with these keys have no answer yet.
    pub(crate) fn take_back(&mut self, id: &Arc<str>, keys: &[HashedKey]) {
        self.closed_ids.close_all(id, keys);
        let withdrawn = self.withdraw_answer(id);
        self.closed_ids.withdraw(&withdrawn);
        // The withdrawn answers were never sent, so no reaction to them is awaited.
        self.unconfirmed
            .retain(|answer| !withdrawn.contains(&answer.answer.call_request.number));
    }

    /// A new connection begins, on which no id has had an answer.
    pub(crate) fn connected(&mut self) {
        self.closed_ids = ClosedIds::default();
    }

    /// A request begins, which carries all answers given so far. Answers that wait for others of their message are not sent any more,
    /// and are returned.
    pub(crate) fn request_sent(&mut self) -> Vec<CallAnswer> {
        self.closed_ids = ClosedIds::default();
        for batch in &mut self.batches {
            batch.ready.clear();
        }
        let is_held = |answer: &mut Unconfirmed| answer.heard_from.is_none();
        let held = self.unconfirmed.extract_if(.., is_held);
        held.map(|answer| answer.answer).collect()
    }

    /// The connection is gone: answers that waited for others are not sent any more. Returns the answers without a reaction, which the
    /// model may or may not have read.
    pub(crate) fn leave_connection(&mut self) -> impl Iterator<Item = CallAnswer> + use<> {
        self.notices.keep_unread();
        self.messages.ended(true);
        for batch in &mut self.batches {
            batch.ready.clear();
        }
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        unconfirmed.into_iter().map(|answer| answer.answer)
    }

    /// Takes the results to deliver in the next silence. A result stays while an answer that stands for it waits for the others of its
    /// message.
    pub(crate) fn take_late(&mut self) -> VecDeque<CallAnswer> {
        let unconfirmed = &self.unconfirmed;
        let is_held = |late: &CallAnswer| {
            let mut held = unconfirmed
                .iter()
                .filter(|answer| answer.heard_from.is_none());
            held.any(|answer| answer.answer.stands_for(late))
        };
        let late = std::mem::take(&mut self.late);
        let (kept, late) = late.into_iter().partition(is_held);
        self.late = kept;
        late
    }

    /// Notes a result that goes out now, in a silence. If the model never reacts, the oldest sent answer makes room: the log still knows
    /// which effects no model has heard of.
    pub(crate) fn sent_late(&mut self, answer: CallAnswer, config: &SessionConfig) {
        let heard_from = Some(self.messages.next(false));
        let most = config.limits.open_calls_max.saturating_mul(2);
        make_room(&mut self.unconfirmed, most, |known| {
            known.heard_from.is_some()
        });
        self.unconfirmed.push(Unconfirmed { answer, heard_from });
    }

    /// Returns false if the model was told exactly this.
    pub(crate) fn notify(&mut self, notice: Notice) -> bool {
        self.notices.add(notice)
    }

    /// The model asked again before the notice went out, and has its answer now.
    pub(crate) fn forget_notice(
        &mut self,
        effect_id: Option<&EffectId>,
        question: Option<QuestionNumber>,
    ) {
        self.notices.forget(effect_id, question);
    }

    pub(crate) fn is_notice_waiting(&self) -> bool {
        !self.notices.waiting.is_empty()
    }

    /// Takes the waiting notices, which go out now.
    pub(crate) fn send_notices(&mut self) -> Vec<Notice> {
        let heard_from = self.messages.next(false);
        self.notices.send(heard_from)
    }

    /// The numbers of late results, unconfirmed answers, confirmed answers and notices.
    pub(crate) fn held(&self) -> [usize; 4] {
        let notices = self.notices.len();
        [
            self.late.len(),
            self.unconfirmed.len(),
            self.confirmed.len(),
            notices,
        ]
    }

    /// Frees the room for answers to come.
    pub(crate) fn give_room_back(&mut self) {
        self.batches.shrink_to_fit();
        self.unconfirmed.shrink_to_fit();
        self.confirmed.shrink_to_fit();
    }
}

/// Makes room for one more answer. Removes the oldest refusal that may go, else the oldest outcome.
fn make_room(
    unconfirmed: &mut Vec<Unconfirmed>,
    most: usize,
    may_go: impl Fn(&Unconfirmed) -> bool,
) -> Option<Unconfirmed> {
    if unconfirmed.len() < most.max(1) {
        return None;
    }
    let refusal = unconfirmed
        .iter()
        .position(|known| may_go(known) && !known.answer.settled.is_outcome);
    let place = refusal.or_else(|| unconfirmed.iter().position(&may_go))?;
    Some(unconfirmed.remove(place))
}

/// The number of notices that wait for silence. The oldest make room.
pub(crate) const NOTICES_MAX: usize = 32;

/// Notices for the model about approval requests and answered calls: those that wait, and those sent without a reaction yet.
#[derive(Debug, Default)]
struct Notices {
    waiting: VecDeque<Notice>,
    /// Each with the first message of the model that can be a reaction to it.
    sent: VecDeque<(Notice, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The turn whose counters continue with the model's reaction.
    pub(crate) turn: u64,
    pub(crate) effect_id: Option<EffectId>,
    pub(crate) question: Option<QuestionNumber>,
    pub(crate) text: String,
    /// The log of the conversation has the notice already.
    pub(crate) is_logged: bool,
}

impl Notice {
    /// Whether a newer notice reports a later state of the same thing, which makes this one useless.
    fn is_replaced_by(&self, newer: &Self) -> bool {
        let is_same = |own: bool, both: bool| own && both;
        is_same(self.question.is_some(), self.question == newer.question)
            || is_same(self.effect_id.is_some(), self.effect_id == newer.effect_id)
    }
}

impl Notices {
    fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    /// Returns false if the model was told exactly this.
    fn add(&mut self, newest: Notice) -> bool {
        if self.sent.iter().any(|(notice, _)| *notice == newest) {
            return false;
        }
        self.waiting
            .retain(|notice| !notice.is_replaced_by(&newest));
        self.sent
            .retain(|(notice, _)| !notice.is_replaced_by(&newest));
        self.waiting.push_back(newest);
        if self.waiting.len() > NOTICES_MAX {
            self.waiting.pop_front();
        }
        true
    }

    /// The model asked again before the notice went out, and has its answer now.
    fn forget(&mut self, effect_id: Option<&EffectId>, question: Option<QuestionNumber>) {
        let is_meant = |notice: &Notice| {
            (effect_id.is_some() && notice.effect_id.as_ref() == effect_id)
                || (question.is_some() && notice.question == question)
        };
        self.waiting.retain(|notice| !is_meant(notice));
        self.sent.retain(|(notice, _)| !is_meant(notice));
    }

    /// Takes the waiting notices, which go out now. `heard_from` is the first message of the model that can be a reaction.
    fn send(&mut self, heard_from: u64) -> Vec<Notice> {
        let notices: Vec<Notice> = self.waiting.drain(..).collect();
        let sent = notices.iter().map(|notice| (notice.clone(), heard_from));
        self.sent.extend(sent);
        while self.sent.len() > NOTICES_MAX {
            self.sent.pop_front();
        }
        notices
    }

    /// The model has produced something in this message, so it has read the notices that the message can follow.
    fn confirm(&mut self, message: u64) -> (Vec<EffectId>, Vec<QuestionNumber>) {
        let (mut effects, mut questions) = (Vec::new(), Vec::new());
        self.sent.retain(|(notice, heard_from)| {
            let is_heard = *heard_from <= message;
            if is_heard {
                effects.extend(notice.effect_id.clone());
                questions.extend(notice.question);
            }
            !is_heard
        });
        (effects, questions)
    }

    /// Sent notices without a reaction wait again: the model may not have read them, so the next connection is told.
    fn keep_unread(&mut self) {
        while let Some((notice, _)) = self.sent.pop_back() {
            self.waiting.push_front(notice);
        }
        self.waiting.truncate(NOTICES_MAX);
    }
}

/// The messages of the model. An answer that went out during a message may have reached the model only after it, so the rest of that
/// message says nothing about the answer (`docs/policies.md`, "When a connection ends").
#[derive(Debug, Default)]
struct Messages {
    /// The number of messages that have begun.
    begun: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    UnderWay,
    /// The message is over, and the provider has still to end its turn: a transcript may trail.
    Trailing,
}

impl Messages {
    /// The model produces. Returns the number of the message that the output belongs to.
    fn produced(&mut self) -> u64 {
        if self.phase != Phase::UnderWay {
            self.begun += 1;
            self.phase = Phase::UnderWay;
        }
        self.begun
    }

    /// The model calls. The calls prove no more than the message before theirs did, unless they begin a message: more calls of one
    /// message may have been on their way when the first was answered.
    fn called(&mut self) -> u64 {
        let goes_on = self.phase == Phase::UnderWay;
        self.produced() - u64::from(goes_on)
    }

    /// A transcript came. It may trail a message that is over; then it begins no message and the result is `None`. Otherwise returns the
    /// number of the current message.
    fn transcribed(&mut self) -> Option<u64> {
        (self.phase != Phase::Trailing).then(|| self.produced())
    }

    /// The message is over. With `with_turn`, nothing of it can trail.
    fn ended(&mut self, with_turn: bool) {
        self.phase = match with_turn {
            true => Phase::Idle,
            false => Phase::Trailing,
        };
    }

    /// The first message that can follow an answer sent now. A model that waits for the answer continues the message that asked.
    fn next(&self, is_waited_for: bool) -> u64 {
        match is_waited_for && self.phase == Phase::UnderWay {
            true => self.begun,
            false => self.begun + 1,
        }
    }
}

/// An answer without a reaction of the model yet.
#[derive(Debug)]
struct Unconfirmed {
    pub(crate) answer: CallAnswer,
    /// The first message of the model that can be a reaction; `None` while the answer waits for others of its message.
    heard_from: Option<u64>,
}

/// A result that its connection may never have carried.
#[derive(Clone, Debug)]
pub(crate) struct CallAnswer {
    pub(crate) call_request: CallRequest,
    pub(crate) settled: Settled,
    /// When the model is to speak of it, if anything says so.
    pub(crate) scheduling: Option<Scheduling>,
}

impl CallAnswer {
    /// Whether both report the outcome of one effect.
    fn is_of_effect(&self, settled: &Settled) -> bool {
        settled.effect_id.is_some() && self.settled.effect_id == settled.effect_id
    }

    /// Whether this is the outcome of the call, so that no delivery that asked for the same is owed more.
    fn answers_whoever_asked(&self) -> bool {
        self.settled.is_outcome || self.settled.repeats.is_some()
    }

    /// Whether a model that knows this answer has nothing to learn from the other. If one run answers several calls, the model may hear
    /// on one connection an answer that another connection did not carry.
    fn stands_for(&self, other: &Self) -> bool {
        let is_same = match (&self.settled.effect_id, &other.settled.effect_id) {
            (Some(own), Some(others)) => own == others,
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                other.call_request.generation < self.call_request.generation
                    && other.is_like(&self.call_request)
            }
        };
        (is_same && self.answers_whoever_asked()) || self.settled.is_of_one_run(&other.settled)
    }

    /// Whether this call asks for the same thing.
    fn is_like(&self, call_request: &CallRequest) -> bool {
        self.call_request.is_like(call_request)
    }
}

/// Deliveries and ids that get no answer on this connection any more: each delivery that has had its answer, and each id that was taken
/// back. A second answer under an id closes some providers' connections. An id that names no delivery of its own may come again with
/// another call, which is owed an answer of its own (`docs/policies.md`, "The same call twice").
#[derive(Debug)]
struct ClosedIds(LruCache<Closed, Ending, BuildQuickHasher>);

/// The reason why a delivery gets no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The answer of this call was given.
    Answered(CallNumber),
    TakenBack,
}

#[derive(Debug, PartialEq, Eq)]
struct Closed {
    key: HashedKey,
    /// The id that the delivery came under, if the id is not its key.
    unstable_id: Option<Arc<str>>,
}

impl Closed {
    fn of(id: &Arc<str>, key: &HashedKey) -> Self {
        Self {
            key: key.clone(),
            unstable_id: (!key.is_stable()).then(|| id.clone()),
        }
    }
}

impl Hash for Closed {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

/// Providers count their ids up, so old ones do not come again. More than these need not be known.
const CLOSED_IDS_MAX: usize = 512;

impl Default for ClosedIds {
    fn default() -> Self {
        Self(LruCache::unbounded_with_hasher(BuildQuickHasher::default()))
    }
}

impl ClosedIds {
    /// Ends a delivery. Returns true if it was still open.
    fn close(&mut self, id: &Arc<str>, key: &HashedKey, call: CallNumber) -> bool {
        self.end(Closed::of(id, key), Ending::Answered(call))
    }

    fn end(&mut self, closed: Closed, ending: Ending) -> bool {
        if self.0.contains(&closed) {
            return false;
        }
        self.0.put(closed, ending);
        bound(&mut self.0, CLOSED_IDS_MAX);
        true
    }

    /// Held answers that are not sent any more do not count as answers.
    fn withdraw(&mut self, calls: &[CallNumber]) {
        for (_, ending) in &mut self.0 {
            if matches!(ending, Ending::Answered(call) if calls.contains(call)) {
                *ending = Ending::TakenBack;
            }
        }
    }

    /// A call has come. If its id is not its key, it is another call than the one taken back under that id, even if it asks for the
    /// same: it is owed an answer.
    fn reopen(&mut self, id: &Arc<str>, key: &HashedKey) {
        if key.is_stable() {
            return;
        }
        let closed = Closed::of(id, key);
        if self.0.peek(&closed) == Some(&Ending::TakenBack) {
            self.0.pop(&closed);
        }
    }

    /// The provider took back an id and these deliveries: none of them is answered any more. Without deliveries the id itself is closed,
    /// since a delivery that it names may still come.
    fn close_all(&mut self, id: &Arc<str>, keys: &[HashedKey]) {
        if keys.is_empty() {
            let key = DeliveryKey::Provider(id.clone()).into();
            self.end(Closed::of(id, &key), Ending::TakenBack);
        }
        for key in keys {
            self.end(Closed::of(id, key), Ending::TakenBack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::envelope::{Projection, ProjectionBody};

    fn notice(question: u32, text: &str) -> Notice {
        Notice {
            turn: 1,
            effect_id: None,
            question: Some(QuestionNumber(question)),
            text: text.to_owned(),
            is_logged: false,
        }
    }

    #[test]
    fn a_notice_is_told_until_the_model_reacts_and_the_newest_of_a_question_alone() {
        let mut notices = Notices::default();
        assert!(notices.add(notice(1, "asked")) && notices.add(notice(1, "done")));
        assert!(notices.add(notice(2, "denied")));
        assert_eq!(notices.send(5).len(), 2);
        assert!(!notices.add(notice(1, "done")), "it was told");
        assert_eq!(notices.confirm(4), (Vec::new(), Vec::new()));
        notices.keep_unread();
        assert_eq!(notices.send(7)[0].text, "done");
        notices.forget(None, Some(QuestionNumber(2)));
        assert_eq!(notices.confirm(7).1, [QuestionNumber(1)]);
        assert_eq!(notices.len(), 0);
    }

    #[test]
    fn an_answer_into_a_message_is_heard_in_the_next_one_unless_the_model_waits() {
        let mut messages = Messages::default();
        assert_eq!(messages.next(false), 1);
        assert_eq!(messages.produced(), 1);
        assert_eq!((messages.next(true), messages.next(false)), (1, 2));
        // More calls of a message may have been on their way before its first was answered.
        assert_eq!(messages.called(), 0);
        messages.ended(false);
        assert_eq!(messages.transcribed(), None, "words trail the message");
        messages.ended(true);
        assert_eq!(messages.called(), 2);
    }

    fn answer(id: &str) -> ModelToolResponse {
        ModelToolResponse {
            id: Some(id.into()),
            name: "look".into(),
            projection: Projection {
                duration_ms: 0,
                body: ProjectionBody::Success {
                    data: None,
                    content: Vec::new(),
                    cut: None,
                    quoted: false,
                },
            },
            scheduling: None,
        }
    }

    fn ids(released: &Released) -> Vec<&str> {
        let ids = released.answers.iter().map(|answer| answer.id.as_deref());
        ids.flatten().collect()
    }

    #[test]
    fn answers_of_one_message_travel_together_in_its_order() {
        let mut answers = Answers::default();
        let batch = answers.open_batch(3);
        let second = answers.settle(batch, CallNumber(2), Some(answer("b")), true);
        assert!(ids(&second).is_empty() && answers.holds(batch, CallNumber(2)));
        answers.take_back(&"b".into(), &[]);
        answers.settle(batch, CallNumber(3), Some(answer("c")), true);
        let last = answers.settle(batch, CallNumber(1), Some(answer("a")), true);
        assert_eq!((ids(&last), last.complete), (vec!["a", "c"], Some(3)));
    }

    #[test]
    fn an_answer_whose_message_is_forgotten_goes_out_at_once() {
        let mut answers = Answers::default();
        let released = answers.settle(7, CallNumber(1), Some(answer("a")), true);
        assert_eq!((ids(&released), released.complete), (vec!["a"], None));
    }

    fn close(closed: &mut ClosedIds, id: &str, key: DeliveryKey) -> bool {
        closed.close(&id.into(), &key.into(), CallNumber(1))
    }

    #[test]
    fn an_id_is_closed_once_until_many_others_came_after_it() {
        let mut closed = ClosedIds::default();
        let mut provider = |id: &str| close(&mut closed, id, DeliveryKey::Provider(id.into()));
        assert!(provider("call-number-0") && !provider("call-number-0"));
        assert!((1..CLOSED_IDS_MAX).all(|number| provider(&format!("call-number-{number}"))));
        assert!(!provider("call-number-0"));
        assert!((0..CLOSED_IDS_MAX).all(|number| provider(&format!("later-number-{number}"))));
        assert!(provider("call-number-0"));
        assert_eq!(closed.0.len(), CLOSED_IDS_MAX);
    }

    #[test]
    fn an_id_that_names_no_delivery_is_closed_for_each_of_them() {
        let mut closed = ClosedIds::default();
        let key = |hash: u8| DeliveryKey::Hash {
            turn: 1,
            hash: [hash; 8],
        };
        assert!(close(&mut closed, "fc-1", key(1)));
        assert!(close(&mut closed, "fc-1", key(2)));
        assert!(close(&mut closed, "fc-2", key(1)));
        assert!(!close(&mut closed, "fc-1", key(1)));
    }
}
