//! The log of the conversation as one session follows it: the acts of others, and its own, which it need not be told. Owns how far it
//! has read; asks and changes nothing.

use crate::ledger::Ledger;
use crate::tail::Tail;
use std::collections::{HashMap, VecDeque};
use std::task::Context;
use windlass_contract::id::{EffectId, SessionId};
use windlass_session::io::{News, StandingNews};
use windlass_session::log_text::{KeptState, TicketReply};
use windlass_store::log::EffectChange;
use windlass_store::{
    AttemptNumber, ConversationRef, Effect, EffectState, Entry, EntryEvent, EntryNumber, LegRef,
    QuestionNumber, Store, StoreUnavailable,
};

/// Entries of the log that are read at once: more than a log keeps, so that none is passed over.
const ENTRIES_MAX: usize = 100_000;
/// Entries of other legs that are kept until a model is shown them; the oldest make room.
const HEARD_MAX: usize = 500;

pub(crate) struct LogReader {
    conversation: ConversationRef,
    leg: SessionId,
    tail: Tail,
    last_read: EntryNumber,
    /// The log may hold more than was read.
    is_behind: bool,
    /// Newest attempts of effects that this session runs, or ran until its log is read on.
    own: HashMap<EffectId, OwnAttempt>,
    keeps_heard: bool,
    heard: VecDeque<Entry>,
    /// The changes of standing approvals that were read and not told to the session.
    standing: Option<Box<StandingNews>>,
}

struct OwnAttempt {
    attempt: AttemptNumber,
    state: OwnState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnState {
    Running,
    /// Its end was given to the ledger.
    Recording,
    /// The ledger has it, and entries up to this one say nothing new of it.
    Recorded(EntryNumber),
}

/// The relation of an entry to the session's knowledge.
enum Knowledge {
    /// The session did this itself.
    Own,
    /// A reply will tell whether it is the session's own.
    Undetermined,
    News,
}

impl LogReader {
    pub(crate) fn new(
        ledger: &dyn Ledger,
        conversation: &ConversationRef,
        leg: &LegRef,
        after: Option<EntryNumber>,
    ) -> Self {
        Self {
            tail: ledger.tail(conversation, &leg.leg),
            conversation: conversation.clone(),
            leg: leg.leg.clone(),
            last_read: after.unwrap_or_default(),
            // Something may have been committed between the host's reading and the tail's beginning.
            is_behind: after.is_some(),
            own: HashMap::new(),
            keeps_heard: true,
            heard: VecDeque::new(),
            standing: None,
        }
    }

    pub(crate) fn forget_heard(&mut self) {
        self.keeps_heard = false;
        self.heard = VecDeque::new();
    }

    pub(crate) fn take_heard(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.heard).into()
    }

    pub(crate) fn last_read(&self) -> EntryNumber {
        self.last_read
    }

    /// The session ends, and tells no one the later entries.
    pub(crate) fn retire(&self) {
        self.tail.retire();
    }

    /// The session runs this attempt.
    pub(crate) fn runs(&mut self, effect_id: &EffectId, attempt: AttemptNumber) {
        let state = OwnState::Running;
        let own = OwnAttempt { attempt, state };
        self.own.insert(effect_id.clone(), own);
    }

    /// The end of an attempt is being sent to the ledger.
    pub(crate) fn recording(&mut self, effect_id: &EffectId, attempt: AttemptNumber) {
        if let Some(own) = self.own.get_mut(effect_id)
            && own.attempt == attempt
        {
            own.state = OwnState::Recording;
        }
    }

    /// The ledger has the end of an attempt, or has not taken it. Returns the attempt, if it was the session's and its end was being
    /// sent.
    pub(crate) fn recorded(
        &mut self,
        effect_id: &EffectId,
        effect: Option<&Effect>,
    ) -> Option<AttemptNumber> {
        let own = self.own.get_mut(effect_id)?;
        if own.state != OwnState::Recording {
            return None;
        }
        let attempt = own.attempt;
        match effect {
            // Its session makes the next attempt, or reports that none follows.
            Some(effect) if effect.is_paused() => own.state = OwnState::Running,
            Some(effect) => own.state = OwnState::Recorded(effect.last_entry),
            // The end is stored later, if at all, and told then.
            None => {
                self.own.remove(effect_id);
            }
        }
        self.is_behind = true;
        Some(attempt)
    }

    /// Whether the log is to be read on now, for a session that is not polled.
    pub(crate) fn look_behind(&mut self) -> bool {
        let is_behind = std::mem::take(&mut self.is_behind);
        self.tail.take_news() || is_behind
    }

    /// Whether the log is to be read on now.
    pub(crate) fn poll_behind(&mut self, context: &mut Context<'_>) -> bool {
        let mut is_behind = std::mem::take(&mut self.is_behind);
        while self.tail.poll_committed(context).is_ready() {
            is_behind = true;
        }
        is_behind
    }

    /// The news of the log for the session. `is_shown` tells which approval requests its client was shown, also those of other legs.
    pub(crate) fn read(
        &mut self,
        store: &dyn Store,
        is_shown: impl Fn(QuestionNumber) -> bool,
    ) -> Result<Vec<News>, StoreUnavailable> {
        // The reader is behind until all of it was read.
        self.is_behind = true;
        let mut news = Vec::new();
        let mut told = Vec::new();
        for entry in store.entries(&self.conversation, self.last_read, ENTRIES_MAX)? {
            let number = entry.number;
            match &entry.event {
                EntryEvent::Effect(change) if told.contains(&change.effect_id) => {}
                EntryEvent::Effect(change) => match self.knows(number, change) {
                    Knowledge::Own => {}
                    Knowledge::Undetermined => {
                        self.forget_told();
                        self.read_standing(store, &mut news);
                        return Ok(news);
                    }
                    Knowledge::News => {
                        let tenant = &self.conversation.tenant;
                        let Ok(effect) = store.effect(tenant, &change.effect_id) else {
                            self.read_standing(store, &mut news);
                            return Ok(news);
                        };
                        told.push(change.effect_id.clone());
                        let effect = effect.map(|(_, effect)| News::Effect(Box::new(effect)));
                        news.extend(effect);
                    }
                },
                EntryEvent::Question(change) => {
                    let concerns = entry.leg.as_ref() == Some(&self.leg) || is_shown(change.number);
                    if concerns {
                        let question = store.question_of_number(&self.conversation, change.number);
                        let Ok(question) = question else {
                            self.read_standing(store, &mut news);
                            return Ok(news);
                        };
                        news.extend(question.map(|question| News::Question(Box::new(question))));
                    }
                }
                // The session that runs the task stops it, or leaves the attempt for which it waits. For all other sessions the entry
                // has no meaning yet.
                EntryEvent::CancelRequested(effect_id) => {
                    news.push(News::CancelRequested(effect_id.clone()));
                }
                EntryEvent::Standing(change) => {
                    let news = self.standing.get_or_insert_default();
                    if entry.leg.as_ref() == Some(&self.leg) {
                        news.own.push(change.clone());
                    }
                }
                EntryEvent::Asked(request) if request.leg == self.leg && !request.is_rejected => {
                    news.push(News::Asked(request.clone()));
                }
                EntryEvent::Said(said) => {
                    let is_own = entry.leg.as_ref() == Some(&self.leg);
                    if let Some(kept) = KeptState::of(said.expose()) {
                        news.push(News::State {
                            kept: Box::new(kept),
                            own: entry.leg_number.filter(|_| is_own),
                        });
                    } else if !is_own {
                        match TicketReply::of(said.expose()) {
                            Some(reply) => news.push(News::TicketReply(Box::new(reply))),
                            None => self.hear(entry),
                        }
                    }
                }
                EntryEvent::Asked(_)
                | EntryEvent::Onset
                | EntryEvent::Replayed(_)
                | EntryEvent::Attached(_)
                | EntryEvent::Gone => {}
            }
            self.last_read = number;
        }
        self.forget_told();
        self.is_behind = false;
        self.read_standing(store, &mut news);
        Ok(news)
    }

    /// Reads the present standing approvals, if the log says that some have changed. If they cannot be read now, they are told later.
    fn read_standing(&mut self, store: &dyn Store, news: &mut Vec<News>) {
        if self.standing.is_none() {
            return;
        }
        let of = &self.conversation;
        let Ok(known) = store.conversation(&of.tenant, &of.conversation_id) else {
            self.is_behind = true;
            return;
        };
        if let Some(mut changed) = self.standing.take() {
            changed.standing = known.map(|known| known.standing).unwrap_or_default();
            news.push(News::Standing(changed));
        }
    }

    fn knows(&self, number: EntryNumber, change: &EffectChange) -> Knowledge {
        let own = self.own.get(&change.effect_id);
        let Some(own) = own.filter(|own| own.attempt == change.attempt) else {
            return Knowledge::News;
        };
        match own.state {
            OwnState::Running => Knowledge::Own,
            OwnState::Recording if change.state == EffectState::Running => Knowledge::Own,
            OwnState::Recording => Knowledge::Undetermined,
            OwnState::Recorded(last) if number <= last => Knowledge::Own,
            OwnState::Recorded(_) => Knowledge::News,
        }
    }

    fn hear(&mut self, entry: Entry) {
        if !self.keeps_heard {
            return;
        }
        if self.heard.len() >= HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(entry);
    }

    /// Forgets attempts whose entries the log has been read beyond.
    fn forget_told(&mut self) {
        let last_read = self.last_read;
        self.own.retain(|_, own| match own.state {
            OwnState::Running | OwnState::Recording => true,
            OwnState::Recorded(last) => last > last_read,
        });
    }
}
