//! Limits: budgets, modes, what is open at one time, and deadlines that make progress.

use crate::lane::{Reaction, Watch};
use crate::rules::Rule;
use crate::tools;
use crate::world::World;
use windlass_session::event::CallRecord;
use windlass_session::io::{AdmittedCall, Input};
use windlass_session::model::{CallSupport, LostReason, ModelEvent, ModelToolResponse};
use windlass_session::session::held::Held;
use windlass_tool::error::ErrorType;
use windlass_tool::id::CallNumber;
use windlass_tool::kind::{Category, Scheduling};

/// Outputs of one input. A message has at most 40 calls here, and each causes a handful.
const OUTPUTS_MAX: usize = 2_000;
/// A character in JSON takes no more bytes, however it is written.
const LONGEST_CHARACTER: usize = 12;
/// Of a response, but for what a handler has said.
const RESPONSE_BYTES: usize = 10_000;
/// A connection that held so long is a good one.
const GOOD_AFTER_US: u64 = 10_000_000;

impl World {
    pub(crate) fn budgets_are_kept(&mut self, index: usize, call: &AdmittedCall) {
        let lane = &mut self.lanes[index];
        let limits = lane.limits.turn.clone();
        let facts = lane.call(call.call().call);
        facts.started += 1;
        let reservation = facts.reservation.as_ref();
        let is_granted = reservation.is_some_and(|reservation| reservation.grant.is_some());
        if is_granted || call.call().attempt > 1 || call.tool().id.as_str() == "describe_tool" {
            return;
        }
        let (retrieval, all) = lane.watch.starts.entry(call.turn()).or_default();
        *retrieval += u32::from(call.tool().category == Category::Retrieval);
        *all += 1;
        if *retrieval > limits.retrieval_calls_max || *all > limits.calls_max {
            let what = format!("turn {} has {retrieval} of {all} calls", call.turn());
            return self.broken(Rule::BudgetsAreKept, what);
        }
        // Those before it were charged before it, but for some that still wait to be.
        let number = call.call().call.0;
        let charged = lane.watch.charged.entry(call.turn()).or_default();
        charged.insert(number);
        let paid = charged.range(..=number).count();
        if paid > usize::try_from(limits.calls_max).unwrap_or(usize::MAX) {
            let what = format!("turn {} has paid for {paid} calls", call.turn());
            self.broken(Rule::BudgetsAreKept, what);
        }
    }

    /// Calls that are refused on their way from the registry to the user's consent are paid for, too (`docs/policies.md`, "The pipeline").
    pub(crate) fn charge_refusal(&mut self, index: usize, record: &CallRecord) {
        let is_on_its_way = matches!(
            record.error_type(),
            Some(
                ErrorType::NotFound
                    | ErrorType::ModeRestricted
                    | ErrorType::Validation
                    | ErrorType::BudgetExceeded
                    | ErrorType::RateLimit
                    | ErrorType::LoopDetected
                    | ErrorType::ConfirmationRequired
            )
        );
        // A repeat is recognised before anything is paid, though too many of them are refused.
        let error = record.response.expose().error();
        let is_repeat = error.is_some_and(|error| error.message.contains("too often since"));
        let is_on_its_way = is_on_its_way && !is_repeat;
        let lane = &mut self.lanes[index];
        let is_requested = lane.call(record.call()).is_requested;
        // One that was looked up first may find the budget spent by calls after it.
        let is_latest = lane.watch.calls.keys().next_back() == Some(&record.call().0);
        let is_on_its_way =
            is_on_its_way && (is_latest || record.error_type() != Some(ErrorType::BudgetExceeded));
        if is_on_its_way && is_requested && &**record.tool_name() != "describe_tool" {
            let charged = lane.watch.charged.entry(record.turn()).or_default();
            charged.insert(record.call().0);
        }
    }

    /// What a call is charged to is the turn under way, or one before it that goes on: all calls of a message count to one turn,
    /// though the first of them may end it.
    pub(crate) fn a_call_counts_to_its_turn(&mut self, index: usize, call: CallNumber, turn: u64) {
        let watch = &self.lanes[index].watch;
        let is_sound = match (watch.open_turn, watch.turn_at_input) {
            (Some(open), Some(before)) => turn == open || turn == before,
            (None, _) | (_, None) => turn > 0 && turn <= watch.last_turn,
        };
        if !is_sound {
            let what = format!("{call} counts to turn {turn}, not {:?}", watch.open_turn);
            self.broken(Rule::BudgetsAreKept, what);
        }
    }

    /// A model that goes on and on earns no turn by it, and so no budget.
    pub(crate) fn a_turn_needs_a_cause(&mut self, index: usize, turn: u64) {
        let watch = &mut self.lanes[index].watch;
        watch.reaction = Reaction::Nothing;
        let is_caused = std::mem::take(&mut watch.has_cause);
        let before = std::mem::replace(&mut watch.last_turn, turn);
        if !is_caused || turn <= before {
            let what = format!("turn {turn} begins after turn {before} for nothing");
            self.broken(Rule::ATurnNeedsACause, what);
        }
    }

    /// The model is to speak of these, and what it makes of them continues a turn. Calls of an answer that is thrown away are of
    /// none.
    pub(crate) fn note_owed(&mut self, index: usize, answers: &[ModelToolResponse]) {
        let lane = &mut self.lanes[index];
        let mut spoken = answers
            .iter()
            .filter(|answer| answer.scheduling != Some(Scheduling::Silent))
            .peekable();
        if spoken.peek().is_none() || lane.watch.is_discarding {
            return;
        }
        let registry = tools::registry(false);
        let waits = spoken.any(|answer| match registry.get(&answer.name) {
            Some(tool) => lane.profile.calls.blocks(tool.behavior),
            None => lane.profile.calls == CallSupport::BlockingOnly,
        });
        lane.watch.reaction = match waits || lane.watch.is_generation_over {
            true => Reaction::Next,
            false => Reaction::Later,
        };
    }

    pub(crate) fn no_tool_outside_its_mode(&mut self, index: usize, call: &AdmittedCall) {
        if !call.tool().allows(self.lanes[index].mode) {
            let what = format!("{} runs", call.tool().id);
            self.broken(Rule::NoToolOutsideItsMode, what);
        }
    }

    pub(crate) fn outputs_are_bounded(&mut self, outputs: usize) {
        if outputs > OUTPUTS_MAX {
            let what = format!("one input caused {outputs} outputs");
            self.broken(Rule::OutputsAreBounded, what);
        }
    }

    /// What a handler brings is kept, and told, no longer than a result may be: data, pictures and state changes each.
    pub(crate) fn results_are_bounded(&mut self, index: usize, record: &CallRecord) {
        let characters_max = self.lanes[index].limits.result_characters_max;
        let response = record.response.expose();
        let bytes = serde_json::to_vec(response).map_or(0, |written| written.len());
        if bytes > 3 * LONGEST_CHARACTER * characters_max + RESPONSE_BYTES {
            let what = format!("{} is answered with {bytes} bytes", record.call());
            self.broken(Rule::ResultsAreBounded, what);
        }
    }

    /// Queues and tables stay within their limits.
    pub(crate) fn tables_are_bounded(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let limits = &lane.limits;
        let questions = lane.watch.open_questions.len();
        let Some(session) = &lane.session else {
            return;
        };
        let trail = session.trail().count();
        let beyond = session.held().beyond(&Held::most(limits));
        if questions > limits.open_confirmations_max || trail > limits.trail_entries_max {
            let what = format!("{questions} questions, a trail of {trail}");
            self.broken(Rule::TablesAreBounded, what);
        } else if let Some((name, held)) = beyond {
            let what = format!("{held} {name}");
            self.broken(Rule::TablesAreBounded, what);
        }
    }

    /// A handle with which two connections in a row came to nothing is not tried a third time.
    pub(crate) fn a_refused_handle_is_thrown_away(&mut self, index: usize, resumes: bool) {
        let watch = &mut self.lanes[index].watch;
        watch.is_resuming = resumes;
        let refused = watch.refused_resumes;
        if !resumes {
            watch.refused_resumes = 0;
        } else if refused >= 2 {
            let what = format!("a handle is tried again that was refused {refused} times");
            self.broken(Rule::ARefusedHandleIsThrownAway, what);
        }
    }

    /// Only who has taken a connection can have refused its handle.
    pub(crate) fn note_refused(&mut self, index: usize, reason: &LostReason) {
        let watch = &mut self.lanes[index].watch;
        let is_refused = match reason {
            LostReason::Closed { .. } | LostReason::Dropped { .. } | LostReason::SetupTimeout => {
                true
            }
            LostReason::Network { .. } | LostReason::Unauthorized | LostReason::Refused { .. } => {
                false
            }
        };
        watch.refused_resumes += u32::from(is_refused && watch.is_resuming);
    }

    /// A provider is not called on and on that gives no connection that holds or brings an answer.
    pub(crate) fn connections_are_bounded(&mut self, index: usize) {
        let has_held = self.has_held(index);
        let lane = &mut self.lanes[index];
        lane.connected_us = None;
        let is_proved = std::mem::take(&mut lane.watch.is_proved);
        if has_held || is_proved {
            lane.watch.connections = 0;
        }
        lane.watch.connections += 1;
        let connections = lane.watch.connections;
        // The first is not one that is tried again.
        if connections > lane.limits.reconnect_attempts_max + 1 {
            let what = format!("{connections} connections, none of which was a good one");
            self.broken(Rule::ConnectionsAreBounded, what);
        }
    }

    /// Whether the newest connection came about so long ago that it is a good one.
    pub(crate) fn has_held(&self, index: usize) -> bool {
        let since_us = self.lanes[index].connected_us;
        since_us.is_some_and(|since_us| self.now_us >= since_us + GOOD_AFTER_US)
    }

    /// A deadline that stays due would keep the driver spinning.
    pub(crate) fn a_tick_makes_progress(&mut self, index: usize, due_us: u64) {
        if let Some(next_us) = self.deadline_us(index)
            && next_us <= due_us
            && next_us <= self.now_us
        {
            let what = format!("a deadline stays due at {next_us} µs");
            self.broken(Rule::ATickMakesProgress, what);
        }
    }
}

impl Watch {
    /// What the model says next is about what it was given, once it has finished what it was saying.
    pub(crate) fn note_reaction(&mut self, input: &Input) {
        self.is_proved |= matches!(input, Input::Model(ModelEvent::TurnComplete { .. }));
        match input {
            Input::Model(
                ModelEvent::Calls(_)
                | ModelEvent::AudioStarted
                | ModelEvent::OutputTranscript { .. },
            ) if !self.is_discarding => {
                self.is_generation_over = false;
                if self.reaction == Reaction::Next {
                    self.reaction = Reaction::Nothing;
                }
            }
            Input::Model(
                ModelEvent::GenerationComplete
                | ModelEvent::TurnComplete { .. }
                | ModelEvent::Interrupted,
            ) => {
                self.is_generation_over = true;
                if self.reaction == Reaction::Later {
                    self.reaction = Reaction::Next;
                }
            }
            Input::Connection(_) => self.reaction = Reaction::Nothing,
            _ => {}
        }
    }
}
