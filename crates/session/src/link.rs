//! The link to the model: which connection it is, what it carries, what the model has heard of it, and what waits for the
//! next. Knows no policy; when there is a next one is decided in `policy/reconnect.rs`.

use crate::facts::{DeliveryKey, HashedKey, Slot};
use crate::hash::{BuildQuickHasher, bound};
use crate::model::HistoryEntry;
use crate::policy::{Reconnect, Settled};
use crate::saved::WaitingText;
use lru::LruCache;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use windlass_store::QuestionNumber;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::kind::Scheduling;

/// The provider's connection, and what it carries.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// From 1; 0 before the first.
    pub(crate) generation: u64,
    pub(crate) ready: bool,
    /// It is gone, or given up, and no other has taken its place yet.
    pub(crate) is_lost: bool,
    /// What the user typed while the provider was not ready.
    pub(crate) waiting_texts: Vec<WaitingText>,
    /// The answer under way was interrupted: until the provider ends it, what still comes of it is void.
    pub(crate) discarding: bool,
    /// The provider has said so, too: it answers what comes in from now on.
    pub(crate) is_interruption_known: bool,
    /// The provider still owes the end of an interrupted turn, which will end nothing.
    pub(crate) owes_turn_end: bool,
    pub(crate) closed_ids: ClosedIds,
    pub(crate) plan: Reconnect,
    /// What was said before, for a connection that begins afresh. Announced when it is opened, sent when it is ready.
    pub(crate) seed: Vec<HistoryEntry>,
    /// What the user asked and no connection has answered yet.
    pub(crate) unanswered: Option<String>,
    pub(crate) messages: Messages,
    pub(crate) notices: Notices,
    /// Answers that the model has not reacted to yet.
    pub(crate) unconfirmed: Vec<Unconfirmed>,
    /// Answers with an effect that the model has reacted to in the turn under way. If the connection is lost before the turn ends, the
    /// next one is asked the same question, and its model knows of none of them.
    pub(crate) confirmed: Vec<Late>,
    /// Results whose connection is gone, for the next silence.
    pub(crate) late: VecDeque<Late>,
    /// The last result that went out asks for words, and nobody was nudged for it yet.
    pub(crate) nudges_left: u32,
    /// The client was told that the provider is gone.
    pub(crate) is_told_lost: bool,
}

impl Link {
    /// Keeps a result whose connection is gone, for the next silence. Returns the call of one that is given up, because more wait
    /// than may.
    pub(crate) fn keep_late(&mut self, newest: Late, late_max: usize) -> Option<CallNumber> {
        let late = &mut self.late;
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
        let unconfirmed = self.unconfirmed.iter_mut().map(|answer| &mut answer.late);
        for late in self.late.iter_mut().chain(unconfirmed) {
            let is_in_doubt = late.settled.response.error_type() == Some(ErrorType::OutcomeUnknown);
            if is_in_doubt && late.is_of_effect(settled) {
                late.settled = settled.clone();
            }
        }
    }

    /// The model asked again and has its answer: results of earlier connections that say the same are not told any more.
    pub(crate) fn supersede(&mut self, told: &Late) {
        self.late.retain(|late| !told.stands_for(late));
    }

    /// Answers that waited for others of their message, and whose calls were taken back: nobody is to hear of them.
    pub(crate) fn forget_withdrawn(&mut self, calls: &[CallNumber]) {
        self.unconfirmed
            .retain(|answer| !calls.contains(&answer.late.slot.number));
    }

    /// An answer went out, or waits for others of its message. Gives one that is forgotten for want of room.
    pub(crate) fn await_reaction(
        &mut self,
        late: Late,
        heard_from: Option<u64>,
        unconfirmed_max: usize,
    ) -> Option<Unconfirmed> {
        let unconfirmed = &mut self.unconfirmed;
        // A delivery that came again has been answered again; what it brought is not to be told twice.
        unconfirmed.retain(|answer| answer.late.slot.key != late.slot.key);
        if late.settled.effect_id.is_some() {
            // What is known of an effect now stands for what was said of it before. Of answers that wait for others, one may go
            // out and the other not.
            unconfirmed
                .retain(|answer| answer.heard_from.is_none() || !answer.late.is_like(&late.slot));
        }
        let mut forgotten = None;
        if unconfirmed.len() >= unconfirmed_max.max(1) {
            let mut known = unconfirmed.iter();
            let refusal = known.position(|answer| !answer.late.settled.is_outcome);
            forgotten = Some(unconfirmed.remove(refusal.unwrap_or(0)));
        }
        unconfirmed.push(Unconfirmed { late, heard_from });
        forgotten
    }

    /// The model has produced something in this message: the answers that it can follow have arrived.
    pub(crate) fn confirm(&mut self, message: u64) {
        let heard =
            |answer: &mut Unconfirmed| answer.heard_from.is_some_and(|from| from <= message);
        let heard = self.unconfirmed.extract_if(.., heard);
        let effects = heard.filter(|answer| answer.late.settled.effect_id.is_some());
        self.confirmed.extend(effects.map(|answer| answer.late));
    }

    /// Effects that the model has heard of for good: the newest `kept_max` are kept back.
    pub(crate) fn take_confirmed(&mut self, kept_max: usize) -> Vec<EffectId> {
        let heard = self.confirmed.len().saturating_sub(kept_max);
        let heard = self.confirmed.drain(..heard);
        heard.filter_map(|late| late.settled.effect_id).collect()
    }
}

/// Notices that wait for silence; the oldest make room.
pub(crate) const NOTICES_MAX: usize = 32;

/// What the model is still to be told of questions and of calls that it has had its answers to, and what it was told and has
/// not reacted to.
#[derive(Debug, Default)]
pub(crate) struct Notices {
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
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    pub(crate) fn is_any_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// False where the model was told exactly this.
    pub(crate) fn add(&mut self, newest: Notice) -> bool {
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
    pub(crate) fn forget(
        &mut self,
        effect_id: Option<&EffectId>,
        question: Option<QuestionNumber>,
    ) {
        let is_meant = |notice: &Notice| {
            (effect_id.is_some() && notice.effect_id.as_ref() == effect_id)
                || (question.is_some() && notice.question == question)
        };
        self.waiting.retain(|notice| !is_meant(notice));
        self.sent.retain(|(notice, _)| !is_meant(notice));
    }

    /// Those that wait, which go out now; the first message of the model's that can be a reaction is this one.
    pub(crate) fn send(&mut self, heard_from: u64) -> Vec<Notice> {
        let notices: Vec<Notice> = self.waiting.drain(..).collect();
        let sent = notices.iter().map(|notice| (notice.clone(), heard_from));
        self.sent.extend(sent);
        while self.sent.len() > NOTICES_MAX {
            self.sent.pop_front();
        }
        notices
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The model has produced something in this message, so that it has read the notices that it can follow.
    pub(crate) fn confirm(&mut self, message: u64) -> (Vec<EffectId>, Vec<QuestionNumber>) {
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
    pub(crate) fn keep_unread(&mut self) {
        while let Some((notice, _)) = self.sent.pop_back() {
            self.waiting.push_front(notice);
        }
        self.waiting.truncate(NOTICES_MAX);
    }
}

/// What the model produces comes in messages. An answer that went out while one was under way may have reached the model only
/// after it, so that the rest of that message says nothing about the answer (`docs/policies.md`, "When a connection ends").
#[derive(Debug, Default)]
pub(crate) struct Messages {
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
    pub(crate) fn produced(&mut self) -> u64 {
        if self.phase != Phase::UnderWay {
            self.begun += 1;
            self.phase = Phase::UnderWay;
        }
        self.begun
    }

    /// The model calls. What these calls can follow for certain is what the message before theirs could, unless they begin one:
    /// more calls of one message may have been on their way already when the first was answered.
    pub(crate) fn called(&mut self) -> u64 {
        let goes_on = self.phase == Phase::UnderWay;
        self.produced() - u64::from(goes_on)
    }

    /// A transcript came, which may be of a message that is over: it begins one only where nothing can trail. Returns the
    /// number of the message under way.
    pub(crate) fn transcribed(&mut self) -> Option<u64> {
        (self.phase != Phase::Trailing).then(|| self.produced())
    }

    /// The message is over; with the provider's turn nothing of it is to come.
    pub(crate) fn ended(&mut self, with_turn: bool) {
        self.phase = match with_turn {
            true => Phase::Idle,
            false => Phase::Trailing,
        };
    }

    /// The first message that can follow what is sent now. A model that waits for it goes on with the message that asked.
    pub(crate) fn next(&self, is_waited_for: bool) -> u64 {
        match is_waited_for && self.phase == Phase::UnderWay {
            true => self.begun,
            false => self.begun + 1,
        }
    }
}

/// An answer that the model has not reacted to yet.
#[derive(Debug)]
pub(crate) struct Unconfirmed {
    pub(crate) late: Late,
    /// The first message of the model's that can be a reaction; none while the answer waits for others of its message.
    pub(crate) heard_from: Option<u64>,
}

/// A result that its connection may never have carried.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) slot: Slot,
    pub(crate) settled: Settled,
    /// When the model is to speak of it, where something says so.
    pub(crate) scheduling: Option<Scheduling>,
}

impl Late {
    /// Whether both say what became of one effect.
    pub(crate) fn is_of_effect(&self, settled: &Settled) -> bool {
        settled.effect_id.is_some() && self.settled.effect_id == settled.effect_id
    }

    /// Whether it is what came of the call, so that nobody who asked for the same is owed more.
    pub(crate) fn answers_whoever_asked(&self) -> bool {
        self.settled.is_outcome || self.settled.repeats.is_some()
    }

    /// Whether a model that is told this has nothing to learn from the other. Of several calls that one run answers, the model
    /// may hear on one connection what another did not carry.
    pub(crate) fn stands_for(&self, other: &Self) -> bool {
        let is_same = match (&self.settled.effect_id, &other.settled.effect_id) {
            (Some(own), Some(others)) => own == others,
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                other.slot.generation < self.slot.generation && other.is_like(&self.slot)
            }
        };
        (is_same && self.answers_whoever_asked()) || self.settled.is_of_one_run(&other.settled)
    }

    /// Whether this call asks for the same thing.
    pub(crate) fn is_like(&self, slot: &Slot) -> bool {
        self.slot.is_like(slot)
    }
}

/// What gets no answer on this connection any more: each delivery that has had its one, and each id that was taken back. A
/// second answer under an id closes some providers' connections. An id that names no delivery of its own may come again
/// with another call, which is owed an answer of its own (`docs/policies.md`, "The same call twice").
#[derive(Debug)]
pub(crate) struct ClosedIds(LruCache<Closed, Ending, BuildQuickHasher>);

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
    pub(crate) fn close(&mut self, id: &Arc<str>, key: &HashedKey, call: CallNumber) -> bool {
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
    pub(crate) fn withdraw(&mut self, calls: &[CallNumber]) {
        for (_, ending) in &mut self.0 {
            if matches!(ending, Ending::Answered(call) if calls.contains(call)) {
                *ending = Ending::TakenBack;
            }
        }
    }

    /// A call has come. Where its id names no delivery of its own, it is not the one that was taken back, though it may ask
    /// for the same: it is owed an answer.
    pub(crate) fn reopen(&mut self, id: &Arc<str>, key: &HashedKey) {
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
    pub(crate) fn close_all(&mut self, id: &Arc<str>, keys: &[HashedKey]) {
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

    fn notice(question: u32, text: &str) -> Notice {
        Notice {
            turn: 1,
            effect_id: None,
            question: Some(QuestionNumber(question)),
            text: text.to_owned(),
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
