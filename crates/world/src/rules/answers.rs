//! Answers: one end for each delivered call, one answer for each provider id, intents once, and silence after the end.

use crate::count::{Fault, State};
use crate::lane::{Past, Reaction};
use crate::rules::Rule;
use crate::tools;
use crate::world::World;
use windlass_session::client::{ClientEvent, ClientUpdate, ErrorCode};
use windlass_session::event::{CallRecord, DuplicateRule, EndReason, Resolution, SessionEvent};
use windlass_session::io::{Input, Output};
use windlass_session::model::{ModelCommand, ModelEvent, ModelToolResponse};
use windlass_tool::envelope::ProjectionBody;
use windlass_tool::error::ErrorType;
use windlass_tool::id::CallNumber;
use windlass_tool::kind::Scheduling;

impl World {
    /// Notes what the session is told, before it answers.
    pub(crate) fn before_input(&mut self, index: usize, input: &Input) {
        self.note_asked(index, input);
        self.note_heard(index, input);
        self.note_lost(index, input);
        let lane = &mut self.lanes[index];
        let generation = lane.generation;
        let mut came_after_all = 0;
        lane.watch.is_answer_unheard &= !is_heard(input);
        let is_owed = lane.watch.reaction != Reaction::Nothing;
        let is_cause = begins_turns(input) && !(is_owed && is_turn_end(input));
        lane.watch.has_cause |= is_cause;
        lane.watch.ends_turn = is_cause && is_turn_end(input);
        lane.watch.note_reaction(input);
        lane.watch.turn_at_input = lane.watch.open_turn;
        match input {
            Input::Proposed {
                call,
                outcome: Ok(proposed),
            } => lane.watch.proposed.push((*call, proposed.token_hash)),
            Input::Client(ClientEvent::Confirm { token_hash, .. }) => {
                self.note_click(index, token_hash);
            }
            Input::Model(_) if lane.watch.is_draining => {}
            Input::Model(ModelEvent::Calls(calls)) => {
                for call in calls {
                    let Some(id) = call.id.clone() else {
                        continue;
                    };
                    let names_one = id.len() >= 9 && !id.contains("temp") && call.name != call.id;
                    let place = lane.watch.places.entry((generation, id)).or_default();
                    place.names_many |= !names_one;
                    came_after_all += u32::from(place.is_cancelled && place.calls == 0);
                    place.calls += 1;
                    if place.names_many && place.is_cancelled {
                        place.is_cancelled = false;
                        place.is_asked_again = true;
                    }
                    place.owed = if place.names_many { place.owed + 1 } else { 1 };
                }
            }
            Input::Model(ModelEvent::CallsCancelled(ids)) => {
                for id in ids {
                    let place = lane.watch.places.entry((generation, id.clone()));
                    let place = place.or_default();
                    place.is_cancelled = true;
                    place.owed = 0;
                }
            }
            _ => {}
        }
        for _ in 0..came_after_all {
            self.fault(Fault::CancelledBefore);
        }
    }

    pub(crate) fn after_input(&mut self, index: usize) {
        if !self.is_broken() {
            self.tables_are_bounded(index);
        }
    }

    pub(crate) fn on_output(&mut self, index: usize, output: &Output) {
        if self.lanes[index].watch.is_closed {
            let what = format!("{output:?} comes after the end");
            return self.broken(Rule::NothingLivesAfterTheEnd, what);
        }
        self.look_at_output(index, output);
    }

    fn look_at_output(&mut self, index: usize, output: &Output) {
        match output {
            Output::StartCall(call) => {
                self.no_tool_outside_its_mode(index, call);
                self.a_durable_reservation_before_a_start(index, call);
                self.no_start_without_needed_consent(index, call);
                self.no_start_after_anothers_reading(index, call);
                self.budgets_are_kept(index, call);
                self.one_effect_per_wish(index, call);
            }
            Output::Reserve(request) if self.lanes[index].watch.has_unrecorded => {
                let what = format!("{} is to begin", request.call);
                self.broken(Rule::NoChangeStartsWhileOutcomesAreUnrecorded, what);
            }
            Output::Reserve(request) if request.grant.is_none() => {
                self.a_no_holds(index, request.call, request.fingerprint);
            }
            Output::RequestConfirmation(request) => {
                // One that is open gets a new token for a client that comes back.
                if request.replaces.is_none() {
                    self.a_no_holds(index, request.call, request.fingerprint);
                }
                let watch = &mut self.lanes[index].watch;
                watch.asked_about.insert(request.call, request.fingerprint);
            }
            Output::MarkAnswered { effect_id } => self.what_is_marked_was_heard(index, effect_id),
            Output::SendModel(command) => {
                self.note_external(index, command);
                self.one_answer_per_provider_id(index, command);
                match command {
                    ModelCommand::ToolResponses(answers) => {
                        self.note_owed(index, answers);
                        self.an_answer_is_spoken_of_when_its_tool_has_it(index, answers);
                        self.note_answers(index, answers);
                    }
                    ModelCommand::LateResults(late) => self.a_late_result_is_told_once(index, late),
                    ModelCommand::Notice(text) => self.note_notice(index, text.expose()),
                    _ => {}
                }
            }
            Output::DiscardAudio => {
                let watch = &mut self.lanes[index].watch;
                watch.is_discarding = true;
                watch.reaction = Reaction::Nothing;
            }
            Output::AcceptAudio => self.lanes[index].watch.is_discarding = false,
            Output::Event(event) => self.on_event(index, event),
            Output::SendClient(ClientUpdate::SessionComplete { .. }) => {
                self.lanes[index].watch.is_draining = true;
            }
            Output::SendClient(ClientUpdate::ConfirmationResult { call, .. }) => {
                let answers = &mut self.lanes[index].watch.answers;
                answers.entry(*call).or_default().1 += 1;
            }
            Output::Close(_) => {
                self.every_call_ends_before_its_session(index);
                self.each_answer_is_answered(index);
            }
            // Both end the turn under way, and nobody asked for that.
            Output::SendClient(ClientUpdate::Error {
                code: ErrorCode::ProviderSilent,
                ..
            })
            | Output::Connect { .. } => self.lanes[index].watch.has_cause = true,
            _ => {}
        }
    }

    fn one_answer_per_provider_id(&mut self, index: usize, command: &ModelCommand) {
        let rule = Rule::OneAnswerPerProviderId;
        match command {
            ModelCommand::Notice(_) => self.report.counts.state(State::NoticeSent),
            ModelCommand::ToolResponses(_) if self.is_cut_off(index) => {
                self.broken(rule, "answers are sent to nobody");
            }
            ModelCommand::ToolResponses(answers) => {
                self.lanes[index].watch.is_answer_unheard = true;
                for id in answers.iter().filter_map(|answer| answer.id.clone()) {
                    let lane = &mut self.lanes[index];
                    let key = (lane.generation, id.clone());
                    let Some(place) = lane.watch.places.get_mut(&key) else {
                        self.broken(rule, format!("nobody asked under {id}"));
                        continue;
                    };
                    place.answers += 1;
                    let is_owed = place.owed > 0;
                    place.owed = place.owed.saturating_sub(u32::from(place.names_many));
                    let place = *place;
                    if place.is_asked_again && place.answers == 1 {
                        self.report.counts.state(State::AnsweredAfterTakenBack);
                    }
                    if place.names_many {
                        if !is_owed {
                            self.broken(rule, format!("one answer too many under {id}"));
                        }
                    } else if place.answers > 1 {
                        self.broken(rule, format!("a second answer under {id}"));
                    } else if place.is_cancelled {
                        self.broken(rule, format!("an answer under {id}, which was taken back"));
                    }
                }
            }
            _ => {}
        }
    }

    /// When the model is to speak of a result is said where it does not wait for it, and only there: as the tool has it, but of
    /// failures as soon as it may.
    fn an_answer_is_spoken_of_when_its_tool_has_it(
        &mut self,
        index: usize,
        answers: &[ModelToolResponse],
    ) {
        for answer in answers {
            let lane = &self.lanes[index];
            let registry = tools::registry(false);
            let tool = registry.get(&answer.name);
            let tool = tool.filter(|tool| {
                lane.profile.scheduling && !lane.profile.calls.blocks(tool.behavior)
            });
            let is_ok = matches!(answer.projection.body, ProjectionBody::Success { .. });
            let wanted = tool.map(|tool| match tool.scheduling {
                Scheduling::Silent => Scheduling::Silent,
                scheduling if is_ok => scheduling,
                _ => Scheduling::WhenIdle,
            });
            // Whoever joined a call that the user approved waits for it.
            let has_joined =
                answer.scheduling.is_none() && lane.watch.repeated.contains(&answer.name);
            if answer.scheduling != wanted && !has_joined {
                let what = format!(
                    "{}: {:?} and not {wanted:?}",
                    answer.name, answer.scheduling
                );
                return self.broken(Rule::AnAnswerIsSpokenOfWhenItsToolHasIt, what);
            }
        }
    }

    /// What was begun has come to its end, or is known as unknown, before nobody is there any more to hear of it.
    fn every_call_ends_before_its_session(&mut self, index: usize) {
        let calls = &self.lanes[index].watch.calls;
        let mut requested = calls.iter().filter(|(_, facts)| facts.is_requested);
        if let Some((call, _)) = requested.find(|(_, facts)| facts.ended == 0) {
            let what = format!("call-{call} has no end");
            self.broken(Rule::EveryCallEndsBeforeItsSession, what);
        }
    }

    /// A session that is over anyway may still speak to a provider that is gone.
    fn is_cut_off(&self, index: usize) -> bool {
        let lane = &self.lanes[index];
        !lane.is_connected && !lane.watch.is_draining
    }

    fn on_event(&mut self, index: usize, event: &SessionEvent) {
        match event {
            SessionEvent::CallRequested { call, turn, .. } => {
                self.numbers_go_on(index, *call);
                self.a_call_counts_to_its_turn(index, *call, *turn);
                let lane = &mut self.lanes[index];
                let (asked_at_input, after_external) =
                    (lane.inputs, lane.watch.external_in_context);
                let facts = lane.call(*call);
                facts.is_requested = true;
                facts.asked_at_input = asked_at_input;
                facts.after_external = after_external;
            }
            SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record) => {
                self.results_are_bounded(index, record);
                self.on_end(index, event, record);
            }
            // What goes past a limit is said so.
            SessionEvent::LateResultDropped { call } => {
                let owed = &mut self.lanes[index].watch.owed;
                owed.retain(|_, (owed, _)| owed != call);
            }
            SessionEvent::CallDeduplicated { call, rule, tool } => {
                self.lanes[index].watch.repeated.insert(tool.clone());
                self.report.counts.state(match rule {
                    DuplicateRule::SameDelivery => State::SameDelivery,
                    DuplicateRule::SameEffectRunning => State::SameEffectRunning,
                    DuplicateRule::SameEffectAsked => State::SameEffectAsked,
                    DuplicateRule::SameEffectFinished => State::SameEffectFinished,
                });
                self.one_response_per_delivered_call(index, *call);
            }
            SessionEvent::ConfirmationRequested { call, .. } => {
                self.report.counts.state(State::AwaitsConsent);
                let lane = &mut self.lanes[index];
                lane.watch.open_questions.insert(call.0);
                let facts = lane.call(*call);
                facts.questions += 1;
                if facts.questions > 1 {
                    self.report.counts.state(State::AsksOnceMore);
                }
            }
            SessionEvent::ConfirmationResolved { call, resolution } => {
                self.on_resolution(index, *call, *resolution);
            }
            SessionEvent::IntentApplied { call, .. } => {
                self.report.counts.state(State::IntentApplied);
                self.an_intent_is_applied_once(index, *call);
            }
            SessionEvent::IntentRejected { call, .. } => {
                self.report.counts.state(State::IntentRejected);
                self.an_intent_is_applied_once(index, *call);
            }
            SessionEvent::TurnStarted { turn } => {
                let lane = &mut self.lanes[index];
                lane.inputs += u64::from(lane.has_microphone);
                self.turns_do_not_overlap(index, *turn, true);
                self.a_turn_needs_a_cause(index, *turn);
            }
            SessionEvent::TurnEnded { turn, .. } => {
                let watch = &mut self.lanes[index].watch;
                watch.has_cause |= watch.ends_turn;
                self.turns_do_not_overlap(index, *turn, false);
            }
            other => self.count_event(index, other),
        }
    }

    fn count_event(&mut self, index: usize, event: &SessionEvent) {
        let state = match event {
            SessionEvent::CallRetried { .. } => State::Retried,
            SessionEvent::CallReturnedLate { .. } => State::ReturnedLate,
            SessionEvent::OutcomeUnrecorded { .. } => {
                self.lanes[index].watch.has_unrecorded = true;
                State::OutcomeUnrecorded
            }
            SessionEvent::OutcomesRecorded => {
                self.lanes[index].watch.has_unrecorded = false;
                State::OutcomesRecorded
            }
            SessionEvent::EffectSettled {
                succeeded: true, ..
            } => State::EffectSettledDone,
            SessionEvent::EffectSettled {
                succeeded: false, ..
            } => State::EffectSettledNotDone,
            SessionEvent::SessionEnded { reason } => match reason {
                EndReason::Stopped => State::EndedStopped,
                EndReason::Intent(_) => State::EndedByIntent,
                EndReason::ClientLost | EndReason::ProviderLost => State::EndedByLoss,
                EndReason::Shutdown => State::EndedByShutdown,
            },
            _ => return,
        };
        self.report.counts.state(state);
    }

    fn on_end(&mut self, index: usize, event: &SessionEvent, record: &CallRecord) {
        self.report.counts.state(state_of_end(event, record));
        if let SessionEvent::CallFinished(_) = event {
            self.note_outcome(index, record);
        }
        if let SessionEvent::CallRejected(_) = event {
            self.charge_refusal(index, record);
        }
        if let Some(effect_id) = &record.effect_id {
            self.lanes[index].watch.tell(effect_id);
        }
        if let (SessionEvent::CallRejected(_), Some(arguments)) = (event, record.arguments()) {
            self.lanes[index].watch.refused = Some(Past {
                id: None,
                name: record.tool_name().clone(),
                arguments: (**arguments.expose()).clone(),
            });
        }
        self.one_response_per_delivered_call(index, record.call());
    }

    /// A call that the user was asked about ends a second time, when the user or time has answered.
    fn one_response_per_delivered_call(&mut self, index: usize, call: CallNumber) {
        let facts = self.lanes[index].call(call);
        facts.ended += 1;
        if facts.ended > 1 + facts.questions {
            self.broken(
                Rule::OneResponsePerDeliveredCall,
                format!("{call} has ended twice"),
            );
        }
    }

    fn on_resolution(&mut self, index: usize, call: Option<CallNumber>, resolution: Resolution) {
        self.report.counts.state(match resolution {
            Resolution::Approved => State::Approved,
            Resolution::Declined => State::Declined,
            Resolution::Expired => State::Expired,
            Resolution::Withdrawn => State::Withdrawn,
            Resolution::Refused => State::TokenRefused,
        });
        if let (Some(call), Resolution::Declined) = (call, resolution) {
            self.note_no(index, call);
        }
        if let (Some(call), true) = (call, resolution != Resolution::Refused) {
            self.lanes[index].watch.open_questions.remove(&call.0);
        }
    }

    fn an_intent_is_applied_once(&mut self, index: usize, call: CallNumber) {
        let facts = self.lanes[index].call(call);
        facts.intents_seen += 1;
        if facts.intents_seen > facts.intents_brought {
            let what = format!("{call} brought fewer intents than were applied");
            self.broken(Rule::AnIntentIsAppliedOnce, what);
        }
    }

    fn turns_do_not_overlap(&mut self, index: usize, turn: u64, begins: bool) {
        let open = &mut self.lanes[index].watch.open_turn;
        let is_sound = match begins {
            true => open.replace(turn).is_none(),
            false => open.take() == Some(turn),
        };
        if !is_sound {
            self.broken(Rule::TurnsDoNotOverlap, format!("turn {turn}"));
        }
    }
}

fn is_turn_end(input: &Input) -> bool {
    matches!(input, Input::Model(ModelEvent::TurnComplete { .. }))
}

/// Whether a turn may begin for this, now or when the one under way is over: the user may have said something, the provider has
/// ended its turn, or the connection is another.
fn begins_turns(input: &Input) -> bool {
    match input {
        Input::Client(_) | Input::Connection(_) => true,
        Input::Model(event) => matches!(
            event,
            ModelEvent::Ready { .. }
                | ModelEvent::SpeechStarted
                | ModelEvent::InputTranscript { .. }
                | ModelEvent::TurnComplete { idle: true, .. }
                | ModelEvent::Interrupted
        ),
        _ => false,
    }
}

/// Whether the model or the end of its connection can be heard in this, so that it says something of earlier answers.
fn is_heard(input: &Input) -> bool {
    match input {
        Input::Connection(_) => true,
        Input::Model(event) => matches!(
            event,
            ModelEvent::Calls(_)
                | ModelEvent::OutputTranscript { .. }
                | ModelEvent::AudioStarted
                | ModelEvent::GenerationComplete
                | ModelEvent::TurnComplete { .. }
                | ModelEvent::Interrupted
        ),
        _ => false,
    }
}

fn state_of_end(event: &SessionEvent, record: &CallRecord) -> State {
    let error = record.error_type();
    match (event, error) {
        (SessionEvent::CallCancelled(_), _) | (_, Some(ErrorType::Cancelled)) => State::Cancelled,
        (_, Some(ErrorType::OutcomeUnknown)) => State::FinishedUnknown,
        (SessionEvent::CallFinished(_), None) => State::Finished,
        (_, Some(ErrorType::RateLimit)) => State::RejectedRateLimit,
        (SessionEvent::CallFinished(_), Some(ErrorType::Transient)) => State::RejectedStore,
        (SessionEvent::CallFinished(_), Some(_)) => State::FinishedFailed,
        (_, Some(ErrorType::Validation)) => State::RejectedValidation,
        (_, Some(ErrorType::NotFound)) => State::RejectedNotFound,
        (_, Some(ErrorType::ModeRestricted)) => State::RejectedMode,
        (_, Some(ErrorType::BudgetExceeded)) => State::RejectedBudget,
        (_, Some(ErrorType::LoopDetected)) => State::RejectedLoop,
        (_, Some(ErrorType::Conflict)) => State::RejectedConflict,
        (_, Some(_)) | (_, None) => State::ConfirmationAnswered,
    }
}
