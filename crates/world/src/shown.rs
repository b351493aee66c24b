//! Approval requests as the clients of this world see them: their contents, their ends, and the results of answers that were given in
//! time, in any session.

use crate::count::Fault;
use crate::judge::Rule;
use crate::mood::StoreMood;
use crate::notes::AskedFacts;
use crate::slot::Live;
use crate::world::World;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::ErrorType;
use windlass_contract::id::CallNumber;
use windlass_session::client::ConfirmationQuestion;
use windlass_store::{Question, QuestionNumber, QuestionState};

/// In this time an answer has a result.
const ANSWERING_US: u64 = 30_000_000;
/// The time before a request's end in which an answer counts, whatever waits for the store.
const IN_TIME_MS: u64 = 30_000;
/// The time for which a client may not know yet that another request has taken the place of one.
const TELLING_US: u64 = 20_000_000;

/// A request as a client was shown it.
#[derive(Clone, Debug)]
pub(crate) struct ShownRequest {
    pub(crate) conversation: usize,
    /// The slot whose client was shown it.
    pub(crate) slot: usize,
    pub(crate) question: QuestionNumber,
    /// The token that answers it.
    pub(crate) text: String,
    /// The session that has shown it, and its number for it.
    life: usize,
    call: CallNumber,
    expires_at_unix_ms: u64,
    shown_us: u64,
    /// A client was there to see it, and was told of no end since.
    is_open: bool,
}

/// An answer to a request that its client saw open.
#[derive(Clone, Debug)]
pub(crate) struct Click {
    conversation: usize,
    question: QuestionNumber,
    life: usize,
    call: CallNumber,
    expires_at_unix_ms: u64,
    at_us: u64,
    /// The client was told within the request's time that it is not open.
    is_refused: bool,
}

impl ShownRequest {
    /// The same with a forged token.
    pub(crate) fn forged(self) -> Self {
        let text = format!("{}.{}", self.question.0, "0f".repeat(16));
        Self { text, ..self }
    }

    /// Whether the session that has shown it is gone.
    pub(crate) fn is_orphaned(&self, lives: &[Option<Box<Live>>]) -> bool {
        let live = lives[self.life].as_deref();
        live.is_none_or(Live::is_over)
    }
}

impl Click {
    pub(crate) fn is_of(&self, conversation: usize) -> bool {
        self.conversation == conversation
    }
}

impl World {
    /// A client is shown a request, or shown it again.
    pub(crate) fn shows(&mut self, id: usize, live: &Live, question: &ConfirmationQuestion) {
        let Some(text) = live.driver.token(question.question) else {
            return;
        };
        let conversation = self.slots[live.slot].conversation;
        let shown = ShownRequest {
            conversation,
            slot: live.slot,
            question: question.question,
            text: text.into_inner(),
            life: id,
            call: question.call,
            expires_at_unix_ms: question.expires_at_unix_ms,
            shown_us: self.now_us,
            is_open: self.is_client_there(id, live),
        };
        self.tokens.retain(|known| {
            (known.conversation, known.slot, known.question)
                != (conversation, shown.slot, shown.question)
        });
        self.tokens.push(shown);
    }

    /// A client begins another session, which shows the open requests: it drops the earlier ones.
    pub(crate) fn client_begins(&mut self, slot: usize) {
        let shown = self.tokens.iter_mut();
        for shown in shown.filter(|shown| shown.slot == slot) {
            shown.is_open = false;
        }
    }

    fn is_client_there(&self, id: usize, live: &Live) -> bool {
        self.slots[live.slot].live == Some(id) && !live.is_client_gone
    }

    /// A client is told the result of a request.
    pub(crate) fn is_told_end(
        &mut self,
        id: usize,
        live: &Live,
        call: CallNumber,
        response: &ToolResponse,
    ) {
        let error = response.error();
        // It may be answered once more.
        let is_open = error.is_some_and(|error| error.retryable);
        let is_refused = response.error_type() == Some(ErrorType::ConfirmationExpired);
        let time_unix_ms = self.conversation_time(self.slots[live.slot].conversation);
        self.judge.clicks.retain_mut(|click| {
            let is_it = click.life == id && click.call == call;
            // A process may stand still with an answer, and another one's clock be ahead.
            let is_in_time = time_unix_ms < click.expires_at_unix_ms;
            click.is_refused |= is_it && is_refused && is_in_time;
            !is_it || is_refused && is_in_time
        });
        if !is_open && self.is_client_there(id, live) {
            self.ends_for_client(id, call);
        }
    }

    /// The client of a session, if it is there, knows that a request is over.
    pub(crate) fn ends_for_client(&mut self, id: usize, call: CallNumber) {
        let mut shown = self.tokens.iter_mut();
        if let Some(shown) = shown.find(|shown| shown.life == id && shown.call == call) {
            shown.is_open = false;
        }
    }

    /// A user answers a request. Notes whether it was shown, and is within its time.
    pub(crate) fn clicks(&mut self, token: &ShownRequest, life: usize) {
        let of = token.conversation;
        let Some(live) = self.lives[life].as_deref() else {
            return;
        };
        let shown = self.tokens.iter();
        let shown =
            shown.filter(|shown| (shown.conversation, shown.question) == (of, token.question));
        let shown: Vec<&ShownRequest> = shown.collect();
        let here = shown.iter().find(|shown| shown.life == life);
        let row = self.judge.questions.get(&(of, token.question));
        let Some(asked) = row else {
            return;
        };
        let call = here.map_or(CallNumber(asked.question.call), |shown| shown.call);
        // Every client of the user's that was shown it sees it open.
        let is_seen_open = shown.iter().all(|shown| shown.is_open);
        let expires_at_unix_ms = shown.iter().map(|shown| shown.expires_at_unix_ms).min();
        let expires_at_unix_ms = expires_at_unix_ms.unwrap_or(0);
        let is_in_time = self.conversation_time(of) + IN_TIME_MS < expires_at_unix_ms;
        let offer = self.judge.offers.get(&live.driver.leg().leg);
        let is_changed = offer.is_none_or(|offer| !offer.has(asked.edition));
        let is_of_other = offer.is_some_and(|offer| offer.edition() != asked.edition);
        self.fault_if(is_of_other && !is_changed, Fault::OtherVersionAnswered);
        self.fault_if(is_changed, Fault::ToolsChangedUnderRequest);
        if is_seen_open && is_in_time && !is_changed {
            self.judge.clicks.push(Click {
                conversation: of,
                question: token.question,
                life,
                call,
                expires_at_unix_ms,
                at_us: self.now_us,
                is_refused: false,
            });
        }
    }

    /// Judges the refused answers.
    pub(crate) fn judge_clicks(&mut self) {
        let now_us = self.now_us;
        let (due, clicks) = std::mem::take(&mut self.judge.clicks)
            .into_iter()
            .partition::<Vec<Click>, _>(|click| now_us - click.at_us >= ANSWERING_US);
        self.judge.clicks = clicks;
        for click in due.into_iter().filter(|click| click.is_refused) {
            let place = (click.conversation, click.question);
            let Some(asked) = self.judge.questions.get(&place).cloned() else {
                continue;
            };
            if asked.is_approved || asked.is_denied || asked.is_asked_anew || asked.is_changed {
                continue;
            }
            // One of two servers is not told the other's writes, a withdrawal for one: its client learns of it with the click.
            let is_late = |at_us: u64| at_us + TELLING_US < click.at_us;
            let is_replaced = asked
                .replaced_us
                .is_some_and(|at_us| self.had_two_owners || !is_late(at_us));
            let row = self.question_of(click.conversation, click.question);
            let Some(row) = row else {
                continue;
            };
            // The effect was done without this request, which the client was told.
            let is_void = row.state == QuestionState::Closed
                && (row.effect_id.is_some() || self.had_two_owners);
            if !is_void && !is_replaced {
                let what = format!("{click:?} came to nothing: {row:?}, {asked:?}");
                return self.broken(Rule::NoClickIsLost, what);
            }
        }
    }

    /// A client that is there knows the ledger's end of the request that it is shown.
    pub(crate) fn the_shown_end_is_the_ledgers(&mut self, token: &ShownRequest) {
        let place = (token.conversation, token.question);
        let Some(asked) = self.judge.questions.get(&place) else {
            return;
        };
        let is_settled = |at_us: u64| at_us + TELLING_US < self.now_us;
        let live = self.lives[token.life].as_deref();
        let is_there = live.is_some_and(|live| {
            self.is_client_there(token.life, live)
                && !live.is_over()
                && !self.is_stopped(live.process)
        });
        let is_open = !asked.is_approved
            && !asked.is_denied
            && !asked.is_changed
            && asked.replaced_us.is_none();
        let disturbances = self.judge.disturbances.iter().copied();
        // If the store cannot be read, its state is not known.
        let calm = self.mood == StoreMood::Up
            && is_settled(asked.changed_us)
            && is_settled(token.shown_us)
            && disturbances.max().is_none_or(is_settled);
        let is_other = asked.question.expires_at_unix_ms != token.expires_at_unix_ms;
        if token.is_open
            && is_there
            && is_open
            && calm
            && is_other
            // One of two servers is not told the other's writes.
            && !self.had_two_owners
        {
            let what = format!("{token:?} is shown, and the ledger has {asked:?}");
            self.broken(Rule::TheShownEndIsTheLedgers, what);
        }
    }

    /// Another request takes the place of the earlier ones of its key.
    pub(crate) fn note_replaced(&mut self, of: usize, new: &AskedFacts) {
        let (now_us, number) = (self.now_us, new.question.number);
        let time_unix_ms = new.question.asked_at_unix_ms;
        let mut lost = None;
        let kind_of = |question: &Question| {
            let input = question.input.as_ref()?;
            Some(input.run.as_ref().map(|(effect_id, _)| effect_id.clone()))
        };
        let kind = kind_of(&new.question);
        for ((conversation, _), old) in &mut self.judge.questions {
            let is_older = *conversation == of
                && old.question.number < number
                && old.question.key == new.question.key
                // A question of another kind, or of another run, stays.
                && kind_of(&old.question) == kind
                && old.question.expires_at_unix_ms > time_unix_ms
                && !old.is_approved
                && !old.is_denied
                && !old.is_changed
                && old.replaced_us.is_none();
            if !is_older {
                continue;
            }
            old.replaced_us = Some(now_us);
            let is_same_turn = old.question.onset == new.question.onset
                && old.question.leg == new.question.leg
                && old.question.hazards == new.question.hazards
                && old.edition == new.edition;
            let mut shown = self.tokens.iter();
            let is_shown = shown.any(|shown| {
                shown.is_open && (shown.conversation, shown.question) == (of, old.question.number)
            });
            if is_same_turn && is_shown {
                lost = Some(old.question.clone());
            }
        }
        if let Some(old) = lost {
            // The effect was done since without this request, which the client is told.
            let row = self.question_of(of, old.number);
            if row.is_some_and(|row| row.state == QuestionState::Closed && row.effect_id.is_some())
            {
                return;
            }
            let what = format!("{old:?} is replaced in the turn that it was asked in: {new:?}");
            self.broken(Rule::NoClickIsLost, what);
        }
    }
}
