//! Turns: begun by user input alone, ended once. Every counter that a budget looks at belongs to a turn, never to a
//! provider message.

use crate::config::SessionConfig;
use crate::event::{LatencyLimit, SessionEvent, TurnSummary};
use crate::facts::{CallFacts, CallRequest};
use crate::limits::TurnLimits;
use crate::policy::{BLOCKING_TOOL, DESCRIBE_TOOL, LoopHistory, SavedLoops, Seen, budget};
use crate::step::SessionStep;
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_contract::envelope::{self, Outcome, ToolResponse};
use windlass_contract::error::CallError;
use windlass_contract::kind::Category;
use windlass_contract::registry::Tool;

/// The number of ended turns that are kept, for calls that outlive theirs (`docs/policies.md`, "Loops").
const PAST_TURNS_MAX: usize = 5;

/// The charge of a refused call to its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// The call could not even be read. It takes nothing of the budgets, but counts as a refusal.
    Nothing,
    /// One call of the total.
    Now,
    /// The call was charged when it passed the budgets. The charge of a retrieval that does not run is given back.
    Already,
}

#[derive(Debug)]
pub(crate) struct Turn {
    number: u64,
    started: Timestamp,
    summary: TurnSummary,
    history: LoopHistory,
    /// The model has said or asked something in it.
    heard_model: bool,
    /// The model has finished its message, though the provider has not yet ended the turn.
    generation_complete: bool,
    /// The model was given an answer to speak of. It can do so from this message of its own on.
    owes_words: Option<u64>,
    /// The same answer, as long as the counters continue with the model's words about it. A transcript alone, which may trail, is no
    /// proof of such words.
    owed: Option<Owed>,
    /// The turn's end was reported. It lives on for a late result.
    ended: bool,
}

/// An answer that the model has still to speak of.
#[derive(Clone, Copy, Debug)]
struct Owed {
    /// The turn whose counters go on with it.
    turn: u64,
    waited: bool,
    /// The model's next words are about the answer. A model that did not wait for it finishes its current words first.
    is_next: bool,
}

impl Turn {
    /// Whether the model has said everything that it had to say to the user, if it waits for no call.
    fn is_answered(&self) -> bool {
        self.generation_complete && self.owes_words.is_none()
    }

    fn new(number: u64, started: Timestamp, history: LoopHistory) -> Self {
        Self {
            number,
            started,
            summary: TurnSummary::default(),
            history,
            heard_model: false,
            generation_complete: false,
            owes_words: None,
            owed: None,
            ended: false,
        }
    }

    /// A turn that goes on with the budget that it had spent when its process ended.
    pub(crate) fn restored(
        number: u64,
        started: Timestamp,
        summary: TurnSummary,
        history: LoopHistory,
    ) -> Self {
        Self {
            summary,
            ..Self::new(number, started, history)
        }
    }

    /// The turn that goes on after this one's end. A user who interrupts wants to hear no more of an answer that the model waited for.
    fn goes_on(&self, interrupted: bool) -> Option<u64> {
        let owed = self.owed.filter(|owed| !(interrupted && owed.waited));
        owed.map(|owed| owed.turn)
    }
}

/// The result of a turn's end.
pub(crate) struct Ended {
    pub(crate) turn: u64,
    pub(crate) summary: TurnSummary,
    /// False if the end was reported before.
    pub(crate) is_news: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Turns {
    current: Option<Turn>,
    past: VecDeque<Turn>,
    /// The buffers of the next turn's history.
    spare: LoopHistory,
    last_number: u64,
    /// The last turn of an earlier session. The model's words before the user's first belong to it.
    earlier: Option<u64>,
    /// The user said something during the model's answer, which begins a turn once this one is over.
    input_waits: bool,
    /// The number of transcript entries when the provider heard something during the model's answer. It may be the tail of the earlier
    /// question, so it counts as input only once the provider takes it for an interruption.
    input_suspected: Option<u64>,
    /// The turn that goes on if the model speaks without being spoken to.
    continues: Option<Continued>,
    /// The model is in the middle of a message, which may outlive its turn.
    is_speaking: bool,
    /// A transcript of the model came outside any turn: of a new answer, or of the rest of one that is over.
    unattributed_transcript: Option<UnattributedTranscript>,
    /// Blocks that were made, or are being made, in this session.
    blocks_made: u32,
}

/// A question that is put to the next connection's model.
pub(crate) struct AskedAgain {
    pub(crate) turn: u64,
    /// The turn that the user's words since then would have begun. They are part of the question now.
    pub(crate) joined: Option<u64>,
}

/// A turn that goes on.
#[derive(Clone, Copy, Debug)]
struct Continued {
    turn: u64,
    /// The model's next words continue the turn. A model in the middle of a message finishes that first.
    is_next: bool,
}

/// Words of the model whose turn is not known.
#[derive(Debug, Default)]
pub(crate) struct UnattributedTranscript {
    /// The model was given an answer to speak of only after these words.
    is_more_owed: bool,
}

/// The turn of the user's words during another turn.
pub(crate) struct Waited {
    pub(crate) turn: u64,
    /// The number of transcript entries before the words that have proved to belong to this turn, if any have.
    pub(crate) proved_from: Option<u64>,
}

impl Turns {
    /// Frees the room for turns to come.
    pub(crate) fn give_room_back(&mut self) {
        self.past.shrink_to_fit();
        self.spare = LoopHistory::default();
    }

    /// The turns of a session whose process has ended: the counter, and the turn whose question has no answer yet.
    pub(crate) fn restored(last_number: u64, open: Option<Turn>, blocks_made: u32) -> Self {
        Self {
            current: open,
            last_number,
            blocks_made,
            ..Self::default()
        }
    }

    /// The next turn's number is higher than this.
    pub(crate) fn number_after(&mut self, number: u64) {
        if number > self.last_number {
            self.last_number = number;
            self.earlier = Some(number);
        }
    }

    /// Goes on with a turn of an earlier session, whose message comes next.
    pub(crate) fn take_up(&mut self, now: Timestamp, summary: TurnSummary, loops: LoopHistory) {
        let number = self.earlier.take().unwrap_or(self.last_number + 1);
        self.last_number = number;
        self.current = Some(Turn::restored(number, now, summary, loops));
    }

    fn get(&self, number: u64) -> Option<&Turn> {
        let mut turns = self.current.iter().chain(&self.past);
        turns.find(|turn| turn.number == number)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Turn> {
        let mut turns = self.current.iter_mut().chain(&mut self.past);
        turns.find(|turn| turn.number == number)
    }

    /// Whether no turn is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    pub(crate) fn current_number(&self) -> Option<u64> {
        self.current.as_ref().map(|turn| turn.number)
    }

    /// Whether the model has said or asked something in the current turn.
    pub(crate) fn is_answering(&self) -> bool {
        self.current.as_ref().is_some_and(|turn| turn.heard_model)
    }

    /// Whether the model has finished its message in the current turn.
    pub(crate) fn is_generation_complete(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|turn| turn.heard_model && turn.generation_complete)
    }

    /// Whether the model has said everything that it had to say in the current turn, if it waits for no call.
    pub(crate) fn is_answered(&self) -> bool {
        self.current.as_ref().is_some_and(Turn::is_answered)
    }

    /// The turns whose words no model has answered in full: the current one, and the turn of input that waits for its end.
    pub(crate) fn unanswered(&self, model_waits: bool) -> impl Iterator<Item = u64> {
        let open = self.current.as_ref();
        let open = open.filter(|turn| model_waits || !turn.is_answered());
        let open = open.map(|turn| turn.number);
        open.into_iter().chain(self.waiting())
    }

    /// The budget that a turn has spent, and the calls in it, for a process that goes on with it.
    pub(crate) fn spent(&self, number: u64) -> (TurnSummary, SavedLoops) {
        let current = self.current.as_ref().filter(|turn| turn.number == number);
        match current {
            Some(turn) => (turn.summary, turn.history.saved()),
            None => (TurnSummary::default(), LoopHistory::default().saved()),
        }
    }

    pub(crate) fn started(&self, number: u64) -> Option<Timestamp> {
        self.get(number).map(|turn| turn.started)
    }

    pub(crate) fn is_wound_up(&self, number: u64) -> bool {
        self.get(number).is_some_and(|turn| turn.summary.wound_up)
    }

    /// The number of the turn that began last; 0 before the first.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// The user certainly said something. Returns the turn that this begins, if it begins one now.
    pub(crate) fn certain_input(&mut self, now: Timestamp) -> Option<u64> {
        self.input_suspected = None;
        self.continues = None;
        match &self.current {
            Some(turn) if turn.heard_model => {
                self.input_waits = true;
                None
            }
            Some(_) => None,
            None => Some(self.begin(now)),
        }
    }

    /// The provider heard the user, after so many entries of the transcript. While the model is answering, that alone is no proof
    /// of a new request.
    pub(crate) fn heard_user(&mut self, now: Timestamp, recorded: u64) -> Option<u64> {
        if self.current.as_ref().is_some_and(|turn| turn.heard_model) {
            self.input_suspected.get_or_insert(recorded);
            None
        } else {
            self.certain_input(now)
        }
    }

    /// The number of the turn that input waits for, which begins when the current one ends.
    pub(crate) fn waiting(&self) -> Option<u64> {
        self.input_waits.then_some(self.last_number + 1)
    }

    /// The turn of the user's current words; 0 outside a turn. An interruption proves that suspected input was input.
    pub(crate) fn of_user(&self, interrupted: bool) -> u64 {
        let waits = self.input_waits || (self.input_suspected.is_some() && interrupted);
        match &self.current {
            Some(_) if waits => self.last_number + 1,
            Some(turn) => turn.number,
            None => 0,
        }
    }

    /// The connection is gone. The current question is asked again, together with the waiting input, which begins no turn of its own.
    pub(crate) fn ask_again(&mut self) -> Option<AskedAgain> {
        let joined = self.waiting();
        let turn = self.current.as_mut()?;
        // The user's next words join the question.
        turn.heard_model = false;
        turn.owed = None;
        let turn = turn.number;
        self.input_waits = false;
        self.input_suspected = None;
        Some(AskedAgain { turn, joined })
    }

    /// The model said or asked something. Returns the turn that this begins, if it begins one.
    pub(crate) fn model_output(&mut self, now: Timestamp) -> Option<u64> {
        let unspoken = self.continues.filter(|continued| !continued.is_next);
        let begun = if self.current.is_some() {
            None
        } else if let Some(turn) = self.revivable() {
            self.current = Some(turn);
            None
        } else if let Some(number) = self.earlier.take() {
            let history = std::mem::take(&mut self.spare).renewed();
            self.current = Some(Turn::new(number, now, history));
            None
        } else {
            Some(self.begin(now))
        };
        self.unattributed_transcript = None;
        self.is_speaking = true;
        if let Some(turn) = &mut self.current {
            turn.heard_model = true;
            turn.generation_complete = false;
            // This output may belong to the current message. Then an answer that came after the message began is still to be spoken of.
            if unspoken.is_some() {
                turn.owed = Some(Owed {
                    turn: turn.number,
                    waited: false,
                    is_next: false,
                });
            }
        }
        begun
    }

    /// The model certainly speaks or asks, which a transcript that may trail does not prove. It speaks of the answer that it was given.
    pub(crate) fn reacted(&mut self) {
        if let Some(turn) = &mut self.current {
            turn.owed = turn.owed.filter(|owed| !owed.is_next);
        }
    }

    /// A result, or another message of ours, may make the model speak: that output continues this turn.
    pub(crate) fn expect_continuation(&mut self, number: u64) {
        if self.current.is_none() {
            self.continues = Some(Continued {
                turn: number,
                is_next: !self.is_speaking,
            });
            if let Some(words) = &mut self.unattributed_transcript {
                words.is_more_owed = true;
            }
        }
    }

    /// The model has produced something in this message of its own: it speaks of the answers before it.
    pub(crate) fn heard(&mut self, message: u64) {
        if let Some(turn) = &mut self.current {
            turn.owes_words = turn.owes_words.filter(|from| *from > message);
        }
    }

    /// The model has finished its message. An interrupted answer does not answer the user's words since.
    pub(crate) fn generation_completed(&mut self) {
        if let Some(turn) = self.current.as_mut().filter(|turn| turn.heard_model) {
            turn.generation_complete = true;
        }
    }

    /// The answer to a call of this turn went out, and the model can speak of it from its message `from` on. Its words so far are not
    /// its answer to the user, and its words about the answer continue the turn. Void calls belong to no turn.
    pub(crate) fn answered(&mut self, number: u64, from: u64, waited: bool) {
        if let Some(turn) = self.current.as_mut().filter(|turn| turn.number == number) {
            turn.owes_words = Some(from);
        }
        if number == 0 {
            return;
        }
        let Some(turn) = &mut self.current else {
            return self.expect_continuation(number);
        };
        let is_more_owed = turn.owed.is_some_and(|owed| !owed.waited);
        if waited && is_more_owed {
            return;
        }
        turn.owed = Some(Owed {
            turn: if waited { turn.number } else { number },
            waited,
            is_next: waited || turn.generation_complete,
        });
    }

    /// The model has finished its message.
    pub(crate) fn message_ended(&mut self) {
        self.is_speaking = false;
        if let Some(continued) = &mut self.continues {
            continued.is_next = true;
        }
        if let Some(owed) = self.current.as_mut().and_then(|turn| turn.owed.as_mut()) {
            owed.is_next = true;
        }
    }

    /// Whether the model may still speak of an answer from a turn that is over.
    pub(crate) fn is_continued(&self) -> bool {
        self.continues.is_some()
    }

    /// Whether the model has still to speak of an answer, if the turn ends now.
    pub(crate) fn goes_on(&self, interrupted: bool) -> bool {
        let turn = self.current.as_ref();
        turn.is_some_and(|turn| turn.goes_on(interrupted).is_some())
    }

    pub(crate) fn unattributed_transcript(&mut self) {
        let unspoken = self.continues.is_some_and(|continued| !continued.is_next);
        self.is_speaking = true;
        self.unattributed_transcript
            .get_or_insert_default()
            .is_more_owed |= unspoken;
    }

    /// The words that came alone belonged to the turn that goes on now. The model has still to speak of the answers that it was given
    /// after them.
    pub(crate) fn heard_words_alone(&mut self, words: &UnattributedTranscript) {
        if let Some(turn) = self.current.as_mut().filter(|_| words.is_more_owed) {
            turn.owed = Some(Owed {
                turn: turn.number,
                waited: false,
                is_next: true,
            });
        }
    }

    /// Takes the words whose turn was not known until now.
    pub(crate) fn take_words_alone(&mut self) -> Option<UnattributedTranscript> {
        self.unattributed_transcript
            .take()
            .filter(|_| self.current.is_none())
    }

    /// The turn whose counters go on if the user began no new one: the turn of a late result, and any turn that was wound up, since a
    /// model must not earn a fresh budget by going on and on. The newest turn stands for a forgotten one.
    fn revivable(&mut self) -> Option<Turn> {
        let continues = self.continues.take().map(|continued| continued.turn);
        let newest = self.past.len().checked_sub(1)?;
        let mut past = self.past.iter();
        let continued = past.position(|turn| Some(turn.number) == continues);
        // The turn that ended last may be an older one that went on.
        let goes_on = continues.is_some() || self.past[newest].summary.wound_up;
        let index = continued.or_else(|| goes_on.then_some(newest))?;
        self.past.remove(index)
    }

    fn begin(&mut self, now: Timestamp) -> u64 {
        self.last_number += 1;
        self.earlier = None;
        self.continues = None;
        self.unattributed_transcript = None;
        let history = std::mem::take(&mut self.spare).renewed();
        self.current = Some(Turn::new(self.last_number, now, history));
        self.last_number
    }

    /// Ends the current turn, if there is one.
    pub(crate) fn end(&mut self, now: Timestamp, interrupted: bool) -> Option<Ended> {
        let mut turn = self.current.take()?;
        turn.summary.interrupted |= interrupted;
        turn.summary.duration_ms =
            u64::try_from(now.since(turn.started).as_millis()).unwrap_or(u64::MAX);
        // Further output of an interrupted message is void.
        self.is_speaking &= !interrupted;
        let is_next = !self.is_speaking;
        let goes_on = turn.goes_on(interrupted);
        self.continues = goes_on.map(|turn| Continued { turn, is_next });
        turn.owed = None;
        let is_news = !std::mem::replace(&mut turn.ended, true);
        let ended = Ended {
            turn: turn.number,
            summary: turn.summary,
            is_news,
        };
        if self.past.len() >= PAST_TURNS_MAX {
            let oldest = self.past.pop_front();
            self.spare = oldest.map(|oldest| oldest.history).unwrap_or_default();
        }
        self.past.push_back(turn);
        Some(ended)
    }

    /// Begins the turn of the user's words during the last one. An interruption proves that suspected input was input.
    pub(crate) fn begin_waiting(&mut self, now: Timestamp, interrupted: bool) -> Option<Waited> {
        let suspected = std::mem::take(&mut self.input_suspected);
        let proved_from = suspected.filter(|_| interrupted);
        let waits = std::mem::take(&mut self.input_waits) || proved_from.is_some();
        (waits && self.current.is_none()).then(|| Waited {
            turn: self.begin(now),
            proved_from,
        })
    }
}

// Budgets and loops.
impl Turns {
    /// Passes the hard budgets, and charges them. Returns true if there is a charge to give back.
    pub(crate) fn spend(
        &mut self,
        number: u64,
        tool: &Tool,
        config: &SessionConfig,
    ) -> Result<bool, CallError> {
        let blocks_made = self.blocks_made;
        let Some(turn) = self.get_mut(number) else {
            return Ok(false);
        };
        if tool.id.as_str() == DESCRIBE_TOOL {
            return Ok(false);
        }
        budget::check(
            &turn.summary,
            &config.limits.turn,
            config.mode,
            tool.category,
        )?;
        budget::check_cap(tool, blocks_made, &turn.history)?;
        turn.summary.calls += 1;
        turn.summary.retrieval_calls += u32::from(tool.category == Category::Retrieval);
        Ok(true)
    }

    pub(crate) fn check_cap(&self, number: u64, tool: &Tool) -> Result<(), CallError> {
        let turn = self.get(number);
        turn.map_or(Ok(()), |turn| {
            budget::check_cap(tool, self.blocks_made, &turn.history)
        })
    }

    pub(crate) fn check_loops(&self, facts: &Arc<CallFacts>) -> Result<(), CallError> {
        let turn = self.get(facts.turn());
        turn.map_or(Ok(()), |turn| turn.history.check(&Seen::of(facts)))
    }

    /// A call will run. The loop guard and the caps count it.
    pub(crate) fn runs(&mut self, facts: &Arc<CallFacts>, limits: &TurnLimits) {
        if let Some(turn) = self.get_mut(facts.turn()) {
            turn.history.called(Seen::of(facts), limits);
        }
        self.blocks_made += u32::from(facts.tool.id.as_str() == BLOCKING_TOOL);
    }

    /// A call that ran has ended with this response.
    pub(crate) fn ran(&mut self, facts: &CallFacts, response: &ToolResponse, is_failed: bool) {
        if is_failed && facts.tool.id.as_str() == BLOCKING_TOOL {
            self.blocks_made = self.blocks_made.saturating_sub(1);
        }
        if let Outcome::Success { data, content } = &response.outcome
            && content.is_empty()
            && envelope::is_empty_result(data.as_ref())
            && let Some(turn) = self.get_mut(facts.turn())
        {
            turn.history.returned_nothing(&facts.tool.id);
        }
    }

    /// Gives back the charge of a call that neither runs nor asks.
    pub(crate) fn give_back(&mut self, number: u64, tool: &Tool) {
        if let Some(turn) = self.get_mut(number) {
            turn.summary.calls = turn.summary.calls.saturating_sub(1);
            give_back_retrieval(&mut turn.summary, tool);
        }
    }

    pub(crate) fn refused(&mut self, call_request: &CallRequest, charge: Charge) {
        let Some(turn) = self.get_mut(call_request.turn) else {
            return;
        };
        // The model does not hear of a refusal to a handler.
        turn.summary.refusals += u32::from(call_request.parent().is_none());
        match charge {
            Charge::Nothing => {}
            Charge::Now => turn.summary.calls += u32::from(&*call_request.name != DESCRIBE_TOOL),
            Charge::Already => {
                if let Some(tool) = call_request.tool() {
                    give_back_retrieval(&mut turn.summary, tool);
                }
            }
        }
    }

    pub(crate) fn repeated(&mut self, number: u64) {
        if let Some(turn) = self.get_mut(number) {
            turn.summary.repeats += 1;
        }
    }

    /// Whether the model was refused, or repeated itself, too often in this turn. Returns true only once.
    pub(crate) fn winds_up(&mut self, number: u64, limits: &TurnLimits) -> bool {
        let Some(turn) = self.get_mut(number) else {
            return false;
        };
        let summary = &mut turn.summary;
        let is_due =
            summary.refusals >= limits.refusals_max || summary.repeats >= limits.repeats_max;
        is_due && !std::mem::replace(&mut summary.wound_up, true)
    }

    /// A call has taken `actual_ms` milliseconds.
    pub(crate) fn took(&mut self, facts: &CallFacts, actual_ms: u64, step: &mut SessionStep) {
        let limits = &step.limits().turn;
        let (turn_ms, retrieval_ms) = (limits.latency_ms, limits.retrieval_latency_ms);
        let (call, tool) = (facts.call(), &facts.tool);
        let mut exceeded = |limit, limit_ms, actual_ms| {
            step.event(SessionEvent::LatencyExceeded {
                call,
                limit,
                limit_ms,
                actual_ms,
            });
        };
        if actual_ms > tool.latency_budget_ms {
            exceeded(LatencyLimit::Tool, tool.latency_budget_ms, actual_ms);
        }
        if tool.category == Category::Retrieval && actual_ms > retrieval_ms {
            exceeded(LatencyLimit::Retrieval, retrieval_ms, actual_ms);
        }
        // The time of a handler's call is part of its parent's time.
        let is_part = facts.parent().is_some();
        if let Some(turn) = self.get_mut(facts.turn()).filter(|_| !is_part) {
            let before = turn.summary.latency_ms;
            turn.summary.latency_ms += actual_ms;
            if before <= turn_ms && turn.summary.latency_ms > turn_ms {
                exceeded(LatencyLimit::Turn, turn_ms, turn.summary.latency_ms);
            }
        }
    }

    pub(crate) fn blocks_made(&self) -> u32 {
        self.blocks_made
    }
}

fn give_back_retrieval(summary: &mut TurnSummary, tool: &Tool) {
    let is_retrieval = tool.category == Category::Retrieval;
    summary.retrieval_calls = summary
        .retrieval_calls
        .saturating_sub(u32::from(is_retrieval));
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);

    #[test]
    fn what_the_user_says_into_an_answer_begins_a_turn_when_that_is_over() {
        let mut turns = Turns::default();
        assert_eq!(turns.certain_input(NOW), Some(1));
        assert_eq!(turns.model_output(NOW), None);
        assert_eq!(turns.certain_input(NOW), None);
        assert_eq!(turns.waiting(), Some(2));
        assert!(turns.end(NOW, false).is_some_and(|ended| ended.is_news));
        let waited = turns.begin_waiting(NOW, false);
        assert_eq!(waited.map(|waited| waited.turn), Some(2));
    }

    #[test]
    fn a_noise_in_an_answer_is_input_only_where_it_interrupts() {
        for (interrupted, next) in [(false, None), (true, Some(2))] {
            let mut turns = Turns::default();
            turns.certain_input(NOW);
            turns.model_output(NOW);
            assert_eq!(turns.heard_user(NOW, 3), None);
            turns.end(NOW, interrupted);
            let waited = turns.begin_waiting(NOW, interrupted);
            assert_eq!(waited.map(|waited| waited.turn), next);
        }
    }

    #[test]
    fn what_the_model_makes_of_a_late_answer_continues_the_turn_that_asked() {
        let mut turns = Turns::default();
        turns.certain_input(NOW);
        turns.model_output(NOW);
        turns.message_ended();
        turns.end(NOW, false);
        turns.expect_continuation(1);
        assert_eq!(turns.model_output(NOW), None);
        assert_eq!(turns.current_number(), Some(1));
        assert!(turns.end(NOW, false).is_some_and(|ended| !ended.is_news));
        assert_eq!(turns.model_output(NOW), Some(2));
    }
}
