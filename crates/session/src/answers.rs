//! What the model is told of calls, and what it has heard: answers of one message that travel together, answers and notices that
//! it has not reacted to yet, and results whose connection is gone. Knows no connection and no turn.

use crate::config::SessionConfig;
use crate::facts::{Delivered, DeliveryKey, HashedKey, Slot};
use crate::hash::{BuildQuickHasher, bound};
use crate::model::ModelToolResponse;
use crate::policy::Settled;
use lru::LruCache;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use windlass_store::QuestionNumber;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::kind::Scheduling;

/// What the model produces, as far as it tells what the model has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produced {
    Words,
    Calls,
    /// Of words, perhaps of those of a message that is over.
    Transcript,
    /// Words that were heard before. The provider says only now that they were an answer.
    Earlier,
}

#[derive(Debug, Default)]
pub(crate) struct Answers {
    batches: Vec<Batch>,
    last_batch: u64,
    closed_ids: ClosedIds,
    messages: Messages,
    notices: Notices,
    /// Answers that the model has not reacted to yet.
    unconfirmed: Vec<Unconfirmed>,
    /// Answers with an effect that the model has reacted to in the current turn. If the connection is lost before the turn ends, the
    /// next one is asked the same question, and its model knows of none of them.
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

/// What settling one delivery releases.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) answers: Vec<ModelToolResponse>,
    /// How many calls the message had, where this was its last.
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

    /// Notes that one delivery of a message is settled, with its answer if it gets one. With `together`, answers are
    /// held until the last of the message is ready, and come in the message's order.
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

    /// Whether the answer to a delivery waits for others of its message.
    fn holds(&self, batch: u64, number: CallNumber) -> bool {
        let mut of_message = self.batches.iter().filter(|entry| entry.id == batch);
        of_message.any(|entry| entry.ready.iter().any(|(ready, _)| *ready == number))
    }

    /// The provider took a call back whose answer waits for those of its message: it is not sent any more. Whose answers
    /// these were.
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

    /// Keeps a result whose connection is gone, for the next silence. Returns the call of one that is given up, because more wait
    /// than may.
    pub(crate) fn keep_late(&mut self, newest: CallAnswer, late_max: usize) -> Option<CallNumber> {
        let late = &mut self.late;
        // That it is at work needs no telling any more.
        late.retain(|late| {
            let is_at_work = late.settled.response.meta.accepted_until.is_some();
            !is_at_work || late.slot.number != newest.slot.number
        });
        if late
            .iter()
            .any(|late| late.settled.is_of_one_run(&newest.settled))
        {
            return None;
        }
        // Several calls may have been answered with one effect, which the model is told of once.
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
        // Refusals make room for what was done.
        let refusal = late.iter().position(|late| !late.settled.is_outcome);
        let dropped = late.remove(refusal.unwrap_or(0));
        dropped.map(|dropped| dropped.slot.number)
    }

    /// More is known of an effect than when the model was to be told of it.
    pub(crate) fn correct(&mut self, settled: &Settled) {
        let unconfirmed = self.unconfirmed.iter_mut().map(|answer| &mut answer.answer);
        for late in self.late.iter_mut().chain(unconfirmed) {
            let is_in_doubt = late.settled.response.error_type() == Some(ErrorType::OutcomeUnknown);
            if is_in_doubt && late.is_of_effect(settled) {
                late.settled = settled.clone();
            }
        }
    }

    /// An answer went out, or waits for others of its message: it counts as heard once the model reacts to it. Returns the deliveries
    /// that have their answer for good by that.
    pub(crate) fn await_reaction(
        &mut self,
        answer: CallAnswer,
        config: &SessionConfig,
    ) -> Vec<Slot> {
        let is_held = self.holds(answer.slot.batch, answer.slot.number);
        let mut superseding = Vec::new();
        if !is_held {
            superseding.extend(self.supersede(&answer));
        }
        let heard_from = (!is_held).then(|| self.heard_from(&answer.slot, config));
        let forgotten = self.keep_unconfirmed(answer, heard_from, config.limits.open_calls_max);
        // Nobody will know any more when it goes out.
        if let Some(forgotten) = forgotten.filter(|answer| answer.heard_from.is_none()) {
            superseding.extend(self.supersede(&forgotten.answer));
        }
        superseding
    }

    /// The answers of a message that waited for each other have gone out. Returns the same.
    pub(crate) fn await_reactions(&mut self, slot: &Slot, config: &SessionConfig) -> Vec<Slot> {
        let mut superseding = Vec::new();
        if self.unconfirmed.is_empty() {
            return superseding;
        }
        // Of one message the model may wait for some calls and not for others.
        let mut unconfirmed = std::mem::take(&mut self.unconfirmed);
        for answer in &mut unconfirmed {
            let Delivered { batch, number, .. } = *answer.answer.slot;
            if batch == slot.batch && answer.heard_from.is_none() && !self.holds(batch, number) {
                superseding.extend(self.supersede(&answer.answer));
                answer.heard_from = Some(self.heard_from(&answer.answer.slot, config));
            }
        }
        self.unconfirmed = unconfirmed;
        superseding
    }

    /// The first message of the model's that can follow the answer to this call, if it goes out now.
    fn heard_from(&self, slot: &Slot, config: &SessionConfig) -> u64 {
        self.messages.next(config.waits_for(&slot.name))
    }

    /// The model asked again and has its answer: results of earlier connections that say the same are not told any more, and calls
    /// of those connections that ask for the same need no answer.
    fn supersede(&mut self, told: &CallAnswer) -> Option<Slot> {
        self.late.retain(|late| !told.stands_for(late));
        let has_earlier = told.slot.generation > 1;
        (has_earlier && told.answers_whoever_asked()).then(|| told.slot.clone())
    }

    /// Gives one that is forgotten for want of room.
    fn keep_unconfirmed(
        &mut self,
        newest: CallAnswer,
        heard_from: Option<u64>,
        unconfirmed_max: usize,
    ) -> Option<Unconfirmed> {
        let unconfirmed = &mut self.unconfirmed;
        // A delivery that came again has been answered again; what it brought is not to be told twice.
        unconfirmed.retain(|known| known.answer.slot.key != newest.slot.key);
        if newest.settled.effect_id.is_some() {
            // What is known of an effect now stands for what was said of it before. Of answers that wait for others, one may go
            // out and the other not.
            unconfirmed
                .retain(|known| known.heard_from.is_none() || !known.answer.is_like(&newest.slot));
        }
        let forgotten = make_room(unconfirmed, unconfirmed_max, |_| true);
        unconfirmed.push(Unconfirmed {
            answer: newest,
            heard_from,
        });
        forgotten
    }

    /// Notes what the model produces, as far as it tells what the model has read. Returns the message up to which it has reacted.
    pub(crate) fn reacted(&mut self, what: Produced) -> Option<u64> {
        match what {
            Produced::Words => Some(self.messages.produced()),
            Produced::Calls => Some(self.messages.called()),
            Produced::Transcript => self.messages.transcribed(),
            Produced::Earlier => None,
        }
    }

    /// The model has produced something in this message: what it can follow has arrived. Returns the effects and questions that it
    /// has heard of for good; of effects the newest `kept_max` are kept back.
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

    /// Effects that the model has heard of for good: the newest `kept_max` are kept back.
    pub(crate) fn take_confirmed(&mut self, kept_max: usize) -> Vec<EffectId> {
        let heard = self.confirmed.len().saturating_sub(kept_max);
        let heard = self.confirmed.drain(..heard);
        heard
            .filter_map(|answer| answer.settled.effect_id)
            .collect()
    }

    /// Answers that the current turn has heard, for another connection that has not.
    pub(crate) fn take_back_confirmed(&mut self) -> Vec<CallAnswer> {
        std::mem::take(&mut self.confirmed)
    }

    /// The first message that can follow what is sent now.
    pub(crate) fn next_message(&self, is_waited_for: bool) -> u64 {
        self.messages.next(is_waited_for)
    }

    /// A message of the model's is over; with the provider's turn nothing of it is to come.
    pub(crate) fn message_ended(&mut self, with_turn: bool) {
        self.messages.ended(with_turn);
    }

    /// Ends a delivery. True where it was still owed an answer on this connection.
    pub(crate) fn close(&mut self, slot: &Slot) -> bool {
        slot.provider_id()
            .is_none_or(|id| self.closed_ids.close(id, &slot.key, slot.number))
    }

    /// A call has come, which is owed an answer.
    pub(crate) fn open(&mut self, delivered: &Delivered) {
        if let Some(id) = delivered.provider_id() {
            self.closed_ids.reopen(id, &delivered.key);
        }
    }

    /// The provider took an id back, under which these deliveries have no answer yet.
    pub(crate) fn take_back(&mut self, id: &Arc<str>, keys: &[HashedKey]) {
        self.closed_ids.close_all(id, keys);
        let withdrawn = self.withdraw_answer(id);
        self.closed_ids.withdraw(&withdrawn);
        // Nobody is to hear of answers that waited for others of their message.
        self.unconfirmed
            .retain(|answer| !withdrawn.contains(&answer.answer.slot.number));
    }

    /// Another connection, on which no id has had an answer.
    pub(crate) fn connected(&mut self) {
        self.closed_ids = ClosedIds::default();
    }

    /// A request begins, with all answers that were given. Answers that wait for others of their message are not sent any more, and
    /// are returned.
    pub(crate) fn request_sent(&mut self) -> Vec<CallAnswer> {
        self.closed_ids = ClosedIds::default();
        for batch in &mut self.batches {
            batch.ready.clear();
        }
        let is_held = |answer: &mut Unconfirmed| answer.heard_from.is_none();
        let held = self.unconfirmed.extract_if(.., is_held);
        held.map(|answer| answer.answer).collect()
    }

    /// The connection is gone: answers that waited for others are not sent any more. Returns those that the model has not reacted
    /// to, so that nobody knows whether it has them.
    pub(crate) fn leave_connection(&mut self) -> impl Iterator<Item = CallAnswer> + use<> {
        self.notices.keep_unread();
        self.messages.ended(true);
        for batch in &mut self.batches {
            batch.ready.clear();
        }
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        unconfirmed.into_iter().map(|answer| answer.answer)
    }

    /// Takes what the model is to be told in the next silence. What an answer says that waits for others of its message is told with
    /// those, or not at all.
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

    /// This one goes out now, in a silence. Where the model reacts to nothing, the oldest that it was sent makes room: of changes the log
    /// still knows that no model has heard.
    pub(crate) fn sent_late(&mut self, answer: CallAnswer, config: &SessionConfig) {
        let heard_from = Some(self.messages.next(false));
        let most = config.limits.open_calls_max.saturating_mul(2);
        make_room(&mut self.unconfirmed, most, |known| {
            known.heard_from.is_some()
        });
        self.unconfirmed.push(Unconfirmed { answer, heard_from });
    }

    /// False where the model was told exactly this.
    pub(crate) fn notify(&mut self, notice: Notice) -> bool {
        self.notices.add(notice)
    }

    /// The model asked again before it was told, and has its answer now.
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

    /// Notices that wait, which go out now.
    pub(crate) fn send_notices(&mut self) -> Vec<Notice> {
        let heard_from = self.messages.next(false);
        self.notices.send(heard_from)
    }

    /// How many results, unconfirmed and confirmed answers and notices are held.
    pub(crate) fn held(&self) -> [usize; 4] {
        let notices = self.notices.len();
        [
            self.late.len(),
            self.unconfirmed.len(),
            self.confirmed.len(),
            notices,
        ]
    }

    /// Keeps no room for answers to come.
    pub(crate) fn give_room_back(&mut self) {
        self.batches.shrink_to_fit();
        self.unconfirmed.shrink_to_fit();
        self.confirmed.shrink_to_fit();
    }
}

/// Takes out the one that one more answer leaves no room for, if any may go: a refusal before what was done, the oldest first.
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

/// Notices that wait for silence; the oldest make room.
pub(crate) const NOTICES_MAX: usize = 32;

/// What the model is still to be told of questions and of calls that it has had its answers to, and what it was told and has
/// not reacted to.
#[derive(Debug, Default)]
struct Notices {
    waiting: VecDeque<Notice>,
    /// With the first message of the model's that can be a reaction.
    sent: VecDeque<(Notice, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The turn whose counters go on with what the model makes of it.
    pub(crate) turn: u64,
    pub(crate) effect_id: Option<EffectId>,
    pub(crate) question: Option<QuestionNumber>,
    pub(crate) text: String,
    /// The log of the conversation has it already.
    pub(crate) is_logged: bool,
}

impl Notice {
    /// Whether a newer one says what became of the same, so that this one is of no use any more.
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

    /// False where the model was told exactly this.
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

    /// The model asked again before it was told, and has its answer now.
    fn forget(&mut self, effect_id: Option<&EffectId>, question: Option<QuestionNumber>) {
        let is_meant = |notice: &Notice| {
            (effect_id.is_some() && notice.effect_id.as_ref() == effect_id)
                || (question.is_some() && notice.question == question)
        };
        self.waiting.retain(|notice| !is_meant(notice));
        self.sent.retain(|(notice, _)| !is_meant(notice));
    }

    /// Those that wait, which go out now; the first message of the model's that can be a reaction is this one.
    fn send(&mut self, heard_from: u64) -> Vec<Notice> {
        let notices: Vec<Notice> = self.waiting.drain(..).collect();
        let sent = notices.iter().map(|notice| (notice.clone(), heard_from));
        self.sent.extend(sent);
        while self.sent.len() > NOTICES_MAX {
            self.sent.pop_front();
        }
        notices
    }

    /// The model has produced something in this message, so that it has read the notices that it can follow.
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

    /// The model has not reacted to these, so that nobody knows whether it has read them: the next connection is told.
    fn keep_unread(&mut self) {
        while let Some((notice, _)) = self.sent.pop_back() {
            self.waiting.push_front(notice);
        }
        self.waiting.truncate(NOTICES_MAX);
    }
}

/// What the model produces comes in messages. An answer that went out while one was under way may have reached the model only
/// after it, so that the rest of that message says nothing about the answer (`docs/policies.md`, "When a connection ends").
#[derive(Debug, Default)]
struct Messages {
    /// How many have begun.
    begun: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    UnderWay,
    /// It is over, and the provider has still to end its turn: a transcript of it may trail.
    Trailing,
}

impl Messages {
    /// The model produces. Returns the number of the message that this is of.
    fn produced(&mut self) -> u64 {
        if self.phase != Phase::UnderWay {
            self.begun += 1;
            self.phase = Phase::UnderWay;
        }
        self.begun
    }

    /// The model calls. What these calls can follow for certain is what the message before theirs could, unless they begin one:
    /// more calls of one message may have been on their way already when the first was answered.
    fn called(&mut self) -> u64 {
        let goes_on = self.phase == Phase::UnderWay;
        self.produced() - u64::from(goes_on)
    }

    /// A transcript came, which may be of a message that is over: it begins one only where nothing can trail. Returns the
    /// number of the current message.
    fn transcribed(&mut self) -> Option<u64> {
        (self.phase != Phase::Trailing).then(|| self.produced())
    }

    /// The message is over; with the provider's turn nothing of it is to come.
    fn ended(&mut self, with_turn: bool) {
        self.phase = match with_turn {
            true => Phase::Idle,
            false => Phase::Trailing,
        };
    }

    /// The first message that can follow what is sent now. A model that waits for it goes on with the message that asked.
    fn next(&self, is_waited_for: bool) -> u64 {
        match is_waited_for && self.phase == Phase::UnderWay {
            true => self.begun,
            false => self.begun + 1,
        }
    }
}

/// An answer that the model has not reacted to yet.
#[derive(Debug)]
struct Unconfirmed {
    pub(crate) answer: CallAnswer,
    /// The first message of the model's that can be a reaction; none while the answer waits for others of its message.
    heard_from: Option<u64>,
}

/// A result that its connection may never have carried.
#[derive(Clone, Debug)]
pub(crate) struct CallAnswer {
    pub(crate) slot: Slot,
    pub(crate) settled: Settled,
    /// When the model is to speak of it, where something says so.
    pub(crate) scheduling: Option<Scheduling>,
}

impl CallAnswer {
    /// Whether both say what became of one effect.
    fn is_of_effect(&self, settled: &Settled) -> bool {
        settled.effect_id.is_some() && self.settled.effect_id == settled.effect_id
    }

    /// Whether it is what came of the call, so that nobody who asked for the same is owed more.
    fn answers_whoever_asked(&self) -> bool {
        self.settled.is_outcome || self.settled.repeats.is_some()
    }

    /// Whether a model that is told this has nothing to learn from the other. Of several calls that one run answers, the model
    /// may hear on one connection what another did not carry.
    fn stands_for(&self, other: &Self) -> bool {
        let is_same = match (&self.settled.effect_id, &other.settled.effect_id) {
            (Some(own), Some(others)) => own == others,
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                other.slot.generation < self.slot.generation && other.is_like(&self.slot)
            }
        };
        (is_same && self.answers_whoever_asked()) || self.settled.is_of_one_run(&other.settled)
    }

    /// Whether this call asks for the same thing.
    fn is_like(&self, slot: &Slot) -> bool {
        self.slot.is_like(slot)
    }
}

/// What gets no answer on this connection any more: each delivery that has had its one, and each id that was taken back. A
/// second answer under an id closes some providers' connections. An id that names no delivery of its own may come again
/// with another call, which is owed an answer of its own (`docs/policies.md`, "The same call twice").
#[derive(Debug)]
struct ClosedIds(LruCache<Closed, Ending, BuildQuickHasher>);

/// Why a delivery gets no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By the answer of this call.
    Answered(CallNumber),
    TakenBack,
}

#[derive(Debug, PartialEq, Eq)]
struct Closed {
    key: HashedKey,
    /// What the delivery came under, where that is not its key.
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

/// Providers count their ids up, so that old ones do not come again; more than these need not be known.
const CLOSED_IDS_MAX: usize = 512;

impl Default for ClosedIds {
    fn default() -> Self {
        Self(LruCache::unbounded_with_hasher(BuildQuickHasher::default()))
    }
}

impl ClosedIds {
    /// Ends a delivery. True where it was still open.
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

    /// Answers that waited for others and are not sent any more were none.
    fn withdraw(&mut self, calls: &[CallNumber]) {
        for (_, ending) in &mut self.0 {
            if matches!(ending, Ending::Answered(call) if calls.contains(call)) {
                *ending = Ending::TakenBack;
            }
        }
    }

    /// A call has come. Where its id names no delivery of its own, it is not the one that was taken back, though it may ask
    /// for the same: it is owed an answer.
    fn reopen(&mut self, id: &Arc<str>, key: &HashedKey) {
        if key.is_stable() {
            return;
        }
        let closed = Closed::of(id, key);
        if self.0.peek(&closed) == Some(&Ending::TakenBack) {
            self.0.pop(&closed);
        }
    }

    /// The provider took an id back, and with it these deliveries: none of them is answered any more. One that is not known yet
    /// may still come, where the id names it.
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
    use windlass_tool::envelope::{Projection, ProjectionBody};

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
